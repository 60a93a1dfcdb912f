"""flashc.integrations.pytorch on a GPU: PyTorch's programs on flashc's kernels, and PyTorch's own kernels afterwards.
Skipped where there is no GPU, or no PyTorch 2.11.

Numbers are compared with plain attention in f64 on the same inputs. Outputs are NaN before the launch, and so is the
memory after inputs."""
import copy
import random as python_random

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)
if not hasattr(torch.nn.attention, "register_flash_attention_impl"):
    pytest.skip("PyTorch has no register_flash_attention_impl", allow_module_level=True)

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.attention import (  # noqa: E402
    SDPBackend, activate_flash_attention_impl, current_flash_attention_impl, restore_flash_attention_impl, sdpa_kernel)
from torch.nn.attention.varlen import varlen_attn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import flashc  # noqa: E402
from flashc.integrations import pytorch as door  # noqa: E402
from .guarded import BF16, F16, bottom_right, fresh_numbers, random  # noqa: E402, F401

DEVICE = "cuda"
ATEN = torch.ops.aten
LIMITS = {BF16: 5e-3, F16: 1e-3}


# --- Helpers ----------------------------------------------------------------------------------------------------------

@pytest.fixture(autouse=True)
def calls(monkeypatch):
    """Activates flashc, and lets scaled_dot_product_attention use flash attention alone. Returns the names of the
    functions that were called."""
    found = []

    def noted(function):
        def call(*arguments, **keywords):
            found.append(function.__name__)
            return function(*arguments, **keywords)
        return call
    for name, function in door.OPERATORS.items():
        monkeypatch.setitem(door.OPERATORS, name, noted(function))
    activate_flash_attention_impl("flashc")
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        yield found
    if current_flash_attention_impl() is not None:
        restore_flash_attention_impl()


def sdpa(*arguments, **keywords):
    return functional.scaled_dot_product_attention(*arguments, **keywords)


def leaves(*shapes, dtype=BF16, swapped=False):
    return [random(*shape, dtype=dtype, swapped=swapped).requires_grad_() for shape in shapes]


def qkv(b=2, hq=4, hk=4, nq=200, nk=300, d=64, **how):
    return leaves((b, hq, nq, d), (b, hk, nk, d), (b, hk, nk, d), **how)


def reference(q, k, v, keep=None, scale=None, weights=None, biases=None):
    """Returns o and the log-sum-exp in f64 of [..., H, N, D]. `weights`: factors of the probabilities."""
    group = q.shape[-3] // k.shape[-3]
    q, k, v = q.double(), k.double().repeat_interleave(group, -3), v.double().repeat_interleave(group, -3)
    s = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    s = s if biases is None else s + biases
    s = s if keep is None else s.masked_fill(~keep, -torch.inf)
    empty = (s == -torch.inf).all(-1, keepdim=True)
    p = s.masked_fill(empty, 0).softmax(-1).masked_fill(empty, 0)
    return (p if weights is None else p * weights) @ v, s.logsumexp(-1)


def packed_reference(q, k, v, offsets, key_offsets, keep=lambda nq, nk: None, used=None):
    """Returns o [total, H, D] in f64 of packed sequences."""
    parts = []
    for number, (begin, end) in enumerate(zip(offsets, offsets[1:])):
        first, last = key_offsets[number:number + 2]
        last = last if used is None else first + used[number]
        one = [x.transpose(0, 1) for x in (q[begin:end], k[first:last], v[first:last])]
        parts.append(reference(*one, keep(end - begin, last - first))[0].transpose(0, 1))
    return torch.cat(parts)


def close(got, want, dtype, name="", floor=1e-3):
    """Checks two tensors. `floor` is added to the size of an element, from which the limit follows."""
    got, want = got.detach().double(), want.detach()
    assert got.shape == want.shape, name
    if not got.numel():
        return
    off = (got - want).norm()
    assert off <= LIMITS[dtype] * (want.norm() + floor * want.numel() ** 0.5), f"{name} off by {off / want.norm()}"
    worst = (got - want).abs().max()
    assert worst <= 0.04 * (want.abs().max() + max(0.1, 4 * floor)), f"an element of {name} is off by {worst}"


def check(run, inputs, want, dtype=None):
    """Checks the output of `run` and its gradients. `want` computes the output in f64."""
    dtype = dtype or inputs[0].dtype
    references = [x.detach().double().requires_grad_() for x in inputs]
    # With few keys, dq and dk are differences of numbers that are nearly equal; dk sums these over the queries.
    queries, keys = (x.shape[2] if x.dim() == 4 else 300 for x in inputs[:2])
    floors = {"dq": 1e-3 + 1.5 / keys, "dk": 1e-3 + 2 * queries ** 0.5 / keys, "dv": 1e-3}
    o, exact = run(*inputs), want(*references)
    close(o, exact, dtype, "o")
    do = random(*o.shape, dtype=o.dtype)
    got = torch.autograd.grad(o, inputs, do)
    for name, x, y, z in zip(("dq", "dk", "dv"), got, torch.autograd.grad(exact, references, do.double()), inputs):
        assert x.dtype == z.dtype and x.shape == z.shape, name
        close(x, y, dtype, name, floors[name])
    return o


def weights_of(shape, p, seed):
    kept = torch.from_numpy(flashc.dropout_mask(shape, p, seed.view(torch.int64).tolist())).to(DEVICE)
    return kept / (1 - round(p * 256) / 256)


def causal(nq, nk):
    return bottom_right(nq, nk)


# --- scaled_dot_product_attention -------------------------------------------------------------------------------------

@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
def test_sdpa(calls, is_causal, swapped):
    inputs = qkv(nk=200, swapped=swapped)
    o = check(lambda *x: sdpa(*x, is_causal=is_causal), inputs,
              lambda *x: reference(*x, causal(200, 200) if is_causal else None)[0])
    assert o.stride() == inputs[0].stride() and calls == ["sdpa_forward", "sdpa_backward"]


@pytest.mark.parametrize("d", [8, 16, 21, 32, 40, 64, 72, 96, 128, 160, 192, 203, 256])
def test_head_dimensions(d):
    """PyTorch pads head dimensions to multiples of 8."""
    check(lambda *x: sdpa(*x, is_causal=True), qkv(1, 3, 3, 103, 103, d), lambda *x: reference(*x, causal(103, 103))[0])


@pytest.mark.parametrize("b, n, m", [(1, 1, 1), (8, 4, 8), (1, 8, 1), (2, 103, 127), (1, 256, 579), (1, 2048, 512),
                                     (8, 143, 4), (3, 1, 2048), (1, 2048, 2048)])
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("scale", [None, 0.3])
def test_lengths(b, n, m, dtype, scale):
    for is_causal in ([False, True] if n == m else [False]):
        check(lambda *x: sdpa(*x, is_causal=is_causal, scale=scale), qkv(b, 2, 2, n, m, 64, dtype=dtype),
              lambda *x: reference(*x, causal(n, m) if is_causal else None, scale)[0])


@pytest.mark.parametrize("hq, hk", [(16, 8), (10, 2), (4, 1)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_groups_of_heads(calls, hq, hk, is_causal):
    check(lambda *x: sdpa(*x, is_causal=is_causal, enable_gqa=True), qkv(2, hq, hk, 143, 143),
          lambda *x: reference(*x, causal(143, 143) if is_causal else None)[0])
    assert calls == ["sdpa_forward", "sdpa_backward"]


@pytest.mark.parametrize("p", [0.22, 0.48])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("dtype", LIMITS)
def test_dropout(p, is_causal, dtype):
    inputs = qkv(2, 4, 2, 143, 143, dtype=dtype)
    torch.manual_seed(11)
    seed = ATEN._scaled_dot_product_flash_attention(*inputs, p, is_causal)[6]
    weights = weights_of((2, 4, 143, 143), p, seed)

    def run(*x):
        torch.manual_seed(11)
        return sdpa(*x, dropout_p=p, is_causal=is_causal, enable_gqa=True)
    check(run, inputs, lambda *x: reference(*x, causal(143, 143) if is_causal else None, weights=weights)[0])
    assert not torch.equal(sdpa(*inputs, dropout_p=p, enable_gqa=True), sdpa(*inputs, dropout_p=p, enable_gqa=True))


def test_results_of_the_operator():
    q, k, v = qkv(2, 4, 2, 65, 129)
    o, lse, cum_q, cum_k, most_q, most_k, seed, unused, mask = ATEN._scaled_dot_product_flash_attention(
        q, k, v, 0.0, True, scale=0.2)
    want, want_lse = reference(q, k, v, causal(65, 129), 0.2)
    close(o, want, BF16)
    assert (lse.double() - want_lse).abs().max() < 1e-3 and lse.is_contiguous() and lse.dtype == torch.float32
    assert (cum_q, cum_k, most_q, most_k) == (None, None, 65, 129)
    assert seed.shape == (2,) and unused.shape == () and seed.dtype == unused.dtype == torch.uint64
    assert seed.is_cuda and unused.is_cuda and mask.numel() == 0


LAYOUTS = {
    "heads inside": lambda *s: random(s[0], s[2], s[1], s[3]).transpose(1, 2),
    "batch inside": lambda *s: random(s[2], s[0], s[1], s[3]).permute(1, 2, 0, 3),
    "batch last": lambda *s: random(s[1], s[2], s[0], s[3]).permute(2, 0, 1, 3),
    "slices of one projection": lambda *s: random(s[0], s[2], 3, s[1], s[3])[:, :, 1].transpose(1, 2),
    "padded rows": lambda *s: random(*s[:3], s[3] + 8)[..., :s[3]],
    "expanded batch": lambda *s: random(1, *s[1:]).expand(s),
    "expanded heads": lambda *s: random(s[0], 1, *s[2:]).expand(s),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides_cost_no_copies(monkeypatch, layout):
    monkeypatch.setattr(door, "_readable", lambda tensors: pytest.fail("a kernel refused the strides"))
    inputs = [LAYOUTS[layout](3, 4, 150, 64).requires_grad_() for _ in range(3)]
    o = check(lambda *x: sdpa(*x, is_causal=True), inputs, lambda *x: reference(*x, causal(150, 150))[0])
    assert o.stride() == torch.empty_like(inputs[0].transpose(1, 2)).transpose(1, 2).stride() or "expanded" in layout


@pytest.mark.parametrize("offset, width", [(1, 72), (0, 67), (4, 72)])
def test_rows_that_kernels_cannot_read(offset, width):
    inputs = [random(2, 3, 150, width)[..., offset:offset + 64].requires_grad_() for _ in range(3)]
    check(lambda *x: sdpa(*x, is_causal=True), inputs, lambda *x: reference(*x, causal(150, 150))[0])


def test_gradients_of_any_strides():
    inputs = qkv(2, 3, 3, 150, 150)
    for loss in (lambda o: o.sum(), lambda o: o.float().mT.contiguous().square().sum(), lambda o: o[..., 3:30].sum()):
        got = torch.autograd.grad(loss(sdpa(*inputs)), inputs)
        references = [x.detach().double().requires_grad_() for x in inputs]
        for x, y in zip(got, torch.autograd.grad(loss(reference(*references)[0]), references)):
            close(x, y, BF16)


# --- PyTorch's choice, and PyTorch's own kernels ----------------------------------------------------------------------

def test_pytorch_chooses_flash_attention_without_being_asked(calls):
    q, k, v = qkv()
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION,
                      SDPBackend.MATH]):
        sdpa(q, k, v)
        assert calls == ["sdpa_forward"]
        sdpa(q, k, v, attn_mask=torch.ones(200, 300, dtype=torch.bool, device=DEVICE))  # not for flash attention
        assert calls == ["sdpa_forward"]


def test_restoring_brings_pytorchs_kernels_and_order_back(calls):
    inputs = qkv(nk=200)
    order = torch._C._get_sdp_priority_order()
    restore_flash_attention_impl()
    former = torch._C._get_sdp_priority_order()

    def step():
        o = sdpa(*inputs, is_causal=True)
        return o, torch.autograd.grad(o.square().sum(), inputs)[2]
    own = step()
    assert calls == []
    activate_flash_attention_impl("flashc")
    assert torch._C._get_sdp_priority_order() == order and order[0] == SDPBackend.FLASH_ATTENTION.value
    ours = step()
    assert calls == ["sdpa_forward", "sdpa_backward"]
    restore_flash_attention_impl()
    assert torch._C._get_sdp_priority_order() == former
    again = step()
    assert calls == ["sdpa_forward", "sdpa_backward"]
    for x, y, z in zip(own, again, ours):
        assert torch.equal(x, y) and (x.float() - z.float()).abs().max() < 0.1


# --- Modules ----------------------------------------------------------------------------------------------------------

def exact(module):
    return copy.deepcopy(module).double()


def check_module(got, want, inputs, references):
    """Modules round several times on the way, so that only a wrong attention exceeds the limit."""
    def near(x, y):
        assert (x.double() - y).norm() <= 0.05 * y.norm()
    near(got, want)
    grad = torch.randn_like(got)
    for x, y in zip(torch.autograd.grad(got, inputs, grad), torch.autograd.grad(want, references, grad.double())):
        near(x, y)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
def test_multihead_attention(calls, batch_first, is_causal):
    module = nn.MultiheadAttention(256, 4, batch_first=batch_first).to(DEVICE, BF16)
    x = random(130, 140, 256).requires_grad_()
    n = 140 if batch_first else 130
    mask = nn.Transformer.generate_square_subsequent_mask(n, device=DEVICE) if is_causal else None
    got, _ = module(x, x, x, need_weights=False, is_causal=is_causal, attn_mask=mask)
    assert calls == ["sdpa_forward"]
    other, y = exact(module), x.detach().double().requires_grad_()
    with sdpa_kernel(SDPBackend.MATH):
        want, _ = other(y, y, y, need_weights=False, is_causal=is_causal,
                        attn_mask=None if mask is None else mask.double())
    check_module(got, want, [x, *module.parameters()], [y, *other.parameters()])


@pytest.mark.parametrize("compiled", [False, True])
def test_transformer_encoder_layer(calls, compiled):
    layer = nn.TransformerEncoderLayer(256, 4, 512, dropout=0.0, activation="gelu", batch_first=True).to(DEVICE, BF16)
    x = random(3, 150, 256).requires_grad_()
    other, y = exact(layer), x.detach().double().requires_grad_()
    mask = nn.Transformer.generate_square_subsequent_mask(150, device=DEVICE)
    got = (torch.compile(layer, fullgraph=True) if compiled else layer)(x, src_mask=mask, is_causal=True)
    with sdpa_kernel(SDPBackend.MATH):
        want = other(y, src_mask=mask.double(), is_causal=True)
    assert calls == ["sdpa_forward"]
    check_module(got, want, [x, *layer.parameters()], [y, *other.parameters()])
    layer.eval()
    with torch.no_grad():
        with sdpa_kernel(SDPBackend.MATH):
            want = other.eval()(y)
        assert (layer(x).double() - want).norm() <= 0.05 * want.norm()


# --- Packed and nested tensors ----------------------------------------------------------------------------------------

OFFSETS, KEY_OFFSETS = [0, 100, 100, 101, 300], [0, 130, 170, 400, 600]


def integers(x):
    return torch.tensor(x, dtype=torch.int32, device=DEVICE)


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (50, 0)])
def test_varlen_attn(calls, window):
    inputs = leaves(*[(300, 4, 64)] * 3)
    offsets = integers(OFFSETS)

    def keep(nq, nk):
        i, j = torch.arange(nq, device=DEVICE)[:, None], torch.arange(nk, device=DEVICE)
        return (j <= i if window[1] == 0 else j >= 0) & (j >= i - window[0] if window[0] >= 0 else j >= 0)
    check(lambda *x: varlen_attn(*x, offsets, offsets, 199, 199, window_size=window), inputs,
          lambda *x: packed_reference(*x, OFFSETS, OFFSETS, keep))
    assert calls == ["flash_forward", "flash_backward"]


@pytest.mark.parametrize("p", [0.0, 0.3])
@pytest.mark.parametrize("is_causal", [False, True])
def test_packed_sequences_of_the_operator(p, is_causal):
    q, k, v = leaves((300, 8, 64), (600, 2, 64), (600, 2, 64))
    arguments = integers(OFFSETS), integers(KEY_OFFSETS), 199, 230, p, is_causal, False
    torch.manual_seed(5)
    o, lse, seed, _, _ = ATEN._flash_attention_forward(q, k, v, *arguments)
    number, key_number = (torch.bucketize(torch.arange(x[-1], device=DEVICE), integers(x), right=True)
                          for x in (OFFSETS, KEY_OFFSETS))
    keep = number[:, None] == key_number
    if is_causal:
        shift = (integers(KEY_OFFSETS)[number] - integers(OFFSETS)[number])[:, None]
        keep &= torch.arange(600, device=DEVICE) <= torch.arange(300, device=DEVICE)[:, None] + shift
    weights = weights_of((1, 8, 300, 600), p, seed)[0] if p else None
    want_lse = reference(*(x.transpose(0, 1) for x in (q, k, v)), keep)[1]
    assert torch.equal(lse == -torch.inf, want_lse == -torch.inf) and lse.shape == (8, 300)
    assert torch.nan_to_num((lse.double() - want_lse).abs()).max() < 1e-3

    def run(*x):
        torch.manual_seed(5)
        return ATEN._flash_attention_forward(*x, *arguments)[0]
    check(run, [q, k, v],
          lambda *x: reference(*(y.transpose(0, 1) for y in x), keep, weights=weights)[0].transpose(0, 1))


@pytest.mark.parametrize("is_causal", [False, True])
def test_used_keys(is_causal):
    q, k, v = random(300, 8, 64), random(600, 2, 64), random(600, 2, 64)
    used = [130, 0, 77, 199]
    o = ATEN._flash_attention_forward(q, k, v, integers(OFFSETS), integers(KEY_OFFSETS), 199, 230, 0.0, is_causal,
                                      False, seqused_k=integers(used))[0]
    close(o, packed_reference(q, k, v, OFFSETS, KEY_OFFSETS,
                              lambda nq, nk: causal(nq, nk) if is_causal else None, used), BF16)


def test_alibi():
    q, k, v = random(2, 100, 4, 64), random(2, 300, 4, 64), random(2, 300, 4, 64)
    slopes = torch.rand(4, device=DEVICE)
    o = ATEN._flash_attention_forward(q, k, v, None, None, 100, 300, 0.0, True, False, alibi_slopes=slopes)[0]
    i, j = torch.arange(100, device=DEVICE)[:, None], torch.arange(300, device=DEVICE)
    want = reference(*(x.transpose(1, 2) for x in (q, k, v)), causal(100, 300),
                     biases=-slopes[:, None, None] * (j - i - 200).abs())[0]
    close(o, want.transpose(1, 2), BF16)


@pytest.mark.parametrize("queries", [[1, 1, 1], [70, 1, 20]])
def test_pages(calls, queries):
    """Before 2.12, PyTorch's operator takes no pages, so that the function is called directly."""
    used, offsets = [200, 64, 300], [0, *torch.tensor(queries).cumsum(0).tolist()]
    q, k, v = random(offsets[-1], 8, 64), random(40, 64, 2, 64), random(40, 64, 2, 64)
    table = torch.randperm(40, device=DEVICE)[:24].view(3, 8).int()
    keys, values = (torch.cat([x[row].flatten(0, 1) for row in table]) for x in (k, v))
    want = packed_reference(q, keys, values, offsets, [0, 512, 1024, 1536], causal, used)
    keywords = dict(seqused_k=integers(used), block_table=table)
    o, lse, *_ = door.flash_forward(q, k, v, integers(offsets), None, max(queries), 512, 0.0, True, False, **keywords)
    close(o, want, BF16)
    assert lse.shape == (8, offsets[-1]) and torch.isfinite(lse).all()
    if hasattr(ATEN, "_flash_attention_forward_no_dropout_inplace"):
        o = varlen_attn(q, k, v, integers(offsets), None, max(queries), 512, enable_gqa=True, window_size=(-1, 0),
                        **keywords)
        close(o, want, BF16)
        assert calls == ["flash_forward"]


@pytest.mark.parametrize("is_causal", [False, True])
def test_jagged_tensors(calls, is_causal):
    offsets = torch.tensor([0, 100, 101, 300], device=DEVICE)
    inputs = leaves(*[(300, 4, 64)] * 3)

    def run(*x):
        nested = [torch.nested.nested_tensor_from_jagged(y, offsets, min_seqlen=1, max_seqlen=199).transpose(1, 2)
                  for y in x]
        return sdpa(*nested, is_causal=is_causal).transpose(1, 2).values()
    check(run, inputs, lambda *x: packed_reference(*x, offsets.tolist(), offsets.tolist(),
                                                   lambda nq, nk: causal(nq, nk) if is_causal else None))
    assert calls == ["flash_forward", "flash_backward"]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_of_the_older_layout(calls):
    parts = [random(n, 4, 64) for n in (100, 1, 199)]
    nested = torch.nested.nested_tensor(parts).transpose(1, 2)
    for x, y in zip(sdpa(nested, nested, nested).unbind(), parts):
        close(x, reference(*[y.transpose(0, 1)] * 3)[0], BF16)
    assert calls == ["flash_forward"]


# --- Graphs, autocast, checkpoints ------------------------------------------------------------------------------------

@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
@pytest.mark.parametrize("layout", ["bnhd", "nbhd"])
def test_compile(mode, layout):
    torch.compiler.reset()
    order = (0, 2, 1, 3) if layout == "bnhd" else (1, 2, 0, 3)
    back = (0, 2, 1, 3) if layout == "bnhd" else (2, 0, 1, 3)

    @torch.compile(fullgraph=True, mode=mode)
    def run(q, k, v):
        return sdpa(*(x.permute(order) for x in (q, k, v)), is_causal=True).permute(back) * 2
    for _ in range(3):
        n = 150
        inputs = leaves(*[(3, n, 4, 64) if layout == "bnhd" else (n, 3, 4, 64)] * 3)
        check(lambda *x: run(*x).clone(), inputs,
              lambda *x: 2 * reference(*(y.permute(order) for y in x), causal(n, n))[0].permute(back))
        if mode is not None:
            torch.compiler.cudagraph_mark_step_begin()


def test_compile_of_packed_sequences():
    torch.compiler.reset()
    run = torch.compile(lambda q, k, v, x: varlen_attn(q, k, v, x, x, 199, 199, window_size=(-1, 0)), fullgraph=True)
    check(lambda *x: run(*x, integers(OFFSETS)), leaves(*[(300, 4, 64)] * 3),
          lambda *x: packed_reference(*x, OFFSETS, OFFSETS, causal))


def test_compile_with_dropout():
    torch.compiler.reset()
    inputs, do, results = qkv(nk=200), random(2, 4, 200, 64), []

    def attend(*x):
        return sdpa(*x, dropout_p=0.5)
    for run in (attend, torch.compile(attend, fullgraph=True)):
        torch.manual_seed(3)
        o = run(*inputs)
        results.append([o, *torch.autograd.grad(o, inputs, do)])
    for x, y in zip(*results):
        close(x, y.double(), BF16)


def test_autocast():
    inputs = [random(2, 4, 150, 64).float().requires_grad_() for _ in range(3)]

    def run(*x):
        with torch.autocast(DEVICE, dtype=BF16):
            return sdpa(*x, is_causal=True)
    o = run(*inputs)
    assert o.dtype == BF16 and torch.autograd.grad(o.sum(), inputs)[0].dtype == torch.float32
    check(run, inputs, lambda *x: reference(*x, causal(150, 150))[0], BF16)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoint(use_reentrant):
    inputs, results = qkv(1, 2, 2, 150, 150), []
    do = random(1, 2, 150, 64)
    torch.use_deterministic_algorithms(True)
    try:
        for wrap in (lambda f, *x: f(*x), lambda f, *x: checkpoint(f, *x, use_reentrant=use_reentrant)):
            torch.manual_seed(3)
            o = wrap(lambda *x: sdpa(*x, dropout_p=0.3, is_causal=True), *inputs)
            o.backward(do)
            results.append([o.detach(), *[x.grad for x in inputs]])
            for x in inputs:
                x.grad = None
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(x, y) for x, y in zip(*results))


@pytest.mark.parametrize("p", [0.0, 0.4])
def test_cuda_graph(p):
    """A graph of the forward and the backward pass: each replay reads new inputs and drops other probabilities."""
    inputs = qkv(1, 4, 2, 150, 250)
    do = random(1, 4, 150, 64)

    def step():
        o, lse, *_, seed, unused, _ = ATEN._scaled_dot_product_flash_attention(*inputs, p, False)
        return o, seed, torch.autograd.grad(o, inputs, do)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o, seed, gradients = step()
    seeds = []
    for _ in range(3):
        with torch.no_grad():
            for x in (*inputs, do):
                x.copy_(torch.randn_like(x))
        graph.replay()
        torch.cuda.synchronize()
        seeds.append(seed.tolist())
        references = [x.detach().double().requires_grad_() for x in inputs]
        want = reference(*references, weights=weights_of((1, 4, 150, 250), p, seed) if p else None)[0]
        close(o, want, BF16, "o")
        for x, y in zip(gradients, torch.autograd.grad(want, references, do.double())):
            close(x, y, BF16)
    assert not p or seeds[0] != seeds[1] != seeds[2]


def test_another_stream():
    inputs = qkv(nk=200)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        check(lambda *x: sdpa(*x), inputs, lambda *x: reference(*x)[0])
    torch.cuda.current_stream().wait_stream(stream)


def test_changed_shapes_compile_nothing():
    for n in (100, 200):
        torch.autograd.grad(sdpa(*(x := qkv(nq=n, nk=n)), is_causal=True).sum(), x)
    before = flashc.statistics().compilations
    for b, n in ((1, 1), (3, 77), (2, 513)):
        torch.autograd.grad(sdpa(*(x := qkv(b, nq=n, nk=n)), is_causal=True).sum(), x)
    assert flashc.statistics().compilations == before


# --- Random cases -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("number", range(30))
def test_random_cases(calls, number):
    """300 cases. The choices that need other kernels are few, so that most of the time goes to launches."""
    pick = python_random.Random(torch.initial_seed() + number)
    for _ in range(10):
        hk, group = pick.choice([1, 2, 3]), pick.choice([1, 1, 4])
        nq, is_causal = pick.choice([1, 2, 63, 64, 65, 127, 130, 257, pick.randint(1, 600)]), pick.random() < 0.5
        nk = nq if is_causal else pick.choice([1, 8, 63, 129, 256, 300, pick.randint(1, 900)])
        d, dtype = pick.choice([(64, BF16), (128, F16)])
        shapes = (b := pick.randint(1, 4), hk * group, nq, d), *[(b, hk, nk, d)] * 2
        inputs = [(pick.choice(list(LAYOUTS.values())) if pick.random() < 0.5 else random)(*shape).to(dtype)
                  .requires_grad_() for shape in shapes]
        p, seed = pick.choice([0.0, 0.0, 0.25]), pick.randrange(2**31)
        print(shapes, dtype, is_causal, p, [x.stride() for x in inputs])
        torch.manual_seed(seed)
        drawn = ATEN._scaled_dot_product_flash_attention(*inputs, p, is_causal)[6]
        weights = weights_of((b, hk * group, nq, nk), p, drawn) if p else None

        def run(*x):
            torch.manual_seed(seed)
            return sdpa(*x, dropout_p=p, is_causal=is_causal, enable_gqa=True)
        check(run, inputs, lambda *x: reference(*x, causal(nq, nk) if is_causal else None, weights=weights)[0])
    assert len(calls) == 30
