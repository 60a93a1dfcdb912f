"""What all public functions share: calls that do not fit a function's arguments end in a flashc.Error, which says what
the argument is called here."""
from __future__ import annotations

import difflib
import functools
import inspect
from typing import Any, Callable, Dict, NoReturn, Sequence, Tuple, TypeVar

from .library import ArgumentError

_Function = TypeVar("_Function", bound=Callable[..., Any])

# What other libraries call an argument (PyTorch, FlexAttention, FlashAttention, xFormers, FlashInfer, vLLM,
# transformers): the arguments that may stand for it here, and what to write. The first one that a function has counts.
_CAUSAL = ("causal", "causal=True; it aligns the last query with the last key, and "
                     "mask=flashc.masks.causal('top-left') the first ones, as PyTorch does")
_MASK = ("mask", "mask=..., an array or a function (b, h, i, j) -> condition")
_ADDED = ("mask", "mask=..., an array of numbers that are added to the scores")
_PADDING = ("mask", "mask=flashc.masks.key_padding(lengths)")
_SCORE = ("score", "score=..., a function (s, b, h, i, j) -> new score")
_CAP = ("score", "score=lambda s, b, h, i, j: cap * flashc.ops.tanh(s / cap)")
_SLOPES = ("score", "score=lambda s, b, h, i, j: s + slopes[h] * (j - i)")
_WINDOW = ("window", "window=(left, right), or left alone")
_LENGTHS = ("lengths", "lengths=..., [B] of int32: the tokens of each sequence, the new ones among them")
_TABLE = ("block_table", "block_table=..., [B, M] of int32")
_ROTARY = ("rotary", "rotary=(cos, sin, interleaved)")
_PHILOX = ("philox", "philox=..., an array [2] of int64 with a seed and an offset")
_LSE = ("return_lse", "return_lse=True, which returns (o, lse)")
_LAYOUT = ("layout", "layout='bhsd' ([B, H, N, D]) or 'bshd' ([B, N, H, D])")


def _same(name: str) -> Tuple[str, str]:
    return name, f"{name}=..."


_FOREIGN: Dict[str, Sequence[Tuple[str, str]]] = {
    "is_causal": [_CAUSAL, _same("is_causal")], "causal": [("is_causal", "is_causal=True, as PyTorch does")],
    "attn_mask": [_MASK], "attention_mask": [_MASK, _same("attn_mask")], "block_mask": [_MASK], "mask_mod": [
        _MASK, ("block_mask", "block_mask=...")], "mask": [_same("attn_mask"), _same("block_mask")],
    "attn_bias": [_ADDED, _same("attn_mask")], "bias": [_ADDED, _same("attn_mask")], "mask_type": [_MASK],
    "key_padding_mask": [_PADDING], "padding_mask": [_PADDING],
    "score_mod": [_SCORE], "score": [_same("score_mod")],
    "softcap": [_CAP], "soft_cap": [_CAP], "logits_soft_cap": [_CAP], "logit_cap": [_CAP],
    "attn_logit_softcapping": [_CAP], "alibi_slopes": [_SLOPES],
    "softmax_scale": [_same("scale")], "sm_scale": [_same("scale")], "qk_scale": [_same("scale")],
    "scaling": [_same("scale")], "scale_factor": [_same("scale")],
    "window_size": [_WINDOW, _same("left")], "sliding_window": [_WINDOW], "local_window_size": [_WINDOW],
    "window_left": [_WINDOW, _same("left")],
    "cache_seqlens": [_LENGTHS, ("positions", "positions=..., where the first new token of each sequence goes")],
    "seq_lens": [_LENGTHS], "seqlens": [_LENGTHS], "context_lens": [_LENGTHS], "kv_lens": [_LENGTHS],
    "seqused_k": [_LENGTHS], "page_table": [_TABLE], "block_tables": [_TABLE], "kv_indices": [_TABLE],
    "rotary_cos": [_ROTARY], "rotary_sin": [_ROTARY], "rotary_interleaved": [_ROTARY],
    "cache_leftpad": [_same("leftpad")],
    "num_splits": [_same("splits")], "k_descale": [_same("k_scale")], "v_descale": [_same("v_scale")],
    "dropout": [_same("dropout_p")], "attention_dropout": [_same("dropout_p")], "p": [_same("dropout_p")],
    "seed": [_PHILOX], "generator": [_PHILOX], "rng_state": [_PHILOX], "philox_seed": [_PHILOX],
    "return_softmax_lse": [_LSE], "return_attn_probs": [_LSE], "return_softmax": [_LSE], "return_aux": [_LSE], "lse": [_LSE],
    "s_aux": [_same("sinks")], "attn_sink": [_same("sinks")], "learnable_sink": [_same("sinks")],
    "qkv_format": [_LAYOUT], "tensor_layout": [_LAYOUT], "input_layout": [_LAYOUT], "head_first": [_LAYOUT],
    "cu_seqlens": [_same("cu_seqlens_q"), _same("offsets")], "cu_seq_lens_q": [_same("cu_seqlens_q")],
    "cu_seq_lens_k": [_same("cu_seqlens_k")], "qo_indptr": [_same("cu_seqlens_q")],
    "kv_indptr": [_same("cu_seqlens_k")],
    "query": [_same("q")], "key": [_same("k")], "value": [_same("v")],
    "q": [_same("query")],
    "k": [_same("key"), ("k_cache", "k_cache=..., where flashc.append_kv writes new keys")],
    "v": [_same("value"), ("v_cache", "v_cache=..., where flashc.append_kv writes new values")],
    "dout": [_same("do")], "grad_out": [_same("do")], "softmax_lse": [_same("lse")],
    "kernel_options": [("schedule", "schedule=..., such as 'kv-tile=64,stages=2'")],
}


def public(function: _Function) -> _Function:
    """`function`, whose calls with arguments that it does not take raise an ArgumentError with a hint. The signature
    stays for `help` and `inspect`; a call that fits costs one more call."""
    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            return function(*arguments, **keywords)
        except TypeError as problem:
            if problem.__traceback__.tb_next is not None:  # type: ignore[union-attr]
                raise  # From within the function, which was called.
        _refuse(function, arguments, keywords)
    return call  # type: ignore[return-value]


def _name(function: Callable[..., Any]) -> str:
    module, _, _ = function.__module__.partition("._")
    return f"{module}.{function.__qualname__}".replace(".__call__", "")


def _refuse(function: Callable[..., Any], arguments: Sequence[Any], keywords: Dict[str, Any]) -> NoReturn:
    """Raises what Python's TypeError is about."""
    parameters = inspect.signature(function).parameters
    known = [name for name in parameters if name != "self"]
    unknown = [name for name in keywords if name not in parameters]
    if unknown:
        raise ArgumentError(f"expected an argument of {_name(function)}, got {unknown[0]}=: "
                            f"{_advice(unknown[0], known)}")
    kinds = inspect.Parameter
    plain = [x for x in parameters.values() if x.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    if len(arguments) > len(plain):
        named = [x.name for x in parameters.values() if x.kind == kinds.KEYWORD_ONLY]
        most = [x.name for x in plain if x.name != "self"]
        raise ArgumentError(f"expected {_name(function)}({', '.join(most)}) and all others by name"
                            f"{', such as ' + named[0] + '=...' if named else ''}, got "
                            f"{len(arguments) - len(plain) + len(most)} arguments without a name")
    twice = [x.name for x in plain[:len(arguments)] if x.name in keywords]
    if twice:
        raise ArgumentError(f"expected {twice[0]} of {_name(function)} once, got it by its place and by its name")
    missing = [x.name for x in parameters.values() if x.default is kinds.empty and x.name not in keywords and
               x not in plain[:len(arguments)]]
    raise ArgumentError(f"expected {' and '.join(missing)} in a call of {_name(function)}, got a call without")


def _advice(name: str, known: Sequence[str]) -> str:
    """What to write instead of an argument that there is not."""
    for here, advice in _FOREIGN.get(name.lower(), ()):
        if here in known:
            return f"write {advice}"
    alike = difflib.get_close_matches(name.lower(), known, 1)
    return f"write {alike[0]}=..." if alike else f"it has {', '.join(known)}"
