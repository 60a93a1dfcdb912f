"""What flashc.torch.flex_attention makes of FlexAttention's arguments.

FlexAttention takes a mask twice: as a function, `BlockMask.mask_mod`, and as tables of the blocks in which that
function has to be asked, or holds. flashc derives its loops from the function, so the tables are not read, unless they
are all that there is.
"""
from __future__ import annotations

import sys
from typing import Any, Callable, NamedTuple, Optional, Tuple

from . import ops
from ._library import ArgumentError, UnsupportedTypeError

#: BLOCK_SIZE of the BlockMask that stands for none.
_WHOLE = 1 << 30


class AuxOutput(NamedTuple):
    """FlexAttention's, for a PyTorch that has none."""
    lse: Any = None
    max_scores: Any = None


def flex_attention(run: Callable[..., Any], query: Any, key: Any, value: Any, score_mod: Any, block_mask: Any,
                   scale: Optional[float], enable_gqa: bool, return_lse: bool, kernel_options: Any,
                   return_aux: Any) -> Any:
    """`run(q, k, v, scale=, mask=, score=, enable_gqa=, return_lse=)`, with what FlexAttention is given and returns."""
    _check_tensors(query, key, value)
    if kernel_options is not None and not hasattr(kernel_options, "keys"):
        raise UnsupportedTypeError(f"expected kernel_options to be a dictionary or None, got {kernel_options!r}")
    if score_mod is not None and not callable(score_mod):
        raise UnsupportedTypeError(f"expected score_mod to be a function (score, b, h, q_idx, kv_idx) -> score, got "
                                   f"{type(score_mod)!r}")
    wants_lse = bool(return_lse)
    if return_aux is not None:
        if return_lse:
            raise ArgumentError("expected return_lse or return_aux, got both")
        if return_aux.max_scores:
            raise ArgumentError("expected return_aux without max_scores, which flashc does not compute")
        wants_lse = return_aux.lse
    mask = mask_of(block_mask, query.shape[2], key.shape[2])
    if query.shape[0] != key.shape[0]:
        if block_mask is None or key.shape[0] != 1:
            raise ArgumentError(f"expected query, key and value of one batch, or key and value of batch 1 with a "
                                f"block_mask, got {query.shape[0]} and {key.shape[0]}")
        key, value = (x.expand(query.shape[0], *x.shape[1:]) for x in (key, value))
    if scale is None and query.shape[-1]:
        scale = query.shape[-1] ** -0.5
    result = run(query, key, value, scale=scale, mask=mask, score=score_mod, enable_gqa=enable_gqa,
                 return_lse=wants_lse)
    if return_aux is None:
        return result
    flex = sys.modules.get("torch.nn.attention.flex_attention")
    o, lse = result if wants_lse else (result, None)
    return o, getattr(flex, "AuxOutput", AuxOutput)(lse=lse, max_scores=None)


def _check_tensors(query: Any, key: Any, value: Any) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() != 4:
            raise ArgumentError(f"expected {name} of 4 dimensions [B, H, N, E], got shape {tuple(x.shape)}")
    if query.shape[-1] != key.shape[-1]:
        raise ArgumentError(f"expected query and key of one embedding dimension, got {query.shape[-1]} and "
                            f"{key.shape[-1]}")


def mask_of(block_mask: Any, queries: int, keys: int) -> Optional[Callable[..., Any]]:
    """The mask of a BlockMask, or None if it keeps everything. A function is its own mask."""
    if block_mask is None:
        return None
    if not hasattr(block_mask, "mask_mod"):
        if callable(block_mask):
            return block_mask
        raise UnsupportedTypeError(f"expected block_mask to be a BlockMask, a function (b, h, q_idx, kv_idx) -> "
                                   f"condition or None, got {type(block_mask)!r}")
    is_whole = all(size >= _WHOLE for size in block_mask.BLOCK_SIZE)
    lengths = tuple(block_mask.seq_lengths)
    if not is_whole and lengths != (queries, keys):
        raise ArgumentError(f"expected a block_mask that was made for {queries} queries and {keys} keys, got one for "
                            f"{lengths[0]} and {lengths[1]}")
    if not _keeps_everything(block_mask.mask_mod):
        return block_mask.mask_mod
    return None if is_whole else _tables(block_mask)


def _keeps_everything(mask_mod: Any) -> bool:
    """Whether a BlockMask was made of tables alone: PyTorch gives it a function that is true everywhere."""
    return mask_mod is None or (getattr(mask_mod, "__name__", "") == "noop_mask" and
                                (mask_mod.__module__ or "").startswith("torch."))


def _tables(block_mask: Any) -> Callable[..., Any]:
    """The mask that the tables of a BlockMask are: of whole blocks."""
    blocks = block_mask.to_dense() != 0
    rows, columns = block_mask.BLOCK_SIZE
    outer: Tuple[int, ...] = tuple(blocks.shape[:-2])

    def keep(b: Any, h: Any, i: Any, j: Any) -> Any:
        places = [0 if extent == 1 else place for extent, place in zip(outer, (b, h)[2 - len(outer):])]
        return ops.array(blocks)[(*places, i // rows, j // columns)]
    return keep
