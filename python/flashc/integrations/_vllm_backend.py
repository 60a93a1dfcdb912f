"""flashc's attention backend for vLLM: vLLM's classes, whose work `_vllm_step.py` does. `vllm.py` registers the
backend."""
from __future__ import annotations

from typing import Any, ClassVar, List, Optional, Tuple, Union

import torch
import vllm.envs as envs
from torch import Tensor
from vllm.platforms import current_platform
from vllm.v1.attention.backend import AttentionBackend, AttentionCGSupport, AttentionImpl, AttentionMetadataBuilder, \
    AttentionType, CommonAttentionMetadata, MultipleOf
from vllm.v1.attention.backends.utils import fill_mm_prefix_query_ranges
from vllm.v1.kv_cache_interface import EncoderOnlyAttentionSpec

from ._vllm_step import EIGHT_BITS, Layer, Places, Step, piecewise_calls, uniform_call

_ENCODERS = AttentionType.ENCODER, AttentionType.ENCODER_ONLY
_TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


class FlashcBackend(AttentionBackend):
    """The backend. vLLM's selector asks it what it supports (`validate_configuration`)."""

    #: `forward` writes new tokens into the cache, by places that the builder computed once for all layers.
    forward_includes_kv_cache_update: bool = True
    supported_kv_cache_dtypes: ClassVar[List[Any]] = ["auto", *_TYPES, *EIGHT_BITS]

    @staticmethod
    def get_name() -> str:
        return "CUSTOM"

    @staticmethod
    def get_impl_cls() -> type:
        return FlashcImpl

    @staticmethod
    def get_builder_cls() -> type:
        return FlashcMetadataBuilder

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec: Any = None) -> List[Union[int, MultipleOf]]:
        return [MultipleOf(16)]

    @classmethod
    def supported_kv_cache_layouts(cls) -> None:
        """Any layout: keys and values are read as views."""
        return None

    @classmethod
    def supports_head_size(cls, head_size: int) -> bool:
        return head_size % 8 == 0 and 8 <= head_size <= 256

    @classmethod
    def supports_dtype(cls, dtype: torch.dtype) -> bool:
        return dtype in _TYPES.values() or dtype == torch.float32 and current_platform.is_cpu()

    @classmethod
    def supports_compute_capability(cls, capability: Any) -> bool:
        return (capability.major, capability.minor) == (9, 0)

    @classmethod
    def supports_attn_type(cls, attn_type: str) -> bool:
        return attn_type == AttentionType.DECODER or attn_type in _ENCODERS

    @classmethod
    def supports_sink(cls) -> bool:
        return True

    @classmethod
    def supports_sliding_window(cls) -> bool:
        return True

    @classmethod
    def supports_non_causal(cls) -> bool:
        return True

    @classmethod
    def supports_mm_prefix(cls) -> bool:
        return True

    @classmethod
    def supports_per_head_quant_scales(cls) -> bool:
        return True

    @classmethod
    def supports_batch_invariance(cls) -> bool:
        return True

    @classmethod
    def supports_device_cpu_query_lens_mismatch(cls) -> bool:
        """The calls of uniform batches are planned by the offsets on the host."""
        return False

    @classmethod
    def validate_configuration(cls, head_size: int, dtype: torch.dtype, kv_cache_dtype: Optional[str],
                               block_size: Optional[int], *args: Any, **keywords: Any) -> List[str]:
        """Returns the reasons why flashc cannot compute a layer: those of vLLM, followed by the limits of flashc."""
        reasons = super().validate_configuration(head_size, dtype, kv_cache_dtype, block_size, *args, **keywords)
        if not cls.supports_head_size(head_size):
            reasons.append(f"expected head_size to be a multiple of 8 from 8 to 256, got {head_size}")
        if not cls.supports_dtype(dtype):
            reasons.append(f"expected dtype to be float16 or bfloat16, got {dtype}")
        if not cls.supports_kv_cache_dtype(kv_cache_dtype):
            reasons.append(f"expected kv_cache_dtype to be one of {', '.join(cls.supported_kv_cache_dtypes)}, got "
                           f"{kv_cache_dtype}")
        if not cls.supports_block_size(block_size):
            reasons.append(f"expected block_size to be a multiple of 16, got {block_size}")
        if kv_cache_dtype in _TYPES and _TYPES[kv_cache_dtype] != dtype:
            reasons.append(f"expected a 16-bit kv cache of the type of the queries, {dtype}, got {kv_cache_dtype}")
        capability = keywords.get("device_capability")
        if capability is not None and not cls.supports_compute_capability(capability):
            reasons.append("expected a GPU of compute capability 9.0 (Hopper), got "
                           f"{capability.major}.{capability.minor}")
        if kv_cache_dtype in EIGHT_BITS:
            reasons += cls._reasons_of_eight_bits(head_size, **keywords)
        return reasons

    @staticmethod
    def _reasons_of_eight_bits(head_size: int, use_mm_prefix: bool = False, use_batch_invariant: bool = False,
                               use_non_causal: bool = False, **others: Any) -> List[str]:
        reasons = []
        if head_size % 16:
            reasons.append(f"expected head_size to be a multiple of 16 for 8-bit kv caches, got {head_size}")
        if use_mm_prefix:
            reasons.append("partial multimodal token full attention needs packed queries, which do not read 8-bit kv "
                           "caches")
        if use_non_causal:
            reasons.append("non-causal attention by request needs packed queries, which do not read 8-bit kv caches")
        if use_batch_invariant:
            reasons.append("batch invariance needs packed queries, which do not read 8-bit kv caches")
        return reasons


class FlashcMetadataBuilder(AttentionMetadataBuilder[Step]):
    """Makes the step of flashc for a batch of vLLM. All layers of a group share a step."""

    def __init__(self, kv_cache_spec: Any, layer_names: List[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        scheduler = vllm_config.scheduler_config
        capacity = max(scheduler.max_num_batched_tokens, scheduler.max_num_seqs,
                       vllm_config.compilation_config.max_cudagraph_capture_size or 0)
        self._places = None if isinstance(kv_cache_spec, EncoderOnlyAttentionSpec) else \
            Places(capacity, kv_cache_spec.block_size, device)
        speculative = vllm_config.speculative_config
        drafts = 0 if speculative is None else speculative.num_speculative_tokens or 0
        #: The numbers of queries of a decoding sequence. A kernel without packed queries is compiled for each.
        self._sizes = tuple({1, 1 + drafts})
        self._is_eight_bit = _has_eight_bits(kv_cache_spec)
        if self._is_eight_bit:
            # Decoding sequences are neighbors, so that one call computes them.
            self._init_reorder_batch_threshold(1, supports_spec_as_decode=True)
        self._ranges: Any = None
        if _has_ranges(vllm_config):
            rows = torch.empty(capacity, 2, dtype=torch.int32, pin_memory=device.type == "cuda")
            self._ranges = rows, torch.empty(capacity, 2, dtype=torch.int32, device=device)

    @classmethod
    def get_cudagraph_support(cls, vllm_config: Any, kv_cache_spec: Any) -> AttentionCGSupport:
        """Graphs of any batches, if the graphs are captured of packed queries (`_packs_all`); otherwise graphs of
        batches with equal numbers of queries. A graph that was captured without ranges of multimodal tokens cannot
        serve a batch with them, and no decoding batch has them."""
        is_general = _packs_all(vllm_config) and not _has_eight_bits(kv_cache_spec) and not _has_ranges(vllm_config)
        return AttentionCGSupport.ALWAYS if is_general else AttentionCGSupport.UNIFORM_BATCH

    def build(self, common_prefix_len: int, common_attn_metadata: CommonAttentionMetadata,
              fast_build: bool = False) -> Step:
        """Returns the step of a batch.

        Raises:
            NotImplementedError: a common prefix to be computed apart (cascade attention), which vLLM 0.32 and later
                versions do not ask for; a causal flag for each request together with a cache of 8 bits.
        """
        if common_prefix_len:
            raise NotImplementedError(f"expected no cascade attention, got a common prefix of {common_prefix_len} "
                                      "tokens: flashc reads shared pages for each request")
        batch = common_attn_metadata
        requests, tokens = batch.num_reqs, batch.num_actual_tokens
        lengths, table = batch.seq_lens[:requests], batch.block_table_tensor[:requests]
        offsets = batch.query_start_loc[:requests + 1]
        places = self._places and self._places.find(batch.slot_mapping, tokens)
        step = Step(tokens, offsets, lengths, table, places, batch.causal)
        is_by_request = isinstance(batch.causal, Tensor)
        if self._is_eight_bit:
            if is_by_request:
                raise NotImplementedError("expected causal to be one flag for all requests together with an 8-bit kv "
                                          "cache, got a tensor")
            step.calls = piecewise_calls(batch.query_start_loc_cpu[:requests + 1].tolist(), lengths, table, self._sizes)
            return step
        if batch.mm_req_doc_ranges is not None and self._ranges is not None and step.causal is True:
            step.mm_prefix_query_range_tensor = self._find_ranges(batch)
        if not (is_by_request or step.mm_prefix_query_range_tensor is not None or _packs_all(self.vllm_config)):
            step.calls = uniform_call(batch.query_start_loc_cpu[:requests + 1].tolist(), lengths, table, self._sizes)
        return step

    def _find_ranges(self, batch: CommonAttentionMetadata) -> Optional[Tensor]:
        """Returns the range of keys that each query of multimodal tokens sees, or None if no query has one."""
        host, device = self._ranges
        rows = fill_mm_prefix_query_ranges(host.numpy(), batch.mm_req_doc_ranges, batch.query_start_loc_cpu,
                                           batch.seq_lens_cpu_upper_bound)
        if not rows:
            return None
        device[:rows].copy_(host[:rows], non_blocking=True)
        return device[:rows]


def _packs_all(vllm_config: Any) -> bool:
    """Returns whether all batches have packed queries: a row's bits must not depend on the other requests, or a graph
    that was captured of any batch serves others with as many tokens."""
    return envs.VLLM_BATCH_INVARIANT or \
        vllm_config.compilation_config.cudagraph_mode.mixed_mode().name == "FULL"


def _has_ranges(vllm_config: Any) -> bool:
    """Returns whether multimodal tokens of the model see the later tokens of their range."""
    return vllm_config.model_config is not None and vllm_config.model_config.is_mm_prefix_lm


def _has_eight_bits(kv_cache_spec: Any) -> bool:
    return kv_cache_spec.dtype.itemsize == 1


class FlashcImpl(AttentionImpl[Step]):
    """The attention of one layer."""

    def __init__(self, num_heads: int, head_size: int, scale: float, num_kv_heads: Optional[int] = None,
                 alibi_slopes: Optional[List[float]] = None, sliding_window: Optional[int] = None,
                 kv_cache_dtype: str = "auto", logits_soft_cap: Optional[float] = None,
                 attn_type: str = AttentionType.DECODER, kv_sharing_target_layer_name: Optional[str] = None,
                 sinks: Optional[Tensor] = None) -> None:
        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self.kv_cache_dtype, self.attn_type = kv_cache_dtype, attn_type
        self.sliding_window, self.logits_soft_cap, self.sinks = sliding_window, logits_soft_cap, sinks
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name
        if sinks is not None and tuple(sinks.shape) != (num_heads,):
            raise ValueError(f"expected a sink for each of {num_heads} heads, got shape {tuple(sinks.shape)}")
        self._layer = Layer(head_size, self.scale, slopes=alibi_slopes, window=sliding_window,
                            soft_cap=logits_soft_cap, sinks=sinks, batch_invariant=envs.VLLM_BATCH_INVARIANT)

    def process_weights_after_loading(self, act_dtype: torch.dtype) -> None:
        if self.sinks is not None:
            self._layer.sinks = self.sinks.detach().float()

    def forward(self, layer: Any, query: Tensor, key: Tensor, value: Tensor, kv_cache: Tensor,
                attn_metadata: Optional[Step], output: Tensor, output_scale: Optional[Tensor] = None,
                output_block_scale: Optional[Tensor] = None) -> Tensor:
        """Writes key and value into the cache, and the attention into output.

        Args:
            query, output: [tokens, Hq, D].
            key, value: [tokens, Hk, D].
            kv_cache: [pages, Hk, page, 2 D].
            attn_metadata: the step, or None in vLLM's run for measuring memory, which sets the output to 0.

        Raises:
            NotImplementedError: outputs in 8 or 4 bits (output_scale).
        """
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError("expected no fused quantization of the output, got a scale")
        if attn_metadata is None:
            return output.fill_(0)
        if self.attn_type in _ENCODERS:
            self._layer.encode(attn_metadata, query, key, value, output)
            return output
        k_scale, v_scale = self._scales(layer)
        if self.kv_sharing_target_layer_name is None:
            self._layer.write(attn_metadata, key, value, kv_cache, k_scale, v_scale)
        self._layer.clamps_ranges = getattr(layer, "mm_prefix_clamp_sliding_window", False)
        self._layer.attend_cache(attn_metadata, query, kv_cache, output, k_scale, v_scale)
        return output

    def _scales(self, layer: Any) -> Tuple[Optional[Tensor], Optional[Tensor]]:
        """Returns the scales of a cache of 8 bits: one for all heads, or one for each."""
        if self.kv_cache_dtype not in EIGHT_BITS:
            return None, None
        k_scale, v_scale = (scale.reshape(()) if scale.numel() == 1 else scale.reshape(-1)
                            for scale in (layer._k_scale, layer._v_scale))
        return k_scale, v_scale
