"""flashc.attention of PyTorch's tensors, with gradients. A module of its own, since it imports PyTorch."""
from __future__ import annotations

import operator
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ._attention import attention_now, prepare, refuse_out, run
from ._attention_backward import Given, backward_of
from ._runtime.calls import refuse_gradient
from ._runtime.library import ArgumentError, Error, parse_flag
from ._runtime.options import Operands, Options
from ._runtime.vectors import with_philox
from ._trace.code import Code
from ._torch_tensors import autocast, is_mapped, suitable

#: The operands that have gradients, in the order of the backward pass's results.
DIFFERENTIABLE = "q", "k", "v", "sinks"
_differentiable = operator.attrgetter(*DIFFERENTIABLE)


def attend(operands: Operands, options: Options, out: Any) -> Any:
    """flashc.attention of tensors outside of graphs; checks `options`."""
    q, k, v = operands[:3]
    x, y, z = autocast(q, k, v)
    if x is not q or y is not k or z is not v:
        operands = operands._replace(q=x, k=y, v=z)
    if is_mapped(*operands):
        refuse_out(options, out, "in torch.func")
        from . import _torch_func
        return _torch_func.attention(operands, options.checked(operands.philox))
    if not torch.is_grad_enabled():
        return attention_now(operands, options.checked(operands.philox), out)
    refuse_gradient("scale", options.scale)
    return _recorded(operands, options.checked(operands.philox), out)


def _recorded(operands: Operands, options: Options, out: Any) -> Any:
    """flashc.attention while PyTorch records gradients."""
    given, call = operands.arrays(), None
    trained: List[str] = []
    captured: Sequence[Tensor] = ()
    is_recorded = out is None
    for name, x in given.items():
        if getattr(x, "requires_grad", False):
            trained.append(name)
        if not isinstance(x, Tensor) and name in DIFFERENTIABLE:
            is_recorded = False
    if is_recorded and (operands.mask is not None or operands.score is not None):
        operands = with_philox(operands, options)
        call = prepare(operands, options)
        captured = _trained_captures(call[2])
    is_recorded = is_recorded and bool(trained or captured)
    for name in trained:
        if not is_recorded or name not in DIFFERENTIABLE:
            refuse_gradient(name, given[name])
    if not is_recorded:
        if call is not None:
            return run(call, options.return_lse, records=True)
        return attention_now(operands, options, out, records=True)
    operands = with_philox(operands, options)
    if operands.philox is not None and not isinstance(operands.philox, Tensor):
        raise ArgumentError(f"expected philox to be a tensor as q, k and v are, got {type(operands.philox)!r}")
    code = None if call is None else call[2]
    o, lse = _Attention.apply(_Call(operands, options._replace(return_lse=True), code), *_differentiable(operands),
                              *captured)
    return (o, lse) if options.return_lse else o


class _Call(NamedTuple):
    operands: Operands
    options: Options
    #: The traced mask and score with the arrays that they read; another trace may find other arrays.
    code: Optional[Code]


def gradients(operands: Operands, options: Options, given: Given, captured: Sequence[Tensor] = (),
              code: Optional[Code] = None) -> Tuple[Dict[str, Tensor], List[Tensor]]:
    """Runs backward_of for gradients as PyTorch passes them: expanded, transposed, or None. Returns the gradients of
    the operands by name, and those of `captured`, in the types of `captured`."""
    do = torch.zeros_like(given.o) if given.do is None else suitable(given.do)
    given = given._replace(do=do, dlse=None if given.dlse is None else given.dlse.contiguous())
    options = options._replace(deterministic=is_deterministic(options.deterministic), schedule=None)
    with torch.no_grad():
        found = backward_of(operands, options, given, captured, code)
    names = [name for name in DIFFERENTIABLE if getattr(operands, name) is not None]
    of_captured = [gradient.to(x.dtype) for gradient, x in zip(found[len(names):], captured)]
    return dict(zip(names, found)), of_captured


def is_deterministic(deterministic: Optional[bool]) -> bool:
    """Whether gradients must be deterministic: as `deterministic` says, or if it is None, PyTorch's global setting."""
    if deterministic is None:
        return torch.are_deterministic_algorithms_enabled()
    return parse_flag("deterministic", deterministic)


def _trained_captures(code: Code) -> Sequence[Tensor]:
    """The tensors that the mask or the score reads and that require a gradient."""
    found = [array.owner for array in code.arrays if getattr(array.owner, "requires_grad", False)]
    return tuple({id(owner): owner for owner in found}.values()) if found else ()


def refuse_second_order(ctx: Any, *_: Any) -> Any:
    """The backward function of a backward pass, which is refused."""
    raise Error("expected gradients of first order: flashc.attention has no second derivative")


#: The placeholder of a tensor that autograd keeps (save_for_backward).
_SAVED = object()


class _Gradients(torch.autograd.Function):
    """The backward pass as a Function, so that a second derivative is refused, and not taken for 0."""

    @staticmethod
    def forward(ctx: Any, call: _Call, given: Given, captured: Sequence[Tensor],
                *recorded: Optional[Tensor]) -> Tuple[Optional[Tensor], ...]:
        found, of_captured = gradients(call.operands, call.options, given, captured, call.code)
        return (*map(found.get, DIFFERENTIABLE), *of_captured)

    backward = staticmethod(refuse_second_order)


class _Attention(torch.autograd.Function):
    """Attention with a backward pass of first order. Saves the operands that are tensors, o, the log-sum-exp, and the
    arrays that the mask and the score read: no matrix of scores."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *trained: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
        operands, options, code = call
        o, lse = attention_now(operands, options, code=code)
        saved: List[Tensor] = []
        others: List[Any] = []
        for x in operands:
            if isinstance(x, Tensor):
                saved.append(x)
                x = _SAVED
            others.append(x)
        read = () if code is None else [array.owner for array in code.arrays if isinstance(array.owner, Tensor)]
        ctx.save_for_backward(*saved, o, lse, *read)
        ctx.others, ctx.options, ctx.code, ctx.captured = others, options, code, trained[len(DIFFERENTIABLE):]
        ctx.set_materialize_grads(False)
        return o, lse

    @staticmethod
    def backward(ctx: Any, do: Optional[Tensor], dlse: Optional[Tensor]) -> Tuple[Optional[Tensor], ...]:
        found: Sequence[Optional[Tensor]] = (None,) * len(DIFFERENTIABLE + ctx.captured)
        if do is not None or dlse is not None:
            saved = iter(ctx.saved_tensors)  # PyTorch checks that none was written after the forward pass.
            operands = Operands._make([next(saved) if x is _SAVED else x for x in ctx.others])
            call = _Call(operands, ctx.options, ctx.code)
            found = _Gradients.apply(call, Given(next(saved), next(saved), do, dlse), ctx.captured,
                                     *_differentiable(operands), do, dlse, *ctx.captured)
        return (None, *found)
