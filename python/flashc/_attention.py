"""flashc.attention: arrays in, arrays out, through a kernel that is compiled once."""
from __future__ import annotations

import sys
from typing import Any, Callable, Dict, Optional, Tuple, Union

from ._arrays.protocol import ArrayLike
from ._arrays.source import source_of
from ._runtime import contexts
from ._runtime.calls import READ_BY_CODE, is_graph, refuse_gradient
from ._runtime.dropout import parse_dropout, philox_of, read_philox
from ._runtime.launch import Launcher, gives_lse, no_elements, wait_for
from ._runtime.library import ArgumentError, encoded, parse_flag
from ._runtime.public import public
from ._runtime.sinks import read_sinks
from ._runtime.specialization import Window, check_inputs, check_layout, make_code, parse_mask, parse_scale, \
    specialize, target_of, _NO_CODE
from ._runtime.vectors import with_vector

__all__ = ["attention"]

# The usual objects for a layout; others are looked at.
_BHSD, _BSHD = "bhsd", "bshd"

# Kernels that are loaded, by all that they are specialised on, their device, and the layout of their arrays.
_launchers: Dict[Tuple[Any, ...], Launcher] = {}
contexts.on_configure.append(_launchers.clear)


@public
def attention(q: ArrayLike, k: ArrayLike, v: ArrayLike, *, causal: bool = False, window: Window = None,
              scale: Optional[float] = None, mask: Union[ArrayLike, Callable[..., Any], None] = None,
              score: Optional[Callable[..., Any]] = None, sinks: Optional[ArrayLike] = None, dropout_p: float = 0.0,
              philox: Optional[ArrayLike] = None, enable_gqa: bool = False, return_lse: bool = False,
              layout: str = "bhsd", out: Any = None, schedule: Optional[str] = None,
              static_shapes: bool = False, deterministic: Optional[bool] = None) -> Any:
    """Exact attention: softmax(score(scale * q k^T) where mask) v, without the matrix of scores in memory.

    Where the arguments are those of `torch.nn.functional.scaled_dot_product_attention` they mean the same, except that
    `causal` aligns the last query with the last key, as FlashAttention does. PyTorch aligns the first ones, which
    differs only if Nq != Nk (`mask=flashc.masks.causal("top-left")` is PyTorch's).

    The first call for an element type, head dimensions, ratio of heads, scale, mask, score and return_lse compiles a
    kernel; batch, heads, lengths and strides are given at launch. On a GPU the call returns before the kernel ends.

    Args:
        q: queries, [B, Hq, Nq, D], or [B, Nq, Hq, D] with `layout="bshd"`. bf16 or f16; on the CPU f32 and f64. Any strides
            with a contiguous last dimension (on a GPU, multiples of 16 bytes). PyTorch tensors, NumPy arrays, or
            whatever has `__cuda_array_interface__`, `__dlpack__`, `__array_interface__` or Python's buffer protocol.
            Arrays on the host run on the CPU, for trying things out; D and Dv are multiples of 8 up to 256.
        k: keys, [B, Hk, Nk, D] or [B, Nk, Hk, D], on the device and of the element type of q.
        v: values, [B, Hk, Nk, Dv] or [B, Nk, Hk, Dv]. Dv may differ from D.
        causal: query i sees key j when j <= i + Nk - Nq.
        window: (left, right): query i sees key j when -left <= j - (i + Nk - Nq) <= right; a negative number or None is
            no bound. A number w is (w, 0): the query's own position and the w before it. With `causal`, right is 0.
        scale: factor of the scores; None: 1 / sqrt(D).
        mask: which keys a query sees, besides `causal` and `window`. Either a function (b, h, i, j) -> condition of the
            positions of batch, query head, query and key, which is compiled into the kernel (see flashc.ops); or an
            array that broadcasts to [B, Hq, Nq, Nk]: bool, true where the key takes part, or bf16, f16, f32 or f64,
            added to what the score returns.
        score: a function (s, b, h, i, j) -> new score of the scaled score, compiled into the kernel.
        sinks: a number for each query head, [Hq] in f32 (f64 for f64; others cost a copy), or None. The softmax of each
            row has one column more, with the head's sink for its score and without a value: weights add up to less than
            1. Neither scale nor score nor mask apply to it. The log-sum-exp includes it.
        dropout_p: the rate with which a probability is 0 in the product with v; others are divided by 1 - rate. The
            nearest multiple of 1/256. The log-sum-exp does not know of it.
        philox: what says which: a seed and an offset, [2] in int64, on the device of q. Equal ones drop the same
            probabilities, in every kernel and on every device: `flashc.dropout_mask` shows them. None: drawn from the
            generator of q's device, where q is PyTorch's.
        enable_gqa: allows Hq to be a multiple of Hk: query head h reads key head h // (Hq / Hk).
        return_lse: also return the log-sum-exp of each row's scores (natural logarithm), [B, Hq, Nq] in f32 (f64 for
            f64) in either layout. Without it (and without a place for it in `out`) nothing computes it: that is
            another kernel.
        layout: the order of dimensions of q, k, v and o, "bhsd" or "bshd".
        out: where the result goes, instead of a new array: o, or (o, lse). It may be of another framework than q.
        schedule: overrides of the GPU schedule table, such as "kv-tile=64,stages=2".
        static_shapes: compile for exactly these B, Hk, Nq, Nk.
        deterministic: where gradients are recorded, whether their sums have one order, as for
            `flashc.attention_backward`. None: as torch.use_deterministic_algorithms says during the backward pass. The
            result of attention itself has equal bits in every run.

    Returns:
        o, of the shape of q with Dv for D, in an array of q's framework that lies in memory as q does; with
        `return_lse`, (o, lse). A query that sees no key has o = 0 and lse = -inf, or its
        head's sink.

    Raises:
        flashc.ArgumentError (a ValueError): arrays that do not go together, with what was got.
        flashc.UnsupportedTypeError (a TypeError): what is no array, or elements for which there is no kernel.
        flashc.TraceError: a mask or a score that cannot be traced, with the line.
        flashc.CompileError: the compiler refuses, in its own words.
        flashc.GPUError: no CUDA driver, or it failed.

    PyTorch's tensors may require gradients (first order), sinks too, and what the score reads: the record keeps them, o
    and the log-sum-exp, and `flashc.attention_backward` computes them. With `out`, tensors that require a gradient are
    refused while gradients are recorded. Under torch.autocast q, k and v are cast as for PyTorch's own
    attention.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(q, torch.Tensor):
        if is_graph(q):
            from . import torch as flashc_torch
            if out is not None or schedule is not None or static_shapes:
                raise ArgumentError("expected no out, schedule or static_shapes while PyTorch traces a graph")
            return flashc_torch.attention(q, k, v, causal=causal, window=window, scale=scale, mask=mask, score=score,
                                          sinks=sinks, dropout_p=dropout_p, philox=philox, enable_gqa=enable_gqa,
                                          return_lse=return_lse, layout=layout, deterministic=deterministic)
        from ._torch_tensors import autocast, is_mapped
        q, k, v = autocast(q, k, v)
        if is_mapped(q, k, v, sinks, mask):
            return _mapped(q, k, v, causal, window, scale, mask, score, sinks, dropout_p, philox, enable_gqa,
                           return_lse, layout, out, schedule, static_shapes, deterministic)
        if torch.is_grad_enabled():
            refuse_gradient("scale", scale)
            return _recorded(torch, q, k, v, causal, window, scale, mask, score, sinks, dropout_p, philox, enable_gqa,
                             return_lse, layout, out, schedule, static_shapes, deterministic)
    return attention_now(q, k, v, causal, window, scale, mask, score, sinks, dropout_p, philox, enable_gqa, return_lse,
                         layout, out, schedule, static_shapes)


def _recorded(torch: Any, q: Any, k: Any, v: Any, causal: bool, window: Window, scale: Any, mask: Any, score: Any,
              sinks: Any, dropout_p: float, philox: Any, enable_gqa: bool, return_lse: bool, layout: str, out: Any,
              schedule: Optional[str], static_shapes: bool, deterministic: Optional[bool]) -> Any:
    """flashc.attention while PyTorch records gradients."""
    from ._torch_gradient import code_of, differentiable_attention, trained_captures
    differentiable = (("q", q), ("k", k), ("v", v), ("sinks", sinks))
    are_tensors = out is None and all(x is None or isinstance(x, torch.Tensor) for _, x in differentiable)
    needs_gradient = any(getattr(x, "requires_grad", False) for _, x in differentiable)
    code = None
    if are_tensors and (mask is not None or score is not None):
        code = code_of(q, k, v, mask, score, layout, enable_gqa)
        needs_gradient = needs_gradient or bool(trained_captures(code))
    if needs_gradient and are_tensors:
        return differentiable_attention(q, k, v, parse_flag("return_lse", return_lse), causal=causal, window=window,
                                        scale=scale, mask=mask, score=score, sinks=sinks, dropout_p=dropout_p,
                                        philox=philox, enable_gqa=enable_gqa, layout=layout, schedule=schedule,
                                        static_shapes=static_shapes, code=code, deterministic=deterministic)
    for name, x in differentiable:
        refuse_gradient(name, x)
    return attention_now(q, k, v, causal, window, scale, mask, score, sinks, dropout_p, philox, enable_gqa, return_lse,
                         layout, out, schedule, static_shapes, records_gradients=True, code=code)


def _mapped(q: Any, k: Any, v: Any, causal: bool, window: Window, scale: Any, mask: Any, score: Any, sinks: Any,
            dropout_p: float, philox: Any, enable_gqa: bool, return_lse: bool, layout: str, out: Any,
            schedule: Optional[str], static_shapes: bool, deterministic: Optional[bool]) -> Any:
    """flashc.attention of tensors of torch.func."""
    if out is not None or schedule is not None or static_shapes:
        raise ArgumentError("expected no out, schedule or static_shapes in torch.func")
    from . import _torch_func
    return _torch_func.attention(q, k, v, causal=causal, window=window, scale=scale, mask=mask, score=score,
                                 sinks=sinks, dropout_p=dropout_p, philox=philox, enable_gqa=enable_gqa,
                                 return_lse=parse_flag("return_lse", return_lse), layout=layout,
                                 deterministic=deterministic)


def attention_now(q: Any, k: Any, v: Any, causal: bool = False, window: Window = None, scale: Optional[float] = None,
        mask: Any = None, score: Optional[Callable[..., Any]] = None, sinks: Any = None, dropout_p: float = 0.0,
        philox: Any = None, enable_gqa: bool = False, return_lse: bool = False, layout: str = "bhsd",
        out: Any = None, schedule: Optional[str] = None, static_shapes: bool = False,
        records_gradients: bool = False, code: Any = None) -> Any:
    """flashc.attention without a look at graphs under construction, and at the gradients of q, k and v: for custom ops.
    `records_gradients`: PyTorch does, so that arrays that a mask or a score reads may not require one. `code`: the mask
    and the score, traced for this call, if they have been."""
    if type(causal) is not bool or type(enable_gqa) is not bool or type(return_lse) is not bool or \
            type(static_shapes) is not bool:
        causal, enable_gqa = parse_flag("causal", causal), parse_flag("enable_gqa", enable_gqa)
        return_lse, static_shapes = parse_flag("return_lse", return_lse), parse_flag("static_shapes", static_shapes)
    if schedule is not None:
        encoded("schedule", schedule)
    source = source_of(q)
    q_array = source.describe(q)
    device = q_array.device
    stream = source.current_stream(device, q_array) if device >= 0 else None
    k_array = (source if type(k) is type(q) else source_of(k)).describe(k, stream)
    v_array = (source if type(v) is type(q) else source_of(v)).describe(v, stream)
    if k_array.stream is not None or v_array.stream is not None:
        wait_for(k_array, stream)
        wait_for(v_array, stream)
    shape, k_shape, v_shape = q_array.shape, k_array.shape, v_array.shape
    dtype = q_array.dtype
    is_bshd = layout is _BSHD
    if not is_bshd and layout is not _BHSD:
        is_bshd = check_layout(layout)
    if len(shape) != 4 or len(k_shape) != 4 or len(v_shape) != 4 or k_array.dtype != dtype or \
            v_array.dtype != dtype or k_array.device != device or v_array.device != device:
        check_inputs(q_array, k_array, v_array, is_bshd, enable_gqa)
    if mask is not None or score is not None:
        # The mask's shape is held against the others', which must be right first.
        extents = check_inputs(q_array, k_array, v_array, is_bshd, enable_gqa)
        if code is None:
            code = make_code(mask, score, extents, device, stream)
        for array in code.arrays:
            if records_gradients:
                refuse_gradient(READ_BY_CODE, array.owner)
            wait_for(array, stream)
    else:
        code = _NO_CODE
    if type(dropout_p) is not float or dropout_p or philox is not None:
        dropout_p = parse_dropout(dropout_p, philox)
    if dropout_p:
        code = with_vector(code, read_philox(philox_of(q, philox), q_array, stream))
    heads, key_heads = (shape[2], k_shape[2]) if is_bshd else (shape[1], k_shape[1])
    if sinks is not None:
        code = with_vector(code, read_sinks(sinks, q_array, heads, stream))
    if 0 in shape or 0 in k_shape:
        extents = check_inputs(q_array, k_array, v_array, is_bshd, enable_gqa)
        specialize(q_array, extents, causal, window, scale, code, target_of(device), schedule, False,
                   False).check_schedule()
        return no_elements(source, q, q_array, k_array, v_array, is_bshd, enable_gqa, out, return_lse, stream, sinks)
    if not (q_array.address and k_array.address and v_array.address):
        raise ArgumentError("expected q, k and v with elements in memory, got an address of 0; ArraySpec is for "
                            "flashc.compile")
    # What specialises a kernel; the launcher checks extents, once per shape. Only plain numbers go into the key: a
    # tensor is equal to itself when its value has changed.
    if scale is not None and type(scale) is not float:
        scale = parse_scale(scale, shape[3])
    has_lse = bool(return_lse) if out is None else gives_lse(out) or bool(return_lse)
    key = (dtype, device, shape[3], v_shape[3], heads // key_heads, causal,
           None if window is None else parse_mask(causal, window), scale, code[:3], schedule, is_bshd,
           (shape, k_shape) if static_shapes else None, has_lse, sinks is not None, dropout_p)
    launcher = _launchers.get(key)
    if launcher is None:
        launcher = _load(key, q_array, k_array, v_array, is_bshd, enable_gqa, causal, window, scale, code, schedule,
                         static_shapes, has_lse, sinks is not None, dropout_p)
    return launcher(source, q, q_array, k_array, v_array, enable_gqa, code, stream or 0, out, return_lse)


def _load(key: Tuple[Any, ...], q: Any, k: Any, v: Any, is_bshd: bool, enable_gqa: bool, causal: bool, window: Window,
          scale: Optional[float], code: Any, schedule: Optional[str], static_shapes: bool, has_lse: bool,
          has_sinks: bool, dropout_p: float) -> Launcher:
    """The kernel of a first call, compiled if no context or cache has it, and loaded."""
    extents = check_inputs(q, k, v, is_bshd, enable_gqa)
    specialization = specialize(q, extents, causal, window, scale, code, target_of(q.device), schedule, static_shapes,
                                has_lse, has_sinks=has_sinks, dropout_p=dropout_p)
    launcher = Launcher(specialization.compile(code=code), specialization, q.device, is_bshd, code)
    # Threads that were first together compiled once, in the library; one of their launchers stays.
    return _launchers.setdefault(key, launcher)
