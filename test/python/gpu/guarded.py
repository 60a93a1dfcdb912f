"""Arrays on the GPU that are followed by NaN in memory, and checks of attention on them, for several test files."""

import pytest
import torch

import flashc
import flashc.torch
from flashc.bench import _check

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


@pytest.fixture(autouse=True)
def fresh_numbers():
    torch.set_float32_matmul_precision("highest")
    yield
    torch.cuda.synchronize()


def guarded(shape, dtype, swapped=False):
    """Returns an array of NaN, and the NaN after it in the same buffer. With `swapped`, the array is [b, n, h, d] in
    memory."""
    count = 1
    for extent in shape:
        count *= extent
    buffer = torch.full((count + 4096,), float("nan"), device="cuda", dtype=dtype)
    if swapped:
        b, h, n, d = shape
        return buffer[:count].view(b, n, h, d).transpose(1, 2), buffer[count:]
    return buffer[:count].view(shape), buffer[count:]


def random(*shape, dtype=BF16, swapped=False):
    """Returns an array of normal(0, 1) that is followed by NaN in memory."""
    array, _ = guarded(shape, dtype, swapped)
    return array.copy_(torch.randn(shape, device="cuda"))


def qkv(b, hq, hk, nq, nk, d, dv=None, dtype=BF16, swapped=False):
    return (random(b, hq, nq, d, dtype=dtype, swapped=swapped), random(b, hk, nk, d, dtype=dtype, swapped=swapped),
            random(b, hk, nk, d if dv is None else dv, dtype=dtype, swapped=swapped))


def assert_right(out, q, k, v, lse=None, **how):
    problem = _check.Reference(q, k, v, **how).compare(out, lse).problem
    assert not problem, problem


def positions(nq, nk):
    return torch.arange(nq, device="cuda")[:, None], torch.arange(nk, device="cuda")[None, :]


def bottom_right(nq, nk):
    return _check.causal(nq, nk, "cuda")


def top_left(nq, nk):
    i, j = positions(nq, nk)
    return j <= i


def sdpa(*arguments, **keywords):
    return flashc.torch.scaled_dot_product_attention(*arguments, **keywords)
