"""The tables of a BlockMask, with NumPy arrays in place of PyTorch tensors. Kernels run on the CPU."""
import types

import numpy as np
import pytest

import flashc
from flashc import _flex
from reference import assert_close, attention, inputs


class Tensor(np.ndarray):
    """An array with the tensor methods that making the tables needs."""
    _version = 0

    def __array_finalize__(self, parent):
        self._version = 0

    def new_ones(self, shape):
        return tensor(np.ones(shape, self.dtype))

    def new_zeros(self, shape):
        return tensor(np.zeros(shape, self.dtype))

    def long(self):
        return self.astype(np.int64)

    def masked_fill(self, where, value):
        return tensor(np.where(where, self.dtype.type(value), self))

    def scatter_(self, dim, index, value):
        np.put_along_axis(self, index, value, dim)
        return self


def tensor(x):
    return np.ascontiguousarray(x).view(Tensor)


class BlockMask:
    """The attributes of PyTorch's BlockMask that flashc reads."""

    def __init__(self, mask_mod, lengths, partial, full=None, size=(128, 128)):
        self.mask_mod, self.seq_lengths, self.BLOCK_SIZE = mask_mod, lengths, size
        self.kv_num_blocks, self.kv_indices = lists(partial)
        self.full_kv_num_blocks, self.full_kv_indices = (None, None) if full is None else lists(full)


def lists(blocks):
    """Returns how many blocks each row lists, and their indices. Indices after that number are out of range, since
    nothing may read them."""
    blocks = np.asarray(blocks)
    order = np.argsort(-blocks, axis=-1, kind="stable").astype(np.int32)
    counts = blocks.sum(-1).astype(np.int32)
    order[np.arange(blocks.shape[-1]) >= counts[..., None]] = 10**6
    return tensor(counts), tensor(order)


def run(q, k, v, **keywords):
    return flashc.attention(q, k, v, **keywords)


def check(rng, block_mask, keep, follows=None, batch=2, heads=4):
    queries, keys = block_mask.seq_lengths
    q, k, v = inputs(rng, batch, heads, heads, queries, keys, 16)
    mask = _flex.mask_of(block_mask, queries, keys, follows)
    assert_close(flashc.attention(q, k, v, mask=mask, return_lse=True), attention(q, k, v, keep, None, None))


def wanted(partial, full, rows, columns, mask_mod):
    """Returns the mask that FlexAttention computes with."""
    def keep(b, h, i, j):
        def at(blocks):
            blocks = np.asarray(blocks)
            return blocks[b % blocks.shape[0], h % blocks.shape[1], i // rows, j // columns] > 0
        kept = at(partial) & mask_mod(b, h, i, j)
        return kept if full is None else kept | at(full)
    return keep


def test_a_table_that_says_less_than_the_function(rng):
    partial = np.eye(2, dtype=int)[None, None]
    mask_mod = lambda b, h, i, j: j < 50  # noqa: E731
    check(rng, BlockMask(mask_mod, (60, 60), partial, None, (32, 32)), wanted(partial, None, 32, 32, mask_mod))


@pytest.mark.parametrize("size, outer, has_full", [
    ((16, 16), (1, 1), False), ((16, 16), (2, 4), True), ((32, 16), (2, 1), False), ((32, 16), (1, 1), True),
    ((16, 64), (1, 4), False), ((16, 64), (2, 1), True), ((7, 5), (2, 4), False), ((7, 5), (1, 4), True)])
def test_tables_of_any_shape(rng, size, outer, has_full):
    shape = (*outer, -(-60 // size[0]), -(-90 // size[1]))
    kinds = rng.integers(0, 3 if has_full else 2, shape)
    partial, full = (kinds == 1).astype(int), (kinds == 2).astype(int) if has_full else None
    mask_mod = lambda b, h, i, j: (i + j + h) % 3 > 0  # noqa: E731
    check(rng, BlockMask(mask_mod, (60, 90), partial, full, size), wanted(partial, full, *size, mask_mod))


def test_full_blocks_are_not_masked_and_may_be_empty(rng):
    nothing, everything = np.zeros((1, 1, 2, 3), int), np.ones((1, 1, 2, 3), int)
    never = lambda b, h, i, j: j < 0  # noqa: E731
    check(rng, BlockMask(never, (60, 90), nothing, everything, (32, 32)), lambda b, h, i, j: j >= 0)
    causal = lambda b, h, i, j: j <= i  # noqa: E731
    check(rng, BlockMask(causal, (60, 90), everything, nothing, (32, 32)), causal)


def test_fewer_places_than_blocks(rng):
    """A row lists at most as many blocks as its indices have places."""
    partial = np.array([[[[0, 0, 1], [1, 0, 0]]]])
    block_mask = BlockMask(lambda b, h, i, j: j <= i + 70, (60, 90), partial, None, (32, 32))
    block_mask.kv_indices = tensor(block_mask.kv_indices[..., :1])
    check(rng, block_mask, wanted(partial, None, 32, 32, block_mask.mask_mod))


def dense_follows(calls):
    def follows(mask_mod, table, size, lengths):
        i, j = np.ogrid[:lengths[0], :lengths[1]]
        calls.append(mask_mod)
        return all(bool(_flex.is_true_to(table[b, h], size, 0, tensor(np.broadcast_to(mask_mod(b, h, i, j), lengths))))
                   for b in range(table.shape[0]) for h in range(table.shape[1]))
    return follows


def tables_of(mask_mod, lengths, size):
    """Returns the tables that create_block_mask makes. A block is full if every existing pair in it is kept."""
    i, j = np.ogrid[:lengths[0], :lengths[1]]
    kept = np.broadcast_to(mask_mod(0, 0, i, j), lengths)
    rows, columns = (-(-length // one) for length, one in zip(lengths, size))
    blocks = [[kept[r * size[0]:(r + 1) * size[0], c * size[1]:(c + 1) * size[1]] for c in range(columns)]
              for r in range(rows)]
    full = np.array([[block.all() for block in row] for row in blocks]).astype(int)
    partial = np.array([[block.any() for block in row] for row in blocks]).astype(int) - full
    return partial[None, None], full[None, None]


def function_of(mask):
    """Returns the mask of a plan, or the mask itself."""
    return getattr(mask, "mask", mask)


def test_a_block_mask_is_a_plan_from_its_second_call_on():
    ids = tensor(np.arange(60) // 20)
    same = lambda b, h, i, j: ids[i] == ids[j]  # noqa: E731
    block_mask = BlockMask(same, (60, 60), *tables_of(same, (60, 60), (16, 16)), (16, 16))
    first, second, third = (_flex.mask_of(block_mask, 60, 60) for _ in range(3))
    assert not hasattr(first, "number") and second is third and second.number > 0
    ids._version += 1  # as after a write to the tensor that the function reads
    first, second = (_flex.mask_of(block_mask, 60, 60) for _ in range(2))
    assert not hasattr(first, "number") and second.number > third.number


def test_tables_that_follow_from_the_function_are_not_read():
    causal = lambda b, h, i, j: j <= i  # noqa: E731
    partial, full = tables_of(causal, (60, 90), (16, 16))
    calls = []
    block_mask = BlockMask(causal, (60, 90), partial, full, (16, 16))
    for _ in range(3):
        assert function_of(_flex.mask_of(block_mask, 60, 90, dense_follows(calls))) is causal
    assert len(calls) == 1
    full[0, 0, 3, 0], partial[0, 0, 3, 0] = 0, 0
    less = BlockMask(causal, (60, 90), partial, full, (16, 16))
    assert function_of(_flex.mask_of(less, 60, 90, dense_follows(calls))) is not causal
    full[0, 0, 3, 0], full[0, 0, 0, 1] = 1, 1
    more = BlockMask(causal, (60, 90), partial, full, (16, 16))
    assert function_of(_flex.mask_of(more, 60, 90, dense_follows(calls))) is not causal


def test_what_changes_after_the_tables_were_looked_at(rng):
    ids = tensor(np.arange(60) // 20)
    same = lambda b, h, i, j: ids[i] == ids[j]  # noqa: E731
    partial, full = tables_of(same, (60, 60), (16, 16))
    block_mask, calls = BlockMask(same, (60, 60), partial, full, (16, 16)), []
    follows = dense_follows(calls)
    assert function_of(_flex.mask_of(block_mask, 60, 60, follows)) is same
    ids[:] = 0
    ids._version += 1
    assert function_of(_flex.mask_of(block_mask, 60, 60, follows)) is not same
    assert len(calls) == 2
    block_mask.kv_num_blocks[...] = 0
    block_mask.kv_num_blocks._version += 1
    check(rng, block_mask, wanted(np.zeros_like(partial), full, 16, 16, same), follows)


def test_a_function_of_heads_does_not_follow_from_one_table():
    by_head = lambda b, h, i, j: j <= i + h  # noqa: E731
    block_mask, calls = BlockMask(by_head, (60, 60), *tables_of(by_head, (60, 60), (16, 16)), (16, 16)), []
    assert _flex.mask_of(block_mask, 60, 60, dense_follows(calls)) is not by_head and not calls


def test_noop_and_no_block_mask(rng):
    noop = types.FunctionType((lambda b, h, i, j: None).__code__, {"__name__": "torch.nn.attention"}, "noop_mask")
    whole = BlockMask(noop, (1, 1), np.ones((1, 1, 1, 1), int), None, (1 << 30, 1 << 30))
    assert _flex.mask_of(whole, 60, 90) is None
    nothing = BlockMask(noop, (60, 90), np.zeros((1, 1, 1, 1), int), None, (1 << 30, 1 << 30))
    check(rng, nothing, lambda b, h, i, j: j < 0)
