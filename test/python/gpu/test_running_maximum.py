"""The running maximum on a GPU: which tiles change it, and by how much. A kernel compares scores as integers to find
out whether a maximum may have to change, and computes the maximum only if this comparison says so. The comparison is
right unless all scores are negative. Skipped where there is no GPU."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc.bench._check import Reference, causal  # noqa: E402

N = 900


def far_key(value, others, key):
    x = torch.full((N,), float(others))
    x[key] = value
    return x


# The score of each key, which is the same for all queries. A running maximum may stay as it is until a score exceeds it
# by the limit, 8 in units of log2. In units of these scores the limit is about 5.5.
PATTERNS = {
    "all far below zero": torch.full((N,), -200.0),
    "rising below zero": torch.linspace(-400.0, -1.0, N),
    "falling below zero": torch.linspace(-1.0, -400.0, N),
    "rising": torch.linspace(-300.0, 300.0, N),
    "falling": torch.linspace(300.0, -300.0, N),
    "rising by less than may be stale": torch.linspace(0.0, 5.0, N),
    "rising in steps about the limit": torch.floor(torch.linspace(0.0, 8.0, N)) * 5.5,
    "one above all, in front": far_key(40.0, -30.0, 0),
    "one above all, in the middle": far_key(40.0, -30.0, 471),
    "one above all below zero": far_key(-20.0, -300.0, 700),
    "one at the end of its lane": far_key(7.0, -5.0, N - 1),
    "zeros of both signs": torch.where(torch.arange(N) % 2 == 0, 0.0, -0.0),
    "about the first limit": torch.where(torch.arange(N) % 3 == 0, -5.6, -5.5),
}


def inputs(pattern, d, dtype, jitter):
    q, v = torch.zeros(1, 2, N, d, device="cuda"), torch.randn(1, 2, N, d, device="cuda")
    k = torch.randn(1, 2, N, d, device="cuda")
    q[..., 0] = 1.0
    k[..., 0] = pattern.cuda()
    if jitter:  # scores differ between queries, some also in sign
        q[..., 1:] = 0.3 * torch.randn(1, 2, N, d - 1, device="cuda")
        q[:, :, torch.arange(N) % 5 == 3, 0] = -1.0
    return [x.to(dtype) for x in (q, k, v)]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("d, dtype", [(64, torch.bfloat16), (64, torch.float16), (128, torch.bfloat16)],
                         ids=["64-bf16", "64-f16", "128-bf16"])
@pytest.mark.parametrize("jitter", [False, True], ids=["same", "differ"])
@pytest.mark.parametrize("schedule", ["", "tensor-sums=true"])
def test_against_f32(pattern, is_causal, d, dtype, jitter, schedule):
    q, k, v = inputs(PATTERNS[pattern], d, dtype, jitter)
    keep = causal(N, N, "cuda") if is_causal else None
    expected = Reference(q, k, v, keep, scale=1.0)
    for with_lse in (False,) if "sums" in schedule else (False, True):
        result = flashc.attention(q, k, v, scale=1.0, causal=is_causal, return_lse=with_lse,
                                  schedule=schedule or None)
        o, lse = result if with_lse else (result, None)
        assert not expected.compare(o).problem, expected.compare(o)
        if with_lse:
            assert torch.all((lse - expected.lse).abs() <= 1e-3 * (1 + expected.lse.abs()))


@pytest.mark.parametrize("key", [0, 130, N - 1])
@pytest.mark.parametrize("pattern", ["rising", "all far below zero", "falling"])
def test_a_bias_of_the_row_and_the_key(pattern, key):
    """The kernel subtracts the terms of a row from its limit, instead of adding them to the row's scores. Terms are
    infinite where the mask keeps nothing."""
    q, k, v = inputs(PATTERNS[pattern], 64, torch.bfloat16, True)
    slopes = torch.tensor([0.5, -0.7], device="cuda")

    def score(s, b, h, i, j):
        return s + slopes[h] * (j - i)

    axes = [torch.arange(extent, device="cuda") for extent in (1, 2, N, N)]
    grid = [axis.view([-1 if dim == place else 1 for dim in range(4)]) for place, axis in enumerate(axes)]
    keep = (grid[3] <= grid[2] + key).expand(1, 2, N, N)
    expected = Reference(q, k, v, keep, lambda s: score(s, *grid), scale=1.0)
    full = "consumers=2,kv-tile=64,stages=13,q-stages=1,store=registers"  # no room for slopes on tensor cores
    for schedule in ("", full):
        o = flashc.attention(q, k, v, scale=1.0, score=score, mask=lambda b, h, i, j: j <= i + key, schedule=schedule)
        assert not expected.compare(o).problem, (schedule, expected.compare(o))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_nan_and_infinities(pattern):
    q, k, v = inputs(PATTERNS[pattern], 64, torch.bfloat16, False)
    k[:, :, 300, 0] = -float("inf")
    assert torch.isfinite(flashc.attention(q, k, v, scale=1.0)).all()
    k[:, :, 500, 0] = float("nan")
    o = flashc.attention(q, k, v, scale=1.0, causal=True)
    assert torch.isnan(o[:, :, 500:]).all() and torch.isfinite(o[:, :, :500]).all()
