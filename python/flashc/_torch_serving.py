"""The ops of serving, `flashc::decode`, `flashc::append_kv`, `flashc::rotate` and `flashc::merge_states`: what the
functions of serving are in graphs of torch.compile and torch.export. Nothing records their gradients."""

from typing import Any, Callable, Optional, Tuple

import torch
from torch import Tensor

from . import _append_kv, _decode, _merge_states, _rotary
from ._runtime.calls import refuse_gradients
from ._torch_ops import forget, functions, lse_like, names_of, no_sums, sides_of
from ._torch_tensors import suitable

__all__ = ["append_kv", "decode", "merge_states"]


# --- flashc.decode ----------------------------------------------------------------------------------------------------

@torch.library.custom_op("flashc::decode", mutates_args=())
def _decode_op(q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, block_table: Optional[Tensor],
               mask: Optional[str], score: Optional[str], causal: bool, window_left: Optional[int],
               window_right: Optional[int], scale: Optional[float], sinks: Optional[Tensor], return_lse: bool,
               k_scale: Optional[Tensor], v_scale: Optional[Tensor], layout: str, splits: Optional[int], batch_invariant: bool,
               records_gradients: bool = False) -> Tuple[Tensor, Tensor]:
    """o, and the log-sum-exp: without `return_lse`, a tensor of no elements in its place. `records_gradients`: those of
    what masks and scores read would be cut. Of caches nothing makes copies."""
    keep, rescore = (None if name is None else functions[name] for name in (mask, score))
    window = None if window_left is None and window_right is None else (window_left, window_right)
    with torch.set_grad_enabled(records_gradients):
        results = _decode.decode_now(suitable(q), k_cache, v_cache, lengths, block_table, causal=causal, window=window,
                                     scale=scale, mask=keep, score=rescore, sinks=sinks, return_lse=return_lse,
                                     k_scale=k_scale, v_scale=v_scale, layout=layout, splits=splits, batch_invariant=batch_invariant)
    return results if return_lse else (results, no_sums(q))


@_decode_op.register_fake
def _decode_fake(q, k_cache, v_cache, lengths, block_table, mask, score, causal, window_left, window_right, scale, sinks,
                 return_lse, k_scale, v_scale, layout, splits, batch_invariant, records_gradients=False):
    torch._check(q.dim() == 4 and v_cache.dim() == 4, lambda: "expected q and v_cache of 4 dimensions")
    return q.new_empty((*q.shape[:3], v_cache.shape[3])), lse_like(q, layout, return_lse)


def decode(q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, block_table: Optional[Tensor], *, causal: bool,
           window: Any, scale: Optional[float], mask: Optional[Callable[..., Any]],
           score: Optional[Callable[..., Any]], sinks: Optional[Tensor], return_lse: bool, k_scale: Optional[Tensor],
           v_scale: Optional[Tensor], layout: str, splits: Optional[int], batch_invariant: bool) -> Any:
    """What `flashc.decode` calls where an op is needed, with the same arguments and result. Masks and scores are as in
    `flashc.torch.attention`: one that has a closure or defaults breaks the graph."""
    refuse_gradients(q=q, k_cache=k_cache, v_cache=v_cache, sinks=sinks)
    names = names_of(mask, score)
    if names is None:
        from . import _torch_graph as graph
        return graph.outside(_decode.decode, q, k_cache, v_cache, {
            "lengths": lengths, "block_table": block_table, "causal": causal, "window": window, "scale": scale,
            "mask": mask, "score": score, "sinks": sinks, "return_lse": return_lse, "k_scale": k_scale, "v_scale": v_scale,
            "layout": layout, "splits": splits, "batch_invariant": batch_invariant})
    try:
        o, lse = torch.ops.flashc.decode.default(
            q, k_cache, v_cache, lengths, block_table, *names, causal, *sides_of(window), scale, sinks, return_lse,
            k_scale, v_scale, layout, splits, batch_invariant, torch.is_grad_enabled())
    finally:
        forget(names)
    return (o, lse) if return_lse else o


# --- flashc.append_kv -------------------------------------------------------------------------------------------------

@torch.library.custom_op("flashc::append_kv", mutates_args=("k_cache", "v_cache"))
def _append_op(k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor, block_table: Optional[Tensor], positions: Tensor,
               cos: Optional[Tensor], sin: Optional[Tensor], interleaved: bool, counts: Optional[Tensor],
               k_scale: Optional[Tensor] = None, v_scale: Optional[Tensor] = None,
               leftpad: Optional[Tensor] = None) -> None:
    rotary = None if cos is None else (cos, sin, interleaved)
    with torch.no_grad():
        _append_kv.append_now(k_cache, v_cache, k, v, block_table, positions, rotary=rotary, counts=counts,
                              k_scale=k_scale, v_scale=v_scale, leftpad=leftpad)


@_append_op.register_fake
def _append_fake(k_cache, v_cache, k, v, block_table, positions, cos, sin, interleaved, counts, k_scale=None, v_scale=None,
                 leftpad=None):
    return None


def append_kv(k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor, block_table: Optional[Tensor], positions: Tensor, *,
              rotary: Optional[Tuple[Tensor, Tensor, bool]], counts: Optional[Tensor], k_scale: Optional[Tensor],
              v_scale: Optional[Tensor], leftpad: Optional[Tensor]) -> None:
    """What `flashc.append_kv` calls where an op is needed."""
    cos, sin, interleaved = (None, None, False) if rotary is None else rotary
    refuse_gradients(k_cache=k_cache, v_cache=v_cache, k=k, v=v, cos=cos, sin=sin)
    torch.ops.flashc.append_kv.default(k_cache, v_cache, k, v, block_table, positions, cos, sin, interleaved, counts,
                                       k_scale, v_scale, leftpad)


# --- Rotation of queries ----------------------------------------------------------------------------------------------

@torch.library.custom_op("flashc::rotate", mutates_args=())
def _rotate_op(q: Tensor, first: Tensor, cos: Tensor, sin: Tensor, interleaved: bool, is_bshd: bool) -> Tensor:
    with torch.no_grad():
        return _rotary.rotated_now(q, first, (cos, sin, interleaved), is_bshd)


@_rotate_op.register_fake
def _rotate_fake(q, first, cos, sin, interleaved, is_bshd):
    return q.new_empty(q.shape)


def rotate(q: Tensor, first: Tensor, cos: Tensor, sin: Tensor, interleaved: bool, is_bshd: bool) -> Tensor:
    """The rotation of q in `flashc.decode` and `flashc.append_kv`, where an op is needed."""
    refuse_gradients(q=q, cos=cos, sin=sin)
    return torch.ops.flashc.rotate.default(q, first, cos, sin, interleaved, is_bshd)


# --- flashc.merge_states ----------------------------------------------------------------------------------------------

@torch.library.custom_op("flashc::merge_states", mutates_args=())
def _merge_op(o: Tensor, lse: Tensor, sinks: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
    with torch.no_grad():
        return _merge_states.merge_now(o, lse, sinks=sinks)


@_merge_op.register_fake
def _merge_fake(o, lse, sinks):
    torch._check(o.dim() == 5, lambda: "expected o of 5 dimensions")
    return o.new_empty(o.shape[1:]), o.new_empty(o.shape[1:4], dtype=torch.float32)


def merge_states(o: Tensor, lse: Tensor, sinks: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
    """What `flashc.merge_states` calls where an op is needed."""
    refuse_gradients(o=o, lse=lse, sinks=sinks)
    merged, whole = torch.ops.flashc.merge_states.default(o, lse, sinks)
    return merged, whole
