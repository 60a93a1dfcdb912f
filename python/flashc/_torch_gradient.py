"""flashc.attention in PyTorch's record of gradients. In a module of its own, which is imported where PyTorch is."""
from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import torch
from torch import Tensor

from ._attention import attention_now
from ._attention_backward import attention_backward
from ._runtime.library import Error

__all__ = ["differentiable_attention"]


class _Gradients(torch.autograd.Function):
    """Recorded with create_graph=True only, so that nobody takes what depends on q, k and v for a constant."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor, dlse: Optional[Tensor],
                keywords: Dict[str, Any]) -> Tuple[Tensor, Tensor, Tensor]:
        return attention_backward(q, k, v, o, lse, do, dlse=dlse, **keywords)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise Error("expected gradients of first order: flashc.attention has no second derivative")


class _Attention(torch.autograd.Function):
    """Keeps q, k, v, o and the log-sum-exp: nothing of size N x N. First order only."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, keywords: Dict[str, Any]) -> Tuple[Tensor, Tensor]:
        o, lse = attention_now(q, k, v, return_lse=True, records_gradients=True, **keywords)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.keywords = keywords
        ctx.set_materialize_grads(False)
        return o, lse

    @staticmethod
    def backward(ctx: Any, do: Optional[Tensor], dlse: Optional[Tensor]) -> Tuple[Optional[Tensor], ...]:
        if do is None and dlse is None:
            return None, None, None, None
        q, k, v, o, lse = ctx.saved_tensors
        do = torch.zeros_like(o) if do is None else _with_contiguous_rows(do)
        dlse = None if dlse is None else _with_contiguous_rows(dlse)
        return (*_Gradients.apply(q, k, v, o, lse, do, dlse, ctx.keywords), None)


def _with_contiguous_rows(x: Tensor) -> Tensor:
    """`x`, or a copy of what PyTorch has expanded or transposed."""
    return x if x.stride(-1) == 1 else x.contiguous()


def differentiable_attention(q: Tensor, k: Tensor, v: Tensor, return_lse: bool, **keywords: Any) -> Any:
    """flashc.attention of tensors on the CPU, recorded; `keywords`: those that the backward pass has, too."""
    o, lse = _Attention.apply(q, k, v, keywords)
    return (o, lse) if return_lse else o
