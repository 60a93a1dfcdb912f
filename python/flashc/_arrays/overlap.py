"""Checks for shared memory: a result may not overlap itself, another result, or an array that the kernel reads.

Comparing the ranges of bytes is not enough, since o may lie between the elements of a packed array that also contains
q, k and v. The addresses of an array's bytes are base + sum of stride_k * x_k with 0 <= x_k <= last_k, so two arrays
share a byte if a sum of such terms has a given value. A search finds out whether there is such a sum. Usually the
search is not needed, because the ranges from the first to the last byte of the arrays do not meet. If the search takes
too long (see _MOST_SUMS), the arrays count as overlapping.
"""
from __future__ import annotations

import functools
import math
from typing import Dict, List, Optional, Sequence, Set, Tuple

from .array import ITEM_SIZE, Array

# The largest number of sums that are tried. If the search would need more, the arrays count as overlapping. Nested
# strides, such as those of parts of one array, need only a few sums. For other strides the problem is hard in general.
_MOST_SUMS = 10000

Term = Tuple[int, int]  # A positive factor, and the largest number by which it is multiplied.


def find_shared(x: Array, others: Sequence[Array]) -> Optional[int]:
    """Returns the index of the first of `others` that shares memory with `x`, or None."""
    low, high = _range(x)
    for place, other in enumerate(others):
        first, last = _range(other)
        if first < high and low < last and share_memory(x, other):
            return place
    return None


def _range(x: Array) -> Tuple[int, int]:
    """Returns the address of an array's first byte, and the address after its last byte."""
    low, high = _span(x.shape, x.strides, x.dtype)
    return x.address + low, x.address + high


def share_memory(x: Array, y: Array) -> bool:
    """Whether two arrays on one device share a byte. Returns True if there are too many sums to try."""
    if 0 in x.shape or 0 in y.shape:
        return False
    return _meet(y.address - x.address, x.shape, x.strides, x.dtype, y.shape, y.strides, y.dtype)


@functools.lru_cache(maxsize=4096)
def overlaps_itself(shape: Tuple[int, ...], strides: Tuple[int, ...]) -> bool:
    """Whether two elements of an array have the same address. Returns True if there are too many sums to try."""
    steps = sorted((abs(stride), extent - 1) for stride, extent in zip(strides, shape) if extent > 1)
    reach = 0
    for stride, last in steps:
        if stride <= reach or stride == 0:
            break
        reach += stride * last
    else:
        return False
    # Let d_k be the differences between the indices of two elements. The elements have the same address if the sum of
    # stride_k * d_k is 0. The order of the two elements is such that the first d_k other than 0 is positive.
    for number, (stride, last) in enumerate(steps):
        rest = steps[number + 1:]
        # Here this dimension is the first with d_k other than 0: d_k = 1 + x with 0 <= x < last. Later ones have d_k =
        # y_k - most_k with 0 <= y_k <= 2 most_k.
        target = sum(factor * most for factor, most in rest) - stride
        if _has_sum([(stride, last - 1)] + [(factor, 2 * most) for factor, most in rest], target):
            return True
    return False


@functools.lru_cache(maxsize=4096)
def _span(shape: Tuple[int, ...], strides: Tuple[int, ...], dtype: str) -> Tuple[int, int]:
    """Returns the offsets of an array's first byte, and of the byte after its last, from its address."""
    item = ITEM_SIZE[dtype]
    reaches = [stride * (extent - 1) * item for stride, extent in zip(strides, shape)]
    return sum(reach for reach in reaches if reach < 0), sum(reach for reach in reaches if reach > 0) + item


@functools.lru_cache(maxsize=4096)
def _meet(distance: int, x_shape: Tuple[int, ...], x_strides: Tuple[int, ...], x_dtype: str, y_shape: Tuple[int, ...],
          y_strides: Tuple[int, ...], y_dtype: str) -> bool:
    """Whether two arrays share a byte, where y's address is x's plus `distance`. They do if the offset of a byte from
    x's first byte, plus the offset of a byte back from y's last byte, can equal the distance from x's first byte to y's
    last byte."""
    terms = _bytes_of(x_shape, x_strides, x_dtype) + _bytes_of(y_shape, y_strides, y_dtype)
    target = distance + _span(y_shape, y_strides, y_dtype)[1] - 1 - _span(x_shape, x_strides, x_dtype)[0]
    return _has_sum(terms, target)


def _bytes_of(shape: Sequence[int], strides: Sequence[int], dtype: str) -> List[Term]:
    item = ITEM_SIZE[dtype]
    return [(abs(stride) * item, extent - 1) for stride, extent in zip(strides, shape)] + [(1, item - 1)]


def _has_sum(terms: Sequence[Term], target: int) -> bool:
    """Whether sum of factor_k * x_k is `target` for some 0 <= x_k <= most_k. Returns True if there are too many sums to
    try."""
    merged: Dict[int, int] = {}
    for factor, most in terms:
        if factor and most:
            merged[factor] = merged.get(factor, 0) + most
    steps = sorted(merged.items(), reverse=True)
    # reaches[n] is the largest sum of the terms from steps[n] on. divisors[n] is the greatest common divisor of the
    # factors from steps[n] on.
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
