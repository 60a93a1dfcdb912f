"""Preparation of PyTorch's tensors for a call: autocast, and copies with strides that kernels can read."""
from __future__ import annotations

import functools
from typing import Any, Callable, Optional, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ._runtime.library import Error

GRANULE = 8  # The elements of 16 bits in 16 bytes, the unit of the kernels' copies.

if hasattr(torch, "get_autocast_dtype"):
    def _autocast_dtype(device: str) -> Optional[torch.dtype]:
        return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
else:
    def _autocast_dtype(device: str) -> Optional[torch.dtype]:
        """The same for PyTorch before 2.4."""
        if device == "cuda":
            return torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else None
        return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None


#: Whether autocast is enabled for any device. Every call asks this first.
is_any_autocast: Callable[[], bool] = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)
_is_wrapped: Callable[[Tensor], bool] = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor",
                                                lambda x: False)


#: The level of torch.func, or None outside of it.
level: Callable[[], Optional[int]] = getattr(getattr(torch._C, "_functorch", None), "maybe_current_level", lambda: 0)


def is_mapped(*arrays: Any) -> bool:
    """Whether one of the arrays is a tensor of torch.func, which has no memory of its own."""
    return level() is not None and any(isinstance(x, Tensor) and _is_wrapped(x) for x in arrays)


def refuse_tangents(*arrays: Any) -> None:
    """Refuses tensors of forward-mode differentiation, whose tangents would be lost."""
    if any(isinstance(x, Tensor) and forward_ad.unpack_dual(x).tangent is not None for x in arrays):
        raise Error("expected tensors without tangents: flashc.attention has no derivative in forward mode")


def autocast(*tensors: Any) -> Sequence[Any]:
    """Casts the tensors as torch.autocast does for PyTorch's own attention: all floats except f64 get autocast's
    type."""
    if not is_any_autocast():
        return tensors
    device = tensors[0].device.type
    dtype = _autocast_dtype(device) if device in ("cuda", "cpu") else None
    if dtype is None:
        return tensors
    return tuple(x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() and x.dtype != torch.float64 else x
                 for x in tensors)


@functools.lru_cache(maxsize=1024)
def _are_suitable(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether kernels can read a tensor with these extents and strides."""
    *outer, inner = strides
    return inner == 1 and not any([stride % GRANULE or stride <= 0 and extent > 1
                                   for stride, extent in zip(outer, shape)])


def suitable(x: Tensor) -> Tensor:
    """Returns `x`, or a copy if the kernels cannot read `x`. They need a contiguous innermost dimension, an address and
    other strides that are multiples of 16 bytes, and elements that do not share memory."""
    if x.data_ptr() % 16 == 0 and _are_suitable(x.shape, x.stride()):
        return x
    # The copy keeps the order of the dimensions in memory, because the result has the same order.
    if x.stride(-3) < x.stride(-2):
        return x.transpose(-3, -2).clone(memory_format=torch.contiguous_format).transpose(-3, -2)
    return x.clone(memory_format=torch.contiguous_format)
