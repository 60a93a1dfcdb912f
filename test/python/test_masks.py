"""flashc.masks on the CPU: the pairs that every mask keeps, against rules for one query and one key; compositions,
refusals."""
import functools
import math
import operator
import re
import unittest.mock

import numpy as np
import pytest

import flashc
from flashc import masks, ops
from flashc._trace import mask_arguments
from flashc._trace.trace import trace

SHAPES = [(2, 1, 64, 128), (2, 1, 67, 133), (2, 1, 131, 67), (2, 1, 1, 1), (2, 3, 5, 90)]


def kept(mask, shape):
    """Returns the pairs that a kernel keeps. All scores are equal. Eight keys share a column of the values, in which
    each key is a bit of its own."""
    b, h, nq, nk = shape
    q, k, keys = np.zeros((b, h, nq, 8), np.float32), np.ones((b, h, nk, 8), np.float32), np.arange(nk)
    v = np.zeros((b, h, nk, 32), np.float32)
    v[..., keys, keys // 8] = 2.0 ** (keys % 8)
    o, lse = flashc.attention(q, k, v, mask=mask, return_lse=True)
    assert np.array_equal(lse == -np.inf, ~(o > 0).any(-1))
    sums = o * np.round(np.exp(lse))[..., None]
    assert np.allclose(sums, np.round(sums), atol=0.01)
    return np.round(sums).astype(int)[..., keys // 8] >> keys % 8 & 1 == 1


def by_rule(rule, shape):
    """Calls `rule(b, h, i, j)` for the numbers of each pair."""
    keep = np.zeros(shape, bool)
    for place in np.ndindex(*shape):
        keep[place] = rule(*place)
    return keep


def in_numpy(mask, shape):
    """Evaluates the mask for arrays of positions, where the numbers of queries and keys are known."""
    def shifted(i, align):
        return place(i, shape[3] - shape[2] if isinstance(align, str) and align == "bottom-right" else align)
    place = mask_arguments.shifted
    with unittest.mock.patch.object(mask_arguments, "shifted", shifted):
        return in_positions(mask, shape)


def in_positions(mask, shape):
    """Evaluates the mask for arrays of positions, where the numbers of queries and keys are unknown."""
    return np.broadcast_to(mask(*np.ogrid[tuple(slice(extent) for extent in shape)]), shape)


def check(mask, rule, shapes=SHAPES, is_eager=True):
    for shape in shapes:
        want = by_rule(rule, shape)
        assert np.array_equal(kept(mask, shape), want), shape
        if is_eager:
            assert np.array_equal(in_numpy(mask, shape), want), shape


# --- Masks of positions -----------------------------------------------------------------------------------------------

def in_diffusion(n, size):
    def rule(b, h, i, j):
        if i < n and j < n:
            return i // size == j // size
        if i < n:
            return (j - n) // size < i // size
        return j >= n and (j - n) // size <= (i - n) // size
    return rule


def in_continuation(prefix, size):
    def rule(b, h, i, j):
        if j > i:
            return False
        return j < prefix or i >= prefix and (i - prefix) // size == (j - prefix) // size
    return rule


def in_neighborhood(shape, sizes, dilations):
    """Returns NATTEN's rule: the window lies around a centre that is far enough from both ends of its dilation
    group."""
    def rule(b, h, i, j):
        if j >= math.prod(shape):
            return False
        for n, size, step in zip(shape[::-1], sizes[::-1], dilations[::-1]):
            (i, x), (j, y) = divmod(i, n), divmod(j, n)
            center = min(max(x // step, size // 2), len(range(x % step, n, step)) - 1 - (size - 1) // 2)
            if x % step != y % step or not center - size // 2 <= y // step <= center + (size - 1) // 2:
                return False
        return True
    return rule


LENGTHS = np.array([90, 3])
SIZE, NEGATIVE = np.array(48), np.array(-40)
TOP = "top-left"
POSITIONS = {
    "causal": (masks.causal(TOP), lambda b, h, i, j: j <= i),
    "shifted causal": (masks.causal(7), lambda b, h, i, j: j <= i + 7),
    "causal by an argument": (masks.causal(np.int64(-5)), lambda b, h, i, j: j <= i - 5),
    "window": (masks.sliding_window(20, align=TOP), lambda b, h, i, j: j in range(i - 20, i + 1)),
    "window on both sides": (masks.sliding_window(9, 30, TOP), lambda b, h, i, j: j in range(i - 9, i + 31)),
    "window to the left": (masks.sliding_window(16, None, TOP), lambda b, h, i, j: i - j <= 16),
    "window to the right": (masks.sliding_window(None, 3, TOP), lambda b, h, i, j: j - i <= 3),
    "window of arguments": (masks.sliding_window(np.int32(64), np.int64(2), TOP), lambda b, h, i, j: -64 <= j - i <= 2),
    "shifted window": (masks.sliding_window(4, 4, 60), lambda b, h, i, j: abs(j - i - 60) <= 4),
    "prefix": (masks.prefix_lm(70, TOP), lambda b, h, i, j: j <= i or j < 70),
    "prefix of each batch": (masks.prefix_lm(LENGTHS, TOP), lambda b, h, i, j: j <= i or j < LENGTHS[b]),
    "chunks": (masks.chunked(48, TOP), lambda b, h, i, j: any(x <= i < x + 48 and x <= j < x + 48
                                                              for x in range(0, 256, 48))),
    "shifted chunks": (masks.chunked(64).aligned(-30), lambda b, h, i, j: (i - 30) // 64 == j // 64),
    "blocks": (masks.block_causal(32, TOP), lambda b, h, i, j: j < (i // 32 + 1) * 32),
    "sinks": (masks.sink_window(4, 50, TOP), lambda b, h, i, j: j <= i and (i - j <= 50 or j < 4)),
    "sinks of arguments": (masks.sink_window(np.int64(3), np.int64(9), TOP),
                           lambda b, h, i, j: j <= i and (i - j <= 9 or j < 3)),
    "dilated": (masks.dilated_window(40, 4, align=TOP), lambda b, h, i, j: j in range(i, i - 41, -4)),
    "dilated on both sides": (masks.dilated_window(30, 3, 7, TOP),
                              lambda b, h, i, j: (i - j) % 3 == 0 and -7 <= i - j <= 30),
    "padding": (masks.key_padding(LENGTHS), lambda b, h, i, j: j < LENGTHS[b]),
    "padding of one length": (masks.key_padding(77), lambda b, h, i, j: j < 77),
    "continuations": (masks.shared_prefix(50, 33, TOP), in_continuation(50, 33)),
    "continuations of each batch": (masks.shared_prefix(LENGTHS, 20, TOP),
                                    lambda b, h, i, j: in_continuation(LENGTHS[b], 20)(b, h, i, j)),
    "diffusion": (masks.block_diffusion(96, 16), in_diffusion(96, 16)),
    "chunks of a size in memory": (masks.Mask(lambda b, h, i, j: i // SIZE == j // SIZE),
                                   lambda b, h, i, j: i // 48 == j // 48),
    "blocks of a size in memory": (masks.Mask(lambda b, h, i, j: (j - 5) // SIZE <= (i - 5) // SIZE),
                                   lambda b, h, i, j: (j - 5) // 48 <= (i - 5) // 48),
    "blocks of a negative size": (masks.Mask(lambda b, h, i, j: j // NEGATIVE < i // NEGATIVE),
                                  lambda b, h, i, j: j // -40 < i // -40),
    "some blocks in memory": (masks.Mask(lambda b, h, i, j: (i // NEGATIVE > -4) & (j // SIZE >= 1)),
                              lambda b, h, i, j: i // -40 > -4 and j // 48 >= 1),
    "diffusion of unequal blocks": (masks.block_diffusion(np.int64(70), 24), in_diffusion(70, 24)),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_mask_of_positions(name):
    check(*POSITIONS[name])


@pytest.mark.parametrize("shape, sizes, dilations", [
    ((211,), (9,), (1,)), ((197,), (10,), (5,)), ((17, 13), (4, 7), (3, 1)), ((5, 7, 6), (2, 2, 2), (2, 1, 3))])
def test_mask_of_grid(shape, sizes, dilations):
    mask = masks.neighborhood(shape, sizes, dilations)
    check(mask, in_neighborhood(shape, sizes, dilations), [(1, 1, 131, 197)])
    spec = flashc.ArraySpec((2, 2, 512, 64), "bf16")
    assert ".entry" in flashc.compile(spec, spec, spec, mask=mask).ptx


@pytest.mark.parametrize("names", [list(POSITIONS)[first::7] for first in range(7)], ids=", ".join)
def test_masks_have_kernels(names):
    """Compiles several masks in one kernel."""
    spec = flashc.ArraySpec((2, 2, 512, 64), "bf16")
    mask = functools.reduce(operator.and_, [POSITIONS[name][0] for name in names])
    assert ".entry" in flashc.compile(spec, spec, spec, mask=mask).ptx


def test_lengths_are_no_constants(no_disk):
    mask = masks.causal("bottom-right") & (lambda b, h, i, j: j < ops.key_length() - 2)
    for shape in SHAPES:
        check(mask, lambda b, h, i, j: j <= i + shape[3] - shape[2] and j < shape[3] - 2, [shape], is_eager=False)
    assert flashc.statistics().compilations == 1


def test_lengths_in_a_score():
    q = np.random.default_rng(0).standard_normal((1, 1, 5, 8)).astype(np.float32)
    o, lse = flashc.attention(q, q[:, :, :3], q[:, :, :3], score=lambda s, b, h, i, j: s * 0 + ops.query_length() * j,
                              return_lse=True)
    assert np.allclose(lse, np.log(np.exp(5.0 * np.arange(3)).sum()))


def test_numbers_are_constants_and_scalars_are_not(no_disk):
    for left in (3, 4):
        check(masks.sliding_window(np.int64(left), align=TOP), lambda b, h, i, j: 0 <= i - j <= left, SHAPES[:1])
    assert flashc.statistics().compilations == 1
    for left in (3, 4):
        check(masks.sliding_window(left, align=TOP), lambda b, h, i, j: 0 <= i - j <= left, SHAPES[:1])
    assert flashc.statistics().compilations == 3


# --- Masks of data ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", ["int32", "uint8"])  # test_ranges.py has the other types
def test_documents_in_any_order(rng, dtype):
    ids = rng.integers(0, 5, 256).astype(dtype)
    check(masks.documents(ids), lambda b, h, i, j: ids[i] == ids[j])


def test_documents_of_each_batch(rng):
    ids, key_ids = rng.integers(-3, 3, (2, 256)), rng.integers(-3, 3, (2, 256))
    check(masks.documents(ids), lambda b, h, i, j: ids[b, i] == ids[b, j])
    check(masks.documents(ids, key_ids), lambda b, h, i, j: ids[b, i] == key_ids[b, j])


def test_continuations_by_number(rng):
    ids = rng.integers(0, 4, 256)
    check(masks.shared_prefix(40, ids, TOP), lambda b, h, i, j: j <= i and (j < 40 or ids[i] == ids[j]))


# --- Compositions -----------------------------------------------------------------------------------------------------

def test_compositions(rng):
    table = rng.random(256) < 0.3
    causal, chunked = masks.causal(TOP), masks.chunked(40, TOP)
    check(causal & chunked, lambda b, h, i, j: j <= i and i // 40 == j // 40)
    check(~causal | chunked, lambda b, h, i, j: j > i or i // 40 == j // 40)
    check(~(causal | masks.key_padding(LENGTHS)), lambda b, h, i, j: j > i and j >= LENGTHS[b])
    check(causal & (lambda b, h, i, j: table[j] | (h == 1)), lambda b, h, i, j: j <= i and (table[j] or h == 1))
    check((lambda b, h, i, j: table[i]) | causal, lambda b, h, i, j: j <= i or table[i])
    check((lambda b, h, i, j: table[i]) & ~causal, lambda b, h, i, j: j > i and table[i])
    check(masks.Mask(lambda b, h, i, j: table[j]) & chunked, lambda b, h, i, j: table[j] and i // 40 == j // 40)
    check(lambda b, h, i, j: causal(b, h, i, j) & table[j], lambda b, h, i, j: j <= i and table[j])
    check((causal & masks.documents(table.astype("i4"))).aligned(3),
          lambda b, h, i, j: j <= i + 3 and table[min(i + 3, 255)] == table[j], is_eager=False)


def compose(rng):
    """Returns a random composition of masks of positions, and its rule."""
    atoms = [POSITIONS[name] for name in POSITIONS]
    mask, rule = atoms[rng.integers(len(atoms))]
    for _ in range(rng.integers(1, 4)):
        other, also = atoms[rng.integers(len(atoms))]
        kind = rng.integers(3)
        if kind == 0:
            mask, rule = mask & other, lambda *place, x=rule, y=also: x(*place) and y(*place)
        elif kind == 1:
            mask, rule = mask | other, lambda *place, x=rule, y=also: x(*place) or y(*place)
        else:
            mask, rule = ~mask, lambda *place, x=rule: not x(*place)
    print(mask)
    return mask, rule


def test_random_compositions(rng):
    """Checks the pairs that a kernel keeps; test_classes.py checks the tiles."""
    check(*compose(rng), SHAPES[1:2])


def test_keys_beyond_a_grid_are_not_seen():
    grid, rule = masks.neighborhood((7, 9), 3), in_neighborhood((7, 9), (3, 3), (1, 1))
    got = kept(grid, (1, 1, 63, 70))
    assert np.array_equal(got, by_rule(rule, (1, 1, 63, 70))) and np.all(got.sum(-1) == 9)


def test_constant_functions():
    everything, nothing = masks.Mask(lambda b, h, i, j: True), masks.Mask(lambda b, h, i, j: False)
    check(masks.causal(TOP) & everything, lambda b, h, i, j: j <= i)
    check(masks.causal(TOP) | nothing, lambda b, h, i, j: j <= i)
    check(~everything | masks.chunked(9, TOP), lambda b, h, i, j: i // 9 == j // 9)


def test_masks_say_what_they_are():
    assert repr(masks.causal() & ~masks.chunked(8)) == "<flashc.masks (causal() & ~(chunked(8)))>"
    assert repr(masks.key_padding(LENGTHS).aligned("bottom-right")) == \
        "<flashc.masks (key_padding(...)).aligned('bottom-right')>"
    assert repr(masks.sink_window(4, np.int64(3))) == "<flashc.masks sink_window(4, ...)>"
    assert repr(masks.causal(3) | masks.causal(TOP)) == \
        "<flashc.masks ((causal()).aligned(3) | (causal()).aligned('top-left'))>"
    assert "lambda" in repr(masks.Mask(lambda b, h, i, j: j < 3))


# --- Refusals ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("make, error, words", [
    (lambda: masks.causal("top"), flashc.ArgumentError, "align to be 'bottom-right', 'top-left' or an integer"),
    (lambda: masks.causal(1.5), flashc.UnsupportedTypeError, "align to be an array of integers, got 1.5"),
    (lambda: masks.causal(np.arange(3)), flashc.ArgumentError, r"align of 0 dimensions, got shape \(3,\)"),
    (lambda: masks.sliding_window(None, None), flashc.ArgumentError, "None for both"),
    (lambda: masks.sliding_window(-1), flashc.ArgumentError, "left of at least 0, got -1"),
    (lambda: masks.sliding_window(3, -2), flashc.ArgumentError, "right of at least 0, got -2"),
    (lambda: masks.sliding_window(0.5), flashc.UnsupportedTypeError, "left to be an array of integers, got 0.5"),
    (lambda: masks.sliding_window(True), flashc.UnsupportedTypeError, "left to be an integer, got True"),
    (lambda: masks.sliding_window(np.float32(3)), flashc.UnsupportedTypeError, "left of int8, uint8, int32 or int64"),
    (lambda: masks.sliding_window(LENGTHS), flashc.ArgumentError, r"left of 0 dimensions, got shape \(2,\)"),
    (lambda: masks.prefix_lm(-3), flashc.ArgumentError, "prefix of at least 0"),
    (lambda: masks.prefix_lm("3"), flashc.UnsupportedTypeError, "prefix to be an array of integers, got '3'"),
    (lambda: masks.prefix_lm(np.ones((2, 3), int)), flashc.ArgumentError, "prefix of 0 to 1 dimensions"),
    (lambda: masks.chunked(0), flashc.ArgumentError, "size of at least 1, got 0"),
    (lambda: masks.chunked(2.0), flashc.UnsupportedTypeError, "size to be an integer, got 2.0"),
    (lambda: masks.block_causal(-4), flashc.ArgumentError, "size of at least 1"),
    (lambda: masks.sink_window(-1, 4), flashc.ArgumentError, "sinks of at least 0"),
    (lambda: masks.sink_window(4, None), flashc.UnsupportedTypeError, "left to be an array of integers, got None"),
    (lambda: masks.dilated_window(4, 0), flashc.ArgumentError, "dilation of at least 1"),
    (lambda: masks.key_padding(np.zeros(2)), flashc.UnsupportedTypeError, "lengths of int8, uint8, int32 or int64"),
    (lambda: masks.key_padding(None), flashc.UnsupportedTypeError, "lengths to be an array of integers, got None"),
    (lambda: masks.neighborhood((8, 8), (3, 3, 3)), flashc.ArgumentError, "kernel_size of 2 dimensions, got"),
    (lambda: masks.neighborhood((2, 2, 2, 2), 2), flashc.ArgumentError, "shape of 1 to 3 dimensions"),
    (lambda: masks.neighborhood((8, 0), 3), flashc.ArgumentError, "shape of at least 1, got 0"),
    (lambda: masks.neighborhood(8, 3.0), flashc.UnsupportedTypeError, "kernel_size to be an integer, got 3.0"),
    (lambda: masks.neighborhood((8, 6), 3, (1, 3)), flashc.ArgumentError, r"at most 6, the grid's, got 3 \* 3"),
    (lambda: masks.block_diffusion(64, 0), flashc.ArgumentError, "size of at least 1"),
    (lambda: masks.documents(np.zeros(9)), flashc.UnsupportedTypeError, "ids of int8, uint8, int32 or int64, got f64"),
    (lambda: masks.documents(np.zeros((1, 2, 3), int)), flashc.ArgumentError, "ids of 1 to 2 dimensions"),
    (lambda: masks.documents(3), flashc.UnsupportedTypeError, "ids to be an array of integers, got 3"),
    (lambda: masks.documents(LENGTHS, 3), flashc.UnsupportedTypeError, "key_ids to be an array of integers, got 3"),
    (lambda: masks.documents(np.zeros(9, "u1"), sorted=True), flashc.UnsupportedTypeError,
     "a sorted array of int8, int32 or int64, got uint8"),
    (lambda: masks.documents(np.zeros(9, int)[::2], sorted=True), flashc.ArgumentError, "contiguous .*got stride 2"),
    (lambda: masks.shared_prefix(3, 0), flashc.ArgumentError, "ids of at least 1"),
    (lambda: masks.packed(3), flashc.UnsupportedTypeError, "offsets to be an array of integers, got 3"),
    (lambda: masks.packed(LENGTHS, np.zeros(3)), flashc.UnsupportedTypeError, "key_offsets of int8"),
    (lambda: masks.packed(LENGTHS, window=(1, 2, 3)), flashc.ArgumentError, "window to be"),
    (lambda: masks.Mask(3), flashc.UnsupportedTypeError, r"a function \(b, h, i, j\) -> condition, got"),
    (lambda: masks.causal() & 3, flashc.UnsupportedTypeError, "next to `&`, got 3"),
    (lambda: True | masks.causal(), flashc.UnsupportedTypeError, r"next to `\|`, got True"),
    (lambda: masks.causal() & np.ones((9, 9), bool), flashc.UnsupportedTypeError, "next to `&`, got an array"),
    (lambda: np.ones((9, 9), bool) | masks.causal(), flashc.UnsupportedTypeError, r"next to `\|`, got an array"),
    (lambda: masks.causal() and masks.chunked(3), flashc.UnsupportedTypeError, "`&`, `|` and `~` instead of `and`"),
    (lambda: not masks.causal(), flashc.UnsupportedTypeError, "no truth value"),
    (lambda: in_positions(masks.causal(), SHAPES[0]), flashc.ArgumentError, "align=Nk - Nq"),
    (lambda: flashc.assume_sorted(np.int64(3)), flashc.ArgumentError, "at least one dimension"),
    (lambda: flashc.assume_sorted(np.zeros(3)), flashc.UnsupportedTypeError, "got f64"),
    (lambda: flashc.assume_sorted([1, 2]), flashc.UnsupportedTypeError, "expected an array"),
    (lambda: ops.key_length(), flashc.TraceError, "key_length works while a mask or a score is traced only"),
])
def test_refusals(make, error, words):
    with pytest.raises(error) as caught:
        make()
    # Searches the first line only: a later line may quote the user's code, which contains the same words.
    assert re.search(words, str(caught.value).split("\n")[0])


def test_arrays_must_reach_the_positions():
    q, k = np.zeros((3, 1, 9, 8), np.float32), np.zeros((3, 1, 5, 8), np.float32)
    for mask, words in ((masks.key_padding(LENGTHS), "at least 3 elements in dimension 0"),
                        (masks.documents(np.arange(5)), "at least 9 elements in dimension 0"),
                        (masks.documents(np.arange(9), np.arange(4)), "at least 5 elements in dimension 0"),
                        (masks.documents(np.zeros((1, 9), int)), "at least 3 elements in dimension 0"),
                        (masks.packed(np.array([[0, 9]])), "at least 3 elements in dimension 0"),
                        (masks.packed(np.array([[0, 9], [0, 9]])), "at least 3 elements in dimension 0")):
        with pytest.raises(flashc.ArgumentError, match=words):
            flashc.attention(q, k, k, mask=mask)


def test_an_array_that_is_too_short_is_named_with_its_line():
    q, short = np.zeros((1, 1, 9, 8), np.float32), np.zeros(5, np.float32)
    tables = {"near": short}
    for score, name in ((lambda s, b, h, i, j: s + short[j], "short"),
                        (lambda s, b, h, i, j: s + tables["near"][i // 2] + tables["near"][i], r"tables\['near'\]")):
        for _ in range(2):  # The second call knows the code of the first one.
            with pytest.raises(flashc.ArgumentError, match=rf"test_masks\.py:{score.__code__.co_firstlineno}: expected "
                               rf"at least 9 elements in dimension 0 of {name}, which is indexed by"):
                flashc.attention(q, q, q, score=score)
    with pytest.raises(flashc.ArgumentError, match=r"test_masks\.py:\d+: expected at least 9 elements in .* of ids,"):
        flashc.attention(q, q, q, mask=masks.documents(np.zeros(5, int)))


def test_errors_name_the_line_of_the_caller():
    def branches(b, h, i, j):
        return True if i < j else j < 3
    with pytest.raises(flashc.TraceError) as caught:
        trace(masks.causal() & branches, None)
    line = branches.__code__.co_firstlineno + 1
    assert f"test_masks.py:{line}: in branches: a traced value has no truth value" in str(caught.value)
    with pytest.raises(flashc.TraceError) as caught:
        trace(masks.causal().aligned(2**40), None)
    assert "test_masks.py:" in str(caught.value) and "integer of 32 bits" in str(caught.value)


def test_pytorch_may_ask_a_mask_whether_it_is_true():
    """PyTorch's compiler evaluates `if function and callable(function)` for objects that it traces. Elsewhere the truth
    of a mask is refused."""
    asking = {"__name__": "torch._dynamo.something"}
    exec("def ask(function):\n    return bool(function)", asking)
    assert asking["ask"](masks.causal()) is True
