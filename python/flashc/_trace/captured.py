"""Captures: arrays that a mask or a score refers to."""
from __future__ import annotations

import functools
from typing import Any, NamedTuple, Tuple

from .._arrays.array import Array, spoken
from .appearance import Convertible, dtype_of
from .by_name import OF_ROWS, by_name
from .functions import to_kind
from .of_tensors import elements_of
from .operators import check, plain
from .region import F32, I1, INDEX, Indexable, error
from .traced import Traced


class Capture(NamedTuple):
    """An operand of the code, on which the kernel is specialised."""
    name: str
    dtype: str
    #: For each dimension 1 if its extent is always 1, and 0 if its extent may be any number; () for a scalar.
    shape: Tuple[int, ...]


_new_tuple = tuple.__new__


class Bound(NamedTuple):
    """The argument that a launch passes for a capture."""
    address: int
    extents: Tuple[int, ...]
    strides: Tuple[int, ...]
    #: The bits of a number, as a signed integer of 64 bits.
    scalar: int


ELEMENTS = {
    "bf16": F32, "f16": F32, "f32": F32, "f64": F32, "i1": I1, "i8": INDEX, "u8": INDEX, "i32": INDEX, "i64": INDEX
}
_C_DTYPE = {"u8": "i8"}


class CapturedArray(Convertible, Indexable):
    """An array that a mask or a score refers to. `table[h]`, `bias[b, h, i, j]` or `bias[b][h][i][j]` is an element:
    a real number, an integer or a condition. An array that is indexed by a position must have an element for every
    position. A negative index counts from the end, as in NumPy. A computed index outside of the array is an error on
    the CPU if the mask or the score depends on the element; on a GPU it is clamped to the array."""
    __slots__ = ("_trace", "_name", "_array", "_view", "_prefix")

    def __init__(self, trace: Any, name: str, array: Array, view: "View", prefix: Tuple[Any, ...] = ()) -> None:
        self._trace, self._name, self._array, self._view, self._prefix = trace, name, array, view, prefix

    def __repr__(self) -> str:
        return f"<captured {spoken(self._array.dtype)} array {tuple(self._array.shape)} %{self._name}>"

    @property
    def _description(self) -> str:
        """The array in messages: its name in the user's function, if known. "" where no messages are made, since the
        extents in a message would make the code depend on them."""
        name = self._trace.labels.get(self._name, "")
        if name or not self._trace.locates:
            return name
        return f"the captured {self._array.dtype} array of shape {tuple(self._trace.extents_of(self._array))}"

    @property
    def shape(self) -> Tuple[int, ...]:
        """The extents of the dimensions that are not indexed yet. They are Python's numbers: if the function computes
        with them, they become constants of the kernel."""
        return tuple(self._trace.extents_of(self._array))[len(self._prefix):]

    @property
    def ndim(self) -> int:
        return len(self._array.shape) - len(self._prefix)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Any:
        """Iterates over the elements of a row, or the rows of an array; the loop is unrolled."""
        return iter(elements_of(self, "compute on arrays before the call"))

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return dtype_of(self._array.dtype)

    def _as(self, kind: str) -> Any:
        """Returns the array with elements converted to real numbers, integers or conditions."""
        return self if kind == ELEMENTS[self._array.dtype] else _Converted(self, kind)

    def __bool__(self) -> bool:
        raise error("an array has no truth value")

    def __array__(self, *arguments: Any) -> Any:
        raise error("a captured array can be indexed, and nothing else; compute on arrays before the call")

    @classmethod
    def __torch_function__(cls, function: Any, kinds: Any, inputs: Any = (), keywords: Any = None) -> Any:
        name = getattr(function, "__name__", str(function))
        if name in OF_ROWS:
            return by_name("torch", name, inputs, keywords or {})
        raise error(f"a captured array can be indexed, and nothing else; got torch.{name}: "
                    "write it with elements, such as a[i, 0] + a[i, 1] for a sum of a row, or compute on arrays before "
                    "the call")

    def __array_function__(self, function: Any, kinds: Any, inputs: Any, keywords: Any) -> Any:
        if function.__name__ in OF_ROWS:
            return by_name("numpy", function.__name__, inputs, keywords)
        raise error(f"a captured array can be indexed, and nothing else; got numpy.{function.__name__}: compute on "
                    "arrays before the call")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise error(f"a captured array can be indexed, and nothing else; got its attribute {name}")

    def __getitem__(self, index: Any) -> Any:
        indices = self._prefix + (index if isinstance(index, tuple) else (index,))
        rank = len(self._array.shape)
        if len(indices) > rank:
            raise error(f"expected at most {rank} indices into an array of shape {tuple(self._array.shape)}, got "
                        f"{len(indices)}")
        for position, value in enumerate(indices[len(self._prefix):], len(self._prefix)):
            value = plain(value)
            if isinstance(value, bool) or not (isinstance(value, int) or
                                               isinstance(value, Traced) and value._type == INDEX):
                kind = {F32: "a real number", I1: "a condition"}[value._type] if isinstance(value, Traced) \
                    else repr(value)
                raise error(f"expected integers as indices into an array, got {kind} as index {position}")
            extent = self._array.shape[position]
            if isinstance(value, int) and not -extent <= value < self._trace.extents_of(self._array)[position]:
                raise error(f"expected index {position} from {-extent} to {extent - 1}, got {value}")
        indices = tuple(value + extent if isinstance(value, int) and value < 0 else value
                        for value, extent in zip(map(plain, indices), self._array.shape))
        if len(indices) < rank:
            return CapturedArray(self._trace, self._name, self._array, self._view, indices)
        return self._trace.load(self, [plain(value) for value in indices])

    def assume_sorted(self) -> "CapturedArray":
        """Returns the array, declared to ascend along its last dimension."""
        if self._view.is_sorted:
            return self
        if self._prefix:
            raise error("expected a whole array to be declared sorted, got a part of one")
        return self._trace.capture_sorted(self._array, self._trace.labels.get(self._name, ""))

    def last(self) -> Traced:
        """Returns the last element along the last dimension; its index is no constant of the kernel."""
        if self.ndim != 1:
            raise error(f"expected an array with one dimension left, got one with {self.ndim}")
        return self._trace.load_last(self)

    def count_le(self, value: Any) -> Traced:
        """Returns how many elements along the last dimension are at most `value`."""
        value = plain(value)
        if not self._view.is_sorted:
            raise error("expected an array that flashc.assume_sorted declares to be sorted, got another one")
        if self.ndim != 1:
            raise error(f"expected a sorted array with one dimension left to search, got one with {self.ndim}")
        if isinstance(value, bool) or not (isinstance(value, int) or
                                           isinstance(value, Traced) and value._type == INDEX):
            raise error(f"expected an integer to compare the elements with, got {value!r}")
        return self._trace.search(self, value)


def _refuse(array: CapturedArray, *others: Any) -> Any:
    """Refuses an operator on a whole array. With Python's default `==`, which is False, a mask would keep nothing."""
    check(array)


for _name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "matmul", "rmatmul"):
    setattr(CapturedArray, f"__{_name}__", _refuse)
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "and", "or", "xor", "lshift",
              "rshift"):
    setattr(CapturedArray, f"__{_name}__", _refuse)
    setattr(CapturedArray, f"__r{_name}__", _refuse)


class _Converted(CapturedArray):
    """An array whose elements are converted when they are read."""
    __slots__ = ("_kind",)

    def __init__(self, of: CapturedArray, kind: str) -> None:
        super().__init__(of._trace, of._name, of._array, of._view, of._prefix)
        self._kind = kind

    @property
    def dtype(self) -> Any:
        return dtype_of(self._kind)

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return _Converted(found, self._kind) if isinstance(found, Indexable) else to_kind(found, self._kind)

    def _as(self, kind: str) -> Any:
        return _Converted(self, kind)


class View(NamedTuple):
    """How an array is passed to the kernel. Dimensions of extent 1 or stride 0 are left out; `dims` are the others. If
    the last of `dims` is not contiguous, a last dimension of extent 1 is added (`pads`). An array that is declared to
    be sorted keeps its last dimension, which is contiguous."""
    dims: Tuple[int, ...]
    pads: bool
    type: str
    is_sorted: bool

    @staticmethod
    def of(array: Array, is_sorted: bool = False) -> "View":
        return passed(tuple(array.shape), tuple(array.strides), array.dtype, is_sorted)[0]

    def capture(self, name: str, dtype: str) -> Capture:
        return Capture(name, _C_DTYPE.get(dtype, dtype), (0,) * len(self.dims) + ((1,) if self.pads else ()))

    def bind(self, array: Array) -> Bound:
        """Returns the argument for an array with this view."""
        _, extents, strides = passed(tuple(array.shape), tuple(array.strides), array.dtype, self.is_sorted)
        return _new_tuple(Bound, (array.address, extents, strides, 0))  # Calling Bound takes longer.


@functools.lru_cache(maxsize=4096)
def passed(shape: Tuple[int, ...], strides: Tuple[int, ...], dtype: str,
           is_sorted: bool) -> Tuple[View, Tuple[int, ...], Tuple[int, ...]]:
    """Returns the view of an array, and the extents and strides that a launch passes."""
    last = len(shape) - 1
    # Lists are faster than generators. A mask of a cache that grows has another shape at each step.
    dims = tuple([dim for dim, (extent, stride) in enumerate(zip(shape, strides))
                  if extent != 1 and stride != 0 or is_sorted and dim == last])
    pads = not is_sorted and (not dims or strides[dims[-1]] != 1)
    added = (1,) if pads else ()
    text = "?x" * len(dims) + ("1x" if pads else "")
    extents, steps = tuple([shape[dim] for dim in dims]), tuple([strides[dim] for dim in dims])
    if is_sorted:
        steps = steps[:-1] + (1,)  # The stride of an extent of 1 means nothing.
    return View(dims, pads, f"tensor<{text}{_C_DTYPE.get(dtype, dtype)}>", is_sorted), extents + added, steps + added


class Need(NamedTuple):
    """What a call needs of an array that a position indexes: dimension `dim` of the array has at least ceil(extent of
    the position / divisor) elements."""
    position: int
    divisor: int
    #: The array's number in `Code.arrays`.
    array: int
    dim: int
    #: The user's line, as the beginning of a message, if the trace finds lines.
    line: str = ""
