"""`Array`: the address, shape, strides and element type of an array. `source.py` makes it from a framework's array."""
from __future__ import annotations

import operator
from typing import Any, NamedTuple, Optional, Sequence, Tuple

from .._runtime.library import ArgumentError, UnsupportedTypeError
from .._runtime.public import public

#: The device number of arrays on the host; other devices are numbers of GPUs.
CPU = -1

#: Bytes of an element. u8 (0 to 255) is an i8 for the compiler too; its elements are extended with zeros.
ITEM_SIZE = {"bf16": 2, "f16": 2, "f32": 4, "f64": 8, "i1": 1, "i8": 1, "u8": 1, "i16": 2, "i32": 4, "i64": 8,
             "f8e4m3": 1}

#: Element types by their names in frameworks.
NAMES = {"bfloat16": "bf16", "float16": "f16", "half": "f16", "float32": "f32", "float": "f32", "float64": "f64",
         "double": "f64", "bool": "i1", "bool_": "i1", "int8": "i8", "uint8": "u8", "int16": "i16", "int32": "i32",
         "int64": "i64", "float8_e4m3fn": "f8e4m3"}


_SPOKEN = {"i1": "bool", "i8": "int8", "u8": "uint8", "i16": "int16", "i32": "int32", "i64": "int64",
           "f8e4m3": "float8_e4m3fn"}


def spoken(dtype: str) -> str:
    """Returns an element type's name for messages: integers have the frameworks' names."""
    return _SPOKEN.get(dtype, dtype)


class Array(NamedTuple):
    """An array's elements. Extents and strides are in elements, outermost first."""
    address: int
    shape: Sequence[int]
    strides: Sequence[int]
    dtype: str
    device: int
    #: The object that owns the memory: the array, or its DLPack capsule.
    owner: Any
    #: The stream on which the elements are written, if the exporter names it. None: no need to wait.
    stream: Optional[int] = None
    readonly: bool = False


def device_name(device: int) -> str:
    """Returns a device's name for messages."""
    return "the CPU" if device == CPU else f"GPU {device}"


def check_device(name: str, x: Array, device: int, like: str = "q") -> None:
    """Refuses an array that is not on `device`, the device of the argument `like`."""
    if x.device != device:
        raise ArgumentError(f"expected {name} on {device_name(device)}, where {like} is, got one on "
                            f"{device_name(x.device)}")


def check_memory(name: str, x: Array) -> None:
    """Refuses an array without memory, as an ArraySpec."""
    if x.address == 0 and 0 not in x.shape:
        raise ArgumentError(f"expected {name} with elements in memory, got an address of 0; ArraySpec is for "
                            "flashc.compile")


def check_contiguous(name: str, x: Array) -> None:
    if x.strides[-1] != 1 and x.shape[-1] > 1 and 0 not in x.shape:
        raise ArgumentError(f"expected the last dimension of {name} to be contiguous (stride 1), got stride "
                            f"{x.strides[-1]}; make a contiguous copy")


class ArraySpec:
    """The shape and the element type of an array without elements, for `flashc.compile` and `flashc.explain`.

    Args:
        shape: extents, outermost first.
        dtype: "bf16", "f16", "f32" or a framework's name or object for them ("bfloat16", `torch.bfloat16`, ...).
        strides: in elements; None: contiguous.
    """
    __slots__ = ("shape", "dtype", "strides")

    @public
    def __init__(self, shape: Sequence[int], dtype: Any, strides: Optional[Sequence[int]] = None) -> None:
        self.shape = _integers("shape", shape)
        if any(extent < 0 for extent in self.shape):
            raise ArgumentError(f"expected extents that are not negative, got {self.shape}")
        self.dtype = dtype_name(dtype)
        self.strides = contiguous_strides(self.shape) if strides is None else _integers("strides", strides)
        if len(self.strides) != len(self.shape):
            raise ArgumentError(f"expected {len(self.shape)} strides, one per extent, got {len(self.strides)}")

    def __repr__(self) -> str:
        return f"ArraySpec({self.shape}, {self.dtype!r})"


def _integers(name: str, values: Any) -> Tuple[int, ...]:
    try:
        numbers = tuple(operator.index(value) for value in (None if isinstance(values, (bytes, dict, set)) else values))
    except TypeError:
        raise UnsupportedTypeError(f"expected {name} to be a sequence of integers, got {values!r}") from None
    if any(not -2**63 <= number < 2**63 for number in numbers):
        raise ArgumentError(f"expected {name} of integers of 64 bits, got {numbers}")
    return numbers


def dtype_name(dtype: Any) -> str:
    """Returns flashc's name ("bf16", "f16", "f32", ...) of an element type of any framework."""
    text = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", None) \
        or str(dtype)
    text = text.rsplit(".", 1)[-1]
    if text in ITEM_SIZE:
        return text
    try:
        return NAMES[text]
    except KeyError:
        raise UnsupportedTypeError(f"expected an element type such as 'bf16', 'f16' or 'f32', got {dtype!r}") from None


def no_elements(got: object) -> UnsupportedTypeError:
    """Returns the error for an array whose element type flashc does not support."""
    return UnsupportedTypeError(f"expected elements of bf16, f16 or f32 (masks: bool or integers too), got {got}")


def contiguous_strides(shape: Sequence[int]) -> Tuple[int, ...]:
    """Returns the strides, in elements, of a row-major array without gaps."""
    strides, stride = [], 1
    for extent in reversed(shape):
        strides.append(stride)
        stride *= extent or 1
    return tuple(reversed(strides))


def element_strides(strides: Sequence[int], item: int, what: str) -> Tuple[int, ...]:
    """Converts strides in bytes to strides in elements of `item` bytes."""
    elements = []
    for stride in strides:
        if stride % item:
            raise ArgumentError(f"expected strides of whole elements of {item} bytes, got {tuple(strides)} bytes in "
                                f"{what}")
        elements.append(stride // item)
    return tuple(elements)
