"""Masks and scores written in Python become code of MLIR.

`mask(b, h, i, j)` and `score(s, b, h, i, j)` are called once with values that record the operations on them: batch,
query head, query and key position as `index`, the scaled score as `f32`. The result is the text of a region of
`flash.attention`. Python numbers become constants, arrays that the functions refer to become captures.

The text is the key of the kernel. `repeated.py` keeps the code of functions by the objects that they refer to.
"""
from __future__ import annotations

import contextlib
import inspect
import os
import struct
import sys
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .._arrays.array import CPU, Array, check_device, check_memory, spoken
from .binding import bind, bind_list
from .captured import ELEMENTS, Bound, Capture, CapturedArray, Need, View
from .code import Code
from .declared import Listed, Sorted
from .._runtime.library import ArgumentError, Error, UnsupportedTypeError
from .operators import as_f32, as_i1, as_index, plain
from .region import F32, I1, INDEX, Number, Region, check_region, current, error, error_in, error_of, \
    f32_bits, get_trace, is_users, users_line, wrap_index
from .._arrays.source import named, source_of
from .traced import Traced

_FOLDER = os.path.dirname(__file__)


class Lengths(NamedTuple):
    """Functions that compute the lengths of a sequence."""
    queries: Callable[[], Any]
    keys: Callable[[], Any]
    #: The number of keys minus the number of queries; 0 if queries and keys have the same offsets.
    shift: Callable[[], Any]


class Trace:
    """A trace of one attention: the captures, which the mask and the score share, and the current region."""

    def __init__(self, device: Optional[int] = None, stream: Optional[int] = None, locates: bool = False,
                 is_double: bool = False) -> None:
        self.device, self.stream, self.locates, self.is_double = device, stream, locates, is_double
        self.region = Region()
        self.captures: List[Capture] = []
        self.bound: List[Bound] = []
        self.arrays: List[Array] = []
        self.needs: List[Need] = []
        #: The objects that were captured, in the order of `captures`.
        self.sources: List[Any] = []
        #: Whether the code depends on the extents of captured arrays, and not on their ranks alone.
        self.has_extents = False
        #: The names of captures in the user's functions.
        self.labels: Dict[str, str] = {}
        #: The lengths of the current packed sequence; None: those of the launch.
        self.lengths: Optional[Lengths] = None
        # The captures, by the id() of the captured object. The object is kept, so that no other object gets its id.
        self._known: Dict[int, Tuple[Any, Any]] = {}

    def _fresh(self) -> str:
        return f"capture{len(self.captures)}"

    def capture(self, x: Any, label: str = "") -> Any:
        """Captures an array or a scalar of a framework. `label`: its name in the user's function."""
        known = self._known.get(id(x))
        if known is None:
            count = len(self.captures)
            try:
                known = self._known[id(x)] = (x, self._capture(x))
            except (ArgumentError, UnsupportedTypeError) as problem:
                raise named(label, problem) if label else problem from None
            if len(self.captures) > count:
                self.sources.append(x)
                self.labels[self.captures[-1].name] = label or self._find_name(x)
        thing = known[1]
        # A scalar is read or converted anew in each region.
        return thing if isinstance(thing, CapturedArray) else self._scalar(*thing)

    def extents_of(self, array: Array) -> Sequence[int]:
        """Returns the extents of a captured array, which become part of the code."""
        self.has_extents = True
        return array.shape

    def _find_name(self, x: Any) -> str:
        """Returns the name of the variable with value x in the innermost function outside of this folder, for errors;
        "" if there is none."""
        frame = sys._getframe(2) if self.locates else None
        while frame is not None:
            if os.path.dirname(frame.f_code.co_filename) != _FOLDER:
                for name, value in frame.f_locals.items():
                    if value is x:
                        return name
            frame = frame.f_back
        return ""

    def _capture(self, x: Any) -> Any:
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(x, numpy.generic):
            return self._capture_number(x.item())
        is_sorted = isinstance(x, Sorted)
        if is_sorted:
            x = x.array
        if isinstance(x, Listed):
            x = x.on(self.device)
        array = x if isinstance(x, Array) else source_of(x).describe(x, self.stream)
        if array.dtype not in ELEMENTS:
            raise UnsupportedTypeError(f"expected a captured array of bf16, f16, f32, f64, bool, int8, uint8, int32 or "
                                       f"int64, got {spoken(array.dtype)}")
        if self.is_double and array.dtype in ("bf16", "f16", "f32") and array.shape:
            raise UnsupportedTypeError(
                f"expected a captured array of f64 or integers where q is f64, got {array.dtype}: "
                "convert it before the call")
        # A scalar that requires a gradient is captured as an array.
        is_trained = self.device is not None and getattr(x, "requires_grad", False)
        if len(array.shape) == 0 and array.device == CPU and hasattr(x, "item") and not is_trained:
            return self._capture_number(x.item())
        self._check_memory(array)
        if hasattr(x, "is_neg") and x.is_neg():
            return self._capture(Sorted(x.resolve_neg()) if is_sorted else x.resolve_neg())
        view, name = View.of(array, is_sorted), self._fresh()
        self.captures.append(view.capture(name, array.dtype))
        self.bound.append(view.bind(array))
        self.arrays.append(array)
        captured = CapturedArray(self, name, array, view)
        return captured if len(array.shape) else (name, array)

    def capture_sorted(self, array: Array, label: str) -> CapturedArray:
        """Captures an array again, with the promise that it ascends."""
        key = -id(array) - 1  # Negative, so that it is the key of no object: the sorted array is another operand.
        if key not in self._known:
            self._known[key] = (array, self._capture(Sorted(array)))
            self.sources.append(array)
            self.labels[self.captures[-1].name] = label
        return self._known[key][1]

    def _check_memory(self, array: Array) -> None:
        if self.device is not None:
            check_memory("a captured array", array)
            check_device("the arrays that a mask or a score refers to", array, self.device)
        if 0 in array.shape:
            raise ArgumentError(f"expected a captured array with elements, got shape {tuple(array.shape)}")

    def _capture_number(self, value: Number) -> Tuple[str, Any]:
        name = self._fresh()
        dtype, bits = scalar_of(value, self.is_double)
        self.captures.append(Capture(name, dtype, ()))
        self.bound.append(Bound(0, (), (), bits))
        return name, dtype

    def _scalar(self, name: str, kind: Any) -> Traced:
        if isinstance(kind, Array):
            # The scalar is in GPU memory.
            return self.element(name, kind.dtype, View.of(kind).type, [self.region.index(0)])
        if kind == "i64":
            return self.region.value(INDEX, f"arith.index_cast %{name} : i64 to index")
        if kind == "f64":
            return self.region.value(F32, f"arith.truncf %{name} : f64 to f32")
        return Traced(self.region, "%" + name, {"f32": F32, "i1": I1}[kind])

    def load(self, captured: CapturedArray, indices: Sequence[Any]) -> Traced:
        """Emits the read of an element of an array."""
        view, region = captured._view, self.region
        for index in indices:
            if isinstance(index, Traced):
                check_region(index)
        if view.is_sorted and isinstance(indices[-1], Traced) and indices[-1]._limit is None:
            return self._nth(captured, indices)
        names = self._places(captured, indices)
        if view.pads:
            names.append(region.index(0))
        return self.element(self._operand(captured), captured._array.dtype, view.type, names)

    def _places(self, captured: CapturedArray, indices: Sequence[Any]) -> List[str]:
        """Returns the indices into the operand, for indices into all dimensions of the array, or all but the last."""
        dims = captured._view.dims
        for dim, value in enumerate(indices):
            # The elements along a dimension that the view leaves out are all equal. An index into it must still be in
            # range.
            if dim not in dims and isinstance(value, Traced) and value._limit is not None:
                self._need(value._limit, captured, dim)
        return [self._inside(captured, dim, place, indices[dim])
                for place, dim in enumerate(dims) if dim < len(indices)]

    def _operand(self, captured: CapturedArray) -> str:
        """Returns the name of the array in the region; a sorted array is declared with flash.assume_sorted."""
        name, view = captured._name, captured._view
        if not view.is_sorted:
            return name
        return self.region.emit(f"flash.assume_sorted %{name} : {view.type}", captured._description)[1:]

    def _nth(self, captured: CapturedArray, indices: Sequence[Any]) -> Traced:
        """Emits the read of a sorted array at a computed index. Elements before the array are less than all positions,
        elements after it greater, so that they still ascend."""
        operand, line = self._operand(captured), self._line(captured, indices[:-1])
        return self.region.value(INDEX, f"flash.nth {indices[-1]._name} in %{operand}{line} : {captured._view.type}")

    def load_last(self, captured: CapturedArray) -> Traced:
        """Emits the read of the last element of a sorted array, whose other dimensions are indexed."""
        view, region, prefix = captured._view, self.region, captured._prefix
        place = region.index(len([dim for dim in view.dims if dim < len(prefix)]))
        extent = region.emit(f"tensor.dim %{captured._name}, {place} : {view.type}")
        last = region.emit(f"arith.subi {extent}, {region.index(1)} : index")
        return self.element(captured._name, captured._array.dtype, view.type, self._places(captured, prefix) + [last])

    def search(self, captured: CapturedArray, value: Any) -> Traced:
        """Emits the number of elements of a sorted array that are at most `value`; its other dimensions are indexed."""
        region, view = self.region, captured._view
        for operand in (value, *captured._prefix):
            if isinstance(operand, Traced):
                check_region(operand)
        line = self._line(captured, captured._prefix)
        return region.value(INDEX, f"flash.count_le {as_index(region, value)} in %{self._operand(captured)}{line} : "
                                   f"index, {view.type}", natural=True)

    def _line(self, captured: CapturedArray, indices: Sequence[Any]) -> str:
        """Returns the text of the indices into all dimensions of a sorted array but the last."""
        names = self._places(captured, indices)
        return f"[{', '.join(names)}]" if names else ""

    def _inside(self, captured: CapturedArray, dim: int, place: int, value: Any) -> str:
        """Returns an index that is inside its dimension: a checked constant, a position that the launch checks, or a
        value that the code wraps and clamps. `place` is the number of the dimension in the operand."""
        region, limit = self.region, getattr(value, "_limit", None)
        if not isinstance(value, Traced):
            return region.index(value)
        if limit is not None:
            self._need(limit, captured, dim)
            return value._name
        # Clamps every index, also where this array is long enough: the same kernel may get a shorter array in another
        # call.
        number = region.index(place)
        extent = region.emit(f"tensor.dim %{captured._name}, {number} : {captured._view.type}")
        last = region.emit(f"arith.subi {extent}, {region.index(1)} : index")
        about = captured._description if len(
            captured._array.shape) == 1 else f"dimension {dim} of {captured._description}"
        name = region.emit(f"arith.minsi {wrap_index(value, extent, about)}, {last} : index")
        return name if value._natural else region.emit(f"arith.maxsi {name}, {region.index(0)} : index")

    def _need(self, limit: Tuple[int, int], captured: CapturedArray, dim: int) -> None:
        """Notes that dimension `dim` of an array is indexed by a position, (p, d) as in Value._limit."""
        number = [array is captured._array for array in self.arrays].index(True)
        self.needs.append(Need(*limit, number, dim, users_line() if self.locates else ""))

    def element(self, name: str, dtype: str, type: str, indices: Sequence[str]) -> Traced:
        region = self.region
        value = region.emit(f"tensor.extract %{name}[{', '.join(indices)}] : {type}")
        wide = value if dtype == "i64" else None
        if dtype in ("bf16", "f16"):
            value = region.emit(f"arith.extf {value} : {dtype} to f32")
        elif dtype == "f64":
            value = region.emit(f"arith.truncf {value} : f64 to f32")
        elif dtype in ("i8", "u8"):
            wide = region.emit(f"arith.ext{'s' if dtype == 'i8' else 'u'}i {value} : i8 to i64")
            value = region.emit(f"arith.index_cast {wide} : i64 to index")
        elif dtype in ("i32", "i64"):
            value = region.emit(f"arith.index_cast {value} : {dtype} to index")
        return Traced(region, value, ELEMENTS[dtype], dtype == "u8", wide=wide)

    def query_length(self) -> Any:
        """Nq, an argument of the kernel; in a packed sequence, its number of queries."""
        return Traced(self.region, "%flashc.nq", INDEX, True) if self.lengths is None else self.lengths.queries()

    def key_length(self) -> Any:
        """Nk, an argument of the kernel; in a packed sequence, its number of keys; in a cache, lengths[b]."""
        return Traced(self.region, "%flashc.nk", INDEX, True) if self.lengths is None else self.lengths.keys()

    def shift(self) -> Any:
        """The shift that aligns the last query with the last key; 0 in a cache, where i is a position of a key."""
        return Traced(self.region, "%flashc.shift", INDEX) if self.lengths is None else self.lengths.shift()

    @contextlib.contextmanager
    def of_sequence(self, lengths: Lengths) -> Iterator[None]:
        """A context in which functions get the lengths of one of several packed sequences."""
        outer, self.lengths = self.lengths, lengths
        try:
            yield
        finally:
            self.lengths = outer

    def positions(self) -> List[Traced]:
        """Begins a new region; returns its b, h, i, j."""
        self.region = region = Region(self.locates)
        return [Traced(region, name, INDEX, True, (number, 1)) for number, name in enumerate(("%b", "%h", "%i", "%j"))]

    def code(self, result: str, type: str) -> str:
        """Returns the text of the region, with a yield of its result."""
        return "\n".join(self.region.lines + [f"flash.yield {result} : {type}"])

    def bind(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a copy of `function` that refers to captures in place of arrays."""
        return bind(function, self.capture)


def scalar_of(value: Number, is_double: bool) -> Tuple[str, int]:
    """Returns the type of the argument for a number, and its bits as a signed integer."""
    if isinstance(value, bool):
        return "i1", int(value)
    if isinstance(value, int):
        return "i64", (value + 2**63) % 2**64 - 2**63
    if is_double:
        return "f64", struct.unpack("<q", struct.pack("<d", value))[0]
    return "f32", f32_bits(value)


def array(x: Any) -> Any:
    """Captures an array, a list or a tuple that flashc does not find by itself, such as an attribute of an object:
    `flashc.ops.array(self.bias)[b, h, i, j]`, `flashc.ops.array(self.windows)[h]`."""
    trace = get_trace("array")
    if isinstance(x, (list, tuple)):
        return bind_list(x, trace.capture)
    return x if isinstance(x, (Traced, CapturedArray)) else trace.capture(x)


def query_length() -> Any:
    """Nq, the number of queries of the attention, which is no constant of the kernel. In `flashc.varlen_attention` it
    is the number of queries of the sequence, in `flashc.decode` it is T, the number of new tokens."""
    return get_trace("query_length").query_length()


def key_length() -> Any:
    """Nk, the number of keys of the attention, which is no constant of the kernel. The mask
    `j <= i + flashc.ops.key_length() - flashc.ops.query_length()` is causal, with the last query at the last key.

    In `flashc.varlen_attention` it is the number of keys of the sequence. In `flashc.decode` it is `lengths[b]`; there
    i counts from the sequence's first key, as j does, so that `j <= i` is causal."""
    return get_trace("key_length").key_length()


def count_le(array: Any, value: Any) -> Any:
    """The number of elements of a sorted array that are at most `value`: a binary search along the last dimension.

    Args:
        array: a result of `flashc.assume_sorted`, indexed by integers in all dimensions but the last:
            `count_le(offsets, i)`, `count_le(offsets_of_batch[b], i)`.
        value: an integer.

    Returns:
        An integer from 0 to N. For offsets that begin at 0, `count_le(offsets, i) - 1` is the number of the sequence
        that has position i.

    It works on arrays and numbers outside of a trace too, in a time that grows with N.
    """
    if isinstance(array, Sorted) and getattr(current, "trace", None) is not None:
        array = current.trace.capture(array)
    if isinstance(array, CapturedArray):
        return array.count_le(value)
    if isinstance(value, Traced):
        raise error(f"expected an array that flashc.assume_sorted declares to be sorted, got {type(array)!r}")
    elements = array.array if isinstance(array, Sorted) else array
    elements = elements.on(None) if isinstance(elements, Listed) else elements
    return (elements <= (value[..., None] if hasattr(value, "shape") else value)).sum(-1)


def call_mask(mask: Callable[..., Any], b: Any, h: Any, i: Any, j: Any) -> Any:
    """Calls a user's mask, which another mask contains. In a trace, refuses a result that is no condition."""
    if not isinstance(j, Traced):
        return mask(b, h, i, j)
    return _check_condition(mask, _call(get_trace("mask"), mask, "mask", [b, h, i, j]))


def call_score(score: Callable[..., Any], s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    """Calls a user's score, which another score contains. In a trace, refuses a result that is no real number."""
    if not isinstance(j, Traced):
        return score(s, b, h, i, j)
    return _check_real(score, _call(get_trace("score"), score, "score", [s, b, h, i, j]))


# --- Tracing ----------------------------------------------------------------------------------------------------------

def _call(under_way: Trace, function: Callable[..., Any], what: str, arguments: Sequence[Any]) -> Any:
    if not callable(function):
        raise UnsupportedTypeError(f"expected {what} to be a function, got {type(function)!r}")
    outer = getattr(current, "trace", None)
    current.trace, current.refused_index = under_way, None
    try:
        result = plain(under_way.bind(function)(*arguments))
        if isinstance(result, Traced):
            check_region(result)
        return result
    except RecursionError:
        raise error_in(function, f"expected the {what} to end, but it calls itself deeper than Python allows: a "
                                 "condition on a traced value cannot stop it") from None
    except IndexError as problem:
        raise current.refused_index or problem from None
    except (AttributeError, TypeError) as problem:
        if Traced.__name__ in str(problem):
            raise error_of(problem) from problem
        if isinstance(problem, (AttributeError, Error)) or is_users(problem):
            raise
        names = "(b, h, i, j)" if what == "mask" else "(s, b, h, i, j)"
        raise error_in(function, f"expected the {what} to be a function of {names}, got "
                                 f"{_signature(function, problem)}") from problem
    finally:
        current.trace, current.refused_index = outer, None


def _check_condition(mask: Callable[..., Any], kept: Any) -> Any:
    if not isinstance(kept, bool) and not (isinstance(kept, Traced) and kept._type == I1):
        kind = {F32: "a real number", INDEX: "an integer"}[kept._type] if isinstance(kept, Traced) else repr(kept)
        raise error_in(mask, f"expected the mask to return a condition, got {kind}")
    return kept


def _check_real(score: Callable[..., Any], value: Any) -> Any:
    if isinstance(value, bool) or isinstance(value, Traced) and value._type == I1:
        raise error_in(score, "expected the score to return a real number, got a condition: mask= is for those, and "
                              "flashc.ops.where(condition, s, other) chooses between scores")
    if not isinstance(value, (int, float, Traced)):
        raise error_in(score, f"expected the score to return a real number, got {value!r}")
    return value


def _signature(function: Callable[..., Any], problem: TypeError) -> str:
    """Describes the signature of a function that Python could not call, or the problem of a call inside of it."""
    try:
        is_own = problem.__traceback__ is not None and problem.__traceback__.tb_next is None
        return f"one of {inspect.signature(function)}" if is_own else f"another one: {problem}"
    except (TypeError, ValueError):  # It has no signature.
        return f"another one: {problem}"


def _broadcast(array: Array, positions: Sequence[Traced]) -> Tuple[Any, ...]:
    return tuple(0 if extent == 1 else position for extent, position in zip(array.shape, positions))


def trace(mask: Optional[Callable[..., Any]], score: Optional[Callable[..., Any]], *, device: Optional[int] = None,
          stream: Optional[int] = None, mask_array: Any = None, locates: bool = False,
          is_double: bool = False, under_way: Optional[Trace] = None) -> Code:
    """The code of a mask `(b, h, i, j) -> condition` and a score `(s, b, h, i, j) -> real number`.

    Args:
        device: the device that captured arrays must be on; None: any.
        stream: the stream on which captured arrays will be read.
        mask_array: an array of 4 dimensions, each 1 or that of [B, Hq, Nq, Nk]. A condition keeps a key; real numbers
            are added to the score.
        locates: whether operations have the user's lines.
        is_double: whether q is f64, so that all real numbers that the code reads must be f64.
        under_way: a new trace with these properties, for callers that look at it afterwards.
    """
    under_way = under_way or Trace(device, stream, locates, is_double)
    mask_code = score_code = None
    keeps: Any = True
    adds = mask_array is not None and mask_array.dtype != "i1"
    if mask is not None or mask_array is not None and not adds:
        positions = under_way.positions()
        if mask is not None:
            keeps = _check_condition(mask, _call(under_way, mask, "mask", positions))
        if mask_array is not None and not adds:
            keeps = under_way.capture(mask_array, "mask")[_broadcast(mask_array, positions)] & keeps
        if keeps is not True:
            mask_code = under_way.code(as_i1(under_way.region, keeps), I1)
    if score is not None or adds:
        positions = under_way.positions()
        value: Any = Traced(under_way.region, "%s", F32)
        if score is not None:
            value = _check_real(score, _call(under_way, score, "score", [value] + positions))
        if adds:
            value = under_way.capture(mask_array, "mask")[_broadcast(mask_array, positions)] + value
        score_code = under_way.code(as_f32(under_way.region, value), F32)
    return Code(mask_code, score_code, tuple(under_way.captures), tuple(under_way.bound), tuple(under_way.arrays),
                tuple(under_way.needs), labels=tuple(under_way.labels.get(name, "") for name, *_ in under_way.captures),
                trace_lines=lambda: trace(mask, score, device=device, stream=stream, mask_array=mask_array,
                                          locates=True, is_double=is_double))
