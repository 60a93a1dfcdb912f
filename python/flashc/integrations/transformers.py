"""flashc as the attention of Hugging Face's transformers: `register()`, then `attn_implementation="fcattn"`.

    from flashc.integrations import transformers as door
    door.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="fcattn", dtype=torch.bfloat16)

docs/transformers.md has the models that were tried, and what is refused. The name has no "flash" in it, since
transformers takes every name with it for FlashAttention's own interface.
"""
from __future__ import annotations

import inspect
from typing import Any, Dict, Optional, Tuple

import torch
from torch import Tensor

import transformers
from transformers import AttentionInterface, AttentionMaskInterface, masking_utils

from .. import decode as flashc_decode
from .. import masks, ops, scores
from .._runtime.library import ArgumentError, UnsupportedTypeError, described
from .._runtime.options import Operands, Options
from .._runtime.public import public
from .._torch_gradient import attend
from .._torch_tensors import GRANULE, autocast, is_any_autocast, suitable
from . import _transformers_paged as paged
from ._transformers_mask import MOST_QUERIES, ModelMask, make_mask, soft_cap

__all__ = ["NAME", "register"]

#: The name for `attn_implementation`.
NAME = "fcattn"

#: Arguments of models that change the result, and that flashc does not compute.
_REFUSED = {
    "sinks": "a sink for each query", "indices": "a list of the keys of each query",
    "block_indices": "a list of the blocks of keys of each query", "head_mask": "a factor of each head",
}
#: The other arguments that decide what is computed.
_READ_OTHERS = frozenset([*_REFUSED, "output_attentions", "cu_seq_lens_q", "cu_seq_lens_k"])


@public
def register() -> str:
    """Registers flashc as the attention `NAME` of transformers, with its masks, and for continuous batching.

    Returns:
        `NAME`, for `attn_implementation=` and `model.set_attn_implementation`.

    Raises:
        flashc.UnsupportedTypeError: this version of transformers describes masks in another way.
    """
    asked = inspect.signature(masking_utils.sdpa_mask).parameters
    missing = [name for name in ("q_length", "kv_length", "q_offset", "kv_offset", "mask_function", "attention_mask")
               if name not in asked]
    if missing:
        raise UnsupportedTypeError("expected a version of transformers, such as 5.24, whose masks have "
                                   f"{', '.join(missing)}, got {transformers.__version__}")
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, make_mask)
    paged.register(NAME)
    return NAME


def attention(module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any,
              scaling: Optional[float] = None, dropout: float = 0.0, is_causal: Optional[bool] = None,
              softcap: Optional[float] = None, s_aux: Optional[Tensor] = None, position_bias: Optional[Tensor] = None,
              **others: Any) -> Tuple[Tensor, None]:
    """The attention of a layer, as transformers' AttentionInterface asks.

    Args:
        module: the layer. Its `is_causal` counts if the model passes no mask.
        query, key, value: [B, Hq, Nq, D], [B, Hk, Nk, D] and [B, Hk, Nk, Dv].
        attention_mask: a ModelMask, an array that broadcasts to [B, Hq, Nq, Nk], or None.
        scaling, dropout, softcap, s_aux: the scale, the rate of dropout, the cap of scores, and a sink for each head.
        position_bias: an array that broadcasts to [B, Hq, Nq, Nk], which is added to the scores.
        others: arguments of other implementations, and of continuous batching.

    Returns:
        o, [B, Nq, Hq, Dv], and None in place of the probabilities.

    Raises:
        flashc.ArgumentError: an argument that flashc does not compute; or as flashc.attention.
    """
    # Dynamo, which traces this function, must not read the fields of the mask.
    if not torch.compiler.is_compiling() and type(attention_mask) is ModelMask and position_bias is None and \
            not dropout and _READ_OTHERS.isdisjoint(others) and not torch.is_grad_enabled() and not is_any_autocast():
        step = attention_mask.step(query, key, value, scaling, softcap)
        if step is not None:
            return step(query, key, value, s_aux), None
    call = _Call(module, attention_mask, scaling, dropout, is_causal, softcap, s_aux, position_bias, others)
    run = _run_outside if torch.compiler.is_compiling() else _run
    return run(call, query, key, value), None


class _Call:
    """The arguments of a layer's attention, except its queries, keys and values."""

    def __init__(self, module: Any, mask: Any, scale: Optional[float], dropout: float, is_causal: Optional[bool],
                 softcap: Optional[float], sinks: Optional[Tensor], bias: Optional[Tensor],
                 others: Dict[str, Any]) -> None:
        self.module, self.mask, self.scale, self.dropout, self.softcap = module, mask, scale, dropout, softcap
        self.sinks, self.bias, self.others = sinks, bias, others
        self.is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal

    def check(self) -> None:
        for name, what in _REFUSED.items():
            if self.others.get(name) is not None:
                raise ArgumentError(f"expected attention without {name} ({what}), which \"{NAME}\" does not compute: "
                                    "use another attn_implementation")
        if self.others.get("output_attentions"):
            raise ArgumentError(f"expected output_attentions=False, since \"{NAME}\" makes no array of probabilities: "
                                "use attn_implementation=\"eager\"")
        mask = self.mask
        if mask is not None and not isinstance(mask, ModelMask) and not (isinstance(mask, Tensor) and mask.dim() == 4):
            what = f"shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else described(mask)
            raise ArgumentError(f"expected a mask that transformers makes for \"{NAME}\", an array of 4 dimensions, or "
                                f"None, got {what}")

    def score(self, is_step: bool) -> Any:
        """Returns the score function; None if there is none. `is_step`: for flashc.decode of one query."""
        score = None if self.softcap is None else soft_cap(float(self.softcap))
        if self.bias is None:
            return score
        biased = _biased(self.bias, is_step)
        return biased if score is None else score >> biased


def _biased(bias: Tensor, is_step: bool) -> scores.Score:
    """Returns the score that adds an array, which broadcasts to [B, Hq, Nq, Nk]."""
    if bias.dim() != 4:
        raise ArgumentError(f"expected position_bias of 4 dimensions, got shape {tuple(bias.shape)}")
    # An index 0 would make the code depend on the extents, so dimensions of one element are left out.
    x = bias[:, :, :1] if is_step else bias
    kept = [dim for dim in range(4) if x.shape[dim] != 1] or [3]
    x = x.reshape([x.shape[dim] for dim in kept]) if len(kept) < 4 else x
    by_batch, by_head, by_query, by_key = [dim in kept and bias.numel() > 1 for dim in range(4)]

    def rescore(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        position = (b,) * by_batch + (h,) * by_head + (i,) * by_query + (j,) * by_key
        return s + ops.array(x)[position or 0]
    return scores.Score(rescore, "position_bias")


# --- Running a call ---------------------------------------------------------------------------------------------------

def _run(call: _Call, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Returns o, [B, Nq, Hq, Dv]."""
    call.check()
    if query.shape[0] == 1 != key.shape[0]:
        query = query.expand(key.shape[0], -1, -1, -1)
    query, key, value = autocast(query, key, value)
    columns, scale = value.shape[-1], call.scale
    if scale is None:
        scale = query.shape[-1] ** -0.5
    if query.shape[-1] % GRANULE or columns % GRANULE:
        query, key, value = _padded(query), _padded(key), _padded(value)
    if paged.takes(call):
        o = paged.attention(call, query, key, value, scale)
    else:
        o = _decode(call, query, key, value, scale) if query.shape[2] <= MOST_QUERIES else None
        if o is None:
            o = _attention(call, query, key, value, scale).transpose(1, 2)
    return (o if o.shape[-1] == columns else o[..., :columns]).contiguous()


_run_outside = torch.compiler.disable(_run, reason="flashc computes the attention of a model outside of graphs")


def _padded(x: Tensor) -> Tensor:
    """Pads the last dimension with zeros to a multiple of 8; they do not change the products."""
    rest = -x.shape[-1] % GRANULE
    return torch.nn.functional.pad(x, (0, rest)) if rest else x


def _attention(call: _Call, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    mask, window, queries, is_causal = call.mask, None, query.shape[2], False
    if isinstance(mask, ModelMask):
        window, mask = mask.of_attention(queries, key.shape[2])
    elif mask is not None:
        mask = mask[..., :key.shape[2]]
    elif call.is_causal and queries > 1:
        # As for sdpa, query i sees the keys up to key i, as in a static cache that was empty.
        is_causal, key, value = True, key[:, :, :queries], value[:, :, :queries]
        if key.shape[2] < queries:
            is_causal, mask = False, masks.causal("top-left")
    options = Options(is_causal, window, scale, call.dropout, query.shape[1] != key.shape[1],
                      deterministic=call.others.get("deterministic") or None)
    operands = Operands(suitable(query), suitable(key), suitable(value), mask, call.score(False), call.sinks)
    return attend(operands, options, None)


def _decode(call: _Call, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Optional[Tensor]:
    """Computes a step of generation by flashc.decode; returns o, [B, Nq, Hq, Dv]. Returns None for other calls."""
    batch, _, queries, _ = query.shape
    keys, mask, tensors = key.shape[2], call.mask, (query, key, value, call.sinks, call.bias)
    if call.dropout or call.bias is not None and queries > 1 or 0 in key.shape:
        return None
    if torch.is_grad_enabled() and any([x is not None and x.requires_grad for x in tensors]):
        return None
    if isinstance(mask, ModelMask):
        step = None if call.bias is not None else mask.step(query, key, value, scale, call.softcap)
        if step is not None:
            return step(query, key, value, call.sinks)
        found = mask.of_decode(queries, keys, batch, query.device)
        if found is None:
            return None
        lengths, window, mask = found
    elif mask is not None or queries > 1:
        return None
    else:
        lengths, window = torch.full((batch,), keys, dtype=torch.int32, device=query.device), None
    o = flashc_decode(suitable(query), suitable(key), suitable(value), lengths, causal=False, window=window,
                      scale=scale, mask=mask, score=call.score(True), sinks=call.sinks, layout="bhsd")
    return o.transpose(1, 2)
