"""The formulas of attention and its gradients in float64."""
import numpy as np

TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def scores(x, keep, score):
    """Applies the score and the mask to scaled products. Returns -inf where the mask drops a pair."""
    b, h, i, j = np.ogrid[tuple(slice(extent) for extent in x.shape)]
    if score is not None:
        x = np.broadcast_to(score(x, b, h, i, j), x.shape).astype(np.float64)
    return x if keep is None else np.where(keep(b, h, i, j), x, -np.inf)


def attention(q, k, v, keep=None, score=None, scale=None, sinks=None, factors=1.0):
    """Returns o and lse of [B, H, N, D] arrays. `keep` and `score` are None or functions of NumPy arrays of positions.
    `factors` multiplies the probabilities before the product with v (dropout)."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = scores(q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale), keep, score)
    sink = np.full((*s.shape[:3], 1), -np.inf)
    if sinks is not None:
        sink[:] = np.asarray(sinks, np.float64)[:, None, None]
    top = np.maximum(s.max(-1, keepdims=True, initial=-np.inf), sink)
    top = np.where(np.isinf(top), 0, top)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True) + np.exp(sink - top)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + top)[..., 0]
    o = np.where(factors == 0, 0, p * factors) @ v / np.where(total == 0, 1, total)
    return np.where(np.isfinite(total), o, np.nan), lse


def attention_backward(q, k, v, o, lse, do, dlse=None, keep=None, score=None, scale=None, factors=1.0):
    """Returns dq, dk and dv. The derivative of the score is a difference quotient. `factors` is as for attention."""
    q, k, v, o, lse, do = (np.asarray(x, np.float64) for x in (q, k, v, o, lse, do))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    hk, group = k.shape[1], q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    x = q @ k.swapaxes(-1, -2) * scale
    s, empty = scores(x, keep, score), np.isinf(lse)[..., None]
    seen = ~empty & (s > -np.inf)
    p = np.exp(np.where(seen, s - np.where(empty, 0, lse[..., None]), -np.inf))
    delta = (do * o).sum(-1) - (0 if dlse is None else np.asarray(dlse, np.float64))
    step = 1e-8 * (1 + abs(x))
    slope = 1 if score is None else (scores(x + step, None, score) - scores(x - step, None, score)) / (2 * step)
    dx = np.where(seen, p * ((do @ v.swapaxes(-1, -2)) * factors - delta[..., None]) * slope, 0)

    def add_groups(y):
        return y.reshape(y.shape[0], hk, group, *y.shape[2:]).sum(2)
    return scale * dx @ k, add_groups(scale * dx.swapaxes(-1, -2) @ q), add_groups((p * factors).swapaxes(-1, -2) @ do)


def differences(total, x, step=1e-5):
    """Returns the gradient of `total()` with respect to `x` by difference quotients. `total` reads the f64
    array `x`."""
    gradient = np.empty_like(x)
    for place in np.ndindex(x.shape):
        before = x[place]
        x[place] = before + step
        above = total()
        x[place] = before - step
        gradient[place] = (above - total()) / (2 * step)
        x[place] = before
    return gradient


def aligned(nq, nk, left=None, right=None):
    """Returns a mask that keeps key j within a window of query i, where the last query is at the last key."""
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
    """Returns q, k and v with normally distributed elements."""
    dv = d if dv is None else dv
    shapes = (b, hq, nq, d), (b, hk, nk, d), (b, hk, nk, dv)
    return tuple(rng.standard_normal(shape).astype(dtype) for shape in shapes)


def assert_close(got, want, dtype="float32"):
    """Compares two pairs (o, lse): infinities must be the same, and other numbers finite and close."""
    for x, y, tolerance in ((got[0], want[0], TOLERANCE[dtype]), (got[1], want[1], 5 * TOLERANCE["float32"])):
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        assert x.shape == y.shape
        infinite = np.isinf(y)
        assert np.array_equal(x[infinite], y[infinite])
        error = np.abs(x[~infinite] - y[~infinite])
        assert np.all(error <= tolerance * (1 + np.abs(y[~infinite]))), error.max()
