"""Gradients of attention of PyTorch tensors on the CPU, against PyTorch's own gradients in f64. The last part tests the
ops; it is skipped where PyTorch is older than 2.4."""
import sys
import warnings

import numpy as np
import pytest

import flashc
from flashc import masks

torch = pytest.importorskip("torch")
from torch.utils.checkpoint import checkpoint  # noqa: E402

HAS_OPS = hasattr(torch.library, "custom_op")
needs_ops = pytest.mark.skipif(not HAS_OPS, reason="PyTorch has no torch.library.custom_op")
if HAS_OPS:
    import flashc.torch

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 3e-2}


def random(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype).requires_grad_()


def eager(q, k, v, score, kept, enable_gqa=True):
    """Returns o and lse in f64, by operations that PyTorch differentiates."""
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = score(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(~kept, -np.inf)
    empty = ~kept.any(-1, keepdim=True)
    s = s.masked_fill(empty, 0)  # so that the gradient of a row without keys is not NaN
    return (s.softmax(-1) @ v).masked_fill(empty, 0), s.logsumexp(-1)


def assert_close(got, want, dtype):
    for name, x, y in zip("qkv", got, want):
        assert x.dtype == dtype and x.shape == y.shape, f"d{name} is {x.dtype} {tuple(x.shape)}"
        error = (x.double() - y).abs().max()
        assert error <= TOLERANCE[dtype] * (1 + y.abs().max()), f"d{name} off by {error}"


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("nq, nk", [(33, 47), (47, 33)])
def test_gradients(dtype, nq, nk):
    """Differentiates o, lse and both, with masks and scores. dq is 0 where a query sees nothing."""
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
@pytest.mark.parametrize("dtype, tolerances", [(torch.float32, dict(eps=1e-2, atol=1e-2, rtol=1e-2)),
                                               (torch.float64, {})])
def test_gradcheck(dtype, tolerances):
    """Runs gradcheck; f64 has to meet PyTorch's default tolerances."""
    inputs = random(1, 2, 5, 8, dtype=dtype), random(1, 1, 7, 8, dtype=dtype), random(1, 1, 7, 8, dtype=dtype)
    for keywords in (dict(window=(3, 1)), dict(score=lambda s, b, h, i, j: 5 * (s / 5).tanh() + i),
                     dict(causal=True, mask=lambda b, h, i, j: (i + j) % 3 != 0)):
        assert torch.autograd.gradcheck(
            lambda *x: flashc.attention(*x, enable_gqa=True, return_lse=keywords.keys() == {"window"}, **keywords),
            inputs, **tolerances)
    offsets = torch.tensor([0, 2, 5], dtype=torch.int32)
    assert torch.autograd.gradcheck(lambda x: flashc.varlen_attention(x, x * 2, x, offsets, causal=True),
                                    [random(5, 1, 8, dtype=dtype)], **tolerances)


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


OFFSETS = torch.tensor([0, 7, 7, 20], dtype=torch.int32)


def check_packed(run):
    """Checks gradients of `run`, which is causal attention of packed sequences."""
    q, k, v = random(20, 2, 8), random(20, 2, 8), random(20, 2, 8)
    got = torch.autograd.grad(run(q, k, v).square().sum(), (q, k, v))
    number = torch.bucketize(torch.arange(20), OFFSETS, right=True)
    kept = (number[:, None] == number) & (torch.arange(20) <= torch.arange(20)[:, None])
    o = eager(*(x.transpose(0, 1)[None] for x in (q, k, v)), lambda s: s, kept)[0]
    assert_close(got, [x.double() for x in torch.autograd.grad(o.square().sum(), (q, k, v))], torch.float32)


def test_packed_sequences():
    check_packed(lambda q, k, v: flashc.varlen_attention(q, k, v, OFFSETS, causal=True))


def test_a_mask_that_is_an_array():
    """A mask array is saved for the backward pass as PyTorch saves tensors, so that PyTorch notices a write to it."""
    q, k, v, keep = random(2, 2, 9, 8), random(2, 2, 11, 8), random(2, 2, 11, 8), torch.rand(2, 1, 9, 11) < 0.7
    keep[..., 0] = True
    do = torch.randn(2, 2, 9, 8)
    o = flashc.attention(q, k, v, mask=keep)
    got = torch.autograd.grad(o, (q, k, v), do, retain_graph=True)
    want = torch.autograd.grad(eager(q, k, v, lambda s: s, keep)[0], (q, k, v), do.double())
    assert_close(got, [x.double() for x in want], torch.float32)
    keep.logical_not_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(o, (q, k, v), do)


def test_what_is_saved():
    """Saves q, k, v, o and the log-sum-exp, and nothing that has an element for each query and key."""
    q, k, v, saved = random(1, 4, 9, 8), random(1, 2, 300, 8), random(1, 2, 300, 24), []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: (saved.append(tuple(x.shape)), x)[1], lambda x: x):
        flashc.attention(q, k, v, enable_gqa=True, mask=masks.causal(), score=lambda s, b, h, i, j: s * 2)
    assert saved == [(1, 4, 9, 8), (1, 2, 300, 8), (1, 2, 300, 24), (1, 4, 9, 24), (1, 4, 9)]


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpointing(use_reentrant):
    q, k, v = random(1, 2, 9, 8), random(1, 2, 11, 8), random(1, 2, 11, 8)

    def run(q, k, v):
        return flashc.attention(q * 2, k, v, score=lambda s, b, h, i, j: s - j).square()

    got = torch.autograd.grad(run(q, k, v).sum(), (q, k, v))
    for x in (q, k, v):
        x.grad = None
    checkpoint(run, q, k, v, use_reentrant=use_reentrant).sum().backward()
    assert all(torch.equal(x, y.grad) for x, y in zip(got, (q, k, v)))


def test_autocast_casts_as_for_the_attention_of_pytorch():
    q, k, v = random(1, 2, 9, 8), random(1, 2, 11, 8, dtype=torch.bfloat16), random(1, 2, 11, 8)
    do = torch.randn(1, 2, 9, 8).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        o = flashc.attention(q, k, v)
    got = torch.autograd.grad(o, (q, k, v), do)
    assert o.dtype == torch.bfloat16 and [x.dtype for x in got] == [x.dtype for x in (q, k, v)]
    low = [x.detach().bfloat16().requires_grad_() for x in (q, k, v)]
    want = torch.autograd.grad(flashc.attention(*low), low, do)
    assert all(torch.equal(x.bfloat16(), y) for x, y in zip(got, want))
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        assert flashc.attention(q, q, q).dtype == torch.bfloat16
        assert flashc.varlen_attention(v[0], v[0], v[0], torch.tensor([0, 2])).dtype == torch.bfloat16
        assert flashc.attention(q.double(), q.double(), q.double()).dtype == torch.float64


@pytest.fixture
def backward_options(monkeypatch):
    """Returns the list of the options of all backward passes."""
    from flashc import _torch_gradient
    seen, function = [], _torch_gradient.backward_of
    monkeypatch.setattr(_torch_gradient, "backward_of", lambda *arguments: (
        seen.append(arguments[1]), function(*arguments))[1])
    return seen


def test_deterministic_algorithms_are_passed_on(backward_options):
    q = random(1, 1, 8, 8)
    was = torch.are_deterministic_algorithms_enabled()
    try:
        for wanted in (True, False):
            torch.use_deterministic_algorithms(wanted)
            flashc.attention(q, q, q).sum().backward()
    finally:
        torch.use_deterministic_algorithms(was)
    assert [options.deterministic for options in backward_options] == [True, False]


def test_a_schedule_is_that_of_the_forward_pass(backward_options):
    q = random(1, 1, 8, 8)
    flashc.attention(q, q, q, schedule="kv-tile=64", static_shapes=True).sum().backward()
    assert backward_options[0].schedule is None and backward_options[0].static_shapes is True


def test_second_order_raises():
    """Second derivatives are refused, even if the gradient of o is constant."""
    q = random(1, 1, 8, 8)
    for loss in (lambda o: o.square().sum(), lambda o: o.sum()):
        first, = torch.autograd.grad(loss(flashc.attention(q, q, q)), q, create_graph=True)
        with pytest.raises(flashc.Error, match="no second derivative"):
            torch.autograd.grad(first.square().sum(), q)


def test_refusals():
    """If gradients are recorded, an input that requires a gradient but can have none is refused, instead of silently
    getting none."""
    q, bias, scale = random(1, 1, 8, 8), random(8, 8), torch.tensor(0.5, requires_grad=True)
    captured = "an array that the mask or the score reads"
    out = torch.zeros(1, 1, 8, 8)
    for words, change in ((captured, dict(q=q.detach(), mask=bias, out=out)), ("scale", dict(scale=scale)),
                          ("q", dict(out=out))):
        with pytest.raises(flashc.Error, match=f"expected {words} without gradients"):
            flashc.attention(**dict(q=q, k=q.detach(), v=q.detach()) | change)
        with torch.no_grad():
            flashc.attention(**dict(q=q, k=q, v=q) | change)
    with pytest.raises(flashc.Error, match="expected q without gradients"):
        flashc.attention(q, np.zeros((1, 1, 8, 8), np.float32), q)
    with pytest.raises(flashc.Error, match="expected do without gradients"):
        flashc.attention_backward(*(q.detach(),) * 4, torch.zeros(1, 1, 8), q)


def test_no_elements():
    q, k = random(1, 2, 0, 8), random(1, 2, 7, 8)
    flashc.attention(q, k, k).sum().backward()
    assert q.grad.shape == q.shape and not k.grad.any()


# --- Ops --------------------------------------------------------------------------------------------------------------

def keeps_pairs(b, h, i, j):
    return (i - j) % 3 != 1


def caps(s, b, h, i, j):
    return 5 * torch.tanh(s / 5)


BIAS = torch.zeros(16)


def adds_bias(s, b, h, i, j):
    return s + BIAS[j]


def sdpa(*inputs, **keywords):
    return flashc.torch.scaled_dot_product_attention(*inputs, **keywords)


RUNS = {
    "attention": lambda q, k, v: flashc.attention(q, k, v, causal=True, enable_gqa=True),
    "log-sum-exp": lambda q, k, v: flashc.attention(q, k, v, window=(4, 1), enable_gqa=True, return_lse=True)[1],
    "functions": lambda q, k, v: flashc.attention(q, k, v, mask=keeps_pairs, score=caps, enable_gqa=True),
    "sdpa": lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True),
    "sdpa, views": lambda q, k, v: sdpa(*(x.transpose(1, 2)[..., :7] for x in (q, q * 2, q + 1)), scale=0.3),
    "flex": lambda q, k, v: flashc.torch.flex_attention(q, k, v, caps, keeps_pairs, enable_gqa=True),
    "packed": lambda q, k, v: flashc.varlen_attention(
        *(x[0].transpose(0, 1) for x in (q, k, v)), torch.tensor([0, 3, 11], dtype=torch.int32),
        torch.tensor([0, 9, 15], dtype=torch.int32), window=5, score=caps, enable_gqa=True),
}


def copied(call):
    """Runs a forward pass whose saved tensors are copied, as by torch.autograd.graph.save_on_cpu."""
    def copy(x):
        return x.clone(memory_format=torch.contiguous_format)
    with torch.autograd.graph.saved_tensors_hooks(copy, lambda x: x):
        return call()


@pytest.mark.parametrize("kind", ["function", "view", "array", "offsets"])
def test_arrays_that_change_after_hooks_have_copied_them(kind):
    """The backward pass reads the copies."""
    q, k, v = (random(8, 2, 16) for _ in range(3))
    ids, wide = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2], dtype=torch.int32), torch.zeros(8, 3, dtype=torch.int32)
    wide[:, 1] = ids
    keep, offsets = torch.rand(8, 8) < 0.7, torch.tensor([0, 3, 8], dtype=torch.int32)
    keep[:, 0] = True
    ids_of = {"function": ids, "view": wide[:, 1]}.get(kind)

    def attend():
        if kind == "offsets":
            return flashc.varlen_attention(q, k, v, offsets, causal=True)
        mask = keep if kind == "array" else lambda b, h, i, j: ids_of[i] == ids_of[j]
        return flashc.attention(*(x.transpose(0, 1)[None] for x in (q, k, v)), mask=mask)
    want = torch.autograd.grad(attend().square().sum(), (q, k, v))
    o = copied(attend)
    for x in (ids, wide, keep):
        x.zero_()
    offsets[1] = 7
    for got, expected in zip(torch.autograd.grad(o.square().sum(), (q, k, v)), want):
        assert torch.allclose(got, expected, atol=1e-6)


def test_tangents_are_refused():
    x, y = torch.randn(1, 2, 8, 16), torch.randn(1, 2, 8, 16)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, y)
        for call in (lambda: flashc.attention(dual, y, y), lambda: flashc.attention(y, y, dual)):
            with pytest.raises(flashc.Error, match="expected tensors without tangents"):
                call()
        flashc.attention(y, y, y)


@needs_ops
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_graphs_have_the_gradients_of_calls(name, dynamic):
    torch._dynamo.reset()
    run = torch.compile(RUNS[name], backend="aot_eager", fullgraph=True, dynamic=dynamic)
    inputs = random(1, 4, 11, 8), random(1, 2, 15, 8), random(1, 2, 15, 16)
    want, got = RUNS[name](*inputs), run(*inputs)
    assert got.shape == want.shape and got.stride() == want.stride() and torch.equal(got, want)
    do = torch.randn(want.shape)
    for one, other in zip(*(torch.autograd.grad(o, inputs, do, allow_unused=True) for o in (got, want))):
        assert (one is None and other is None) or torch.equal(one, other)


@needs_ops
@pytest.mark.parametrize("name", ["attention", "sdpa", "flex", "packed"])
def test_graphs_under_autocast(name):
    def run(*inputs):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return RUNS[name](*inputs)

    torch._dynamo.reset()
    inputs = random(1, 4, 11, 8), random(1, 2, 15, 8), random(1, 2, 15, 16)
    want, got = run(*inputs), torch.compile(run, backend="aot_eager", fullgraph=True)(*inputs)
    assert got.dtype == torch.bfloat16 and torch.equal(got, want)
    for one, other in zip(*(torch.autograd.grad(o.float().square().sum(), inputs) for o in (got, want))):
        assert one.dtype == torch.float32 and torch.equal(one, other)


@needs_ops
def test_closures_break_the_graph_and_keep_the_gradients():
    torch._dynamo.reset()
    width, inputs = 3, (random(1, 2, 11, 8), random(1, 2, 15, 8), random(1, 2, 15, 8))

    def run(q, k, v):
        return flashc.attention(q * 2, k, v, mask=lambda b, h, i, j: abs(i - j) < width) * 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = torch.compile(run, backend="aot_eager")(*inputs)
    for one, other in zip(*(torch.autograd.grad(o.sum(), inputs) for o in (got, run(*inputs)))):
        assert torch.equal(one, other)


@needs_ops
def test_drop_ins_are_differentiable():
    q, k, v = random(2, 3, 9, 13), random(2, 3, 11, 13), random(2, 3, 11, 7)
    keep = torch.rand(2, 1, 9, 11) < 0.7
    keep[..., 0] = True
    do = torch.randn(2, 3, 9, 7)
    got = torch.autograd.grad(sdpa(q, k, v, attn_mask=keep), (q, k, v), do)
    want = torch.autograd.grad(eager(q, k, v, lambda s: s, keep)[0], (q, k, v), do.double())
    assert_close(got, [x.double() for x in want], torch.float32)
    got = torch.autograd.grad(flashc.torch.flex_attention(q, k, v, caps, masks.causal("top-left")), (q, k, v), do)
    kept = torch.arange(11) <= torch.arange(9)[:, None]
    want = torch.autograd.grad(eager(q, k, v, lambda s: 5 * (s / 5).tanh(), kept)[0], (q, k, v), do.double())
    assert_close(got, [x.double() for x in want], torch.float32)


@needs_ops
def test_drop_ins_have_gradients_of_biases(monkeypatch):
    """The drop-ins give gradients for a mask of numbers, and for tensors that a function reads."""
    q, bias, row, do = random(1, 2, 9, 8), random(9, 9), random(9), torch.randn(1, 2, 9, 8)
    monkeypatch.setattr(sys.modules[__name__], "BIAS", row)
    for function, x in ((lambda q: sdpa(q, q, q, attn_mask=bias), bias),
                        (lambda q: flashc.torch.flex_attention(q, q, q, adds_bias), row)):
        want = torch.autograd.grad(eager(q, q, q, lambda s: s + x, torch.tensor(True))[0], (q, x), do.double())
        assert_close(torch.autograd.grad(function(q), (q, x), do), [y.double() for y in want], torch.float32)
        assert_close(torch.autograd.grad(function(q.detach()), (x,), do), [want[1].double()], torch.float32)


@needs_ops
def test_arrays_that_require_gradients_are_refused_in_graphs(monkeypatch):
    """Tensors that functions read are refused when the graph runs, because they are read then."""
    def run(function, *inputs):
        torch._dynamo.reset()
        with pytest.raises(Exception, match="expected an array that the mask or the score reads without gradients"):
            torch.compile(function, backend="aot_eager", fullgraph=True)(*inputs)

    q, bias = random(1, 2, 9, 8), random(9, 9)
    run(lambda q, bias: flashc.attention(q, q, q, mask=bias), q, bias)
    run(lambda q, bias: sdpa(q, q, q, attn_mask=bias), q, bias)
    run(lambda q, bias: sdpa(q, q, q, attn_mask=bias), q.detach(), bias)
    monkeypatch.setattr(sys.modules[__name__], "BIAS", random(9))
    run(lambda q: flashc.attention(q, q, q, score=adds_bias), q)
    run(lambda q: flashc.torch.flex_attention(q, q, q, adds_bias), q.detach())


@needs_ops
def test_second_order_of_ops_raises():
    q = random(1, 1, 8, 8)
    arguments = (q, q, q, None, None, None, False, None, None, None, False, "bhsd")
    o, _ = torch.ops.flashc.attention.default(*arguments, True)
    first, = torch.autograd.grad(o.sum(), q, create_graph=True)
    with pytest.raises(flashc.Error, match="no second derivative"):
        torch.autograd.grad(first.sum(), q)
    with pytest.raises(flashc.Error, match="return_lse=True where gradients are recorded"):
        torch.ops.flashc.attention.default(*arguments, False)


@needs_ops
def test_ops_are_registered_as_pytorch_asks():
    q, k, v = random(1, 4, 9, 8), random(1, 2, 11, 8), random(1, 2, 11, 8)
    options = (None, None, None, True, None, None, 0.25, True, "bhsd")
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.flashc.attention.default, (q, k, v, *options, True), test_utils=tests)
    with torch.no_grad():
        o, lse = torch.ops.flashc.attention.default(q, k, v, *options, True)
        arguments = (q.detach(), k.detach(), v.detach(), o, lse, torch.randn(o.shape))
    for dlse in (None, torch.randn(lse.shape)):
        torch.library.opcheck(torch.ops.flashc.attention_backward.default,
                              (*arguments, dlse, *options, None, None, False), test_utils=tests)
