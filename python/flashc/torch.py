"""flashc for PyTorch: drop-ins for `torch.nn.functional.scaled_dot_product_attention` and FlexAttention, and the ops
`flashc::attention` and `flashc::attention_backward`, beside those of serving (`_torch_serving.py`).

`flashc.attention` takes PyTorch's tensors as they are, and launches on PyTorch's current stream. What cannot see a call
of Python needs an op: torch.compile (with fullgraph=True too), torch.export, fake tensors. There `flashc.attention`,
`flashc.varlen_attention` and the drop-ins become `torch.ops.flashc.attention`. CUDA graphs capture both, after one call
outside the capture has compiled and loaded the kernel.

All of them are differentiable to first order, inside of graphs through `torch.ops.flashc.attention_backward`; there, a
tensor that a mask or a score reads may not require a gradient. Under torch.autocast they cast as PyTorch's own attention does.
"""

import itertools
from typing import Any, Callable, Dict, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from . import _attention, _flex, _torch_serving, _varlen  # noqa: F401
from ._runtime.calls import READ_BY_CODE, refuse_gradient
from ._runtime.dropout import parse_dropout, philox_of
from ._runtime.library import ArgumentError, Error, UnsupportedTypeError, described, parse_flag
from ._runtime.public import public
from ._torch_gradient import gradients, is_deterministic, refuse_second_order
from ._torch_ops import forget, functions, is_compiling, lse_like, names_of, no_sums, sees_up_to_itself, sides_of
from ._torch_tensors import GRANULE, autocast, is_mapped, suitable

__all__ = ["flex_attention", "scaled_dot_product_attention"]


# --- The ops ----------------------------------------------------------------------------------------------------------

def _keywords(mask_array: Optional[Tensor], mask: Optional[str], score: Optional[str], causal: bool,
              window_left: Optional[int], window_right: Optional[int], scale: Optional[float], enable_gqa: bool,
              layout: str, offsets: Optional[Tensor], key_offsets: Optional[Tensor], q: Tensor, k: Tensor,
              v: Tensor) -> Dict[str, Any]:
    """What an op's arguments say, as keywords of flashc.attention."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 4:
            raise ArgumentError(f"expected {name} of 4 dimensions, got shape {tuple(x.shape)}")
    keep: Any = mask_array if mask is None else functions[mask]
    rescore = None if score is None else functions[score]
    window = None if window_left is None and window_right is None else (window_left, window_right)
    if offsets is not None:
        keep, rescore = _varlen.of_sequences(q[0], k[0], offsets, key_offsets, causal, window, keep, rescore)
        causal, window = False, None
    return {"causal": causal, "window": window, "scale": scale, "mask": keep, "score": rescore,
            "enable_gqa": enable_gqa, "layout": layout}


@torch.library.custom_op("flashc::attention", mutates_args=())
def _attention_op(q: Tensor, k: Tensor, v: Tensor, mask_array: Optional[Tensor], mask: Optional[str],
                  score: Optional[str], causal: bool, window_left: Optional[int], window_right: Optional[int],
                  scale: Optional[float], enable_gqa: bool, layout: str, return_lse: bool,
                  offsets: Optional[Tensor] = None, key_offsets: Optional[Tensor] = None,
                  records_gradients: bool = False, sinks: Optional[Tensor] = None, dropout_p: float = 0.0,
                  philox: Optional[Tensor] = None, deterministic: Optional[bool] = None) -> Tuple[Tensor, Tensor]:
    """o, and the log-sum-exp: without `return_lse`, a tensor of no elements in its place. `offsets`: sequences are
    packed, as for flashc.varlen_attention. `records_gradients`: those of what masks and scores read would be cut."""
    keywords = _keywords(mask_array, mask, score, causal, window_left, window_right, scale, enable_gqa, layout, offsets,
                         key_offsets, q, k, v)
    with torch.no_grad():
        results = _attention.attention_now(suitable(q), suitable(k), suitable(v), sinks=sinks, dropout_p=dropout_p,
                                           philox=philox, return_lse=return_lse, records_gradients=records_gradients,
                                           **keywords)
    return results if return_lse else (results, no_sums(q))


@torch.library.custom_op("flashc::attention_backward", mutates_args=())
def _backward_op(q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Optional[Tensor], dlse: Optional[Tensor],
                 mask_array: Optional[Tensor], mask: Optional[str], score: Optional[str], causal: bool,
                 window_left: Optional[int], window_right: Optional[int], scale: Optional[float], enable_gqa: bool,
                 layout: str, offsets: Optional[Tensor], key_offsets: Optional[Tensor],
                 deterministic: bool, sinks: Optional[Tensor] = None, dropout_p: float = 0.0,
                 philox: Optional[Tensor] = None) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """dq, dk, dv and dsinks: without sinks, a tensor of no elements in its place."""
    keywords = _keywords(mask_array, mask, score, causal, window_left, window_right, scale, enable_gqa, layout, offsets,
                         key_offsets, q, k, v)
    dq, dk, dv, dsinks = gradients(suitable(q), suitable(k), suitable(v), sinks, philox, o, lse, do, dlse,
                                   deterministic, dropout_p=dropout_p, **keywords)
    return dq, dk, dv, no_sums(q) if dsinks is None else dsinks


def _like(x: Tensor, columns: int, layout: str) -> Tensor:
    """As flashc._runtime.launch.output_order: a result lies in memory as `x` does."""
    batch, first, second = x.shape[:3]
    if layout == "bhsd" and first > 1 and second > 1 and x.stride(1) < x.stride(2):
        return x.new_empty((batch, second, first, columns)).transpose(1, 2)
    return x.new_empty((batch, first, second, columns))


@_attention_op.register_fake
def _attention_fake(q, k, v, mask_array, mask, score, causal, window_left, window_right, scale, enable_gqa, layout,
                    return_lse, offsets=None, key_offsets=None, records_gradients=False, sinks=None, dropout_p=0.0,
                    philox=None, deterministic=None):
    torch._check(q.dim() == 4 and k.dim() == 4 and v.dim() == 4, lambda: "expected q, k and v of 4 dimensions")
    return _like(q, v.shape[3], layout), lse_like(q, layout, return_lse)


@_backward_op.register_fake
def _backward_fake(q, k, v, o, lse, do, dlse, mask_array, mask, score, causal, window_left, window_right, scale,
                   enable_gqa, layout, offsets, key_offsets, deterministic, sinks=None, dropout_p=0.0, philox=None):
    return (*(_like(x, x.shape[3], layout) for x in (q, k, v)),
            no_sums(q) if sinks is None else torch.empty_like(sinks))


def _save(ctx, inputs, output):
    """What the backward pass reads: q, k, v, o, the log-sum-exp, what masks and scores read, the sinks, and what
    dropout goes by."""
    q, k, v, mask_array, *options, return_lse, offsets, key_offsets, _, sinks, ctx.dropout_p, philox, ctx.deterministic = \
        inputs
    refuse_gradient(READ_BY_CODE, mask_array)
    if not return_lse:
        raise Error("expected flashc::attention with return_lse=True where gradients are recorded")
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(q, k, v, *output, mask_array, offsets, key_offsets, sinks, philox)
    ctx.options = options


def _backward(ctx, do, dlse):
    nothing = (None,) * 13
    if do is None and dlse is None:
        return (None, None, None, *nothing, None, None, None, None)
    *saved, mask_array, offsets, key_offsets, sinks, philox = ctx.saved_tensors
    dq, dk, dv, dsinks = torch.ops.flashc.attention_backward.default(
        *saved, do, dlse, mask_array, *ctx.options, offsets, key_offsets, is_deterministic(ctx.deterministic), sinks,
        ctx.dropout_p, philox)
    return dq, dk, dv, *nothing, None if sinks is None else dsinks, None, None, None


_attention_op.register_autograd(_backward, setup_context=_save)
_backward_op.register_autograd(refuse_second_order)


def _needs_op(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether a call on these tensors must go through an op: while a graph is traced, and for tensors that are not made
    of memory."""
    return is_compiling() or not (_is_plain(q) and _is_plain(k) and _is_plain(v))


def _is_plain(x: Tensor) -> bool:
    return type(x) is Tensor or type(x) is torch.nn.Parameter


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False,
              window: Union[None, int, Tuple[Optional[int], Optional[int]]] = None, scale: Optional[float] = None,
              mask: Any = None, score: Any = None, sinks: Optional[Tensor] = None, dropout_p: float = 0.0,
              philox: Optional[Tensor] = None, enable_gqa: bool = False, return_lse: bool = False, layout: str = "bhsd",
              offsets: Tuple[Optional[Tensor], Optional[Tensor]] = (None, None),
              deterministic: Optional[bool] = None) -> Any:
    """What `flashc.attention` calls where an op is needed, with the same arguments and result. `offsets`: of packed
    sequences, as for `flashc.varlen_attention`.

    Under torch.compile, a mask or a score that is a function must have neither a closure nor defaults (arrays that it
    names as globals are read at every call): one that has breaks the graph there, which fullgraph=True refuses.
    """
    causal, enable_gqa = parse_flag("causal", causal), parse_flag("enable_gqa", enable_gqa)
    return_lse = parse_flag("return_lse", return_lse)
    q, k, v = autocast(q, k, v)
    dropout_p = parse_dropout(dropout_p, philox)
    if dropout_p:
        philox = philox_of(q, philox)
    mask_array = None
    if isinstance(mask, Tensor):
        mask_array, mask = mask, None
    names = names_of(mask, score)
    if names is None:
        from . import _torch_graph as graph
        return graph.outside(_outside_of_graphs, q, k, v, {
            "causal": causal, "window": window, "scale": scale, "mask": mask if mask_array is None else mask_array,
            "score": score, "sinks": sinks, "dropout_p": dropout_p, "philox": philox, "enable_gqa": enable_gqa,
            "return_lse": return_lse, "layout": layout, "offsets": offsets, "deterministic": deterministic})
    left, right = sides_of(window)
    records = torch.is_grad_enabled()
    is_differentiated = records and any(x is not None and x.requires_grad for x in (q, k, v, sinks))
    try:
        o, lse = torch.ops.flashc.attention.default(q, k, v, mask_array, *names, causal, left, right, scale, enable_gqa,
                                                    layout, return_lse or is_differentiated, *offsets, records, sinks,
                                                    dropout_p, philox, deterministic)
    finally:
        if not is_differentiated:
            forget(names)
    return (o, lse) if return_lse else o


def _outside_of_graphs(q: Tensor, k: Tensor, v: Tensor, offsets: Tuple[Optional[Tensor], Optional[Tensor]],
                       **keywords: Any) -> Any:
    if offsets[0] is not None:
        del keywords["layout"]
        result = _varlen.varlen_attention(q[0], k[0], v[0], *offsets, **keywords)
        return tuple(x[None] for x in result) if isinstance(result, tuple) else result[None]
    return _attend(q, k, v, **keywords)


# --- The drop-ins -----------------------------------------------------------------------------------------------------

def _with_four_dimensions(x: Tensor, leading: Sequence[int]) -> Tensor:
    """[..., heads, n, d], broadcast to the leading dimensions, as [batch, heads, n, d]."""
    while x.dim() < 3 + max(len(leading), 1):
        x = x.unsqueeze(0)
    if tuple(x.shape[:-3]) != tuple(leading) and len(leading) > 0:
        x = x.expand(*leading, *x.shape[-3:])
    return x if x.dim() == 4 else x.flatten(0, x.dim() - 4)


def _mask_of_four_dimensions(mask: Tensor, leading: Sequence[int]) -> Tensor:
    """A mask that broadcasts to [..., heads, L, S] as one that does to [batch, heads, L, S]."""
    if mask.dim() > 3 and any(extent != 1 for extent in mask.shape[:-3]):
        return _with_four_dimensions(mask, leading)
    return mask.reshape(1, *(1,) * (3 - mask.dim()), *mask.shape[-3:])


def _broadcast(*shapes: Sequence[int]) -> Sequence[int]:
    """What the leading dimensions of query, key, value and attn_mask have in common."""
    try:
        return torch.broadcast_shapes(*shapes)
    except RuntimeError:
        raise ArgumentError("expected leading dimensions that broadcast, got "
                            f"{', '.join(str(tuple(shape)) for shape in shapes)}") from None


def _padded(x: Tensor) -> Tensor:
    """`x` with zeros up to a multiple of 8 in its last dimension: the products with them are zero."""
    rest = -x.shape[-1] % GRANULE
    return torch.nn.functional.pad(x, (0, rest)) if rest else x


def _attend(q: Tensor, k: Tensor, v: Tensor, **keywords: Any) -> Any:
    """flashc.attention of tensors that the kernels may not read as they are."""
    if _needs_op(q, k, v):
        return attention(q, k, v, **keywords)
    if is_mapped(q, k, v):
        return _attention.attention(q, k, v, **keywords)
    return _attention.attention(*(suitable(x) for x in autocast(q, k, v)), **keywords)


@public
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, scale: Optional[float] = None,
                                 enable_gqa: bool = False) -> Tensor:
    """`torch.nn.functional.scaled_dot_product_attention` on flashc's kernels: in bf16 or f16 (f32 on the CPU).

    Args:
        query: [..., Hq, L, E].
        key: [..., H, S, E].
        value: [..., H, S, Ev]. Leading dimensions, and heads without enable_gqa, broadcast; what is there once for
            several batches costs a copy for each, but for keys and values of one head.
        attn_mask: broadcasts to [..., Hq, L, S]. bool: True where a key takes part; numbers: added to the scores.
        dropout_p: the rate with which a probability is dropped, the nearest multiple of 1/256; seeds come from the
            generator of the tensors' device.
        is_causal: query i sees key j <= i, also where L and S differ (flashc.attention aligns the last ones instead).
        scale: of the scores; None: 1 / sqrt(E).
        enable_gqa: Hq is a multiple of H, and query head h reads key head h // (Hq // H).

    Returns:
        [..., Hq, L, Ev], with the order of dimensions in memory that `query` has. A query that sees no key gets zeros.

    Raises:
        flashc.ArgumentError: a rate of dropout that is none, both a mask and is_causal, or shapes that do not go
            together.
        flashc.Error: whatever flashc.attention raises.

    Strides and head dimensions that the kernels do not take cost a copy.
    """
    is_causal, enable_gqa = parse_flag("is_causal", is_causal), parse_flag("enable_gqa", enable_gqa)
    for name, x in (("query", query), ("key", key), ("value", value), ("attn_mask", attn_mask)):
        if not isinstance(x, Tensor) and (x is not None or name != "attn_mask"):
            raise UnsupportedTypeError(f"expected {name} to be a tensor, got {described(x)}")
    if attn_mask is not None and is_causal:
        raise ArgumentError("expected attn_mask or is_causal, got both")
    tensors = (query, key, value)
    if any(x.dim() < 2 for x in tensors):
        raise ArgumentError(f"expected query, key and value of 2 dimensions or more, got {query.dim()}, {key.dim()} and "
                            f"{value.dim()}")
    if scale is None:
        scale = query.shape[-1] ** -0.5 if query.shape[-1] else 1.0
    columns, most = value.shape[-1], max(x.dim() for x in tensors)
    leading = _broadcast(*(x.shape[:-3] for x in tensors), () if attn_mask is None else attn_mask.shape[:-3])
    q, k, v = (_padded(_with_four_dimensions(x, leading)) for x in tensors)
    if not enable_gqa:
        q, k, v, enable_gqa = _with_heads(q, k, v)
    if attn_mask is not None:
        attn_mask = _mask_of_four_dimensions(attn_mask, leading)
    square = query.shape[-2] == key.shape[-2]
    mask = attn_mask if attn_mask is not None else sees_up_to_itself if is_causal and not square else None
    o = _attend(q, k, v, causal=is_causal and square, scale=scale, mask=mask, dropout_p=dropout_p,
                enable_gqa=enable_gqa)
    if o.shape[-1] != columns:
        o = o[..., :columns]
    if len(leading) == 1:
        return o
    return o.reshape(*leading, *o.shape[1:]) if most > 2 else o[0, 0]


def _with_heads(q: Tensor, k: Tensor, v: Tensor) -> Tuple[Tensor, Tensor, Tensor, bool]:
    """Heads that broadcast, and whether the query heads of a group share one: keys and values that have one head do."""
    counts = [x.shape[1] for x in (q, k, v)]
    heads = max(counts)
    if any(count not in (1, heads) for count in counts):
        raise ArgumentError("expected as many heads, or one, in query, key and value without enable_gqa, got "
                            f"{counts[0]}, {counts[1]} and {counts[2]}")
    if k.shape[1] == v.shape[1] == 1:
        return q, k, v, True
    return (*(x if x.shape[1] == heads else x.expand(-1, heads, -1, -1) for x in (q, k, v)), False)


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


@public
def flex_attention(query: Tensor, key: Tensor, value: Tensor, score_mod: Optional[Callable[..., Any]] = None,
                   block_mask: Any = None, scale: Optional[float] = None, enable_gqa: bool = False,
                   return_lse: bool = False, kernel_options: Optional[Dict[str, Any]] = None, *,
                   return_aux: Any = None) -> Any:
    """`torch.nn.attention.flex_attention.flex_attention` on flashc's kernels: in bf16 or f16 (f32 on the CPU).

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
            (b, h, q_idx, kv_idx) -> condition will do too, without tables: `flashc.masks`, or one of your own. A mask by
            name has its own alignment: `flashc.masks.causal("top-left")` is what PyTorch calls causal.
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
        result = _attend(q, k, _padded(v), **keywords)
        o, *rest = result if keywords["return_lse"] else (result,)
        o = o if o.shape[-1] == columns else o[..., :columns]
        return (o, *rest) if rest else o

    return _flex.flex_attention(run, query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse,
                                kernel_options, return_aux, _follows)
