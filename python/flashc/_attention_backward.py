"""flashc.attention_backward: the gradients of attention."""
from __future__ import annotations

import functools
from typing import Any, Callable, Optional, Sequence, Tuple, Union

from ._arrays.protocol import ArrayLike
from ._captured_gradients import captured_gradients
from ._packed import Packed, with_batch_of_one
from ._runtime.calls import Case, Inputs, attention_case, case_of
from ._runtime.launch import Result, lies_exchanged, read_outs
from ._runtime.library import ATTENTION_BACKWARD, ArgumentError, UnsupportedTypeError, parse_flag
from ._runtime.options import Operands, Options, Window
from ._runtime.public import public
from ._runtime.specialization import Extents, check_inputs, make_code, specialize, sum_dtype, target_of
from ._runtime.vectors import as_type_of, check_vectors
from ._trace.code import Code


@public
def attention_backward(q: ArrayLike, k: ArrayLike, v: ArrayLike, o: ArrayLike, lse: ArrayLike, do: ArrayLike, *,
                       dlse: Optional[ArrayLike] = None, causal: bool = False, window: Window = None,
                       scale: Optional[float] = None, mask: Union[ArrayLike, Callable[..., Any], None] = None,
                       score: Optional[Callable[..., Any]] = None, sinks: Optional[ArrayLike] = None,
                       dropout_p: float = 0.0, philox: Optional[ArrayLike] = None, captured: Sequence[ArrayLike] = (),
                       enable_gqa: bool = False, layout: str = "bhsd", deterministic: bool = False, out: Any = None,
                       schedule: Optional[str] = None, static_shapes: bool = False) -> Tuple[Any, ...]:
    """The gradients of q, k and v, from the gradient of attention's output. The matrix of scores is computed again from
    the log-sum-exp, and the derivative of the score function is derived from its code.

        o, lse = flashc.attention(q, k, v, causal=True, return_lse=True)
        dq, dk, dv = flashc.attention_backward(q, k, v, o, lse, do, causal=True)

    Args:
        q, k, v, causal, window, scale, mask, score, sinks, dropout_p, philox, enable_gqa, layout, schedule,
            static_shapes: as for `flashc.attention`, and the same as in the call that gave `o` and `lse`; dropout needs
            the `philox` of that call.
        captured: arrays of bf16, f16, f32 or f64 that the score reads, and whose gradients are wanted too. Pass the
            same objects that the score refers to. A mask that is an array of numbers may be one of them.
            docs/captured-gradients.md says how the score may index them.
        o: the output, in the shape and the element type that attention gives it: [B, Hq, Nq, Dv] or [B, Nq, Hq, Dv].
        lse: the log-sum-exp of each query's scores, [B, Hq, Nq] in f32 in either layout.
        do: the gradient of o, in the shape and the element type of o.
        dlse: the gradient of lse, in the shape of lse and in f32; None: zeros.
        deterministic: True: equal arguments give equal bits in every run. False: sums may be added up in any order
            where that is faster. While PyTorch records gradients, `flashc.attention(deterministic=...)` decides
            instead.
        out: arrays for the results: (dq, dk, dv), and dsinks if there are sinks, with None for a new array.

    Returns:
        (dq, dk, dv), then dsinks if there are sinks, then the gradient of each array of `captured`. dq, dk, dv and
        dsinks have the shapes and the element types of q, k, v and sinks, each in an array of its input's framework
        that lies in memory as the input does. dk and dv are sums over the query heads of a key head; dsinks [Hq] is a
        sum over batches and queries, always taken in one order. A gradient of `captured` is in f32 (f64 for q of f64),
        has its array's shape, and equal bits in every run. A query that sees no key has dq = 0 and adds nothing to dk
        and dv.

    Raises:
        as `flashc.attention`.
    """
    parse_flag("deterministic", deterministic)
    options = Options(causal, window, scale, dropout_p, enable_gqa, False, layout, schedule, static_shapes,
                      deterministic)
    return backward_of(Operands(q, k, v, mask, score, sinks, philox), options.checked(philox), (o, lse, do, dlse),
                       captured, out=out)


def backward_of(operands: Operands, options: Options, given: Sequence[Any], captured: Sequence[Any] = (),
                code: Optional[Code] = None, out: Any = None, refuses: bool = True) -> Tuple[Any, ...]:
    """Computes flashc.attention_backward with checked `options`. `given`: (o, lse, do, dlse). `code` is the
    mask and the score as the forward pass traced them, because arrays that these refer to may have changed since
    then. `refuses`: whether arrays that require a gradient are refused if PyTorch records gradients."""
    if not isinstance(captured, (tuple, list)):
        raise UnsupportedTypeError(f"expected captured to be a tuple or a list of arrays, got {type(captured)!r}")
    sinks = operands.sinks
    outs = () if out is None else read_outs(out, ["dq", "dk", "dv", *([] if sinks is None else ["dsinks"])])
    if options.dropout_p and operands.philox is None:
        raise ArgumentError("expected philox, that of the forward pass, together with dropout_p")
    o, lse, do, dlse = given
    is_packed = type(operands.mask) is Packed
    offsets = operands.mask.arrays() if is_packed else {}
    arrays = {**operands.arrays(), **offsets, "o": o, "lse": lse, "do": do}
    if dlse is not None:
        arrays["dlse"] = dlse
    inputs = Inputs(arrays, refuses)
    if sinks is not None:
        inputs.widen("sinks", sum_dtype(inputs["q"].dtype))
    case = case_of(_case, inputs, _options_of(options, dlse is not None))
    if code is None and is_packed:
        code = operands.mask.code(inputs, case, options)
    elif code is None:
        code = make_code(operands.mask, operands.score, case.extents, inputs.device, inputs.stream)
    if code.arrays:
        inputs.prepare_code(code, None if refuses else False)
    results = case(inputs, code, outs)
    if sinks is not None:
        if case.is_empty and dlse is not None:  # Without keys, lse is the head's sink.
            results[3][...] = (dlse if is_packed else dlse.sum(axis=0)).sum(axis=-1)
        if not outs or outs[3] is None:
            results[3] = as_type_of(results[3], sinks)
    if not captured:
        return tuple(results)
    inputs = with_batch_of_one(inputs)[0] if is_packed else inputs
    return (*results, *captured_gradients(captured, case, inputs, code, options.is_bshd))


@functools.lru_cache(maxsize=1024)
def _options_of(options: Options, has_dlse: bool) -> Options:
    """Returns the options of the backward pass of a call. `has_dlse`: whether lse has a gradient."""
    return options._replace(operation=ATTENTION_BACKWARD, return_lse=has_dlse)


def _case(inputs: Inputs, options: Options) -> Case:
    is_packed, shapes = "cu_seqlens_q" in inputs, None
    if is_packed:
        inputs, shapes = with_batch_of_one(inputs)
        options = options._replace(causal=False, window=None)
    extents = check_inputs(inputs["q"], inputs["k"], inputs["v"], options.is_bshd, options.enable_gqa, shapes)
    _check_given(inputs, extents, options.is_bshd)
    vectors = check_vectors(inputs, extents)
    results = [_result_like(inputs, number, name, options.is_bshd, is_packed) for number, name in enumerate("qkv")]
    if "sinks" in inputs:
        results.append(Result("dsinks", "out[3] (dsinks)", "sinks", (extents.query_heads,), inputs["sinks"].dtype))
    specialization = specialize(extents, options, target_of(inputs.device), vectors)
    return attention_case(inputs, specialization, extents, results, options.is_bshd)


def _result_like(inputs: Inputs, number: int, name: str, is_bshd: bool, is_packed: bool) -> Result:
    """Returns the result for the gradient of q, k or v. A new array has the same order in memory as its input."""
    x = inputs[name]
    return Result(f"d{name}", f"out[{number}] (d{name})", name, tuple(x.shape[1:] if is_packed else x.shape), x.dtype,
                  is_bshd, lies_exchanged(x, is_bshd, inputs.sources[name]), is_packed)


def _check_given(inputs: Inputs, extents: Extents, is_bshd: bool) -> None:
    """Refuses o, do, lse and dlse of a wrong shape, element type or device."""
    batch, heads, length, depth = extents.batch, extents.query_heads, extents.queries, extents.value_dim
    order, shape = ("[B, Nq, Hq, Dv]", (batch, length, heads, depth)) if is_bshd else \
        ("[B, Hq, Nq, Dv]", (batch, heads, length, depth))
    for name in ("o", "do"):
        inputs.check(name, "q", inputs["q"].dtype, order, shape)
    for name in ("lse", "dlse") if "dlse" in inputs else ("lse",):
        inputs.check(name, "q", sum_dtype(extents.dtype), "[B, Hq, Nq]", (batch, heads, length))
