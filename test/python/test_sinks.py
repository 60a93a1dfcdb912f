"""Sinks on the CPU: an additional column in every softmax, against the formula in f64 and against difference quotients;
and refusals."""
import numpy as np
import pytest

import flashc
from flashc import ops
import reference as book
from reference import inputs

NAMES = "dq", "dk", "dv", "dsinks"


def reference(q, k, v, sinks, keep=None):
    """Returns o and lse of [B, H, N, D] arrays in f64. There may be fewer key heads than query heads."""
    return book.attention(q, k, v, None if keep is None else lambda *_: keep, sinks=sinks)


def make(rng, nq=33, nk=47, dtype=np.float32, d=8):
    q, k, v = inputs(rng, 2, 4, 2, nq, nk, d, 24, dtype)
    sinks = np.array([-np.inf, 1.5, -2.0, 30.0], np.float32)
    return q, k, v, sinks


def causal(nq, nk):
    return np.arange(nk)[None] <= np.arange(nq)[:, None] + nk - nq


@pytest.mark.parametrize("nq, nk", [(33, 47), (47, 33), (1, 1), (65, 5)])
@pytest.mark.parametrize("dtype, limit", [("float32", 1e-5), ("float16", 2e-3)])
def test_sinks(rng, nq, nk, dtype, limit):
    """With more queries than keys, the first queries see no key, and their lse is the sink."""
    q, k, v, sinks = make(rng, nq, nk, dtype)
    o, lse = flashc.attention(q, k, v, causal=True, sinks=sinks, enable_gqa=True, return_lse=True)
    want_o, want_lse = reference(q, k, v, sinks, causal(nq, nk))
    assert np.abs(o - want_o).max() <= limit * (1 + np.abs(want_o).max())
    assert np.array_equal(np.isinf(lse), np.isinf(want_lse))
    finite = np.isfinite(want_lse)
    assert np.allclose(lse[finite], want_lse[finite], atol=1e-3)
    for i in range(max(nq - nk, 0)):
        assert not o[:, :, i].any() and np.array_equal(lse[0, :, i], sinks)
    alone = flashc.attention(q, k, v, causal=True, sinks=sinks, enable_gqa=True)
    assert np.abs(alone - want_o).max() <= limit * (1 + np.abs(want_o).max())


def test_scale_score_and_mask_do_not_apply(rng):
    q, k, v, sinks = make(rng)
    o = flashc.attention(q * 2, k, v, scale=0.5 * 8**-0.5, mask=lambda b, h, i, j: j % 3 > 0, sinks=sinks,
                         score=lambda s, b, h, i, j: s + 0.0 * ops.tanh(s), enable_gqa=True)
    want, _ = reference(q, k, v, sinks, np.arange(47)[None] % 3 > 0)
    assert np.abs(o - want).max() <= 1e-5 * (1 + np.abs(want).max())


def test_minus_infinity_is_no_sink(rng):
    q, k, v, _ = make(rng)
    o, lse = flashc.attention(q, k, v, enable_gqa=True, return_lse=True)
    both = flashc.attention(q, k, v, sinks=np.full(4, -np.inf, np.float32), enable_gqa=True, return_lse=True)
    assert np.array_equal(o, both[0]) and np.array_equal(lse, both[1])


def test_layouts_and_packed_sequences(rng):
    q, k, v, sinks = make(rng, 40, 40)
    want, _ = reference(q, k, v, sinks)
    o = flashc.attention(*(x.swapaxes(1, 2) for x in (q, k, v)), sinks=sinks, enable_gqa=True, layout="bshd")
    assert np.abs(o.swapaxes(1, 2) - want).max() <= 1e-5 * (1 + np.abs(want).max())
    offsets = np.array([0, 7, 7, 40], np.int32)
    owner = np.searchsorted(offsets[1:], np.arange(40), side="right")
    want, _ = reference(q[:1], k[:1], v[:1], sinks, owner[:, None] == owner)
    o = flashc.varlen_attention(*(x[0].swapaxes(0, 1) for x in (q, k, v)), offsets, sinks=sinks, enable_gqa=True)
    assert np.abs(o.swapaxes(0, 1) - want[0]).max() <= 1e-5 * (1 + np.abs(want).max())


def test_no_keys():
    q, k, v = np.ones((2, 4, 3, 8), np.float32), np.ones((2, 4, 0, 8), np.float32), np.ones((2, 4, 0, 8), np.float32)
    sinks = np.arange(4, dtype=np.float32)
    o, lse = flashc.attention(q, k, v, sinks=sinks, return_lse=True)
    assert not o.any() and np.array_equal(lse, np.broadcast_to(sinks[None, :, None], (2, 4, 3)))
    dlse = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    dq, dk, dv, dsinks = flashc.attention_backward(q, k, v, o, lse, o, dlse=dlse, sinks=sinks)
    assert not dq.any() and dk.shape == k.shape and np.array_equal(dsinks, dlse.sum(axis=(0, 2)))
    assert not flashc.attention_backward(q, k, v, o, lse, o, sinks=sinks)[3].any()


def test_kernels(rng):
    """A kernel keeps the sinks that it was compiled with. Another number of heads is refused."""
    q, k, v, sinks = make(rng)
    kernel = flashc.compile(q, k, v, sinks=sinks, enable_gqa=True)
    want, _ = reference(q, k, v, sinks)
    assert np.abs(kernel(q, k, v) - want).max() <= 1e-5 * (1 + np.abs(want).max())
    empty = np.zeros((2, 2, 0, 8), np.float32), np.zeros((2, 2, 0, 24), np.float32)
    assert np.array_equal(kernel(q, *empty, return_lse=True)[1][0, :, 0], sinks)
    with pytest.raises(flashc.ArgumentError, match=r"expected sinks of shape \[Hq\] = \[4\], got \(3,\)"):
        flashc.compile(q, k, v, sinks=sinks[:3], enable_gqa=True)
    for keys in (3, 0):
        others = (np.zeros((2, heads, n, d), np.float32) for heads, n, d in ((6, 3, 8), (3, keys, 8), (3, keys, 24)))
        with pytest.raises(flashc.ArgumentError, match="sinks.*6.*got .?4"):
            kernel(*others, return_lse=True)
    spec = flashc.ArraySpec((1, 4, 64, 64), "bf16")
    kernel = flashc.compile(spec, spec, spec, sinks=flashc.ArraySpec((4,), "f32"))
    assert [one["name"] for one in kernel.manifest["arguments"]] == ["q", "k", "v", "sinks", "o", "lse"]
    assert kernel.cost.matmul_flops > 0


def gradients(q, k, v, sinks, do, dlse, **keywords):
    o, lse = flashc.attention(q, k, v, sinks=sinks, enable_gqa=True, return_lse=True, **keywords)
    return flashc.attention_backward(q, k, v, o, lse, do, dlse=dlse, sinks=sinks, enable_gqa=True, **keywords)


def test_gradients_against_differences(rng):
    """Compares gradients of a random sum of o and lse with difference quotients, in f64."""
    q, k, v = (x.astype(np.float64) for x in inputs(rng, 2, 4, 2, 5, 6, 4, 3, np.float32))
    arrays = [q, k, v, np.array([0.3, 1.5, -2.0, 2.5])]
    do, dlse = rng.standard_normal((2, 4, 5, 3)), rng.standard_normal((2, 4, 5))

    def total():
        o, lse = reference(*arrays)
        return (o * do).sum() + (lse * dlse).sum()

    for x, found in zip(arrays, gradients(*arrays, do, dlse)):
        assert found.shape == x.shape and found.dtype == x.dtype
        want = book.differences(total, x)
        assert (abs(found - want) <= 1e-6 * (1 + abs(want))).all()


@pytest.mark.parametrize("nq, nk", [(33, 47), (47, 33)])
def test_gradients_of_f32(rng, nq, nk):
    """Compares gradients with f64, also for rows without keys, in arrays that the caller gives."""
    q, k, v, sinks = make(rng, nq, nk)
    do, dlse = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 4, nq, 24), (2, 4, nq)))
    with np.errstate(invalid="ignore"):
        want = gradients(*(x.astype(np.float64) for x in (q, k, v, sinks, do, dlse)), causal=True)
    o, lse = flashc.attention(q, k, v, sinks=sinks, causal=True, enable_gqa=True, return_lse=True)
    outs = tuple(np.full_like(x, np.nan) for x in (q, k, v, sinks))
    found = flashc.attention_backward(q, k, v, o, lse, do, dlse=dlse, sinks=sinks, causal=True, enable_gqa=True,
                                      out=outs)
    assert all(x is y for x, y in zip(found, outs))
    for name, x, y in zip(NAMES, found, want):
        assert np.abs(x - y).max() <= 2e-5 * (1 + np.abs(y).max()), name


def test_torch(rng):
    """PyTorch records the gradient of sinks, even if no other input requires one."""
    torch = pytest.importorskip("torch")
    for needs_all in (True, False):
        leaves = [torch.tensor(x, dtype=torch.float64) for x in inputs(rng, 1, 2, 1, 4, 5, 3, 3, np.float32)]
        leaves.append(torch.tensor([0.5, -1.0], dtype=torch.float64))
        for x in leaves if needs_all else leaves[3:]:
            x.requires_grad_()
        assert torch.autograd.gradcheck(
            lambda *x: flashc.attention(*x[:3], sinks=x[3], enable_gqa=True, causal=True, return_lse=True), leaves)
    with pytest.raises(flashc.Error, match="expected sinks without gradients"):
        out = torch.empty(1, 2, 4, 3, dtype=torch.float64)
        flashc.attention(*leaves[:3], sinks=leaves[3], enable_gqa=True, out=out)


@pytest.mark.parametrize("sinks, message", [
    (np.zeros(2, np.float32), r"expected sinks of shape \[Hq\] = \[4\], got \(2,\)"),
    (np.zeros((2, 4), np.float32), r"expected sinks of shape \[Hq\] = \[4\], got \(2, 4\)"),
    (np.zeros(4, np.int32), "expected sinks of f32, got int32"),
    (np.zeros(8, np.float32)[::2], "last dimension of sinks to be contiguous"),
])
def test_refusals(rng, sinks, message):
    q, k, v, _ = make(rng)
    with pytest.raises((flashc.ArgumentError, flashc.UnsupportedTypeError), match=message):
        flashc.attention(q, k, v, sinks=sinks, enable_gqa=True)


def test_refusals_of_gradients(rng):
    q, k, v, sinks = make(rng)
    o, lse = flashc.attention(q, k, v, sinks=sinks, enable_gqa=True, return_lse=True)
    with pytest.raises(flashc.ArgumentError, match=r"expected out to be \(dq, dk, dv, dsinks\), got 3 arrays"):
        flashc.attention_backward(q, k, v, o, lse, o, sinks=sinks, enable_gqa=True, out=(None, None, None))
    with pytest.raises(flashc.ArgumentError, match=r"expected sinks of shape \[Hq\] = \[4\], got \(3,\)"):
        flashc.attention_backward(q, k, v, o, lse, o, sinks=sinks[:3], enable_gqa=True)
