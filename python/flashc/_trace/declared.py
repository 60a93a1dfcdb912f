"""`flashc.assume_sorted`, a caller's declaration about an array, and lists that stand for arrays."""
from __future__ import annotations

from typing import Any, Optional

from .._arrays.array import CPU, Array, check_contiguous, spoken
from .._arrays.integers import check_list, integers_on, is_list
from .._arrays.protocol import ArrayLike
from .._arrays.source import described_array
from .._runtime.library import ArgumentError, UnsupportedTypeError
from .._runtime.public import public


class Listed:
    """A list of integers, which becomes an array on the device of each call that reads it."""

    def __init__(self, name: str, values: Any) -> None:
        check_list(name, values)
        self._values, self._arrays = values, {}
        self.shape = (len(values), len(values[0])) if values and is_list(values[0]) else (len(values),)
        self.ndim, self.dtype = len(self.shape), "i32"

    def __repr__(self) -> str:
        return repr(self._values)

    def __getitem__(self, index: Any) -> Any:
        return self.on(CPU)[index]

    def on(self, device: Any) -> Any:
        """Returns the array on a device; None: on the CPU."""
        device = CPU if device is None else device
        if device not in self._arrays:
            self._arrays[device] = integers_on(device, self._values)
        return self._arrays[device]


class Sorted:
    """An array with the promise that its elements ascend along its last dimension. Indexed, it is the array."""

    def __init__(self, array: Any, described: Optional[Array] = None) -> None:
        """`described`: the description of the array, if the caller has it."""
        self.array = array
        described = describe("array", array) if described is None else described
        self.shape = tuple(described.shape)
        if not self.shape:
            raise ArgumentError("expected a sorted array of at least one dimension, got a scalar")
        if described.dtype not in ("i8", "i32", "i64"):
            raise UnsupportedTypeError(
                f"expected a sorted array of int8, int32 or int64, got {spoken(described.dtype)}")
        if described.strides[-1] != 1:
            check_contiguous("a sorted array", described)

    def __repr__(self) -> str:
        return f"flashc.assume_sorted({self.array!r})"

    @property
    def ndim(self) -> int:
        """The number of the array's dimensions."""
        return len(self.shape)

    def __getitem__(self, index: Any) -> Any:
        return self.array[index]


def describe(name: str, x: Any) -> Array:
    """Describes an array, or a list on the CPU. An error begins with the array's name."""
    x = x.on(None) if isinstance(x, Listed) else x
    return x if isinstance(x, Array) else described_array(name, x)


@public
def assume_sorted(array: ArrayLike) -> Any:
    """Promises that the elements of an array ascend along its last dimension.

    Args:
        array: [..., N] of int8, int32 or int64, with a contiguous last dimension: `array[..., x] <= array[..., x + 1]`.
            Equal neighbours are fine.

    Returns:
        An object that replaces the array in a mask or a score: `flashc.assume_sorted(ids)[j]`,
        `flashc.ops.count_le(...)`. It can be made outside of the function, which then refers to it, or inside.

    A computed index into the last dimension may lie outside of the array, and is never counted from the end: elements
    before the array are less than all positions, elements after it greater. Elements that are read at a computed index
    (`ids[n - 1 - i]`) are clamped to -2^29 to 2^29.

    With the promise, a mask over data becomes loop bounds: for documents with sorted ids, `ids[i] == ids[j]`, a kernel
    visits only the tiles of keys that it needs. On the CPU every call checks the elements, and refuses an array that
    does not ascend. On a GPU nothing is checked: if the array does not ascend, keys that the mask keeps may be left
    out, and outputs of queries may stay unwritten, but no read leaves the array.

    Raises:
        flashc.ArgumentError, flashc.UnsupportedTypeError: `array` is not such an array.

    The call that reads the array raises flashc.ArgumentError on the CPU if the promise does not hold.
    """
    if isinstance(array, Sorted):
        return array
    declare = getattr(type(array), "assume_sorted", None)  # An array that a trace has captured.
    return Sorted(array) if declare is None else declare(array)
