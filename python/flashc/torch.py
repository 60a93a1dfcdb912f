"""flashc for PyTorch: drop-ins for `torch.nn.functional.scaled_dot_product_attention` and FlexAttention, and the ops
`flashc::attention` and `flashc::attention_backward`; those of serving are in `_torch_serving.py`.

`flashc.attention` takes PyTorch's tensors as they are, and launches on PyTorch's current stream. torch.compile (with
fullgraph=True too), torch.export and fake tensors need ops: for them `flashc.attention`, `flashc.varlen_attention` and
the drop-ins call `torch.ops.flashc.attention`. CUDA graphs capture both kinds of calls, after one call outside the
capture has compiled and loaded the kernel.

All of them are differentiable to first order, inside of graphs through `torch.ops.flashc.attention_backward`; there, a
tensor that a mask or a score reads may not require a gradient. Under torch.autocast they cast as PyTorch's own
attention does.
"""

import itertools
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import _attention, _flex, _torch_serving  # noqa: F401
from ._packed import Packed
from ._runtime.calls import READ_BY_CODE, is_noted, refuse_gradient
from ._runtime.library import ArgumentError, Error, UnsupportedTypeError, described, parse_flag
from ._runtime.options import VECTORS, Operands, Options, parse_dropout
from ._runtime.public import public
from ._runtime.vectors import with_philox
from ._torch_gradient import DIFFERENTIABLE, attend, gradients, is_deterministic, refuse_second_order
from ._torch_ops import Op, code_of, forget, is_compiling, lse_like, names_of, no_sums, sees_up_to_itself, \
    sides_of, window_of
from ._torch_tensors import GRANULE, autocast, is_any_autocast, is_mapped, level, suitable

__all__ = ["flex_attention", "scaled_dot_product_attention"]


# --- The ops ----------------------------------------------------------------------------------------------------------

_OPTIONS = ("Tensor? mask_array, str? mask, str? score, bool causal, SymInt? window_left, SymInt? window_right, "
            "float? scale, bool enable_gqa, str layout")
_VECTORS = "".join(f", Tensor? {name}=None" for name in VECTORS if name not in ("sinks", "philox"))

#: The op returns o and the log-sum-exp. If `return_lse` is false, the latter is a tensor without elements. `offsets`
#: are those of packed sequences, as for flashc.varlen_attention. With `records_gradients`, tensors that masks and
#: scores read may not require gradients.
_ATTENTION = Op("attention", f"Tensor q, Tensor k, Tensor v, {_OPTIONS}, bool return_lse, Tensor? offsets=None, "
                "Tensor? key_offsets=None, bool records_gradients=False, Tensor? sinks=None, float dropout_p=0.0, "
                f"Tensor? philox=None, bool? deterministic=None{_VECTORS}", results=2)
#: The op returns dq, dk, dv and dsinks. If there are no sinks, dsinks is a tensor without elements.
_BACKWARD = Op("attention_backward", "Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor? do, Tensor? dlse, "
               f"{_OPTIONS}, Tensor? offsets, Tensor? key_offsets, bool deterministic, Tensor? sinks=None, "
               f"float dropout_p=0.0, Tensor? philox=None{_VECTORS}", results=len(DIFFERENTIABLE))


def _call_of(x: Dict[str, Any]) -> Tuple[Operands, Options]:
    """Returns the operands and the checked options from an op's arguments."""
    for name in "qkv":
        if x[name].dim() != 4:
            raise ArgumentError(f"expected {name} of 4 dimensions, got shape {tuple(x[name].shape)}")
    mask, score = code_of(x["mask"], x["score"])
    mask, q, k, v = x["mask_array"] if mask is None else mask, x["q"], x["k"], x["v"]
    if x["offsets"] is not None:
        mask, score, q, k, v = Packed(x["offsets"], x["key_offsets"], mask, score), None, q[0], k[0], v[0]
    options = Options(x["causal"], window_of(x), x["scale"], x["dropout_p"], x["enable_gqa"],
                      x.get("return_lse", False), x["layout"], deterministic=x["deterministic"])
    operands = Operands(suitable(q), suitable(k), suitable(v), mask, score, *[x[name] for name in VECTORS])
    return operands, options.checked(operands.philox)


@_ATTENTION.kernel
def _attention_op(x: Dict[str, Any]) -> Tuple[Tensor, Tensor]:
    operands, options = _call_of(x)
    results = _attention.attention_now(operands, options, records=x["records_gradients"])
    o, lse = results if options.return_lse else (results, no_sums(x["q"]))
    if x["offsets"] is None:
        return o, lse
    return o[None], lse[None] if options.return_lse else lse


@_BACKWARD.kernel
def _backward_op(x: Dict[str, Any]) -> Tuple[Tensor, ...]:
    with torch.no_grad():
        given = x["o"], x["lse"], x["do"], x["dlse"]
        if x["offsets"] is None:
            found = gradients(*_call_of(x), given)
        else:
            *found, dsinks = gradients(*_call_of(x), [None if y is None else y[0] for y in given])
            found = *[gradient[None] for gradient in found], dsinks
    return tuple(no_sums(x["q"]) if gradient is None else gradient for gradient in found)


def _like(x: Tensor, columns: int, layout: str) -> Tensor:
    """Returns a new result that lies in memory as `x` does, as flashc._runtime.launch.lies_exchanged decides."""
    batch, first, second = x.shape[:3]
    if layout == "bhsd" and first > 1 and second > 1 and x.stride(1) < x.stride(2):
        return x.new_empty((batch, second, first, columns)).transpose(1, 2)
    return x.new_empty((batch, first, second, columns))


@_ATTENTION.fake
def _attention_fake(x):
    q, v = x["q"], x["v"]
    torch._check(q.dim() == 4 and x["k"].dim() == 4 and v.dim() == 4, lambda: "expected q, k and v of 4 dimensions")
    return _like(q, v.shape[3], x["layout"]), lse_like(q, x["layout"], x["return_lse"])


@_BACKWARD.fake
def _backward_fake(x):
    return (*(_like(x[name], x[name].shape[3], x["layout"]) for name in "qkv"),
            no_sums(x["q"]) if x["sinks"] is None else torch.empty_like(x["sinks"]))


def _save(ctx, inputs, output):
    """Saves the results and the arguments of the op for the backward pass."""
    x = _ATTENTION.named(inputs)
    refuse_gradient(READ_BY_CODE, x["mask_array"])
    if not x["return_lse"]:
        raise Error("expected flashc::attention with return_lse=True where gradients are recorded")
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*output, *(x[name] for name in _ATTENTION.tensors))
    ctx.others = {name: value for name, value in x.items() if name not in _ATTENTION.tensors}


def _backward(ctx, do, dlse):
    found = {}
    if do is not None or dlse is not None:
        o, lse, *saved = ctx.saved_tensors
        x = {**ctx.others, **dict(zip(_ATTENTION.tensors, saved)), "o": o, "lse": lse, "do": do, "dlse": dlse,
             "deterministic": is_deterministic(ctx.others["deterministic"])}
        found = dict(zip(DIFFERENTIABLE, _BACKWARD.overload(*_BACKWARD.values(x))))
        if x["sinks"] is None:
            del found["sinks"]
    return tuple(found.get(name) for name in _ATTENTION.names)


_ATTENTION.differentiate(_attention_op, _backward, _save)
_BACKWARD.differentiate(_backward_op, refuse_second_order)


def attention(operands: Operands, options: Options,
              offsets: Tuple[Optional[Tensor], Optional[Tensor]] = (None, None)) -> Any:
    """`flashc.attention` through the op; checks `options`. `offsets`: of packed sequences, as for
    `flashc.varlen_attention`.

    Under torch.compile, a mask or a score function with a closure or defaults breaks the graph, which fullgraph=True
    refuses. Arrays that a function names as globals are read at every call.
    """
    x: Dict[str, Any] = {name: getattr(options, name) for name in Options._fields}
    for name in Options._fields:
        if name not in _ATTENTION.names and name != "window" and x[name] != Options._field_defaults[name]:
            raise ArgumentError(f"expected no {name} for an op of PyTorch, got {x[name]!r}")
    for name in ("causal", "enable_gqa", "return_lse"):
        x[name] = parse_flag(name, x[name])
    for name, vector in zip(Operands._fields, operands):
        x[name] = vector
    x["q"], x["k"], x["v"] = autocast(operands.q, operands.k, operands.v)
    x["dropout_p"] = parse_dropout(options.dropout_p, operands.philox)
    if x["dropout_p"] and operands.philox is None:
        x["philox"] = with_philox(operands, options).philox
    mask, score = operands.mask, operands.score
    x["mask_array"] = mask if isinstance(mask, Tensor) else None
    names = names_of(None if isinstance(mask, Tensor) else mask, score)
    if names is None:
        from . import _torch_graph as graph
        return graph.outside(_outside_of_graphs, [x[name] for name in Operands._fields],
                             [x[name] for name in Options._fields], offsets)
    x["mask"], x["score"] = names
    x["window_left"], x["window_right"] = sides_of(options.window)
    x["offsets"], x["key_offsets"] = offsets
    records = x["records_gradients"] = torch.is_grad_enabled()
    is_differentiated = records and any([x[name] is not None and x[name].requires_grad for name in DIFFERENTIABLE])
    return_lse = x["return_lse"]
    x["return_lse"] = return_lse or is_differentiated
    try:
        o, lse = _ATTENTION.overload(*[x[name] for name in _ATTENTION.names])
    finally:
        if not is_differentiated:
            forget(names)
    return (o, lse) if return_lse else o


def _outside_of_graphs(operands: Sequence[Any], options: Sequence[Any], offsets: Sequence[Optional[Tensor]]) -> Any:
    read, asked = Operands(*operands), Options(*options)
    if offsets[0] is None:
        return _attend(read, asked)
    q, k, v, mask, score, *vectors = read
    result = _attention.attend(Operands(q[0], k[0], v[0], Packed(*offsets, mask, score), None, *vectors), asked)
    return tuple(x[None] for x in result) if isinstance(result, tuple) else result[None]


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
    """Broadcasts the leading dimensions of query, key, value and attn_mask."""
    if not [shape for shape in shapes[1:] if shape and shape != shapes[0]]:
        return shapes[0]
    try:
        return torch.broadcast_shapes(*shapes)
    except RuntimeError:
        raise ArgumentError("expected leading dimensions that broadcast, got "
                            f"{', '.join(str(tuple(shape)) for shape in shapes)}") from None


def _padded(x: Tensor) -> Tensor:
    """Pads the last dimension with zeros to a multiple of 8; they do not change the products."""
    rest = -x.shape[-1] % GRANULE
    return torch.nn.functional.pad(x, (0, rest)) if rest else x


def _attend(operands: Operands, options: Options) -> Any:
    """flashc.attention, after copies of tensors with strides that kernels cannot read."""
    q, k, v, mask, score, sinks, philox = operands
    if is_noted(torch, q, k, v):
        return attention(operands, options)
    if level() is None or not is_mapped(q, k, v):
        if is_any_autocast():
            q, k, v = autocast(q, k, v)
        operands = Operands(suitable(q), suitable(k), suitable(v), mask, score, sinks, philox)
    return attend(operands, options, None)


@public
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, scale: Optional[float] = None,
                                 enable_gqa: bool = False) -> Tensor:
    """`torch.nn.functional.scaled_dot_product_attention` on flashc's kernels: in bf16 or f16 (f32 on the CPU).

    Args:
        query: [..., Hq, L, E].
        key: [..., H, S, E].
        value: [..., H, S, Ev]. Leading dimensions, and heads without enable_gqa, broadcast; a tensor that is broadcast
            is copied for each batch or head, except keys and values that both have one head.
        attn_mask: broadcasts to [..., Hq, L, S]. bool: True where a key takes part; numbers: added to the scores.
        dropout_p: the rate with which a probability is dropped, rounded to a multiple of 1/256; seeds come from the
            generator of the tensors' device.
        is_causal: query i sees key j <= i, also where L and S differ (flashc.attention aligns the last ones instead).
        scale: of the scores; None: 1 / sqrt(E).
        enable_gqa: Hq is a multiple of H, and query head h reads key head h // (Hq // H).

    Returns:
        [..., Hq, L, Ev], with the order of dimensions in memory that `query` has. A query that sees no key gets zeros.

    Raises:
        flashc.ArgumentError: an invalid rate of dropout, both a mask and is_causal, or shapes that do not go together.
        flashc.Error: any error of flashc.attention.

    Strides and head dimensions that the kernels do not take cost a copy.
    """
    if type(is_causal) is not bool or type(enable_gqa) is not bool:
        is_causal, enable_gqa = parse_flag("is_causal", is_causal), parse_flag("enable_gqa", enable_gqa)
    for name, x in (("query", query), ("key", key), ("value", value), ("attn_mask", attn_mask)):
        if not isinstance(x, Tensor) and (x is not None or name != "attn_mask"):
            raise UnsupportedTypeError(f"expected {name} to be a tensor, got {described(x)}")
    if attn_mask is not None and is_causal:
        raise ArgumentError("expected attn_mask or is_causal, got both")
    most = max(query.dim(), key.dim(), value.dim())
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise ArgumentError(
            f"expected query, key and value of 2 dimensions or more, got {query.dim()}, {key.dim()} and "
            f"{value.dim()}")
    if scale is None:
        scale = query.shape[-1] ** -0.5 if query.shape[-1] else 1.0
    columns, leading, (q, k, v) = value.shape[-1], query.shape[:-3], (query, key, value)
    if query.dim() != 4 or key.shape[:-3] != leading or value.shape[:-3] != leading or attn_mask is not None:
        leading = _broadcast(*[x.shape[:-3] for x in (q, k, v)], () if attn_mask is None else attn_mask.shape[:-3])
        q, k, v = [_with_four_dimensions(x, leading) for x in (q, k, v)]
    if q.shape[-1] % GRANULE or k.shape[-1] % GRANULE or v.shape[-1] % GRANULE:
        q, k, v = _padded(q), _padded(k), _padded(v)
    if not enable_gqa and not q.shape[1] == k.shape[1] == v.shape[1] != 1:
        q, k, v, enable_gqa = _with_heads(q, k, v)
    if attn_mask is not None:
        attn_mask = _mask_of_four_dimensions(attn_mask, leading)
    square = query.shape[-2] == key.shape[-2]
    mask = attn_mask if attn_mask is not None else sees_up_to_itself if is_causal and not square else None
    o = _attend(Operands(q, k, v, mask), Options(is_causal and square, None, scale, dropout_p, enable_gqa))
    if o.shape[-1] != columns:
        o = o[..., :columns]
    if len(leading) == 1:
        return o
    return o.reshape(*leading, *o.shape[1:]) if most > 2 else o[0, 0]


def _with_heads(q: Tensor, k: Tensor, v: Tensor) -> Tuple[Tensor, Tensor, Tensor, bool]:
    """Broadcasts the heads. The last result is enable_gqa: true if k and v both have one head, which stays one."""
    counts = [x.shape[1] for x in (q, k, v)]
    heads = max(counts)
    if heads == min(counts) != 1:
        return q, k, v, False
    if any(count not in (1, heads) for count in counts):
        raise ArgumentError("expected as many heads, or one, in query, key and value without enable_gqa, got "
                            f"{counts[0]}, {counts[1]} and {counts[2]}")
    if k.shape[1] == v.shape[1] == 1:
        return q, k, v, True
    return (*(x if x.shape[1] == heads else x.expand(-1, heads, -1, -1) for x in (q, k, v)), False)


#: The most pairs for which a mask_mod is run at once.
_MOST_PAIRS = 1 << 26


def _follows(mask_mod: Callable[..., Any], table: Tensor, block_size: Tuple[int, int],
             lengths: Tuple[int, int]) -> Optional[bool]:
    """Whether a mask_mod keeps the same pairs as the tables of its BlockMask. Waits for the GPU; None while a CUDA
    graph is captured, where waiting is not allowed."""
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
            for b, h, first in itertools.product(range(table.shape[0]), range(table.shape[1]), range(0, queries, step)):
                kept = part(b, h, first, min(step, queries - first))
                is_true &= _flex.is_true_to(table[b, h], block_size, first, kept)
        return bool(is_true)
    except Exception:  # PyTorch may fail to run the mask_mod, or lack the memory: then the tables are read.
        return False


@public
def flex_attention(query: Tensor, key: Tensor, value: Tensor, score_mod: Optional[Callable[..., Any]] = None,
                   block_mask: Any = None, scale: Optional[float] = None, enable_gqa: bool = False,
                   return_lse: bool = False, kernel_options: Optional[Dict[str, Any]] = None, *,
                   return_aux: Any = None) -> Any:
    """`torch.nn.attention.flex_attention.flex_attention` on flashc's kernels: in bf16 or f16 (f32 on the CPU).

    No torch.compile is needed: flashc traces the functions by itself.

    Args:
        query: [B, Hq, L, E].
        key: [B, Hkv, S, E].
        value: [B, Hkv, S, Ev].
        score_mod: (score, b, h, q_idx, kv_idx) -> score, on the scaled score; h is the query head.
        block_mask: a BlockMask for L queries and S keys. A query sees the keys of its full blocks, and those of its
            partial blocks that `mask_mod` keeps. If the tables follow from `mask_mod`, as those of `create_block_mask`
            do, `mask_mod` alone is the mask; flashc finds that out once per BlockMask, by running `mask_mod` over all
            pairs, which waits for the GPU. Other tables are read in the kernel. A function
            (b, h, q_idx, kv_idx) -> condition, such as one of `flashc.masks`, is accepted too, without tables. Masks
            of `flashc.masks` have their own alignment: `flashc.masks.causal("top-left")` is PyTorch's causal mask.
        scale: of the scores; None: 1 / sqrt(E).
        enable_gqa: Hq is a multiple of Hkv.
        return_lse: also return the log-sum-exp (natural logarithm), [B, Hq, L] in f32.
        kernel_options: a dictionary, which is ignored: its options tune PyTorch's kernels and change no result.
        return_aux: an AuxRequest: return (o, AuxOutput), with the log-sum-exp if the request has it. flashc computes no
            max_scores.

    Returns:
        [B, Hq, L, Ev], with the order of dimensions in memory that `query` has. A query that sees no key gets zeros,
        and a log-sum-exp of -inf.

    Raises:
        flashc.TraceError: a function does something that flashc cannot trace; the text has the line. Functions are
            called with values that stand for all positions; tensors that they read may be in closures, globals or
            attributes.
        flashc.ArgumentError: shapes that do not go together, a block_mask for other lengths, max_scores.
        flashc.Error: any error of flashc.attention.

    Under torch.compile, a BlockMask, or a score_mod or a function with a closure, breaks the graph. If a BlockMask is
    first used while a CUDA graph is captured, its tables are read in the kernel.
    """
    if is_compiling() and hasattr(block_mask, "mask_mod"):
        from . import _torch_graph as graph
        return graph.outside(lambda *x: flex_attention(*x[:-1], return_aux=x[-1]), query, key, value, score_mod,
                             block_mask, scale, enable_gqa, return_lse, kernel_options, return_aux)

    operands, options, returned = _flex.read(Operands(query, key, value, block_mask, score_mod),
                                             Options(scale=scale, enable_gqa=enable_gqa, return_lse=return_lse),
                                             kernel_options, return_aux, _follows)
    q, k, v, columns = operands.q, operands.k, operands.v, value.shape[-1]
    if q.shape[-1] % GRANULE or columns % GRANULE:
        operands = Operands(_padded(q), _padded(k), _padded(v), operands.mask, score_mod)
    result = _attend(operands, options)
    o, *rest = result if options.return_lse else (result,)
    return returned(o if o.shape[-1] == columns else o[..., :columns], *rest)
