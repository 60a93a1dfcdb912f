"""What the ops of graphs share: names in place of functions, the sides of windows, and log-sum-exps."""
from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, Iterable, Optional, Tuple

import torch
from torch import Tensor

__all__ = ["forget", "functions", "is_compiling", "lse_like", "names_of", "no_sums", "sees_up_to_itself", "sides_of"]

if not hasattr(torch.library, "custom_op"):
    raise ImportError(f"flashc.torch needs PyTorch 2.4 or newer, got {torch.__version__}; flashc.attention does not")

#: True while torch.compile or torch.export trace; they replace it by a constant.
is_compiling = torch.compiler.is_compiling

Names = Tuple[Optional[str], Optional[str]]


def sees_up_to_itself(b, h, i, j):
    return j <= i


# Masks and scores by name: an op takes no functions.
_UP_TO_ITSELF = "up to itself"
functions: Dict[str, Callable[..., Any]] = {_UP_TO_ITSELF: sees_up_to_itself}
_numbers = itertools.count()


def names_of(mask: Optional[Callable[..., Any]], score: Optional[Callable[..., Any]]) -> Optional[Names]:
    """The names of a mask and a score for an op. None: under torch.compile, where one of them has a closure or defaults,
    so that the call must be outside of the graph (`_torch_graph.outside`)."""
    if not is_compiling():
        return _name_once(mask), _name_once(score)
    if score is None and (mask is None or mask is sees_up_to_itself):
        return None if mask is None else _UP_TO_ITSELF, None
    if (mask is not None and _remembers(mask)) or (score is not None and _remembers(score)):
        return None
    from . import _torch_graph as graph
    return None if mask is None else graph.register(mask), None if score is None else graph.register(score)


def _remembers(function: Any) -> bool:
    """Whether calls of `function` can differ though its code is the same: Dynamo looks at the code alone to decide whether
    its graph still holds. Dynamo itself runs this, since a function that the graph makes is no constant."""
    code = getattr(function, "__code__", None)
    return code is None or len(code.co_freevars) > 0 or function.__defaults__ is not None or \
        function.__kwdefaults__ is not None


def _name_once(function: Optional[Callable[..., Any]]) -> Optional[str]:
    """Of an op that is called outside of a graph, where functions are often new in every call."""
    if function is None:
        return None
    name = f"once {next(_numbers)}"
    functions[name] = function
    return name


def forget(names: Iterable[Optional[str]]) -> None:
    """Ends a call that got its names outside of a graph; a graph may call the op at any time."""
    if not is_compiling():
        for name in names:
            functions.pop(name, None)


def sides_of(window: Any) -> Tuple[Optional[int], Optional[int]]:
    """(left, right) of a window."""
    return (None, None) if window is None else (window, 0) if isinstance(window, int) else window


def lse_like(q: Tensor, layout: str, return_lse: bool) -> Tensor:
    """A new log-sum-exp, [B, Hq, Nq], or what an op returns in its place."""
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
