"""flashc.attention of PyTorch's tensors, with gradients. A module of its own, since it imports PyTorch."""
from __future__ import annotations

import functools
import operator
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ._attention import Call, attention_now, prepare, refuse_out, run, with_lse
from ._attention_backward import backward_of
from ._packed import Packed
from ._runtime.calls import refuse_gradient
from ._runtime.library import ArgumentError, Error, parse_flag
from ._runtime.options import Operands, Options
from ._runtime.vectors import with_philox
from ._trace.code import Code
from ._torch_tensors import autocast, forward_ad, is_any_autocast, is_mapped, level, refuse_tangents, suitable

#: The operands that have gradients, in the order of the backward pass's results.
DIFFERENTIABLE = "q", "k", "v", "sinks"
_differentiable = operator.attrgetter(*DIFFERENTIABLE)


def attend(operands: Operands, options: Options, out: Any) -> Any:
    """flashc.attention of tensors outside of graphs; checks `options`."""
    if forward_ad._current_level >= 0:
        refuse_tangents(*operands)
    if is_any_autocast():
        operands = Operands(*autocast(*operands[:3]), *operands[3:])
    if level() is not None and is_mapped(*operands) and type(operands.mask) is not Packed:
        refuse_out(options, out, "in torch.func")
        from . import _torch_func
        return _torch_func.attention(operands, options.checked(operands.philox))
    if not torch.is_grad_enabled():
        return attention_now(operands, options.checked(operands.philox), out)
    if options.scale is not None:
        refuse_gradient("scale", options.scale)
    return _recorded(operands, options.checked(operands.philox), out)


def _recorded(operands: Operands, options: Options, out: Any) -> Any:
    """flashc.attention while PyTorch records gradients."""
    if out is not None:
        return attention_now(operands, options, out, records=True, refuses=True)
    if options.dropout_p:
        operands = with_philox(operands, options)
    call = prepare(operands, options)
    inputs, _, code = call
    captured = _trained_captures(code) if code.arrays else ()
    if not inputs.trained and not captured:
        return run(call, options.return_lse)
    tensors = _differentiable(operands)
    if not all([x is None or isinstance(x, Tensor) for x in tensors]) or not set(inputs.trained) <= set(DIFFERENTIABLE):
        inputs.refuse_trained()
        return run(call, options.return_lse, records=True)
    if operands.philox is not None and not isinstance(operands.philox, Tensor):
        raise ArgumentError(f"expected philox to be a tensor as q, k and v are, got {type(operands.philox)!r}")
    o, lse = _Attention.apply(operands, options, with_lse(call, options), *tensors, *captured)
    return (o, lse) if options.return_lse else o


def gradients(operands: Operands, options: Options, given: Sequence[Any], captured: Sequence[Tensor] = (),
              code: Optional[Code] = None) -> Tuple[Optional[Tensor], ...]:
    """Runs backward_of for o, lse and their gradients as PyTorch passes them: expanded, transposed, or None. PyTorch
    may not record gradients meanwhile. Returns the gradients of DIFFERENTIABLE, with None for sinks that are not given,
    and those of `captured` in the types of `captured`."""
    o, lse, do, dlse = given
    do = torch.zeros_like(o) if do is None else suitable(do)
    dlse = None if dlse is None else dlse.contiguous()
    options = _backward_options(options, is_deterministic(options.deterministic))
    found = backward_of(operands, options, (o, lse, do, dlse), captured, code, None, False)
    count = len(found) - len(captured)
    if captured:
        found = (*found[:count], *[gradient.to(x.dtype) for gradient, x in zip(found[count:], captured)])
    return found if count == len(DIFFERENTIABLE) else (*found[:count], None, *found[count:])


@functools.lru_cache(maxsize=1024)
def _backward_options(options: Options, deterministic: bool) -> Options:
    return options._replace(deterministic=deterministic, schedule=None)


def is_deterministic(deterministic: Optional[bool]) -> bool:
    """Whether gradients must be deterministic: as `deterministic` says, or if it is None, PyTorch's global setting."""
    if deterministic is None:
        return torch.are_deterministic_algorithms_enabled()
    return parse_flag("deterministic", deterministic)


def _trained_captures(code: Code) -> Sequence[Tensor]:
    """The tensors that the mask or the score reads and that require a gradient."""
    found = {}
    for array in code.arrays:
        if getattr(array.owner, "requires_grad", False):
            found[id(array.owner)] = array.owner
    return tuple(found.values())


def refuse_second_order(ctx: Any, *_: Any) -> Any:
    """The backward function of a backward pass, which is refused."""
    raise Error("expected gradients of first order: flashc.attention has no second derivative")


#: The placeholder of a tensor that autograd keeps (save_for_backward).
_SAVED = object()


class _Gradients(torch.autograd.Function):
    """The backward pass as a Function, so that a second derivative is refused, and not taken for 0."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tuple[Optional[Tensor], ...]:
        """The first arguments are those of `gradients`, the others the tensors on which the results depend."""
        return gradients(*arguments[:5])

    backward = staticmethod(refuse_second_order)


def _rebound(code: Code, tensors: Iterator[Tensor]) -> Code:
    """Returns the code with the tensors that autograd has kept for its arrays. Hooks on saved tensors, such as
    save_on_cpu, return them in other memory, since the arrays may change before the backward pass."""
    arrays, moved = list(code.arrays), {}
    for number, array in enumerate(arrays):
        if isinstance(array.owner, Tensor):
            x = next(tensors)
            if x.data_ptr() != array.address:
                if tuple(x.stride()) != tuple(array.strides):
                    x = torch.empty_strided(array.shape, array.strides, dtype=x.dtype, device=x.device).copy_(x)
                arrays[number] = array._replace(owner=x, address=x.data_ptr())
                moved[number] = x.data_ptr() - array.address
    if not moved:
        return code
    bound = list(code.bound)
    places = [place for place, one in enumerate(bound) if one.extents]
    if len(places) != len(arrays):
        raise Error("expected arrays of masks and scores whose memory hooks on saved tensors keep")
    for number, distance in moved.items():
        bound[places[number]] = bound[places[number]]._replace(address=bound[places[number]].address + distance)
    return code._replace(arrays=tuple(arrays), bound=tuple(bound))


class _Attention(torch.autograd.Function):
    """Attention with a backward pass of first order. Saves the operands that are tensors, o, the log-sum-exp, and the
    arrays that the mask and the score read: no matrix of scores."""

    @staticmethod
    def forward(ctx: Any, operands: Operands, options: Options, call: Call,
                *trained: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
        # The backward pass uses the same code; another trace may find other arrays.
        (o, lse), code = run(call, True), call[2]
        saved: List[Tensor] = []
        others: List[Any] = []
        for x in operands:
            if isinstance(x, Tensor):
                saved.append(x)
                x = _SAVED
            others.append(x)
        read = [array.owner for array in code.arrays if isinstance(array.owner, Tensor)] if code.arrays else ()
        ctx.save_for_backward(*saved, o, lse, *read)
        ctx.others, ctx.options, ctx.code, ctx.captured = others, options, code, trained[len(DIFFERENTIABLE):]
        ctx.set_materialize_grads(False)
        return o, lse

    @staticmethod
    def backward(ctx: Any, do: Optional[Tensor], dlse: Optional[Tensor]) -> Tuple[Optional[Tensor], ...]:
        found: Sequence[Optional[Tensor]] = (None,) * len(DIFFERENTIABLE + ctx.captured)
        if do is not None or dlse is not None:
            saved = iter(ctx.saved_tensors)  # PyTorch checks that none was written after the forward pass.
            operands = Operands(*[next(saved) if x is _SAVED else x for x in ctx.others])
            given = next(saved), next(saved), do, dlse
            code = _rebound(ctx.code, saved) if ctx.code.arrays else ctx.code
            arguments = operands, ctx.options, given, ctx.captured, code
            # PyTorch records gradients of gradients only if the caller asks for them.
            found = gradients(*arguments) if not torch.is_grad_enabled() else _Gradients.apply(
                *arguments, *_differentiable(operands), do, dlse, *ctx.captured)
        return (None, None, None, *found)
