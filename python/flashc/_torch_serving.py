"""The PyTorch ops of serving, `flashc::decode`, `flashc::append_kv`, `flashc::rotate` and `flashc::merge_states`, for
graphs of torch.compile and torch.export. They have no gradients."""

from typing import Any, Dict, Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import _append_kv, _decode, _merge_states, _rotary
from ._runtime.calls import refuse_gradients
from ._runtime.options import Operands, Options
from ._torch_ops import Op, code_of, forget, lse_like, names_of, no_sums, sides_of, window_of
from ._torch_tensors import suitable

# --- flashc.decode ----------------------------------------------------------------------------------------------------

#: The op returns o and the log-sum-exp. If `return_lse` is false, the latter is a tensor without elements. With
#: `records_gradients`, tensors that masks and scores read may not require gradients. Caches are never copied.
_DECODE = Op(
    "decode", "Tensor q, Tensor k_cache, Tensor v_cache, Tensor lengths, Tensor? block_table, str? mask, str? score, "
    "bool causal, SymInt? window_left, SymInt? window_right, float? scale, Tensor? sinks, bool return_lse, "
    "Tensor? k_scale, Tensor? v_scale, str layout, SymInt? splits, bool batch_invariant, "
    "bool records_gradients=False, Tensor? cu_seqlens_q=None", results=2)


@_DECODE.kernel
def _decode_op(x: Dict[str, Any]) -> Tuple[Tensor, Tensor]:
    cache = _decode.Cache(*(x[name] for name in _decode.Cache._fields))
    options = Options(window=window_of(x), enable_gqa=True, **{name: x[name] for name in _NAMED})
    operands = Operands(suitable(x["q"]), x["k_cache"], x["v_cache"], *code_of(x["mask"], x["score"]), x["sinks"])
    results = _decode.decode_now(operands, options, cache, records=x["records_gradients"])
    return results if options.return_lse else (results, no_sums(x["q"]))


#: The options of decode that the op has as arguments.
_NAMED = "causal", "scale", "return_lse", "layout", "splits", "batch_invariant"


@_DECODE.fake
def _decode_fake(x):
    q, v_cache = x["q"], x["v_cache"]
    if x["cu_seqlens_q"] is not None:
        torch._check(q.dim() == 3 and v_cache.dim() == 4, lambda: "expected q of 3 dimensions and v_cache of 4")
        lse = lse_like(q[None], x["layout"], x["return_lse"])
        return q.new_empty((*q.shape[:2], v_cache.shape[3])), lse[0] if x["return_lse"] else lse
    torch._check(q.dim() == 4 and v_cache.dim() == 4, lambda: "expected q and v_cache of 4 dimensions")
    return q.new_empty((*q.shape[:3], v_cache.shape[3])), lse_like(q, x["layout"], x["return_lse"])


def decode(operands: Operands, options: Options, cache: "_decode.Cache") -> Any:
    """Calls `flashc.decode` through the op. As in `flashc.torch.attention`, a mask or a score that has a closure or
    defaults breaks the graph."""
    refuse_gradients(q=operands.q, k_cache=operands.k, v_cache=operands.v, sinks=operands.sinks)
    names = names_of(operands.mask, operands.score)
    if names is None:
        from . import _torch_graph as graph
        return graph.outside(_outside_of_graphs, list(operands), list(options), list(cache))
    x = {name: getattr(options, name) for name in _NAMED}
    for name, tensor in zip(_decode.Cache._fields, cache):
        x[name] = tensor
    x["q"], x["k_cache"], x["v_cache"], x["sinks"] = operands.q, operands.k, operands.v, operands.sinks
    x["mask"], x["score"] = names
    x["window_left"], x["window_right"] = sides_of(options.window)
    x["records_gradients"] = torch.is_grad_enabled()
    try:
        o, lse = _DECODE.overload(*[x[name] for name in _DECODE.names])
    finally:
        forget(names)
    return (o, lse) if options.return_lse else o


def _outside_of_graphs(operands: Sequence[Any], options: Sequence[Any], cache: Sequence[Any]) -> Any:
    return _decode.decode_now(Operands(*operands), Options(*options), _decode.Cache(*cache))


# --- flashc.append_kv -------------------------------------------------------------------------------------------------

_APPEND = Op(
    "append_kv", "Tensor(a0!) k_cache, Tensor(a1!) v_cache, Tensor k, Tensor v, Tensor? block_table, Tensor positions, "
    "Tensor? cos, Tensor? sin, bool interleaved, Tensor? counts, Tensor? k_scale=None, Tensor? v_scale=None, "
    "Tensor? leftpad=None, Tensor? cu_seqlens=None", results=0)


@_APPEND.kernel
def _append_op(x: Dict[str, Any]) -> None:
    tokens = _append_kv.Tokens(*(x[name] for name in _append_kv.Tokens._fields))
    _append_kv.append_now(x["k_cache"], x["v_cache"], tokens, x["interleaved"])
    for cache in (x["k_cache"], x["v_cache"]):
        if not cache.is_inference():  # Tensors of inference mode have no count of writes.
            torch.autograd.graph.increment_version(cache)


@_APPEND.fake
def _append_fake(x):
    return None


def append_kv(k_cache: Tensor, v_cache: Tensor, tokens: "_append_kv.Tokens", is_interleaved: bool) -> None:
    """Calls `flashc.append_kv` through the op."""
    refuse_gradients(k_cache=k_cache, v_cache=v_cache, k=tokens.k, v=tokens.v, cos=tokens.cos, sin=tokens.sin)
    x: Dict[str, Any] = {"k_cache": k_cache, "v_cache": v_cache, "interleaved": is_interleaved}
    for name, tensor in zip(_append_kv.Tokens._fields, tokens):
        x[name] = tensor
    _APPEND.overload(*[x[name] for name in _APPEND.names])


# --- Rotation of queries ----------------------------------------------------------------------------------------------

_ROTATE = Op("rotate", "Tensor q, Tensor first, Tensor cos, Tensor sin, bool interleaved, bool is_bshd", results=1)


@_ROTATE.kernel
def _rotate_op(x: Dict[str, Any]) -> Tensor:
    return _rotary.rotated_now(x["q"], x["first"], (x["cos"], x["sin"], x["interleaved"]), x["is_bshd"])


@_ROTATE.fake
def _rotate_fake(x):
    return x["q"].new_empty(x["q"].shape)


def rotate(q: Tensor, first: Tensor, cos: Tensor, sin: Tensor, interleaved: bool, is_bshd: bool) -> Tensor:
    """Rotates q for `flashc.decode` and `flashc.append_kv`, through the op."""
    refuse_gradients(q=q, cos=cos, sin=sin)
    return _ROTATE.overload(q, first, cos, sin, interleaved, is_bshd)


# --- flashc.merge_states ----------------------------------------------------------------------------------------------

_MERGE = Op("merge_states", "Tensor o, Tensor lse, Tensor? sinks", results=2)


@_MERGE.kernel
def _merge_op(x: Dict[str, Any]) -> Tuple[Tensor, Tensor]:
    return _merge_states.merge_now(x["o"], x["lse"], sinks=x["sinks"])


@_MERGE.fake
def _merge_fake(x):
    o = x["o"]
    torch._check(o.dim() == 5, lambda: "expected o of 5 dimensions")
    return o.new_empty(o.shape[1:]), o.new_empty(o.shape[1:4], dtype=torch.float32)


def merge_states(o: Tensor, lse: Tensor, sinks: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
    """Calls `flashc.merge_states` through the op."""
    refuse_gradients(o=o, lse=lse, sinks=sinks)
    merged, whole = _MERGE.overload(o, lse, sinks)
    return merged, whole
