"""flashc.attention: runs attention on arrays, through a kernel that is compiled once."""
from __future__ import annotations

import sys
from typing import Any, Callable, Optional, Sequence, Tuple, Union

from ._arrays.protocol import ArrayLike
from ._packed import Packed, with_batch_of_one
from ._runtime.calls import Case, Inputs, attention_case, case_of, is_noted
from ._runtime.launch import attention_results, lies_exchanged, split_out
from ._runtime.library import ArgumentError
from ._runtime.options import Operands, Options, Window
from ._runtime.public import public
from ._runtime.specialization import NO_CODE, check_inputs, make_code, specialize, sum_dtype, target_of
from ._runtime.vectors import check_vectors, with_philox
from ._trace.code import Code


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
        q: queries, [B, Hq, Nq, D], or [B, Nq, Hq, D] with `layout="bshd"`. bf16 or f16; on the CPU f32 and f64. Any
            strides with a contiguous last dimension (on a GPU, multiples of 16 bytes). PyTorch tensors, NumPy arrays,
            or any object with `__cuda_array_interface__`, `__dlpack__`, `__array_interface__` or Python's buffer
            protocol. Arrays on the host run on the CPU, for trying things out; D and Dv are multiples of 8 up to 256.
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
        sinks: a number for each query head, [Hq] in f32 (f64 for f64; other types cost a copy), or None. The softmax of
            each row has one more column, whose score is the head's sink and which has no value: weights add up to less
            than 1. Neither scale nor score nor mask apply to the sink. The log-sum-exp includes it.
        dropout_p: the rate with which a probability is 0 in the product with v; other probabilities are divided by
            1 - rate. The rate is rounded to a multiple of 1/256. The log-sum-exp is that without dropout.
        philox: a seed and an offset, [2] in int64, on the device of q, which decide which probabilities are dropped.
            Equal seeds and offsets drop the same probabilities, in every kernel and on every device:
            `flashc.dropout_mask` shows them. None: drawn from the generator of q's device, if q is PyTorch's.
        enable_gqa: allows Hq to be a multiple of Hk: query head h reads key head h // (Hq / Hk).
        return_lse: also return the log-sum-exp of each row's scores (natural logarithm), [B, Hq, Nq] in f32 (f64 for
            f64) in either layout. Without it (and without an array for it in `out`) the kernel is another one, which
            does not compute the log-sum-exp.
        layout: the order of dimensions of q, k, v and o, "bhsd" or "bshd".
        out: where the result goes, instead of a new array: o, or (o, lse). It may be of another framework than q.
        schedule: overrides of the GPU schedule table, such as "kv-tile=64,stages=2".
        static_shapes: compile for exactly these B, Hk, Nq, Nk.
        deterministic: where gradients are recorded, whether their sums have one order, as for
            `flashc.attention_backward`. None: as torch.use_deterministic_algorithms says during the backward pass. The
            result of attention itself has equal bits in every run.

    Returns:
        o, of the shape of q with Dv for D, in an array of q's framework that lies in memory as q does; with
        `return_lse`, (o, lse). A query that sees no key has o = 0 and lse = -inf, or its head's sink.

    Raises:
        flashc.ArgumentError (a ValueError): arrays that do not go together; the text has what was got.
        flashc.UnsupportedTypeError (a TypeError): an object that is no array, or elements that no kernel takes.
        flashc.TraceError: a mask or a score that cannot be traced, with the line.
        flashc.CompileError: the compiler refuses; the text is its diagnostics.
        flashc.GPUError: no CUDA driver, or it failed.

    PyTorch's q, k, v, sinks and tensors that the score reads may require gradients (first order): autograd keeps them,
    o and the log-sum-exp, and `flashc.attention_backward` computes the gradients. With `out`, tensors that require a
    gradient are refused while gradients are recorded. Under torch.autocast q, k and v are cast as for PyTorch's own
    attention.
    """
    return attend(Operands(q, k, v, mask, score, sinks, philox),
                  Options(causal, window, scale, dropout_p, enable_gqa, return_lse, layout, schedule, static_shapes,
                          deterministic), out)


def attend(operands: Operands, options: Options, out: Any = None) -> Any:
    """flashc.attention; checks `options`."""
    torch, q = sys.modules.get("torch"), operands[0]
    if torch is None or not isinstance(q, torch.Tensor):
        return attention_now(operands, options.checked(operands.philox), out)
    if is_noted(torch, q):
        from . import torch as flashc_torch
        refuse_out(options, out, "while PyTorch traces a graph")
        return flashc_torch.attention(operands, options)
    return _attend_tensors(operands, options, out)


def _attend_tensors(operands: Operands, options: Options, out: Any) -> Any:
    """_torch_gradient.attend. The first call imports it, and it takes the place of this function."""
    global _attend_tensors
    from ._torch_gradient import attend as _attend_tensors
    return _attend_tensors(operands, options, out)


def refuse_out(options: Options, out: Any, where: str) -> None:
    """Refuses arguments that ops and torch.func do not support; `where` ends the message."""
    if out is not None or options.schedule is not None or options.static_shapes:
        raise ArgumentError(f"expected no out, schedule or static_shapes {where}")


#: A call whose arrays are described and checked, and the code of its mask and score.
Call = Tuple[Inputs, Case, Code]


def prepare(operands: Operands, options: Options, refuses: bool = False) -> Call:
    """Checks a call of an attention; `options` are checked. `refuses`: as for Inputs."""
    packed = operands.mask if type(operands.mask) is Packed else None
    arrays = operands.arrays() if packed is None else {**operands.arrays(), **packed.arrays()}
    inputs = Inputs(arrays, refuses)
    if operands.sinks is not None:
        inputs.widen("sinks", sum_dtype(inputs["q"].dtype))
    case = case_of(_case, inputs, options)
    if operands.mask is None and operands.score is None:
        return inputs, case, NO_CODE
    if packed is not None:
        return inputs, case, packed.code(inputs, case, options)
    return inputs, case, make_code(operands.mask, operands.score, case.extents, inputs.device, inputs.stream)


def run(call: Call, return_lse: bool, outs: Sequence[Any] = (), records: bool = False) -> Any:
    """Launches the kernel of a call; returns o or (o, lse). `records`: PyTorch records gradients, so that arrays that
    the mask or the score reads may not require one."""
    inputs, case, code = call
    if code.arrays:
        inputs.prepare_code(code, records)
    results = case(inputs, code, outs)
    return tuple(results) if return_lse else results[0]


def attention_now(operands: Operands, options: Options, out: Any = None, records: bool = False,
                  refuses: bool = False) -> Any:
    """flashc.attention outside of graphs, without gradients; `options` are checked. `records` and `refuses`: as for
    `run` and `prepare`."""
    outs, return_lse = (), options.return_lse
    if out is not None:
        outs = split_out(out)
        if outs[1] is not None and not return_lse:
            options = options._replace(return_lse=True)
    if options.dropout_p:
        operands = with_philox(operands, options)
    return run(prepare(operands, options, refuses), return_lse, outs, records)


def with_lse(call: Call, options: Options) -> Call:
    """Returns the call of `prepare(..., options)`, which also returns the log-sum-exp."""
    inputs, case, code = call
    if options.return_lse:
        return call
    if case.with_lse is None:
        case.with_lse = case_of(_case, inputs, options._replace(return_lse=True))
    return inputs, case.with_lse, code


def _case(inputs: Inputs, options: Options) -> Case:
    is_packed, shapes = "cu_seqlens_q" in inputs, None
    if is_packed:
        inputs, shapes = with_batch_of_one(inputs)
        options = options._replace(causal=False, window=None)
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    extents = check_inputs(q, k, v, options.is_bshd, options.enable_gqa, shapes)
    vectors = check_vectors(inputs, extents)
    results = attention_results(extents, options, lies_exchanged(q, options.is_bshd, inputs.sources["q"]), is_packed)
    specialization = specialize(extents, options, target_of(inputs.device), vectors)
    return attention_case(inputs, specialization, extents, results, options.is_bshd)
