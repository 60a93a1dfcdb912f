"""Scores that have names, for `flashc.attention(..., score=...)`, to be joined with `>>`.

    flashc.attention(q, k, v, causal=True, score=scores.soft_cap(50))
    flashc.attention(q, k, v, score=scores.alibi(8) >> (lambda s, b, h, i, j: s - 1))

A score function returns a new score for the scaled product s of query i of Nq and key j of Nk, of batch b and query
head h. As a function `(s, b, h, i, j) -> score` it also serves as the `score_mod` of PyTorch's FlexAttention.

Python's numbers are constants of the kernel. Elements of arrays are read by the kernel, and PyTorch records gradients
with respect to them (docs/captured-gradients.md).
"""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Union

from . import ops
from ._arrays.array import spoken
from ._arrays.protocol import ArrayLike
from ._runtime.library import ArgumentError, UnsupportedTypeError, parse_flag
from ._runtime.public import public
from ._trace import mask_arguments as args
from ._trace import trace
from ._trace.traced import Traced

__all__ = ["Score", "alibi", "relative_bias", "soft_cap"]


class Score:
    """A score function `(s, b, h, i, j) -> score`.

    `x >> y` passes the result of x to y; one of them may be any function (s, b, h, i, j) -> score. `Score(function)`
    makes a score of a function.
    """

    #: Makes NumPy call this class's operators, also if an array is on the left side.
    __array_ufunc__ = None
    # As for flashc.masks.Mask.
    _decides = "_rescore", "_is_own"
    _constant: Any = False

    @public
    def __init__(self, rescore: Callable[..., Any], text: Optional[str] = None) -> None:
        if not callable(rescore):
            raise UnsupportedTypeError(f"expected a function (s, b, h, i, j) -> score, got {type(rescore)!r}")
        self._rescore = rescore
        # A user's function is bound to the trace, which captures the arrays that it refers to. The scores of this file
        # need no binding, since they read arrays through ops.array.
        self._is_own = text is not None
        self._text = text or getattr(rescore, "__name__", "score")

    def __repr__(self) -> str:
        return f"<flashc.scores {self._text}>"

    def __call__(self, s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return self._rescore(s, b, h, i, j) if self._is_own else trace.call_score(self._rescore, s, b, h, i, j)

    def __rshift__(self, other: Any) -> "Score":
        return _chain(self, other)

    def __rrshift__(self, other: Any) -> "Score":
        return _chain(other, self)


def _chain(x: Any, y: Any) -> Score:
    if not callable(x) or not callable(y):
        return NotImplemented
    x, y = (one if isinstance(one, Score) else Score(one) for one in (x, y))
    return Score(lambda s, b, h, i, j: y(x(s, b, h, i, j), b, h, i, j), f"{x._text} >> {y._text}")


@public
def soft_cap(cap: float) -> Score:
    """Scores between -cap and cap (Gemma 2, Grok; FlashAttention's softcap).

        cap tanh(s / cap)

    Args:
        cap: a positive number.
    """
    cap = _positive("cap", cap)
    return Score(lambda s, b, h, i, j: cap * (s / cap).tanh() if hasattr(s, "tanh") else cap * ops.tanh(s / cap),
                 f"soft_cap({cap!r})")


@public
def alibi(slopes: Union[int, ArrayLike], *, symmetric: bool = False, align: Any = "bottom-right") -> Score:
    """Attention with linear biases (Press et al. 2022; MPT, BLOOM).

        s + slope(h) (j - i - shift)        symmetric: s - slope(h) |j - i - shift|

    Args:
        slopes: the number of query heads, whose slopes are then the paper's, 2^(-8 (h + 1) / heads) for powers of two;
            or an array of slopes, [Hq] of bf16, f16 or f32.
        symmetric: keys on both sides of the query are penalised, for attention that is not causal. False: the bias of
            later keys is positive, so use a causal mask.
        align: as for `flashc.masks.causal`.
    """
    align, symmetric = args.check_align(align), parse_flag("symmetric", symmetric)
    if isinstance(slopes, int):
        heads = args.constant("slopes", slopes, 1)
        slope, text = lambda h: _paper_slope(heads, h), repr(heads)
    else:
        _check_table("slopes", slopes, 1)
        slope, text = lambda h: _read(slopes, h)[h], "..."

    def rescore(s, b, h, i, j):
        distance = j - _position(i, align)
        return s - slope(h) * abs(distance) if symmetric else s + slope(h) * distance
    return Score(rescore, f"alibi({text})")


def _paper_slope(heads: int, h: Any) -> Any:
    """Returns the slope of a head. Let p be the largest power of two with p <= heads. The first p heads have a
    geometric sequence of slopes. The other heads have every second slope of the sequence for 2 p heads."""
    power = 1 << heads.bit_length() - 1
    steps = 2 * h + 2
    if power != heads:
        steps = steps - h // power * (2 * power + 1)
    return 2.0 ** (steps * (-4.0 / power))


@public
def relative_bias(table: ArrayLike, *, bidirectional: bool = True, max_distance: int = 128,
                  align: Any = "bottom-right") -> Score:
    """A bias for the distance of query and key, by T5's buckets (Raffel et al. 2020): short distances have a bucket
    each, longer ones share buckets that grow with the distance.

        s + table[bucket(j - i - shift), h]

    T5 does not scale its products: pass `scale=1.0` to `flashc.attention`.

    Args:
        table: [buckets, Hq] of bf16, f16 or f32, such as `relative_attention_bias.weight` of transformers' models. If
            bidirectional, half of the buckets are for later keys.
        bidirectional: as in T5's encoder. False, as in its decoder: all later keys have bucket 0.
        max_distance: distances from max_distance on share the last bucket.
        align: as for `flashc.masks.causal`.
    """
    align, bidirectional = args.check_align(align), parse_flag("bidirectional", bidirectional)
    buckets = _check_table("table", table, 2)[0]
    side = buckets // 2 if bidirectional else buckets
    if side < 2:
        raise ArgumentError(f"expected a table of at least {4 if bidirectional else 2} buckets, got {buckets}")
    max_distance = args.constant("max_distance", max_distance, side // 2 + 1)
    if max_distance >= 2**31:
        raise ArgumentError(f"expected max_distance below 2^31, got {max_distance}")
    thresholds = _bucket_thresholds(side, max_distance)

    def rescore(s, b, h, i, j):
        since = _position(i, align) - j
        place = _bucket(abs(since) if bidirectional else since * (since > 0), side // 2, thresholds)
        if bidirectional:
            place = place + (since < 0) * side
        return s + _read(table, j)[place, h]
    return Score(rescore, f"relative_bias(..., bidirectional={bidirectional!r}, max_distance={max_distance})")


def _bucket_thresholds(buckets: int, max_distance: int) -> List[int]:
    """Returns the smallest distance of each shared bucket except the first one. There are e = buckets // 2 buckets of
    one distance, and n shared ones. The smallest distance of shared bucket k is the smallest integer x with x / e >=
    (max_distance / e)^(k / n)."""
    exact = buckets // 2
    shared = buckets - exact
    thresholds = []
    for k in range(1, shared):
        least, most = exact, max_distance
        while least < most:
            x = (least + most) // 2
            if x ** shared * exact ** k < max_distance ** k * exact ** shared:
                least = x + 1
            else:
                most = x
        thresholds.append(least)
    return thresholds


def _bucket(distance: Any, exact: int, thresholds: List[int]) -> Any:
    """Returns the bucket of a distance >= 0. It is the distance itself up to `exact`. For larger distances it is
    `exact` plus the number of thresholds that the distance reaches."""
    if isinstance(distance, Traced):
        place = ops.minimum(distance, exact)
    else:
        place = distance - (distance - exact) * (distance > exact)
    for threshold in thresholds:
        place = place + (distance >= threshold)
    return place


def _position(i: Any, align: Any) -> Any:
    return i if isinstance(align, str) and align == "top-left" else args.shifted(i, align)


def _read(x: Any, position: Any) -> Any:
    return ops.array(x) if isinstance(position, Traced) else x


def _positive(name: str, x: Any) -> float:
    if isinstance(x, bool) or not isinstance(x, (int, float)):
        raise UnsupportedTypeError(f"expected {name} to be a number, got {x!r}")
    if not 0 < x < float("inf"):
        raise ArgumentError(f"expected {name} to be positive and finite, got {x!r}")
    return float(x)


def _check_table(name: str, x: Any, rank: int) -> Any:
    """Refuses an array that does not have real numbers and `rank` dimensions. Returns its shape."""
    shape, dtype = args.shape_and_type(name, x, "numbers")
    if dtype not in ("bf16", "f16", "f32", "f64"):
        raise UnsupportedTypeError(f"expected {name} of bf16, f16 or f32, got {spoken(dtype)}")
    if len(shape) != rank:
        raise ArgumentError(f"expected {name} of {rank} dimensions, got shape {shape}")
    return shape
