"""Conversion of lengths, tables and offsets for kernels: lists become arrays on q's device, and integers have 32
bits."""
from __future__ import annotations

import ctypes
import sys
from typing import Any, List, Optional, Sequence

from .._runtime.library import ArgumentError, UnsupportedTypeError, described
from .array import CPU, Array, check_memory
from .source import described_array, source_of

_OTHERS = "i64", "i16", "i8", "u8"
_TYPES = {"i8": ctypes.c_int8, "u8": ctypes.c_uint8, "i16": ctypes.c_int16, "i32": ctypes.c_int32,
          "i64": ctypes.c_int64}


def is_list(x: Any) -> bool:
    return isinstance(x, (list, tuple))


def array_of(name: str, x: Any, like: Any) -> Any:
    """Converts a list of integers, or a list of equally long lists, to an array of int32. The array has the framework
    and the device of `like`. Returns anything else unchanged."""
    if not isinstance(x, (list, tuple)):
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


def integers_of(name: str, x: Array, row: int = 0, begin: int = 0, end: Optional[int] = None) -> List[int]:
    """Returns elements `begin` to `end` - 1 of an array of integers on the CPU; for two dimensions, those of a row."""
    if not x.address:
        check_memory(name, x)
    kind, stride = _TYPES[x.dtype], x.strides[-1]
    size, count = ctypes.sizeof(kind), (x.shape[-1] if end is None else end) - begin
    address = x.address + size * (begin * stride + (row * x.strides[0] if len(x.shape) == 2 else 0))
    if stride == 1 or count <= 1:
        return (kind * max(count, 0)).from_address(address)[:] if x.address else []
    return [kind.from_address(address + size * stride * number).value for number in range(count)]


def check_ascending(name: str, numbers: Sequence[int], total: str, length: int) -> None:
    """Refuses offsets that do not ascend from 0 to `length`, whose name is `total`, at most."""
    if numbers[0] != 0 or numbers[-1] > length or sorted(numbers) != numbers:
        raise ArgumentError(f"expected {name} to ascend from 0 to {total} = {length} at most, got {numbers[:8]}"
                            f"{'...' if len(numbers) > 8 else ''}")


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
