"""Small models of diffusers with random weights, and what they are called with, for the tests of the door."""
from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple

import diffusers
import torch

# More threads make such small models slower.
torch.set_num_threads(1)


class Family(NamedTuple):
    make: Callable[..., Any]
    #: The arguments of a call, for a batch, the side of an image in patches, and the number of text tokens.
    inputs: Callable[[int, int, int], Dict[str, Any]]


def _text_mask(batch: int, texts: int) -> torch.Tensor:
    """Returns a mask of text tokens, of which later batches have fewer."""
    return torch.arange(texts)[None] < torch.tensor([[max(1, texts - 2 * b)] for b in range(batch)])


def _times(batch: int) -> torch.Tensor:
    return torch.linspace(900, 100, batch)


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


def _flux(heads: int = 2, depth: int = 16, **settings: Any) -> Any:
    axes = depth // 2, depth // 4, depth // 4
    return diffusers.FluxTransformer2DModel(**{**dict(
        in_channels=8, num_layers=1, num_single_layers=1, attention_head_dim=depth, num_attention_heads=heads,
        joint_attention_dim=32, pooled_projection_dim=32, axes_dims_rope=axes), **settings})


def _flux_inputs(batch: int, side: int, texts: int) -> Dict[str, Any]:
    return dict(hidden_states=_random(batch, side * side, 8), encoder_hidden_states=_random(batch, texts, 32),
                pooled_projections=_random(batch, 32), timestep=_times(batch) / 1000,
                img_ids=_random(side * side, 3), txt_ids=_random(texts, 3))


def _flux2(heads: int = 2, depth: int = 16) -> Any:
    return diffusers.Flux2Transformer2DModel(
        in_channels=8, num_layers=1, num_single_layers=1, attention_head_dim=depth, num_attention_heads=heads,
        joint_attention_dim=32, timestep_guidance_channels=32, axes_dims_rope=(depth // 4,) * 4)


def _flux2_inputs(batch: int, side: int, texts: int) -> Dict[str, Any]:
    return dict(hidden_states=_random(batch, side * side, 8), encoder_hidden_states=_random(batch, texts, 32),
                timestep=_times(batch) / 1000, guidance=torch.ones(batch), img_ids=_random(side * side, 4),
                txt_ids=_random(texts, 4))


def _sd3(heads: int = 2, depth: int = 16, **settings: Any) -> Any:
    return diffusers.SD3Transformer2DModel(**{**dict(
        sample_size=16, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=depth, num_attention_heads=heads,
        joint_attention_dim=32, caption_projection_dim=heads * depth, pooled_projection_dim=32, out_channels=4,
        pos_embed_max_size=16, dual_attention_layers=(0,), qk_norm="rms_norm"), **settings})


def _sd3_inputs(batch: int, side: int, texts: int) -> Dict[str, Any]:
    return dict(hidden_states=_random(batch, 4, 2 * side, 2 * side), encoder_hidden_states=_random(batch, texts, 32),
                pooled_projections=_random(batch, 32), timestep=_times(batch))


def _wan(heads: int = 2, depth: int = 16, image: bool = True) -> Any:
    return diffusers.WanTransformer3DModel(
        patch_size=(1, 2, 2), num_attention_heads=heads, attention_head_dim=depth, in_channels=4, out_channels=4,
        text_dim=32, freq_dim=32, ffn_dim=48, num_layers=1, rope_max_seq_len=32,
        image_dim=24 if image else None, added_kv_proj_dim=heads * depth if image else None)


def _wan_inputs(batch: int, side: int, texts: int) -> Dict[str, Any]:
    return dict(hidden_states=_random(batch, 4, 2, 2 * side, 2 * side), timestep=_times(batch),
                encoder_hidden_states=_random(batch, texts, 32), encoder_hidden_states_image=_random(batch, 5, 24))


def _qwen(heads: int = 2, depth: int = 16) -> Any:
    axes = depth // 2, depth // 4, depth // 4
    return diffusers.QwenImageTransformer2DModel(
        patch_size=2, in_channels=8, out_channels=2, num_layers=2, attention_head_dim=depth, num_attention_heads=heads,
        joint_attention_dim=32, axes_dims_rope=axes)


def _qwen_inputs(batch: int, side: int, texts: int) -> Dict[str, Any]:
    return dict(hidden_states=_random(batch, side * side, 8), encoder_hidden_states=_random(batch, texts, 32),
                encoder_hidden_states_mask=_text_mask(batch, texts), timestep=_times(batch) / 1000,
                img_shapes=[(1, side, side)] * batch)


def _cogvideox(heads: int = 2, depth: int = 16) -> Any:
    return diffusers.CogVideoXTransformer3DModel(
        num_attention_heads=heads, attention_head_dim=depth, in_channels=4, out_channels=4, time_embed_dim=8,
        text_embed_dim=32, num_layers=2, sample_width=8, sample_height=8, sample_frames=9, patch_size=2,
        temporal_compression_ratio=4, max_text_seq_length=8, use_rotary_positional_embeddings=True)


def _cogvideox_inputs(batch: int, side: int, texts: int) -> Dict[str, Any]:
    return dict(hidden_states=_random(batch, 3, 4, 2 * side, 2 * side), encoder_hidden_states=_random(batch, texts, 32),
                timestep=_times(batch))


def _hunyuan(heads: int = 2, depth: int = 16) -> Any:
    axes = depth // 2, depth // 4, depth // 4
    return diffusers.HunyuanVideoTransformer3DModel(
        in_channels=4, out_channels=4, num_attention_heads=heads, attention_head_dim=depth, num_layers=1,
        num_single_layers=1, num_refiner_layers=1, patch_size=1, patch_size_t=1, guidance_embeds=True,
        text_embed_dim=32, pooled_projection_dim=32, rope_axes_dim=axes)


def _hunyuan_inputs(batch: int, side: int, texts: int) -> Dict[str, Any]:
    return dict(hidden_states=_random(batch, 4, 2, side, side), timestep=_times(batch),
                encoder_hidden_states=_random(batch, texts, 32), encoder_attention_mask=_text_mask(batch, texts),
                pooled_projections=_random(batch, 32), guidance=torch.full((batch,), 1000.0))


def _ltx(heads: int = 2, depth: int = 16) -> Any:
    return diffusers.LTXVideoTransformer3DModel(
        in_channels=8, out_channels=8, num_attention_heads=heads, attention_head_dim=depth,
        cross_attention_dim=heads * depth, num_layers=2, caption_channels=32)


def _ltx_inputs(batch: int, side: int, texts: int) -> Dict[str, Any]:
    return dict(hidden_states=_random(batch, 2 * side * side, 8), encoder_hidden_states=_random(batch, texts, 32),
                timestep=_times(batch), encoder_attention_mask=_text_mask(batch, texts).float(), num_frames=2,
                height=side, width=side)


def _lumina(heads: int = 4, depth: int = 24, key_heads: int = 2) -> Any:
    return diffusers.Lumina2Transformer2DModel(
        sample_size=16, patch_size=2, in_channels=4, hidden_size=heads * depth, num_layers=1, num_refiner_layers=1,
        num_attention_heads=heads, num_kv_heads=key_heads, multiple_of=16, axes_dim_rope=(depth // 3,) * 3,
        axes_lens=(64, 32, 32), cap_feat_dim=32)


def _lumina_inputs(batch: int, side: int, texts: int) -> Dict[str, Any]:
    return dict(hidden_states=_random(batch, 4, 2 * side, 2 * side), timestep=_times(batch) / 1000,
                encoder_hidden_states=_random(batch, texts, 32), encoder_attention_mask=_text_mask(batch, texts))


def _pixart(heads: int = 2, depth: int = 16) -> Any:
    return diffusers.PixArtTransformer2DModel(
        num_attention_heads=heads, attention_head_dim=depth, in_channels=4, out_channels=8, num_layers=2,
        cross_attention_dim=heads * depth, sample_size=16, patch_size=2, caption_channels=32,
        use_additional_conditions=False)


def _pixart_inputs(batch: int, side: int, texts: int) -> Dict[str, Any]:
    return dict(hidden_states=_random(batch, 4, 2 * side, 2 * side), encoder_hidden_states=_random(batch, texts, 32),
                timestep=_times(batch), encoder_attention_mask=_text_mask(batch, texts).float(),
                added_cond_kwargs={"resolution": None, "aspect_ratio": None})


def _cogview4(heads: int = 2, depth: int = 16) -> Any:
    return diffusers.CogView4Transformer2DModel(
        patch_size=2, in_channels=4, out_channels=4, num_layers=2, attention_head_dim=depth, num_attention_heads=heads,
        text_embed_dim=32, time_embed_dim=16, condition_dim=8, pos_embed_max_size=16, sample_size=16,
        rope_axes_dim=(16, 16))


def _cogview4_inputs(batch: int, side: int, texts: int) -> Dict[str, Any]:
    sizes = torch.full((batch, 2), 16.0)
    return dict(hidden_states=_random(batch, 4, 2 * side, 2 * side), encoder_hidden_states=_random(batch, texts, 32),
                timestep=_times(batch), original_size=sizes, target_size=sizes, crop_coords=0 * sizes)


def _mochi(heads: int = 2, depth: int = 16) -> Any:
    return diffusers.MochiTransformer3DModel(
        patch_size=2, num_attention_heads=heads, attention_head_dim=depth, num_layers=2, pooled_projection_dim=16,
        in_channels=4, text_embed_dim=32, time_embed_dim=8, max_sequence_length=16)


def _mochi_inputs(batch: int, side: int, texts: int) -> Dict[str, Any]:
    return dict(hidden_states=_random(batch, 4, 2, 2 * side, 2 * side), encoder_hidden_states=_random(batch, texts, 32),
                timestep=_times(batch), encoder_attention_mask=_text_mask(batch, texts))


def _unet(heads: int = 2, depth: int = 16) -> Any:
    return diffusers.UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(32, heads * depth),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32, norm_num_groups=4,
        attention_head_dim=heads)  # Diffusers' name for the number of heads.


def _unet_inputs(batch: int, side: int, texts: int) -> Dict[str, Any]:
    return dict(sample=_random(batch, 4, 4 * side, 4 * side), timestep=_times(batch),
                encoder_hidden_states=_random(batch, texts, 32), encoder_attention_mask=_text_mask(batch, texts))


def _unet_added(heads: int = 2, depth: int = 16) -> Any:
    return diffusers.UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(32, heads * depth),
        down_block_types=("DownBlock2D", "SimpleCrossAttnDownBlock2D"), mid_block_type="UNetMidBlock2DSimpleCrossAttn",
        up_block_types=("SimpleCrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=32, attention_head_dim=depth,
        norm_num_groups=4)


FAMILIES: Dict[str, Family] = {
    "Flux": Family(_flux, _flux_inputs), "Flux2": Family(_flux2, _flux2_inputs), "SD3": Family(_sd3, _sd3_inputs),
    "Wan": Family(_wan, _wan_inputs), "QwenImage": Family(_qwen, _qwen_inputs),
    "CogVideoX": Family(_cogvideox, _cogvideox_inputs), "HunyuanVideo": Family(_hunyuan, _hunyuan_inputs),
    "LTXVideo": Family(_ltx, _ltx_inputs), "Lumina2": Family(_lumina, _lumina_inputs),
    "PixArt": Family(_pixart, _pixart_inputs), "CogView4": Family(_cogview4, _cogview4_inputs),
    "Mochi": Family(_mochi, _mochi_inputs), "UNet": Family(_unet, _unet_inputs),
    "UNet with added keys": Family(_unet_added, _unet_inputs),
}

#: Models that call scaled_dot_product_attention outside of their attention layers, and how often: Mochi pools its text.
OUTSIDE = {"Mochi": 1}


def make(name: str, **settings: Any) -> Any:
    """Returns a model in evaluation mode, whose parameters are all random, those that diffusers sets to 0 too."""
    model = FAMILIES[name].make(**settings).eval()
    with torch.no_grad():
        for x in model.parameters():
            x.normal_(0.7 if x.dim() == 1 else 0.0, 0.2)
    return model


def inputs(name: str, batch: int, side: int = 3, texts: int = 7) -> Dict[str, Any]:
    return FAMILIES[name].inputs(batch, side, texts)
