"""Masks that have names, for `flashc.attention(..., mask=...)`, to be joined with `&`, `|` and `~`.

    flashc.attention(q, k, v, mask=masks.causal() & masks.documents(ids, sorted=True))
    flashc.attention(q, k, v, mask=masks.chunked(8192) & masks.causal() | (lambda b, h, i, j: j < 4))

A mask decides which keys a query sees: batch b, query head h, query i of Nq, key j of Nk. The formulas below are the
conditions for a key to be kept. As a function `(b, h, i, j) -> condition` a mask also serves as the `mask_mod` of
PyTorch's FlexAttention, and can be called with arrays of positions.

Python's numbers are constants of the kernel. NumPy's scalars and arrays without dimensions are arguments of the kernel,
which stays the same for other values; an array `[B]` has a number for each batch. Block sizes and dilations are always
constants.

Masks that compare i with j align the last query with the last key, as `flashc.attention(causal=True)` does: i stands
for i + Nk - Nq in their formulas. `align="top-left"` aligns the first query with the first key, as PyTorch's
`is_causal` does; an integer aligns the first query with the key of that number. In `flashc.varlen_attention` the
lengths are those of each sequence; in `flashc.decode` i already is a position among the keys.
"""
from __future__ import annotations

import copy
import math
import operator
import sys
from typing import Any, Callable, List, Optional, Sequence, Union

from ._arrays.protocol import IntegersLike
from ._runtime.library import ArgumentError, UnsupportedTypeError, parse_flag
from ._runtime.public import public
from ._runtime.options import Options, Window, parse_window
from ._trace import mask_arguments as args
from ._trace import trace
from ._trace.declared import assume_sorted

__all__ = ["Mask", "block_causal", "block_diffusion", "causal", "chunked", "dilated_window", "documents", "key_padding",
           "neighborhood", "packed", "prefix_lm", "shared_prefix", "sink_window", "sliding_window"]


class Mask:
    """A mask, a function `(b, h, i, j) -> condition` that is true for keys that a query sees.

    `a & b` keeps keys that both keep, `a | b` keys that one of them keeps, `~a` keys that a does not keep; a or b may
    be any function (b, h, i, j) -> condition. `Mask(function)` makes a mask of a function.
    """

    #: Makes NumPy call this class's operator in `array & mask`. NumPy would otherwise call it for each element.
    __array_ufunc__ = None
    # `_decides` names the attributes that decide the mask's code. `_constant` is what these attributes refer to, if
    # that never changes (`_Constant` in _trace/reads.py), or False before the mask is read.
    _decides = "_keep", "_is_own", "_align"
    _constant: Any = False

    @public
    def __init__(self, keep: Callable[..., Any], text: Optional[str] = None, align: Any = "top-left") -> None:
        if not callable(keep):
            raise UnsupportedTypeError(f"expected a function (b, h, i, j) -> condition, got {type(keep)!r}")
        self._keep = keep
        # A user's function is bound to the trace, which captures the arrays that it refers to. The masks of this file
        # need no binding, since they read arrays through ops.array.
        self._is_own = text is not None
        self._name = text or getattr(keep, "__name__", "mask")
        # `repr` names the alignment only if it is not the usual one.
        self._align = self._usual_align = args.check_align(align)

    def __repr__(self) -> str:
        return f"<flashc.masks {self._text}>"

    @property
    def _text(self) -> str:
        is_usual = self._align is self._usual_align
        return self._name if is_usual else f"({self._name}).aligned({args.named(self._align)})"

    def __call__(self, b: Any, h: Any, i: Any, j: Any) -> Any:
        i = args.shifted(i, self._align)
        return self._keep(b, h, i, j) if self._is_own else trace.call_mask(self._keep, b, h, i, j)

    def __bool__(self) -> bool:
        # PyTorch tests a function that it traces: `if function and callable(function)`.
        if sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] == "torch":
            return True
        raise UnsupportedTypeError("a mask has no truth value: write `&`, `|` and `~` instead of `and`, `or` and `not`")

    def __and__(self, other: Any) -> "Mask":
        return _join(operator.and_, "&", self, other)

    def __rand__(self, other: Any) -> "Mask":
        return _join(operator.and_, "&", other, self)

    def __or__(self, other: Any) -> "Mask":
        return _join(operator.or_, "|", self, other)

    def __ror__(self, other: Any) -> "Mask":
        return _join(operator.or_, "|", other, self)

    def __invert__(self) -> "Mask":
        def keep(b, h, i, j):
            kept = self(b, h, i, j)
            return not kept if isinstance(kept, bool) else ~kept
        return _Joined(keep, f"~({self._text})", lambda align: ~self.aligned(align))

    @public
    def aligned(self, align: Any) -> "Mask":
        """Returns the mask with query i at position i + shift, in place of the alignment that the mask, or each part of
        a joined mask, has.

        Args:
            align: "bottom-right": shift = Nk - Nq, so that the last query is at the last key, as in FlashAttention and
                `flashc.attention(causal=True)`; the kernel serves all lengths. For FlexAttention, whose masks do not
                get the lengths, give the shift as a number. "top-left": shift = 0. An integer: the shift.
        """
        align = args.check_align(align)
        moved = copy.copy(self)
        moved._align, moved._constant = align, False
        return moved


class _Joined(Mask):
    """A mask that joins other masks, which have alignments. `realign(align)` joins the same masks, realigned."""

    def __init__(self, keep: Callable[..., Any], text: str, realign: Callable[[Any], Mask]) -> None:
        super().__init__(keep, text)
        self._realign = realign

    @public
    def aligned(self, align: Any) -> Mask:
        return self._realign(args.check_align(align))


def _of_positions(keep: Callable[..., Any], text: str, align: Any) -> Mask:
    """Makes a mask that compares positions i and j of one sequence, and so has an alignment."""
    return Mask(keep, text, "bottom-right").aligned(align)


def _join(operation: Callable[..., Any], sign: str, x: Any, y: Any) -> Mask:
    for one in (x, y):
        if not callable(one):
            what = "an array; (lambda b, h, i, j: array[i, j]) is a function of one" if hasattr(one, "shape") else \
                repr(one)
            raise UnsupportedTypeError(f"expected a mask or a function (b, h, i, j) -> condition next to `{sign}`, got "
                                       f"{what}")
    x, y = (one if isinstance(one, Mask) else Mask(one) for one in (x, y))
    return _Joined(lambda b, h, i, j: operation(x(b, h, i, j), y(b, h, i, j)), f"({x._text} {sign} {y._text})",
                   lambda align: _join(operation, sign, x.aligned(align), y.aligned(align)))


# --- Masks of positions -----------------------------------------------------------------------------------------------

@public
def causal(align: Any = "bottom-right") -> Mask:
    """The causal mask of language models: no later key.

        j <= i

    Args:
        align: the position of query i, as for all masks here: "bottom-right" (i + Nk - Nq, as in FlashAttention and
            `flashc.attention(causal=True)`), "top-left" (i, as PyTorch's is_causal), or an integer that is added to i;
            see `Mask.aligned`.
    """
    return _of_positions(lambda b, h, i, j: j <= i, "causal()", align)


@public
def sliding_window(left: Any, right: Any = 0, align: Any = "bottom-right") -> Mask:
    """Keys in a window around the query (Longformer, Mistral; FlashAttention's window_size).

        i - left <= j <= i + right

    Args:
        left, right: distances >= 0, or None for no bound; right = 0 is causal.
        align: as for `causal`.
    """
    if left is None and right is None:
        raise ArgumentError("expected left or right to be a distance, got None for both: that keeps everything")
    left = None if left is None else args.parameter("left", left)
    right = None if right is None else args.parameter("right", right)

    def keep(b, h, i, j):
        since = None if left is None else j >= i - args.value(left, b, j)
        if right is None:
            return since
        until = j <= (i if isinstance(right, int) and right == 0 else i + args.value(right, b, j))
        return until if since is None else since & until
    return _of_positions(keep, f"sliding_window({args.named(left)}, {args.named(right)})", align)


@public
def prefix_lm(prefix: Union[int, IntegersLike], align: Any = "bottom-right") -> Mask:
    """A prefix that all queries see, and a causal rest (prefix language models: UniLM, T5).

        j <= i or j < prefix

    Args:
        prefix: the length of the prefix, or one for each batch: [B] of integers.
        align: as for `causal`.
    """
    prefix = args.parameter("prefix", prefix, 1)
    return _of_positions(lambda b, h, i, j: (j <= i) | (j < args.value(prefix, b, j)),
                         f"prefix_lm({args.named(prefix)})", align)


@public
def chunked(size: int, align: Any = "bottom-right") -> Mask:
    """Chunks that see only themselves; with `& causal()` it is Llama 4's chunked attention.

        floor(i / size) = floor(j / size)

    `align` is as for `causal`.
    """
    size = args.constant("size", size, 1)
    return _of_positions(lambda b, h, i, j: i // size == j // size, f"chunked({size})", align)


@public
def block_causal(size: int, align: Any = "bottom-right") -> Mask:
    """Blocks that see themselves and all earlier blocks (frames of a video, blocks that are decoded at once).

        floor(j / size) <= floor(i / size)

    `align` is as for `causal`.
    """
    size = args.constant("size", size, 1)
    return _of_positions(lambda b, h, i, j: j // size <= i // size, f"block_causal({size})", align)


@public
def sink_window(sinks: Union[int, IntegersLike], left: Union[int, IntegersLike], align: Any = "bottom-right") -> Mask:
    """A causal window and the first tokens, the attention sinks (StreamingLLM).

        j <= i and (j >= i - left or j < sinks)

    Args:
        sinks: the number of first keys that all later queries see.
        left: the distance to the first key of the window, which has left + 1 keys.
        align: as for `causal`.
    """
    sinks, left = args.parameter("sinks", sinks), args.parameter("left", left)
    return _of_positions(
        lambda b, h, i, j: (j <= i) & ((j >= i - args.value(left, b, j)) | (j < args.value(sinks, b, j))),
        f"sink_window({args.named(sinks)}, {args.named(left)})", align)


@public
def dilated_window(left: Any, dilation: int, right: Any = 0, align: Any = "bottom-right") -> Mask:
    """Every dilation-th key of a window (Longformer's dilated sliding window).

        i - left <= j <= i + right and i mod dilation = j mod dilation

    Args:
        left, right: distances in positions, as for `sliding_window`: there are 1 + floor(left / dilation) +
            floor(right / dilation) keys in the window.
        align: as for `causal`.
    """
    dilation = args.constant("dilation", dilation, 1)
    window = sliding_window(left, right, "top-left")
    return _of_positions(lambda b, h, i, j: window(b, h, i, j) & ((i - j) % dilation == 0),
                         f"dilated_window({args.named(left)}, {dilation}, {args.named(right)})", align)


@public
def neighborhood(shape: Union[int, Sequence[int]], kernel_size: Union[int, Sequence[int]],
                 dilation: Union[int, Sequence[int]] = 1) -> Mask:
    """The nearest positions of a line, an image or a volume (NATTEN: neighborhood attention). A window that would
    exceed the grid is moved inside, so that every query sees the same number of keys.

        for each dimension, with x and y the coordinates of the query and the key, n the extent, K the kernel size and d
        the dilation of that dimension:

        (x - y) mod d = 0
        y >= x - floor(K / 2) d        or  y >= n - K d
        y <  x + ceil(K / 2) d         or  y <  K d

    Queries and keys are the positions of the grid, the last dimension innermost: Nq = Nk = the product of `shape`. Keys
    beyond the grid are not seen.

    Args:
        shape: (T,), (H, W) or (D, H, W), or T alone.
        kernel_size: the number of keys that a query sees along each dimension, or one number for all; an even window
            has one more key before the query than after it.
        dilation: the distance of neighbouring keys along each dimension, or one number for all. K d is at most n.
    """
    shape = args.per_dimension("shape", shape, None)
    kernel_size = args.per_dimension("kernel_size", kernel_size, len(shape))
    dilation = args.per_dimension("dilation", dilation, len(shape))
    for n, size, step in zip(shape, kernel_size, dilation):
        if size * step > n:
            raise ArgumentError(f"expected kernel_size times dilation of at most {n}, the grid's, got {size} * {step}")

    def keep(b, h, i, j):
        kept = j < math.prod(shape)
        for x, y, n, size, step in zip(_coordinates(i, shape), _coordinates(j, shape), shape, kernel_size, dilation):
            kept = kept & ((y >= x - size // 2 * step) | (y >= n - size * step))
            kept = kept & ((y < x + (size + 1) // 2 * step) | (y < size * step))
            if step > 1:
                kept = kept & ((x - y) % step == 0)
        return kept
    return Mask(keep, f"neighborhood({shape}, {kernel_size}, {dilation})")


def _coordinates(position: Any, shape: Sequence[int]) -> List[Any]:
    """Returns the coordinates of a position in a grid, whose last dimension is the innermost."""
    inner = []
    for extent in shape[:0:-1]:
        inner.append(position % extent)
        position = position // extent
    return [position, *reversed(inner)]


@public
def key_padding(lengths: Union[int, IntegersLike]) -> Mask:
    """Keys up to a length; the keys after it are padding.

        j < lengths[b]

    Args:
        lengths: [B] of integers, or one integer.
    """
    lengths = args.parameter("lengths", lengths, 1)
    return Mask(lambda b, h, i, j: j < args.value(lengths, b, j), f"key_padding({args.named(lengths)})")


@public
def block_diffusion(length: Union[int, IntegersLike], size: int) -> Mask:
    """Training of a block diffusion model (BD3-LM) on a noisy sequence followed by the same sequence clean. Blocks are
    denoised with the clean blocks before them. With n = length and block(x) = floor((x mod n) / size):

        i <  n, j <  n:  block(i)  = block(j)      noisy sees its own noisy block
        i <  n, j >= n:  block(j)  < block(i)      noisy sees earlier clean blocks
        i >= n, j >= n:  block(j) <= block(i)      clean sees clean blocks up to its own
        i >= n, j <  n:  nothing                   clean sees nothing noisy

    Args:
        length: n, the length of each of the two sequences: Nq = Nk = 2 n.
        size: the length of a block.
    """
    length, size = args.parameter("length", length), args.constant("size", size, 1)

    def keep(b, h, i, j):
        n = args.value(length, b, j)
        block, noisy_block, clean_block = i // size, j // size, (j - n) // size
        noisy = (j < n) & (noisy_block == block) | (j >= n) & (clean_block < block)
        clean = (j >= n) & (clean_block <= (i - n) // size)
        return (i < n) & noisy | (i >= n) & clean
    return Mask(keep, f"block_diffusion({args.named(length)}, {size})")


# --- Masks of data ----------------------------------------------------------------------------------------------------

@public
def documents(ids: IntegersLike, key_ids: Optional[IntegersLike] = None, *, sorted: bool = False) -> Mask:
    """Packed documents by a number for each token: documents see only themselves.

        ids[i] = key_ids[j]

    Args:
        ids: [Nq], or [B, Nq], of integers: equal within a document.
        key_ids: the numbers of the keys, [Nk] or [B, Nk]; None: those of the queries.
        sorted: promises that the numbers ascend along the last dimension (`flashc.assume_sorted`). Then only tiles with
            kept keys are visited, and another kernel first finds the keys of each query. Without the promise, two other
            kernels first find the range of numbers in each tile, which decides: the same tiles if the numbers do
            ascend, else more tiles.
    """
    sorted = parse_flag("sorted", sorted)
    ids = args.integers("ids", ids, 1, 2)
    key_ids = ids if key_ids is None else args.integers("key_ids", key_ids, 1, 2)
    if sorted:
        is_same = key_ids is ids
        ids = assume_sorted(ids)
        key_ids = ids if is_same else assume_sorted(key_ids)
    return Mask(lambda b, h, i, j: args.at(ids, b, i) == args.at(key_ids, b, j), "documents(...)")


@public
def shared_prefix(prefix: Union[int, IntegersLike], ids: Union[int, IntegersLike], align: Any = "bottom-right", *,
                  sorted: bool = False) -> Mask:
    """A prefix followed by several continuations of it: a query sees the prefix and its own continuation, up to itself
    (several answers to one prompt; the prefix is computed once).

        j <= i and (j < prefix or continuation(i) = continuation(j))

    Args:
        prefix: the length of the prefix, or one for each batch: [B] of integers.
        ids: an integer n: continuations are n tokens long, continuation(x) = floor((x - prefix) / n). Or a number for
            each token, continuation(x) = ids[x]: [N] or [B, N] of integers; the numbers of the prefix do not matter.
        align: as for `causal`.
        sorted: promises that `ids` ascend, as for `documents`.
    """
    prefix, sorted = args.parameter("prefix", prefix, 1), parse_flag("sorted", sorted)
    if isinstance(ids, int):
        size = args.constant("ids", ids, 1)

        def is_same(b, h, i, j):
            start = args.value(prefix, b, j)
            return (i - start) // size == (j - start) // size
        same: Callable[..., Any] = is_same
    else:
        same = documents(ids, sorted=sorted)
    return _of_positions(lambda b, h, i, j: (j <= i) & ((j < args.value(prefix, b, j)) | same(b, h, i, j)),
                         f"shared_prefix({args.named(prefix)}, {args.named(ids)})", align)


@public
def packed(offsets: IntegersLike, key_offsets: Optional[IntegersLike] = None, *, causal: bool = False,
           window: Window = None) -> Mask:
    """Packed sequences by their offsets (FlashAttention's cu_seqlens): each sees only itself.

    With s the sequence of query i, offsets[s] <= i < offsets[s + 1], and
    shift = (key_offsets[s + 1] - key_offsets[s]) - (offsets[s + 1] - offsets[s]):

        key_offsets[s] <= j < key_offsets[s + 1]
        and, with causal or window, a bound on (j - key_offsets[s]) - (i - offsets[s] + shift)

    Args:
        offsets: [S + 1], or [B, S + 1], of int32 or int64: 0 first, ascending, Nq last, or less: queries from the last
            offset on see nothing, and nothing sees keys there. Equal neighbours are a sequence without tokens. Offsets
            on a GPU are not checked.
        key_offsets: the offsets of the keys, as many, Nk last, or less; None: those of the queries.
        causal: a query sees no later key of its sequence, where the last query is at the last key.
        window: (left, right) around that key, as for `flashc.attention`.
    """
    starts = key_starts = assume_sorted(args.integers("offsets", offsets, 1, 2))
    if key_offsets is not None and key_offsets is not offsets:
        key_starts = assume_sorted(args.integers("key_offsets", key_offsets, 1, 2))
        if key_starts.shape[-1] != starts.shape[-1]:
            raise ArgumentError("expected as many key_offsets as offsets, got shapes "
                                f"{key_starts.shape} and {starts.shape}")
    causal = parse_flag("causal", causal)
    _, (left, right) = Options(causal, parse_window(window)).mask()

    def keep(b, h, i, j):
        number = args.count_le(starts, b, i)  # The sequence's number, from 1.
        kept, position = j >= args.at(key_starts, b, number - 1), i
        if key_starts is not starts and (left >= 0 or right >= 0):
            position = i + (args.at(key_starts, b, number) - args.at(starts, b, number))
        if left >= 0:
            kept = kept & (j >= position - left)
        # If queries and keys have the same offsets, a causal bound implies that j lies in the sequence.
        if right != 0 or key_starts is not starts:
            kept = kept & (j < args.at(key_starts, b, number))
        kept = kept & (j < args.last(key_starts, b, i))
        return kept & (j <= (position + right if right else position)) if right >= 0 else kept
    return Mask(keep, f"packed(..., causal={causal!r}, window={window!r})")
