"""The functions of flashc.integrations.pytorch, called with tensors on the CPU, against plain attention in f64."""
import inspect
import os
import pathlib
import random
import runpy
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.nn.attention", reason="PyTorch is too old")
if not hasattr(torch.nn.attention, "register_flash_attention_impl"):
    pytest.skip("PyTorch has no register_flash_attention_impl", allow_module_level=True)

import flashc  # noqa: E402
from flashc.integrations import pytorch as door  # noqa: E402
import plain  # noqa: E402

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}
ATEN = torch.ops.aten


def tensor(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype)


def qkv(b, hq, hk, nq, nk, d, dv=None, dtype=torch.float32):
    return [tensor(*shape, dtype=dtype) for shape in ((b, hq, nq, d), (b, hk, nk, d), (b, hk, nk, dv or d))]


def backward_of(forward, grad, q, k, v, p, causal, **how):
    """Runs the backward function of a result of sdpa_forward."""
    o, lse, _, _, most_q, most_k, seed, offset, _ = forward
    return door.sdpa_backward(grad, q, k, v, o, lse, None, None, most_q, most_k, p, causal, seed, offset, **how)


def check_sdpa(q, k, v, causal=False, scale=None, p=0.0, tolerance=None):
    """Checks o, the log-sum-exp and gradients. `causal` aligns the last query with the last key."""
    tolerance = tolerance or TOLERANCE[q.dtype]
    forward = door.sdpa_forward(q, k, v, p, causal, scale=scale)
    o, lse, cum_q, cum_k, most_q, most_k, seed, _, _ = forward
    assert (cum_q, cum_k, most_q, most_k) == (None, None, q.shape[2], k.shape[2])
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    weights = plain.dropout_weights((*q.shape[:3], k.shape[2]), p, seed) if p else None
    want, want_lse = plain.attention(*leaves, plain.band(q.shape[2], k.shape[2], causal), scale, weights=weights)
    plain.close(o, want.detach(), tolerance, "o")
    plain.close(lse, want_lse.detach(), tolerance, "lse")
    assert lse.dtype == torch.float32 and lse.is_contiguous()
    grad = torch.randn_like(o)
    got = backward_of(forward, grad, q, k, v, p, causal, scale=scale)
    for name, x, y in zip("qkv", got, torch.autograd.grad(want, leaves, grad.double())):
        assert x.dtype == q.dtype
        plain.close(x, y, 2 * tolerance, f"d{name}")
    return forward, got


# --- The contract -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", door.OPERATORS)
def test_functions_have_the_arguments_of_the_operators(name):
    """Fails if PyTorch adds, removes, renames or reorders an argument, or changes a default. Arguments that an older
    PyTorch lacks are at the end."""
    if not hasattr(ATEN, name):
        pytest.skip("this PyTorch has no such operator")
    schema = getattr(ATEN, name).default._schema
    parameters = list(inspect.signature(door.OPERATORS[name]).parameters.values())
    newer = [x.name for x in parameters[len(schema.arguments):]]
    assert newer in ([], ["block_table", "num_splits"])
    for argument, parameter in zip(schema.arguments, parameters):
        assert argument.name == parameter.name
        assert argument.kwarg_only == (parameter.kind == parameter.KEYWORD_ONLY)
        assert argument.has_default_value() == (parameter.default is not parameter.empty), argument.name
        assert not argument.has_default_value() or argument.default_value == parameter.default
    assert len(schema.arguments) <= len(parameters), "PyTorch's operator has more arguments"


def test_every_flash_operator_is_known():
    """Fails if PyTorch gets another flash operator, or another overload. Those for 8-bit elements stay PyTorch's."""
    names = {name for name in dir(ATEN) if "flash_attention" in name} | \
        {str(name) for name in torch._C._dispatch_get_all_op_names() if "aten::" in name and "flash_attention" in name}
    names = {name.split("::")[-1] for name in names} - set(door.OPERATORS)
    left = {name for name in names if not name.partition(".")[0].endswith(("_for_cpu", "_for_cpu_backward"))
            and not name.endswith(".quantized") and "fused_attention_overrideable" not in name}
    assert {name for name in left if ".out" not in name} == set()


def of_meta(x):
    return x.to("meta") if isinstance(x, torch.Tensor) else x


def on_meta(x):
    """Returns a tensor without memory of the same shape and strides."""
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta") if isinstance(x, torch.Tensor) else x


def assert_as_declared(got, declared):
    """Compares results with those of PyTorch's functions for fake tensors, as torch.compile takes them to be."""
    got, declared = [x if isinstance(x, (tuple, list)) else [x] for x in (got, declared)]
    assert len(got) == len(declared)
    for number, (x, y) in enumerate(zip(got, declared)):
        if not isinstance(y, torch.Tensor):
            assert x == y, number
            continue
        assert x.shape == y.shape and x.dtype == y.dtype, number
        if x.numel():
            assert [s for s, n in zip(x.stride(), x.shape) if n > 1] == \
                [s for s, n in zip(y.stride(), y.shape) if n > 1], (number, x.stride(), y.stride())


def permuted(order, *shape):
    """Returns a tensor of this shape whose dimensions lie in memory in `order`."""
    inverse = [order.index(dim) for dim in range(len(order))]
    return torch.randn([shape[dim] for dim in order]).permute(inverse)


LAYOUTS = {
    "contiguous": lambda *s: torch.randn(s),
    "heads inside": lambda *s: permuted([0, 2, 1, 3], *s),
    "batch inside": lambda *s: permuted([2, 0, 1, 3], *s),
    "batch last": lambda *s: permuted([1, 2, 0, 3], *s),
    "slices of one projection": lambda *s: torch.randn(s[0], s[2], 3, s[1], s[3])[:, :, 1].transpose(1, 2),
    "padded rows": lambda *s: torch.randn(*s[:3], s[3] + 8)[..., :s[3]],
    "expanded batch": lambda *s: torch.randn(1, *s[1:]).expand(s),
    "expanded heads": lambda *s: torch.randn(s[0], 1, *s[2:]).expand(s),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_lie_in_memory_as_pytorch_declares(layout):
    make = LAYOUTS[layout]
    q, k, v = make(3, 4, 10, 16), make(3, 4, 13, 16), make(3, 4, 13, 16)
    copies = [x.clone() for x in (q, k, v)]
    forward, gradients = check_sdpa(q, k, v)
    assert all(torch.equal(x, y) for x, y in zip((q, k, v), copies))
    assert_as_declared(forward, ATEN._scaled_dot_product_flash_attention(*map(on_meta, (q, k, v))))
    assert_as_declared(gradients, [torch.empty_like(on_meta(x)) for x in (q, k, v)])
    # The same tensors in the order B, N, H, D, in which _flash_attention_forward takes them.
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    arguments = (None, None, 10, 13, 0.0, True, False)
    got = door.flash_forward(q, k, v, *arguments)
    assert_as_declared(got, ATEN._flash_attention_forward(*map(on_meta, (q, k, v)), *arguments))
    want, lse = plain.attention(*(x.transpose(1, 2) for x in (q, k, v)), plain.band(10, 13, True))
    plain.close(got[0].transpose(1, 2), want, 2e-5)
    plain.close(got[1], lse, 2e-5)
    grad = torch.randn_like(got[0])
    gradients = door.flash_backward(grad, q, k, v, got[0], got[1], None, None, 10, 13, 0.0, True, got[2], got[3])
    assert_as_declared(gradients, [torch.empty_like(on_meta(x)) for x in (q, k, v)])
    leaves = [x.transpose(1, 2).double().requires_grad_() for x in (q, k, v)]
    want = torch.autograd.grad(plain.attention(*leaves, plain.band(10, 13, True))[0], leaves,
                               grad.transpose(1, 2).double())
    for x, y in zip(gradients, want):
        plain.close(x.transpose(1, 2), y, 4e-5)


def test_values_of_another_depth_lie_in_memory_as_pytorch_declares():
    for make in LAYOUTS.values():
        q, k, v = make(2, 4, 10, 16), make(2, 4, 13, 16), make(2, 4, 13, 24)
        forward, _ = check_sdpa(q, k, v)
        declared = ATEN._scaled_dot_product_flash_attention(*map(on_meta, (q, k, v)))
        if declared[0].shape == forward[0].shape:  # Before 2.13, PyTorch declares the depth of the queries.
            assert_as_declared(forward, declared)


def test_results_are_new_in_every_call():
    """Graphs own the memory that an operator returns, so that no call may return memory of another call."""
    q, k, v = qkv(1, 1, 1, 5, 5, 8)
    first, second = (door.sdpa_forward(q, k, v) for _ in range(2))
    for number in (0, 1, 6, 7):
        assert first[number].numel() and first[number].data_ptr() != second[number].data_ptr()
    assert first[6].dtype == first[7].dtype == torch.uint64


# --- Numbers ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("nq, nk", [(1, 1), (1, 63), (63, 65), (65, 65), (67, 131), (131, 67)])
def test_lengths(nq, nk, causal):
    check_sdpa(*qkv(2, 3, 3, nq, nk, 16), causal=causal)


@pytest.mark.parametrize("hq, hk", [(6, 2), (4, 1), (8, 8)])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_groups_of_heads(dtype, hq, hk):
    check_sdpa(*qkv(2, hq, hk, 33, 41, 24, dtype=dtype), causal=True)


@pytest.mark.parametrize("scale", [None, 0.05, 1.0, 3.0, -0.3, 0.0])
def test_scales(scale):
    check_sdpa(*qkv(1, 2, 2, 17, 19, 40), scale=scale)


@pytest.mark.parametrize("d, dv", [(1, 1), (5, 5), (8, 8), (13, 40), (256, 8)])
def test_depths(d, dv):
    check_sdpa(*qkv(1, 2, 1, 17, 19, d, dv))


@pytest.mark.parametrize("b, hq, nq, nk", [(0, 2, 5, 7), (2, 2, 0, 7), (2, 2, 5, 0), (0, 2, 0, 0), (2, 0, 5, 7)])
def test_no_batch_no_queries_no_keys(b, hq, nq, nk):
    forward, gradients = check_sdpa(*qkv(b, hq, hq, nq, nk, 8))
    assert not any(x.any() for x in gradients)
    assert_as_declared(forward, ATEN._scaled_dot_product_flash_attention(*map(on_meta, qkv(b, hq, hq, nq, nk, 8))))


def test_gradients_of_any_strides():
    """PyTorch passes gradients of o expanded, transposed, and with gaps."""
    q, k, v = qkv(2, 3, 3, 9, 11, 8)
    forward = door.sdpa_forward(q, k, v)
    for grad in (torch.ones(1).expand(2, 3, 9, 8), torch.randn(2, 9, 3, 8).transpose(1, 2),
                 torch.randn(2, 3, 8, 9).transpose(2, 3), torch.randn(2, 3, 9, 20)[..., 3:11]):
        got = backward_of(forward, grad, q, k, v, 0.0, False)
        want = backward_of(forward, grad.contiguous(), q, k, v, 0.0, False)
        assert all(torch.equal(x, y) for x, y in zip(got, want))
    assert backward_of(forward, None, q, k, v, 0.0, False) == (None, None, None)


def test_deterministic_gradients_are_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(door, "backward_of", lambda operands, options, given, **_: asked.append(options.deterministic))
    q, k, v = qkv(1, 1, 1, 5, 5, 8)
    forward = door.sdpa_forward(q, k, v)
    for flag in (False, True):
        monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: flag)
        backward_of(forward, q, q, k, v, 0.0, False)
    assert asked == [False, True]


# --- Dropout ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("p", [0.1, 0.5, 0.93])
@pytest.mark.parametrize("causal", [False, True])
def test_dropout(p, causal):
    """The backward function drops the probabilities that the forward function dropped, from the seed alone."""
    check_sdpa(*qkv(2, 4, 2, 35, 67, 16), causal=causal, p=p)


def test_dropout_follows_pytorchs_generator():
    q, k, v = qkv(2, 2, 2, 20, 30, 8)
    results = []
    for number in (1, 1, 2):
        torch.manual_seed(number)
        results.append([door.sdpa_forward(q, k, v, 0.5)[0] for _ in range(2)])
    assert torch.equal(results[0][0], results[1][0]) and torch.equal(results[0][1], results[1][1])
    assert not torch.equal(results[0][0], results[0][1]) and not torch.equal(results[0][0], results[2][0])
    state = torch.get_rng_state()
    door.sdpa_forward(q, k, v)
    assert torch.equal(state, torch.get_rng_state()), "no numbers are drawn without dropout"


def test_dropout_of_packed_sequences():
    offsets, key_offsets = torch.tensor([0, 7, 7, 20]), torch.tensor([0, 11, 15, 40])
    q, k, v = tensor(20, 4, 16), tensor(40, 2, 16), tensor(40, 2, 16)
    arguments = (offsets, key_offsets, 13, 25, 0.3, True)
    o, lse, seed, unused, _ = door.flash_forward(q, k, v, *arguments, False)
    weights = plain.dropout_weights((1, 4, 20, 40), 0.3, seed)[0]
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    want, want_lse = plain.packed(*leaves, offsets.tolist(), key_offsets.tolist(), weights=weights, causal=True)
    plain.close(o, want.detach(), 2e-5)
    plain.close(lse, want_lse.detach(), 2e-5)
    grad = torch.randn_like(o)
    got = door.flash_backward(grad, q, k, v, o, lse, *arguments, seed, unused)
    for x, y in zip(got, torch.autograd.grad(want, leaves, grad.double())):
        plain.close(x, y, 4e-5)


# --- Packed sequences -------------------------------------------------------------------------------------------------

LENGTHS = [(5, 9), (0, 40), (64, 64), (33, 0), (1, 1), (70, 95), (31, 13)]


def offsets_of(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int()


@pytest.fixture
def sequences():
    """q, k, v, their offsets, and the longest lengths."""
    queries, keys = zip(*LENGTHS)
    q, k, v = tensor(sum(queries), 4, 16), tensor(sum(keys), 2, 16), tensor(sum(keys), 2, 24)
    return q, k, v, offsets_of(queries), offsets_of(keys), max(queries), max(keys)


@pytest.mark.parametrize("causal, left, right", [(False, None, None), (True, None, None), (True, -1, 0),
                                                 (False, 9, 2), (False, 7, None), (False, None, 3), (True, 12, -1)])
def test_packed_sequences(sequences, causal, left, right):
    q, k, v, offsets, key_offsets, *most = sequences
    windows = dict(window_size_left=left, window_size_right=right)
    arguments = (offsets, key_offsets, *most, 0.0, causal)
    forward = door.flash_forward(q, k, v, *arguments, False, **windows)
    assert_as_declared([x for x in forward if x.dim() != 3 or v.shape[2] == q.shape[2]],
                       [x for x in ATEN._flash_attention_forward(*map(on_meta, (q, k, v)), *map(on_meta, arguments),
                                                                 False, **windows)
                        if x.dim() != 3 or v.shape[2] == q.shape[2]])
    o, lse, seed, unused, _ = forward
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    want, want_lse = plain.packed(*leaves, offsets.tolist(), key_offsets.tolist(), causal=causal,
                                  left=-1 if left is None else left, right=-1 if right is None else right)
    plain.close(o, want.detach(), 2e-5)
    plain.close(lse, want_lse.detach(), 2e-5)
    grad = torch.randn_like(o)
    got = door.flash_backward(grad, q, k, v, o, lse, *arguments, seed, unused, **windows)
    assert_as_declared(got, [torch.empty_like(on_meta(x)) for x in (q, k, v)])
    for x, y in zip(got, torch.autograd.grad(want, leaves, grad.double())):
        plain.close(x, y, 4e-5)


@pytest.mark.parametrize("order", [[0, 1, 2], [1, 0, 2]])
def test_packed_results_lie_in_memory_as_pytorch_declares(order):
    q, k, v = (permuted(order, 20, 4, 16) for _ in range(3))
    offsets = offsets_of([7, 0, 13])
    arguments = (offsets, offsets, 13, 13, 0.0, True)
    got = door.flash_forward(q, k, v, *arguments, False)
    assert_as_declared(got, ATEN._flash_attention_forward(*map(on_meta, (q, k, v)), *map(on_meta, arguments), False))
    plain.close(got[0], plain.packed(q, k, v, offsets.tolist(), offsets.tolist(), causal=True)[0], 2e-5)
    found = door.flash_backward(got[0], q, k, v, got[0], got[1], *arguments, got[2], got[3])
    assert_as_declared(found, [torch.empty_like(on_meta(x)) for x in (q, k, v)])


@pytest.mark.parametrize("causal, left, right", [(False, None, None), (True, None, None), (False, 9, 2)])
@pytest.mark.parametrize("biased", [False, True])
def test_used_keys(sequences, causal, left, right, biased):
    q, k, v, offsets, key_offsets, *most = sequences
    used = torch.tensor([9, 0, 50, 0, 1, 61, 2], dtype=torch.int32)
    slopes = torch.rand(4) if biased else None
    o, lse, *_ = door.flash_forward(q, k, v, offsets, key_offsets, *most, 0.0, causal, False, scale=0.3, seqused_k=used,
                                    alibi_slopes=slopes, window_size_left=left, window_size_right=right)
    want, want_lse = plain.packed(q, k, v, offsets.tolist(), key_offsets.tolist(), used.tolist(), slopes=slopes,
                                  causal=causal, left=-1 if left is None else left,
                                  right=-1 if right is None else right, scale=0.3)
    plain.close(o, want, 2e-5)
    plain.close(lse, want_lse, 2e-5)


def test_alibi(sequences):
    slopes = torch.rand(4)
    q, k, v, offsets, key_offsets, *most = sequences
    for causal in (False, True):
        got = door.flash_forward(q, k, v, offsets, key_offsets, *most, 0.0, causal, False, alibi_slopes=slopes)
        want = plain.packed(q, k, v, offsets.tolist(), key_offsets.tolist(), slopes=slopes, causal=causal)
        plain.close(got[0], want[0], 2e-5)
        plain.close(got[1], want[1], 2e-5)
        q4, k4, v4 = qkv(2, 4, 2, 19, 31, 8)
        i, j = plain.positions(19, 31)
        want = plain.attention(q4, k4, v4, plain.band(19, 31, causal),
                               bias=-slopes[:, None, None] * (j - i - 12).abs())
        got = door.flash_forward(*(x.transpose(1, 2) for x in (q4, k4, v4)), None, None, 19, 31, 0.0, causal, False,
                                 alibi_slopes=slopes)
        plain.close(got[0].transpose(1, 2), want[0], 2e-5)
        plain.close(got[1], want[1], 2e-5)


@pytest.mark.parametrize("queries", [[1, 1, 1, 1], [5, 0, 17, 1]])
@pytest.mark.parametrize("causal, left", [(False, None), (True, None), (True, 20)])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("inplace", [False, True])
def test_pages(queries, causal, left, biased, inplace):
    """Keys in the pages of a cache, in any order; unused pages hold NaN."""
    used, size, d, dv = [40, 9, 17, 64], 16, 16, 24
    pages = torch.randperm(20)
    table = pages[:16].view(4, 4).int()
    k, v = torch.full((20, size, 2, d), torch.nan), torch.full((20, size, 2, dv), torch.nan)
    for row, count in zip(table, used):
        for page in row[:-(-count // size)]:
            k[page], v[page] = tensor(size, 2, d), tensor(size, 2, dv)
    q, slopes = tensor(sum(queries), 4, d), torch.rand(4) if biased else None
    keys, values = ([x[row].flatten(0, 1) for row in table] for x in (k, v))
    key_offsets = [0, 64, 128, 192, 256]
    want, want_lse = plain.packed(q, torch.cat(keys), torch.cat(values), offsets_of(queries).tolist(), key_offsets,
                                  used, slopes=slopes, causal=causal, left=-1 if left is None else left)
    arguments = (offsets_of(queries), None, max(queries), 64, 0.0, causal, False)
    keywords = dict(seqused_k=torch.tensor(used, dtype=torch.int32), block_table=table, window_size_left=left,
                    alibi_slopes=slopes)
    if inplace:
        o = torch.full((sum(queries), 4, dv), torch.nan)
        lse = door.flash_forward_inplace(o, q, k, v, *arguments, **keywords)
    else:
        o, lse, *_ = door.flash_forward(q, k, v, *arguments, **keywords, num_splits=1)
    plain.close(o, want, 2e-5)
    plain.close(lse, want_lse, 2e-5)
    assert lse.is_contiguous()


def test_in_place(sequences):
    q, k, v, offsets, key_offsets, *most = sequences
    out = torch.full((q.shape[0], 4, 24), torch.nan)
    lse = door.flash_forward_inplace(out, q, k, v, offsets, key_offsets, *most, 0.0, True, False)
    want, want_lse = plain.packed(q, k, v, offsets.tolist(), key_offsets.tolist(), causal=True)
    plain.close(out, want, 2e-5)
    plain.close(lse, want_lse, 2e-5)
    q, k, v = (x.transpose(1, 2) for x in qkv(2, 4, 2, 19, 31, 8))
    out = torch.full((2, 19, 4, 8), torch.nan)
    lse = door.flash_forward_inplace(out, q, k, v, None, None, 19, 31, 0.0, False, False)
    want, want_lse = plain.attention(*(x.transpose(1, 2) for x in (q, k, v)))
    plain.close(out.transpose(1, 2), want, 2e-5)
    plain.close(lse, want_lse, 2e-5)


def test_a_sequence_of_pages_without_a_query():
    """With at most one query, rows and sequences need not have the same numbers."""
    offsets, used = offsets_of([1, 0, 1]), torch.tensor([5, 7, 3], dtype=torch.int32)
    table = torch.arange(3, dtype=torch.int32)[:, None]
    q, (k, v) = tensor(3, 2, 8), (tensor(3, 8, 2, 8) for _ in range(2))
    o = door.flash_forward(q, k, v, offsets, None, 1, 8, 0.0, True, False, seqused_k=used, block_table=table)[0]
    for row, sequence in ((0, 0), (1, 2)):
        keys, values = (x[sequence, :used[sequence]].transpose(0, 1) for x in (k, v))
        want = torch.nn.functional.scaled_dot_product_attention(q[row][:, None], keys, values)[:, 0]
        plain.close(o[row], want, 2e-5)


# --- Refusals ---------------------------------------------------------------------------------------------------------

PACKED = (tensor(9, 2, 8), tensor(9, 2, 8), tensor(9, 2, 8))
OFFSETS = offsets_of([4, 5])
USED, TABLE, SLOPES = torch.tensor([4, 5], dtype=torch.int32), torch.zeros(2, 1, dtype=torch.int32), torch.ones(2)
PAGES = (tensor(9, 2, 8), tensor(3, 8, 2, 8), tensor(3, 8, 2, 8))


def flash(tensors, offsets, key_offsets, p=0.0, debug=False, **keywords):
    return door.flash_forward(*tensors, offsets, key_offsets, 5, 5, p, False, debug, **keywords)


REFUSALS = {
    "debug": (lambda: door.sdpa_forward(*qkv(1, 1, 1, 5, 5, 8), 0.1, False, True), "return_debug_mask=False"),
    "debug, packed": (lambda: flash(PACKED, OFFSETS, OFFSETS, debug=True), "return_debug_mask=False"),
    "a rate of 1": (lambda: door.sdpa_forward(*qkv(1, 1, 1, 5, 5, 8), 1.0), "expected dropout_p to be 0, or nearest"),
    "a tiny rate": (lambda: door.sdpa_forward(*qkv(1, 1, 1, 5, 5, 8), 1e-3), "expected dropout_p to be 0, or nearest"),
    "one offsets": (lambda: flash(PACKED, OFFSETS, None), "together with cum_seq_q"),
    "other offsets": (lambda: flash(PACKED, None, OFFSETS), "together with cum_seq_k"),
    "used without offsets": (lambda: flash([x[None] for x in PACKED], None, None, seqused_k=USED), "with seqused_k"),
    "dense with offsets": (lambda: flash([x[None] for x in PACKED], OFFSETS, OFFSETS), "query of 3 dimensions"),
    "splits": (lambda: flash(PACKED, OFFSETS, OFFSETS, num_splits=2), "num_splits of at most 1 without block_table"),
    "slopes": (lambda: flash(PACKED, OFFSETS, OFFSETS, alibi_slopes=torch.ones(2, 2)), "alibi_slopes of shape"),
    "pages without lengths": (lambda: flash(PAGES, OFFSETS, None, block_table=TABLE), "seqused_k together with block"),
    "pages without offsets": (lambda: flash(PAGES, None, None, block_table=TABLE, seqused_k=USED),
                              "cum_seq_q together with block_table"),
    "pages and dropout": (lambda: flash(PAGES, OFFSETS, None, 0.5, block_table=TABLE, seqused_k=USED),
                          "dropout_p=0 together with block_table"),
    "in place and dropout": (lambda: door.flash_forward_inplace(PACKED[0].clone(), *PACKED, OFFSETS, OFFSETS, 5, 5, 0.5,
                                                                False, False), "dropout_p=0 together with out"),
    "columns": (lambda: door.sdpa_forward(*[x.mT.contiguous().mT for x in qkv(1, 1, 1, 5, 5, 8)]),
                "last dimension of q to be contiguous"),
    "depths": (lambda: door.sdpa_forward(*qkv(1, 1, 1, 5, 5, 264)), "at most 256"),
    "heads": (lambda: door.sdpa_forward(*qkv(1, 3, 2, 5, 5, 8)), "multiple of those of k and v"),
    "types": (lambda: door.sdpa_forward(*[x.int() for x in qkv(1, 1, 1, 5, 5, 8)]), "bf16, f16"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    call, words = REFUSALS[name]
    with pytest.raises(flashc.Error, match=words):
        call()


@pytest.mark.parametrize("name", ["seqused_k", "alibi_slopes", "block_table"])
def test_gradients_that_pytorch_would_compute_wrongly_are_refused(name):
    """PyTorch's backward operator does not take these arguments."""
    given = {"seqused_k": USED, "alibi_slopes": SLOPES, "block_table": TABLE}
    tensors = PAGES if name == "block_table" else PACKED
    keywords = {name: given[name], **({"seqused_k": USED} if name == "block_table" else {})}
    query = tensors[0].clone().requires_grad_()
    with pytest.raises(flashc.ArgumentError, match="while gradients are recorded"):
        flash((query, *tensors[1:]), OFFSETS, OFFSETS, **keywords)
    with torch.no_grad():
        flash((query, *tensors[1:]), OFFSETS, OFFSETS, **keywords)


# --- Strides that kernels cannot read ---------------------------------------------------------------------------------

def test_copies_only_what_kernels_cannot_read(monkeypatch):
    """A kernel on a GPU refuses rows that do not begin at multiples of 16 bytes; the call is then made with copies."""
    seen = []

    def attention(operands, options, out=None):
        seen.append(operands[:3])
        if len(seen) == 1:
            raise flashc.ArgumentError("expected a stride of a multiple of 16 bytes")
        return real(operands, options, out)
    real = door.attention_now
    monkeypatch.setattr(door, "attention_now", attention)
    q, k, v = qkv(1, 2, 2, 9, 11, 8)
    odd = torch.randn(1, 2, 11, 9)[..., :8]
    o = door.sdpa_forward(q, odd, v)[0]
    assert seen[1][0] is q and seen[1][2] is v and seen[1][1].is_contiguous() and torch.equal(seen[1][1], odd)
    plain.close(o, plain.attention(q, odd, v)[0], 2e-5)
    seen.clear()
    with pytest.raises(flashc.ArgumentError, match="16 bytes"):
        door.sdpa_forward(q, k, v)
    assert len(seen) == 1


def test_gradients_copy_only_what_kernels_cannot_read(monkeypatch):
    seen = []

    def backward(operands, options, given, **keywords):
        seen.append((*operands[:3], *given))
        if len(seen) == 1:
            raise flashc.ArgumentError("expected a stride of a multiple of 16 bytes")
        return real(operands, options, given, **keywords)
    real = door.backward_of
    q, k, v = qkv(1, 2, 2, 9, 11, 8)
    odd = torch.randn(1, 2, 11, 9)[..., :8]
    forward = door.sdpa_forward(q, odd, v)
    want = backward_of(forward, torch.ones_like(q), q, odd.contiguous(), v, 0.0, False)
    monkeypatch.setattr(door, "backward_of", backward)
    got = backward_of(forward, torch.ones_like(q), q, odd, v, 0.0, False)
    assert seen[1][0] is q and seen[1][1] is not odd and seen[1][2] is v and seen[1][3] is forward[0]
    assert all(torch.equal(x, y) for x, y in zip(got, want))
    seen.clear()
    with pytest.raises(flashc.ArgumentError, match="16 bytes"):
        backward_of(forward, torch.ones_like(q), q, k, v, 0.0, False)


# --- The registry -----------------------------------------------------------------------------------------------------

PROGRAM = """
import sys
import flashc
assert "torch" not in sys.modules
import torch
from torch.nn import attention
before = {name: torch._C._dispatch_dump("aten::" + name) for name in NAMES}
assert "flashc" not in attention.list_flash_attention_impls()
import flashc.integrations.pytorch as door
assert "flashc" in attention.list_flash_attention_impls() and attention.current_flash_attention_impl() is None
assert before == {name: torch._C._dispatch_dump("aten::" + name) for name in NAMES}
for _ in range(2):
    attention.activate_flash_attention_impl("flashc")
    assert attention.current_flash_attention_impl() == "flashc"
    for name in NAMES:
        assert "integrations/pytorch.py" in torch._C._dispatch_dump("aten::" + name), name
attention.restore_flash_attention_impl()
assert attention.current_flash_attention_impl() is None
assert before == {name: torch._C._dispatch_dump("aten::" + name) for name in NAMES}
assert not torch.cuda.is_initialized()
"""


def test_importing_registers_and_activating_replaces_and_restoring_brings_back():
    names = [name for name in door.OPERATORS if hasattr(ATEN, name)]
    done = subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", PROGRAM.replace("NAMES", repr(names))],
                          capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert "Overriding" not in done.stderr


@pytest.fixture
def order(monkeypatch):
    """A process that uses CUDA, in which PyTorch prefers cuDNN."""
    before = torch._C._get_sdp_priority_order()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(door, "_settle_order", lambda: torch._C._set_sdp_priority_order([3, 1, 2, 0, 4]))
    yield
    torch._C._set_sdp_priority_order(before)


def test_flash_comes_first_in_pytorchs_order(order):
    handle = door._Handle()
    assert torch._C._get_sdp_priority_order() == [1, 3, 2, 0, 4]
    handle.remove()
    handle.remove()
    assert torch._C._get_sdp_priority_order() == [3, 1, 2, 0, 4]


def test_an_order_of_the_program_stays(order):
    handle = door._Handle()
    torch._C._set_sdp_priority_order([2, 1, 0, 3, 4])
    handle.remove()
    assert torch._C._get_sdp_priority_order() == [2, 1, 0, 3, 4]


def test_the_order_waits_until_the_program_uses_cuda(order, monkeypatch):
    waiting, before = [], torch._C._get_sdp_priority_order()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "_lazy_call", waiting.append)
    first = door._Handle()
    first.remove()
    waiting.pop()()
    assert torch._C._get_sdp_priority_order() == before, "the first activation is over"
    second = door._Handle()
    assert torch._C._get_sdp_priority_order() == before
    waiting.pop()()
    assert torch._C._get_sdp_priority_order() == [1, 3, 2, 0, 4]
    second.remove()
    assert torch._C._get_sdp_priority_order() == [3, 1, 2, 0, 4]


# --- Random cases -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("number", range(40))
def test_random_cases(number):
    pick = random.Random(torch.initial_seed() + number)
    hk = pick.choice([1, 2, 3])
    b, hq, nq, nk = pick.randint(1, 3), hk * pick.choice([1, 2, 4]), pick.randint(1, 90), pick.randint(1, 90)
    d, dv = pick.choice([8, 16, 40, 64]), pick.choice([8, 24, 64])
    make = pick.choice(list(LAYOUTS.values()))
    tensors = [make(b, hq, nq, d), make(b, hk, nk, d), make(b, hk, nk, dv)]
    check_sdpa(*tensors, causal=pick.random() < 0.5, scale=pick.choice([None, 0.2]), p=pick.choice([0.0, 0.0, 0.2]))


# --- The benchmark and the example ------------------------------------------------------------------------------------

def test_the_benchmark_runs_its_calls(capsys):
    from flashc.bench import _doors, _host
    for what, found in _doors.host_times(_host.Problem("cpu"), 2):
        assert list(found) == [_doors.FLASHC, _doors.OURS, _doors.OWN] and all(len(x) == 2 for x in found.values())
    active = []

    def measure(run, calls):
        active.append(torch.nn.attention.current_flash_attention_impl())
        results = [run(i) for i in range(calls)]
        assert isinstance(results[0], torch.Tensor) or len(results[0]) == 3
        return 1.0 * calls
    for what, found in _doors.gpu_times(measure, "cpu", (1, 2, 16, 8), total_ms=1.0, rounds=1):
        assert set(found.values()) == {1.0}
    assert set(active) == {None, "flashc"} and torch.nn.attention.current_flash_attention_impl() is None
    if not torch.cuda.is_available():
        _doors.main()
        assert "left out" in capsys.readouterr().out


def test_the_example_trains(capsys):
    path = pathlib.Path(__file__).resolve().parents[2] / "examples" / "pytorch_activate.py"
    example = runpy.run_path(str(path))
    example["main"](["--device", "cpu", "--steps", "2", "--shape", "2", "32", "32"])
    first, second = capsys.readouterr().out.splitlines()[-2:]
    assert "PyTorch's kernels" in first and "flashc's kernels" in second and "loss" in second
    assert torch.nn.attention.current_flash_attention_impl() is None
