"""flashc.attention in PyTorch's record of gradients. In a module of its own, which is imported where PyTorch is."""
from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ._attention import attention_now
from ._arrays.source import source_of
from ._attention_backward import backward_of
from ._runtime.dropout import parse_dropout, philox_of
from ._runtime.library import ArgumentError, Error, parse_flag
from ._runtime.specialization import check_inputs, check_layout, make_code
from ._trace.trace import Code
from ._torch_tensors import suitable

__all__ = ["code_of", "differentiable_attention", "gradients", "is_deterministic", "refuse_second_order", "trained_captures"]


def gradients(q: Tensor, k: Tensor, v: Tensor, sinks: Optional[Tensor], philox: Optional[Tensor], o: Tensor,
              lse: Tensor, do: Optional[Tensor], dlse: Optional[Tensor], deterministic: bool,
              captured: Sequence[Tensor] = (), code: Optional[Code] = None, **keywords: Any) -> Tuple[Optional[Tensor], ...]:
    """The backward pass (backward_of) of gradients as PyTorch hands them over: expanded, transposed, or none. Returns dq, dk,
    dv and dsinks, which is None without sinks, and the gradients of `captured`, of their types."""
    do = torch.zeros_like(o) if do is None else suitable(do)
    dlse = None if dlse is None else dlse.contiguous()
    with torch.no_grad():
        found = backward_of(code, q, k, v, o, lse, do, dlse=dlse, sinks=sinks, philox=philox, captured=captured,
                                   deterministic=deterministic, **keywords)
    dq, dk, dv, *dsinks = found[:len(found) - len(captured)]
    of_captured = [gradient.to(x.dtype) for gradient, x in zip(found[len(found) - len(captured):], captured)]
    return (dq, dk, dv, *(dsinks or [None]), *of_captured)


def is_deterministic(deterministic: Optional[bool]) -> bool:
    """What a call asks of its gradients; None: what PyTorch does of all."""
    if deterministic is None:
        return torch.are_deterministic_algorithms_enabled()
    return parse_flag("deterministic", deterministic)


def code_of(q: Tensor, k: Tensor, v: Tensor, mask: Any, score: Any, layout: str, enable_gqa: bool) -> Code:
    """The mask and the score of a call, traced."""
    arrays = [source_of(x).describe(x) for x in (q, k, v)]
    extents = check_inputs(*arrays, check_layout(layout), enable_gqa)
    stream = source_of(q).current_stream(arrays[0].device, arrays[0]) if arrays[0].device >= 0 else None
    return make_code(mask, score, extents, arrays[0].device, stream)


def trained_captures(code: Code) -> Sequence[Tensor]:
    """What the score reads that requires a gradient."""
    found = {id(array.owner): array.owner for array in code.arrays if getattr(array.owner, "requires_grad", False)}
    return tuple(found.values())


def refuse_second_order(ctx: Any, *_: Any) -> Any:
    """The backward pass of a backward pass."""
    raise Error("expected gradients of first order: flashc.attention has no second derivative")


class _Gradients(torch.autograd.Function):
    """Recorded with create_graph=True only, so that nobody takes what depends on q, k and v for a constant."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, sinks: Optional[Tensor],
                philox: Optional[Tensor], o: Tensor, lse: Tensor, do: Optional[Tensor], dlse: Optional[Tensor],
                deterministic: Optional[bool], keywords: Dict[str, Any],
                *captured: Tensor) -> Tuple[Optional[Tensor], ...]:
        return gradients(q, k, v, sinks, philox, o, lse, do, dlse, is_deterministic(deterministic), **keywords)

    backward = staticmethod(refuse_second_order)


class _Attention(torch.autograd.Function):
    """Keeps q, k, v, the sinks, the seed and the offset of dropout, o, the log-sum-exp, an array that is the mask, and
    what the score reads: nothing of size N x N that the caller has not. First order only."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, sinks: Optional[Tensor],
                philox: Optional[Tensor], mask: Any, schedule: Optional[str], code: Optional[Code],
                deterministic: Optional[bool], keywords: Dict[str, Any], *captured: Tensor) -> Tuple[Tensor, Tensor]:
        o, lse = attention_now(q, k, v, mask=mask, sinks=sinks, philox=philox, schedule=schedule, return_lse=True,
                               code=code, **keywords)
        is_tensor = isinstance(mask, Tensor)
        read = () if code is None else [array.owner for array in code.arrays if isinstance(array.owner, Tensor)]
        ctx.save_for_backward(q, k, v, sinks, philox, o, lse, mask if is_tensor else None, *read)
        # The code as it was traced, with the arrays that it found: another trace may find others.
        ctx.code, ctx.captured = code, captured
        ctx.mask, ctx.keywords, ctx.deterministic = mask, keywords, deterministic
        ctx.set_materialize_grads(False)
        return o, lse

    @staticmethod
    def backward(ctx: Any, do: Optional[Tensor], dlse: Optional[Tensor]) -> Tuple[Optional[Tensor], ...]:
        captured = ctx.captured
        if do is None and dlse is None:
            return (None,) * (10 + len(captured))
        saved = ctx.saved_tensors[:7]  # All are looked at: none may have been written since.
        keywords = {"mask": ctx.mask, "captured": captured, "code": ctx.code, **ctx.keywords}
        dq, dk, dv, dsinks, *of_captured = _Gradients.apply(*saved, do, dlse, ctx.deterministic, keywords, *captured)
        return (dq, dk, dv, dsinks, None, None, None, None, None, None, *of_captured)


def differentiable_attention(q: Tensor, k: Tensor, v: Tensor, return_lse: bool, mask: Any, sinks: Optional[Tensor],
                             dropout_p: float, philox: Any, schedule: Optional[str], code: Optional[Code],
                             deterministic: Optional[bool], **keywords: Any) -> Any:
    """flashc.attention of tensors, recorded. `code`: the mask and the score, traced, if there are any. `keywords`: those
    that the backward pass has, too; it chooses a schedule of its own."""
    if parse_dropout(dropout_p, philox):
        keywords["dropout_p"], philox = dropout_p, philox_of(q, philox)
        if not isinstance(philox, Tensor):
            raise ArgumentError(f"expected philox to be a tensor as q, k and v are, got {type(philox)!r}")
    captured = () if code is None else trained_captures(code)
    o, lse = _Attention.apply(q, k, v, sinks, philox, mask, schedule, code, deterministic, keywords, *captured)
    return (o, lse) if return_lse else o
