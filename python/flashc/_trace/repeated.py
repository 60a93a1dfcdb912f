"""The code of masks and scores that were traced before.

A trace runs the user's functions with values that record operations, and copies functions that refer to arrays. A trace
takes 10 to 100 microseconds. Calls with the same functions, constants and kinds of arrays have the same code. The code
is kept in a table, whose key is everything that the functions refer to (`Reads`). A later call that finds its code
there only binds its own arrays and numbers to the captures.
"""
from __future__ import annotations

import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from .._arrays.array import Array
from .captured import Bound, View
from .declared import Sorted
from .reads import Reads, Unknown
from .code import Code
from .trace import Trace, scalar_of, trace


class _Source(NamedTuple):
    """Where the argument of a capture comes from."""
    #: The number of the object in `Reads.values`.
    place: int
    #: How an array is passed; None for a number.
    view: Optional[View]


class _Kept(NamedTuple):
    """A code without arrays, and the sources of its captures."""
    code: Code
    sources: Tuple[_Source, ...]


# The code of earlier traces, keyed by what the functions refer to. None: the code also depends on the extents of
# arrays, and is kept under a key that contains these extents too.
_codes: Dict[Tuple[Any, ...], Optional[_Kept]] = {}
_MOST = 1024
#: How many traces there were, for tests.
traces = 0


def code_of(mask: Optional[Callable[..., Any]], score: Optional[Callable[..., Any]], *, device: Optional[int] = None,
            stream: Optional[int] = None, is_double: bool = False) -> Code:
    """Returns what `trace` returns, without a trace if there was one for the same functions."""
    reads = Reads(device, stream)
    # The element type of an array looks as that of a framework that is imported (appearance.dtype_of).
    reads.key += device, is_double, "torch" in sys.modules, "numpy" in sys.modules
    try:
        reads.read(mask)
        if score is not None:
            reads.read(score)
    except Unknown:
        return _trace(mask, score, device, stream, is_double)[0]
    key = tuple(reads.key)
    kept = _codes.get(key, _codes)
    if kept is None:
        key = (key, *[x.shape for x in reads.values if isinstance(x, Array)])
        kept = _codes.get(key, _codes)
    if kept is _codes:
        code, under_way = _trace(mask, score, device, stream, is_double)
        _keep(key, reads, code, under_way)
        return code

    def trace_lines() -> Code:
        return trace(mask, score, device=device, stream=stream, locates=True, is_double=is_double)
    return _bind(kept, reads.values, is_double, trace_lines)


def _trace(mask: Any, score: Any, device: Optional[int], stream: Optional[int], is_double: bool) -> Tuple[Code, Trace]:
    global traces
    traces += 1
    under_way = Trace(device, stream, False, is_double)
    return trace(mask, score, device=device, stream=stream, is_double=is_double, under_way=under_way), under_way


def _keep(key: Tuple[Any, ...], reads: Reads, code: Code, under_way: Trace) -> None:
    """Keeps a code, unless it captured an object that the functions did not refer to before the trace."""
    sources: List[_Source] = []
    arrays = iter(code.arrays)
    places: Dict[int, int] = {}  # of the arrays, by id()
    for capture, x in zip(code.captures, under_way.sources):
        # x is an Array if the trace captured it twice: first as it is, and then as a sorted array.
        place = places.get(id(x)) if isinstance(x, Array) else reads.place_of(x)
        if place is None:
            return
        view = None
        if capture.shape:
            array = next(arrays)
            places[id(array)] = place
            view = View.of(array, isinstance(x, (Array, Sorted)))
        sources.append(_Source(place, view))
    if len(_codes) >= _MOST:
        _codes.clear()
    if under_way.has_extents and not isinstance(key[0], tuple):
        _codes[key] = None
        key = (key, *[x.shape for x in reads.values if isinstance(x, Array)])
    _codes[key] = _Kept(code._replace(bound=(), arrays=(), trace_lines=None), tuple(sources))


def _bind(kept: _Kept, values: List[Any], is_double: bool, trace_lines: Callable[[], Code]) -> Code:
    """Returns the code with the arrays and numbers of a call."""
    code = kept.code
    if not kept.sources:
        return Code(code.mask, code.score, (), needs=code.needs, labels=code.labels, trace_lines=trace_lines)
    bound, arrays = [], []
    for place, view in kept.sources:
        x = values[place]
        if view is None:
            bound.append(Bound(0, (), (), scalar_of(x, is_double)[1]))
        else:
            arrays.append(x)
            bound.append(view.bind(x))
    return Code(code.mask, code.score, code.captures, tuple(bound), tuple(arrays), code.needs, None, code.labels,
                trace_lines)
