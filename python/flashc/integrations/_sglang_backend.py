"""flashc's attention backend for SGLang: SGLang's class, whose work `_paged_step.py` does. `sglang.py` registers the
backend."""
from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.layers.radix_attention import AttentionType
from sglang.srt.mem_cache.layout.paged_view import paged_kv_view
from sglang.srt.mem_cache.memory_pool import KVWriteLoc
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool
from sglang.srt.runtime_context import get_exec, get_parallel, get_spec
from torch import Tensor

from .._runtime.library import ArgumentError
from ._paged_step import Call, Layer, Step, piecewise_calls

#: The types of caches whose elements have scales, and of caches of the queries' type.
_EIGHT_BITS, _SIXTEEN_BITS = torch.float8_e4m3fn, (torch.float16, torch.bfloat16)

#: Arguments of layers that change the result, and that flashc does not compute.
_REFUSED = ("q_rope", "k_rope", "q_descale", "k_descale", "v_descale", "score_mod", "aux_tensors", "rel_bias",
            "rel_bias_event", "return_lse", "idx_q", "cos_sin_cache", "topk_indices")


class Arrays(NamedTuple):
    """The arrays of a batch on the device. Those of CUDA graphs keep their memory from batch to batch."""
    offsets: Tensor  # [B + 1] in int32, the first of which is always 0
    lengths: Tensor  # [B] in int32
    table: Tensor  # [B, M] in int32
    window_table: Optional[Tensor]  # the same in the pool of layers with windows, if they have one
    window_slots: Optional[Tensor]  # [tokens] in int64: the places of new tokens in that pool


class Metadata(NamedTuple):
    """A batch, as all layers read it."""
    step: Step
    window_step: Step  # of layers whose pool is the one for windows
    window_slots: Optional[Tensor]


class FlashcBackend(AttentionBackend):
    """The backend of a model runner.

    Raises:
        flashc.ArgumentError: what flashc does not support, with the option of SGLang that helps.
    """

    #: No call depends on the host's lengths, except those of prompts for caches of 8 bits (`extend_seq_lens_cpu`).
    needs_cpu_seq_lens: bool = False

    def __init__(self, runner: Any) -> None:
        super().__init__()
        check_runner(runner)
        self.device, self.page_size = runner.device, runner.page_size
        self.req_to_token_pool, self.token_to_kv_pool = runner.req_to_token_pool, runner.token_to_kv_pool
        self.kv_index_translator = runner.kv_index_translator
        self.kv_cache_dtype = runner.kv_cache_dtype
        self._is_eight_bit = runner.kv_cache_dtype == _EIGHT_BITS
        self._is_invariant = get_exec().deterministic.enable_deterministic_inference
        self._pages = -(-self.req_to_token_pool.req_to_token.shape[1] // self.page_size)
        self._has_window_pool = isinstance(self.token_to_kv_pool, SWAKVPool) and \
            self.token_to_kv_pool.swa_layer_nums > 0
        self._drafts: int = get_spec().speculative_num_draft_tokens or 0
        self._one = torch.ones((), dtype=torch.float32, device=self.device)
        self._layers: Dict[Any, Layer] = {}
        self._graph: Optional[Arrays] = None
        self.forward_metadata: Optional[Metadata] = None

    def support_triton(self) -> bool:
        return torch.device(self.device).type == "cuda"

    # --- Batches ------------------------------------------------------------------------------------------------------

    def init_forward_metadata(self, forward_batch: Any) -> None:
        """Prepares a batch that runs without a CUDA graph."""
        batch = forward_batch
        count, slots = batch.batch_size, batch.out_cache_loc
        self.forward_metadata = self._fill(batch, self._arrays(count, 0 if slots is None else slots.shape[0]))

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        """Allocates the arrays that CUDA graphs of at most `max_bs` requests and `max_num_tokens` tokens read."""
        self._graph = self._arrays(max_bs, max_num_tokens)

    def init_forward_metadata_out_graph(self, forward_batch: Any, in_capture: bool = False) -> None:
        """Prepares a batch before a CUDA graph is captured or replayed: fills the arrays that the graph reads."""
        if self._graph is None:
            raise ArgumentError("expected init_cuda_graph_state before a batch of a CUDA graph")
        batch, graph = forward_batch, self._graph
        if self._is_eight_bit and not _has_equal_queries(batch.forward_mode):
            raise NotImplementedError("expected no CUDA graph of prompts together with an 8-bit kv cache, whose calls "
                                      "the host plans")
        count, table = batch.batch_size, graph.window_table
        self.forward_metadata = self._fill(batch, Arrays(
            graph.offsets[:count + 1], graph.lengths[:count], graph.table[:count],
            None if table is None else table[:count], graph.window_slots))

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        """The length of the requests that fill a batch up to the size of a CUDA graph."""
        return 1

    def _arrays(self, count: int, tokens: int) -> Arrays:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int32, device=self.device)
        has_window_pool = self._has_window_pool
        return Arrays(zeros(count + 1), zeros(count), zeros(count, self._pages),
                      zeros(count, self._pages) if has_window_pool else None,
                      zeros(tokens).long() if has_window_pool else None)

    def _fill(self, batch: Any, arrays: Arrays) -> Metadata:
        """Fills the arrays of a batch, and returns the calls that they are for."""
        mode, count = batch.forward_mode, batch.batch_size
        check_batch(batch)
        queries = 0
        if mode.is_decode_or_idle():
            if batch.spec_info is not None and not mode.is_idle():
                raise NotImplementedError("expected no draft tokens of a draft model: --speculative-draft-attention-"
                                          "backend triton computes them")
            queries = 1
            arrays.lengths.copy_(batch.seq_lens[:count])
        elif mode.is_target_verify():
            queries = self._drafts
            torch.add(batch.seq_lens[:count], queries, out=arrays.lengths)
        else:
            arrays.lengths.copy_(batch.seq_lens[:count])
        if queries:
            torch.arange(0, (count + 1) * queries, queries, dtype=torch.int32, out=arrays.offsets)
        else:
            torch.cumsum(batch.extend_seq_lens[:count], 0, dtype=torch.int32, out=arrays.offsets[1:])
        # The first token of each page says where the page is.
        slots = self.req_to_token_pool.req_to_token[batch.req_pool_indices[:count], ::self.page_size]
        torch.div(slots, self.page_size, rounding_mode="floor", out=arrays.table)
        step = Step(0, arrays.offsets, arrays.lengths, arrays.table,
                    calls=self._calls(batch, queries, arrays.lengths, arrays.table))
        if arrays.window_table is None or arrays.window_slots is None:
            return Metadata(step, step, None)
        translate, new = self.token_to_kv_pool.translate_loc_from_full_to_swa, batch.out_cache_loc
        torch.div(translate(slots).int(), self.page_size, rounding_mode="floor", out=arrays.window_table)
        window_slots = arrays.window_slots
        if new is not None:
            window_slots = window_slots[:new.shape[0]]
            window_slots.copy_(translate(new))
        window_step = dataclasses.replace(step, table=arrays.window_table, calls=self._calls(
            batch, queries, arrays.lengths, arrays.window_table))
        return Metadata(step, window_step, window_slots)

    def _calls(self, batch: Any, queries: int, lengths: Tensor, table: Tensor) -> Optional[List[Call]]:
        """Returns the calls of a batch without packed queries, or None: one call with packed queries."""
        if queries and not self._is_invariant:
            return [Call(0, batch.batch_size, queries, lengths, table)]
        if not self._is_eight_bit:
            return None
        offsets = [0]
        for count in batch.extend_seq_lens_cpu:
            offsets.append(offsets[-1] + count)
        return piecewise_calls(offsets, lengths, table, (1,))

    # --- Layers -------------------------------------------------------------------------------------------------------

    def forward_decode(self, q: Tensor, k: Optional[Tensor], v: Optional[Tensor], layer: Any, forward_batch: Any,
                       save_kv_cache: bool = True, sinks: Optional[Tensor] = None, **others: Any) -> Tensor:
        """As `forward_extend`, with one token of each request."""
        return self.forward_extend(q, k, v, layer, forward_batch, save_kv_cache, sinks, **others)

    def forward_extend(self, q: Tensor, k: Optional[Tensor], v: Optional[Tensor], layer: Any, forward_batch: Any,
                       save_kv_cache: bool = True, sinks: Optional[Tensor] = None, **others: Any) -> Tensor:
        """Writes k and v to the pool, and returns the attention, [tokens, Hq Dv].

        Args:
            q: [tokens, Hq D], or [tokens, Hq, D].
            k, v: [tokens, Hk, D] and [tokens, Hk, Dv], or None: the layer reads the cache of another one.
            layer: SGLang's RadixAttention.
            sinks: [Hq], or None.

        Raises:
            flashc.ArgumentError: an argument or a property of the layer that flashc does not support.
        """
        for name, value in others.items():
            if value is not None and value is not False:
                raise ArgumentError(f"expected no {name}, got one" if name in _REFUSED else
                                    f"expected arguments that flashc knows, got {name}")
        metadata, pool = self.forward_metadata, self.token_to_kv_pool
        if metadata is None:
            raise ArgumentError("expected init_forward_metadata before a layer's attention")
        found = self._layers.get(layer)
        if found is None:
            found = self._layers[layer] = make_layer(layer, self._is_invariant)
        found.sinks = None if sinks is None else sinks.detach().float()
        if k is not None and save_kv_cache:
            loc = KVWriteLoc.for_layer(forward_batch, layer, swa_loc=metadata.window_slots)
            pool.set_kv_buffer(layer, loc, k, v, layer.k_scale, layer.v_scale)
        query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim)
        is_in_window_pool = self._has_window_pool and pool.layers_mapping[layer.layer_id][1]
        step = metadata.window_step if is_in_window_pool else metadata.step
        is_causal = layer.attn_type == AttentionType.DECODER
        if not is_causal and self._is_eight_bit:
            raise ArgumentError(f"expected causal attention together with an 8-bit kv cache, got {layer.attn_type}")
        step = dataclasses.replace(step, tokens=query.shape[0], causal=is_causal)
        out = query.new_empty(query.shape[0], layer.tp_q_head_num, layer.v_head_dim)
        if step.calls:  # These calls do not write the rows of padding, which follow the last call's.
            last = step.calls[-1]
            out[last.begin + last.count * last.queries:].zero_()
        found.attend(step, query, *self._cache(layer), out, *self._scales(layer))
        return out.flatten(1)

    def _cache(self, layer: Any) -> Tuple[Tensor, Tensor]:
        """Returns views of the keys and the values of a layer, [pages, page, Hk, D] and [pages, page, Hk, Dv]."""
        k, v = self.token_to_kv_pool.get_kv_buffer(layer.layer_id)
        return (paged_kv_view(k, self.page_size, layer.tp_k_head_num, layer.qk_head_dim),
                paged_kv_view(v, self.page_size, layer.tp_v_head_num, layer.v_head_dim))

    def _scales(self, layer: Any) -> Tuple[Optional[Tensor], Optional[Tensor]]:
        """Returns the scales of a cache of 8 bits, [] in f32."""
        if not self._is_eight_bit:
            return None, None
        k_scale, v_scale = (self._one if scale is None else scale.detach().float().reshape(())
                            for scale in (layer.k_scale, layer.v_scale))
        return k_scale, v_scale


# --- What is refused --------------------------------------------------------------------------------------------------

def _has_equal_queries(mode: Any) -> bool:
    return mode.is_decode_or_idle() or mode.is_target_verify()


def check_runner(runner: Any) -> None:
    """Raises an error if flashc does not support a model runner's configuration."""
    model, parallel, dtype = runner.model_config, get_parallel(), runner.kv_cache_dtype
    for is_refused, text in (
            (runner.use_mla_backend, "expected a model without multi-head latent attention (MLA), which flashc does "
                                     "not compute"),
            (runner.page_size % 16, f"expected pages of a multiple of 16 tokens, got {runner.page_size}: start SGLang "
                                    "with --page-size 16"),
            (runner.is_draft_worker, "expected no draft model: --speculative-draft-attention-backend triton computes "
                                     "it"),
            (runner.kv_index_translator.is_translating, "expected no unified pool: start SGLang without "
                                                        "--enable-unified-memory"),
            (model.is_encoder_decoder, "expected a model without cross-attention, whose queries are no tokens of the "
                                       "cached sequence"),
            (model.is_local_attention_model, "expected a model without chunks of attention (local attention)"),
            (getattr(runner, "prefill_aware_swa", False), "expected no windows that depend on the prompt"),
            (parallel.attn_cp_size > 1, f"expected no context parallelism, got attn_cp_size={parallel.attn_cp_size}"),
            (parallel.dcp_enabled, "expected no context parallelism of decoding (dcp_size)"),
            ((get_spec().speculative_eagle_topk or 0) > 1,
             "expected chains of draft tokens, since flashc has no masks of trees: start SGLang with "
             f"--speculative-eagle-topk 1, got {get_spec().speculative_eagle_topk}"),
            (dtype != _EIGHT_BITS and dtype != runner.dtype or runner.kv_cache_dtype_str in ("mxfp8", "nvfp4"),
             f"expected a kv cache of the model's type, {runner.dtype}, or of fp8_e4m3, got {dtype} "
             f"({runner.kv_cache_dtype_str}): start SGLang with --kv-cache-dtype auto or fp8_e4m3"),
            (runner.dtype not in _SIXTEEN_BITS and torch.device(runner.device).type == "cuda",
             f"expected a model in float16 or bfloat16, got {runner.dtype}"),
            (dtype == _EIGHT_BITS and get_exec().deterministic.enable_deterministic_inference,
             "expected a 16-bit kv cache together with --enable-deterministic-inference: packed queries do not read "
             "8-bit caches")):
        if is_refused:
            raise ArgumentError(text)


def check_batch(batch: Any) -> None:
    """Raises an error if flashc does not support a batch."""
    mode = batch.forward_mode
    if mode.is_dllm_extend():
        raise NotImplementedError("expected no batch of a diffusion language model (DLLM_EXTEND)")
    if getattr(batch, "multi_item_delimiter_indices", None):
        raise NotImplementedError("expected no multi-item scoring (--enable-multi-item-scoring)")
    if mode.is_target_verify() and getattr(batch.spec_info, "ragged_verify_layout", None) is not None:
        raise NotImplementedError("expected equal numbers of draft tokens, got ragged_verify_layout")


def make_layer(layer: Any, is_invariant: bool) -> Layer:
    """Returns the layer of flashc for SGLang's RadixAttention."""
    name = f"layer {layer.layer_id}"
    if layer.is_cross_attention:
        raise ArgumentError(f"expected no cross-attention, got {name}")
    if layer.logit_cap and layer.logit_capping_method != "tanh":
        raise ArgumentError(f"expected logit_capping_method \"tanh\", got {layer.logit_capping_method!r} in {name}")
    if layer.xai_temperature_len > 0:
        raise ArgumentError(f"expected no temperature by position, got xai_temperature_len={layer.xai_temperature_len} "
                            f"in {name}")
    if layer.pos_encoding_mode != "NONE":
        raise ArgumentError(f"expected pos_encoding_mode \"NONE\", got {layer.pos_encoding_mode!r} in {name}")
    # SGLang counts the keys before the query's own one.
    window = layer.sliding_window_size + 1 if layer.sliding_window_size > -1 else None
    return Layer(float(layer.scaling), window=window, soft_cap=layer.logit_cap or None, batch_invariant=is_invariant)
