"""The sinks of an attention: an array that every softmax has one column more of."""
from __future__ import annotations

from typing import Any, Optional

from .._arrays.array import Array
from .._arrays.source import source_of
from .specialization import sum_dtype
from .vectors import as_floats, read_vector

__all__ = ["read_sinks"]


def read_sinks(sinks: Any, q: Array, heads: int, stream: Optional[int], is_launched: bool = True) -> Array:
    """The array, after checks against q, which has so many heads; a copy of other floats than the log-sum-exp's. Where
    nothing is launched, only shapes matter."""
    dtype = sum_dtype(q.dtype)
    sinks = as_floats(sinks, source_of(sinks).describe(sinks, stream), dtype)
    return read_vector("sinks", sinks, heads, f"[Hq] = [{heads}]", dtype, q, stream, is_launched)
