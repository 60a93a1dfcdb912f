"""flashc.varlen_attention: attention of packed sequences of different lengths."""
from __future__ import annotations

import sys
from typing import Any, Callable, NamedTuple, Optional, Tuple

from . import masks, ops
from ._arrays.array import CPU, check_device, spoken
from ._arrays.integers import array_of, check_ascending, integers_of
from ._arrays.protocol import ArrayLike, IntegersLike
from ._arrays.source import described_array
from ._attention import attend
from ._runtime.library import ArgumentError, UnsupportedTypeError, described, parse_flag
from ._runtime.options import Operands, Options, Window, parse_window
from ._runtime.public import public
from ._trace.declared import Sorted
from ._trace.region import get_trace
from ._trace.trace import Lengths, call_mask, call_score


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
    operands = Operands(q, k, v, mask, score, sinks, philox)
    options = Options(causal, window, scale, dropout_p, enable_gqa, return_lse, "bshd", schedule,
                      deterministic=deterministic)
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "compiler") and torch.compiler.is_compiling():
        if out is not None or schedule is not None:
            raise ArgumentError("expected no out or schedule while PyTorch traces a graph")
        from . import torch as flashc_torch
        batch = Operands(q[None], k[None], v[None], mask, score, sinks, philox)
        result = flashc_torch.attention(batch, options, (offsets, key_offsets))
        return (result[0][0], result[1][0]) if return_lse else result[0]
    return attend_packed(operands, options, offsets, key_offsets, out)


def attend_packed(operands: Operands, options: Options, offsets: Any, key_offsets: Any, out: Any = None) -> Any:
    """flashc.varlen_attention outside of graphs."""
    q, k, v, mask, score, sinks, philox = operands
    for name, x, order in (("q", q, "[total_q, Hq, D]"), ("k", k, "[total_k, Hk, D]"), ("v", v, "[total_k, Hk, Dv]")):
        if isinstance(x, type) or len(getattr(x, "shape", ())) != 3 or not hasattr(x, "__getitem__"):
            raise ArgumentError(f"expected {name} of 3 dimensions {order}, got shape {_shape(name, x)}")
    keep, rescore = of_sequences(q, k, offsets, key_offsets, options.causal, options.window, mask, score)
    result = attend(Operands(q[None], k[None], v[None], keep, rescore, sinks, philox),
                    Options(False, None, *options[2:]), None if out is None else batch_of_one(out))
    return_lse = options.return_lse
    if out is not None:
        return out_of_batch(result, out, return_lse)
    return (result[0][0], result[1][0]) if return_lse else result[0]


def of_sequences(q: Any, k: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, causal: bool, window: Window,
                 mask: Optional[Callable[..., Any]],
                 score: Optional[Callable[..., Any]]) -> Tuple[Callable[..., Any], Optional[Callable[..., Any]]]:
    """Checks the offsets; returns the mask and the score as functions of positions in the packed arrays."""
    if cu_seqlens_k is cu_seqlens_q:
        cu_seqlens_k = None
    device = described_array("q", q).device
    starts, key_starts = _read_offsets("cu_seqlens_q", cu_seqlens_q, device, "total_q", q.shape[0]), None
    if cu_seqlens_k is None:
        if q.shape[0] != k.shape[0]:
            raise ArgumentError(f"expected cu_seqlens_k where q and k differ in length, got {q.shape[0]} queries and "
                                f"{k.shape[0]} keys")
    else:
        key_starts = _read_offsets("cu_seqlens_k", cu_seqlens_k, device, "total_k", k.shape[0])
        if key_starts.shape != starts.shape:
            raise ArgumentError("expected cu_seqlens_q and cu_seqlens_k of one length, got shapes "
                                f"{starts.shape} and {key_starts.shape}")
    causal = causal if type(causal) is bool else parse_flag("causal", causal)
    packed = _Packed(starts, key_starts, causal, None if window is None else parse_window(window))
    if mask is None and score is None:
        return packed, None
    inside = _Inside(starts, key_starts)
    if mask is None:
        return packed, inside.score(score)
    if not callable(mask):
        raise UnsupportedTypeError(f"expected mask to be a function (s, h, i, j) -> condition, got {type(mask)!r}")
    return packed.named() & inside.mask(mask), None if score is None else inside.score(score)


class _Packed(NamedTuple):
    """`flashc.masks.packed`, which is made when the mask is traced."""
    starts: Sorted
    key_starts: Optional[Sorted]
    causal: bool
    window: Optional[Tuple[int, int]]

    def __call__(self, b: Any, h: Any, i: Any, j: Any) -> Any:
        return self.named()(b, h, i, j)

    def named(self) -> masks.Mask:
        return masks.packed(self.starts, self.key_starts, causal=self.causal, window=self.window)


class _Inside:
    """Turns functions of a sequence's number and positions in it into functions of positions in the packed arrays."""
    _decides = "starts", "key_starts"

    def __init__(self, starts: Sorted, key_starts: Optional[Sorted]) -> None:
        self.starts, self.key_starts = starts, key_starts

    def _positions(self, i: Any, j: Any) -> Tuple[Any, Any, Any]:
        starts = ops.array(self.starts)
        key_starts = starts if self.key_starts is None else ops.array(self.key_starts)
        number = ops.count_le(starts, i) - 1
        return number, i - starts[number], j - key_starts[number]

    def _lengths(self, number: Any) -> Lengths:
        """Returns the lengths of sequence `number`."""
        def length(offsets: Any) -> Any:
            return ops.array(offsets)[number + 1] - ops.array(offsets)[number]
        if self.key_starts is None:
            return Lengths(lambda: length(self.starts), lambda: length(self.starts), lambda: 0)
        return Lengths(lambda: length(self.starts), lambda: length(self.key_starts),
                       lambda: length(self.key_starts) - length(self.starts))

    def mask(self, mask: Callable[..., Any]) -> masks.Mask:
        def keep(b, h, i, j):
            number, query, key = self._positions(i, j)
            with get_trace("mask").of_sequence(self._lengths(number)):
                return call_mask(mask, number, h, query, key)
        return masks.Mask(keep, "of sequences")

    def score(self, score: Any) -> Callable[..., Any]:
        if not callable(score):
            raise UnsupportedTypeError(f"expected score to be a function (x, s, h, i, j) -> new score, got "
                                       f"{type(score)!r}")

        def rescore(x, b, h, i, j):
            number, query, key = self._positions(i, j)
            with get_trace("score").of_sequence(self._lengths(number)):
                return call_score(score, x, number, h, query, key)
        return rescore


def _shape(name: str, x: Any) -> Tuple[int, ...]:
    if isinstance(x, type) or not hasattr(x, "shape") or not hasattr(x, "__getitem__"):
        raise UnsupportedTypeError(f"expected {name} to be an array with a shape, got {type(x)!r}")
    return tuple(x.shape)


def _check_count(name: str, x: Any) -> None:
    """Refuses an argument that is no integer; elements of arrays are not read, which would wait for the GPU."""
    if isinstance(x, (bool, float, type)) or not hasattr(x, "__index__") or tuple(getattr(x, "shape", ())) != ():
        raise UnsupportedTypeError(f"expected {name} to be an integer or None, got {described(x)}")


def _read_offsets(name: str, offsets: Any, device: int, total: str, length: int) -> Sorted:
    """Checks the offsets without waiting for a GPU."""
    if isinstance(offsets, type) or not hasattr(offsets, "shape") or not hasattr(offsets, "__getitem__"):
        _shape(name, offsets)
    array = described_array(name, offsets)
    if len(array.shape) != 1 or array.shape[0] == 0:
        raise ArgumentError(f"expected {name} of shape [S + 1], got shape {tuple(array.shape)}")
    if array.dtype not in ("i32", "i64"):
        raise UnsupportedTypeError(f"expected {name} of int32 or int64, got {spoken(array.dtype)}")
    if array.device != device:
        check_device(name, array, device)
    if device == CPU and array.address:
        check_ascending(name, integers_of(name, array), total, length)
    return Sorted(offsets, array)


def batch_of_one(out: Any) -> Any:
    """Returns the caller's array, or arrays, for results with a batch dimension."""
    if isinstance(out, (tuple, list)):
        return tuple(map(batch_of_one, out))
    if out is not None:
        _shape("out", out)
    return None if out is None else out[None]


def out_of_batch(result: Any, out: Any, return_lse: bool) -> Any:
    """Returns o, or (o, lse), without the batch dimension: the arrays of `out`, and a new lse if it has none."""
    o, lse = out if isinstance(out, (tuple, list)) else (out, None)
    return (o, result[1][0] if lse is None else lse) if return_lse else o
