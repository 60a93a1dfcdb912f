"""PyTorch's programs on flashc.integrations.pytorch without a GPU: the operators are registered for the CPU, too, so
that PyTorch's derivatives, fake tensors, modules and nested tensors call them as they do on a GPU."""
import copy
import random

import pytest

torch = pytest.importorskip("torch")
if not hasattr(torch.nn.attention, "register_flash_attention_impl"):
    pytest.skip("PyTorch has no register_flash_attention_impl", allow_module_level=True)

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.attention.varlen import AuxRequest, varlen_attn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from flashc.integrations import pytorch as door  # noqa: E402
import plain  # noqa: E402

ATEN = torch.ops.aten
IS_NEWER = hasattr(ATEN, "_flash_attention_forward_no_dropout_inplace")
needs_newer = pytest.mark.skipif(not IS_NEWER, reason="this PyTorch's varlen_attn has no caches")
FLASH = ATEN._scaled_dot_product_flash_attention


@pytest.fixture(autouse=True)
def forget_graphs():
    yield
    torch.compiler.reset()


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    """Registers the operators for the CPU, and those of scaled_dot_product_attention for the CPU, which are others.
    Returns the names of the functions that were called."""
    found = []

    def noted(name, function):
        def call(*arguments, **keywords):
            found.append(name)
            return function(*arguments, **keywords)
        return call

    for name, function in door.OPERATORS.items():
        monkeypatch.setitem(door.OPERATORS, name, noted(function.__name__, function))
    library = door.implement("CPU")

    def forward(q, k, v, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
        assert attn_mask is None
        found.append("sdpa_forward")
        return door.sdpa_forward(q, k, v, dropout_p, is_causal, scale=scale)[:2]

    def backward(grad, q, k, v, o, lse, dropout_p, is_causal, *, attn_mask=None, scale=None):
        found.append("sdpa_backward")
        return door.sdpa_backward(grad, q, k, v, o, lse, None, None, q.shape[2], k.shape[2], dropout_p, is_causal, None,
                                  None, scale=scale)
    library.impl("_scaled_dot_product_flash_attention_for_cpu", forward, "CPU")
    library.impl("_scaled_dot_product_flash_attention_for_cpu_backward", backward, "CPU")
    yield found
    library._destroy()


def leaves(*shapes, dtype=torch.float32):
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


def qkv(b=2, hq=4, hk=2, nq=33, nk=33, d=16, **how):
    return leaves((b, hq, nq, d), (b, hk, nk, d), (b, hk, nk, d), **how)


def check(got, want, inputs, references, tolerance=4e-5):
    """Checks an output and its gradients."""
    plain.close(got, want.detach(), tolerance, "o")
    grad = torch.randn_like(got)
    found = torch.autograd.grad(got, inputs, grad)
    for x, y in zip(found, torch.autograd.grad(want, references, grad.double())):
        plain.close(x, y, tolerance)


def doubled(tensors):
    return [x.detach().double().requires_grad_() for x in tensors]


# --- Autograd ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("p", [0.0, 0.25])
def test_derivatives_of_the_operator(calls, causal, p):
    inputs = qkv(nq=33, nk=47)
    o, lse, *_, seed, unused, _ = FLASH(*inputs, p, causal, scale=0.2)
    assert not lse.requires_grad and not seed.requires_grad
    weights = plain.dropout_weights((2, 4, 33, 47), p, seed) if p else None
    references = doubled(inputs)
    check(o, plain.attention(*references, plain.band(33, 47, causal), 0.2, weights=weights)[0], inputs, references)
    assert calls == ["sdpa_forward", "sdpa_backward"]


def test_derivatives_of_packed_sequences(calls):
    inputs = leaves((20, 4, 16), (40, 2, 16), (40, 2, 16))
    offsets, key_offsets = (torch.tensor(x, dtype=torch.int32) for x in ([0, 7, 7, 20], [0, 11, 15, 40]))
    references = doubled(inputs)
    o = ATEN._flash_attention_forward(*inputs, offsets, key_offsets, 13, 25, 0.0, True, False, window_size_left=9)[0]
    want = plain.packed(*references, offsets.tolist(), key_offsets.tolist(), causal=True, left=9)[0]
    check(o, want, inputs, references)
    assert calls == ["flash_forward", "flash_backward"]


def test_gradients_of_gradients():
    """The first derivative may be taken with a graph; PyTorch refuses the second one."""
    inputs = qkv()
    o = FLASH(*inputs)[0]
    first = torch.autograd.grad(o.square().sum(), inputs, create_graph=True)
    want = torch.autograd.grad(FLASH(*inputs)[0].square().sum(), inputs)
    for x, y in zip(first, want):
        plain.close(x.detach(), y.double(), 1e-6)
    with pytest.raises(RuntimeError, match="not implemented"):
        first[0].sum().backward()


def test_one_of_three_requires_a_gradient():
    q, k, v = qkv()
    o = FLASH(q.detach(), k, v.detach())[0]
    assert torch.autograd.grad(o.sum(), k)[0].abs().max() > 0
    with torch.no_grad():
        assert not FLASH(q, k, v)[0].requires_grad
    with torch.inference_mode():
        assert FLASH(q, k, v)[0].is_inference()
    assert FLASH(q, k, v)[0].requires_grad


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoints_drop_the_same_probabilities(use_reentrant):
    inputs = qkv()

    def attend(*x):
        return FLASH(*x, 0.3, True)[0].square()
    results = []
    for run in (lambda: attend(*inputs), lambda: checkpoint(attend, *inputs, use_reentrant=use_reentrant)):
        torch.manual_seed(5)
        o = run()
        o.sum().backward()
        results.append([o.detach(), *[x.grad for x in inputs]])
        for x in inputs:
            x.grad = None
    assert all(torch.equal(x, y) for x, y in zip(*results))


def test_saved_tensors_may_be_packed():
    """Hooks of saved tensors, such as those that move activations, may give copies back."""
    inputs, grad = qkv(), None
    for pack in (lambda x: x, lambda x: x.clone()):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x.clone()):
            torch.manual_seed(3)
            o = FLASH(*inputs, 0.3)[0]
        found = torch.autograd.grad(o.square().sum(), inputs)
        assert grad is None or all(torch.equal(x, y) for x, y in zip(found, grad))
        grad = found


def test_vmap():
    q, k, v = (torch.randn(3, 2, 2, 9, 8) for _ in range(3))
    got = torch.vmap(lambda *x: FLASH(*x)[0])(q, k, v)
    plain.close(got, plain.attention(q, k, v)[0], 2e-5)


# --- Graphs -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_attention_with_gradients(calls, dynamic, backend):
    """Inductor checks the strides of all results."""
    @torch.compile(backend=backend, fullgraph=True, dynamic=dynamic)
    def attend(q, k, v):
        return FLASH(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), 0.0, True)[0].transpose(1, 2)

    for n in (33, 34, 50):
        inputs = leaves(*[(2, n, 4, 16)] * 3)
        references = doubled(inputs)
        want = plain.attention(*(x.transpose(1, 2) for x in references), plain.band(n, n, True))[0].transpose(1, 2)
        check(attend(*inputs), want, inputs, references)
    assert calls == ["sdpa_forward", "sdpa_backward"] * 3


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_results_have_the_strides_that_graphs_expect(backend):
    """A graph takes o to lie in memory as q does; a module without batch_first has the batch between rows and heads."""
    shape = 33, 3, 4, 16

    @torch.compile(backend=backend, fullgraph=True)
    def attend(q, k, v):
        o = FLASH(*(x.permute(1, 2, 0, 3) for x in (q, k, v)))[0]
        return o.permute(2, 0, 1, 3).contiguous().view(shape[0], -1)
    q, k, v = (torch.randn(shape) for _ in range(3))
    want = plain.attention(*(x.permute(1, 2, 0, 3) for x in (q, k, v)))[0].permute(2, 0, 1, 3).flatten(1)
    plain.close(attend(q, k, v), want, 2e-5)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_varlen_attention(backend):
    @torch.compile(backend=backend, fullgraph=True)
    def attend(q, k, v, offsets):
        return varlen_attn(q, k, v, offsets, offsets, 13, 13, window_size=(-1, 0))
    inputs = leaves(*[(20, 4, 16)] * 3)
    references = doubled(inputs)
    check(attend(*inputs, torch.tensor([0, 7, 7, 20], dtype=torch.int32)),
          plain.packed(*references, [0, 7, 7, 20], [0, 7, 7, 20], causal=True)[0], inputs, references)


def test_fake_tensors_are_pytorchs():
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():
        q, k, v = (torch.randn(2, 4, 33, 16) for _ in range(3))
        o, lse, *_ = FLASH(q, k, v)
        assert o.shape == q.shape and lse.shape == (2, 4, 33)


# --- Packed and nested tensors ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (5, 0), (3, 4)])
def test_varlen_attn(calls, window):
    inputs = leaves(*[(20, 4, 16)] * 3)
    offsets = torch.tensor([0, 7, 7, 20], dtype=torch.int32)
    references = doubled(inputs)
    o, lse = varlen_attn(*inputs, offsets, offsets, 13, 13, window_size=window, return_aux=AuxRequest(lse=True))
    want, want_lse = plain.packed(*references, offsets.tolist(), offsets.tolist(), left=window[0], right=window[1])
    plain.close(lse, want_lse.detach(), 2e-5)
    check(o, want, inputs, references)
    assert calls == ["flash_forward", "flash_backward"]


@needs_newer
def test_varlen_attn_of_a_cache(calls):
    from torch.nn.attention.varlen import varlen_attn_out
    used, queries = [40, 9, 17], [3, 1, 6]
    offsets = torch.tensor([0, 3, 4, 10], dtype=torch.int32)
    q, k, v = torch.randn(10, 4, 16), torch.randn(12, 16, 2, 16), torch.randn(12, 16, 2, 16)
    table = torch.randperm(12).view(3, 4).int()
    keys, values = (torch.cat([x[row].flatten(0, 1) for row in table]) for x in (k, v))
    want, want_lse = plain.packed(q, keys, values, offsets.tolist(), [0, 64, 128, 192], used, causal=True)
    keywords = dict(seqused_k=torch.tensor(used, dtype=torch.int32), enable_gqa=True, window_size=(-1, 0))
    o = varlen_attn(q, k, v, offsets, None, max(queries), 64, block_table=table, **keywords)
    plain.close(o, want, 2e-5)
    out = torch.empty_like(q)
    key_offsets = torch.tensor([0, 64, 128, 192], dtype=torch.int32)
    _, lse = varlen_attn_out(out, q, keys, values, offsets, key_offsets, max(queries), 64, **keywords,
                             return_aux=AuxRequest(lse=True))
    plain.close(out, want, 2e-5)
    plain.close(lse, want_lse, 2e-5)
    assert calls == ["flash_forward", "flash_forward_inplace"]


@pytest.mark.parametrize("causal", [False, True])
def test_jagged_tensors(calls, monkeypatch, causal):
    """PyTorch calls _flash_attention_forward for jagged tensors, where it chooses flash attention."""
    from torch.nested._internal import sdpa
    monkeypatch.setattr(sdpa, "_select_sdp_backend", lambda *_: nn.attention.SDPBackend.FLASH_ATTENTION)
    offsets = torch.tensor([0, 7, 9, 20])
    inputs = leaves(*[(20, 4, 16)] * 3)
    q, k, v = (torch.nested.nested_tensor_from_jagged(x, offsets).transpose(1, 2) for x in inputs)
    o = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    references = doubled(inputs)
    want = plain.packed(*references, offsets.tolist(), offsets.tolist(), causal=causal)[0]
    check(o.transpose(1, 2).values(), want, inputs, references)
    assert calls == ["flash_forward", "flash_backward"]


# --- Modules ----------------------------------------------------------------------------------------------------------

def twin(module):
    return copy.deepcopy(module).double()


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_multihead_attention(calls, batch_first, causal):
    module = nn.MultiheadAttention(32, 4, batch_first=batch_first)
    x, = leaves((3, 17, 32))
    mask = nn.Transformer.generate_square_subsequent_mask(17 if batch_first else 3) if causal else None
    keywords = dict(need_weights=False, is_causal=causal, attn_mask=mask)
    got, _ = module(x, x, x, **keywords)
    other, y = twin(module), x.detach().double().requires_grad_()
    if causal:
        keywords["attn_mask"] = mask.double()
    before = list(calls)
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        want, _ = other(y, y, y, **keywords)
    assert calls == before == ["sdpa_forward"]
    check(got, want, [x, *module.parameters()], [y, *other.parameters()])


def test_transformer_encoder_layer(calls):
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    x, = leaves((3, 17, 32))
    other, y = twin(layer), x.detach().double().requires_grad_()
    mask = nn.Transformer.generate_square_subsequent_mask(17)
    got = layer(x, src_mask=mask, is_causal=True)
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        want = other(y, src_mask=mask.double(), is_causal=True)
    assert calls == ["sdpa_forward"]
    check(got, want, [x, *layer.parameters()], [y, *other.parameters()])


def test_scaled_dot_product_attention_under_autocast(calls):
    inputs = qkv(hk=4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        o = functional.scaled_dot_product_attention(*inputs, is_causal=True)
    assert o.dtype == torch.bfloat16 and calls == ["sdpa_forward"]
    references = doubled(inputs)
    check(o, plain.attention(*references, plain.band(33, 33, True))[0], inputs, references, 2e-2)
    assert torch.autograd.grad(functional.scaled_dot_product_attention(*inputs).sum(), inputs)[0].dtype == torch.float32


def test_a_compiled_module_trains():
    module = nn.MultiheadAttention(32, 4, batch_first=True)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    x, = leaves((3, 17, 32))
    other, y = twin(module), x.detach().double().requires_grad_()
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        want = other(y, y, y, need_weights=False)[0]
    check(compiled(x, x, x, need_weights=False)[0], want, [x, *module.parameters()], [y, *other.parameters()])


# --- Random cases -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("number", range(20))
def test_random_cases(number):
    pick = random.Random(torch.initial_seed() + number)
    hk = pick.choice([1, 2, 3])
    inputs = qkv(pick.randint(1, 3), hk * pick.choice([1, 2, 4]), hk, pick.randint(1, 90), pick.randint(1, 90),
                 pick.choice([8, 16, 40]))
    causal, scale, p = pick.random() < 0.5, pick.choice([None, 0.2]), pick.choice([0.0, 0.3])
    o, _, *_, seed, _, _ = FLASH(*inputs, p, causal, scale=scale)
    references, shape = doubled(inputs), (*inputs[0].shape[:3], inputs[1].shape[2])
    weights = plain.dropout_weights(shape, p, seed) if p else None
    want = plain.attention(*references, plain.band(*shape[2:], causal), scale, weights=weights)[0]
    check(o, want, inputs, references)
