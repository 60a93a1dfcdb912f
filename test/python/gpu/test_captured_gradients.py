"""Gradients of what a score reads, on a GPU: against PyTorch's of the eager formula in f64. Skipped where there is no
GPU."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import captured  # noqa: E402
import flashc  # noqa: E402
import flashc.torch  # noqa: E402
from scores import MASKS  # noqa: E402

LIMIT = {torch.bfloat16: 8e-3, torch.float16: 2e-3}


def check(kind, name, shape, dtype=torch.bfloat16, keep=None, **keywords):
    return captured.gradients(kind, name, "cuda", shape, dtype, keep, LIMIT[dtype], **keywords)


@pytest.mark.parametrize("kind,name", captured.CASES, ids=lambda x: x)
def test_scores(kind, name):
    place = sum(map(ord, name))
    for number, (nq, nk, d) in enumerate([(1, 63, 64), (131, 65, 64), (257, 331, 128), (331, 63, 40), (200, 517, 256)]):
        keep = [None, *MASKS.values()][(place + number) % (1 + len(MASKS))]
        dtype = torch.float16 if (place + number) % 4 == 0 else torch.bfloat16
        check(kind, name, (2, 4, 2, nq, nk, d), dtype, keep, seed=number)


@pytest.mark.parametrize("name", ["bias", "bias of pairs", "table", "clipped table", "slopes", "bias of a key"])
def test_large(name):
    kind = "scores" if name == "bias of a key" else "captured"
    check(kind, name, (2, 4, 4, 1500, 1777, 128), keep=MASKS["causal"])


@pytest.mark.parametrize("name", ["bias", "table", "buckets", "two tensors", "one table twice", "rows and columns"])
def test_equal_bits(name):
    b, h, nq, nk, d = 2, 4, 300, 333, 64
    make = captured.Maker("cuda")
    score = captured.make_captured(make, b, h, nq, nk)[name]
    q, k, v = (torch.randn(b, h, n, d, device="cuda", dtype=torch.bfloat16).requires_grad_() for n in (nq, nk, nk))
    o = flashc.attention(q, k, v, score=score)
    do = torch.randn_like(o)
    read = [x for x, gradient in zip(make.made, torch.autograd.grad(o, make.made, do, allow_unused=True, retain_graph=True))
            if gradient is not None]
    first = torch.autograd.grad(o, read, do, retain_graph=True)
    for _ in range(100):
        again = torch.autograd.grad(o, read, do, retain_graph=True)
        assert all(torch.equal(x, y) for x, y in zip(first, again))
