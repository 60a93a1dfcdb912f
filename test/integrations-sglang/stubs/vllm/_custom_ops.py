"""The rotation of queries and keys by positions, in PyTorch. On the CPU SGLang takes vLLM's kernel for it, unless it
has kernels of its own for the CPU (sgl_kernel), which PyPI does not have. The tests replace nothing else of SGLang."""
import torch


def rotary_embedding(positions, query, key, head_size, cos_sin_cache, is_neox_style):
    """Rotates query and key, [tokens, heads D], in place."""
    if not is_neox_style:
        raise NotImplementedError("expected rotation of the halves of a head")
    cos, sin = cos_sin_cache[positions.flatten(), None].float().chunk(2, -1)
    width = 2 * cos.shape[-1]
    for x in (query, key):
        rows = x.view(positions.numel(), -1, head_size)[..., :width]
        first, second = rows.float().chunk(2, -1)
        rows.copy_(torch.cat([first * cos - second * sin, second * cos + first * sin], -1))
