"""The sinks of an attention: an array that every softmax has one column more of."""
from __future__ import annotations

from typing import Any, Optional

from .._arrays.array import Array
from .specialization import sum_dtype
from .vectors import read_vector

__all__ = ["read_sinks"]


def read_sinks(sinks: Any, q: Array, heads: int, stream: Optional[int], is_launched: bool = True) -> Array:
    """The array, after checks against q, which has so many heads. Where nothing is launched, only shapes matter."""
    return read_vector("sinks", sinks, heads, f"[Hq] = [{heads}]", sum_dtype(q.dtype), q, stream, is_launched)
