"""Attention of f64 arrays on the CPU: plain attention with every float in f64, for checks of gradients by difference
quotients."""
import numpy as np
import pytest

import flashc
import reference

SCALE = 0.5  # the compiler stores the scale in 32 bits


def close(got, want):
    for x, y in zip(got, want):
        x = np.asarray(x)
        assert x.dtype == np.float64 and x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("nq, nk", [(5, 9), (9, 5), (1, 70)])
def test_attention_and_its_gradients(rng, nq, nk):
    """The mask and the score read integers. With 9 queries and 5 keys, some queries see nothing."""
    q, k, v = reference.inputs(rng, 2, 4, 2, nq, nk, 7, 12, np.float64)
    do, dlse = rng.standard_normal((2, 4, nq, 12)), rng.standard_normal((2, 4, nq))
    shift = np.arange(4, dtype=np.int32)
    causal = reference.aligned(nq, nk, right=0)
    keywords = dict(scale=SCALE, causal=True, enable_gqa=True, mask=lambda b, h, i, j: (i + j + b) % 3 != 0)

    def keep(b, h, i, j):
        return causal(b, h, i, j) & ((i + j + b) % 3 != 0)

    def score(s, b, h, i, j):
        return 4 * np.tanh(s / 4) + shift[h]

    o, lse = flashc.attention(q, k, v, return_lse=True, score=score, **keywords)
    want = reference.attention(q, k, v, keep, score, SCALE)
    close((o, lse), want)
    close([flashc.attention(q, k, v, score=score, **keywords)], want[:1])
    dlse[np.isinf(lse)] = 0
    got = flashc.attention_backward(q, k, v, o, lse, do, dlse=dlse, score=score, **keywords)
    # The tolerance is that of the reference, whose derivative of the score is a difference quotient.
    for x, y in zip(got, reference.attention_backward(q, k, v, o, lse, do, dlse, keep, score, SCALE)):
        assert x.dtype == np.float64 and np.abs(x - y).max() <= 1e-6 * (1 + np.abs(y).max())


def test_gradients_are_exact_to_f64(rng):
    q, k, v = reference.inputs(rng, 1, 2, 2, 6, 8, 8, dtype=np.float64)
    o, lse = flashc.attention(q, k, v, scale=SCALE, return_lse=True)
    do = rng.standard_normal(o.shape)
    close(flashc.attention_backward(q, k, v, o, lse, do, scale=SCALE),
          reference.attention_backward(q, k, v, o, lse, do, scale=SCALE))


def test_results_and_layouts(rng):
    q, k, v = reference.inputs(rng, 1, 2, 2, 6, 8, 8, dtype=np.float64)
    want = reference.attention(q, k, v, scale=SCALE)
    out = np.full(q.shape, np.nan), np.full(q.shape[:3], np.nan)
    flashc.attention(q, k, v, scale=SCALE, out=out)
    close(out, want)
    o = flashc.attention(*(x.swapaxes(1, 2) for x in (q, k, v)), scale=SCALE, layout="bshd")
    close([o.swapaxes(1, 2)], want[:1])
    close([flashc.column_sums(q, k, out[1], scale=SCALE)],
          [np.exp(q @ k.swapaxes(-1, -2) * SCALE - out[1][..., None]).sum(-2)])
    o, lse = flashc.attention(q[:, :, :0], k, v, return_lse=True)
    assert o.dtype == lse.dtype == np.float64


@pytest.mark.parametrize("change, error, words", [
    (dict(mask=np.zeros((6, 8), np.float32)), flashc.UnsupportedTypeError,
     "of f64 or integers where q is f64, got f32"),
    (dict(score=lambda s, b, h, i, j: s + ONES[j]), flashc.UnsupportedTypeError,
     "of f64 or integers where q is f64, got f32"),
    (dict(k=np.zeros((1, 2, 8, 8), np.float32)), flashc.UnsupportedTypeError, "q of f64 and k of f32"),
    (dict(out=(None, np.zeros((1, 2, 6), np.float32))), flashc.Error, "expected"),
])
def test_refusals(change, error, words):
    x = np.zeros((1, 2, 6, 8)), np.zeros((1, 2, 8, 8)), np.zeros((1, 2, 8, 8))
    with pytest.raises(error, match=words):
        flashc.attention(**dict(zip("qkv", x)) | change)


ONES = np.ones(8, np.float32)
