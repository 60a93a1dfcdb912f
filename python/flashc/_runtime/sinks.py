"""The sinks of an attention: an array that every softmax has one column more of."""
from __future__ import annotations

from typing import Any, Optional

from .._arrays.array import Array
from .._arrays.source import source_of
from .._trace.captured import Bound
from .._trace.trace import Code, device_name
from .launch import wait_for
from .library import ArgumentError, UnsupportedTypeError
from .specialization import sum_dtype

__all__ = ["read_sinks", "with_sinks"]


def read_sinks(sinks: Any, q: Array, heads: int, stream: Optional[int], is_launched: bool = True) -> Array:
    """The array, after checks against q, which has so many heads. Where nothing is launched, only shapes matter."""
    array = source_of(sinks).describe(sinks, stream)
    dtype = sum_dtype(q.dtype)
    if tuple(array.shape) != (heads,):
        raise ArgumentError(f"expected sinks of shape [Hq] = [{heads}], got {tuple(array.shape)}")
    if array.dtype != dtype:
        raise UnsupportedTypeError(f"expected sinks of {dtype}, got {array.dtype}")
    if is_launched and array.device != q.device:
        raise ArgumentError(f"expected sinks on {device_name(q.device)}, where q is, got one on "
                            f"{device_name(array.device)}")
    if heads > 1 and array.strides[0] != 1:
        raise ArgumentError(f"expected contiguous sinks (stride 1), got stride {array.strides[0]}; make a copy")
    if is_launched and heads and not array.address:
        raise ArgumentError("expected sinks with elements in memory, got an address of 0")
    wait_for(array, stream)
    return array


def with_sinks(code: Code, sinks: Array) -> Code:
    """What a launch passes: the sinks are in front of the captures."""
    bound = Bound(sinks.address, tuple(sinks.shape), (1,), 0)
    return code._replace(bound=(bound, *code.bound), arrays=(sinks, *code.arrays))
