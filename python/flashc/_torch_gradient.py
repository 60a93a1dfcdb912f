"""flashc.attention in PyTorch's record of gradients. In a module of its own, which is imported where PyTorch is."""
from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import torch
from torch import Tensor

from ._attention import attention_now
from ._attention_backward import attention_backward
from ._runtime.dropout import parse_dropout, philox_of
from ._runtime.library import ArgumentError, Error
from ._torch_tensors import suitable

__all__ = ["differentiable_attention", "gradients", "refuse_second_order"]


def gradients(q: Tensor, k: Tensor, v: Tensor, sinks: Optional[Tensor], philox: Optional[Tensor], o: Tensor,
              lse: Tensor, do: Optional[Tensor], dlse: Optional[Tensor], deterministic: bool,
              **keywords: Any) -> Tuple[Optional[Tensor], ...]:
    """flashc.attention_backward of gradients as PyTorch hands them over: expanded, transposed, or none. Returns dq, dk,
    dv and dsinks, which is None without sinks."""
    do = torch.zeros_like(o) if do is None else suitable(do)
    dlse = None if dlse is None else dlse.contiguous()
    with torch.no_grad():
        found = attention_backward(q, k, v, o, lse, do, dlse=dlse, sinks=sinks, philox=philox,
                                   deterministic=deterministic, **keywords)
    return (*found, None) if sinks is None else found


def refuse_second_order(ctx: Any, *_: Any) -> Any:
    """The backward pass of a backward pass."""
    raise Error("expected gradients of first order: flashc.attention has no second derivative")


class _Gradients(torch.autograd.Function):
    """Recorded with create_graph=True only, so that nobody takes what depends on q, k and v for a constant."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, sinks: Optional[Tensor],
                philox: Optional[Tensor], o: Tensor, lse: Tensor, do: Optional[Tensor], dlse: Optional[Tensor],
                keywords: Dict[str, Any]) -> Tuple[Optional[Tensor], ...]:
        return gradients(q, k, v, sinks, philox, o, lse, do, dlse, torch.are_deterministic_algorithms_enabled(),
                         **keywords)

    backward = staticmethod(refuse_second_order)


class _Attention(torch.autograd.Function):
    """Keeps q, k, v, the sinks, the seed and the offset of dropout, o, the log-sum-exp and an array that is the mask:
    nothing of size N x N that the caller has not. First order only."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, sinks: Optional[Tensor],
                philox: Optional[Tensor], mask: Any, schedule: Optional[str],
                keywords: Dict[str, Any]) -> Tuple[Tensor, Tensor]:
        o, lse = attention_now(q, k, v, mask=mask, sinks=sinks, philox=philox, schedule=schedule, return_lse=True,
                               records_gradients=True, **keywords)
        is_tensor = isinstance(mask, Tensor)
        ctx.save_for_backward(q, k, v, sinks, philox, o, lse, mask if is_tensor else None)
        ctx.mask, ctx.keywords = None if is_tensor else mask, keywords
        ctx.set_materialize_grads(False)
        return o, lse

    @staticmethod
    def backward(ctx: Any, do: Optional[Tensor], dlse: Optional[Tensor]) -> Tuple[Optional[Tensor], ...]:
        if do is None and dlse is None:
            return (None,) * 8
        *saved, mask = ctx.saved_tensors
        keywords = {"mask": ctx.mask if mask is None else mask, **ctx.keywords}
        return (*_Gradients.apply(*saved, do, dlse, keywords), None, None, None, None)


def differentiable_attention(q: Tensor, k: Tensor, v: Tensor, return_lse: bool, mask: Any, sinks: Optional[Tensor],
                             dropout_p: float, philox: Any, schedule: Optional[str], **keywords: Any) -> Any:
    """flashc.attention of tensors, recorded. `keywords`: those that the backward pass has, too; it chooses a schedule
    of its own."""
    if parse_dropout(dropout_p, philox):
        keywords["dropout_p"], philox = dropout_p, philox_of(q, philox)
        if not isinstance(philox, Tensor):
            raise ArgumentError(f"expected philox to be a tensor as q, k and v are, got {type(philox)!r}")
    o, lse = _Attention.apply(q, k, v, sinks, philox, mask, schedule, keywords)
    return (o, lse) if return_lse else o
