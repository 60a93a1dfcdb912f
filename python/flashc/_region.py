"""What tracing begins with: errors that name the user's line, and a region's operations.

A region is a list of operations of MLIR in text form; a traced value is the name of a result and its type.
"""
from __future__ import annotations

import linecache
import math
import os
import struct
import sys
import threading
import types
from typing import Any, Dict, List, Optional, Tuple, Union

from ._library import Error

__all__ = ["F32", "I1", "INDEX", "Indexable", "Number", "Region", "TraceError", "Value", "current", "error",
           "get_trace"]


class TraceError(Error):
    """A mask or a score does what flashc cannot trace. The text names the line."""


_HERE = os.path.dirname(os.path.abspath(__file__))
_FOREIGN = tuple(os.sep + name + os.sep for name in ("numpy", "torch"))


def error(what: str) -> TraceError:
    """The error with the line of the user's function that asked for it."""
    frame: Optional[types.FrameType] = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if os.path.dirname(os.path.abspath(path)) != _HERE and not path.startswith("<") and \
                not any(part in path for part in _FOREIGN):
            line = linecache.getline(path, frame.f_lineno).strip()
            place = f"{path}:{frame.f_lineno}: in {frame.f_code.co_name}: "
            return TraceError(place + what + (f"\n    {line}" if line else ""))
        frame = frame.f_back
    return TraceError(what)


# The trace under way in this thread, for flashc.ops.array and its like.
current = threading.local()


def get_trace(what: str) -> Any:
    """The trace under way, which is a `Trace`; `what` asks for it."""
    trace = getattr(current, "trace", None)
    if trace is None:
        raise error(f"flashc.ops.{what} works while a mask or a score is traced only")
    return trace


# --- Values -----------------------------------------------------------------------------------------------------------

Number = Union[int, float]
INDEX, F32, I1 = "index", "f32", "i1"


class Indexable:
    """What is not a value itself, but whose elements are."""
    __slots__ = ()

    @property
    def ndim(self) -> int:
        """Dimensions that are still to be indexed."""
        raise NotImplementedError


class Value:
    """A value of a mask or a score, as the functions that make values know it. All values are `Traced`."""
    __slots__ = ("_region", "_name", "_type", "_natural", "_limit", "_wide")

    def __init__(self, region: "Region", name: str, type: str, natural: bool = False,
                 limit: Optional[Tuple[int, int]] = None, wide: Optional[str] = None) -> None:
        self._region, self._name, self._type = region, name, type
        #: An integer that is known to be at least 0.
        self._natural = natural
        #: (p, d): the integer is (position p of b, h, i, j) // d.
        self._limit = limit
        #: The name of the i64 that the integer is read from: an index of a GPU has 32 bits.
        self._wide = wide


class Region:
    """The operations of one region, each once, in order."""
    __slots__ = ("lines", "known")
    #: The class of values: `Traced`, which `_traced.py` puts here, since it is made of functions that make values.
    kind: Any = Value

    def __init__(self) -> None:
        self.lines: List[str] = []
        self.known: Dict[str, str] = {}

    def emit(self, operation: str) -> str:
        """The name of the operation's result."""
        name = self.known.get(operation)
        if name is None:
            name = self.known[operation] = f"%t{len(self.lines)}"
            self.lines.append(f"{name} = {operation}")
        return name

    def value(self, type: str, operation: str, natural: bool = False) -> Any:
        """The operation's result as a value."""
        return self.kind(self, self.emit(operation), type, natural)

    def index(self, value: int) -> str:
        # What an index has in a kernel.
        if not -2**31 <= value < 2**31:
            raise error(f"expected an integer of 32 bits, got {value}")
        # True and members of enumerations are integers too, but print otherwise.
        return self.emit(f"arith.constant {int(value)} : index")

    def f32(self, value: Number) -> str:
        try:
            bits = struct.unpack("<I", struct.pack("<f", float(value)))[0]
        except OverflowError:
            bits = 0x7F800000 if value > 0 else 0xFF800000
        rounded = struct.unpack("<f", struct.pack("<I", bits))[0]
        return self.emit(f"arith.constant {rounded:.9e} : f32" if math.isfinite(rounded) else
                         f"arith.constant 0x{bits:08X} : f32")

    def i1(self, value: bool) -> str:
        return self.emit(f"arith.constant {'true' if value else 'false'}")
