"""Merging partial results on the CPU, against the merge in f64, and against attention over all keys."""
import numpy as np
import pytest

import flashc
from reference import attention, inputs

TOLERANCE = {"float32": 1e-5, "float16": 2e-3}


def merge(o, lse, sinks=None):
    """Merges by the formula. Parts whose lse is infinite are left out."""
    o, lse = np.asarray(o, np.float64), np.asarray(lse, np.float64)
    o = np.where(np.isinf(lse)[..., None], 0, o)
    sink = np.full(lse.shape[1:], -np.inf)
    if sinks is not None:
        sink[:] = np.asarray(sinks, np.float64)[:, None]
    top = np.maximum(lse.max(0, initial=-np.inf), sink)
    shift = np.where(np.isinf(top), 0, top)
    weights = np.exp(lse - shift)
    total = weights.sum(0) + np.exp(sink - shift)
    with np.errstate(divide="ignore"):
        return (weights[..., None] * o).sum(0) / np.where(total == 0, 1, total)[..., None], np.log(total) + shift


def parts(rng, shape, dtype=np.float32, dead=0.2):
    """Returns random parts. Some are empty, and hold NaN."""
    o = rng.standard_normal(shape).astype(dtype)
    lse = (3 * rng.standard_normal(shape[:4])).astype(np.float32)
    lse[rng.random(lse.shape) < dead] = -np.inf
    o[np.isinf(lse)] = np.nan
    return o, lse


def check(got, want):
    o, lse = got
    assert o.shape == want[0].shape and lse.shape == want[1].shape and lse.dtype == np.float32
    limit = TOLERANCE[o.dtype.name]
    assert np.allclose(o, want[0], rtol=limit, atol=limit)
    assert np.array_equal(np.isinf(lse), np.isinf(want[1]))
    assert np.allclose(lse, want[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("depth", [1, 8, 12, 64, 65, 128])
def test_sizes(rng, depth, dtype):
    for number in [1, 2, 3, 8, 9, 17]:
        shape = (number, int(rng.integers(1, 4)), int(rng.integers(1, 5)), int(rng.choice([1, 2, 63, 65, 97])), depth)
        o, lse = parts(rng, shape, dtype)
        check(flashc.merge_states(o, lse), merge(o, lse))
        sinks = rng.standard_normal(shape[2]).astype(np.float32)
        check(flashc.merge_states(o, lse, sinks=sinks), merge(o, lse, sinks))


def test_large_log_sum_exps(rng):
    """Weights do not overflow. Where they underflow, there is no NaN."""
    o, lse = parts(rng, (5, 2, 3, 20, 16))
    for scale in (30, 1000):
        check(flashc.merge_states(o, lse * np.float32(scale)), merge(o, lse * np.float32(scale)))


def test_nothing_at_all(rng):
    """All parts of a row are empty, and hold NaN."""
    o, lse = parts(rng, (4, 2, 3, 9, 8), dead=1.0)
    got_o, got_lse = flashc.merge_states(o, lse)
    assert np.all(got_o == 0) and np.all(got_lse == -np.inf)
    sinks = np.array([1.5, -np.inf, 0.0], np.float32)
    got_o, got_lse = flashc.merge_states(o, lse, sinks=sinks)
    assert np.all(got_o == 0) and np.array_equal(got_lse, np.broadcast_to(sinks[:, None], (2, 3, 9)))


def test_one_part_is_itself(rng):
    o, lse = parts(rng, (1, 2, 3, 65, 32), dead=0)
    got_o, got_lse = flashc.merge_states(o, lse)
    assert np.array_equal(got_o, o[0]) and np.allclose(got_lse, lse[0], rtol=1e-6)


@pytest.mark.parametrize("sinks", [False, True])
def test_parts_of_attention(rng, sinks):
    q, k, v = inputs(rng, 2, 4, 2, 33, 70, 16)
    sinks = rng.standard_normal(4).astype(np.float32) if sinks else None
    cuts = [(0, 1), (1, 40), (40, 40), (40, 70)]
    states = [flashc.attention(q, k[:, :, a:e], v[:, :, a:e], enable_gqa=True, return_lse=True) for a, e in cuts]
    o, lse = (np.stack(arrays) for arrays in zip(*states))
    check(flashc.merge_states(o, lse, sinks=sinks), attention(q, k, v, sinks=sinks))


def test_strides_and_out(rng):
    """Parts have gaps, as a ring of devices leaves them. The result has another type."""
    o, lse = parts(rng, (3, 2, 20, 5, 48), np.float32)
    turned = o.transpose(0, 1, 3, 2, 4)[..., :40]
    lses = np.ascontiguousarray(lse.transpose(0, 1, 3, 2))
    place = np.full((2, 20, 5, 56), np.nan, np.float16)
    out = place.transpose(0, 2, 1, 3)[..., 8:48], np.full((2, 5, 24), np.nan, np.float32)[..., :20]
    got = flashc.merge_states(turned, lses, out=out)
    assert got[0] is out[0] and got[1] is out[1]
    check(got, merge(turned, lses))
    assert np.isnan(place[..., :8]).all() and np.isnan(place[..., 48:]).all()


def test_torch(rng):
    torch = pytest.importorskip("torch")
    o, lse = parts(rng, (3, 1, 2, 7, 24))
    got = flashc.merge_states(torch.from_numpy(o), torch.from_numpy(lse))
    check([x.numpy() for x in got], merge(o, lse))
    half = torch.from_numpy(o).bfloat16()
    got = flashc.merge_states(half, torch.from_numpy(lse))
    assert got[0].dtype == torch.bfloat16
    assert np.allclose(got[0].float().numpy(), merge(half.float().numpy(), lse)[0], rtol=1e-2, atol=1e-2)
    with pytest.raises(flashc.Error, match="o without gradients"):
        flashc.merge_states(torch.from_numpy(o).requires_grad_(), torch.from_numpy(lse))


def test_no_elements():
    o, lse = flashc.merge_states(np.zeros((0, 2, 3, 5, 8), np.float32), np.zeros((0, 2, 3, 5), np.float32))
    assert np.all(o == 0) and np.all(lse == -np.inf) and o.shape == (2, 3, 5, 8)
    sinks = np.array([1, 2, 3], np.float32)
    _, lse = flashc.merge_states(np.zeros((0, 2, 3, 5, 8), np.float32), np.zeros((0, 2, 3, 5), np.float32), sinks=sinks)
    assert np.array_equal(lse, np.broadcast_to(sinks[:, None], (2, 3, 5)))
    o, _ = flashc.merge_states(np.zeros((2, 2, 3, 0, 8), np.float32), np.zeros((2, 2, 3, 0), np.float32))
    assert o.shape == (2, 3, 0, 8)


O, LSE = np.zeros((2, 1, 3, 5, 8), np.float32), np.zeros((2, 1, 3, 5), np.float32)


@pytest.mark.parametrize("change, error, words", [
    (dict(o=O[0]), flashc.ArgumentError, "o of 5 dimensions"),
    (dict(o=O[..., :0]), flashc.ArgumentError, "with D of at least 1"),
    (dict(o=O.astype(np.int32)), flashc.UnsupportedTypeError, "o of bf16, f16 or f32, got int32"),
    (dict(o=np.zeros((2, 1, 3, 5, 16), np.float32)[..., ::2]), flashc.ArgumentError, "last dimension of o"),
    (dict(lse=LSE[:1]), flashc.ArgumentError, r"lse of shape \[S, B, H, N\] = \[2, 1, 3, 5\], got \(1, 1, 3, 5\)"),
    (dict(lse=LSE.astype(np.float16)), flashc.UnsupportedTypeError, "lse of f32, got f16"),
    (dict(sinks=np.zeros(4, np.float32)), flashc.ArgumentError, r"sinks of shape \[H\] = \[3\]"),
    (dict(out=O[0]), flashc.ArgumentError, r"out to be \(o, lse\)"),
    (dict(out=(O[0, ..., :4], LSE[0])), flashc.ArgumentError, r"out\[0\] of shape \(1, 3, 5, 8\)"),
    (dict(out=(O[0].astype(np.int32), LSE[0].copy())), flashc.UnsupportedTypeError, r"out\[0\] of bf16, f16 or f32"),
    (dict(out=(O[0], LSE[0].copy())), flashc.ArgumentError, r"out\[0\] to be apart from o")])
def test_refusals(change, error, words):
    with pytest.raises(error, match=words):
        flashc.merge_states(**(dict(o=O, lse=LSE) | change))
