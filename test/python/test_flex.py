"""The arguments of FlexAttention, with stand-ins for classes that PyTorch before 2.5 lacks. Kernels run on the CPU."""
import functools
import re
import types
from typing import NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import flashc  # noqa: E402
from flashc import _flex, masks  # noqa: E402
from flashc._attention import attend  # noqa: E402
from flashc._runtime.options import Operands, Options  # noqa: E402
from reference import assert_close, attention, inputs  # noqa: E402


class BlockMask:
    """The attributes of PyTorch's BlockMask that flashc reads. `blocks` says which blocks are listed (None: all). No
    block is listed as full."""

    def __init__(self, mask_mod, lengths, blocks=None, size=(128, 128)):
        self.mask_mod, self.seq_lengths, self.BLOCK_SIZE = mask_mod, lengths, size
        if blocks is None:
            blocks = torch.ones((1, 1, *(-(-length // one) for length, one in zip(lengths, size))), dtype=torch.int32)
        self.kv_num_blocks = blocks.sum(-1)
        self.kv_indices = torch.argsort(blocks, dim=-1, descending=True).to(torch.int32)
        self.full_kv_num_blocks = self.full_kv_indices = None


class AuxRequest(NamedTuple):
    lse: bool = False
    max_scores: bool = False


def noop_mask(batch, head, token_q, token_kv):
    return batch.new_ones(size=(), dtype=torch.bool, device=batch.device)


def flex(q, k, v, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False, kernel_options=None,
         return_aux=None):
    operands, options, returned = _flex.read(
        Operands(q, k, v, block_mask, score_mod), Options(scale=scale, enable_gqa=enable_gqa, return_lse=return_lse),
        kernel_options, return_aux)
    result = attend(operands, options)
    return returned(*(result if options.return_lse else (result,)))


@pytest.fixture
def qkv(rng):
    return inputs(rng, 2, 4, 2, 60, 90, 16)


def check(qkv, keep=None, rescore=None, scale=None, **keywords):
    got = flex(*map(torch.tensor, qkv), enable_gqa=True, return_lse=True, scale=scale, **keywords)
    assert_close(got, attention(*qkv, keep, rescore, scale))


DOCUMENTS = torch.tensor([0] * 30 + [1] * 20 + [2] * 40)
SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])
TABLE = torch.linspace(-1, 1, 90)


class Holder:
    table = TABLE


holder = Holder()

SCORES = {
    "relative": (lambda score, b, h, q_idx, kv_idx: score + (q_idx - kv_idx), lambda s, b, h, i, j: s + (i - j)),
    "slopes": (lambda score, b, h, q_idx, kv_idx: score + SLOPES[h] * (kv_idx - q_idx),
               lambda s, b, h, i, j: s + SLOPES.numpy()[h] * (j - i)),
    "cap": (lambda score, b, h, q_idx, kv_idx: 5 * torch.tanh(score / 5), lambda s, b, h, i, j: 5 * np.tanh(s / 5)),
    "mask as score": (lambda score, b, h, q_idx, kv_idx: torch.where(q_idx >= kv_idx, score, -float("inf")),
                      lambda s, b, h, i, j: np.where(i >= j, s, -np.inf)),
    "behind an attribute": (lambda score, b, h, q_idx, kv_idx: score + holder.table[kv_idx],
                            lambda s, b, h, i, j: s + TABLE.numpy()[j]),
    "types": (lambda score, b, h, q_idx, kv_idx: score + (q_idx > kv_idx).to(torch.float32) * h.to(dtype=torch.int32),
              lambda s, b, h, i, j: s + (i > j) * h),
}


@pytest.mark.parametrize("name", SCORES)
def test_scores(qkv, name):
    check(qkv, rescore=SCORES[name][1], score_mod=SCORES[name][0])


def test_masks(qkv):
    def same_document(b, h, q_idx, kv_idx):
        return DOCUMENTS[q_idx] == DOCUMENTS[kv_idx]

    def both(b, h, q_idx, kv_idx):
        return same_document(b, h, q_idx, kv_idx) & torch.logical_or(q_idx >= kv_idx, kv_idx < 3)
    ids = DOCUMENTS.numpy()
    check(qkv, lambda b, h, i, j: ids[i] == ids[j], block_mask=BlockMask(same_document, (60, 90)))
    check(qkv, lambda b, h, i, j: (ids[i] == ids[j]) & ((i >= j) | (j < 3)), block_mask=BlockMask(both, (60, 90)))
    check(qkv, lambda b, h, i, j: i >= j, block_mask=masks.causal("top-left"))
    check(qkv, lambda b, h, i, j: i >= j, block_mask=BlockMask(masks.causal("top-left"), (60, 90)))
    check(qkv, lambda b, h, i, j: i >= j, SCORES["slopes"][1], 0.3, score_mod=SCORES["slopes"][0],
          block_mask=BlockMask(masks.causal("top-left"), (60, 90)), kernel_options={"BLOCK_M": 64})


def test_masks_on_tensors():
    axes = [torch.arange(extent).view([-1 if dim == place else 1 for dim in range(4)])
            for place, extent in enumerate((2, 1, 60, 90))]
    b, h, i, j = axes
    for mask, want in ((masks.causal("top-left") & ~masks.chunked(7, "top-left"), (j <= i) & (i // 7 != j // 7)),
                       (masks.sink_window(3, 9, "top-left"), (j <= i) & ((i - j <= 9) | (j < 3))),
                       (masks.key_padding(torch.tensor([5, 50])), j < torch.tensor([5, 50]).view(2, 1, 1, 1)),
                       (masks.documents(DOCUMENTS, sorted=True), DOCUMENTS[i] == DOCUMENTS[j]),
                       (masks.packed(torch.tensor([0, 30, 30, 60]), torch.tensor([0, 50, 60, 90]), causal=True),
                        torch.where(i < 30, j <= i + 20, (j >= 60) & (j <= i + 30)))):
        got = mask(b, h, i, j)
        assert got.dtype == torch.bool and torch.equal(got.expand(2, 1, 60, 90), want.expand(2, 1, 60, 90)), mask


def test_masks_on_vmapped_positions():
    """Calls masks as create_block_mask does: with tensors without dimensions, under vmap."""
    if not hasattr(torch, "vmap"):
        pytest.skip("PyTorch before 2.0 has no vmap")
    for mask in (masks.causal("top-left"), masks.documents(DOCUMENTS), masks.key_padding(torch.tensor([5, 50])),
                 masks.packed(torch.tensor([0, 30, 90]),
                              causal=True), masks.block_diffusion(45, 8) | masks.chunked(3, "top-left")):
        function = mask
        for place in (3, 2, 1, 0):
            dims = tuple(0 if dim == place else None for dim in range(4))
            function = torch.vmap(function, in_dims=dims)
        axes = [torch.arange(extent) for extent in (2, 1, 60, 90)]
        want = mask(*(axis.view([-1 if dim == place else 1 for dim in range(4)]) for place, axis in enumerate(axes)))
        assert torch.equal(function(*axes), want.expand(2, 1, 60, 90))


def test_tables_alone(qkv):
    blocks = torch.tensor([[[[1, 0, 1]], [[1, 1, 0]], [[1, 0, 1]], [[0, 0, 0]]]], dtype=torch.int32)
    for function in (None, types.FunctionType(noop_mask.__code__, {**globals(), "__name__": "torch.nn.attention"},
                                              "noop_mask")):
        block_mask = BlockMask(function, (60, 90), blocks, (64, 32))
        check(qkv, lambda b, h, i, j: blocks.numpy()[0, h, i // 64, j // 32] > 0, block_mask=block_mask)
    check(qkv, block_mask=BlockMask(None, (1, 1), size=(1 << 30, 1 << 30)))
    check(qkv, block_mask=BlockMask(noop_mask, (60, 90)))  # a function of another library, which flashc traces


def test_keys_of_one_batch(qkv):
    q, k, v = qkv
    got = flex(torch.tensor(q), torch.tensor(k[:1]), torch.tensor(v[:1]), enable_gqa=True, return_lse=True,
               block_mask=BlockMask(masks.causal("top-left"), (60, 90)))
    assert_close(got, attention(q, np.repeat(k[:1], 2, 0), np.repeat(v[:1], 2, 0), lambda b, h, i, j: j <= i))


def test_results(qkv):
    q, k, v = map(torch.tensor, qkv)
    call = functools.partial(flex, q, k, v, enable_gqa=True)
    o, lse = call(return_lse=True)
    assert torch.equal(call(), o)
    both, only = call(return_aux=AuxRequest(lse=True)), call(return_aux=AuxRequest())
    assert torch.equal(both[0], o) and torch.equal(both[1].lse, lse) and both[1].max_scores is None
    assert torch.equal(only[0], o) and only[1].lse is None


@pytest.mark.parametrize("changes, error, words", [
    ({"q": torch.zeros(4, 60, 16)}, flashc.ArgumentError, "query of 4 dimensions"),
    ({"k": torch.zeros(2, 4, 90, 8)}, flashc.ArgumentError, "one embedding dimension, got 16 and 8"),
    ({"k": torch.zeros(3, 4, 90, 16), "v": torch.zeros(3, 4, 90, 16)}, flashc.ArgumentError, "one batch"),
    ({"k": torch.zeros(2, 2, 90, 16), "v": torch.zeros(2, 2, 90, 16)}, flashc.ArgumentError, "as many heads"),
    ({"block_mask": BlockMask(masks.causal("top-left"), (64, 90))}, flashc.ArgumentError,
     "made for 60 queries and 90 keys, got one for 64 and 90"),
    ({"block_mask": 3}, flashc.UnsupportedTypeError, "block_mask to be a BlockMask"),
    ({"score_mod": 3}, flashc.UnsupportedTypeError, "score_mod to be a function"),
    ({"kernel_options": 3}, flashc.UnsupportedTypeError, "kernel_options to be a dictionary"),
    ({"return_aux": AuxRequest(max_scores=True)}, flashc.ArgumentError, "without max_scores"),
    ({"return_aux": AuxRequest(lse=True), "return_lse": True}, flashc.ArgumentError, "got both"),
    ({"block_mask": lambda b, h, i, j: i if i > j else j}, flashc.TraceError, "test_flex.py.*no truth value"),
    ({"block_mask": lambda b, h, i, j: TABLE + i > 0}, flashc.TraceError, "expected an element of an array"),
    ({"block_mask": lambda b, h, i, j: holder.table + i > 0}, flashc.TraceError, r"an array of shape \(90,\)"),
    ({"block_mask": lambda b, h, i, j: i.to("nothing") > 3}, flashc.TraceError,
     "a type of numbers, integers or conditions, got 'nothing'"),
    ({"block_mask": lambda b, h, i, j: b.new_ones((3,)) > 0}, flashc.TraceError, "without dimensions"),
])
def test_refusals(changes, error, words):
    x = torch.zeros(2, 4, 60, 16)
    y = torch.zeros(2, 4, 90, 16)
    with pytest.raises(error) as caught:
        flex(**{"q": x, "k": y, "v": y, **changes})
    # Searches the first line only: a later line may quote the user's code, which contains the same words.
    assert re.search(words, str(caught.value).split("\n")[0])


def test_functions_that_pytorch_joins(qkv):
    """and_masks is PyTorch's own function, so flashc does not search its closure for tensors."""
    def and_masks(*mask_mods):
        def and_mask(b, h, q_idx, kv_idx):
            result = b.new_ones((), dtype=torch.bool)
            for mask in mask_mods:
                result = result & mask(b, h, q_idx, kv_idx)
            return result
        and_mask.__module__ = "torch.nn.attention.flex_attention"
        return and_mask
    ids = DOCUMENTS
    check(qkv, lambda b, h, i, j: (ids.numpy()[i] == ids.numpy()[j]) & (j <= i),
          block_mask=and_masks(lambda b, h, i, j: ids[i] == ids[j], masks.causal("top-left")))
