"""Attention in float64, by the book."""
import numpy as np

TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def attention(q, k, v, keep=None, score=None, scale=None):
    """o and lse of [B, H, N, D] arrays. `keep`, `score`: functions of numpy arrays of positions, or None."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    b, h, i, j = np.ogrid[tuple(slice(extent) for extent in s.shape)]
    if score is not None:
        s = np.broadcast_to(score(s, b, h, i, j), s.shape).astype(np.float64)
    if keep is not None:
        s = np.where(keep(b, h, i, j), s, -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    top = np.where(np.isinf(top), 0, top)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + top)[..., 0]
    return p @ v / np.where(total == 0, 1, total), lse


def aligned(nq, nk, left=None, right=None):
    """Whether query i, aligned with the last key, sees key j within a window."""
    def keep(b, h, i, j):
        distance = j - (i + nk - nq)
        seen = np.ones(np.broadcast(b, h, i, j).shape, bool)
        if left is not None:
            seen &= distance >= -left
        if right is not None:
            seen &= distance <= right
        return seen
    return keep


def inputs(rng, b, hq, hk, nq, nk, d, dv=None, dtype=np.float32):
    """q, k, v with normal elements."""
    dv = d if dv is None else dv
    shapes = (b, hq, nq, d), (b, hk, nk, d), (b, hk, nk, dv)
    return tuple(rng.standard_normal(shape).astype(dtype) for shape in shapes)


def assert_close(got, want, dtype="float32"):
    """(o, lse) against (o, lse): finite where the reference is, the same infinities, and close."""
    for x, y, tolerance in ((got[0], want[0], TOLERANCE[dtype]), (got[1], want[1], 5 * TOLERANCE["float32"])):
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        assert x.shape == y.shape
        infinite = np.isinf(y)
        assert np.array_equal(x[infinite], y[infinite])
        error = np.abs(x[~infinite] - y[~infinite])
        assert np.all(error <= tolerance * (1 + np.abs(y[~infinite]))), error.max()
