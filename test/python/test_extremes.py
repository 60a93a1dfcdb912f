"""Scores with numbers at the limits of f32 on the CPU, by the loops of FlashAttention, against f64.
test/python/gpu/test_extremes.py does the same on a GPU."""
import numpy as np
import pytest

import flashc
from extremes import MASKS, NUMBERS, PROGRAMS, assert_same, make_programs, reference, small_numbers
from scores import by_head, in_groups

B, D = 1, 16
LENGTHS = [(65, 67), (13, 131), (70, 31)]


#: Each case is a program with five of the numbers, whose scores share a kernel, head by head. Five is odd, so that each
#: score is in even and odd heads.
CASES = [(program, numbers) for program in PROGRAMS for numbers in in_groups(NUMBERS, 5)]


@pytest.mark.parametrize("case", range(len(CASES)), ids=[f"{program}, {numbers}" for program, numbers in CASES])
def test_cpu(case):
    program, numbers = CASES[case]
    hq, hk = 2 * len(numbers), len(numbers)
    nq, nk = LENGTHS[case % len(LENGTHS)]
    mask = list(MASKS.values())[case % len(MASKS)]
    rng = np.random.default_rng(case)
    q, k, v = small_numbers(rng, B, hq, nq, D), small_numbers(rng, B, hk, nk, D), small_numbers(rng, B, hk, nk, D)
    score = by_head([make_programs(np, np.array, NUMBERS[number], B, hq, nq, nk)[program] for number in numbers])
    o, lse = flashc.attention(q, k, v, scale=0.25, enable_gqa=True, return_lse=True, score=score, mask=mask)
    # Indices of 16 bits, so that NumPy's sums of an f32 and an index are f32.
    grid = np.ogrid[tuple(slice(extent) for extent in (B, hq, nq, nk))]
    grid = [axis.astype(np.int16) for axis in grid]
    with np.errstate(over="ignore", invalid="ignore"):
        s = (q @ np.repeat(k, 2, 1).swapaxes(-1, -2) * np.float32(0.25)).astype(np.float32)
        s = np.broadcast_to(np.asarray(score(s, *grid), np.float32), s.shape)
    if mask is not None:
        s = np.where(mask(*grid), s, np.float32(-np.inf))
    assert_same((o, lse), reference(s, v), 1e-4, CASES[case])
