"""The base of tracing: errors that name the user's line, and regions with their operations.

A region is a list of operations of MLIR in text form; a traced value is the name of a result and its type.
"""
from __future__ import annotations

import functools
import linecache
import math
import os
import struct
import sys
import threading
import types
from typing import Any, Dict, List, Optional, Tuple, Union

from .._runtime.library import Error


class TraceError(Error):
    """A mask or a score does what flashc cannot trace. The text names the line."""


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: The folders of flashc's own files; files of flashc.bench count as a user's.
_FOLDERS = tuple(os.path.join(_PACKAGE, name).rstrip(os.sep) for name in ("", "_arrays", "_runtime", "_trace",
                                                                              "integrations"))
_FOREIGN = tuple(os.sep + name + os.sep for name in ("numpy", "torch"))


_INTERNAL = ("<frozen", "<__array_function__")  # Other names in <>, such as <stdin>, are a user's.


@functools.lru_cache(maxsize=None)
def _is_users(path: str) -> bool:
    """Whether the code of a file is a user's."""
    return os.path.dirname(os.path.abspath(path)) not in _FOLDERS and not path.startswith(_INTERNAL) and \
        not any(part in path for part in _FOREIGN)


def _error_at(code: types.CodeType, number: int, what: str) -> TraceError:
    line = linecache.getline(code.co_filename, number).strip()
    return TraceError(f"{code.co_filename}:{number}: in {code.co_name}: {what}" + (f"\n    {line}" if line else ""))


def _users_frame() -> Optional[types.FrameType]:
    """Returns the frame of the innermost call of a user's function."""
    frame: Optional[types.FrameType] = sys._getframe(2)
    while frame is not None and not _is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def users_line() -> str:
    """Returns the line of the innermost user's function as the beginning of a message, "" if there is none."""
    frame = _users_frame()
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}: "


def error(what: str) -> TraceError:
    """Returns an error with the line of the innermost user's function."""
    frame = _users_frame()
    return TraceError(what) if frame is None else _error_at(frame.f_code, frame.f_lineno, what)


def error_in(function: Any, what: str) -> TraceError:
    """Returns an error with the first line of a function, whose result is wrong."""
    code = getattr(function, "__code__", None)
    return error(what) if code is None else _error_at(code, code.co_firstlineno, what)


def is_users(problem: BaseException) -> bool:
    """Whether a user's code raised an exception, itself or by a builtin function that it called."""
    step = problem.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step is not None and _is_users(step.tb_frame.f_code.co_filename)


def error_of(problem: Exception) -> TraceError:
    """Returns the error for an exception that Python raised for a traced value, with the user's line."""
    what, found, step = f"this works on no traced value: {problem}", None, problem.__traceback__
    while step is not None:
        if _is_users(step.tb_frame.f_code.co_filename):
            found = step
        step = step.tb_next
    return _error_at(found.tb_frame.f_code, found.tb_lineno, what) if found else TraceError(what)


# The current trace of this thread.
current = threading.local()


def get_trace(what: str) -> Any:
    """Returns the current `Trace`; without one, raises an error about flashc.ops.`what`."""
    trace = getattr(current, "trace", None)
    if trace is None:
        raise error(f"flashc.ops.{what} works while a mask or a score is traced only")
    return trace


# --- Values -----------------------------------------------------------------------------------------------------------

Number = Union[int, float]
INDEX, F32, I1 = "index", "f32", "i1"


class Indexable:
    """The base class of arrays, whose elements are values."""
    __slots__ = ()

    @property
    def ndim(self) -> int:
        """The number of dimensions that are not indexed yet."""
        raise NotImplementedError


class Value:
    """The data of a value of a mask or a score. Each value is a `Traced`, a subclass that has the operators."""
    __slots__ = ("_region", "_name", "_type", "_natural", "_limit", "_wide")

    def __init__(self, region: "Region", name: str, type: str, natural: bool = False,
                 limit: Optional[Tuple[int, int]] = None, wide: Optional[str] = None) -> None:
        self._region, self._name, self._type = region, name, type
        #: Whether the number is known to be at least 0; a real one may also be NaN.
        self._natural = natural
        #: (p, d): the integer is position number p of (b, h, i, j), floor-divided by d; None: not of that form.
        self._limit = limit
        #: The name of the i64 value from which the integer was converted. An index on a GPU has only 32 bits.
        self._wide = wide


def check_region(value: Value) -> None:
    """Refuses a value of another region, which a function has kept from another call."""
    trace = getattr(current, "trace", None)
    if trace is not None and value._region is not trace.region:
        raise error("expected a traced value of this call of the mask or score, got one that was kept from another")


def _location(about: Optional[str]) -> str:
    """Returns the user's line as a location of MLIR, with the name `about` if there is one."""
    frame = _users_frame()
    if frame is None:
        return ""
    line = f"{_quoted(frame.f_code.co_filename)}:{frame.f_lineno}:0"
    return f" loc({line if about is None else f'{_quoted(about)}({line})'})"


def _quoted(text: str) -> str:
    """Returns a string literal of MLIR."""
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else
                         "".join(f"\\{byte:02X}" for byte in c.encode("utf-8", "replace")) for c in text) + '"'


def f32_bits(value: Number) -> int:
    """Returns the bits of a number rounded to f32; infinity for a number that is too large."""
    try:
        return struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        return 0x7F800000 if value > 0 else 0xFF800000


class Region:
    """The operations of one region, in order and without duplicates."""
    __slots__ = ("lines", "known", "locates")
    #: The class of values: `Traced`. traced.py assigns it, since its operators need this class.
    kind: Any = Value

    def __init__(self, locates: bool = False) -> None:
        self.lines: List[str] = []
        self.known: Dict[str, str] = {}
        #: Whether operations have the user's line as a location: it costs time, so only a trace after an error has it.
        self.locates = locates

    def emit(self, operation: str, about: Optional[str] = None) -> str:
        """Appends an operation, if it is new, and returns its result's name. `about`: the name of its location."""
        name = self.known.get(operation)
        if name is None:
            name = self.known[operation] = f"%t{len(self.lines)}"
            self.lines.append(f"{name} = {operation}" + (_location(about) if self.locates else ""))
        return name

    def value(self, type: str, operation: str, natural: bool = False) -> Any:
        """Appends an operation and returns its result as a value."""
        return self.kind(self, self.emit(operation), type, natural)

    def index(self, value: int) -> str:
        # An index in a kernel has 32 bits.
        if not -2**31 <= value < 2**31:
            raise error(f"expected an integer of 32 bits, got {value}")
        # int(), since True and members of enumerations print differently.
        return self.emit(f"arith.constant {int(value)} : index")

    def f32(self, value: Number) -> str:
        bits = f32_bits(value)
        rounded = struct.unpack("<f", struct.pack("<I", bits))[0]
        return self.emit(f"arith.constant {rounded:.9e} : f32" if math.isfinite(rounded) else
                         f"arith.constant 0x{bits:08X} : f32")

    def i1(self, value: bool) -> str:
        return self.emit(f"arith.constant {'true' if value else 'false'}")


def wrap_index(value: "Value", extent: str, about: str) -> str:
    """Returns the name of an index into a dimension of `extent` elements; a negative `value` counts from the end. On
    the CPU an index outside is an error that names `about`."""
    natural = " {natural}" if value._natural else ""
    return value._region.emit(f"flash.wrap_index {value._name} of {extent}{natural}", about)
