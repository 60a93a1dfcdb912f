"""flashc.scores on the CPU against their formulas in f64; chains of scores, gradients, refusals."""
import math
import re

import numpy as np
import pytest

import flashc
from flashc import masks, scores
from reference import assert_close, attention, attention_backward, differences, inputs

LENGTHS = [(1, 37), (23, 23), (67, 131), (5, 3)]


def slopes_of(heads):
    """Returns ALiBi's slopes as the code of its authors computes them."""
    def geometric(n):
        start = 2 ** (-2 ** -(math.log2(n) - 3))
        return [start * start ** k for k in range(n)]
    nearest = 2 ** math.floor(math.log2(heads))
    return np.array(geometric(nearest) + geometric(2 * nearest)[0::2][:heads - nearest])


def t5_bucket(distance, bidirectional, buckets, max_distance):
    """Returns T5's bucket of j - i, with the logarithm in f32."""
    place = np.zeros_like(distance)
    if bidirectional:
        buckets //= 2
        place, distance = place + (distance > 0) * buckets, abs(distance)
    else:
        distance = -np.minimum(distance, 0)
    exact = buckets // 2
    far = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact)) / np.float32(
        math.log(max_distance / exact)) * np.float32(buckets - exact)
    return place + np.where(distance < exact, distance, np.minimum(exact + far.astype(int), buckets - 1))


def check(rng, score, want, heads, keep=None, lengths=LENGTHS, make_mask=lambda: None):
    """`want(x, h, distance)` is the formula of the score; the last query is at the last key."""
    for nq, nk in lengths:
        q, k, v = inputs(rng, 2, heads, heads, nq, nk, 8)
        got = flashc.attention(q, k, v, mask=make_mask(), score=score, return_lse=True)
        by_formula = lambda x, b, h, i, j: want(x, h, j - (i + nk - nq))  # noqa: E731, B023
        assert_close(got, attention(q, k, v, keep, by_formula))


@pytest.mark.parametrize("heads", [1, 2, 3, 8, 12])
def test_alibi_has_the_slopes_of_the_paper(rng, heads):
    slopes = slopes_of(heads)
    check(rng, scores.alibi(heads), lambda x, h, d: x + slopes[h] * d, heads, lengths=LENGTHS[1:3])
    check(rng, scores.alibi(heads, symmetric=True), lambda x, h, d: x - slopes[h] * abs(d), heads, lengths=LENGTHS[:2])


def test_alibi_reads_slopes(rng):
    slopes = rng.random(3).astype(np.float32)
    check(rng, scores.alibi(slopes), lambda x, h, d: x + slopes[h] * d, 3)


@pytest.mark.parametrize("cap", [0.5, 20])
def test_soft_cap(rng, cap):
    check(rng, scores.soft_cap(cap), lambda x, h, d: cap * np.tanh(x / cap), 2)


@pytest.mark.parametrize("bidirectional, buckets, max_distance", [
    (True, 32, 128), (False, 32, 128), (True, 20, 64), (False, 9, 50), (True, 4, 10)])
def test_relative_bias_has_the_buckets_of_t5(rng, bidirectional, buckets, max_distance):
    table = rng.standard_normal((buckets, 2)).astype(np.float32)
    score = scores.relative_bias(table, bidirectional=bidirectional, max_distance=max_distance, align=0)
    distance = np.arange(-500, 500)
    want = table[t5_bucket(distance, bidirectional, buckets, max_distance), 1]
    assert np.array_equal(score(0, 0, 1, 500, distance + 500), want)
    shifted = scores.relative_bias(table, bidirectional=bidirectional, max_distance=max_distance)
    check(rng, shifted, lambda x, h, d: x + table[t5_bucket(d, bidirectional, buckets, max_distance), h], 2)


def test_alignment_is_an_argument(rng):
    q, k, v = inputs(rng, 1, 2, 2, 9, 20, 8)
    slopes = slopes_of(2)
    for align, shift in (("top-left", 0), ("bottom-right", 11), (np.int64(-3), -3)):
        got = flashc.attention(q, k, v, score=scores.alibi(2, symmetric=True, align=align), return_lse=True)
        assert_close(got, attention(q, k, v, None, lambda x, b, h, i, j: x - slopes[h] * abs(j - i - shift)))


def test_chains_pass_scores_on(rng):
    offset, slopes = rng.standard_normal(2).astype(np.float32), slopes_of(2)
    shift = lambda s, b, h, i, j: 3 * s - offset[h]  # noqa: E731
    check(rng, scores.soft_cap(2) >> scores.alibi(2), lambda x, h, d: 2 * np.tanh(x / 2) + slopes[h] * d, 2)
    check(rng, scores.soft_cap(2) >> shift, lambda x, h, d: 6 * np.tanh(x / 2) - offset[h], 2)
    check(rng, shift >> scores.soft_cap(2), lambda x, h, d: 2 * np.tanh((3 * x - offset[h]) / 2), 2)
    check(rng, scores.Score(shift), lambda x, h, d: 3 * x - offset[h], 2)
    assert repr(scores.soft_cap(2) >> scores.alibi(8)) == "<flashc.scores soft_cap(2.0) >> alibi(8)>"
    assert "<lambda>" in repr(scores.alibi(offset) >> shift)


def test_they_take_tensors_of_positions(rng):
    """Scores accept position tensors, with which FlexAttention calls a score_mod and a mask_mod."""
    torch = pytest.importorskip("torch")
    table = rng.standard_normal((32, 6)).astype(np.float32)
    s, h, i, j = rng.standard_normal((6, 9, 11)), *np.ogrid[:6, :9, :11]
    for make, want in ((lambda x: scores.soft_cap(2), 2 * np.tanh(s / 2)),
                       (lambda x: scores.alibi(6, symmetric=True, align=0), s - slopes_of(6)[h] * abs(i - j)),
                       (lambda x: scores.relative_bias(x, align="top-left"),
                        s + table[t5_bucket(j - i, True, 32, 128), h])):
        score = make(torch.from_numpy(table))
        assert np.allclose(score(*map(torch.from_numpy, (s, h * 0, h, i, j))), want)
    mask = masks.neighborhood((3, 5), 3, (1, 1))
    i, j = np.ogrid[:15, :15]
    assert np.array_equal(mask(0, 0, torch.from_numpy(i), torch.from_numpy(j)), mask(0, 0, i, j))


def test_scores_go_with_masks(rng):
    slopes = slopes_of(4)
    check(rng, scores.alibi(4), lambda x, h, d: x + slopes[h] * d, 4, lambda b, h, i, j: (j <= i) & (j // 9 == i // 9),
          [(40, 40)], lambda: masks.causal("top-left") & masks.chunked(9))


@pytest.mark.parametrize("make, formula, shape", [
    (lambda x: scores.soft_cap(3) >> scores.alibi(x), lambda x, s, h, d: 3 * np.tanh(s / 3) + x[h] * d, (2,)),
    (lambda x: scores.relative_bias(x), lambda x, s, h, d: s + x[t5_bucket(d, True, 8, 128), h], (8, 2)),
    (lambda x: scores.relative_bias(x, bidirectional=False, max_distance=9) >> scores.soft_cap(3),
     lambda x, s, h, d: 3 * np.tanh((s + x[t5_bucket(d, False, 5, 9), h]) / 3), (5, 2))])
def test_what_they_read_has_gradients(rng, make, formula, shape):
    q, k, v = inputs(rng, 1, 2, 2, 13, 17, 8)
    x, do = rng.standard_normal(shape).astype(np.float32), rng.standard_normal(q.shape).astype(np.float32)
    o, lse = flashc.attention(q, k, v, score=make(x), return_lse=True)
    *_, gradient = flashc.attention_backward(q, k, v, o, lse, do, score=make(x), captured=(x,))
    exact = x.astype(np.float64)
    by_formula = lambda s, b, h, i, j: formula(exact, s, h, j - i - 4)  # noqa: E731
    want = differences(lambda: (attention(q, k, v, None, by_formula)[0] * do).sum(), exact)
    assert np.allclose(gradient, want, atol=1e-4, rtol=1e-4)


def test_gradients_of_a_kernel_with_them(rng):
    q, k, v = (x.astype(np.float64) for x in inputs(rng, 1, 6, 2, 11, 11, 8))
    do, slopes, score = rng.standard_normal(q.shape), slopes_of(6), scores.soft_cap(2) >> scores.alibi(6)
    o, lse = flashc.attention(q, k, v, score=score, enable_gqa=True, return_lse=True)
    got = flashc.attention_backward(q, k, v, o, lse, do, score=score, enable_gqa=True)
    want = attention_backward(q, k, v, o, lse, do, None, None,
                              lambda x, b, h, i, j: 2 * np.tanh(x / 2) + slopes[h] * (j - i))
    for x, y in zip(got, want):
        assert np.allclose(x, y, atol=1e-5)


@pytest.mark.parametrize("score", [
    scores.soft_cap(50), scores.alibi(12), scores.relative_bias(np.zeros((32, 12), np.float32)),
    scores.relative_bias(np.zeros((32, 12), np.float16), bidirectional=False) >> scores.soft_cap(30)], ids=repr)
def test_score_has_a_kernel(score):
    spec = flashc.ArraySpec((2, 12, 512, 64), "bf16")
    assert ".entry" in flashc.compile(spec, spec, spec, causal=True, score=score).ptx


@pytest.mark.parametrize("make, error, words", [
    (lambda: scores.soft_cap(0), flashc.ArgumentError, "cap to be positive and finite, got 0"),
    (lambda: scores.soft_cap(math.inf), flashc.ArgumentError, "cap to be positive and finite, got inf"),
    (lambda: scores.soft_cap("3"), flashc.UnsupportedTypeError, "cap to be a number, got '3'"),
    (lambda: scores.alibi(0), flashc.ArgumentError, "slopes of at least 1, got 0"),
    (lambda: scores.alibi(0.5), flashc.UnsupportedTypeError, "slopes to be an array of numbers, got 0.5"),
    (lambda: scores.alibi(np.zeros(3, int)), flashc.UnsupportedTypeError, "slopes of bf16, f16 or f32, got int64"),
    (lambda: scores.alibi(np.zeros((2, 3))), flashc.ArgumentError, r"slopes of 1 dimensions, got shape \(2, 3\)"),
    (lambda: scores.alibi(8, align="left"), flashc.ArgumentError, "align to be 'bottom-right', 'top-left' or"),
    (lambda: scores.relative_bias(np.zeros(3)), flashc.ArgumentError, "table of 2 dimensions"),
    (lambda: scores.relative_bias(np.zeros((3, 2))), flashc.ArgumentError, "a table of at least 4 buckets, got 3"),
    (lambda: scores.relative_bias(np.zeros((1, 2)), bidirectional=False), flashc.ArgumentError, "at least 2 buckets"),
    (lambda: scores.relative_bias(np.zeros((32, 2)), max_distance=8), flashc.ArgumentError, "at least 9"),
    (lambda: scores.relative_bias(np.zeros((32, 2)), max_distance=10**30), flashc.ArgumentError, "below 2.31"),
    (lambda: scores.Score(3), flashc.UnsupportedTypeError, r"a function \(s, b, h, i, j\) -> score, got"),
    (lambda: scores.soft_cap(3) >> 3, TypeError, "unsupported operand"),
    (lambda: np.ones(3) >> scores.soft_cap(3), TypeError, "unsupported operand")])
def test_refusals(make, error, words):
    with pytest.raises(error) as caught:
        make()
    assert re.search(words, str(caught.value))
