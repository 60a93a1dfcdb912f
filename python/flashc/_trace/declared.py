"""What a caller declares about an array that a mask reads: `flashc.assume_sorted`."""
from __future__ import annotations

from typing import Any

from .._arrays.array import CPU, Array, check_contiguous, spoken
from .._arrays.integers import check_list, integers_on, is_list
from .._arrays.protocol import ArrayLike
from .._arrays.source import source_of
from .._runtime.library import ArgumentError, UnsupportedTypeError
from .._runtime.public import public


class Listed:
    """Integers that a caller has as a list: an array on the device of each call that reads it."""

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
        """The array on a device; None: on the CPU."""
        device = CPU if device is None else device
        if device not in self._arrays:
            self._arrays[device] = integers_on(device, self._values)
        return self._arrays[device]


class Sorted:
    """An array with the promise that its elements ascend along its last dimension. Indexed, it is the array."""

    def __init__(self, array: Any) -> None:
        self.array = array
        described = describe(array)
        self.shape = tuple(described.shape)
        if not self.shape:
            raise ArgumentError("expected a sorted array of at least one dimension, got a scalar")
        if described.dtype not in ("i8", "i32", "i64"):
            raise UnsupportedTypeError(
                f"expected a sorted array of int8, int32 or int64, got {spoken(described.dtype)}")
        check_contiguous("a sorted array", described)

    def __repr__(self) -> str:
        return f"flashc.assume_sorted({self.array!r})"

    @property
    def ndim(self) -> int:
        """The number of the array's dimensions."""
        return len(self.shape)

    def __getitem__(self, index: Any) -> Any:
        return self.array[index]


def describe(x: Any) -> Array:
    """The array, as flashc sees it."""
    x = x.on(None) if isinstance(x, Listed) else x
    return x if isinstance(x, Array) else source_of(x).describe(x)


@public
def assume_sorted(array: ArrayLike) -> Any:
    """Promises that the elements of an array ascend along its last dimension.

    Args:
        array: [..., N] of int8, int32 or int64, with a contiguous last dimension: `array[..., x] <= array[..., x + 1]`.
            Equal neighbours are fine.

    Returns:
        What stands for the array in a mask or a score: `flashc.assume_sorted(ids)[j]`, `flashc.ops.count_le(...)`. It
        can be made outside of the function (a closure finds it) or in it.

    An index into the last dimension that is computed may lie outside, and counts from neither end: in front of the
    array the elements are less than all positions, behind it greater. Elements that are read at a computed place
    (`ids[n - 1 - i]`) are brought to between -2^29 and 2^29: those beyond are not told from each other.

    With the promise, a mask over data becomes bounds of loops: of documents with sorted ids, `ids[i] == ids[j]`, a
    kernel visits only the tiles of keys that it needs. On the CPU every call looks at the elements, and refuses those
    that do not ascend. On a GPU nothing checks it: if they do not, keys that the mask keeps may be left out, and
    queries (their outputs are not written), but no read leaves the array.

    Raises:
        flashc.ArgumentError, flashc.UnsupportedTypeError: no such array.

    The call that reads the array raises flashc.ArgumentError on the CPU if the promise does not hold.
    """
    if isinstance(array, Sorted):
        return array
    declare = getattr(type(array), "assume_sorted", None)  # An array that a trace has captured.
    return Sorted(array) if declare is None else declare(array)
