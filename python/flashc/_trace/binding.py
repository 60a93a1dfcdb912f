"""Binding: copies of functions that refer to captures of a trace in place of arrays and lists."""
from __future__ import annotations

import functools
import types
from typing import Any, Callable, Dict, Tuple

from .._arrays.array import ArraySpec
from .declared import Sorted
from .listed import ListedList, ListedTuple, holds_numbers
from .region import Indexable
from .traced import Traced

# Containers with more elements than this are not searched for arrays.
MOST = 256
_PLAIN = (type(None), int, float, str, bytes, complex, type, types.ModuleType, types.BuiltinFunctionType, Traced,
          Indexable)


def is_array(x: Any) -> bool:
    """Whether `x` is an array of a framework."""
    if isinstance(x, _PLAIN):
        return False
    if isinstance(x, (memoryview, ArraySpec, Sorted)):
        return True
    return is_array_type(type(x)) or hasattr(x, "__cuda_array_interface__") or hasattr(x, "__array_interface__")


def is_array_type(kind: type) -> bool:
    return hasattr(kind, "__dlpack__") or hasattr(kind, "__array_interface__") or \
        hasattr(kind, "__cuda_array_interface__")


def _global_names(code: types.CodeType) -> Tuple[str, ...]:
    names = code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _global_names(constant)
    return names


def _is_plain_cell(cell: Any) -> bool:
    """Whether a cell of a closure is empty, or holds an object that needs no capture."""
    try:
        return isinstance(cell.cell_contents, _PLAIN)
    except ValueError:
        return True


def _reaches(x: Any, seen: set) -> bool:
    if isinstance(x, _PLAIN) or id(x) in seen:
        return False
    if isinstance(x, types.FunctionType):
        if x.__module__ and x.__module__.split(".")[0] in ("flashc", "torch", "numpy"):
            return False
        seen.add(id(x))
        for cell in x.__closure__ or ():
            try:
                contents = cell.cell_contents
            except ValueError:
                continue
            if _reaches(contents, seen):
                return True
        namespace = x.__globals__
        return any(_reaches(namespace[name], seen) for name in _global_names(x.__code__) if name in namespace) \
            or any(_reaches(value, seen) for value in x.__defaults__ or ()) \
            or any(_reaches(value, seen) for value in (x.__kwdefaults__ or {}).values())
    if isinstance(x, functools.partial):
        seen.add(id(x))
        return any(_reaches(value, seen) for value in (x.func, *x.args, *x.keywords.values()))
    if isinstance(x, types.MethodType):
        return _reaches(x.__func__, seen)
    if isinstance(x, (tuple, list, dict)):
        seen.add(id(x))
        if len(x) > MOST:
            return False
        if isinstance(x, dict):
            return any(_reaches(value, seen) for value in x.values())
        return holds_numbers(x) or any(_reaches(value, seen) for value in x)
    return is_array(x)


def bind(function: Callable[..., Any], capture: Callable[[Any, str], Any]) -> Callable[..., Any]:
    """Returns a copy of `function` that refers to `capture(x, name)` in place of each array x: in its closure, its
    defaults, the globals that it names, and in functions, tuples, lists and dictionaries that these reach. Traced
    values can index these tuples and lists."""
    return _Binder(capture).wrap(function, "") if _reaches(function, set()) else function


def bind_list(entries: Any, capture: Callable[[Any, str], Any]) -> Any:
    """Returns a copy of a list or a tuple that traced values can index."""
    return _Binder(capture).wrap(entries, "")


class _Binder:
    """Copies objects that reach arrays or lists. Each object is copied once, so that cycles stay cycles."""

    def __init__(self, capture: Callable[[Any, str], Any]) -> None:
        self.capture = capture
        self.done: Dict[int, Any] = {}

    def wrap(self, x: Any, name: str) -> Any:
        """Returns the copy of `x`, which the user's function calls `name`."""
        if isinstance(x, _PLAIN):
            return x
        if id(x) in self.done:
            return self.done[id(x)]
        if isinstance(x, types.FunctionType):
            return self.wrap_function(x)
        if isinstance(x, functools.partial):
            return functools.partial(self.wrap(x.func, name), *[self.wrap(value, "") for value in x.args],
                                     **{key: self.wrap(value, key) for key, value in x.keywords.items()})
        if isinstance(x, types.MethodType):
            return types.MethodType(self.wrap(x.__func__, name), x.__self__)
        if isinstance(x, (tuple, list)) and len(x) <= MOST:
            return self.wrap_list(x, name)
        if isinstance(x, dict) and len(x) <= MOST:
            return {key: self.wrap(value, f"{name}[{key!r}]") for key, value in x.items()}
        return self.capture(x, name) if is_array(x) else x

    def wrap_list(self, x: Any, name: str) -> Any:
        if type(x) not in (list, tuple) and all(isinstance(value, _PLAIN) for value in x):
            return x  # A subclass may have methods of its own, as torch.Size.
        if isinstance(x, list):
            copy = self.done[id(x)] = ListedList(original=x)
            list.extend(copy, [self.wrap(value, f"{name}[{place}]") for place, value in enumerate(x)])
            return copy
        values = [self.wrap(value, f"{name}[{place}]") for place, value in enumerate(x)]
        return type(x)(*values) if hasattr(x, "_fields") else ListedTuple(values)

    def wrap_function(self, function: types.FunctionType) -> types.FunctionType:
        # Cells of numbers are not copied: the function may assign to them.
        cells = tuple(old if _is_plain_cell(old) else types.CellType() for old in function.__closure__ or ())
        namespace = function.__globals__
        scope = dict(namespace)
        copy = types.FunctionType(function.__code__, scope, function.__name__, None, cells or None)
        self.done[id(function)] = copy
        for name, cell, old in zip(function.__code__.co_freevars, cells, function.__closure__ or ()):
            if cell is not old:
                cell.cell_contents = self.wrap(old.cell_contents, name)
        for name in _global_names(function.__code__):
            if name in namespace:
                scope[name] = self.wrap(namespace[name], name)
        if function.__defaults__:
            names = function.__code__.co_varnames[:function.__code__.co_argcount][-len(function.__defaults__):]
            copy.__defaults__ = tuple(map(self.wrap, function.__defaults__, names))
        if function.__kwdefaults__:
            copy.__kwdefaults__ = {name: self.wrap(value, name) for name, value in function.__kwdefaults__.items()}
        return copy
