"""flashc.attention of PyTorch's tensors on the CPU is differentiable: against PyTorch's own gradients in f64."""
import numpy as np
import pytest

import flashc

torch = pytest.importorskip("torch")

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 3e-2}


def random(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype).requires_grad_()


def eager(q, k, v, score, kept, enable_gqa=True):
    """o and lse in f64 from operations that PyTorch differentiates."""
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = score(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(~kept, -np.inf)
    empty = ~kept.any(-1, keepdim=True)
    s = s.masked_fill(empty, 0)  # no NaN in the gradient of rows without keys
    return (s.softmax(-1) @ v).masked_fill(empty, 0), s.logsumexp(-1)


def assert_close(got, want, dtype):
    for x, y in zip(got, want):
        assert x.dtype == dtype and x.shape == y.shape
        assert (x.double() - y).abs().max() <= TOLERANCE[dtype] * (1 + y.abs().max())


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("nq, nk", [(33, 47), (47, 33)])
def test_gradients(dtype, nq, nk):
    """Of both results, of both and one of them, with masks and scores; dq is 0 where a query sees nothing."""
    q, k, v = random(2, 4, nq, 8, dtype=dtype), random(2, 2, nk, 8, dtype=dtype), random(2, 2, nk, 24, dtype=dtype)
    kept = torch.arange(nk) <= torch.arange(nq)[:, None] + nk - nq
    o, lse = flashc.attention(q, k, v, causal=True, score=lambda s, b, h, i, j: 5 * (s / 5).tanh(), enable_gqa=True,
                              return_lse=True)
    want_o, want_lse = eager(q, k, v, lambda s: 5 * (s / 5).tanh(), kept)
    do, dlse = torch.randn(o.shape).to(dtype), torch.randn(lse.shape) * kept.any(-1)
    for outputs, gradients in (((0, 1), (do, dlse)), ((0,), (do,)), ((1,), (dlse,))):
        got = torch.autograd.grad([(o, lse)[n] for n in outputs], (q, k, v), gradients, retain_graph=True)
        if outputs == (1,):
            want = torch.autograd.grad(want_lse, (q, k), dlse.double(), retain_graph=True)
            want = (*want, torch.zeros_like(v))
        else:
            want = torch.autograd.grad([(want_o, want_lse)[n] for n in outputs], (q, k, v),
                                       [x.double() for x in gradients], retain_graph=True)
        assert_close(got, [x.double() for x in want], dtype)
        assert not got[0][:, :, ~kept.any(-1)].any()


@pytest.mark.filterwarnings("ignore:.*not a double precision")
def test_gradcheck():
    q, k, v = random(1, 2, 5, 8), random(1, 1, 7, 8), random(1, 1, 7, 8)
    assert torch.autograd.gradcheck(
        lambda *x: flashc.attention(*x, window=(3, 1), enable_gqa=True, return_lse=True), (q, k, v), eps=1e-2,
        atol=1e-2, rtol=1e-2)


def test_expanded_and_transposed_gradients():
    q, k, v = random(2, 9, 3, 8), random(2, 11, 3, 8), random(2, 11, 3, 8)
    everything = torch.ones(9, 11, dtype=torch.bool)
    for loss in (lambda o: o.sum(), lambda o: (o.transpose(-1, -2) * torch.arange(72.).view(8, 9)).sum()):
        got = torch.autograd.grad(loss(flashc.attention(q, k, v, layout="bshd").transpose(1, 2)), (q, k, v))
        want = torch.autograd.grad(loss(eager(*(x.transpose(1, 2) for x in (q, k, v)), lambda s: s, everything)[0]),
                                   (q, k, v))
        assert_close(got, [x.double() for x in want], torch.float32)


def test_one_of_three_requires_a_gradient():
    q, k, v = random(1, 2, 9, 8).detach(), random(1, 2, 11, 8), random(1, 2, 11, 8).detach()
    flashc.attention(q, k, v).sum().backward()
    assert k.grad.abs().max() > 0 and q.grad is None and v.grad is None
    assert not flashc.attention(q, v, v).requires_grad
    with torch.no_grad():
        assert not flashc.attention(q, k, v).requires_grad


def test_packed_sequences():
    q, k, v = random(20, 2, 8), random(20, 2, 8), random(20, 2, 8)
    offsets = torch.tensor([0, 7, 7, 20], dtype=torch.int32)
    got = torch.autograd.grad(flashc.varlen_attention(q, k, v, offsets, causal=True).square().sum(), (q, k, v))
    number = torch.bucketize(torch.arange(20), offsets, right=True)
    kept = (number[:, None] == number) & (torch.arange(20) <= torch.arange(20)[:, None])
    o = eager(*(x.transpose(0, 1)[None] for x in (q, k, v)), lambda s: s, kept)[0]
    assert_close(got, [x.double() for x in torch.autograd.grad(o.square().sum(), (q, k, v))], torch.float32)


def test_second_order_raises():
    """Also where the gradient of o is a constant."""
    q = random(1, 1, 8, 8)
    for loss in (lambda o: o.square().sum(), lambda o: o.sum()):
        first, = torch.autograd.grad(loss(flashc.attention(q, q, q)), q, create_graph=True)
        with pytest.raises(flashc.Error, match="no second derivative"):
            torch.autograd.grad(first.square().sum(), q)


def test_refusals():
    """What has no gradient here says so while gradients are recorded, instead of cutting it."""
    q, bias, scale = random(1, 1, 8, 8), random(8, 8), torch.tensor(0.5, requires_grad=True)
    captured = "an array that the mask or the score reads"
    for words, change in ((captured, dict(mask=bias)), (captured, dict(score=lambda s, b, h, i, j: s + bias[i, j])),
                          ("scale", dict(scale=scale)), ("q", dict(out=torch.zeros(1, 1, 8, 8)))):
        with pytest.raises(flashc.Error, match=f"expected {words} without gradients"):
            flashc.attention(q, q, q, **change)
        with torch.no_grad():
            flashc.attention(q, q, q, **change)
    with pytest.raises(flashc.Error, match="expected q without gradients"):
        flashc.attention(q, np.zeros((1, 1, 8, 8), np.float32), q)
    with pytest.raises(flashc.Error, match="expected do without gradients"):
        flashc.attention_backward(*(q.detach(),) * 4, torch.zeros(1, 1, 8), q)


def test_no_elements():
    q, k = random(1, 2, 0, 8), random(1, 2, 7, 8)
    flashc.attention(q, k, k).sum().backward()
    assert q.grad.shape == q.shape and not k.grad.any()
