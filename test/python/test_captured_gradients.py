"""Gradients of the tensors that a score reads, on the CPU, against PyTorch's derivative of the score and against
difference quotients in f64; packed sequences, masks, sinks, dropout; refusals."""
import numpy as np
import pytest

import flashc
import reference

torch = pytest.importorskip("torch")

import captured  # noqa: E402
from scores import MASKS  # noqa: E402

HAS_OPS = hasattr(torch.library, "custom_op")


#: Scores that captured.py also has, in another form. Only gpu/test_captured_gradients.py compares their numbers.
FORMS = ("temperature of a head", "of a batch and a head", "bias of a key", "rows cut off", "soft cap and alibi", "t5",
         "sine of the distance")


@pytest.mark.parametrize("kind,name", [case for case in captured.CASES if case[0] == "captured" or case[1] in FORMS],
                         ids=lambda x: x)
def test_scores(kind, name):
    keep = [None, *MASKS.values()][sum(map(ord, name)) % (1 + len(MASKS))]
    captured.gradients(kind, name, "cpu", (2, 4, 2, 37, 41, 8), torch.float32, keep)


@pytest.mark.parametrize("name", ["table", "two tensors"])
@pytest.mark.parametrize("nq,nk", [(1, 1), (1, 70), (65, 3), (70, 130)])
def test_lengths(name, nq, nk):
    captured.gradients("captured", name, "cpu", (1, 2, 2, nq, nk, 8), torch.float32)


def test_differences():
    """Compares the gradients that attention_backward returns for NumPy arrays with difference quotients of attention in
    f64."""
    rng = np.random.default_rng(1)
    b, h, nq, nk, d = 1, 2, 5, 6, 8
    q, k, v = reference.inputs(rng, b, h, h, nq, nk, d)
    bias, table, slopes = (rng.standard_normal(shape).astype(np.float32)
                           for shape in ((h, nq, nk), (nq + nk - 1,), (h,)))

    def score(s, b, h, i, j):
        return s * slopes[h] + bias[h, i, j] * table[j - i + nq - 1]

    sinks = rng.standard_normal(h).astype(np.float32)
    o, lse = flashc.attention(q, k, v, score=score, causal=True, sinks=sinks, return_lse=True)
    do, dlse = rng.standard_normal(o.shape).astype(np.float32), rng.standard_normal(lse.shape).astype(np.float32)
    found = flashc.attention_backward(q, k, v, o, lse, do, dlse=dlse, score=score, causal=True, sinks=sinks,
                                      captured=(bias, table, slopes))
    assert len(found) == 4 + 3
    arrays = [x.astype(np.float64) for x in (bias, table, slopes)]

    def total():
        wide_bias, wide_table, wide_slopes = arrays
        o, lse = reference.attention(q, k, v, reference.aligned(nq, nk, right=0), lambda s, b, h, i, j: (
            s * wide_slopes[h] + wide_bias[h, i, j] * wide_table[j - i + nq - 1]), sinks=sinks)
        return (o * do).sum() + (np.where(np.isinf(lse), 0, lse) * dlse).sum()

    for got, wide in zip(found[4:], arrays):
        want = reference.differences(total, wide)
        assert got.dtype == np.float32 and got.shape == want.shape
        assert np.allclose(got, want, rtol=1e-4, atol=1e-4), abs(got - want).max()


def test_untouched():
    """The gradient of elements that only masked pairs read is zero."""
    q, do = (torch.randn(1, 2, 20, 8) for _ in range(2))
    table = torch.randn(2, 39, requires_grad=True)
    bias = torch.randn(30, 30, requires_grad=True)
    o = flashc.attention(q, q, q, causal=True, window=4,
                         score=lambda s, b, h, i, j: s + table[h, i - j + 19] + bias[i, j])
    of_table, of_bias = torch.autograd.grad(o, (table, bias), do)
    assert (of_table[:, :19] == 0).all() and (of_table[:, 24:] == 0).all() and (of_table[:, 19:24] != 0).all()
    kept = torch.ones(20, 20).tril().triu(-4).bool()
    kept[0, 0] = False  # the only key of its row has weight 1, whatever is added
    assert (of_bias[:20, :20][~kept].abs() < 1e-6).all() and (of_bias[20:] == 0).all() and (of_bias[:, 20:] == 0).all()
    assert (of_bias[:20, :20][kept] != 0).all()


def test_of_masks():
    """A mask of numbers is added to the score, and has a gradient."""
    q, do = (torch.randn(2, 4, 20, 8) for _ in range(2))
    for shape in ((20, 20), (4, 1, 20), (2, 1, 20, 20), (1, 4, 20, 1)):
        mask, slope = torch.randn(shape, requires_grad=True), torch.tensor(1.5, requires_grad=True)
        score = lambda s, b, h, i, j: s * slope  # noqa: E731
        o = flashc.attention(q, q, q, mask=mask, score=score)
        got = torch.autograd.grad(o, (mask, slope), do)
        s = q.double() @ q.double().mT * 8**-0.5 * slope + mask
        want = torch.autograd.grad(s.softmax(-1) @ q.double(), (mask, slope), do.double())
        for x, y in zip(got, want):
            assert x.shape == y.shape and torch.allclose(x, y, rtol=1e-4, atol=1e-4)


def test_packed():
    """Positions that index tables and arrays of queries count from the start of a sequence."""
    lengths = [5, 1, 0, 17, 9]
    offsets = torch.tensor(np.cumsum([0, *lengths]), dtype=torch.int32)
    total = sum(lengths)
    q, k, v, do = (torch.randn(total, 2, 8) for _ in range(4))
    table, of_queries, slopes = (torch.randn(shape, requires_grad=True) for shape in ((2, 39), (2, 20), (2,)))

    def score(x, s, h, i, j):
        return x * slopes[h] + table[h, i - j + 19] + of_queries[h, i]

    o = flashc.varlen_attention(q, k, v, offsets, causal=True, score=score)
    got = torch.autograd.grad(o, (table, of_queries, slopes), do)
    want_o = []
    for begin, length in zip(offsets.tolist(), lengths):
        x, y, z = (t[begin:begin + length].transpose(0, 1).double() for t in (q, k, v))
        i, j, h = torch.arange(length)[:, None], torch.arange(length), torch.arange(2)[:, None, None]
        s = score(x @ y.mT * 8**-0.5, 0, h, i, j).masked_fill(j > i, -torch.inf)
        want_o.append((s.softmax(-1) @ z).transpose(0, 1))
    want = torch.autograd.grad(torch.cat(want_o), (table, of_queries, slopes), do.double())
    for x, y in zip(got, want):
        assert torch.allclose(x, y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("heads,queries", [(2, 5), (5, 5)])
def test_layout(heads, queries):
    """Captured arrays of four dimensions keep their own layout, whatever the layout of q, k and v is."""
    q, do = torch.randn(2, queries, heads, 8), torch.randn(2, queries, heads, 8)
    k = torch.randn(2, 6, heads, 8)
    bias = torch.randn(2, heads, queries, 6, requires_grad=True)
    o = flashc.attention(q, k, k, layout="bshd", score=lambda s, b, h, i, j: s + bias[b, h, i, j])
    got, = torch.autograd.grad(o, bias, do)
    x, y, z = (t.transpose(1, 2).double() for t in (q, k, do))
    want, = torch.autograd.grad((x @ y.mT * 8**-0.5 + bias).softmax(-1) @ y, bias, z)
    assert torch.allclose(got, want, rtol=1e-4, atol=1e-4)


def test_layout_of_strided_arrays():
    """The captured array has three dimensions, and its last dimension is strided."""
    q, do, whole = torch.randn(1, 3, 3, 8), torch.randn(1, 3, 3, 8), torch.randn(6, 6, 6, requires_grad=True)
    x = whole[::2, ::2, ::2]
    o = flashc.attention(q, q, q, layout="bshd", score=lambda s, b, h, i, j: s + x[h, i, j])
    got, = torch.autograd.grad(o, whole, do)
    y = q.transpose(1, 2).double()
    want, = torch.autograd.grad((y @ y.mT * 8**-0.5 + x).softmax(-1) @ y, whole, do.transpose(1, 2).double())
    assert torch.allclose(got, want, rtol=1e-4, atol=1e-4)


def test_loop_over_layers():
    """A score that refers to a variable of a loop keeps the value of its iteration, even if a property returns another
    array in each trace."""
    class Layer:
        def __init__(self):
            self.raw = torch.randn(8, 8, requires_grad=True)

        @property
        def table(self):
            return self.raw * 2

    q, layers, outputs, wants = torch.randn(1, 2, 8, 8), [Layer() for _ in range(3)], [], []
    for factor, layer in zip((0.5, 1.0, 4.0), layers):
        outputs.append(flashc.attention(q, q, q, score=lambda s, b, h, i, j: s + layer.table[i, j] * factor))
        s = q.double() @ q.double().mT * 8**-0.5 + layer.raw * 2 * factor
        wants.append(s.softmax(-1) @ q.double())
    do = [torch.randn_like(o) for o in outputs]
    leaves = [layer.raw for layer in layers]
    got = torch.autograd.grad(outputs, leaves, do)
    want = torch.autograd.grad(wants, leaves, [x.double() for x in do])
    for x, y in zip(got, want):
        assert torch.allclose(x, y, rtol=1e-4, atol=1e-4)


def test_changed_arrays():
    """Arrays that a score reads, and that need no gradient themselves, may not be written before the backward pass
    reads them."""
    q, other = torch.randn(1, 2, 8, 8, requires_grad=True), torch.randn(8)
    o = flashc.attention(q, q, q, score=lambda s, b, h, i, j: s * other[i])
    other.add_(1)
    with pytest.raises(RuntimeError, match="inplace"):
        o.sum().backward()


def test_with_dropout_and_sinks():
    b, h, nq, nk, d, p = 2, 3, 40, 50, 8, 0.3
    q, k, v = (torch.randn(b, h, n, d) for n in (nq, nk, nk))
    do, philox = torch.randn(b, h, nq, d), torch.tensor([3, 5])
    table, sinks = torch.randn(h, nq + nk - 1, requires_grad=True), torch.randn(h, requires_grad=True)
    score = lambda s, b, h, i, j: s + table[h, i - j + nk - 1]  # noqa: E731
    o = flashc.attention(q, k, v, score=score, sinks=sinks, dropout_p=p, philox=philox)
    got = torch.autograd.grad(o, (table, sinks), do)
    rate = round(p * 256) / 256
    kept = torch.from_numpy(flashc.dropout_mask((b, h, nq, nk), p, (3, 5))) / (1 - rate)
    s = score(q.double() @ k.double().mT * d**-0.5, *captured.positions(b, h, nq, nk, device="cpu"))
    s = torch.cat([s, sinks[None, :, None, None].expand(b, h, nq, 1)], -1)
    want = torch.autograd.grad((s.softmax(-1)[..., :nk] * kept) @ v.double(), (table, sinks), do.double())
    for x, y in zip(got, want):
        assert torch.allclose(x, y, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not HAS_OPS, reason="PyTorch has no torch.library.custom_op")
def test_flex_attention():
    import flashc.torch
    q, k, v, do = (torch.randn(2, 4, 24, 8) for _ in range(4))
    table = torch.randn(4, 47, requires_grad=True)
    score_mod = lambda s, b, h, i, j: s + table[h, i - j + 23]  # noqa: E731
    o = flashc.torch.flex_attention(q, k, v, score_mod=score_mod)
    got, = torch.autograd.grad(o, table, do)
    s = score_mod(q.double() @ k.double().mT * 8**-0.5, *captured.positions(2, 4, 24, 24, device="cpu"))
    want, = torch.autograd.grad(s.softmax(-1) @ v.double(), table, do.double())
    assert torch.allclose(got, want, rtol=1e-4, atol=1e-4)


def test_training_step():
    """A score reads a tensor that is computed from a module's parameter. Writing to this tensor in place before the
    backward pass is refused."""
    q = torch.randn(1, 2, 16, 8)
    raw = torch.nn.Parameter(torch.randn(2, 31))

    def run():
        table = raw * 2
        return flashc.attention(q, q, q, score=lambda s, b, h, i, j: s + table[h, i - j + 15]), table

    o, _ = run()
    o.square().sum().backward()
    table = (raw * 2).detach().requires_grad_()
    s = q @ q.mT * 8**-0.5 + table[:, torch.arange(16)[:, None] - torch.arange(16) + 15]
    (s.softmax(-1) @ q).square().sum().backward()
    assert torch.allclose(raw.grad, 2 * table.grad, rtol=1e-3, atol=1e-4)
    o, table = run()
    with torch.no_grad():
        table += 1
    with pytest.raises(RuntimeError, match="inplace"):
        o.sum().backward()


def test_second_order():
    q, table = torch.randn(1, 1, 4, 8), torch.randn(7, requires_grad=True)
    o = flashc.attention(q, q, q, score=lambda s, b, h, i, j: s + table[i - j + 3])
    gradient, = torch.autograd.grad(o.sum(), table, create_graph=True)
    with pytest.raises(flashc.Error, match="first order"):
        torch.autograd.grad(gradient.sum(), table)


def test_refusals():
    q = np.random.default_rng(0).standard_normal((1, 2, 8, 8)).astype(np.float32)
    table, whole = np.zeros((2, 15), np.float32), np.zeros(15, np.int32)

    def call(score, captured):
        o, lse = flashc.attention(q, q, q, score=score, return_lse=True)
        return flashc.attention_backward(q, q, q, o, lse, q, score=score, captured=captured)

    def score(s, b, h, i, j):
        return s + table[h, i - j + 7] + whole[i]

    with pytest.raises(flashc.UnsupportedTypeError, match=r"captured to be a tuple or a list of arrays, got .*ndarray"):
        call(score, table)
    with pytest.raises(flashc.ArgumentError, match=r"captured\[1\] to be an array that the score reads"):
        call(score, (table, table.copy()))
    with pytest.raises(flashc.UnsupportedTypeError, match=r"captured\[0\] of bf16, f16, f32 or f64, got int32"):
        call(score, (whole,))
    only_in_mask = np.ones(8, np.float32)
    mask = lambda b, h, i, j: only_in_mask[j] > 0.5  # noqa: E731
    o, lse = flashc.attention(q, q, q, mask=mask, return_lse=True)
    *_, gradient = flashc.attention_backward(q, q, q, o, lse, q, mask=mask, captured=[only_in_mask])
    assert gradient.shape == (8,) and (gradient == 0).all()


def test_no_elements():
    table = torch.randn(5, requires_grad=True)
    q, k = torch.randn(2, 3, 0, 8), torch.randn(2, 3, 4, 8)
    o = flashc.attention(q, k, k, score=lambda s, b, h, i, j: s + table[h])
    gradient, = torch.autograd.grad(o.sum(), table)
    assert (gradient == 0).all()
