"""Arrays of one dimension that a call passes beside q, k and v: sinks, and what dropout goes by."""
from __future__ import annotations

from typing import Any, Optional

from .._arrays.array import Array, spoken
from .._arrays.source import source_of
from .._trace.captured import Bound
from .._trace.trace import Code, device_name
from .launch import wait_for
from .library import ArgumentError, UnsupportedTypeError

__all__ = ["as_floats", "as_type_of", "check_vector", "read_vector", "with_vector"]


def check_vector(name: str, array: Array, length: int, shape: str, dtype: str, q: Array,
                 is_launched: bool = True) -> None:
    """Refuses what is no contiguous array of so many elements on q's device. `shape`: as messages call it. Where nothing
    is launched, only shapes matter."""
    if tuple(array.shape) != (length,):
        raise ArgumentError(f"expected {name} of shape {shape}, got {tuple(array.shape)}")
    if array.dtype != dtype:
        raise UnsupportedTypeError(f"expected {name} of {spoken(dtype)}, got {spoken(array.dtype)}")
    if is_launched and array.device != q.device:
        raise ArgumentError(f"expected {name} on {device_name(q.device)}, where q is, got one on "
                            f"{device_name(array.device)}")
    if length > 1 and array.strides[0] != 1:
        raise ArgumentError(f"expected contiguous {name} (stride 1), got stride {array.strides[0]}; make a copy")
    if is_launched and length and not array.address:
        raise ArgumentError(f"expected {name} with elements in memory, got an address of 0")


def read_vector(name: str, x: Any, length: int, shape: str, dtype: str, q: Array, stream: Optional[int],
                is_launched: bool = True) -> Array:
    """The array, after checks, and after a wait for what writes it."""
    array = source_of(x).describe(x, stream)
    check_vector(name, array, length, shape, dtype, q, is_launched)
    wait_for(array, stream)
    return array


_FLOATS = {"f32": "float32", "f64": "float64"}


def as_floats(x: Any, array: Array, dtype: str) -> Any:
    """`x`, which `array` describes, with elements of f32 or f64, if it has other floats."""
    if array.dtype == dtype or array.dtype not in ("bf16", "f16", "f32", "f64"):
        return x
    if hasattr(x, "to") and hasattr(x, "double"):
        return x.double() if dtype == "f64" else x.float()
    return x.astype(_FLOATS[dtype]) if hasattr(x, "astype") else x


def as_type_of(x: Any, like: Any) -> Any:
    """`x` with elements of the type of `like`, an array of one framework."""
    if x.dtype == like.dtype:
        return x
    return x.to(like.dtype) if hasattr(x, "to") else x.astype(like.dtype)


def with_vector(code: Code, array: Array) -> Code:
    """What a launch passes: the array is in front of the captures, and of those that were there before."""
    bound = Bound(array.address, tuple(array.shape), (1,), 0)
    return code._replace(bound=(bound, *code.bound), arrays=(array, *code.arrays))
