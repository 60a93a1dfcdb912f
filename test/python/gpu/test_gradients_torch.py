"""Gradients of attention that PyTorch records on a GPU: eager, torch.compile, autocast, checkpointing, CUDA graphs.
Skipped where there is no GPU.

Gradients follow the rule of docs/checking.md. Outputs are NaN before the launch, and so is the memory after inputs."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

from torch.utils.checkpoint import checkpoint  # noqa: E402

import flashc  # noqa: E402
import flashc.torch  # noqa: E402
from flashc import masks  # noqa: E402
from flashc.bench import _check  # noqa: E402
from .guarded import BF16, F16, F32, bottom_right, fresh_numbers, random, sdpa, top_left  # noqa: E402, F401


def leaves(*shapes, dtype=BF16, swapped=False):
    """Returns arrays of normal(0, 1) that require gradients and are followed by NaN in memory."""
    return [random(*shape, dtype=dtype, swapped=swapped).requires_grad_() for shape in shapes]


def qkv(b=2, hq=4, hk=2, nq=200, nk=300, d=64, dv=None, **how):
    return leaves((b, hq, nq, d), (b, hk, nk, d), (b, hk, nk, dv or d), **how)


def assert_right(got, q, k, v, do, **how):
    """Checks (dq, dk, dv) of [B, H, N, D] arrays."""
    problem = _check.GradientReference(q.detach(), k.detach(), v.detach(), do, **how).compare(got).problem
    assert not problem, problem


def check(run, inputs, **how):
    """Checks the gradients of `run`, which computes o from q, k and v. All arrays are [B, H, N, D]."""
    o = run(*inputs)
    do = random(*o.shape, dtype=o.dtype)
    got = torch.autograd.grad(o, inputs, do)
    for x, gradient in zip(inputs, got):
        assert gradient.dtype == x.dtype and gradient.shape == x.shape
    assert_right(got, *inputs, do, **how)


def assert_equal(got, want, deterministic=False):
    """Checks that dk and dv have equal bits, since only two heads of a group add to them. dq has equal bits if
    `deterministic`; otherwise it is summed in any order, and may differ by rounding."""
    for name, one, other in zip(("dq", "dk", "dv"), got, want):
        assert one.dtype == other.dtype, f"{name} is {one.dtype}, expected {other.dtype}"
        off = (one.float() - other.float()).abs()
        if name == "dq" and not deterministic:
            last_place = torch.finfo(one.dtype).eps * other.float().abs()
            assert (off <= last_place + 1e-6 * other.float().abs().max()).all(), f"dq off by {off.max()}"
        else:
            assert torch.equal(one, other), f"{name} off by {off.max()}"


def step(run, inputs, do):
    """Returns o and the gradients of the inputs."""
    o = run(*inputs)
    return [o.detach(), *torch.autograd.grad(o, inputs, do)]


# --- Numbers ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("d, dv", [(64, 64), (128, 128), (72, 40)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(d, dv, causal, dtype):
    check(lambda q, k, v: flashc.attention(q, k, v, causal=causal, enable_gqa=True), qkv(d=d, dv=dv, dtype=dtype),
          keep=bottom_right(200, 300) if causal else None)


def test_attention_with_the_log_sum_exp():
    """Differentiates both results."""
    q, k, v = qkv(1, 2, 2, 100, 130)
    o, lse = flashc.attention(q, k, v, return_lse=True)
    do, dlse = random(*o.shape), torch.randn(lse.shape, device="cuda")
    got = torch.autograd.grad((o, lse), (q, k, v), (do, dlse))
    inputs = [x.detach().float().requires_grad_() for x in (q, k, v)]
    s = inputs[0] @ inputs[1].mT * 64 ** -0.5
    want = torch.autograd.grad((s.softmax(-1) @ inputs[2], s.logsumexp(-1)), inputs, (do.float(), dlse))
    for name, one, other in zip("qkv", got, want):
        error = (one.float() - other).norm() / other.norm()
        assert error < 5e-3, f"d{name} has a relative Frobenius error of {error}"


def test_masks_and_scores():
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625], device="cuda")
    i, j = torch.arange(200, device="cuda")[:, None], torch.arange(300, device="cuda")
    check(lambda q, k, v: flashc.attention(q, k, v, mask=masks.sliding_window(50, align="top-left"), enable_gqa=True,
                                           score=lambda s, b, h, i, j: 20 * torch.tanh(s / 20) + slopes[h] * (j - i)),
          qkv(), keep=(j <= i) & (i - j <= 50),
          score=lambda s: 20 * torch.tanh(s / 20) + (slopes[:, None, None] * (j - i)).to(s.dtype))
    keep = torch.rand(2, 1, 200, 300, device="cuda") < 0.6
    check(lambda q, k, v: flashc.attention(q, k, v, mask=keep, enable_gqa=True), qkv(), keep=keep)


def test_layouts_and_expanded_gradients():
    inputs = qkv(swapped=True)
    check(lambda q, k, v: flashc.attention(q, k, v, enable_gqa=True), inputs)
    check(lambda q, k, v: flashc.attention(*(x.transpose(1, 2) for x in (q, k, v)), layout="bshd",
                                           enable_gqa=True).transpose(1, 2), inputs)
    for loss in (lambda o: o.sum(), lambda o: (o.mT * torch.ones(200, device="cuda", dtype=BF16)).sum()):
        got = torch.autograd.grad(loss(flashc.attention(*inputs, enable_gqa=True)), inputs)
        assert_right(got, *inputs, torch.ones_like(inputs[0]).detach())


def test_packed_sequences():
    offsets = torch.tensor([0, 100, 100, 237, 300], device="cuda", dtype=torch.int32)
    number = torch.bucketize(torch.arange(300, device="cuda"), offsets, right=True)
    keep = (number[:, None] == number) & top_left(300, 300)

    def run(q, k, v):
        rows = (x[0].transpose(0, 1) for x in (q, k, v))
        return flashc.varlen_attention(*rows, offsets, causal=True, enable_gqa=True).transpose(0, 1)[None]

    check(run, qkv(1, nq=300, swapped=True), keep=keep)


@pytest.mark.parametrize("nq, nk", [(200, 300), (300, 200)])
def test_sdpa(nq, nk):
    check(lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True), qkv(nq=nq, nk=nk), keep=top_left(nq, nk))
    bias = torch.randn(4, 1, nk, device="cuda")
    check(lambda q, k, v: sdpa(q, k, v, attn_mask=bias, enable_gqa=True), qkv(nq=nq, nk=nk),
          score=lambda s: s + bias.to(s.dtype))


def test_sdpa_copies_and_pads():
    check(sdpa, qkv(hk=4, d=33, dv=7))
    check(lambda q, k, v: sdpa(*(x.mT.contiguous().mT for x in (q, k, v))), qkv(hk=4))
    check(lambda q, k, v: sdpa(q, k.expand_as(q), v.expand_as(q)), qkv(1, 4, 1, 300, 300))


def test_flex_attention():
    torch_flex = pytest.importorskip("torch.nn.attention.flex_attention")

    def window(b, h, q_idx, kv_idx):
        return (q_idx >= kv_idx) & (q_idx - kv_idx <= 100)

    block_mask = torch_flex.create_block_mask(window, None, None, 300, 300, device="cuda")
    i, j = torch.arange(300, device="cuda")[:, None], torch.arange(300, device="cuda")
    check(lambda q, k, v: flashc.torch.flex_attention(q, k, v, lambda s, b, h, i, j: s - (i - j) * 0.125, block_mask,
                                                      enable_gqa=True),
          qkv(nq=300), keep=(i >= j) & (i - j <= 100), score=lambda s: s - ((i - j) * 0.125).to(s.dtype))


def test_queries_that_see_nothing_have_no_gradient():
    inputs = qkv(nq=300, nk=200)
    got = torch.autograd.grad(flashc.attention(*inputs, causal=True, enable_gqa=True).sum(), inputs)
    assert not got[0][:, :, :100].any() and all(x.isfinite().all() for x in got)


# --- Refusals ---------------------------------------------------------------------------------------------------------

def test_second_order_raises():
    q, k, v = qkv()
    first, = torch.autograd.grad(flashc.attention(q, k, v, enable_gqa=True).sum(), q, create_graph=True)
    with pytest.raises(flashc.Error, match="no second derivative"):
        first.sum().backward()


def test_what_has_no_gradient_is_refused():
    q, k, v = qkv(hk=4)
    with pytest.raises(flashc.Error, match="q without gradients"):
        flashc.attention(q, k, v, out=torch.empty_like(q))


# --- What is kept -----------------------------------------------------------------------------------------------------

def test_what_is_saved():
    inputs, saved = qkv(1), []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: (saved.append(tuple(x.shape)), x)[1], lambda x: x):
        flashc.attention(*inputs, enable_gqa=True, mask=masks.causal())
    assert saved == [(1, 4, 200, 64), (1, 2, 300, 64), (1, 2, 300, 64), (1, 4, 200, 64), (1, 4, 200)]


def test_memory():
    """A step needs a few arrays of the size of q, much less than one array of scores."""
    inputs = qkv(1, 1, 1, 8192, 8192)
    do = random(1, 1, 8192, 64)
    for _ in range(2):
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step(flashc.attention, inputs, do)
    assert torch.cuda.max_memory_allocated() - before < 8 * do.nbytes < 8192 * 8192 / 4


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpointing(use_reentrant):
    inputs = qkv()
    do = random(2, 4, 200, 64)

    def run(q, k, v):
        return flashc.attention(q * 2, k, v, causal=True, enable_gqa=True)

    want = step(run, inputs, do)
    checkpoint(run, *inputs, use_reentrant=use_reentrant).backward(do)
    assert_equal([x.grad for x in inputs], want[1:])


def test_deterministic_algorithms():
    inputs = qkv(nq=1000, nk=1000, d=128)
    do = random(2, 4, 1000, 128)
    was = torch.are_deterministic_algorithms_enabled()
    try:
        torch.use_deterministic_algorithms(True)
        first = step(lambda *x: flashc.attention(*x, causal=True, enable_gqa=True), inputs, do)
        for _ in range(20):
            assert_equal(step(lambda *x: flashc.attention(*x, causal=True, enable_gqa=True), inputs, do)[1:], first[1:],
                         deterministic=True)
    finally:
        torch.use_deterministic_algorithms(was)


def test_streams():
    inputs = qkv()
    do = random(2, 4, 200, 64)
    want = step(lambda *x: flashc.attention(*x, enable_gqa=True), inputs, do)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        got = step(lambda *x: flashc.attention(*x, enable_gqa=True), inputs, do)
    torch.cuda.current_stream().wait_stream(stream)
    assert_equal(got[1:], want[1:])


# --- Autocast ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("run", [flashc.attention, sdpa, flashc.torch.flex_attention])
@pytest.mark.parametrize("dtype", [BF16, F16])
def test_autocast(run, dtype):
    """As with PyTorch's own attention, inputs are f32, outputs have the type of autocast, and gradients are f32."""
    inputs = qkv(dtype=F32)
    with torch.autocast("cuda", dtype=dtype):
        o = run(*inputs, enable_gqa=True)
    assert o.dtype == dtype
    do = random(2, 4, 200, 64, dtype=dtype)
    got = torch.autograd.grad(o, inputs, do)
    low = [x.detach().to(dtype).requires_grad_() for x in inputs]
    want = [x.float() for x in torch.autograd.grad(run(*low, enable_gqa=True), low, do)]
    for x, y in zip(got, want):  # sums of dq may be added up in another order
        assert (x - y).norm() <= 5e-3 * y.norm()


# --- torch.compile ----------------------------------------------------------------------------------------------------

def keeps_pairs(b, h, i, j):
    return (i - j) % 3 != 1


def caps(s, b, h, i, j):
    return 5 * torch.tanh(s / 5)


OFFSETS = torch.tensor([0, 60, 60, 200], device="cuda", dtype=torch.int32)

RUNS = {
    "attention": lambda q, k, v: flashc.attention(q, k, v, causal=True, enable_gqa=True),
    "functions": lambda q, k, v: flashc.attention(q, k, v, mask=keeps_pairs, score=caps, enable_gqa=True),
    "sdpa": lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True),
    "flex": lambda q, k, v: flashc.torch.flex_attention(q, k, v, caps, keeps_pairs, enable_gqa=True),
    "packed": lambda q, k, v: flashc.varlen_attention(*(x[0].transpose(0, 1) for x in (q, k, v)), OFFSETS, causal=True,
                                                      enable_gqa=True),
}


@pytest.mark.parametrize("name", RUNS)
def test_compile(name):
    torch.compiler.reset()
    inputs = qkv(1, nk=200)
    want = RUNS[name](*inputs)
    do = torch.randn_like(want)
    got = torch.compile(RUNS[name], fullgraph=True)(*inputs)
    # Both calls compute the log-sum-exp, so both run the same kernel.
    assert torch.equal(got, want)
    assert_equal(torch.autograd.grad(got, inputs, do), torch.autograd.grad(want, inputs, do))


def test_compile_with_dynamic_shapes():
    torch.compiler.reset()
    run = torch.compile(RUNS["attention"], fullgraph=True, dynamic=True)
    for nq, nk in ((128, 128), (200, 333), (96, 160)):
        check(run, qkv(nq=nq, nk=nk), keep=bottom_right(nq, nk))


def test_compile_of_a_projection_under_autocast():
    """Compares a layer in f32, as in training, with the same layer that uses PyTorch's attention."""
    torch.compiler.reset()
    x = torch.randn(2, 256, 256, device="cuda")
    weight = (torch.randn(256, 768, device="cuda") * 0.06).requires_grad_()

    def layer(attend):
        with torch.autocast("cuda", dtype=BF16):
            q, k, v = (part.transpose(1, 2) for part in (x @ weight).view(2, -1, 3, 4, 64).unbind(2))
            o = attend(q, k, v, is_causal=True).transpose(1, 2).reshape(2, -1, 256)
        return o.float().square().mean()

    want, = torch.autograd.grad(layer(torch.nn.functional.scaled_dot_product_attention), weight)
    for run in (layer, torch.compile(layer, fullgraph=True)):
        got, = torch.autograd.grad(run(sdpa), weight)
        error = (got - want).norm() / want.norm()
        assert got.dtype == F32 and error < 2e-2, f"relative Frobenius error {error}"


def test_compile_into_cuda_graphs():
    torch.compiler.reset()
    run = torch.compile(lambda *x: flashc.attention(*x, causal=True, enable_gqa=True) * 2, fullgraph=True,
                        mode="reduce-overhead")
    for _ in range(4):
        inputs = qkv()
        do = random(2, 4, 200, 64)
        torch.compiler.cudagraph_mark_step_begin()
        got = [x.clone() for x in torch.autograd.grad(run(*inputs), inputs, do)]
        assert_equal(got, step(lambda *x: flashc.attention(*x, causal=True, enable_gqa=True) * 2, inputs, do)[1:])


def test_graphs_refuse_arrays_that_require_gradients():
    torch.compiler.reset()
    q, k, v = qkv(hk=4)
    bias = torch.randn(200, 300, device="cuda", requires_grad=True)
    with pytest.raises(Exception, match="an array that the mask or the score reads without gradients"):
        torch.compile(lambda q, k, v, bias: sdpa(q, k, v, attn_mask=bias), fullgraph=True)(q, k, v, bias)


def test_ops_are_registered_as_pytorch_asks():
    q, k, v = qkv()
    options = (None, None, None, True, None, None, 0.125, True, "bhsd")
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.flashc.attention.default, (q, k, v, *options, True), test_utils=tests)
    q, k, v = (x.detach() for x in (q, k, v))
    o, lse = torch.ops.flashc.attention.default(q, k, v, *options, True)
    for dlse in (None, torch.randn_like(lse)):
        torch.library.opcheck(torch.ops.flashc.attention_backward.default, (
            q, k, v, o, lse, torch.randn_like(o), dlse, *options, None, None, False), test_utils=tests)


# --- CUDA graphs ------------------------------------------------------------------------------------------------------

def test_cuda_graph_of_a_step():
    inputs = qkv()
    do = random(2, 4, 200, 64)

    def run(*x):
        return flashc.attention(*x, causal=True, enable_gqa=True)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step(run, inputs, do)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = step(run, inputs, do)
    for _ in range(3):
        with torch.no_grad():
            for x in (*inputs, do):
                x.copy_(torch.randn_like(x))
        graph.replay()
        assert_equal(got[1:], step(run, inputs, do)[1:])
