"""Attention of packed sequences for transformers: `cu_seq_lens_q`, and continuous batching, whose caches have pages."""
from __future__ import annotations

import functools
from typing import Any, Callable, Tuple

from torch import Tensor

from transformers.generation.continuous_batching import initialization
from transformers.generation.continuous_batching.continuous_api import ContinuousBatchingManager as _Manager

from .. import append_kv, decode, varlen_attention
from .._runtime.library import ArgumentError
from .._torch_tensors import suitable
from ._transformers_mask import ModelMask


def takes(call: Any) -> bool:
    """Whether a call has offsets that are needed. A collator may pass them together with position_ids, from which the
    model's mask knows the sequences already."""
    others = call.others
    if others.get("cu_seq_lens_q") is None or others.get("cu_seq_lens_k") is None:
        return False
    return others.get("block_table") is not None or not (
        isinstance(call.mask, ModelMask) and call.mask.conjunction is not None and call.mask.conjunction.is_packed)


def attention(call: Any, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """Returns o, [1, total, Hq, Dv], of packed sequences: query [1, Hq, total, D], key [1, Hk, total_k, D].

    The offsets are `cu_seq_lens_q` and `cu_seq_lens_k`, [S + 1]. With a `block_table`, each sequence has one new token,
    which is first written into the pages of `k_cache` and `v_cache`.
    """
    others = call.others
    if query.shape[0] != 1 or call.bias is not None:
        raise ArgumentError("expected a batch of 1 and no position_bias together with cu_seq_lens_q, got a batch of "
                            f"{query.shape[0]}{'' if call.bias is None else ' and a position_bias'}")
    causal, window = _bounds(call)
    options = dict(causal=causal, window=window, scale=scale, score=call.score(False), sinks=call.sinks)
    offsets, key_offsets = others["cu_seq_lens_q"], others["cu_seq_lens_k"]
    if others.get("block_table") is not None and others.get("k_cache") is not None:
        lengths = key_offsets[1:] - key_offsets[:-1]
        q, k, v = [x[0].transpose(0, 1)[:, None] for x in (query, key, value)]  # [S, 1, H, D]
        k_cache, v_cache, table = _pages(others["k_cache"], others["v_cache"], others["block_table"])
        append_kv(k_cache, v_cache, k, v, table, lengths - 1)
        return decode(suitable(q), k_cache, v_cache, lengths, table, **options)[:, 0][None]
    q, k, v = [suitable(x.transpose(1, 2))[0] for x in (query, key, value)]
    return varlen_attention(q, k, v, offsets, key_offsets, enable_gqa=q.shape[1] != k.shape[1], dropout_p=call.dropout,
                            **options)[None]


def _pages(k_cache: Tensor, v_cache: Tensor, table: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Returns caches without common memory, and their table of pages. transformers keeps pages of keys and of values in
    turns in one array, of which both caches are views, and numbers all pages."""
    page = k_cache[0].numel() * k_cache.element_size()
    if v_cache.data_ptr() - k_cache.data_ptr() != page:
        return k_cache, v_cache, table
    return k_cache[::2], v_cache[::2], table // 2


def _bounds(call: Any) -> Tuple[bool, Any]:
    """Returns whether attention is causal, and its window, in each of the packed sequences."""
    if call.mask is None:
        # As for FlashAttention: sliding_window counts the query's own key.
        size = call.others.get("sliding_window")
        return call.is_causal, None if size is None else (size - 1, 0 if call.is_causal else size - 1)
    conjunction = call.mask.conjunction if isinstance(call.mask, ModelMask) else None
    if conjunction is None or call.mask.shift != 0 or conjunction.others:
        raise ArgumentError("expected a mask of positions alone, such as a causal window, together with cu_seq_lens_q, "
                            f"got {call.mask!r}: leave out the attention_mask, or cu_seq_lens_q")
    return False, conjunction.window


# --- Continuous batching ----------------------------------------------------------------------------------------------

def register(name: str) -> None:
    """Lets continuous batching take the attention `name`: transformers 5.24 asks for names of its own."""
    if not hasattr(_Manager.switch_to_cb_friendly_attn, "of_flashc"):
        _Manager.switch_to_cb_friendly_attn = _switch(_Manager.switch_to_cb_friendly_attn, name)
        initialization.ensure_decode_fast_path_is_available = _ensure(
            initialization.ensure_decode_fast_path_is_available, name)


def _switch(switch: Callable[..., None], name: str) -> Callable[..., None]:
    @functools.wraps(switch)
    def switch_to_cb_friendly_attn(self: Any, model: Any, *arguments: Any, **keywords: Any) -> None:
        """Keeps the attention of flashc, which takes packed sequences and pages."""
        if model.config._attn_implementation != name:
            switch(self, model, *arguments, **keywords)
    switch_to_cb_friendly_attn.of_flashc = True  # type: ignore[attr-defined]
    return switch_to_cb_friendly_attn


def _ensure(ensure: Callable[..., None], name: str) -> Callable[..., None]:
    @functools.wraps(ensure)
    def ensure_decode_fast_path_is_available(config: Any, cb_config: Any, user_requested: bool) -> None:
        """Keeps tables of pages, which flashc.decode reads, where all layers of the model have them."""
        kinds = initialization.group_layers_by_attn_type(config)
        if config._attn_implementation != name or not all(
                initialization.ATTN_TYPE_TO_ALLOCATOR[kind].supports_block_table for kind in kinds):
            ensure(config, cb_config, user_requested)
    return ensure_decode_fast_path_is_available
