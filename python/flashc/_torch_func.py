"""flashc.attention of the tensors of torch.func: in `grad`, `vmap` and what is made of them. vmap over q, k and v is one
call with a larger batch; over anything else it is a loop."""
from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ._attention import attention_now
from ._runtime.dropout import parse_dropout, philox_of
from ._runtime.library import ArgumentError, Error
from ._torch_gradient import gradients, is_deterministic, refuse_second_order
from ._torch_ops import no_sums
from ._torch_tensors import suitable

__all__ = ["attention"]


class _Options:
    """The keywords of a call that are no tensors; as one object, of which torch.func takes no parts."""

    def __init__(self, deterministic: Optional[bool], mask: Any, score: Any, **keywords: Any) -> None:
        self.deterministic, self.mask, self.score, self.keywords = deterministic, mask, score, keywords

    def of_batches(self, batch: int) -> "_Options":
        """For a batch that has one of `batch` after the other: functions see the number within each."""
        def within(function: Any, first: int) -> Any:
            if function is None:
                return None
            return lambda *arguments: function(*arguments[:first], arguments[first] % batch, *arguments[first + 1:])
        return _Options(self.deterministic, within(self.mask, 0), within(self.score, 1), **self.keywords)


class _Inputs(NamedTuple):
    """Tensors of a call: [B, ...], the mask as an array that broadcasts, sinks [Hq], philox [2]."""
    q: Tensor
    k: Tensor
    v: Tensor
    mask_array: Optional[Tensor]
    sinks: Optional[Tensor]
    philox: Optional[Tensor]


def _folded(x: Optional[Tensor], dim: Optional[int], size: int) -> Optional[Tensor]:
    """[size, B, ...] as [size * B, ...]; what has no such dimension is repeated."""
    if x is None:
        return None
    return (x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)).flatten(0, 1)


def _folded_mask(mask: Optional[Tensor], dim: Optional[int], size: int, batch: int) -> Optional[Tensor]:
    if mask is None:
        return None
    inner = mask.dim() - (dim is not None)
    if dim is None and (inner < 4 or mask.shape[0] == 1):
        return mask
    mask = mask.expand(size, *mask.shape) if dim is None else mask.movedim(dim, 0)
    mask = mask.reshape(mask.shape[0], *(1,) * (4 - inner), *mask.shape[1:])
    return mask.expand(-1, batch, -1, -1, -1).flatten(0, 1)


def _map(apply: Callable[..., Any], info: Any, in_dims: Sequence[Any], arguments: Sequence[Any]) -> Any:
    """A rule of vmap: all arguments but sinks and philox, which have no batch, and the options, the last one, become one
    larger batch."""
    size, options = info.batch_size, arguments[-1]
    others = (_Inputs._fields.index("sinks"), _Inputs._fields.index("philox"))
    if any(arguments[place] is not None for place in others):
        return _loop(apply, size, in_dims, arguments)
    batch = arguments[0].shape[0 if in_dims[0] is None else 1 if in_dims[0] == 0 else 0]
    folded: List[Any] = []
    for place, (x, dim) in enumerate(zip(arguments[:-1], in_dims)):
        if place == _Inputs._fields.index("mask_array"):
            folded.append(_folded_mask(x, dim, size, batch))
        else:
            folded.append(x if place in others else _folded(x, dim, size))
    results = apply(*folded, options.of_batches(batch))
    found = tuple(x.unflatten(0, (size, batch)) if x.dim() > 1 else x for x in results)
    return found, tuple(0 if x.dim() > 2 else None for x in found)


def _loop(apply: Callable[..., Any], size: int, in_dims: Sequence[Any], arguments: Sequence[Any]) -> Any:
    results = [apply(*(x if dim is None else x.select(dim, number) for x, dim in zip(arguments, in_dims)))
               for number in range(size)]
    return tuple(torch.stack(list(parts)) for parts in zip(*results)), (0,) * len(results[0])


class _Attention(torch.autograd.Function):
    """(o, lse) of _Inputs and options."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, mask_array: Optional[Tensor], sinks: Optional[Tensor],
                philox: Optional[Tensor], options: _Options) -> Tuple[Tensor, Tensor]:
        with torch.no_grad():
            return attention_now(suitable(q), suitable(k), suitable(v), sinks=sinks, philox=philox, return_lse=True,
                                 mask=options.mask if mask_array is None else mask_array, score=options.score,
                                 **options.keywords)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        *tensors, ctx.options = inputs
        ctx.save_for_backward(*tensors, *output)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, do: Optional[Tensor], dlse: Optional[Tensor]) -> Any:
        if do is None and dlse is None:
            return (None,) * 7
        if ctx.needs_input_grad[3]:
            raise Error("expected a mask without gradients in torch.func: call flashc.attention outside of it")
        *tensors, o, lse = ctx.saved_tensors
        do = torch.zeros_like(o) if do is None else do
        dq, dk, dv, dsinks = _Gradients.apply(*tensors, o, lse, do, dlse, ctx.options)
        return dq, dk, dv, None, None if tensors[4] is None else dsinks, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        return _map(_Attention.apply, info, in_dims, arguments)


class _Gradients(torch.autograd.Function):
    """dq, dk, dv and dsinks of _Inputs, o, lse and their gradients; without sinks a tensor without elements."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, mask_array: Optional[Tensor], sinks: Optional[Tensor],
                philox: Optional[Tensor], o: Tensor, lse: Tensor, do: Tensor, dlse: Optional[Tensor],
                options: _Options) -> Tuple[Tensor, ...]:
        dq, dk, dv, dsinks = gradients(suitable(q), suitable(k), suitable(v), sinks, philox, suitable(o),
                                       lse.contiguous(), do, dlse, is_deterministic(options.deterministic),
                                       mask=options.mask if mask_array is None else mask_array, score=options.score,
                                       **options.keywords)
        return dq, dk, dv, no_sums(q) if dsinks is None else dsinks

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is kept: there is no second derivative."""

    backward = staticmethod(refuse_second_order)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        return _map(_Gradients.apply, info, in_dims, arguments)


def attention(q: Tensor, k: Tensor, v: Tensor, *, mask: Any, score: Any, sinks: Optional[Tensor], dropout_p: float,
              philox: Any, return_lse: bool, deterministic: Optional[bool], **keywords: Any) -> Any:
    """What `flashc.attention` calls with tensors of torch.func, with the same arguments and result."""
    if parse_dropout(dropout_p, philox):
        keywords["dropout_p"], philox = dropout_p, philox_of(q, philox)
    mask_array = mask if isinstance(mask, Tensor) else None
    if mask is not None and mask_array is None and not callable(mask):
        raise ArgumentError(f"expected mask to be a tensor or a function in torch.func, got {type(mask)!r}")
    options = _Options(deterministic, None if mask_array is not None else mask, score, **keywords)
    o, lse = _Attention.apply(*_Inputs(q, k, v, mask_array, sinks, philox), options)
    return (o, lse) if return_lse else o
