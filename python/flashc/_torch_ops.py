"""Helpers of the PyTorch ops: schemas, names in place of functions, windows, and log-sum-exps."""
from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, Iterable, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ._torch_tensors import forward_ad, refuse_tangents

if not hasattr(torch.library, "custom_op"):
    raise ImportError(f"flashc.torch needs PyTorch 2.4 or newer, got {torch.__version__}; flashc.attention does not")

#: True while torch.compile or torch.export trace. They replace a call of this function by a constant.
is_compiling = torch.compiler.is_compiling

Names = Tuple[Optional[str], Optional[str]]


_library = torch.library.Library("flashc", "FRAGMENT")
#: What the dispatcher calls below autograd and below the count of writes to a tensor.
_BELOW = torch._C._after_ADInplaceOrView_keyset
#: The keys by which the dispatcher finds the kernel of a tensor, where no mode and no subclass of tensors comes first.
_OF_TENSORS = frozenset(getattr(torch._C.DispatchKey, name) for name in ("BackendSelect", "CPU", "CUDA"))


class Op:
    """An op of PyTorch, `flashc::name`. Functions that implement it take a dictionary of the arguments.

    It is registered with the dispatcher. `torch.library.custom_op` would add layers of Python to each call."""

    def __init__(self, name: str, arguments: str, results: int) -> None:
        self.name = name
        words = [argument.partition("=")[0].split() for argument in arguments.split(", ")]
        self.names = [word for _, word in words]
        self.tensors = [word for kind, word in words if kind.startswith("Tensor")]
        self.defaults = {argument.partition("=")[0].split()[1]: _VALUES[argument.partition("=")[2]]
                         for argument in arguments.split(", ") if "=" in argument}
        _library.define(f"{name}({arguments}) -> ({', '.join(['Tensor'] * results)})",
                        tags=(torch.Tag.pt2_compliant_tag,))
        #: The op as a function of the arguments in order.
        self.overload = getattr(torch.ops.flashc, name).default

    def named(self, values: Sequence[Any]) -> Dict[str, Any]:
        """Returns the arguments by name. PyTorch leaves out defaults at the end, which are added here."""
        return {**self.defaults, **dict(zip(self.names, values))}

    def values(self, named: Dict[str, Any]) -> Sequence[Any]:
        return [named[name] for name in self.names]

    def kernel(self, function: Callable[[Dict[str, Any]], Any]) -> Callable[[Dict[str, Any]], Any]:
        """Registers the function that computes the results, as a decorator. It runs below autograd."""
        _library.impl(self.name, lambda *values: function(self.named(values)), "CompositeExplicitAutograd")
        return function

    def fake(self, function: Callable[[Dict[str, Any]], Any]) -> Callable[[Dict[str, Any]], Any]:
        """Registers the fake kernel, which only gives results their shapes, as a decorator."""
        torch.library.register_fake(f"flashc::{self.name}", lambda *values: function(self.named(values)), lib=_library)
        return function

    def differentiate(self, kernel: Callable[[Dict[str, Any]], Any], backward: Callable[..., Any],
                      save: Callable[..., None] = lambda ctx, inputs, output: None) -> None:
        """Registers the derivative. `kernel` is that of the op; `backward` and `save` are as for
        torch.library.register_autograd."""
        op, named = self.overload, self.named

        class Differentiated(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, keys: Any, *values: Any) -> Any:
                with torch._C._AutoDispatchBelowAutograd():
                    output = op.redispatch(keys & torch._C._after_autograd_keyset, *values)
                save(ctx, values, output)
                return output

            @staticmethod
            def backward(ctx: Any, *gradients: Any) -> Any:
                found = backward(ctx, *gradients)
                return (None, *found[:len(ctx.needs_input_grad) - 1])

        def call(keys: Any, *values: Any) -> Any:
            if forward_ad._current_level >= 0:
                refuse_tangents(*values)
            if torch.is_grad_enabled() and any([getattr(x, "requires_grad", False) for x in values]):
                return Differentiated.apply(keys, *values)
            if (keys & _BELOW).highestPriorityTypeId() in _OF_TENSORS:
                return kernel(named(values))  # The dispatcher would call the same function, but later.
            with torch._C._AutoDispatchBelowAutograd():
                return op.redispatch(keys & torch._C._after_autograd_keyset, *values)
        _library.impl(self.name, call, "Autograd", with_keyset=True)


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
