"""Gradients of the tensors that a score reads, on a GPU, against PyTorch's gradients of the eager formula in f64.
Skipped where there is no GPU."""
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
    # exp of scores in the hundreds, and tanh.approx, have errors of about 1e-4.
    return captured.gradients(kind, name, "cuda", shape, dtype, keep, LIMIT[dtype], 1e-3, **keywords)


@pytest.mark.parametrize("kind,name", captured.CASES, ids=lambda x: x)
def test_scores(kind, name):
    place = sum(map(ord, name))
    for number, (nq, nk, d) in enumerate([(1, 63, 64), (131, 65, 64), (257, 331, 128), (331, 63, 40), (200, 517, 256)]):
        keep = [None, *MASKS.values()][(place + number) % (1 + len(MASKS))]
        dtype = torch.float16 if (place + number) % 4 == 0 else torch.bfloat16
        check(kind, name, (2, 4, 2, nq, nk, d), dtype, keep, seed=number)


@pytest.mark.parametrize("name", [
    "bias", "bias of batches", "table", "buckets", "slopes", "documents", "rows and columns", "grid", "sums",
    "bias and table"
])
def test_sanitized(name):
    """Runs a kernel of each kind at sizes that suit compute-sanitizer (docs/checking.md)."""
    for number, (nq, nk, d) in enumerate([(65, 131, 64), (131, 65, 128)]):
        check("captured", name, (1, 2, 2, nq, nk, d), keep=MASKS["causal"] if number else None, seed=number)


@pytest.mark.parametrize("name", ["bias", "bias of pairs", "table", "clipped table", "slopes", "bias of a key"])
def test_large(name):
    kind = "scores" if name == "bias of a key" else "captured"
    check(kind, name, (2, 4, 4, 1500, 1777, 128), keep=MASKS["causal"])


@pytest.mark.parametrize(
    "name",
    ["bias", "table", "buckets", "two tensors", "one table twice", "rows and columns", "grid", "an index of pairs"])
def test_equal_bits(name):
    b, h, nq, nk, d = 2, 4, 300, 333, 64
    make = captured.Maker("cuda")
    score = captured.make_captured(make, b, h, nq, nk)[name]
    q, k, v = (torch.randn(b, h, n, d, device="cuda", dtype=torch.bfloat16).requires_grad_() for n in (nq, nk, nk))
    o = flashc.attention(q, k, v, score=score)
    do = torch.randn_like(o)
    read = [
        x for x, gradient in zip(make.made, torch.autograd.grad(o, make.made, do, allow_unused=True, retain_graph=True))
        if gradient is not None
    ]
    first = torch.autograd.grad(o, read, do, retain_graph=True)
    for _ in range(100):
        again = torch.autograd.grad(o, read, do, retain_graph=True)
        assert all(torch.equal(x, y) for x, y in zip(first, again))


def test_flex_attention():
    b, h, n, d = 2, 4, 200, 64
    make = captured.Maker("cuda")
    score_mod = captured.make_captured(make, b, h, n, n)["table"]
    q, k, v, do = (torch.randn(b, h, n, d, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    o, lse = flashc.torch.flex_attention(q, k, v, score_mod=score_mod, return_lse=True)
    *_, want = captured.wanted(q, k, v, o, lse, do, None, score_mod, make.made)
    table, want = next((x, y) for x, y in zip(make.made, want) if y is not None)
    got, = torch.autograd.grad(o, table, do)
    assert (got.double() - want).norm() <= 1e-4 * want.norm()


def test_dropout_and_sinks():
    b, h, nq, nk, d, p, philox = 2, 4, 150, 190, 128, 0.3, (3, 5)
    make = captured.Maker("cuda")
    q, k, v, do = (torch.randn(b, h, n, d, device="cuda", dtype=torch.bfloat16) for n in (nq, nk, nk, nq))
    kept = torch.from_numpy(flashc.dropout_mask((b, h, nq, nk), p, philox)).cuda() / (1 - round(p * 256) / 256)
    sinks = torch.randn(h, device="cuda")
    for name in ("bias", "table", "slopes", "blocks of columns"):
        score = captured.make_captured(make, b, h, nq, nk)[name]
        o, lse = flashc.attention(q, k, v, score=score, sinks=sinks, dropout_p=p,
                                  philox=torch.tensor(philox, device="cuda"), return_lse=True)
        *_, want = captured.wanted(q, k, v, o, lse, do, None, score, make.made, factors=kept)
        x, want = next((x, y) for x, y in zip(make.made, want) if y is not None)
        got, = torch.autograd.grad(o, x, do)
        assert (got.double() - want).norm() <= 1e-4 * (want.norm() + 0.3 * want.numel()**0.5), name


def test_packed():
    lengths = [50, 1, 0, 170, 90]
    offsets = torch.tensor([0, 50, 51, 51, 221, 311], dtype=torch.int32, device="cuda")
    q, k, v, do = (torch.randn(311, 2, 64, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    table, slopes = torch.randn(2, 399, device="cuda",
                                requires_grad=True), torch.rand(2, device="cuda", requires_grad=True)
    o = flashc.varlen_attention(q, k, v, offsets, causal=True,
                                score=lambda x, s, h, i, j: x * slopes[h] + table[h, i - j + 199])
    got = torch.autograd.grad(o, (table, slopes), do)
    parts = []
    for begin, length in zip(offsets.tolist(), lengths):
        x, y, z = (t[begin:begin + length].transpose(0, 1).double() for t in (q, k, v))
        i, j, h = torch.arange(length)[:, None].cuda(), torch.arange(length).cuda(), torch.arange(2)[:, None,
                                                                                                     None].cuda()
        s = (x @ y.mT * 64**-0.5 * slopes[h] + table[h, i - j + 199]).masked_fill(j > i, -torch.inf)
        parts.append((s.softmax(-1) @ z).transpose(0, 1))
    want = torch.autograd.grad(torch.cat(parts), (table, slopes), do.double())
    for x, y in zip(got, want):
        assert (x.double() - y).norm() <= 1e-2 * (y.norm() + 0.3 * y.numel()**0.5)


def test_graphs():
    """A training step is captured in a CUDA graph and replayed."""
    q, k, v = (torch.randn(1, 2, 128, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    table = torch.randn(2, 255, device="cuda", requires_grad=True)
    score = lambda s, b, h, i, j: s + table[h, i - j + 127]  # noqa: E731
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(2):
            want, = torch.autograd.grad(flashc.attention(q, k, v, score=score).float().square().sum(), table)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got, = torch.autograd.grad(flashc.attention(q, k, v, score=score).float().square().sum(), table)
    got.fill_(torch.nan)
    graph.replay()
    assert torch.equal(got, want)
