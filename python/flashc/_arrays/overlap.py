"""Whether arrays share memory: results may not with themselves, with each other, or with what the kernel reads.

Exact for strides of any kind: o may lie between the elements of a packed array that q, k and v are parts of. An array's
bytes are base + sum of stride_k * x_k with 0 <= x_k <= last_k, so two arrays meet where a sum of such terms has a given
value. Bytes that lie apart as a whole, the usual case, are told by their first and last one.
"""
from __future__ import annotations

import functools
import math
from typing import Dict, List, Optional, Sequence, Set, Tuple

from .array import ITEM_SIZE, Array

# Sums that are tried before arrays count as overlapping. Strides that nest, as those of parts of one array do, take a
# few; the question is hard for others.
_MOST_SUMS = 10000

Term = Tuple[int, int]  # A factor above 0, and the most that it is multiplied with.


def find_shared(o: Array, lse: Optional[Array], others: Sequence[Array]) -> Optional[Tuple[int, int]]:
    """Which result, 0 or 1, shares memory with which of `others`; len(others) is o. None if they are apart.

    Every launch with arrays of the caller's asks, so each array's first and last byte are looked up once."""
    low, high = _range(o)
    if lse is not None:
        lse_low, lse_high = _range(lse)
        if low < lse_high and lse_low < high and share_memory(o, lse):
            return 1, len(others)
    for place, other in enumerate(others):
        first, last = _range(other)
        if first < high and low < last and share_memory(o, other):
            return 0, place
        if lse is not None and first < lse_high and lse_low < last and share_memory(lse, other):
            return 1, place
    return None


def _range(x: Array) -> Tuple[int, int]:
    """The address of an array's first byte and the one behind its last."""
    low, high = _span(x.shape, x.strides, x.dtype)
    return x.address + low, x.address + high


def share_memory(x: Array, y: Array) -> bool:
    """Whether a byte is of both arrays, which are on one device; exact."""
    if 0 in x.shape or 0 in y.shape:
        return False
    return _meet(y.address - x.address, x.shape, x.strides, x.dtype, y.shape, y.strides, y.dtype)


@functools.lru_cache(maxsize=4096)
def overlaps_itself(shape: Tuple[int, ...], strides: Tuple[int, ...]) -> bool:
    """Whether two elements of an array are one."""
    steps = sorted((abs(stride), extent - 1) for stride, extent in zip(strides, shape) if extent > 1)
    reach = 0
    for stride, last in steps:
        if stride <= reach or stride == 0:
            break
        reach += stride * last
    else:
        return False
    # Elements apart by d are one if sum of stride_k * d_k is 0. The first d_k that is not may be taken as above 0.
    for number, (stride, last) in enumerate(steps):
        rest = steps[number + 1:]
        # stride * (1 + x) + sum of factor_k * (y_k - most_k) = 0, with 0 <= x < last and 0 <= y_k <= 2 most_k.
        target = sum(factor * most for factor, most in rest) - stride
        if _has_sum([(stride, last - 1)] + [(factor, 2 * most) for factor, most in rest], target):
            return True
    return False


@functools.lru_cache(maxsize=4096)
def _span(shape: Tuple[int, ...], strides: Tuple[int, ...], dtype: str) -> Tuple[int, int]:
    """The first byte of an array and the one behind its last, from its address."""
    item = ITEM_SIZE[dtype]
    reaches = [stride * (extent - 1) * item for stride, extent in zip(strides, shape)]
    return sum(reach for reach in reaches if reach < 0), sum(reach for reach in reaches if reach > 0) + item


@functools.lru_cache(maxsize=4096)
def _meet(distance: int, x_shape: Tuple[int, ...], x_strides: Tuple[int, ...], x_dtype: str, y_shape: Tuple[int, ...],
          y_strides: Tuple[int, ...], y_dtype: str) -> bool:
    """Whether arrays whose addresses are `distance` bytes apart share a byte: a byte of x, counted from its first one,
    and one of y, counted back from its last one, that are as far apart as those two."""
    terms = _bytes_of(x_shape, x_strides, x_dtype) + _bytes_of(y_shape, y_strides, y_dtype)
    target = distance + _span(y_shape, y_strides, y_dtype)[1] - 1 - _span(x_shape, x_strides, x_dtype)[0]
    return _has_sum(terms, target)


def _bytes_of(shape: Sequence[int], strides: Sequence[int], dtype: str) -> List[Term]:
    item = ITEM_SIZE[dtype]
    return [(abs(stride) * item, extent - 1) for stride, extent in zip(strides, shape)] + [(1, item - 1)]


def _has_sum(terms: Sequence[Term], target: int) -> bool:
    """Whether sum of factor_k * x_k is `target` for some 0 <= x_k <= most_k; True after too many attempts."""
    merged: Dict[int, int] = {}
    for factor, most in terms:
        if factor and most:
            merged[factor] = merged.get(factor, 0) + most
    steps = sorted(merged.items(), reverse=True)
    # What the terms from each one on can reach, and what divides all that they make.
    reaches, divisors = [0], [0]
    for factor, most in reversed(steps):
        reaches.append(reaches[-1] + factor * most)
        divisors.append(math.gcd(divisors[-1], factor))
    reaches.reverse()
    divisors.reverse()
    seen: Set[Tuple[int, int]] = set()
    open_sums = [(0, target)]
    while open_sums:
        number, rest = open_sums.pop()
        if rest < 0 or rest > reaches[number] or (number, rest) in seen:
            continue
        if rest == 0:
            return True
        if rest % divisors[number]:
            continue
        seen.add((number, rest))
        factor, most = steps[number]
        first, last = max(0, -((reaches[number + 1] - rest) // factor)), min(most, rest // factor)
        if len(seen) + last - first > _MOST_SUMS:
            return True
        open_sums += [(number + 1, rest - factor * times) for times in range(first, last + 1)]
    return False
