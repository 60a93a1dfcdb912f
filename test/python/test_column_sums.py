"""The sums of weights for each key on the CPU, with all masks and scores, against sums of columns in f64."""
import numpy as np
import pytest

import flashc
from reference import aligned, attention, inputs
from scores import MASKS, NAMES, NUMPY, by_head, in_groups, make_scores

LENGTHS = [(1, 37), (21, 1), (23, 37), (37, 9)]


def column_sums(q, k, lse, keep=None, score=None):
    """Returns the sums c for [B, H, N, D] arrays, by the formula."""
    q, k, lse = (np.asarray(x, np.float64) for x in (q, k, lse))
    k = np.repeat(k, q.shape[1] // k.shape[1], 1)
    s = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    b, h, i, j = np.ogrid[tuple(slice(extent) for extent in s.shape)]
    if score is not None:
        s = np.broadcast_to(score(s, b, h, i, j), s.shape).astype(np.float64)
    kept = np.broadcast_to(True if keep is None else keep(b, h, i, j), s.shape) & np.isfinite(lse)[..., None]
    difference = np.subtract(s, lse[..., None], out=np.full(s.shape, -np.inf), where=kept)
    return np.exp(difference).sum(2)


def check(got, want):
    assert got.dtype == np.float32 and got.shape == want.shape
    assert np.allclose(got, want, rtol=1e-4, atol=1e-5 * (1 + want.max(initial=0)))


def check_case(rng, names, mask, nq, nk):
    """Checks scores that share a kernel, each in two heads. Without `names` there is no score."""
    b, hq, hk = 2, 2 * len(names) or 4, 2
    q, k, v = inputs(rng, b, hq, hk, nq, nk, 8)
    made = make_scores(NUMPY, lambda x: x, rng, b, hq, nq, nk)
    score = by_head([made[name] for name in names]) if names else None
    with np.errstate(all="ignore"):
        lse = attention(q, k, v, mask, score)[1].astype(np.float32)
        want = column_sums(q, k, lse, mask, score)
    check(flashc.column_sums(q, k, lse, mask=mask, score=score, enable_gqa=True), want)
    groups = flashc.column_sums(q, k, lse, mask=mask, score=score, enable_gqa=True, per="key_head")
    check(groups, want.reshape(b, hk, hq // hk, nk).sum(2))


@pytest.mark.parametrize("number, names", list(enumerate(in_groups(NAMES))))
def test_scores(rng, number, names):
    check_case(rng, names, None, *LENGTHS[number % len(LENGTHS)])
    check_case(rng, names, list(MASKS.values())[number % len(MASKS)], 23, 37)


@pytest.mark.parametrize("name", MASKS)
def test_mask(rng, name):
    for nq, nk in LENGTHS + [(130, 150)]:
        check_case(rng, (), MASKS[name], nq, nk)


@pytest.mark.parametrize("window", [(5, 0), (3, 4), (None, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_window_of_attention(rng, window, dtype):
    """The weights of a query add up to 1, unless it sees no key."""
    q, k, v = inputs(rng, 2, 3, 3, 70, 41, 16, dtype=dtype)
    lse = flashc.attention(q, k, v, window=window, return_lse=True)[1]
    c = flashc.column_sums(q, k, lse, window=window)
    check(c, column_sums(q, k, lse, aligned(70, 41, *window)))
    assert np.isinf(lse).any() and np.allclose(c.sum(-1), np.isfinite(lse).sum(-1), rtol=1e-3)


def test_causal_layout_and_out(rng):
    q, k, v = inputs(rng, 2, 4, 2, 19, 33, 8)
    lse = flashc.attention(q, k, v, causal=True, enable_gqa=True, return_lse=True)[1]
    want = column_sums(q, k, lse, aligned(19, 33, right=0))
    turned = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k)]
    out = np.full((2, 4, 40), np.nan, np.float32)[:, :, :33]
    assert flashc.column_sums(*turned, lse, causal=True, enable_gqa=True, layout="bshd", out=out) is out
    check(out, want)
    check(flashc.column_sums(q, k, lse, causal=True, enable_gqa=True, static_shapes=True), want)


def test_rows_without_keys_give_nothing(rng):
    """A row whose lse is -inf adds nothing, whatever its scores are."""
    q, k, _ = inputs(rng, 1, 2, 2, 20, 30, 8)
    lse = rng.standard_normal((1, 2, 20)).astype(np.float32) + 4
    lse[:, :, ::3] = -np.inf
    check(flashc.column_sums(q, k, lse), column_sums(q, k, lse))
    assert np.all(flashc.column_sums(q, k, np.full_like(lse, -np.inf)) == 0)


def test_bias_array(rng):
    q, k, v = inputs(rng, 1, 2, 1, 20, 30, 8)
    bias = rng.standard_normal((2, 1, 30)).astype(np.float32)
    lse = flashc.attention(q, k, v, mask=bias, enable_gqa=True, return_lse=True)[1]
    want = column_sums(q, k, lse, None, lambda s, b, h, i, j: s + bias)
    check(flashc.column_sums(q, k, lse, mask=bias, enable_gqa=True), want)


def test_no_elements(rng):
    q, k, _ = inputs(rng, 1, 2, 2, 0, 7, 8)
    assert np.all(flashc.column_sums(q, k, np.zeros((1, 2, 0), np.float32)) == np.zeros((1, 2, 7)))


@pytest.mark.parametrize("change, error, words", [
    (dict(lse=np.zeros((1, 2, 6), np.float32)), flashc.ArgumentError, r"lse of shape \[B, Hq, Nq\] = \[1, 2, 5\]"),
    (dict(lse=np.zeros((1, 2, 5))), flashc.UnsupportedTypeError, "lse of f32, got f64|elements of bf16, f16 or f32"),
    (dict(lse=np.zeros((1, 2, 10), np.float32)[:, :, ::2]), flashc.ArgumentError, "last dimension of lse"),
    (dict(k=np.zeros((1, 2, 7, 16), np.float32)), flashc.ArgumentError, "q and k of one head dimension D"),
    (dict(k=np.zeros((1, 1, 7, 8), np.float32)), flashc.ArgumentError, "as many heads in k as in q"),
    (dict(k=np.zeros((1, 2, 7, 8), np.float16)), flashc.UnsupportedTypeError, "q and k of one element type"),
    (dict(per="head"), flashc.ArgumentError, "per to be 'query_head' or 'key_head', got 'head'"),
    (dict(out=np.zeros((1, 2, 5), np.float32)), flashc.ArgumentError, r"out of shape \(1, 2, 7\)")])
def test_refusals(change, error, words):
    arguments = dict(q=np.zeros((1, 2, 5, 8), np.float32), k=np.zeros((1, 2, 7, 8), np.float32),
                     lse=np.zeros((1, 2, 5), np.float32)) | change
    with pytest.raises(error, match=words):
        flashc.column_sums(**arguments)


def test_out_apart_from_inputs():
    k = np.zeros((1, 2, 8, 8), np.float32)
    q, lse = np.zeros((1, 2, 4, 8), np.float32), np.zeros((1, 2, 4), np.float32)
    with pytest.raises(flashc.ArgumentError, match="share memory"):
        flashc.column_sums(q, k, lse, out=k[:, :, 0, :])
