"""Attributes and methods of traced values and arrays that code for tensors uses: device, element type, and conversions
such as `.to`."""
from __future__ import annotations

import sys
from typing import Any, Dict, Optional, Sequence

from .._arrays.array import dtype_name
from .._runtime.library import UnsupportedTypeError
from .region import F32, I1, INDEX, Value, current, error

# The names that frameworks give to the types of values and of array elements.
_NAMES = {
    F32: "float32", INDEX: "int64", I1: "bool", "bf16": "bfloat16", "f16": "float16", "f64": "float64", "i8": "int8",
    "u8": "uint8", "i16": "int16", "i32": "int32", "i64": "int64"
}


def device_of_trace() -> Any:
    """Returns the device of q as a torch.device; None if PyTorch is not imported or the device is unknown."""
    torch, trace = sys.modules.get("torch"), getattr(current, "trace", None)
    number = None if trace is None else trace.device
    if torch is None or number is None:
        return None
    return torch.device("cpu") if number < 0 else torch.device("cuda", number)


def dtype_of(kind: str) -> Any:
    """Returns a type of values or elements as PyTorch's dtype if PyTorch is imported, else as NumPy's."""
    name = _NAMES[kind]
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None:
        return getattr(torch, name)
    return numpy.dtype(name) if numpy is not None and name != "bfloat16" else name


def kind_of(dtype: Any) -> str:
    """Returns F32, INDEX or I1 for a type of any framework, or for the type of a value or an array."""
    if isinstance(dtype, Value):
        return dtype._type
    try:
        is_array = not isinstance(dtype, type) and hasattr(dtype, "dtype") and hasattr(dtype, "shape")
        name = dtype_name(dtype.dtype if is_array else dtype)
    except UnsupportedTypeError:
        name = str(dtype).rsplit(".", 1)[-1]
        if name not in ("LongTensor", "IntTensor", "FloatTensor", "HalfTensor", "BFloat16Tensor", "BoolTensor") and \
                dtype is not int:
            raise error(f"expected a type of numbers, integers or conditions, got {dtype!r}") from None
        name = "f32" if name.startswith(("Float", "Half", "BF")) else "i1" if name.startswith("Bool") else "i64"
    return I1 if name == "i1" else F32 if "f" in name else INDEX


def _is_device(x: Any) -> bool:
    """Whether an argument of `.to` names a device: None, a number, "cuda:0", `torch.device("cpu")`, NumPy's "cpu"."""
    if x is None or isinstance(x, int):
        return True
    names = "cpu", "cuda", "meta", "mps", "xpu"
    return type(x).__name__ == "device" or isinstance(x, str) and x.split(":")[0] in names


def kind_of_to(arguments: Sequence[Any], keywords: Dict[str, Any]) -> Optional[str]:
    """Returns the type that `x.to(*arguments, **keywords)` asks for, or None. The forms are `to(dtype)`, `to(device)`,
    `to(device, dtype)` and `to(other)`, each with `non_blocking`, `copy` and `memory_format`."""
    unknown = set(keywords) - {"dtype", "device", "other", "non_blocking", "copy", "memory_format"}
    if unknown or not arguments and not keywords:
        raise error(f"expected to(dtype), to(device), to(device, dtype) or to(other), got "
                    f"{', '.join(sorted(unknown)) or 'nothing'}")
    first, *rest = (*arguments, keywords.get("other")) if not arguments else arguments
    named = keywords.get("dtype")
    if named is not None:
        return kind_of(named)
    if not _is_device(first):
        return kind_of(first)
    return kind_of(rest[0]) if rest and not isinstance(rest[0], (bool, type(None))) else None


class Convertible:
    """Conversions and the device of a value or an array. Subclasses have `_as(kind)`, which converts."""
    __slots__ = ()

    def to(self, *arguments: Any, **keywords: Any) -> Any:
        """Converts to a real number, an integer or a condition; takes all arguments of `torch.Tensor.to`. Real numbers
        always have 32 bits, and a device is ignored."""
        kind = kind_of_to(arguments, keywords)
        return self if kind is None else self._as(kind)  # type: ignore[attr-defined]

    def type(self, dtype: Any) -> Any:
        return self._as(kind_of(dtype))  # type: ignore[attr-defined]

    type_as = astype = type

    def float(self) -> Any:
        return self._as(F32)  # type: ignore[attr-defined]

    def long(self) -> Any:
        return self._as(INDEX)  # type: ignore[attr-defined]

    def bool(self) -> Any:
        return self._as(I1)  # type: ignore[attr-defined]

    double = half = bfloat16 = float
    int = long

    def cpu(self, *arguments: Any, **keywords: Any) -> Any:
        return self

    cuda = contiguous = detach = clone = cpu

    @property
    def device(self) -> Any:
        """The device of q, for `torch.ones((), device=x.device)` and `other.to(x.device)`."""
        return device_of_trace()
