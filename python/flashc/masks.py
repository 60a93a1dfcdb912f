"""Masks that have names, for `flashc.attention(..., mask=...)`, to be joined with `&`, `|` and `~`.

    flashc.attention(q, k, v, mask=masks.causal() & masks.documents(ids, sorted=True))
    flashc.attention(q, k, v, mask=masks.chunked(8192) & masks.causal() | (lambda b, h, i, j: j < 4))

A mask says which keys a query sees: batch b, query head h, query i of Nq, key j of Nk. The formulas below are what is
kept. As a function `(b, h, i, j) -> condition` a mask also serves as the `mask_mod` of PyTorch's FlexAttention, and can
be called with arrays of positions.

Python's numbers are constants of the kernel. NumPy's scalars and arrays without dimensions are its arguments (another
value is no other kernel); where `[B]` is said, an array has a number for each batch. Block sizes and dilations are
constants always.

Masks that compare i with j align the last query with the last key, as `flashc.attention(causal=True)` does: i stands
for i + Nk - Nq in their formulas. `align="top-left"` counts queries from the first key, as PyTorch's `is_causal` does,
and an integer from that key on. In `flashc.varlen_attention` the lengths are those of each sequence; in `flashc.decode`
i is a position among the keys already.
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
    """Which keys a query sees, as a function `(b, h, i, j) -> condition`.

    `a & b` keeps what both keep, `a | b` what one of them keeps, `~a` what a does not; the other one may be any
    function (b, h, i, j) -> condition. `Mask(function)` makes a mask of a function.
    """

    #: So that NumPy leaves arrays beside a mask to it, instead of joining it with each element.
    __array_ufunc__ = None

    def __init__(self, keep: Callable[..., Any], text: Optional[str] = None, align: Any = "top-left") -> None:
        if not callable(keep):
            raise UnsupportedTypeError(f"expected a function (b, h, i, j) -> condition, got {type(keep)!r}")
        self._keep = keep
        # What the masks of this file keep refers to arrays in a way that a trace sees; others must be bound to it.
        self._is_own = text is not None
        self._name = text or getattr(keep, "__name__", "mask")
        # Where the queries are, and where they are if the text does not say it.
        self._align, self._usual_align = align, align

    def __repr__(self) -> str:
        return f"<flashc.masks {self._text}>"

    @property
    def _text(self) -> str:
        is_usual = self._align is self._usual_align
        return self._name if is_usual else f"({self._name}).aligned({args.named(self._align)})"

    def __call__(self, b: Any, h: Any, i: Any, j: Any) -> Any:
        keep = self._keep if self._is_own else trace.bound(self._keep, j)
        return keep(b, h, args.shifted(i, self._align), j)

    def __bool__(self) -> bool:
        # PyTorch asks it of a function that it traces: `if function and callable(function)`.
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

    def aligned(self, align: Any) -> "Mask":
        """The mask with its queries elsewhere: query i is at position i + shift. It takes the place of the alignment
        that the mask has, and in a joined mask of those that the parts have.

        Args:
            align: "bottom-right": shift = Nk - Nq, so that the last query is at the last key (FlashAttention's way, and
                that of `flashc.attention(causal=True)`); the kernel serves all lengths. It works in flashc only, since
                FlexAttention does not tell a mask the lengths: there, give the shift as a number. "top-left": shift =
                    0.
                An integer: the shift.
        """
        align = args.check_align(align)
        moved = copy.copy(self)
        moved._align = align
        return moved


class _Joined(Mask):
    """A mask of other masks, which have the alignments. `realign`: the same of masks that are aligned otherwise."""

    def __init__(self, keep: Callable[..., Any], text: str, realign: Callable[[Any], Mask]) -> None:
        super().__init__(keep, text)
        self._realign = realign

    def aligned(self, align: Any) -> Mask:
        return self._realign(args.check_align(align))


def _of_positions(keep: Callable[..., Any], text: str, align: Any) -> Mask:
    """A mask that compares i with j, which are positions in one sequence."""
    return Mask(keep, text, "bottom-right").aligned(align)


def _join(operation: Callable[..., Any], sign: str, x: Any, y: Any) -> Mask:
    for one in (x, y):
        if not callable(one):
            what = "an array; (lambda b, h, i, j: array[i, j]) is a function of one" if hasattr(one, "shape") else \
                repr(one)
            raise UnsupportedTypeError(f"expected a mask or a function (b, h, i, j) -> condition beside `{sign}`, got "
                                       f"{what}")
    x, y = (one if isinstance(one, Mask) else Mask(one) for one in (x, y))
    return _Joined(lambda b, h, i, j: operation(x(b, h, i, j), y(b, h, i, j)), f"({x._text} {sign} {y._text})",
                   lambda align: _join(operation, sign, x.aligned(align), y.aligned(align)))


# --- Masks of positions -----------------------------------------------------------------------------------------------

@public
def causal(align: Any = "bottom-right") -> Mask:
    """What a query of a language model may see: no later key.

        j <= i

    Args:
        align: where i counts from, as for all masks here: "bottom-right" (i + Nk - Nq, as FlashAttention and
            `flashc.attention(causal=True)`), "top-left" (i, as PyTorch's is_causal), or what is added to i; see
            `Mask.aligned`.
    """
    return _of_positions(lambda b, h, i, j: j <= i, "causal()", align)


@public
def sliding_window(left: Any, right: Any = 0, align: Any = "bottom-right") -> Mask:
    """Keys that are near (Longformer, Mistral; FlashAttention's window_size).

        i - left <= j <= i + right

    Args:
        left, right: distances that are not negative, or None for no bound; right = 0 is causal.
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
    """A prefix that everybody sees, and a causal rest (prefix language models: UniLM, T5).

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
    """Chunks that see themselves only; with `& causal()` it is Llama 4's chunked attention.

        floor(i / size) = floor(j / size)

    `align` is as for `causal`.
    """
    size = args.constant("size", size, 1)
    return _of_positions(lambda b, h, i, j: i // size == j // size, f"chunked({size})", align)


@public
def block_causal(size: int, align: Any = "bottom-right") -> Mask:
    """Blocks that see themselves and all blocks before (frames of a video, blocks that are decoded at once).

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
        sinks: how many of the first keys every later query sees.
        left: the distance to the last key of the window: it has left + 1 keys.
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
    """The nearest positions of a line, an image or a volume (NATTEN: neighborhood attention). A window that would leave
    the grid is moved inside, so that every query sees as many keys.

        for each dimension, with x and y the query's and the key's coordinate, n the length, K and d the kernel size and
        the dilation of that dimension:

        (x - y) mod d = 0
        y >= x - floor(K / 2) d        or  y >= n - K d
        y <  x + ceil(K / 2) d         or  y <  K d

    Queries and keys are the positions of the grid, the last dimension innermost: Nq = Nk = the product of `shape`. Keys
    beyond the grid are not seen.

    Args:
        shape: (T,), (H, W) or (D, H, W), or T alone.
        kernel_size: for each dimension how many keys a query sees, or one number for all; the window of an even number
            has one key more before the query than after it.
        dilation: for each dimension the distance of neighbouring keys, or one number for all. K d is at most n.
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
    """The coordinates of a position in a grid, whose last dimension is the innermost."""
    inner = []
    for extent in shape[:0:-1]:
        inner.append(position % extent)
        position = position // extent
    return [position, *reversed(inner)]


@public
def key_padding(lengths: Union[int, IntegersLike]) -> Mask:
    """Keys up to a length, behind which they are padding.

        j < lengths[b]

    Args:
        lengths: [B] of integers, or one integer.
    """
    lengths = args.parameter("lengths", lengths, 1)
    return Mask(lambda b, h, i, j: j < args.value(lengths, b, j), f"key_padding({args.named(lengths)})")


@public
def block_diffusion(length: Union[int, IntegersLike], size: int) -> Mask:
    """Training of a block diffusion model (BD3-LM) on a noisy sequence and, behind it, the same sequence clean. Blocks
    are denoised with the clean blocks in front of them. With n = length and block(x) = floor((x mod n) / size):

        i <  n, j <  n:  block(i)  = block(j)      noisy sees its own noisy block
        i <  n, j >= n:  block(j)  < block(i)      noisy sees earlier clean blocks
        i >= n, j >= n:  block(j) <= block(i)      clean sees clean blocks up to its own
        i >= n, j <  n:  nothing                   clean sees nothing noisy

    Args:
        length: n, of each of the two sequences: Nq = Nk = 2 n.
        size: of a block.
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
    """Packed documents by a number for each token: they see themselves only.

        ids[i] = key_ids[j]

    Args:
        ids: [Nq], or [B, Nq], of integers: equal in one document.
        key_ids: those of the keys, [Nk] or [B, Nk]; None: those of the queries.
        sorted: promises that the numbers ascend along each line (`flashc.assume_sorted`). Then only tiles with kept
            keys are visited; one more kernel before the attention's finds the keys of each query. Without it the range
            of numbers in each tile decides, which two more kernels find: as good where the numbers do ascend, less so
            where tiles hold several documents.
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
    """Several continuations of one prefix, behind it and each other: a query sees the prefix and its own continuation,
    up to itself (several answers to one prompt; the prefix is computed once).

        j <= i and (j < prefix or continuation(i) = continuation(j))

    Args:
        prefix: the length of the prefix, or one for each batch: [B] of integers.
        ids: an integer n: continuations are n tokens long, continuation(x) = floor((x - prefix) / n). Or a number for
            each token, continuation(x) = ids[x]: [N] or [B, N] of integers; those of the prefix do not matter.
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
    """Packed sequences by their offsets (FlashAttention's cu_seqlens): each sees itself only.

    With s the sequence of query i, offsets[s] <= i < offsets[s + 1], and
    shift = (key_offsets[s + 1] - key_offsets[s]) - (offsets[s + 1] - offsets[s]):

        key_offsets[s] <= j < key_offsets[s + 1]
        and, with causal or window, a bound on (j - key_offsets[s]) - (i - offsets[s] + shift)

    Args:
        offsets: [S + 1], or [B, S + 1], of int32 or int64: 0 first, ascending, Nq last, or less: queries from the last
            offset on see nothing, and nothing sees keys there. Equal neighbours are a sequence of no tokens. Nothing
            checks them on a GPU.
        key_offsets: those of the keys, as many, Nk last, or less; None: those of the queries.
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
        number = args.count_le(starts, b, i)  # of the sequence, from 1
        kept, position = j >= args.at(key_starts, b, number - 1), i
        if key_starts is not starts and (left >= 0 or right >= 0):
            position = i + (args.at(key_starts, b, number) - args.at(starts, b, number))
        if left >= 0:
            kept = kept & (j >= position - left)
        # A query that is among its keys is before their end.
        if right != 0 or key_starts is not starts:
            kept = kept & (j < args.at(key_starts, b, number))
        kept = kept & (j < args.last(key_starts, b, i))
        return kept & (j <= (position + right if right else position)) if right >= 0 else kept
    return Mask(keep, f"packed(..., causal={causal!r}, window={window!r})")
