"""flashc.dropout_mask: the probabilities that attention with dropout keeps, as an array."""
from __future__ import annotations

import operator
from typing import Any, Sequence, Tuple

from ._runtime.library import ArgumentError, UnsupportedTypeError
from ._runtime.options import parse_dropout
from ._runtime.public import public

_MULTIPLIERS, _INCREMENTS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


def _philox(counter: Sequence[Any], key: Tuple[int, int]) -> Sequence[Any]:
    """Computes Philox4x32-10 (Salmon et al. 2011). Returns four words, in arrays of uint64."""
    x0, x1, x2, x3 = counter
    k0, k1 = key
    for _ in range(10):
        first, second = x0 * _MULTIPLIERS[0], x2 * _MULTIPLIERS[1]
        x0, x1 = (second >> 32) ^ x1 ^ k0, second & _LOW
        x2, x3 = (first >> 32) ^ x3 ^ k1, first & _LOW
        k0, k1 = (k0 + _INCREMENTS[0]) & _LOW, (k1 + _INCREMENTS[1]) & _LOW
    return x0, x1, x2, x3


@public
def dropout_mask(shape: Sequence[int], dropout_p: float, philox: Sequence[int]) -> Any:
    """The probabilities that attention with dropout keeps, for tests. Needs NumPy.

    The mask is a function of (seed, offset, b, h, i, j): masks of different shapes are equal where both have an element
    (docs/dropout.md).

    Args:
        shape: (B, Hq, Nq, Nk).
        dropout_p: the rate; masks have the nearest multiple of 1/256.
        philox: (seed, offset), integers of 64 bits, or an array of them on the host.

    Returns:
        [B, Hq, Nq, Nk], a NumPy array of bool: true where a probability is kept (and multiplied with 1 / (1 - rate)).

    Raises:
        flashc.ArgumentError: the rate, the shape or the seed is invalid.
    """
    import numpy as np
    try:
        batch, heads, queries, keys = (operator.index(extent) for extent in shape)
    except (TypeError, ValueError):
        raise ArgumentError(f"expected a shape (B, Hq, Nq, Nk), got {shape!r}") from None
    if min(batch, heads, queries, keys) < 0:
        raise ArgumentError(f"expected a shape (B, Hq, Nq, Nk), got {shape!r}")
    rate = parse_dropout(dropout_p)
    try:
        seed, offset = (operator.index(number) & (2**64 - 1) for number in philox)
    except (TypeError, ValueError):
        raise UnsupportedTypeError(
            f"expected philox to be two integers, a seed and an offset, got {philox!r}") from None
    i, j = (positions.astype(np.uint64) for positions in np.ogrid[:queries, :keys])
    of_keys, of_queries = j // 32 * 4 + j % 8 // 2, i // 16 * 8 + i % 8
    word, byte = j % 32 // 8, i % 16 // 8 * 2 + j % 2
    key = seed & _LOW, (seed >> 32) ^ (offset >> 32)
    result = np.empty((batch, heads, queries, keys), bool)
    for b in range(batch):
        for h in range(heads):
            counter = [np.broadcast_to(x, (queries, keys)).copy()
                       for x in (of_keys, of_queries, np.uint64((b << 16) + h & _LOW), np.uint64(offset & _LOW))]
            bits = np.choose(word.astype(np.intp) + np.zeros((queries, keys), np.intp), _philox(counter, key))
            result[b, h] = (bits >> byte * 8 & 255) >= int(rate * 256)
    return result
