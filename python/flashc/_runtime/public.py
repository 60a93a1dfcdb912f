"""The decorator of all public functions: a call with wrong arguments raises a flashc.Error with a hint, such as
flashc's name of another library's argument."""
from __future__ import annotations

import difflib
import functools
import inspect
from typing import Any, Callable, Dict, NoReturn, Sequence, TypeVar

from .library import ArgumentError

_Function = TypeVar("_Function", bound=Callable[..., Any])

# What to write in place of an argument of another library (PyTorch, FlexAttention, FlashAttention, xFormers,
# FlashInfer, vLLM, transformers). Each row has flashc's argument, the hint (empty if only the name differs), and the
# other libraries' names. Rows whose argument the called function lacks do not count. The first row with the name gives
# the hint.
_FOREIGN = [
    ("causal", "causal=True; it aligns the last query with the last key, and mask=flashc.masks.causal('top-left') the "
     "first ones, as PyTorch does", "is_causal"),
    ("is_causal", "is_causal=True, as PyTorch does", "causal"),
    ("mask", "mask=..., an array or a function (b, h, i, j) -> condition",
     "attn_mask attention_mask block_mask mask_mod mask_type"),
    ("mask", "mask=..., an array of numbers that are added to the scores", "attn_bias bias"),
    ("mask", "mask=flashc.masks.key_padding(lengths)", "key_padding_mask padding_mask"),
    ("attn_mask", "", "attention_mask mask attn_bias bias"),
    ("block_mask", "block_mask=lambda b, h, i, j: j <= i", "is_causal causal"),
    ("block_mask", "", "mask_mod mask attn_mask attention_mask"),
    ("score", "score=..., a function (s, b, h, i, j) -> new score", "score_mod"),
    ("score_mod", "", "score"),
    ("score", "score=flashc.scores.soft_cap(cap)",
     "softcap soft_cap logits_soft_cap logit_cap attn_logit_softcapping"),
    ("score", "score=flashc.scores.alibi(slopes, symmetric=True)", "alibi_slopes"),
    ("scale", "", "softmax_scale sm_scale qk_scale scaling scale_factor"),
    ("window", "window=(left, right), or left alone", "window_size sliding_window local_window_size window_left"),
    ("left", "", "window_size window_left"),
    ("lengths", "lengths=..., [B] of int32: the tokens of each sequence, the new ones among them",
     "cache_seqlens seq_lens seqlens context_lens kv_lens seqused_k"),
    ("positions", "positions=..., where the first new token of each sequence goes", "cache_seqlens"),
    ("block_table", "block_table=..., [B, M] of int32", "page_table block_tables kv_indices"),
    ("rotary", "rotary=(cos, sin, interleaved)", "rotary_cos rotary_sin rotary_interleaved"),
    ("leftpad", "", "cache_leftpad"),
    ("splits", "", "num_splits"),
    ("k_scale", "", "k_descale"),
    ("v_scale", "", "v_descale"),
    ("dropout_p", "", "dropout attention_dropout p"),
    ("philox", "philox=..., an array [2] of int64 with a seed and an offset", "seed generator rng_state philox_seed"),
    ("return_lse", "return_lse=True, which returns (o, lse)",
     "return_softmax_lse return_attn_probs return_softmax return_aux lse"),
    ("sinks", "", "s_aux attn_sink learnable_sink"),
    ("layout", "layout='bhsd' ([B, H, N, D]) or 'bshd' ([B, N, H, D])",
     "qkv_format tensor_layout input_layout head_first"),
    ("cu_seqlens_q", "", "cu_seqlens cu_seq_lens_q qo_indptr"),
    ("offsets", "", "cu_seqlens"),
    ("cu_seqlens_k", "", "cu_seq_lens_k kv_indptr"),
    ("q", "", "query"),
    ("k", "", "key"),
    ("v", "", "value"),
    ("query", "", "q"),
    ("key", "", "k"),
    ("value", "", "v"),
    ("k_cache", "k_cache=..., where flashc.append_kv writes new keys", "k"),
    ("v_cache", "v_cache=..., where flashc.append_kv writes new values", "v"),
    ("do", "", "dout grad_out"),
    ("lse", "", "softmax_lse"),
    ("schedule", "schedule=..., such as 'kv-tile=64,stages=2'", "kernel_options"),
]


def public(function: _Function) -> _Function:
    """Wraps `function`, so that a call with arguments that it does not accept raises an ArgumentError with a hint.
    `help` and `inspect` still show the signature. The wrapper adds one Python call to each call."""
    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            return function(*arguments, **keywords)
        except TypeError as problem:
            if problem.__traceback__.tb_next is not None:  # type: ignore[union-attr]
                raise  # The function itself was called, and raised the error.
        _refuse(function, arguments, keywords)
    return call  # type: ignore[return-value]


def _name(function: Callable[..., Any]) -> str:
    module, _, _ = function.__module__.partition("._")
    return f"{module}.{function.__qualname__}".replace(".__call__", "").replace(".__init__", "")


def _refuse(function: Callable[..., Any], arguments: Sequence[Any], keywords: Dict[str, Any]) -> NoReturn:
    """Raises an ArgumentError for a call that does not fit the function's signature."""
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
    """Returns a hint: what to write instead of the unknown argument `name`."""
    for here, advice, names in _FOREIGN:
        if here in known and name.lower() in names.split():
            return f"write {advice or here + '=...'}"
    # A name of another library, or of another function here, is no typo.
    is_meant = any(name in (here, *names.split()) for here, _, names in _FOREIGN)
    alike = [] if is_meant else difflib.get_close_matches(name.lower(), known, 1, 0.7)
    return f"write {alike[0]}=..." if alike else f"it has {', '.join(known)}"
