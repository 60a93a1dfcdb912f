"""flashc.attention inside of torch.func's transforms (`grad`, `vmap`, and those built on them). vmap over q, k, v and
masks becomes one call with a larger batch. With sinks or dropout it becomes a loop."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ._attention import attention_now
from ._runtime.library import ArgumentError, Error
from ._runtime.options import VECTORS, Operands, Options
from ._runtime.vectors import with_philox
from ._torch_gradient import DIFFERENTIABLE, gradients, refuse_second_order
from ._torch_ops import no_sums
from ._torch_tensors import suitable
from ._trace.trace import call_mask, call_score

#: The operands that may be tensors. A mask may also be a function.
_TENSORS = tuple(name for name in Operands._fields if name != "score")


class _Call:
    """The arguments of a call that are no tensors. torch.func does not look inside this object."""

    def __init__(self, options: Options, mask: Any, score: Any) -> None:
        self.options, self.mask, self.score = options, mask, score

    def of_batches(self, batch: int) -> "_Call":
        """Returns the call for concatenated batches of size `batch`. The mask and the score get the number within the
        original batch."""
        mask, score = self.mask, self.score

        def keep(b: Any, h: Any, i: Any, j: Any) -> Any:
            return call_mask(mask, b % batch, h, i, j)

        def rescore(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return call_score(score, s, b % batch, h, i, j)
        return _Call(self.options, None if mask is None else keep, None if score is None else rescore)

    def operands(self, tensors: Sequence[Optional[Tensor]]) -> Operands:
        given = dict(zip(_TENSORS, tensors))
        given.update({name: suitable(given[name]) for name in "qkv"})
        if given["mask"] is None:
            given["mask"] = self.mask
        return Operands(score=self.score, **given)


def _folded(x: Optional[Tensor], dim: Optional[int], size: int) -> Optional[Tensor]:
    """Folds vmap's dimension into the batch: [size * B, ...]. If x has no such dimension, x is repeated."""
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
    """The vmap rule of a Function. It folds vmap's dimension into the batch. If there are sinks or a philox, which have
    no batch, it loops instead. The last argument is the _Call."""
    size, call = info.batch_size, arguments[-1]
    vectors = [_TENSORS.index(name) for name in VECTORS]
    if any(arguments[place] is not None for place in vectors):
        return _loop(apply, size, in_dims, arguments)
    batch = arguments[0].shape[0 if in_dims[0] is None else 1 if in_dims[0] == 0 else 0]
    folded: List[Any] = []
    for place, (x, dim) in enumerate(zip(arguments[:-1], in_dims)):
        if place == _TENSORS.index("mask"):
            folded.append(_folded_mask(x, dim, size, batch))
        else:
            folded.append(x if place in vectors else _folded(x, dim, size))
    results = apply(*folded, call.of_batches(batch))
    found = tuple(x.unflatten(0, (size, batch)) if x.dim() > 1 else x for x in results)
    return found, tuple(0 if x.dim() > 2 else None for x in found)


def _loop(apply: Callable[..., Any], size: int, in_dims: Sequence[Any], arguments: Sequence[Any]) -> Any:
    results = [apply(*(x if dim is None else x.select(dim, number) for x, dim in zip(arguments, in_dims)))
               for number in range(size)]
    return tuple(torch.stack(list(parts)) for parts in zip(*results)), (0,) * len(results[0])


class _Attention(torch.autograd.Function):
    """Computes (o, lse) from _TENSORS and a _Call."""

    @staticmethod
    def forward(*arguments: Any) -> Tuple[Tensor, Tensor]:
        *tensors, call = arguments
        with torch.no_grad():
            return attention_now(call.operands(tensors), call.options._replace(return_lse=True))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        *tensors, ctx.call = inputs
        ctx.save_for_backward(*tensors, *output)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, do: Optional[Tensor], dlse: Optional[Tensor]) -> Any:
        found: Dict[str, Tensor] = {}
        if do is not None or dlse is not None:
            if ctx.needs_input_grad[_TENSORS.index("mask")]:
                raise Error("expected a mask without gradients in torch.func: call flashc.attention outside of it")
            *tensors, o, lse = ctx.saved_tensors
            do = torch.zeros_like(o) if do is None else do
            found = dict(zip(DIFFERENTIABLE, _Gradients.apply(*tensors, o, lse, do, dlse, ctx.call)))
            if tensors[_TENSORS.index("sinks")] is None:
                del found["sinks"]
        return (*(found.get(name) for name in _TENSORS), None)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        return _map(_Attention.apply, info, in_dims, arguments)


class _Gradients(torch.autograd.Function):
    """Computes the gradients of DIFFERENTIABLE from _TENSORS, o, lse, the gradients of o and lse, and a _Call. Without
    sinks, the gradient of sinks is a tensor without elements."""

    @staticmethod
    def forward(*arguments: Any) -> Tuple[Tensor, ...]:
        *tensors, o, lse, do, dlse, call = arguments
        operands = call.operands(tensors)
        with torch.no_grad():
            found = gradients(operands, call.options, (suitable(o), lse.contiguous(), do, dlse))
        return tuple(no_sums(operands.q) if gradient is None else gradient for gradient in found)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Saves nothing, since there is no second derivative."""

    backward = staticmethod(refuse_second_order)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        return _map(_Gradients.apply, info, in_dims, arguments)


def attention(operands: Operands, options: Options) -> Any:
    """Computes `flashc.attention` for tensors of torch.func. `options` are checked already."""
    operands, mask = with_philox(operands, options), operands.mask
    is_array = isinstance(mask, Tensor)
    if mask is not None and not is_array and not callable(mask):
        raise ArgumentError(f"expected mask to be a tensor or a function in torch.func, got {type(mask)!r}")
    tensors = operands if is_array else operands._replace(mask=None)
    o, lse = _Attention.apply(*(getattr(tensors, name) for name in _TENSORS),
                              _Call(options, None if is_array else mask, operands.score))
    return (o, lse) if options.return_lse else o
