"""Arguments that PyTorch's own functions accept, on the CPU: broadcasting, torch.func, closures in graphs. Skipped
where PyTorch is older than 2.4."""
import numpy as np
import pytest

import flashc

torch = pytest.importorskip("torch")
if not hasattr(torch.library, "custom_op"):
    pytest.skip("PyTorch has no torch.library.custom_op", allow_module_level=True)

from torch.func import grad, vmap  # noqa: E402

from flashc._runtime.options import Operands, Options  # noqa: E402
from flashc.torch import attention, flex_attention, scaled_dot_product_attention as sdpa  # noqa: E402

eager = torch.nn.functional.scaled_dot_product_attention
pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")


def same(x, y, bound=3e-5):
    assert x.shape == y.shape and (x - y).abs().max() <= bound


# --- Broadcasting -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("q, k, mask", [((3, 2, 7, 16), (1, 2, 9, 16), None), ((3, 2, 7, 16), (3, 1, 9, 16), (9,)),
                                        ((1, 1, 7, 16), (3, 2, 9, 16), (3, 1, 1, 9)),
                                        ((2, 3, 4, 7, 16), (2, 3, 4, 9, 16), (2, 1, 1, 1, 9)),
                                        ((2, 3, 4, 7, 16), (3, 4, 9, 16), (3, 1, 7, 9)),
                                        ((2, 1, 4, 7, 16), (1, 3, 1, 9, 16), (4, 1, 9)), ((7, 16), (9, 16), (7, 9)),
                                        ((4, 7, 16), (1, 9, 16), (1, 9)), ((4, 7, 16), (4, 9, 16), (1, 7, 9))])
def test_sdpa_broadcasts(q, k, mask):
    q, k, v = torch.randn(q, requires_grad=True), torch.randn(k, requires_grad=True), torch.randn(k)
    mask = None if mask is None else torch.randn(mask) > -0.7
    leading = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2])
    whole = [x.expand(*leading, *x.shape[-2:]) for x in (q, k, v)]
    o, want = sdpa(q, k, v, mask), eager(*whole, mask if mask is None else torch.atleast_2d(mask)).nan_to_num(0)
    same(o, want)
    for x, y in zip(torch.autograd.grad(o.square().sum(), (q, k)), torch.autograd.grad(want.square().sum(), (q, k))):
        same(x, y.nan_to_num(0))


def test_flex_attention_broadcasts_keys():
    q, k = torch.randn(3, 2, 7, 16), torch.randn(1, 2, 9, 16)
    same(flex_attention(q, k, k), eager(q, k.expand(3, -1, -1, -1), k.expand(3, -1, -1, -1)))


def test_refusals():
    with pytest.raises(flashc.ArgumentError, match=r"leading dimensions that broadcast, got \(3,\), \(2,\), \(2,\)"):
        sdpa(torch.zeros(3, 2, 7, 16), torch.zeros(2, 2, 7, 16), torch.zeros(2, 2, 7, 16))
    with pytest.raises(flashc.ArgumentError, match="heads, or one, .* without enable_gqa, got 4, 2 and 2"):
        sdpa(torch.zeros(1, 4, 7, 16), torch.zeros(1, 2, 7, 16), torch.zeros(1, 2, 7, 16))
    with pytest.raises(flashc.ArgumentError, match="of batch 1, got 3 and 2"):
        flex_attention(torch.zeros(3, 2, 7, 16), torch.zeros(2, 2, 7, 16), torch.zeros(2, 2, 7, 16))


# --- torch.func -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dims", [(0, 0), (0, None), (1, None), (None, 0)])
def test_vmap_of_gradients(dims):
    shape = {0: (5, 3, 2, 11, 16), 1: (3, 5, 2, 11, 16), None: (3, 2, 11, 16)}
    x, k = (torch.randn(shape[dim]) for dim in dims)
    got, want = (vmap(grad(lambda x, k: f(x, k, k).square().sum(), (0, 1)), dims)(x, k) for f in (sdpa, eager))
    for a, b in zip(got, want):
        same(a, b)


def test_gradients_of_vmap():
    x, k = torch.randn(5, 3, 2, 11, 16), torch.randn(3, 2, 11, 16)
    got, want = (grad(lambda k: vmap(lambda x: f(x, k, k).square().sum())(x).sum())(k) for f in (sdpa, eager))
    same(got, want)


@pytest.mark.parametrize("shape, dim", [((5, 11, 11), 0), ((3, 1, 11, 5, 11), 3), ((3, 1, 11, 11), None),
                                        ((1, 11), None)])
def test_vmap_of_masks(shape, dim):
    x, mask = torch.randn(5, 3, 2, 11, 16), torch.randn(shape)
    got, want = (vmap(lambda x, m: f(x, x, x, m), (0, dim))(x, mask) for f in (sdpa, eager))
    same(got, want)


def test_vmap_of_functions_and_sinks():
    """Under vmap, a function gets the batch number within its own batch. With sinks that differ between batches, vmap
    becomes a loop."""
    table, x, sinks = torch.randn(3), torch.randn(5, 3, 2, 11, 16), torch.randn(5, 2)

    def run(x, sinks):
        return flashc.attention(x, x, x, causal=True, score=lambda s, b, h, i, j: s * table[b], sinks=sinks,
                                mask=lambda b, h, i, j: (i - j) % (b + 2) == 0).square().sum()
    for f in (run, lambda x, sinks: run(x, None) + 0 * sinks.sum()):
        got = vmap(grad(f, (0, 1)))(x, sinks)
        want = [torch.stack(parts) for parts in zip(*(grad(f, (0, 1))(*one) for one in zip(x, sinks)))]
        for a, b in zip(got, want):
            same(a, b)


def test_vmap_with_dropout():
    x = torch.randn(3, 1, 2, 33, 16)
    o = vmap(lambda x: flashc.attention(x, x, x, dropout_p=0.5), randomness="different")(x[:1].expand_as(x))
    assert o.shape == x.shape and not torch.equal(o[0], o[1])


def test_refusals_in_torch_func():
    x, mask = torch.randn(1, 2, 7, 16), torch.randn(7, 7)
    with pytest.raises(flashc.Error, match="a mask without gradients in torch.func"):
        grad(lambda mask: sdpa(x, x, x, mask).sum())(mask)
    with pytest.raises(flashc.Error, match="gradients of first order"):
        grad(lambda x: grad(lambda x: sdpa(x, x, x).sum())(x).sum())(x)
    with pytest.raises(flashc.ArgumentError, match="no out, schedule or static_shapes in torch.func"):
        grad(lambda x: flashc.attention(x, x, x, static_shapes=True).sum())(x)


def test_tensors_of_torch_func_in_other_places():
    x, table = torch.randn(3, 1, 2, 9, 16), torch.randn(3, 17)
    for call, name in ((lambda x, t: flashc.attention(x, x, x, score=lambda s, b, h, i, j: s + t[i - j + 8]), "t"),
                       (lambda x, t: flashc.varlen_attention(*[x[0].mT.reshape(9, 2, 16)] * 3, [0, 4, 9]), "q")):
        with pytest.raises(flashc.ArgumentError, match=f"^{name}: expected a tensor with elements, got one that a "
                                                       "transform of torch.func follows: only q, k, v, mask and sinks"):
            vmap(call)(x, table)


def test_ops_refuse_options_that_they_do_not_take():
    x = torch.randn(1, 2, 7, 16)
    with pytest.raises(flashc.ArgumentError, match="expected no batch_invariant for an op of PyTorch, got True"):
        attention(Operands(x, x, x), Options(batch_invariant=True))


# --- Closures in graphs -----------------------------------------------------------------------------------------------

IDS = torch.arange(8) // 3


class Biased(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(2, 15))

    def forward(self, x):
        return flashc.attention(x, x, x, score=lambda s, b, h, i, j: s + self.table[h, i - j + 7]).square()


def attends(x, ids):
    return flashc.attention(x, x, x, mask=lambda b, h, i, j: ids[i] == ids[j]) + 1


def has_a_default(x, ids):
    return flashc.attention(x, x, x, mask=lambda b, h, i, j, ids=ids: ids[i] == ids[j]) + 1


def flexes(x, ids):
    return flex_attention(x, x, x, lambda s, b, h, i, j: s + ids[j], lambda b, h, i, j: ids[i] == ids[j]) + 1


def packs(x, ids):
    y = x[0].transpose(0, 1)
    return flashc.varlen_attention(y, y, y, torch.tensor([0, 3, 8]), mask=lambda s, h, i, j: ids[i] >= ids[j]) + 1


def decodes(x, ids):
    c, lengths = x.transpose(1, 2).repeat(2, 2, 1, 1), torch.tensor([5, 9])
    return flashc.decode(c[:, :1], c, c, lengths, mask=lambda b, h, i, j: ids[j % 8] < 2) + 1


@pytest.mark.parametrize("function", [attends, has_a_default, flexes, packs, decodes])
def test_closures_over_tensors(function):
    torch.compiler.reset()
    x, compiled = torch.randn(1, 2, 8, 16), torch.compile(function, backend="eager")
    for ids in (IDS, IDS.flip(0)):
        same(compiled(x, ids), function(x, ids))


@pytest.mark.parametrize("numbers", [(2, 3, 5, 4), (2.0, 0.5, 3.0)])
def test_closures_over_numbers(numbers):
    """From the second call on, an integer is symbolic."""
    torch.compiler.reset()

    def function(x, n):
        return flashc.attention(x, x, x, score=lambda s, b, h, i, j: s * n, mask=lambda b, h, i, j: i - j < n + 1) * 2
    x, compiled = torch.randn(1, 2, 8, 16), torch.compile(function, backend="eager")
    for n in numbers:
        same(compiled(x, n), function(x, n))


def test_closures_over_parameters_train():
    torch.compiler.reset()
    x, module = torch.randn(1, 2, 8, 16), Biased()
    gradients = []
    for run in (module, torch.compile(module, backend="eager"), torch.compile(module, backend="eager")):
        module.zero_grad()
        run(x).sum().backward()
        gradients.append(module.table.grad.clone())
    assert gradients[0].any()
    same(gradients[1], gradients[0])
    same(gradients[2], gradients[0])


def test_functions_without_closures_stay_in_the_graph():
    torch.compiler.reset()
    x = torch.randn(1, 2, 8, 16)

    def function(x):
        return flashc.attention(x, x, x, mask=lambda b, h, i, j: j <= i, deterministic=True) * 2
    same(torch.compile(function, backend="eager", fullgraph=True)(x), function(x))
    assert np.isfinite(function(x).numpy()).all()
