"""The arguments of masks by name: checks when a mask is made, and their values when it is computed."""
from __future__ import annotations

import operator
from typing import Any, Optional, Tuple

from .. import ops
from .._arrays.array import dtype_name, spoken
from .._runtime.library import ArgumentError, UnsupportedTypeError, described
from .declared import Listed, Sorted, describe
from .region import get_trace
from .traced import Traced


def constant(name: str, given: Any, least: int) -> int:
    """Returns an integer of at least `least`, which becomes a constant of the kernel."""
    try:
        x = None if isinstance(given, bool) else operator.index(given)
    except TypeError:
        x = None
    if x is None:
        raise UnsupportedTypeError(f"expected {name} to be an integer, got {described(given)}")
    if x < least:
        raise ArgumentError(f"expected {name} of at least {least}, got {x}")
    return x


def shape_and_type(name: str, x: Any, elements: str) -> Tuple[Tuple[int, ...], str]:
    """Returns the shape of an array and the name of its element type."""
    if isinstance(x, (bool, int, float, str, type)) or x is None:
        raise UnsupportedTypeError(f"expected {name} to be an array of {elements}, got {described(x)}")
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        try:
            return tuple(x.shape), dtype_name(x.dtype)
        except UnsupportedTypeError:
            raise UnsupportedTypeError(f"expected {name} to be an array of {elements}, got elements of "
                                       f"{x.dtype}") from None
    array = describe(name, x)
    return tuple(array.shape), array.dtype


def integers(name: str, x: Any, least: int, most: int) -> Any:
    """Checks that `x` is an array of integers with `least` to `most` dimensions, and returns it."""
    if isinstance(x, (list, tuple)):
        x = Listed(name, x)
    shape, dtype = shape_and_type(name, x.array if isinstance(x, Sorted) else x, "integers")
    if dtype not in ("i8", "u8", "i32", "i64"):
        raise UnsupportedTypeError(f"expected {name} of int8, uint8, int32 or int64, got {spoken(dtype)}")
    if not least <= len(shape) <= most:
        dims = least if least == most else f"{least} to {most}"
        raise ArgumentError(f"expected {name} of {dims} dimensions, got shape {shape}")
    return x


def per_dimension(name: str, x: Any, count: Optional[int]) -> Tuple[int, ...]:
    """Returns a positive integer for each of `count` dimensions (None: 1 to 3). `x`: one for each, or one for all."""
    if isinstance(x, (tuple, list)):
        if not (1 <= len(x) <= 3 if count is None else len(x) == count):
            raise ArgumentError(f"expected {name} of {'1 to 3' if count is None else count} dimensions, got {tuple(x)}")
        return tuple(constant(name, extent, 1) for extent in x)
    return (constant(name, x, 1),) * (count or 1)


def parameter(name: str, x: Any, rank: int = 0) -> Any:
    """Checks that `x` is an integer >= 0, or an array of integers of at most `rank` dimensions, and returns it."""
    return constant(name, x, 0) if isinstance(x, int) else integers(name, x, 0, rank)


def value(x: Any, b: Any, j: Any) -> Any:
    """Returns the value of a parameter in a mask: the number itself, or the element of batch b."""
    if isinstance(x, int):
        return x
    x = ops.array(x) if isinstance(j, Traced) else x
    return x if isinstance(x, Traced) or not x.ndim else x[b]


def at(x: Any, b: Any, place: Any) -> Any:
    """Returns an element of an array [N], or of row b of an array [B, N]."""
    x = ops.array(x) if isinstance(place, Traced) else x.array if isinstance(x, Sorted) else x
    return x[place] if x.ndim == 1 else x[b, place]


def count_le(x: Any, b: Any, place: Any) -> Any:
    """Returns how many elements of a sorted array [N], or of row b of an array [B, N], are at most `place`."""
    x = ops.array(x) if isinstance(place, Traced) else x.array if isinstance(x, Sorted) else x
    return ops.count_le(x if x.ndim == 1 else x[b], place)


def last(x: Any, b: Any, place: Any) -> Any:
    """Returns the last element of a sorted array [N], or of row b of an array [B, N]."""
    if isinstance(place, Traced):
        x = ops.array(x)
        return (x if x.ndim == 1 else x[b]).last()
    x = x.array if isinstance(x, Sorted) else x
    return x[-1] if x.ndim == 1 else x[b, -1]


def named(x: Any) -> str:
    """Returns a parameter as text for a mask's name; "..." for an array, which may be on a GPU."""
    return repr(x) if x is None or isinstance(x, (int, str)) else "..."


def check_align(align: Any) -> Any:
    if isinstance(align, str):
        if align not in ("top-left", "bottom-right"):
            raise ArgumentError(f"expected align to be 'bottom-right', 'top-left' or an integer, got {align!r}")
        return align
    return align if isinstance(align, int) and not isinstance(align, bool) else integers("align", align, 0, 0)


def shifted(i: Any, align: Any) -> Any:
    """Returns the position of query i among the keys."""
    if not isinstance(align, str):
        return i + value(align, None, i)
    if align == "top-left":
        return i
    if not isinstance(i, Traced):
        raise ArgumentError("expected align to be 'top-left' or an integer where flashc does not trace the mask, since "
                            "flashc alone knows the lengths: write align='top-left' where Nq = Nk, and align=Nk - Nq "
                            "for 'bottom-right'")
    shift = get_trace("align").shift()
    return i if isinstance(shift, int) and shift == 0 else i + shift
