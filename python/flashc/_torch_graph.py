"""Functions of flashc.torch that run while Dynamo traces a graph. They are in a separate module, because importing
Dynamo takes seconds."""

import threading
from typing import Any, Callable, Dict

import torch

from ._torch_ops import functions

_names: Dict[int, str] = {}
_lock = threading.Lock()


@torch.compiler.assume_constant_result
def register(function: Callable[..., Any]) -> str:
    """Returns a name for a function. The function is kept forever, since a graph may call the op at any time."""
    with _lock:
        name = _names.get(id(function))
        if name is None:
            name = _names[id(function)] = f"function{len(_names)}"
            functions[name] = function
    return name


@torch.compiler.disable
def outside(run: Callable[..., Any], *arguments: Any) -> Any:
    """Calls `run` outside of the graph. This breaks the graph."""
    return run(*arguments)
