"""Helpers of the PyTorch ops: schemas, names in place of functions, windows, and log-sum-exps."""
from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, Iterable, Optional, Sequence, Tuple

import torch
from torch import Tensor

if not hasattr(torch.library, "custom_op"):
    raise ImportError(f"flashc.torch needs PyTorch 2.4 or newer, got {torch.__version__}; flashc.attention does not")

#: True while torch.compile or torch.export trace. They replace a call of this function by a constant.
is_compiling = torch.compiler.is_compiling

Names = Tuple[Optional[str], Optional[str]]


class Schema:
    """The schema of an op: its arguments in order. Functions that implement the op take a dictionary of the
    arguments."""

    def __init__(self, arguments: str, results: int) -> None:
        self.text = f"({arguments}) -> ({', '.join(['Tensor'] * results)})"
        words = [argument.partition("=")[0].split() for argument in arguments.split(", ")]
        self.names = [name for _, name in words]
        self.tensors = [name for kind, name in words if kind.startswith("Tensor")]
        self.defaults = {argument.partition("=")[0].split()[1]: _VALUES[argument.partition("=")[2]]
                         for argument in arguments.split(", ") if "=" in argument}

    def named(self, values: Sequence[Any]) -> Dict[str, Any]:
        """Returns the arguments by name. PyTorch leaves out defaults at the end, which are added here."""
        return {**self.defaults, **dict(zip(self.names, values))}

    def values(self, named: Dict[str, Any]) -> Sequence[Any]:
        return [named[name] for name in self.names]

    def op(self, name: str, mutates: Sequence[str] = ()) -> Callable[..., Any]:
        """Returns a decorator that registers a function as the op `name`."""
        def decorate(function: Callable[..., Any]) -> Any:
            def call(*values: Any) -> Any:
                return function(self.named(values))
            return torch.library.custom_op(name, call, mutates_args=mutates, schema=self.text)
        return decorate

    def fake(self, op: Any) -> Callable[..., Any]:
        """Returns a decorator that registers a function as the op's fake kernel, which only gives results their
        shapes."""
        def decorate(function: Callable[..., Any]) -> Any:
            op.register_fake(lambda *values: function(self.named(values)))
            return function
        return decorate


_VALUES = {"None": None, "False": False, "0.0": 0.0}


def sees_up_to_itself(b, h, i, j):
    return j <= i


# Masks and scores by name, since an op cannot take functions.
_UP_TO_ITSELF = "up to itself"
functions: Dict[str, Callable[..., Any]] = {_UP_TO_ITSELF: sees_up_to_itself}
_numbers = itertools.count()


def names_of(mask: Optional[Callable[..., Any]], score: Optional[Callable[..., Any]]) -> Optional[Names]:
    """Returns names of a mask and a score for an op. Under torch.compile, returns None if one of them has a closure or
    defaults; then the call must run outside of the graph (`_torch_graph.outside`)."""
    if not is_compiling():
        return _name_once(mask), _name_once(score)
    if score is None and (mask is None or mask is sees_up_to_itself):
        return None if mask is None else _UP_TO_ITSELF, None
    if (mask is not None and _remembers(mask)) or (score is not None and _remembers(score)):
        return None
    from . import _torch_graph as graph
    return None if mask is None else graph.register(mask), None if score is None else graph.register(score)


def _remembers(function: Any) -> bool:
    """Whether two functions with the same code can behave differently, because they have a closure or defaults.
    Dynamo's guards do not check these. Dynamo traces this function too, because a function that is made within the
    graph is not a constant."""
    code = getattr(function, "__code__", None)
    return code is None or len(code.co_freevars) > 0 or function.__defaults__ is not None or \
        function.__kwdefaults__ is not None


def _name_once(function: Optional[Callable[..., Any]]) -> Optional[str]:
    """Returns a name for one call of an op outside of a graph. Each call gets a new name, because calls outside of
    graphs often have new functions."""
    if function is None:
        return None
    name = f"once {next(_numbers)}"
    functions[name] = function
    return name


def forget(names: Iterable[Optional[str]]) -> None:
    """Removes the names of a call outside of a graph. Names in a graph are kept, since the graph may call the op at any
    time."""
    if not is_compiling():
        for name in names:
            functions.pop(name, None)


def code_of(mask: Optional[str], score: Optional[str]) -> Tuple[Any, Any]:
    """Returns the mask and the score with these names."""
    return None if mask is None else functions[mask], None if score is None else functions[score]


def window_of(x: Dict[str, Any]) -> Any:
    """Returns the window that an op's arguments describe."""
    sides = x["window_left"], x["window_right"]
    return None if sides == (None, None) else sides


def sides_of(window: Any) -> Tuple[Optional[int], Optional[int]]:
    """Returns a window as (left, right)."""
    return (None, None) if window is None else (window, 0) if isinstance(window, int) else window


def lse_like(q: Tensor, layout: str, return_lse: bool) -> Tensor:
    """Returns a new log-sum-exp, [B, Hq, Nq], or an empty tensor in its place, since an op must return a tensor."""
    if not return_lse:
        return no_sums(q)
    batch, heads, queries = q.shape[:3]
    if layout == "bshd":
        heads, queries = queries, heads
    return q.new_empty((batch, heads, queries), dtype=_sum_dtype(q))


def no_sums(q: Tensor) -> Tensor:
    return q.new_empty((0,), dtype=_sum_dtype(q))


def _sum_dtype(q: Tensor) -> torch.dtype:
    return torch.float64 if q.dtype == torch.float64 else torch.float32
