"""flashc.attention_backward: the gradients of attention."""
from __future__ import annotations

from typing import Any, Callable, Optional, Sequence, Tuple, Union

from ._arrays.protocol import ArrayLike
from ._captured_gradients import captured_gradients
from ._runtime.calls import Inputs, Results, launch
from ._runtime.dropout import check_philox, parse_dropout
from ._runtime.library import ATTENTION_BACKWARD, ArgumentError, UnsupportedTypeError, encoded, parse_flag
from ._runtime.public import public
from ._runtime.specialization import Extents, Window, check_inputs, check_layout, make_code, specialize, sum_dtype, \
    target_of
from ._runtime.vectors import as_type_of
from ._trace.trace import Code

__all__ = ["attention_backward", "backward_of"]


@public
def attention_backward(q: ArrayLike, k: ArrayLike, v: ArrayLike, o: ArrayLike, lse: ArrayLike, do: ArrayLike, *,
                       dlse: Optional[ArrayLike] = None, causal: bool = False, window: Window = None,
                       scale: Optional[float] = None, mask: Union[ArrayLike, Callable[..., Any], None] = None,
                       score: Optional[Callable[..., Any]] = None, sinks: Optional[ArrayLike] = None,
                       dropout_p: float = 0.0, philox: Optional[ArrayLike] = None, captured: Sequence[ArrayLike] = (),
                       enable_gqa: bool = False, layout: str = "bhsd", deterministic: bool = False, out: Any = None,
                       schedule: Optional[str] = None, static_shapes: bool = False) -> Tuple[Any, ...]:
    """The gradients of q, k and v, from that of attention's output: what makes `flashc.attention` trainable. The matrix
    of scores is computed again from the log-sum-exp, and the score's derivative is derived from its code.

        o, lse = flashc.attention(q, k, v, causal=True, return_lse=True)
        dq, dk, dv = flashc.attention_backward(q, k, v, o, lse, do, causal=True)

    Args:
        q, k, v, causal, window, scale, mask, score, sinks, dropout_p, philox, enable_gqa, layout, schedule,
            static_shapes: as for `flashc.attention`, and the same as in the call that gave `o` and `lse`; nothing draws
            another `philox`.
        captured: arrays of bf16, f16, f32 or f64 that the score reads (a mask of numbers is part of it) whose gradients
            are wanted, too: the same objects. docs/captured-gradients.md says how they may be indexed.
        o: the output, in the shape and the element type that attention gives it: [B, Hq, Nq, Dv] or [B, Nq, Hq, Dv].
        lse: the log-sum-exp of each query's scores, [B, Hq, Nq] in f32 in either layout.
        do: the gradient of o, of its shape and element type.
        dlse: that of lse, of its shape in f32; None: zeros.
        deterministic: equal arguments give equal bits in every run. False: sums may be taken in any order where that
            is faster. While PyTorch records gradients, `flashc.attention(deterministic=...)` says it.
        out: where the results go: (dq, dk, dv), and dsinks where there are sinks, with None for a new array.

    Returns:
        (dq, dk, dv), and dsinks where there are sinks, then one for each array of `captured`, in f32 (f64 for q of f64) and
        in its shape,
        with equal bits in every run. The others are of the shapes and the element type of q, k, v and sinks, each in
        an array of its input's framework that lies in memory as the input does. dk and dv are sums over the query heads
        of a key head, dsinks [Hq] is one over batches and queries, always taken in one order. A query that sees no key
        has dq = 0 and adds nothing to dk and dv.

    Raises:
        as `flashc.attention`.
    """
    return backward_of(None, q, k, v, o, lse, do, dlse=dlse, causal=causal, window=window, scale=scale, mask=mask,
                       score=score, sinks=sinks, dropout_p=dropout_p, philox=philox, captured=captured,
                       enable_gqa=enable_gqa, layout=layout, deterministic=deterministic, out=out, schedule=schedule,
                       static_shapes=static_shapes)


def backward_of(code: Optional[Code], q: Any, k: Any, v: Any, o: Any, lse: Any, do: Any, *, dlse: Any = None,
                causal: bool = False, window: Window = None, scale: Optional[float] = None, mask: Any = None,
                score: Optional[Callable[..., Any]] = None, sinks: Any = None, dropout_p: float = 0.0,
                philox: Any = None, captured: Sequence[Any] = (), enable_gqa: bool = False, layout: str = "bhsd",
                deterministic: bool = False, out: Any = None, schedule: Optional[str] = None,
                static_shapes: bool = False) -> Tuple[Any, ...]:
    """flashc.attention_backward. `code`: that of the mask and the score, traced by the forward pass: what they refer to
    may have changed since."""
    causal, enable_gqa = parse_flag("causal", causal), parse_flag("enable_gqa", enable_gqa)
    if not isinstance(captured, (tuple, list)):
        raise UnsupportedTypeError(f"expected captured to be a tuple or a list of arrays, got {type(captured)!r}")
    is_static = parse_flag("static_shapes", static_shapes)
    if schedule is not None:
        encoded("schedule", schedule)
    is_bshd, outs = check_layout(layout), _read_outs(out, ["dq", "dk", "dv", *([] if sinks is None else ["dsinks"])])
    gradient_of_lse = {} if dlse is None else {"dlse": dlse}
    rate = parse_dropout(dropout_p, philox)
    if rate and philox is None:
        raise ArgumentError("expected philox, that of the forward pass, beside dropout_p")
    others = {name: x for name, x in (("sinks", sinks), ("philox", philox)) if x is not None}
    inputs = Inputs(q=q, k=k, v=v, o=o, lse=lse, do=do, **gradient_of_lse, **others)
    if sinks is not None:
        inputs.widen("sinks", sum_dtype(inputs["q"].dtype))
    extents = check_inputs(inputs["q"], inputs["k"], inputs["v"], is_bshd, enable_gqa)
    _check_outputs(inputs, extents, is_bshd)
    if rate:
        check_philox(inputs["philox"], inputs["q"])
    if code is None:
        code = make_code(mask, score, extents, inputs.device, inputs.stream)
    inputs.prepare_code(code)
    specialization = specialize(inputs["q"], extents, causal, window, scale, code, target_of(inputs.device), schedule,
                                is_static, dlse is not None, ATTENTION_BACKWARD,
                                parse_flag("deterministic", deterministic), sinks is not None, rate)
    results = Results(inputs, code)
    for number, (like, x) in enumerate(zip("qkv", outs)):
        results.add_like(f"out[{number}] (d{like})", x, like, is_bshd)
    if sinks is not None:
        results.add("out[3] (dsinks)", outs[3], "sinks", (extents.query_heads,), sum_dtype(inputs["q"].dtype))
    if 0 in inputs["q"].shape or 0 in inputs["k"].shape:
        specialization.check_schedule()
        results.fill_with_zeros()
        if sinks is not None and dlse is not None: # lse is the sink of its head
            results.owners[3][...] = dlse.sum(axis=(0, 2))
    else:
        launch(specialization, extents, inputs, code, results, is_bshd, is_bshd)
    if sinks is not None and outs[3] is None:
        results.owners[3] = as_type_of(results.owners[3], sinks)
    return (*results.owners, *captured_gradients(captured, specialization, extents, inputs, code, is_bshd))


def _read_outs(out: Any, names: Sequence[str]) -> Sequence[Any]:
    if out is None:
        return (None,) * len(names)
    if not isinstance(out, (tuple, list)) or len(out) != len(names):
        raise ArgumentError(f"expected out to be ({', '.join(names)}), got " +
                            (f"{len(out)} arrays" if isinstance(out, (tuple, list)) else f"{type(out)!r}"))
    return out


def _check_outputs(inputs: Inputs, extents: Extents, is_bshd: bool) -> None:
    """What attention has given, and the gradients of it."""
    batch, heads, length, depth = extents.batch, extents.query_heads, extents.queries, extents.value_dim
    order, shape = ("[B, Nq, Hq, Dv]", (batch, length, heads, depth)) if is_bshd else \
        ("[B, Hq, Nq, Dv]", (batch, heads, length, depth))
    for name in ("o", "do"):
        inputs.check(name, "q", inputs["q"].dtype, order, shape)
    for name in ("lse", "dlse"):
        if name in inputs.arrays:
            inputs.check(name, "q", sum_dtype(inputs["q"].dtype), "[B, Hq, Nq]", (batch, heads, length))
    if "sinks" in inputs.arrays:
        inputs.check("sinks", "q", sum_dtype(inputs["q"].dtype), "[Hq]", (heads,))
