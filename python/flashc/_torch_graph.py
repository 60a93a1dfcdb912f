"""Functions of flashc.torch that run while Dynamo traces a graph. A module of its own, since importing Dynamo takes
seconds."""

import threading
from typing import Any, Callable, Dict

import torch

from ._torch_ops import functions

_names: Dict[int, str] = {}
_lock = threading.Lock()


@torch.compiler.assume_constant_result
def register(function: Callable[..., Any]) -> str:
    """Returns a name for a function, and keeps the function forever: a graph may call the op at any time."""
    with _lock:
        name = _names.get(id(function))
        if name is None:
            name = _names[id(function)] = f"function{len(_names)}"
            functions[name] = function
    return name


@torch.compiler.disable
def outside(run: Callable[..., Any], *arguments: Any) -> Any:
    """Calls `run` outside of the graph, which it breaks."""
    return run(*arguments)
