"""The masks and scores of packed sequences, for flashc.varlen_attention."""
from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from . import masks, ops
from ._arrays.array import CPU, Array, check_device, spoken
from ._arrays.integers import check_ascending, integers_of
from ._runtime.calls import Case, Inputs
from ._runtime.library import ArgumentError, UnsupportedTypeError
from ._runtime.options import Options
from ._runtime.specialization import make_code
from ._trace.captured import Bound
from ._trace.code import Code
from ._trace.declared import Sorted
from ._trace.region import get_trace
from ._trace.trace import Lengths, call_mask, call_score

#: The offsets of queries and of keys as inputs, the name of the number of rows, and the array that has the rows.
_OFFSETS = {"cu_seqlens_q": ("total_q", "q"), "cu_seqlens_k": ("total_k", "k")}
_ORDERS = {"q": "[total_q, Hq, D]", "k": "[total_k, Hk, D]", "v": "[total_k, Hk, Dv]"}


class Packed(NamedTuple):
    """Packed sequences, in place of a mask in Operands. The arrays of the call have no batch, and rows before heads."""
    offsets: Any
    #: None: the offsets of the queries.
    key_offsets: Any = None
    #: Functions of a sequence's number and positions in it.
    mask: Optional[Callable[..., Any]] = None
    score: Optional[Callable[..., Any]] = None

    def arrays(self) -> Dict[str, Any]:
        """Returns the inputs that a call has for the offsets."""
        if self.key_offsets is None:
            return {"cu_seqlens_q": self.offsets}
        return {"cu_seqlens_q": self.offsets, "cu_seqlens_k": self.key_offsets}

    def code(self, inputs: Inputs, case: Case, options: Options) -> Code:
        """Returns the code of a call. Without functions, it differs between calls of one case by addresses alone."""
        names = self.arrays()
        if inputs.device == CPU:
            for name in names:
                total, rows = _OFFSETS[name]
                check_ascending(name, integers_of(name, inputs[name]), total, inputs[rows].shape[0])
        if case.packed is not None and self.mask is None and self.score is None:
            code, read = case.packed
            arrays = tuple([inputs.arrays[name] for name in read])
            bound = tuple([Bound(array.address, *one[1:]) for one, array in zip(code.bound, arrays)])
            return Code(*code[:3], bound, arrays, *code[5:])
        starts, key_starts = (*[Sorted(inputs.owners[name], inputs[name]) for name in names], None)[:2]
        keep, rescore = of_sequences(starts, key_starts, options.causal, options.window, self.mask, self.score)
        code = make_code(keep, rescore, case.extents, inputs.device, inputs.stream)
        if self.mask is None and self.score is None:
            read = [next(name for name in names if array.owner is inputs.owners[name]) for array in code.arrays]
            case.packed = code._replace(arrays=(), trace_lines=None), read
        return code


def with_batch_of_one(inputs: Inputs) -> Tuple[Inputs, str]:
    """Checks the shapes and the offsets of packed sequences. Returns the inputs, in which q, k and v have a batch, and
    the shapes for messages."""
    for name, order in _ORDERS.items():
        if len(inputs[name].shape) != 3:
            raise ArgumentError(f"expected {name} of 3 dimensions {order}, got shape {tuple(inputs[name].shape)}")
    for name in _OFFSETS:
        if name in inputs:
            _check_offsets(name, inputs[name], inputs["q"].device)
    queries, keys = inputs["q"].shape[0], inputs["k"].shape[0]
    if "cu_seqlens_k" in inputs:
        shapes = [tuple(inputs[name].shape) for name in _OFFSETS]
        if shapes[0] != shapes[1]:
            raise ArgumentError(f"expected cu_seqlens_q and cu_seqlens_k of one length, got shapes {shapes[0]} and "
                                f"{shapes[1]}")
    elif queries != keys:
        raise ArgumentError(f"expected cu_seqlens_k where q and k differ in length, got {queries} queries and {keys} "
                            "keys")
    text = ", ".join(f"{name} {tuple(inputs[name].shape)}" for name in _ORDERS)
    return inputs.with_batch("q", "k", "v", "o", "lse", "do", "dlse"), f"got {text} in order [total, H, D]"


def _check_offsets(name: str, offsets: Array, device: int) -> None:
    if len(offsets.shape) != 1 or offsets.shape[0] == 0:
        raise ArgumentError(f"expected {name} of shape [S + 1], got shape {tuple(offsets.shape)}")
    if offsets.dtype not in ("i32", "i64"):
        raise UnsupportedTypeError(f"expected {name} of int32 or int64, got {spoken(offsets.dtype)}")
    check_device(name, offsets, device)


def of_sequences(starts: Sorted, key_starts: Optional[Sorted], causal: bool, window: Optional[Tuple[int, int]],
                 mask: Optional[Callable[..., Any]],
                 score: Optional[Callable[..., Any]]) -> Tuple[Callable[..., Any], Optional[Callable[..., Any]]]:
    """Returns the mask and the score of packed sequences as functions of positions in the packed arrays."""
    rule = _Rule(starts, key_starts, causal, window)
    if mask is None and score is None:
        return rule, None
    inside = _Inside(starts, key_starts)
    if mask is None:
        return rule, inside.score(score)
    if not callable(mask):
        raise UnsupportedTypeError(f"expected mask to be a function (s, h, i, j) -> condition, got {type(mask)!r}")
    return rule.named() & inside.mask(mask), None if score is None else inside.score(score)


class _Rule(NamedTuple):
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
