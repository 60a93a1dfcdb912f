"""Scores on the CPU, with and without masks, against attention in f64; and every function of flashc.ops."""
import math

import numpy as np
import pytest

import flashc
from flashc import ops
from reference import assert_close, attention, inputs
from scores import FUNCTIONS, MASKS, NAMES, NUMPY, by_head, in_groups, make_scores

LENGTHS = [(1, 37), (21, 1), (23, 37), (37, 9)]


def check(rng, names, mask, nq, nk):
    """Checks scores that share a kernel, each in two heads."""
    b, hq, hk = 2, 2 * len(names), 2
    q, k, v = inputs(rng, b, hq, hk, nq, nk, 8)
    made = make_scores(NUMPY, lambda x: x, rng, b, hq, nq, nk)
    score = by_head([made[name] for name in names])
    got = flashc.attention(q, k, v, mask=mask, score=score, enable_gqa=True, return_lse=True)
    with np.errstate(all="ignore"):
        assert_close(got, attention(q, k, v, mask, score))


def test_there_are_enough():
    assert len(NAMES) >= 30


@pytest.mark.parametrize("number, names", list(enumerate(in_groups(NAMES))))
def test_scores(rng, number, names):
    for nq, nk in LENGTHS:
        check(rng, names, None, nq, nk)
    check(rng, names, list(MASKS.values())[number % len(MASKS)], 23, 37)


@pytest.mark.parametrize("dtype, all_bits", [("float32", (0, 1, 2, 4, 8, 11)), ("float16", (5, 15))])
def test_bias_of_all_shapes(rng, dtype, all_bits):
    b, h, nq, nk = 2, 3, 5, 11
    q, k, v = inputs(rng, b, h, h, nq, nk, 8)
    for bits in all_bits:
        shape = tuple(extent if bits >> dim & 1 else 1 for dim, extent in enumerate((b, h, nq, nk)))
        bias = rng.standard_normal(shape).astype(dtype)

        def score(s, b, h, i, j):
            return s + bias[tuple(0 if extent == 1 else x for extent, x in zip(shape, (b, h, i, j)))]
        want = attention(q, k, v, None, lambda s, b, h, i, j: s + bias)
        assert_close(flashc.attention(q, k, v, score=score, return_lse=True), want)
        assert_close(flashc.attention(q, k, v, mask=bias, return_lse=True), want)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e35])
def test_rows_that_the_mask_empties_have_no_score(rng, value):
    """Whatever is added to the scores of a row without keys, such as uninitialised memory, has no effect."""
    q, k, v = inputs(rng, 1, 2, 2, 37, 41, 8)
    lengths = rng.integers(0, 2, 37) * rng.integers(0, 41, 37)
    bias = np.where(lengths == 0, value, rng.standard_normal(37)).astype(np.float32)
    mask = lambda b, h, i, j: j < lengths[i]  # noqa: E731
    o, lse = flashc.attention(q, k, v, mask=mask, score=lambda s, b, h, i, j: s + bias[i], return_lse=True)
    assert np.all(o[:, :, lengths == 0] == 0) and np.all(lse[:, :, lengths == 0] == -np.inf)
    finite = np.where(lengths == 0, 0, bias).astype(np.float32)
    assert_close((o, lse), attention(q, k, v, mask, lambda s, b, h, i, j: s + finite[i]))


# --- Functions --------------------------------------------------------------------------------------------------------

def evaluate(x, function):
    """Computes function(x) in a kernel: with one key, the log-sum-exp is the score."""
    q, k = np.zeros((1, 1, len(x), 8), np.float32), np.zeros((1, 1, 1, 8), np.float32)
    return flashc.attention(q, k, k, score=lambda s, b, h, i, j: function(x[i]), return_lse=True)[1][0, 0]


@pytest.mark.parametrize("names", in_groups(FUNCTIONS), ids=", ".join)
def test_functions(rng, names):
    """Each function has a head of its own."""
    x = np.stack([rng.uniform(*FUNCTIONS[name][1], 50) for name in names]).astype(np.float32)
    q, k = np.zeros((1, len(names), 50, 8), np.float32), np.zeros((1, len(names), 1, 8), np.float32)
    score = by_head([lambda s, b, h, i, j, name=name: getattr(ops, name)(x[h, i]) for name in names])
    found = flashc.attention(q, k, k, score=score, return_lse=True)[1][0]
    for name, numbers, got in zip(names, x, found):
        want = np.array([FUNCTIONS[name][0](float(number)) for number in numbers], np.float64)
        most = 4e-7 if name == "gelu" else 1e-9  # 1 + erf loses digits, as in PyTorch
        assert np.all(np.abs(got - want) <= 2e-6 * np.abs(want) + most), name
        assert abs(getattr(ops, name)(float(numbers[0])) - want[0]) <= 1e-6, name


def test_functions_of_two(rng):
    x, y = (rng.uniform(-3, 3, 50).astype(np.float32) for _ in range(2))
    x[:3], y[:3] = 0, (0, 1, -1)
    for name, of_numbers in (("atan2", np.arctan2), ("copysign", np.copysign), ("logaddexp", np.logaddexp)):
        q, k = np.zeros((1, 1, 50, 8), np.float32), np.zeros((1, 1, 1, 8), np.float32)
        got = flashc.attention(q, k, k, score=lambda s, b, h, i, j: getattr(ops, name)(x[i], y[i]), return_lse=True)[1]
        assert np.allclose(got[0, 0], of_numbers(x.astype(np.float64), y), rtol=2e-6, atol=1e-7)
    assert ops.atan2(1.0, 2.0) == math.atan2(1, 2) and ops.copysign(2.0, -1.0) == -2


def test_classes_of_numbers():
    x = np.array([0, 1, -2, math.inf, -math.inf, math.nan], np.float32)
    for name in ("isnan", "isinf", "isfinite"):
        got = evaluate(x, lambda value: ops.where(getattr(ops, name)(value), 1.0, 2.0))
        assert np.array_equal(got == 1, getattr(np, name)(x)), name
    assert ops.isnan(math.nan) and not ops.isinf(0.0) and ops.isfinite(1.0)


def test_names_of_numpy_and_methods(rng):
    x = rng.uniform(-0.9, 0.9, 20).astype(np.float32)
    for names in (("arctan", "atan"), ("arcsin", "asin"), ("arcsinh", "asinh"), ("rint", "round"), ("expm1", "expm1"),
                  ("fix", "trunc"), ("cbrt", "cbrt"), ("sign", "sign")):
        want = evaluate(x, getattr(ops, names[1]))
        assert np.array_equal(evaluate(x, getattr(np, names[0])), want), names
    assert np.array_equal(evaluate(x, lambda value: value.erf().log1p()),
                          evaluate(x, lambda value: ops.log1p(ops.erf(value))))
    assert np.array_equal(evaluate(x, lambda value: value.round()), np.round(x))
    assert np.array_equal(evaluate(x, lambda value: np.reciprocal(value)), np.float32(1) / x)
    assert np.allclose(evaluate(x, lambda value: ops.gelu(value, "tanh")), evaluate(x, ops.gelu), atol=1e-3)


def test_integers_stay_integers(rng):
    q, k, v = inputs(rng, 1, 1, 1, 9, 17, 8)
    got = flashc.attention(q, k, v, mask=lambda b, h, i, j: ops.floor(j) % 3 + ops.sign(i - j) == ops.round(1),
                           return_lse=True)
    assert_close(got, attention(q, k, v, lambda b, h, i, j: j % 3 + np.sign(i - j) == 1))
