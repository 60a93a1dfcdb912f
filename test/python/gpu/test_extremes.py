"""Scores at the ends of f32 on a GPU, against f64. Skipped where there is no GPU."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
import flashc.torch  # noqa: E402
from extremes import (CASES, LOWEST, LOWEST_BF16, MASKS, NUMBERS, assert_same, make_programs, reference,  # noqa: E402
                      small_numbers)
from .tensors import positions  # noqa: E402

B, HQ, HK = 2, 4, 2
LENGTHS = [(65, 257), (200, 331), (331, 130), (1, 300), (523, 523)]
TOLERANCE = 2e-2  # weights are rounded to 8 bits


def to_gpu(x):
    return torch.from_numpy(np.array(x)).cuda()


def check(what, rng, d, dtype, nq, nk, score, mask, scale=0.125, schedule=None):
    """Compares flashc with f64. Tensor cores sum up rows only in kernels without the log-sum-exp, so with `tensor-sums`
    the call returns no log-sum-exp."""
    q, k, v = (to_gpu(small_numbers(rng, B, heads, n, d)) for heads, n in ((HQ, nq), (HK, nk), (HK, nk)))
    has_lse = schedule != "tensor-sums=true"
    result = flashc.attention(*(x.to(dtype) for x in (q, k, v)), scale=scale, enable_gqa=True, return_lse=has_lse,
                              score=score, mask=mask, schedule=schedule)
    grid = positions(B, HQ, nq, nk)
    s = (q.double() @ k.double().repeat_interleave(HQ // HK, 1).mT).float() * scale  # exact: whole numbers
    s = score(s, *grid).expand(s.shape).float()
    if mask is not None:
        s = torch.where(mask(*grid), s, -torch.inf)
    want = reference(s.cpu().numpy(), v.cpu().numpy())
    o, lse = result if has_lse else (result, torch.from_numpy(want[1]))
    assert_same((o.float().cpu(), lse.cpu()), want, TOLERANCE, what)


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("case", range(len(CASES)), ids=[f"{program}, {number}" for program, number in CASES])
def test_score(case, d):
    program, number = CASES[case]
    rng = np.random.default_rng(case)
    for turn in range(2):
        mask = list(MASKS.values())[(case + turn) % len(MASKS)]
        nq, nk = LENGTHS[(case + turn) % len(LENGTHS)]
        score = make_programs(torch, to_gpu, NUMBERS[number], B, HQ, nq, nk)[program]
        dtype = (torch.bfloat16, torch.float16)[(case + turn + d // 128) % 2]
        check((program, number, nq, nk, dtype), rng, d, dtype, nq, nk, score, mask)


SCHEDULES = ["stages=2", "full", "own-keys=true", "tensor-sums=true"]
#: Schedules that leave no shared memory for slopes, so that the tensor cores cannot add them.
FULL = {d: f"consumers=2,kv-tile=64,stages={stages},q-stages=1,store=registers" for d, stages in ((64, 13), (128, 6))}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("program", ["slope", "small slope"])
def test_schedule(program, schedule, number):
    rng = np.random.default_rng(len(number))
    for d, dtype in ((64, torch.bfloat16), (128, torch.float16)):
        for nq, nk in ((300, 300), (65, 700)):
            score = make_programs(torch, to_gpu, NUMBERS[number], B, HQ, nq, nk)[program]
            check((program, schedule, number, d, nq, nk), rng, d, dtype, nq, nk, score, MASKS["causal"],
                  schedule=FULL[d] if schedule == "full" else schedule)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1024.0])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("magnitude", [2.0**10, 2.0**20, 2.0**30, 2.0**50, 2.0**62])
def test_large_products(magnitude, is_causal, scale):
    """q and k themselves are large: products reach the end of f32 and exceed it, without a score region."""
    rng = np.random.default_rng(7)
    for d, sign in ((64, 1), (128, -1)):
        q, k, v = (to_gpu(small_numbers(rng, 1, 2, n, d)) for n in (140, 333, 333))
        q[..., 1:] = 0  # leaves one product, of powers of two, which is exact
        q[..., 0] = magnitude
        k[..., 0] = sign * magnitude * 2.0 ** to_gpu(rng.integers(-3, 2, (1, 2, 333)))
        s = (q @ k.mT) * np.float32(scale)
        if is_causal:
            s = torch.where(torch.ones_like(s).tril(193).bool(), s, -torch.inf)
        o, lse = flashc.attention(*(x.to(torch.bfloat16) for x in (q, k, v)), scale=scale, causal=is_causal,
                                  return_lse=True)
        assert_same((o.float().cpu(), lse.cpu()), reference(s.cpu().numpy(), v.cpu().numpy()), TOLERANCE, (d, sign))


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf, LOWEST_BF16])
@pytest.mark.parametrize("where", ["key", "query", "value of q and of k"])
def test_inputs(where, value):
    """One key, one query or both contain a number that is not finite, or nearly infinite."""
    rng = np.random.default_rng(3)
    q, k, v = (to_gpu(small_numbers(rng, 1, 2, n, 64)).abs() + 1 for n in (140, 333, 333))
    if where != "query":
        k[:, :, 200, 5] = value
    if where != "key":
        q[:, :, 77, 5] = value
    s = (q.double() @ k.double().mT).float() * 0.125
    got = flashc.attention(*(x.to(torch.bfloat16) for x in (q, k, v)), scale=0.125, return_lse=True)
    assert_same([x.float().cpu() for x in got], reference(s.cpu().numpy(), v.cpu().numpy()), TOLERANCE, where)


@pytest.mark.parametrize("lowest", [LOWEST, LOWEST_BF16], ids=["f32", "bf16"])
@pytest.mark.parametrize("d", [64, 128])
def test_additive_masks(d, lowest):
    """Additive masks as Hugging Face makes them: causal, with left padding. Rows of padding attend to all keys alike,
    as in PyTorch."""
    n = 300
    q, k, v = (torch.randn(2, 2, n, d, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    for dtype in (torch.bfloat16, torch.float32):
        bias = torch.zeros(2, 1, n, n, device="cuda", dtype=dtype)
        number = max(lowest, torch.finfo(dtype).min)
        bias[..., :10] = number
        bias.masked_fill_(torch.ones(n, n, device="cuda", dtype=torch.bool).triu(1), number)
        ours = flashc.torch.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        theirs = torch.softmax(q.float() @ k.float().mT * d**-0.5 + bias.float(), -1) @ v.float()
        error = (ours.float() - theirs).abs() / (1 + theirs.abs())
        assert error.max() <= TOLERANCE, (dtype, error.max(), (error == error.max()).nonzero())
