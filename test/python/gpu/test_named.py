"""masks.neighborhood and flashc.scores on a GPU, forward and backward, against f32 attention; and what `python -m
flashc` prints about a GPU. Skipped where there is no GPU."""
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc import __main__ as program  # noqa: E402
from flashc import masks, scores  # noqa: E402
from flashc.bench._check import Reference, plain_gradients  # noqa: E402
from test_named_scores import slopes_of, t5_bucket  # noqa: E402
from .tensors import positions, qkv  # noqa: E402

BF16, F16 = torch.bfloat16, torch.float16


def check(b, h, nq, nk, d, dtype, keep=None, formula=None, **keywords):
    """`keep` is a bool mask [Nq, Nk]. `formula(s, h, j - i - (Nk - Nq))` returns the score."""
    q, k, v = qkv(b, h, h, nq, nk, d, dtype=dtype)
    _, heads, i, j = positions(b, h, nq, nk)
    keep = None if keep is None else keep.expand(b, h, nq, nk)
    rescore = None if formula is None else lambda s: formula(s, heads, j - i - (nk - nq))
    o, lse = flashc.attention(q, k, v, return_lse=True, **keywords)
    comparison = Reference(q, k, v, keep, rescore).compare(o)
    assert not comparison.problem, comparison
    do = torch.randn_like(q)
    want = plain_gradients(q, k, v, do, torch.float32, keep, rescore)
    for got, exact in zip(flashc.attention_backward(q, k, v, o, lse, do, **keywords), want):
        assert (got.float() - exact).norm() <= 1e-2 * exact.norm()


def axis(n, size, step):
    """Returns NATTEN's rule for one dimension, a mask [n, n]."""
    x, y = torch.arange(n, device="cuda")[:, None], torch.arange(n, device="cuda")
    length = (n - 1 - x % step) // step + 1
    center = torch.minimum((x // step).clamp(min=size // 2), length - 1 - (size - 1) // 2)
    return (x % step == y % step) & (y // step - center >= -(size // 2)) & (y // step - center <= (size - 1) // 2)


@pytest.mark.parametrize("shape, sizes, steps, d, dtype", [
    ((1009,), (131,), (1,), 64, BF16), ((700,), (9,), (13,), 128, F16), ((32, 32), (7, 7), (1, 1), 64, BF16),
    ((31, 37), (13, 8), (2, 3), 128, BF16), ((64, 64), (13, 13), (4, 4), 64, F16),
    ((7, 11, 13), (3, 5, 7), (2, 1, 1), 64, BF16)])
def test_neighborhood(shape, sizes, steps, d, dtype):
    keep = torch.ones(1, 1, dtype=torch.bool, device="cuda")
    for n, size, step in zip(shape, sizes, steps):
        keep = torch.kron(keep.int(), axis(n, size, step).int()).bool()
    n = math.prod(shape)
    assert torch.all(keep.sum(-1) == math.prod(sizes))
    check(2, 3, n, n, d, dtype, keep, mask=masks.neighborhood(shape, sizes, steps))


@pytest.mark.parametrize("nq, nk", [(1, 257), (333, 333), (129, 517)])
@pytest.mark.parametrize("d, dtype", [(64, F16), (128, BF16)])
def test_scores(nq, nk, d, dtype):
    slopes = torch.tensor(slopes_of(6), device="cuda", dtype=torch.float32)[:, None, None]
    table = torch.randn(32, 6, device="cuda")

    def bucket(distance, bidirectional):
        return torch.from_numpy(t5_bucket(distance.cpu().numpy(), bidirectional, 32, 128)).cuda()
    causal = torch.ones(nq, nk, dtype=torch.bool, device="cuda").tril(nk - nq)
    for score, formula, keep in (
            (scores.alibi(6), lambda s, h, x: s + slopes * x, causal),
            (scores.alibi(6, symmetric=True), lambda s, h, x: s - slopes * x.abs(), None),
            (scores.relative_bias(table), lambda s, h, x: s + table[bucket(x, True), h], None),
            (scores.relative_bias(table, bidirectional=False), lambda s, h, x: s + table[bucket(x, False), h], causal),
            (scores.soft_cap(20) >> scores.alibi(6), lambda s, h, x: 20 * torch.tanh(s / 20) + slopes * x, causal)):
        check(2, 6, nq, nk, d, dtype, keep, formula, score=score, causal=keep is not None)


def test_tables_are_trained():
    q, k, v = qkv(2, 4, 4, 300, 300, 64)
    do = torch.randn_like(q)
    # The slopes are small (1e-3). With steep slopes each query sees nearly one key only, and the gradient of the slopes
    # is then just rounding error.
    for make, formula, shape, size in (
            (scores.alibi, lambda x, s, h, d: s + x[h] * d, (4,), 1e-3),
            (scores.relative_bias, lambda x, s, h, d: s + x[torch.from_numpy(
                t5_bucket(d.cpu().numpy(), True, 32, 128)).cuda(), h], (32, 4), 1)):
        x = (size * torch.randn(shape, device="cuda")).requires_grad_()
        got, = torch.autograd.grad(flashc.attention(q, k, v, causal=True, score=make(x)), x, do)
        _, h, i, j = positions(2, 4, 300, 300)
        s = formula(x, q.float() @ k.float().transpose(2, 3) / 8, h, j - i).masked_fill(j > i, -torch.inf)
        want, = torch.autograd.grad(s.softmax(-1) @ v.float(), x, do.float())
        assert (got - want).norm() <= 1e-2 * want.norm()


def test_flex_attention_takes_them():
    """PyTorch's eager FlexAttention accepts them, since a mask and a score are functions of position tensors."""
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    q, k, v = qkv(1, 4, 4, 256, 256, 64)
    mask = masks.neighborhood((16, 16), 5)
    score = scores.alibi(4, symmetric=True, align="top-left") >> scores.soft_cap(9)
    block_mask = flex.create_block_mask(mask, None, None, 256, 256, device="cuda")
    want = flex.flex_attention(q, k, v, score_mod=score, block_mask=block_mask)
    got = flashc.attention(q, k, v, mask=mask, score=score)
    assert (got.float() - want.float()).norm() <= 1e-2 * want.float().norm()


def test_program_names_the_gpu():
    text = program.report()
    assert torch.cuda.get_device_name(0) in text
    is_hopper = torch.cuda.get_device_capability(0) == (9, 0)
    assert ("all functions" in text) == is_hopper


def test_arrays_of_numpy_do_not_go_to_the_gpu():
    q = torch.randn(1, 1, 9, 8, device="cuda", dtype=BF16)
    with pytest.raises(flashc.ArgumentError):
        flashc.attention(q, q, q, score=scores.alibi(np.ones(1, np.float32)))
