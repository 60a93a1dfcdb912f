"""Small models of transformers with random weights, and what they are called with, for the tests of the door."""
from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple

import torch
import transformers

# More threads make such small models slower.
torch.set_num_threads(1)

#: Sizes that most configurations have. Weights are large, so that the probabilities of keys differ.
SIZES = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=100, max_position_embeddings=512, initializer_range=0.2, pad_token_id=0)
_SELF = {**SIZES}
del _SELF["num_key_value_heads"]
EXPERTS = dict(num_local_experts=2, num_experts_per_tok=1)
_WINDOWS = ["sliding_attention", "full_attention"]


class Family(NamedTuple):
    make: Callable[[], Any]
    #: The arguments of a call, for a batch and a length.
    inputs: Callable[[int, int], Dict[str, Any]]
    kind: str


def _config(name: str, **settings: Any) -> Any:
    return getattr(transformers, name)(**settings)


def ids(batch: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(3, 100, (batch, length), generator=torch.Generator().manual_seed(seed))


def _decoder(model: str, config: str, **settings: Any) -> Family:
    def make() -> Any:
        return getattr(transformers, model)(_config(config, **{**SIZES, **settings}))
    return Family(make, lambda batch, length: {"input_ids": ids(batch, length)}, "decoder")


def _encoder(model: str, config: str, **settings: Any) -> Family:
    def make() -> Any:
        return getattr(transformers, model)(_config(config, **{**_SELF, **settings}))
    return Family(make, lambda batch, length: {"input_ids": ids(batch, length)}, "encoder")


def _images(model: str, config: str, **settings: Any) -> Family:
    def make() -> Any:
        return getattr(transformers, model)(_config(config, **{
            **dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                   initializer_range=0.2, image_size=24, patch_size=4), **settings}))
    return Family(make, lambda batch, length: {
        "pixel_values": torch.randn(batch, 3, 24, 24, generator=torch.Generator().manual_seed(1))}, "images")


def _t5() -> Any:
    return transformers.T5ForConditionalGeneration(transformers.T5Config(
        d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, vocab_size=100, dropout_rate=0.0,
        relative_attention_num_buckets=8, relative_attention_max_distance=20, decoder_start_token_id=1, pad_token_id=0,
        eos_token_id=2, initializer_factor=2.0))


def _bart() -> Any:
    return transformers.BartForConditionalGeneration(transformers.BartConfig(
        d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=96, decoder_ffn_dim=96, vocab_size=100, max_position_embeddings=128, init_std=0.2, dropout=0.0,
        decoder_start_token_id=1, pad_token_id=0, eos_token_id=2, forced_eos_token_id=None))


def _whisper() -> Any:
    return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(
        d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=96, decoder_ffn_dim=96, vocab_size=100, max_source_positions=30, max_target_positions=128,
        num_mel_bins=8, init_std=0.2, dropout=0.0, decoder_start_token_id=1, pad_token_id=0, eos_token_id=2,
        bos_token_id=1, suppress_tokens=None, begin_suppress_tokens=None))


def _from_source(batch: int, length: int) -> Dict[str, Any]:
    return {"input_ids": ids(batch, length + 5), "decoder_input_ids": ids(batch, length, 1)}


def _from_audio(batch: int, length: int) -> Dict[str, Any]:
    features = torch.randn(batch, 8, 60, generator=torch.Generator().manual_seed(1))
    return {"input_features": features, "decoder_input_ids": ids(batch, length, 1)}


_VISION = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, image_size=16,
               patch_size=4, initializer_range=0.2)
_IMAGE = 99  # The number of the token that stands for a part of an image.


def _paligemma() -> Any:
    text = dict(**{**SIZES, "vocab_size": 100}, model_type="gemma", head_dim=16, num_image_tokens=16)
    return transformers.PaliGemmaForConditionalGeneration(transformers.PaliGemmaConfig(
        vision_config=dict(**_VISION, model_type="siglip_vision_model", vision_use_head=False), text_config=text,
        image_token_index=_IMAGE, projection_dim=64, hidden_size=64, pad_token_id=0))


def _with_image(batch: int, length: int) -> Dict[str, Any]:
    """One image of 16 tokens before the text."""
    text = ids(batch, length).clamp(max=98)
    tokens = torch.cat([torch.full((batch, 16), _IMAGE), text], 1)
    pixels = torch.randn(batch, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    kinds = torch.cat([torch.zeros(batch, 16 + length // 2), torch.ones(batch, length - length // 2)], 1).long()
    return {"input_ids": tokens, "pixel_values": pixels, "token_type_ids": kinds}


def _gemma3_images() -> Any:
    text = dict(**SIZES, head_dim=16, sliding_window=8, query_pre_attn_scalar=16, layer_types=_WINDOWS)
    return transformers.Gemma3ForConditionalGeneration(transformers.Gemma3Config(
        vision_config=dict(**_VISION, model_type="siglip_vision_model", vision_use_head=False), text_config=text,
        image_token_index=_IMAGE, mm_tokens_per_image=16, boi_token_index=97, eoi_token_index=98, pad_token_id=0))


def _with_image_in_text(batch: int, length: int) -> Dict[str, Any]:
    """One image of 16 tokens inside of the text."""
    text = ids(batch, length).clamp(max=96)
    tokens = torch.cat([text[:, :3], torch.full((batch, 16), _IMAGE), text[:, 3:]], 1)
    pixels = torch.randn(batch, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    return {"input_ids": tokens, "pixel_values": pixels, "token_type_ids": (tokens == _IMAGE).long()}


def _qwen2_vl() -> Any:
    text = dict(**SIZES, rope_parameters={"type": "default", "rope_type": "default", "mrope_section": [2, 3, 3],
                                          "rope_theta": 10000.0})
    vision = dict(depth=2, embed_dim=64, hidden_size=64, num_heads=4, mlp_ratio=2, patch_size=4, spatial_merge_size=2,
                  temporal_patch_size=2, in_channels=3)
    return transformers.Qwen2VLForConditionalGeneration(transformers.Qwen2VLConfig(
        text_config=text, vision_config=vision, image_token_id=_IMAGE, video_token_id=98, vision_start_token_id=97,
        vision_end_token_id=96))


def _with_patches(batch: int, length: int) -> Dict[str, Any]:
    """An image of 4 x 4 patches in each sequence, which become 4 tokens."""
    text = ids(batch, length).clamp(max=95)
    image = torch.tensor([97, _IMAGE, _IMAGE, _IMAGE, _IMAGE, 96]).expand(batch, -1)
    patches = torch.randn(batch * 16, 3 * 2 * 4 * 4, generator=torch.Generator().manual_seed(1))
    tokens = torch.cat([text[:, :2], image, text[:, 2:]], 1)
    return {"input_ids": tokens, "pixel_values": patches, "image_grid_thw": torch.tensor([[1, 4, 4]] * batch),
            "mm_token_type_ids": (tokens == _IMAGE).int()}


_GPT2 = dict(n_embd=64, n_layer=2, n_head=4, n_positions=256, attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0)
_MLA = dict(num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=16,
            v_head_dim=16, n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1, n_shared_experts=1,
            moe_intermediate_size=32, first_k_dense_replace=1)
_LLAMA4 = dict(head_dim=16, attention_chunk_size=8, intermediate_size_mlp=96, layer_types=["chunked_attention",
               "full_attention"], no_rope_layers=[1, 0], num_local_experts=2, num_experts_per_tok=1)
_NO_DROPOUT = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)

FAMILIES: Dict[str, Family] = {
    "Llama": _decoder("LlamaForCausalLM", "LlamaConfig"),
    "Mistral": _decoder("MistralForCausalLM", "MistralConfig", sliding_window=8),
    "Mixtral": _decoder("MixtralForCausalLM", "MixtralConfig", **EXPERTS),
    "Qwen2": _decoder("Qwen2ForCausalLM", "Qwen2Config", use_sliding_window=True, sliding_window=8,
                      layer_types=_WINDOWS),
    "Qwen3": _decoder("Qwen3ForCausalLM", "Qwen3Config", head_dim=16),
    "Gemma2": _decoder("Gemma2ForCausalLM", "Gemma2Config", head_dim=16, sliding_window=8, query_pre_attn_scalar=4,
                       attn_logit_softcapping=2.0),
    "Gemma3": _decoder("Gemma3ForCausalLM", "Gemma3TextConfig", head_dim=16, sliding_window=8,
                       query_pre_attn_scalar=16, layer_types=_WINDOWS),
    "GPT-OSS": _decoder("GptOssForCausalLM", "GptOssConfig", head_dim=16, sliding_window=8, layer_types=_WINDOWS,
                        **EXPERTS),
    "Llama4": _decoder("Llama4ForCausalLM", "Llama4TextConfig", **_LLAMA4),
    "Phi3": _decoder("Phi3ForCausalLM", "Phi3Config", sliding_window=8),
    "Cohere2": _decoder("Cohere2ForCausalLM", "Cohere2Config", sliding_window=8, layer_types=_WINDOWS),
    "OLMo2": _decoder("Olmo2ForCausalLM", "Olmo2Config"),
    "GLM4": _decoder("Glm4ForCausalLM", "Glm4Config", head_dim=16),
    "Granite": _decoder("GraniteForCausalLM", "GraniteConfig", attention_multiplier=0.3),
    "DeepSeek-V3": _decoder("DeepseekV3ForCausalLM", "DeepseekV3Config", **_MLA),
    "GPT-2": _decoder("GPT2LMHeadModel", "GPT2Config", **_GPT2),
    "GPT-NeoX": _decoder("GPTNeoXForCausalLM", "GPTNeoXConfig"),
    "OPT": _decoder("OPTForCausalLM", "OPTConfig", ffn_dim=96, word_embed_proj_dim=64, init_std=0.2, dropout=0.0),
    "StableLM": _decoder("StableLmForCausalLM", "StableLmConfig"),
    "BERT": _encoder("BertModel", "BertConfig", **_NO_DROPOUT),
    "RoBERTa": _encoder("RobertaModel", "RobertaConfig", **_NO_DROPOUT),
    "ModernBERT": _encoder("ModernBertModel", "ModernBertConfig", num_hidden_layers=3, local_attention=8,
                           global_attn_every_n_layers=2, attention_dropout=0.0, cls_token_id=1, sep_token_id=2,
                           eos_token_id=2, bos_token_id=1),
    "ViT": _images("ViTModel", "ViTConfig", **_NO_DROPOUT),
    "DINOv2": _images("Dinov2Model", "Dinov2Config"),
    "SigLIP": _images("SiglipVisionModel", "SiglipVisionConfig"),
    "CLIP text": _encoder("CLIPTextModel", "CLIPTextConfig", eos_token_id=2),
    "T5": Family(_t5, _from_source, "seq2seq"),
    "BART": Family(_bart, _from_source, "seq2seq"),
    "Whisper": Family(_whisper, _from_audio, "audio"),
    "PaliGemma": Family(_paligemma, _with_image, "image-text"),
    "Gemma3 with images": Family(_gemma3_images, _with_image_in_text, "image-text"),
    "Qwen2-VL": Family(_qwen2_vl, _with_patches, "image-text"),
}


def make(name: str) -> Any:
    torch.manual_seed(0)
    return FAMILIES[name].make().eval()
