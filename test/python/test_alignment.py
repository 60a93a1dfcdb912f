"""How masks align queries with keys: as the arguments of attention do, and in packed and cached calls by the lengths of
each sequence."""
import numpy as np
import pytest

import flashc
from flashc import masks, ops
from flashc._packed import of_sequences
from reference import aligned, assert_close, attention, attention_backward, inputs
from test_masks import SHAPES, check

IDS = np.arange(300) // 37
#: Masks that compare i with j, each with its condition in plain Python, where i is the query's position among the keys.
NAMED = {
    "causal": (lambda **how: masks.causal(**how), lambda i, j: j <= i),
    "window": (lambda **how: masks.sliding_window(9, 2, **how), lambda i, j: (j >= i - 9) & (j <= i + 2)),
    "prefix": (lambda **how: masks.prefix_lm(20, **how), lambda i, j: (j <= i) | (j < 20)),
    "chunks": (lambda **how: masks.chunked(16, **how), lambda i, j: i // 16 == j // 16),
    "blocks": (lambda **how: masks.block_causal(24, **how), lambda i, j: j // 24 <= i // 24),
    "sinks": (lambda **how: masks.sink_window(3, 17, **how), lambda i, j: (j <= i) & ((j >= i - 17) | (j < 3))),
    "dilated": (lambda **how: masks.dilated_window(31, 3, 6, **how),
                lambda i, j: (j >= i - 31) & (j <= i + 6) & ((i - j) % 3 == 0)),
    "continuations": (lambda **how: masks.shared_prefix(8, 11, **how),
                      lambda i, j: (j <= i) & ((j < 8) | ((i - 8) // 11 == (j - 8) // 11))),
}
LENGTHS = [(5, 9), (0, 40), (64, 64), (33, 0), (1, 1), (70, 95), (31, 13)]
OFFSETS, KEY_OFFSETS = (np.cumsum([0, *part]).astype(np.int32) for part in zip(*LENGTHS))


@pytest.mark.parametrize("name", NAMED)
def test_masks_by_name_align_as_the_argument_does(no_disk, name):
    make, rule = NAMED[name]
    for shape in SHAPES:
        at_the_end = lambda b, h, i, j: rule(i + shape[3] - shape[2], j)  # noqa: B023, E731
        for mask in (make(), make(align="top-left").aligned("bottom-right")):
            check(mask, at_the_end, [shape], is_eager=False)
    assert flashc.statistics().compilations == 1  # the lengths are not constants


def test_masks_by_name_are_the_kernels_of_the_arguments():
    spec, more = flashc.ArraySpec((2, 2, 500, 64), "bf16"), flashc.ArraySpec((2, 2, 700, 64), "bf16")
    for mask, keywords in ((masks.causal(), {"causal": True}), (masks.sliding_window(100), {"window": 100}),
                           (masks.sliding_window(100, 9), {"window": (100, 9)})):
        assert flashc.compile(spec, more, more, mask=mask).ptx == flashc.compile(spec, more, more, **keywords).ptx


def test_aligned_takes_the_place_of_an_alignment():
    shape, other = SHAPES[2], lambda b, h, i, j: j < i - 90
    both = masks.causal() & masks.sliding_window(20, align=5) | other
    check(both.aligned(-7), lambda b, h, i, j: i - 27 <= j <= i - 7 or j < i - 97, [shape])
    check((~both).aligned("top-left"), lambda b, h, i, j: not (i - 20 <= j <= i or j < i - 90), [shape])
    check(masks.causal().aligned("top-left"), lambda b, h, i, j: j <= i, [shape])


def test_a_mask_that_flashc_does_not_trace_says_what_to_write():
    with pytest.raises(flashc.ArgumentError, match="write align='top-left' where Nq = Nk, and align=Nk - Nq"):
        masks.chunked(4)(0, 0, np.arange(3), np.arange(3))


def test_gradients_of_a_mask_by_name(rng):
    q, k, v = inputs(rng, 1, 2, 2, 29, 41, 8)
    do = rng.standard_normal(q.shape).astype(np.float32)
    o, lse = flashc.attention(q, k, v, mask=masks.sink_window(3, 7), return_lse=True)
    got = flashc.attention_backward(q, k, v, o, lse, do, mask=masks.sink_window(3, 7))
    want = attention_backward(q, k, v, o, lse, do,
                              keep=lambda b, h, i, j: (j <= i + 12) & ((j >= i + 12 - 7) | (j < 3)))
    assert all(np.allclose(x, y, atol=1e-4) for x, y in zip(got, want))


# --- Packed sequences -------------------------------------------------------------------------------------------------

def packed_inputs(rng, dim=8):
    q, k, v = inputs(rng, 1, 2, 2, OFFSETS[-1], KEY_OFFSETS[-1], dim)
    return tuple(np.ascontiguousarray(x[0].swapaxes(0, 1)) for x in (q, k, v))


def sequences(*arrays):
    """Yields q, k, v and the further arrays, which belong to queries, for each sequence: [1, H, n, D]."""
    for s in range(len(LENGTHS)):
        starts = (KEY_OFFSETS if n in (1, 2) else OFFSETS for n in range(len(arrays)))
        yield (s, *(x[start[s]:start[s + 1]].swapaxes(0, 1)[None] for x, start in zip(arrays, starts)))


def check_packed(rng, keep, rescore=None, **keywords):
    """`keep` and `rescore` take the lengths of a sequence, and return the mask and the score of the reference."""
    q, k, v = packed_inputs(rng)
    o, lse = flashc.varlen_attention(q, k, v, OFFSETS, KEY_OFFSETS, return_lse=True, **keywords)
    for s, qs, ks, vs, os in sequences(q, k, v, o):
        nq, nk = qs.shape[2], ks.shape[2]
        want = attention(qs, ks, vs, keep(nq, nk), rescore and rescore(nq, nk))
        assert_close((os, lse[None, :, OFFSETS[s]:OFFSETS[s + 1]]), want)


@pytest.mark.parametrize("name", NAMED)
def test_named_masks_in_packed_sequences(rng, name):
    make, rule = NAMED[name]
    check_packed(rng, lambda nq, nk: lambda b, h, i, j: rule(i + nk - nq, j), mask=make())
    if name in ("causal", "sinks"):
        check_packed(rng, lambda nq, nk: lambda b, h, i, j: rule(i, j), mask=make(align="top-left"))


def test_lengths_in_packed_sequences(rng):
    check_packed(rng, lambda nq, nk: lambda b, h, i, j: (j >= nk - 5) | (i == nq - 1),
                 mask=lambda s, h, i, j: (j >= ops.key_length() - 5) | (i == ops.query_length() - 1))
    check_packed(rng, lambda nq, nk: aligned(nq, nk, right=0),
                 lambda nq, nk: lambda x, b, h, i, j: x + 0.25 * (j - (i + nk - nq)) + 0.01 * nq, causal=True,
                 score=lambda x, s, h, i, j: x + 0.25 * (j - (i + ops.key_length() - ops.query_length())) +
                 0.01 * ops.query_length())


def test_one_array_of_offsets_needs_no_shift(rng):
    q, k, v = inputs(rng, 1, 1, 1, OFFSETS[-1], OFFSETS[-1], 8)
    q, k, v = (np.ascontiguousarray(x[0].swapaxes(0, 1)) for x in (q, k, v))
    got = flashc.varlen_attention(q, k, v, OFFSETS, mask=masks.causal(), return_lse=True)
    want = flashc.varlen_attention(q, k, v, OFFSETS, causal=True, return_lse=True)
    assert all(np.allclose(x, y, atol=1e-6) for x, y in zip(got, want))


@pytest.mark.parametrize("key_offsets", [None, KEY_OFFSETS])
def test_packed_masks_skip_the_tiles_of_the_argument(key_offsets):
    """flashc.explain has no packed calls, so this test explains the mask that such a call makes."""
    keys = OFFSETS[-1] if key_offsets is None else key_offsets[-1]
    q, k = np.zeros((OFFSETS[-1], 1, 64), np.float16), np.zeros((keys, 1, 64), np.float16)

    def explain(**keywords):
        starts, key_starts = (None if x is None else flashc.assume_sorted(x) for x in (OFFSETS, key_offsets))
        keep, _ = of_sequences(starts, key_starts, keywords.get("causal", False), keywords.get("window"),
                               keywords.get("mask"), None)
        return flashc.explain(q[None], k[None], k[None], layout="bshd", mask=keep)
    for mask, keywords in ((masks.causal(), {"causal": True}), (masks.sliding_window(20, 3), {"window": (20, 3)})):
        by_name, by_argument = explain(mask=mask), explain(**keywords)
        assert (by_name.mask_class, by_name.tiles) == (by_argument.mask_class, by_argument.tiles)


def test_packed_gradients(rng):
    q, k, v = packed_inputs(rng)
    do = rng.standard_normal(q.shape).astype(np.float32)
    score = lambda x, s, h, i, j: x * (1 + 0.01 * (j - i)) - 0.02 * ops.key_length()  # noqa: E731
    keep, rescore = of_sequences(flashc.assume_sorted(OFFSETS), flashc.assume_sorted(KEY_OFFSETS), False, None,
                                 masks.sliding_window(30), score)
    q, k, v, do = (np.ascontiguousarray(x.swapaxes(0, 1)[None]) for x in (q, k, v, do))
    o, lse = flashc.attention(q, k, v, mask=keep, score=rescore, return_lse=True)
    got = flashc.attention_backward(q, k, v, o, lse, do, mask=keep, score=rescore)
    for s in range(len(LENGTHS)):
        rows, columns = slice(OFFSETS[s], OFFSETS[s + 1]), slice(KEY_OFFSETS[s], KEY_OFFSETS[s + 1])
        part = q[:, :, rows], k[:, :, columns], v[:, :, columns]
        nq, nk = (x.shape[2] for x in part[:2])
        want = attention_backward(*part, o[:, :, rows], lse[:, :, rows], do[:, :, rows], None, aligned(nq, nk, 30, 0),
                                  lambda x, b, h, i, j: x * (1 + 0.01 * (j - i)) - 0.02 * nk)  # noqa: B023
        for x, y, places in zip(got, want, (rows, columns, columns)):
            assert np.allclose(x[:, :, places], y, atol=2e-4)


# --- Caches -----------------------------------------------------------------------------------------------------------

CACHED, TOKENS, CAPACITY = np.array([37, 3, 64, 5], np.int32), 3, 64


def check_cached(rng, keep, rescore=None, **keywords):
    """`keep` and `rescore` are as for check_packed, but for positions among the keys."""
    q = rng.standard_normal((len(CACHED), TOKENS, 2, 16)).astype(np.float32)
    k, v = (rng.standard_normal((len(CACHED), CAPACITY, 2, 16)).astype(np.float32) for _ in "kv")
    o, lse = flashc.decode(q, k, v, CACHED, causal=False, return_lse=True, **keywords)
    for b, length in enumerate(CACHED):
        parts = (x[b:b + 1, :length].swapaxes(1, 2) for x in (q, k, v))
        begin = length - TOKENS
        keeps, scores = keep(length), rescore and rescore(length)
        want = attention(*parts, lambda _, h, i, j: keeps(i + begin, j),  # noqa: B023
                         scores and (lambda x, _, h, i, j: scores(x, i + begin, j)))  # noqa: B023
        assert_close((o[b:b + 1].swapaxes(1, 2), lse[b:b + 1]), want)


@pytest.mark.parametrize("name", NAMED)
def test_named_masks_in_a_cache(rng, name):
    make, rule = NAMED[name]
    check_cached(rng, lambda length: rule, mask=make())
    if name == "window":
        check_cached(rng, lambda length: rule, mask=make(align="top-left"))


def test_lengths_in_a_cache(rng):
    check_cached(rng, lambda length: lambda i, j: (j >= length - 2) | (i == length - 1),
                 lambda length: lambda x, i, j: x - 0.1 * (length - i) - 0.2 * TOKENS,
                 mask=lambda b, h, i, j: (j >= ops.key_length() - 2) | (i == ops.key_length() - 1),
                 score=lambda x, b, h, i, j: x - 0.1 * (ops.key_length() - i) - 0.2 * ops.query_length())


# --- PyTorch ----------------------------------------------------------------------------------------------------------

def test_drop_ins_keep_the_alignment_of_pytorch(rng):
    torch = pytest.importorskip("torch")
    if not hasattr(torch.library, "custom_op"):
        pytest.skip("flashc.torch needs PyTorch 2.4")
    from flashc.torch import flex_attention, scaled_dot_product_attention
    arrays = inputs(rng, 1, 2, 2, 13, 29, 8)
    q, k, v = map(torch.from_numpy, arrays)
    first, last = (attention(*arrays, lambda b, h, i, j, shift=shift: j <= i + shift)[0] for shift in (0, 16))
    for got, want in ((scaled_dot_product_attention(q, k, v, is_causal=True), first),
                      (flex_attention(q, k, v, block_mask=lambda b, h, i, j: j <= i), first),
                      (flex_attention(q, k, v, block_mask=masks.causal("top-left")), first),
                      (flex_attention(q, k, v, block_mask=masks.causal()), last)):
        assert np.allclose(got, want, atol=2e-5)
