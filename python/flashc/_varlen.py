"""flashc.varlen_attention: attention of packed sequences of different lengths."""
from __future__ import annotations

from typing import Any, Callable, Optional

from ._arrays.integers import array_of
from ._arrays.protocol import ArrayLike, IntegersLike
from ._attention import attend
from ._packed import Packed
from ._runtime.calls import is_graph
from ._runtime.library import ArgumentError, UnsupportedTypeError, described
from ._runtime.options import Operands, Options, Window
from ._runtime.public import public


@public
def varlen_attention(q: ArrayLike, k: ArrayLike, v: ArrayLike, cu_seqlens_q: IntegersLike,
                     cu_seqlens_k: Optional[IntegersLike] = None, max_seqlen_q: Optional[int] = None,
                     max_seqlen_k: Optional[int] = None, *, causal: bool = False, window: Window = None,
                     scale: Optional[float] = None, mask: Optional[Callable[..., Any]] = None,
                     score: Optional[Callable[..., Any]] = None, sinks: Optional[ArrayLike] = None,
                     dropout_p: float = 0.0, philox: Optional[ArrayLike] = None, enable_gqa: bool = False,
                     return_lse: bool = False, out: Any = None, schedule: Optional[str] = None,
                     deterministic: Optional[bool] = None) -> Any:
    """Exact attention within each of several packed sequences, as FlashAttention's `flash_attn_varlen_func`.

    Sequence s has the queries `q[cu_seqlens_q[s]:cu_seqlens_q[s + 1]]` and the keys
    `k[cu_seqlens_k[s]:cu_seqlens_k[s + 1]]`. The mask is `flashc.masks.packed`, with the promise that offsets ascend:
    the kernel visits only the tiles that sequences need. One kernel serves any number of sequences with any lengths;
    offsets on a GPU stay there, and nothing waits for the GPU.

    Args:
        q: queries, [total_q, Hq, D], of bf16 or f16; on the CPU f32 too. As for `flashc.attention`.
        k: keys, [total_k, Hk, D].
        v: values, [total_k, Hk, Dv].
        cu_seqlens_q: [S + 1] of int32 or int64 on the device of q, or a list: 0, then the end of each sequence; total_q
            last. Sequences may have no queries or no keys. The last offset may be less than total_q, for buffers of a
            static size: rows after it see nothing, and nothing sees them.
        cu_seqlens_k: the offsets of the keys, total_k last, or less; None, or the same array: those of the queries.
        max_seqlen_q, max_seqlen_k: ignored; accepted since FlashAttention has them.
        causal: query i of a sequence sees its key j when j <= i + Nk - Nq, with the lengths of the sequence.
        window: (left, right) around that key, as for `flashc.attention`.
        mask, score: functions, as for `flashc.attention`, of the number of the sequence in place of the batch, and of
            positions in the sequence: (s, h, i, j) -> condition, (x, s, h, i, j) -> new score. An array that positions
            index needs an element for each position of the longest sequence: on the CPU an index outside of the array
            is an error, on a GPU it is clamped. The alignment of masks by name, `flashc.ops.query_length()` and
            `key_length()` use the lengths of the sequence.
        scale, sinks, dropout_p, philox, enable_gqa, schedule, deterministic: as for `flashc.attention`.
        return_lse: also return the log-sum-exp, [Hq, total_q] in f32.
        out: arrays for the result, instead of new ones: o, or (o, lse).

    Returns:
        o, [total_q, Hq, Dv], or (o, lse). A query that sees no key has o = 0 and lse = -inf, or its head's sink.

    Raises:
        flashc.ArgumentError: shapes or devices that do not go together; wrong offsets on the CPU. Offsets on a GPU are
            not checked: wrong offsets give wrong numbers, but no access outside of the arrays.
        flashc.UnsupportedTypeError, flashc.TraceError, flashc.CompileError, flashc.GPUError: as for `flashc.attention`.
    """
    for name, most in (("max_seqlen_q", max_seqlen_q), ("max_seqlen_k", max_seqlen_k)):
        if most is not None and type(most) is not int:
            _check_count(name, most)
    is_same = cu_seqlens_k is None or cu_seqlens_k is cu_seqlens_q
    offsets = array_of("cu_seqlens_q", cu_seqlens_q, q)
    key_offsets = None if is_same else array_of("cu_seqlens_k", cu_seqlens_k, q)
    options = Options(causal, window, scale, dropout_p, enable_gqa, return_lse, "bshd", schedule,
                      deterministic=deterministic)
    if is_graph(q):
        if out is not None or schedule is not None:
            raise ArgumentError("expected no out or schedule while PyTorch traces a graph")
        from . import torch as flashc_torch
        batch = Operands(q[None], k[None], v[None], mask, score, sinks, philox)
        result = flashc_torch.attention(batch, options, (offsets, key_offsets))
        return (result[0][0], result[1][0]) if return_lse else result[0]
    for name, x in (("q", q), ("k", k), ("v", v)):
        if isinstance(x, type) or not hasattr(x, "shape"):
            raise UnsupportedTypeError(f"expected {name} to be an array with a shape, got {type(x)!r}")
    return attend(Operands(q, k, v, Packed(offsets, key_offsets, mask, score), None, sinks, philox), options, out)


def _check_count(name: str, x: Any) -> None:
    """Refuses an argument that is no integer; elements of arrays are not read, which would wait for the GPU."""
    if isinstance(x, (bool, float, type)) or not hasattr(x, "__index__") or tuple(getattr(x, "shape", ())) != ():
        raise UnsupportedTypeError(f"expected {name} to be an integer or None, got {described(x)}")
