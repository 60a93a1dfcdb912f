"""The arguments of masks by name: what is checked when a mask is made, and what they are where one is computed."""
from __future__ import annotations

import operator
from typing import Any

from .. import ops
from .._arrays.array import dtype_name
from .._runtime.library import ArgumentError, UnsupportedTypeError
from .declared import Sorted, describe
from .traced import Traced


def constant(name: str, x: Any, least: int) -> int:
    """An integer that the kernel is specialised on."""
    if isinstance(x, bool) or not hasattr(x, "__index__"):
        raise UnsupportedTypeError(f"expected {name} to be an integer, got {x!r}")
    x = operator.index(x)
    if x < least:
        raise ArgumentError(f"expected {name} of at least {least}, got {x}")
    return x


def integers(name: str, x: Any, least: int, most: int) -> Any:
    """`x`, an array of integers with `least` to `most` dimensions."""
    array = x.array if isinstance(x, Sorted) else x
    if hasattr(array, "dtype") and hasattr(array, "shape"):
        shape, dtype = tuple(array.shape), dtype_name(array.dtype)
    elif isinstance(array, (bool, int, float, str)) or array is None:
        raise UnsupportedTypeError(f"expected {name} to be an array of integers, got {array!r}")
    else:
        shape, dtype = tuple(describe(array).shape), describe(array).dtype
    if dtype not in ("i8", "u8", "i32", "i64"):
        raise UnsupportedTypeError(f"expected {name} of int8, uint8, int32 or int64, got {dtype}")
    if not least <= len(shape) <= most:
        dims = least if least == most else f"{least} to {most}"
        raise ArgumentError(f"expected {name} of {dims} dimensions, got shape {shape}")
    return x


def parameter(name: str, x: Any, rank: int = 0) -> Any:
    """`x`, an integer that is not negative, or an array of integers of at most `rank` dimensions."""
    return constant(name, x, 0) if isinstance(x, int) else integers(name, x, 0, rank)


def value(x: Any, b: Any, j: Any) -> Any:
    """A parameter where a mask is computed: a number, or that of the batch."""
    if isinstance(x, int):
        return x
    x = ops.array(x) if isinstance(j, Traced) else x
    return x if isinstance(x, Traced) or not x.ndim else x[b]


def at(x: Any, b: Any, place: Any) -> Any:
    """An element of an array [N], or of the batch's line of [B, N]."""
    x = ops.array(x) if isinstance(place, Traced) else x.array if isinstance(x, Sorted) else x
    return x[place] if x.ndim == 1 else x[b, place]


def count_le(x: Any, b: Any, place: Any) -> Any:
    """How many elements of a sorted array [N], or of the batch's line of [B, N], are at most `place`."""
    x = ops.array(x) if isinstance(place, Traced) else x.array if isinstance(x, Sorted) else x
    return ops.count_le(x if x.ndim == 1 else x[b], place)


def named(x: Any) -> str:
    """A parameter in the text of a mask: what is in an array takes a copy from the GPU."""
    return repr(x) if x is None or isinstance(x, (int, str)) else "..."


def check_align(align: Any) -> Any:
    if isinstance(align, str):
        if align not in ("top-left", "bottom-right"):
            raise ArgumentError(f"expected align to be 'top-left', 'bottom-right' or an integer, got {align!r}")
        return align
    return align if isinstance(align, int) and not isinstance(align, bool) else integers("align", align, 0, 0)


def shifted(i: Any, align: Any) -> Any:
    """The position of a query."""
    if not isinstance(align, str):
        return i + value(align, None, i)
    if not isinstance(i, Traced):
        raise ArgumentError("expected align to be an integer where a mask is not traced by flashc, which alone knows "
                            "the lengths: pass Nk - Nq for 'bottom-right'")
    return i + (ops.key_length() - ops.query_length())
