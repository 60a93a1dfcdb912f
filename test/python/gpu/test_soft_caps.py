"""Soft caps on a GPU. Their tanh is a polynomial if all scores that a warp has in a tile are small, and an instruction
otherwise. Tests check single values, and attention against f32, with small and large scores side by side, NaN and
infinities. Skipped where there is no GPU."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc import ops  # noqa: E402
from flashc.bench._check import Reference  # noqa: E402
from .tensors import positions  # noqa: E402

LENGTHS = [(1, 257), (63, 65), (257, 331), (700, 900)]
MASKS = {"none": None, "causal": lambda b, h, i, j: j <= i, "window": lambda b, h, i, j: (j <= i) & (i - j < 150)}
TYPES = pytest.mark.parametrize("d, dtype", [(64, torch.bfloat16), (64, torch.float16), (128, torch.bfloat16),
                                             (128, torch.float16), (256, torch.bfloat16)],
                                ids=["64-bf16", "64-f16", "128-bf16", "128-f16", "256-bf16"])


@pytest.fixture(autouse=True)
def seed():
    print("seed", torch.seed())


def soft_cap(cap, tanh):
    return lambda s, b, h, i, j: cap * tanh(s / cap)


@pytest.mark.parametrize("cap", [1.0, 20.0, 50.0])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("mixed", [False, True], ids=["sorted", "mixed"])
def test_values(cap, dtype, mixed):
    """With one key, the log-sum-exp of a row is its score. If rows are sorted (not `mixed`), the warps in the middle
    have only small scores."""
    n = 4096
    x = torch.linspace(-2 * cap, 2 * cap, n, device="cuda").to(dtype)
    if mixed:
        x = x[torch.randperm(n, device="cuda")]
    q, k = torch.zeros(1, 1, n, 64, device="cuda", dtype=dtype), torch.zeros(1, 1, 1, 64, device="cuda", dtype=dtype)
    q[0, 0, :, 0], k[..., 0] = x, 1.0
    _, lse = flashc.attention(q, k, k, scale=1.0, return_lse=True, score=soft_cap(cap, ops.tanh))
    exact = cap * torch.tanh(x.double() / cap)
    error = (lse[0, 0].double() - exact).abs() / exact.abs().clamp(min=1e-30)
    assert error[exact != 0].max() <= 2.0**-10, error.max()
    if not mixed:
        small = x.double().abs() <= cap * 0.7
        assert error[small & (exact != 0)].max() <= 2.0**-11.9, error[small].max()


def make_inputs(nq, nk, d, dtype):
    """Some blocks of keys and some queries have large scores, so that tiles of a warp have small scores, large ones, or
    both."""
    q, k, v = (torch.randn(2, heads, n, d, device="cuda") for heads, n in ((4, nq), (2, nk), (2, nk)))
    k[:, :, torch.arange(nk, device="cuda") // 50 % 3 == 1] *= 12
    q[:, :, torch.arange(nq, device="cuda") % 40 == 7] *= 10
    q[:, :, :2] *= 0.1
    return [x.to(dtype) for x in (q, k, v)]


def tanh_error(q, k, v, keep, score):
    """Returns a bound on the error of o if every score has a relative error of 2^-11, as from tanh.approx. If e_j is
    the error of the score of key j, the error of the weight p_j is at most p_j (e_j + sum of p e)."""
    q, k, v = (x.float() for x in (q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)))
    s = score((q @ k.transpose(2, 3)) * q.shape[3] ** -0.5)
    p = torch.softmax(s if keep is None else s.masked_fill(~keep, -torch.inf), dim=3).nan_to_num(0.0)
    errors = 2.0**-11 * s.abs()
    return (p * (errors + (p * errors).sum(3, keepdim=True))) @ v.abs()


def check(inputs, mask, in_kernel, in_torch, schedule=""):
    """Compares the outputs, with and without the log-sum-exp, with the reference."""
    q, k, v = inputs
    grid = positions(2, 4, q.shape[2], k.shape[2])
    keep = None if mask is None else mask(*grid)

    def score(s):
        return in_torch(s, *grid).expand(s.shape)

    expected = Reference(q, k, v, keep, score)
    bound = expected.bound + 1.1 * tanh_error(q, k, v, keep, score)
    dead = expected.lse == -torch.inf
    for o, lse in run(inputs, mask, in_kernel, schedule):
        excess = ((o.float() - expected.o).abs() - bound).max()
        assert excess <= 0, (excess, expected.bound, lse is None)
        if lse is not None:
            assert torch.equal(dead, lse == -torch.inf)
            assert torch.all((lse - expected.lse)[~dead].abs() <= 1e-3 * (1 + expected.lse[~dead].abs()))


def run(inputs, mask, score, schedule=""):
    """Runs without the log-sum-exp, and then with it, in another kernel. A kernel without a maximum has no
    log-sum-exp."""
    keywords = {} if mask is None else {"mask": mask}
    for with_lse in (False,) if "unified" in schedule else (False, True):
        result = flashc.attention(*inputs, enable_gqa=True, return_lse=with_lse, score=score, schedule=schedule,
                                  **keywords)
        yield result if with_lse else (result, None)


@TYPES
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("cap", [5.0, 30.0])
def test_small_and_large_scores(d, dtype, mask, cap):
    for nq, nk in LENGTHS:
        check(make_inputs(nq, nk, d, dtype), MASKS[mask], soft_cap(cap, ops.tanh), soft_cap(cap, torch.tanh))


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("schedule", ["wait-after=8", "wait-after=0",
                                      "consumers=2,kv-tile=128,stages=2,q-stages=2"])
def test_without_a_maximum(d, mask, schedule):
    for cap in (5.0, 30.0):
        check(make_inputs(257, 331, d, torch.bfloat16), MASKS[mask], soft_cap(cap, ops.tanh), soft_cap(cap, torch.tanh),
              f"max=unified,{schedule}")


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("wait_after", [0, 8])
@pytest.mark.parametrize("key", [0, 5, 131, 199])
def test_nan_takes_its_rows_along_without_a_maximum(d, wait_after, key):
    q, k, v = make_inputs(200, 200, d, torch.bfloat16)
    k[:, :, key, 3] = float("nan")
    schedule = f"max=unified,wait-after={wait_after}"
    (o, _), = run((q, k, v), MASKS["causal"], soft_cap(30.0, ops.tanh), schedule)
    assert torch.isnan(o[:, :, key:]).all() and torch.isfinite(o[:, :, :key]).all()


@TYPES
def test_infinite_scores_are_at_the_cap(d, dtype):
    q, k, v = make_inputs(300, 500, d, dtype)
    q[..., 3] = torch.where(q[..., 3] == 0, 1.0, q[..., 3])
    k[:, :, 77, 3] = float("inf")
    k[:, :, 210, 3] = -float("inf")
    check((q, k, v), MASKS["causal"], soft_cap(30.0, ops.tanh), soft_cap(30.0, torch.tanh))


@TYPES
@pytest.mark.parametrize("key", [0, 5, 131, 199])
def test_nan_takes_its_rows_along(d, dtype, key):
    """Rows that see the NaN key are NaN, and no others."""
    q, k, v = make_inputs(200, 200, d, dtype)
    k[:, :, key, 3] = float("nan")
    for outputs in run((q, k, v), MASKS["causal"], soft_cap(30.0, ops.tanh)):
        for out in outputs:
            if out is not None:
                assert torch.isnan(out[:, :, key:]).all() and torch.isfinite(out[:, :, :key]).all()


@pytest.mark.parametrize("d", [64, 128])
def test_arguments_that_are_not_a_multiple_of_the_score(d):
    temperatures = torch.linspace(0.5, 2.0, 4, device="cuda")

    def score(tanh):
        return lambda s, b, h, i, j: 10.0 * tanh((s * temperatures[h] - 0.002 * (i - j)) / 10.0)

    check(make_inputs(300, 400, d, torch.bfloat16), None, score(ops.tanh), score(torch.tanh))
