"""Conversion of lengths, tables and offsets for kernels: lists become arrays on q's device, and integers have 32
bits."""
from __future__ import annotations

import sys
from typing import Any

from .._runtime.library import ArgumentError, UnsupportedTypeError, described
from .array import CPU, Array
from .source import described_array, source_of

_OTHERS = "i64", "i16", "i8", "u8"


def is_list(x: Any) -> bool:
    return isinstance(x, (list, tuple))


def array_of(name: str, x: Any, like: Any) -> Any:
    """Converts a list of integers, or a list of equally long lists, to an array of int32. The array has the framework
    and the device of `like`. Returns anything else unchanged."""
    if not is_list(x):
        return x
    check_list(name, x)
    try:
        source = source_of(like)
    except UnsupportedTypeError:
        return x  # The call names `like`, which is no array.
    return source.integers(like, x)


def table_of(name: str, rows: Any, block_table: Any, like: Any) -> Any:
    """Returns a block table with one page per sequence: sequence b is row rows[b] of the caches."""
    if block_table is not None:
        raise ArgumentError(f"expected {name} without a block_table, got both")
    rows = array_of(name, rows, like)
    shape = getattr(rows, "shape", None)
    if not isinstance(shape, tuple):
        raise UnsupportedTypeError(f"expected {name} to be an array or a list of integers, got {described(rows)}")
    if len(shape) != 1:
        raise ArgumentError(f"expected {name} of shape [B], got {tuple(shape)}")
    return rows[:, None]


def check_elements(name: str, x: Any, end: int = 2**31) -> None:
    """On the CPU, refuses an array [B] with an element that is negative, or `end` or more."""
    array = described_array(name, x)
    if array.device != CPU or not array.address or len(array.shape) != 1:
        return
    for sequence, number in enumerate(map(int, x)):
        if not 0 <= number < end:
            most = "at least 0" if end == 2**31 else f"0 to {end - 1}"
            raise ArgumentError(f"expected {name} of {most}, got {number} for sequence {sequence}")


def integers_on(device: int, values: Any) -> Any:
    """Makes an array of int32 on a device, with an imported framework that supports the device."""
    torch, numpy, cupy = (sys.modules.get(name) for name in ("torch", "numpy", "cupy"))
    if device == CPU and numpy is not None:
        return numpy.array(values, numpy.int32)
    if torch is not None:
        return torch.tensor(values, dtype=torch.int32, device="cpu" if device == CPU else f"cuda:{device}")
    if device != CPU and cupy is not None:
        with cupy.cuda.Device(device):
            return cupy.array(values, cupy.int32)
    raise ArgumentError("expected an array of integers: a list becomes one where NumPy, PyTorch or CuPy is imported")


def check_list(name: str, x: Any) -> None:
    """Refuses a list, or a list of lists, that is not a rectangular array of integers of 32 bits."""
    rows = x if x and is_list(x[0]) else [x]
    for row in rows:
        strange = [n for n in row if isinstance(n, bool) or not hasattr(n, "__index__")] if is_list(row) else [row]
        if strange:
            raise UnsupportedTypeError(f"expected {name} to be an array or a list of integers, got one of "
                                       f"{described(strange[0])}")
        if len(row) != len(rows[0]):
            raise ArgumentError(f"expected {name} to be a list of lists of one length, got lengths {len(rows[0])} and "
                                f"{len(row)}")
        if any(not -2**31 <= n.__index__() < 2**31 for n in row):
            raise ArgumentError(f"expected {name} of integers of 32 bits, got {max(row, key=abs)}")


def narrowed(name: str, x: Any, array: Array) -> Any:
    """Converts `x`, which `array` describes, to int32 if it has integers of another type."""
    if array.dtype not in _OTHERS or not (hasattr(x, "to") or hasattr(x, "astype")):
        return x
    if array.device == CPU and array.dtype == "i64" and 0 not in array.shape:
        for number in (int(x.min()), int(x.max())):
            if not -2**31 <= number < 2**31:
                raise ArgumentError(f"expected {name} of integers of 32 bits, got {number}")
    return x.int() if hasattr(x, "to") and hasattr(x, "int") else x.astype("int32")
