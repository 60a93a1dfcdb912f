"""flashc for PyTorch: drop-ins for `torch.nn.functional.scaled_dot_product_attention` and FlexAttention, and the op
`flashc::attention`.

`flashc.attention` takes PyTorch's tensors as they are, and launches on PyTorch's current stream. What cannot see a call
of Python needs an op: torch.compile (with fullgraph=True too), torch.export, fake tensors. There `flashc.attention` and
the drop-ins become `torch.ops.flashc.attention`. CUDA graphs capture both, after one call outside the
capture has compiled and loaded the kernel.

There is no backward here yet: where gradients are recorded, the drop-in's result has a `grad_fn` that raises, since
models are often evaluated without torch.no_grad(). `flashc.attention` is differentiable on the CPU, and refuses tensors
on a GPU that require a gradient.
"""

import itertools
import threading
from typing import Any, Callable, Dict, Optional, Tuple, Union

import torch
from torch import Tensor

from . import _attention, _flex
from ._runtime.library import ArgumentError

__all__ = ["flex_attention", "scaled_dot_product_attention"]

if not hasattr(torch.library, "custom_op"):
    raise ImportError(f"flashc.torch needs PyTorch 2.4 or newer, got {torch.__version__}; flashc.attention does not")

#: True while torch.compile or torch.export trace; they replace it by a constant.
is_compiling = torch.compiler.is_compiling


def _sees_up_to_itself(b, h, i, j):
    return j <= i


# Masks and scores by name: an op takes no functions.
_UP_TO_ITSELF = "up to itself"
_functions: Dict[str, Callable[..., Any]] = {_UP_TO_ITSELF: _sees_up_to_itself}


# --- Tensors as the kernels read them ---------------------------------------------------------------------------------

_GRANULE = 8  # Elements of 16 bits in the 16 bytes that the kernels' copies move.


def _suitable(x: Tensor) -> Tensor:
    """`x`, or a copy if the kernels cannot read it: the innermost dimension is contiguous, the address and the other
    strides are multiples of 16 bytes, and no element is there twice."""
    *outer, inner = x.stride()
    if inner == 1 and x.data_ptr() % 16 == 0 and all(
            stride % _GRANULE == 0 and (stride > 0 or extent <= 1) for stride, extent in zip(outer, x.shape)):
        return x
    # In the same order, which decides how the result lies in memory.
    if x.stride(1) < x.stride(2):
        return x.transpose(1, 2).clone(memory_format=torch.contiguous_format).transpose(1, 2)
    return x.clone(memory_format=torch.contiguous_format)


def _run(q: Tensor, k: Tensor, v: Tensor, **keywords: Any) -> Any:
    for name, x in (("query", q), ("key", k), ("value", v)):
        if x.dim() != 4:
            raise ArgumentError(f"expected {name} of 4 dimensions, got shape {tuple(x.shape)}")
    return _attention.attention_now(_suitable(q), _suitable(k), _suitable(v), **keywords)


# --- The op -----------------------------------------------------------------------------------------------------------

@torch.library.custom_op("flashc::attention", mutates_args=())
def _attention_op(q: Tensor, k: Tensor, v: Tensor, mask_array: Optional[Tensor], mask: Optional[str],
                  score: Optional[str], causal: bool, window_left: Optional[int], window_right: Optional[int],
                  scale: Optional[float], enable_gqa: bool, layout: str, return_lse: bool) -> Tuple[Tensor, Tensor]:
    """o, and the log-sum-exp: without `return_lse`, a tensor of no elements in its place."""
    keep: Any = mask_array
    if mask is not None:
        keep = _functions[mask]
    window = None if window_left is None and window_right is None else (window_left, window_right)
    with torch.no_grad():
        results = _run(q, k, v, causal=causal, window=window, scale=scale, mask=keep, enable_gqa=enable_gqa,
                       score=None if score is None else _functions[score], return_lse=return_lse, layout=layout)
    return results if return_lse else (results, _no_lse(q))


def _no_lse(q: Tensor) -> Tensor:
    return q.new_empty((0,), dtype=torch.float32)


@_attention_op.register_fake
def _attention_fake(q, k, v, mask_array, mask, score, causal, window_left, window_right, scale, enable_gqa, layout,
                    return_lse):
    torch._check(q.dim() == 4 and k.dim() == 4 and v.dim() == 4, lambda: "expected q, k and v of 4 dimensions")
    columns = v.shape[3]
    if layout == "bshd":
        batch, queries, heads = q.shape[:3]
        o = q.new_empty((batch, queries, heads, columns))
    else:
        batch, heads, queries = q.shape[:3]
        # As flashc._runtime.launch.output_order: o lies in memory as q does.
        if heads > 1 and queries > 1 and q.stride(1) < q.stride(2):
            o = q.new_empty((batch, queries, heads, columns)).transpose(1, 2)
        else:
            o = q.new_empty((batch, heads, queries, columns))
    return o, q.new_empty((batch, heads, queries), dtype=torch.float32) if return_lse else _no_lse(q)


def _no_backward(context, *gradients):
    raise NotImplementedError("flashc::attention has no backward yet: call it under torch.no_grad(), or on tensors "
                              "that require no gradient; torch.nn.functional.scaled_dot_product_attention has one")


_attention_op.register_autograd(_no_backward)


def needs_op(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether a call on these tensors must go through the op: while a graph is traced, for tensors that are not made of
    memory, and where a result without a `grad_fn` would silently cut the gradient."""
    return is_compiling() or (torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)) or \
        not (_is_plain(q) and _is_plain(k) and _is_plain(v))


def _is_plain(x: Tensor) -> bool:
    return type(x) is Tensor or type(x) is torch.nn.Parameter


def _call_op(q: Tensor, k: Tensor, v: Tensor, mask_array: Optional[Tensor], mask: Optional[str], score: Optional[str],
             causal: bool, window: Any, scale: Optional[float], enable_gqa: bool, layout: str,
             return_lse: bool) -> Tuple[Tensor, Tensor]:
    left, right = (None, None) if window is None else (window, window) if isinstance(window, int) else window
    return torch.ops.flashc.attention.default(q, k, v, mask_array, mask, score, causal, left, right, scale, enable_gqa,
                                              layout, return_lse)


def _call_op_once(q: Tensor, k: Tensor, v: Tensor, mask_array: Optional[Tensor], mask: Any, score: Any, causal: bool,
                  *rest: Any) -> Tuple[Tensor, Tensor]:
    """Calls the op with functions that it forgets afterwards: outside of graphs they are often new in every call."""
    names = [None if function is None else f"once {id(function)} {threading.get_ident()}" for function in (mask, score)]
    temporary = {name: function for name, function in zip(names, (mask, score)) if name is not None}
    _functions.update(temporary)
    try:
        return _call_op(q, k, v, mask_array, *names, causal, *rest)
    finally:
        for name in temporary:
            _functions.pop(name, None)


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False,
              window: Union[None, int, Tuple[Optional[int], Optional[int]]] = None, scale: Optional[float] = None,
              mask: Any = None, score: Any = None, enable_gqa: bool = False, return_lse: bool = False,
              layout: str = "bhsd") -> Any:
    """What `flashc.attention` calls where `needs_op` holds, with the same arguments and result.

    Under torch.compile, a mask or a score that is a function must have neither a closure nor defaults (arrays that it
    names as globals are read at every call): one that has breaks the graph there, which fullgraph=True refuses.
    """
    mask_array = None
    if isinstance(mask, Tensor):
        mask_array, mask = mask, None
    rest = (causal, window, scale, enable_gqa, layout, return_lse)
    if not is_compiling():
        o, lse = _call_op_once(q, k, v, mask_array, mask, score, *rest)
    elif score is None and (mask is None or mask is _sees_up_to_itself):
        o, lse = _call_op(q, k, v, mask_array, None if mask is None else _UP_TO_ITSELF, None, *rest)
    else:
        from . import _torch_graph as graph
        if (mask is not None and graph.remembers(mask)) or (score is not None and graph.remembers(score)):
            return graph.outside(_run, q, k, v, {
                "causal": causal, "window": window, "scale": scale, "mask": mask if mask_array is None else mask_array,
                "score": score, "enable_gqa": enable_gqa, "return_lse": return_lse, "layout": layout})
        o, lse = _call_op(q, k, v, mask_array, None if mask is None else graph.register(mask),
                          None if score is None else graph.register(score), *rest)
    return (o, lse) if return_lse else o


# --- The drop-ins -----------------------------------------------------------------------------------------------------

def _with_four_dimensions(x: Tensor) -> Tensor:
    """[..., heads, n, d] as [batch, heads, n, d]."""
    while x.dim() < 4:
        x = x.unsqueeze(0)
    return x if x.dim() == 4 else x.flatten(0, x.dim() - 4)


def _padded(x: Tensor) -> Tensor:
    """`x` with zeros up to a multiple of 8 in its last dimension: the products with them are zero."""
    rest = -x.shape[-1] % _GRANULE
    return torch.nn.functional.pad(x, (0, rest)) if rest else x


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, scale: Optional[float] = None,
                                 enable_gqa: bool = False) -> Tensor:
    """`torch.nn.functional.scaled_dot_product_attention` on flashc's kernels: forward, in bf16 or f16 (f32 on the CPU).

    Args:
        query: [..., Hq, L, E].
        key: [..., H, S, E].
        value: [..., H, S, Ev].
        attn_mask: broadcasts to [..., Hq, L, S]. bool: True where a key takes part; numbers: added to the scores.
        dropout_p: 0.
        is_causal: query i sees key j <= i, also where L and S differ (flashc.attention aligns the last ones instead).
        scale: of the scores; None: 1 / sqrt(E).
        enable_gqa: Hq is a multiple of H, and query head h reads key head h // (Hq // H).

    Returns:
        [..., Hq, L, Ev], with the order of dimensions in memory that `query` has. A query that sees no key gets zeros.

    Raises:
        flashc.ArgumentError: dropout, both a mask and is_causal, or shapes that do not go together.
        flashc.Error: whatever flashc.attention raises.

    Strides and head dimensions that the kernels do not take cost a copy. Any leading dimensions must be equal.
    """
    if dropout_p != 0.0:
        raise ArgumentError(f"expected dropout_p to be 0: flashc has no dropout, got {dropout_p}")
    if attn_mask is not None and is_causal:
        raise ArgumentError("expected attn_mask or is_causal, got both")
    if query.dim() < 2 or key.dim() != query.dim() or value.dim() != query.dim():
        raise ArgumentError(f"expected query, key and value with the same number of dimensions, 2 or more, got "
                            f"{query.dim()}, {key.dim()} and {value.dim()}")
    if not enable_gqa and query.shape[:-2] != key.shape[:-2]:
        raise ArgumentError(f"expected the same leading dimensions without enable_gqa, got {tuple(query.shape)} and "
                            f"{tuple(key.shape)}")
    if scale is None:
        scale = query.shape[-1] ** -0.5 if query.shape[-1] else 1.0
    columns = value.shape[-1]
    q, k, v = (_padded(_with_four_dimensions(x)) for x in (query, key, value))
    if attn_mask is not None:
        if attn_mask.dim() > 4:
            attn_mask = attn_mask.expand(*query.shape[:-3], *attn_mask.shape[-3:])
        attn_mask = _with_four_dimensions(attn_mask)
    square = query.shape[-2] == key.shape[-2]
    mask = attn_mask if attn_mask is not None else _sees_up_to_itself if is_causal and not square else None
    differentiable = attn_mask is not None and attn_mask.requires_grad and torch.is_grad_enabled()
    run = attention if differentiable or needs_op(q, k, v) else _run
    o = run(q, k, v, causal=is_causal and square, scale=scale, mask=mask, enable_gqa=enable_gqa)
    if o.shape[-1] != columns:
        o = o[..., :columns]
    return o.reshape(*query.shape[:-1], columns) if query.dim() != 4 else o


#: Pairs for which a mask_mod is run at once.
_MOST_PAIRS = 1 << 26


def _follows(mask_mod: Callable[..., Any], table: Tensor, block_size: Tuple[int, int],
             lengths: Tuple[int, int]) -> Optional[bool]:
    """Whether a mask_mod keeps what the tables of its BlockMask keep. Waits for the GPU; None while a CUDA graph is
    captured, where nothing may."""
    if table.is_cuda and torch.cuda.is_current_stream_capturing():
        return None
    from torch.nn.attention.flex_attention import create_mask

    def part(b: int, h: int, first: int, count: int) -> Tensor:
        def keep(zero_b, zero_h, i, j):
            return mask_mod(zero_b + b, zero_h + h, i + first, j)
        return create_mask(keep, 1, 1, count, keys, device=table.device)[0, 0]

    queries, keys = lengths
    step = max(1, _MOST_PAIRS // max(keys, 1))
    is_true = torch.ones((), dtype=torch.bool, device=table.device)
    try:
        with torch.no_grad():
            for b, h, first in itertools.product(range(table.shape[0]), range(table.shape[1]),
                                                 range(0, queries, step)):
                kept = part(b, h, first, min(step, queries - first))
                is_true &= _flex.is_true_to(table[b, h], block_size, first, kept)
        return bool(is_true)
    except Exception:  # What flashc traces PyTorch may not run, or not have the memory for: then the tables are read.
        return False


def flex_attention(query: Tensor, key: Tensor, value: Tensor, score_mod: Optional[Callable[..., Any]] = None,
                   block_mask: Any = None, scale: Optional[float] = None, enable_gqa: bool = False,
                   return_lse: bool = False, kernel_options: Optional[Dict[str, Any]] = None, *,
                   return_aux: Any = None) -> Any:
    """`torch.nn.attention.flex_attention.flex_attention` on flashc's kernels: forward, in bf16 or f16 (f32 on the CPU).

    It needs no torch.compile: the functions are traced by flashc at every call.

    Args:
        query: [B, Hq, L, E].
        key: [B, Hkv, S, E].
        value: [B, Hkv, S, Ev].
        score_mod: (score, b, h, q_idx, kv_idx) -> score, on the scaled score; h is the query head.
        block_mask: a BlockMask for L queries and S keys. A query sees the keys of its full blocks, and those of its
            partial blocks that `mask_mod` keeps. Where the tables follow from `mask_mod`, as those of
            `create_block_mask` do, it alone is the mask; that is found out once per BlockMask, by running `mask_mod`
            over all pairs, which waits for the GPU. Tables that say more are read in the kernel. A function
            (b, h, q_idx, kv_idx) -> condition will do too, without tables: `flashc.masks`, or one of your own.
        scale: of the scores; None: 1 / sqrt(E).
        enable_gqa: Hq is a multiple of Hkv.
        return_lse: also return the log-sum-exp (natural logarithm), [B, Hq, L] in f32.
        kernel_options: a dictionary. Its options tune PyTorch's kernels and change no result; all are ignored.
        return_aux: an AuxRequest: return (o, AuxOutput) with the log-sum-exp if it asks for that. flashc computes no
            max_scores.

    Returns:
        [B, Hq, L, Ev], with the order of dimensions in memory that `query` has. A query that sees no key gets zeros,
        and a log-sum-exp of -inf.

    Raises:
        flashc.TraceError: a function that does what flashc cannot trace, with the line. Both are traced with values
            that stand for all positions; tensors that they read may be in closures, globals or behind attributes.
        flashc.ArgumentError: shapes that do not go together, a block_mask for other lengths, max_scores.
        flashc.Error: whatever flashc.attention raises.

    Under torch.compile, a BlockMask, or a score_mod or a function with a closure, breaks the graph. A BlockMask that is
    first seen while a CUDA graph is captured has its tables read.
    """
    if is_compiling() and hasattr(block_mask, "mask_mod"):
        from . import _torch_graph as graph
        return graph.outside(flex_attention, query, key, value, {
            "score_mod": score_mod, "block_mask": block_mask, "scale": scale, "enable_gqa": enable_gqa,
            "return_lse": return_lse, "kernel_options": kernel_options, "return_aux": return_aux})

    def run(q: Tensor, k: Tensor, v: Tensor, **keywords: Any) -> Any:
        q, k, columns = _padded(q), _padded(k), v.shape[-1]
        v = _padded(v)
        if needs_op(q, k, v):
            result = attention(q, k, v, **keywords)
        else:
            result = _run(q, k, v, records_gradients=torch.is_grad_enabled(), **keywords)
        o, *rest = result if keywords["return_lse"] else (result,)
        o = o if o.shape[-1] == columns else o[..., :columns]
        return (o, *rest) if rest else o

    return _flex.flex_attention(run, query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse,
                                kernel_options, return_aux, _follows)
