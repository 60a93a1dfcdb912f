"""The masks of transformers' models as masks of flashc.

transformers describes a mask by a function (b, h, q, kv) -> condition, which it joins from parts with `and_masks` and
`or_masks`, by an array [B, N] of padding, and by the positions of the first query and the first key. `make_mask`
reads the parts. A part that transformers makes itself (causal, windows, chunks, packed sequences, padding, blocks of
image tokens) becomes a mask of flashc. Any other function is traced. No array [B, 1, Nq, Nk] is made.

A position below is that among the keys of the call: key j has position j, and query i has position i + shift, where
shift = q_offset - kv_offset.
"""
from __future__ import annotations

import operator
from functools import lru_cache, reduce
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask
from transformers import masking_utils

from .. import masks, scores
from .._decode import SharedDecode
from .._runtime.library import ArgumentError
from .._runtime.options import Options
from .._runtime.plans import plan_mask
from .._torch_tensors import GRANULE
from .._trace import mask_arguments as args
from .._trace.trace import call_mask


class Place(NamedTuple):
    """How a kernel counts queries."""
    #: What turns the kernel's i into a position, as `align` of flashc.masks.
    align: Any
    #: Whether i already is a position, as in flashc.decode, and not the number of a query in the call.
    is_position: bool


#: Makes a mask for a place.
Part = Callable[[Place], masks.Mask]


class Conjunction(NamedTuple):
    """The keys of a window that some other masks keep: -left <= j - position <= right. None is no bound."""
    left: Optional[int] = None
    right: Optional[int] = None
    others: Tuple[Part, ...] = ()
    #: Whether the other masks depend on queries, and not on keys alone.
    is_of_queries: bool = False
    #: Whether one of the other masks keeps packed sequences apart.
    is_packed: bool = False

    @property
    def window(self) -> Optional[Tuple[Optional[int], Optional[int]]]:
        return None if self.left is None and self.right is None else (self.left, self.right)

    def joined(self, other: "Conjunction") -> "Conjunction":
        """Returns the conjunction of both."""
        return Conjunction(_least(self.left, other.left), _least(self.right, other.right), self.others + other.others,
                           self.is_of_queries or other.is_of_queries, self.is_packed or other.is_packed)

    def rest(self, place: Place) -> Optional[masks.Mask]:
        """Returns the masks besides the window, joined; None if there are none."""
        return reduce(operator.and_, [part(place) for part in self.others]) if self.others else None

    def mask(self, place: Place) -> Optional[masks.Mask]:
        """Returns all of it as one mask; None if it keeps everything."""
        rest = self.rest(place)
        if self.window is None:
            return rest
        window = masks.causal(place.align) if self.window == (None, 0) else masks.sliding_window(
            self.left, self.right, place.align)
        return window if rest is None else window & rest


def _least(x: Optional[int], y: Optional[int]) -> Optional[int]:
    return y if x is None else x if y is None else min(x, y)


# --- Parts of masks ---------------------------------------------------------------------------------------------------

class _Context(NamedTuple):
    """What is known where a part is read."""
    #: The index that transformers gives the first query and the first key: Python's number, or a tensor [].
    q_offset: Any
    kv_offset: int
    #: Whether another part of the conjunction keeps packed sequences apart.
    is_packed: bool = False
    #: [B, N]: the positions that take the place of indices in the function, or None.
    position_ids: Optional[Tensor] = None


def _number(x: Any) -> Any:
    """Returns an argument of the kernel for a number that changes from call to call."""
    return x if isinstance(x, Tensor) else np.int64(x)


def _since(x: Tensor, first: int) -> Tensor:
    """Returns the columns from `first` on."""
    return x[:, first:] if first else x


def read(function: Callable[..., Any], context: _Context) -> Conjunction:
    """Reads a mask function of transformers."""
    reader = _readers.get(getattr(function, "__code__", None))
    found = None if reader is None else reader(_cells(function), context)
    return _other(_traced(function, context)) if found is None else found


def _other(part: Part) -> Conjunction:
    """Returns the conjunction of one mask that depends on queries."""
    return Conjunction(others=(part,), is_of_queries=True)


def _cells(function: Callable[..., Any]) -> Dict[str, Any]:
    """Returns the values of the variables in the closure of a function."""
    cells = function.__closure__ or ()  # type: ignore[attr-defined]
    return {name: cell.cell_contents for name, cell in zip(function.__code__.co_freevars, cells)}


def _traced(function: Callable[..., Any], context: _Context) -> Part:
    """Returns the part of a function that flashc traces."""
    q_offset, kv_offset, _, positions = context

    def make(place: Place) -> masks.Mask:
        if positions is not None:
            def keep(b: Any, h: Any, i: Any, j: Any) -> Any:
                return call_mask(function, b, h, args.at(positions, b, i), args.at(positions, b, j))
        elif type(q_offset) is int and q_offset == kv_offset == 0:
            return masks.Mask(function)
        else:
            first, first_key = _number(kv_offset if place.is_position else q_offset), _number(kv_offset)

            def keep(b: Any, h: Any, i: Any, j: Any) -> Any:
                return call_mask(function, b, h, i + args.value(first, b, j), j + args.value(first_key, b, j))
        return masks.Mask(keep, getattr(function, "__name__", "mask"))
    return make


def _read_causal(cells: Dict[str, Any], context: _Context) -> Optional[Conjunction]:
    return Conjunction(right=0)


def _read_everything(cells: Dict[str, Any], context: _Context) -> Optional[Conjunction]:
    return Conjunction()


def _read_window(cells: Dict[str, Any], context: _Context) -> Optional[Conjunction]:
    size = cells.get("sliding_window")
    return Conjunction(left=size - 1) if type(size) is int and size > 0 else None


def _read_window_of_both_sides(cells: Dict[str, Any], context: _Context) -> Optional[Conjunction]:
    size = cells.get("sliding_window")
    return Conjunction(size, size) if type(size) is int and size >= 0 else None


def _read_chunks(cells: Dict[str, Any], context: _Context) -> Optional[Conjunction]:
    """Chunks of a size, which begin after the padding on the left of each sequence."""
    size, padding = cells.get("chunk_size"), cells.get("left_padding")
    if type(size) is not int or size <= 0 or not isinstance(padding, Tensor) or padding.dim() != 1:
        return None
    if context.position_ids is not None:
        return None
    begin = padding - context.kv_offset if context.kv_offset else padding

    def keep(b: Any, h: Any, i: Any, j: Any) -> Any:
        first = args.value(begin, b, j)
        return (i - first) // size == (j - first) // size
    return _other(lambda place: masks.Mask(keep, f"chunks of {size}", place.align))


def _read_padding(cells: Dict[str, Any], context: _Context) -> Optional[Conjunction]:
    padding = cells.get("padding_mask")
    if not _is_array(padding) or padding.dtype != torch.bool or context.position_ids is not None:
        return None
    return _keys_of(_since(padding, context.kv_offset))


class _Padding(masks.Mask):
    """The keys that an array [B, N] of conditions keeps. Each step of generation makes such a mask, and finds its code
    by the array alone, without a look at functions."""
    _decides = ("_padding",)

    def __init__(self, padding: Tensor) -> None:
        self._padding, self._name = padding, "padding"
        self._align = self._usual_align = "top-left"

    def __call__(self, b: Any, h: Any, i: Any, j: Any) -> Any:
        return args.at(self._padding, b, j)


def _keys_of(padding: Tensor) -> Conjunction:
    """Returns the keys that an array [B, N] of conditions keeps."""
    mask = _Padding(padding)
    return Conjunction(others=(lambda place: mask,))


def _read_packed(cells: Dict[str, Any], context: _Context) -> Optional[Conjunction]:
    """Packed sequences. transformers counts the sequences from the left, so their numbers ascend."""
    ids = cells.get("packed_sequence_mask")
    if not _is_array(ids) or not _is_at_start(context) or context.position_ids is not None:
        return None
    mask = masks.documents(ids, sorted=True)
    return _other(lambda place: mask)._replace(is_packed=True)


def _read_remapped(cells: Dict[str, Any], context: _Context) -> Optional[Conjunction]:
    """A function of position_ids in place of indices. Positions in one packed sequence are consecutive, so a mask that
    compares positions is the same for indices where another part keeps the sequences apart."""
    positions = cells.get("position_ids")
    if not context.is_packed or context.position_ids is not None or not _is_array(positions):
        return None
    return read(cells["mask_function"], context._replace(position_ids=positions))


def _read_blocks(cells: Dict[str, Any], context: _Context) -> Optional[Conjunction]:
    """Blocks, such as the tokens of an image, that see themselves. Tokens of no block have the number -1."""
    ids = cells.get("block_sequence_ids")
    if not _is_array(ids) or context.position_ids is not None:
        return None
    q_offset, keys = context.q_offset, _since(ids, context.kv_offset)

    def make(place: Place) -> masks.Mask:
        is_row = not place.is_position and type(q_offset) is int
        rows = _since(ids, q_offset) if is_row else keys

        def keep(b: Any, h: Any, i: Any, j: Any) -> Any:
            own = args.at(rows, b, i)
            return (own == args.at(keys, b, j)) & (own >= 0)
        return masks.Mask(keep, "blocks", "top-left" if is_row else place.align)
    return _other(make)


def _is_array(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dim() == 2


def _is_at_start(context: _Context) -> bool:
    return type(context.q_offset) is int and context.q_offset == context.kv_offset == 0


def _read_and(cells: Dict[str, Any], context: _Context) -> Optional[Conjunction]:
    functions = cells.get("mask_functions")
    if not isinstance(functions, tuple):
        return None
    if any(function.__code__ is _PACKED and _is_array(_cells(function).get("packed_sequence_mask"))
           for function in functions if hasattr(function, "__code__")) and _is_at_start(context):
        context = context._replace(is_packed=True)
    return reduce(Conjunction.joined, [read(function, context) for function in functions], Conjunction())


def _read_or(cells: Dict[str, Any], context: _Context) -> Optional[Conjunction]:
    functions = cells.get("mask_functions")
    if not isinstance(functions, tuple):
        return None
    parts = [read(function, context) for function in functions]
    if Conjunction() in parts:
        return Conjunction()

    def make(place: Place) -> masks.Mask:
        return reduce(operator.or_, [part.mask(place) for part in parts])
    return _other(make)


def _code(factory: str, *arguments: Any) -> Any:
    """Returns the code of a mask function that transformers makes; None if this version has no such function."""
    make = getattr(masking_utils, factory, None)
    return getattr(make(*arguments) if arguments else make, "__code__", None) if make is not None else None


def _always(b: Any, h: Any, i: Any, j: Any) -> bool:
    return True


_IDS = torch.zeros((1, 1), dtype=torch.int64)
_PACKED = _code("packed_sequence_mask_function", _IDS)
#: Reads a function of transformers by its code. A reader returns None for a function that is traced.
_readers: Dict[Any, Callable[[Dict[str, Any], _Context], Optional[Conjunction]]] = {
    _code("causal_mask_function"): _read_causal,
    _code("bidirectional_mask_function"): _read_everything,
    _code("sliding_window_overlay", 1): _read_window,
    _code("sliding_window_bidirectional_overlay", 1): _read_window_of_both_sides,
    _code("chunked_overlay", 1, _IDS[0]): _read_chunks,
    _code("padding_mask_function", _IDS): _read_padding,
    _PACKED: _read_packed,
    _code("remap_positions_for_packed_sequence", _always, _IDS): _read_remapped,
    _code("blockwise_overlay", _IDS): _read_blocks,
    _code("and_masks", _always): _read_and,
    _code("or_masks", _always): _read_or,
}
_readers.pop(None, None)


# --- The mask of a model ----------------------------------------------------------------------------------------------

#: At most this many queries after a past are a step of generation, which flashc.decode computes. It compiles a kernel
#: for each number of queries.
MOST_QUERIES = 16

soft_cap = lru_cache(maxsize=64)(scores.soft_cap)


class ModelMask(BlockMask):
    """What a model passes to its layers in place of an array [B, 1, Nq, Nk].

    It is a BlockMask, without the fields of one, since transformers takes a BlockMask for a finished mask.
    """

    def __init__(self, conjunction: Conjunction, shape: Sequence[int], shift: Any) -> None:
        self.conjunction, self._shape, self.shift = conjunction, tuple(shape), shift
        #: What calls with certain lengths need.
        self._known: Dict[Any, Any] = {}
        #: What the layers of a step of generation share, keyed by all that `step` is called with.
        self._steps: Dict[Any, Optional[SharedDecode]] = {}

    @property
    def shape(self) -> Tuple[int, ...]:
        return self._shape

    @property
    def ndim(self) -> int:
        return 4

    def __repr__(self) -> str:
        return f"<flashc's mask {self._shape} of a model>"

    __str__ = __repr__

    def _refuse(self, *arguments: Any, **keywords: Any) -> Any:
        raise ArgumentError("expected a model that passes its mask on to its attention, got one that computes with the "
                            "mask, or converts it: attn_implementation=\"fcattn\" makes no array")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"expected a model that passes its mask on to its attention, got one that reads "
                             f"`{name}` of the mask: attn_implementation=\"fcattn\" makes no array")

    def to(self, device: Any = None, *arguments: Any, **keywords: Any) -> "ModelMask":
        """Returns the mask itself, which has no memory of its own. flashc refuses a call whose mask reads arrays on
        another device than the queries."""
        if device is None or isinstance(device, (torch.dtype, Tensor)) or arguments or "dtype" in keywords:
            self._refuse()
        return self

    __getitem__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __and__ = __rand__ = _refuse
    __or__ = __ror__ = __invert__ = __neg__ = __truediv__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __hash__ = object.__hash__

    def __eq__(self, other: Any) -> Any:
        return self is other if other is None or isinstance(other, ModelMask) else self._refuse()

    def _check(self, queries: int, keys: int) -> None:
        if queries != self._shape[2] or keys > self._shape[3]:
            raise ArgumentError(f"expected {self._shape[2]} queries and at most {self._shape[3]} keys, for which the "
                                f"model made its mask, got {queries} and {keys}")

    def of_attention(self, queries: int, keys: int) -> Tuple[Any, Optional[Callable[..., Any]]]:
        """Returns the window and the mask for flashc.attention of `queries` and `keys`."""
        found = self._known.get((queries, keys))
        if found is None:
            self._check(queries, keys)
            found = self._known[queries, keys] = self._of_attention(queries, keys)
        return found

    def _of_attention(self, queries: int, keys: int) -> Tuple[Any, Optional[Callable[..., Any]]]:
        conjunction, shift = self.conjunction, self.shift
        is_usual = type(shift) is int and shift == keys - queries
        align = "bottom-right" if is_usual else "top-left" if type(shift) is int and shift == 0 else _number(shift)
        place, window = Place(align, False), None
        if is_usual:
            window, mask = conjunction.window, conjunction.rest(place)
        else:
            mask = conjunction.mask(place)
        # All layers share the tiles that a mask keeps. A captured CUDA graph may replay with other arrays.
        if mask is not None and not _is_capturing():
            mask = plan_mask(mask)
        return window, mask

    def step(self, query: Tensor, key: Tensor, value: Tensor, scale: Optional[float],
             cap: Optional[float]) -> Optional[SharedDecode]:
        """Returns flashc.decode with this mask, for all layers with these shapes, scale and soft cap. None for calls
        that are no step of generation, or that flashc.decode does not take as they are.

        Args:
            query, key, value: [B, Hq, Nq, D], [B, Hk, Nk, D] and [B, Hk, Nk, Dv].
            scale: of the scores; None: 1 / sqrt(D).
            cap: the soft cap of the scores, or None.
        """
        if type(query) is not Tensor:
            return None  # A tensor of a graph needs the op.
        at = query.shape, key.shape, value.shape, query.device, scale, cap
        found = self._steps.get(at, self)
        if found is self:
            found = self._steps[at] = self._make_step(*at)
        return found  # type: ignore[return-value]

    def _make_step(self, query: Sequence[int], key: Sequence[int], value: Sequence[int], device: torch.device,
                   scale: Optional[float], cap: Optional[float]) -> Optional[SharedDecode]:
        batch, _, queries, depth = query
        if queries > MOST_QUERIES or depth % GRANULE or value[3] % GRANULE or batch != key[0] or 0 in key:
            return None
        found = self.of_decode(queries, key[2], batch, device)
        if found is None:
            return None
        lengths, window, mask = found
        score = None if cap is None else soft_cap(float(cap))
        return SharedDecode(lengths, Options(False, window, scale, 0.0, True), mask, score)

    def of_decode(self, queries: int, keys: int, batch: int, device: torch.device) -> Any:
        """Returns the lengths, the window and the mask for flashc.decode of the last `queries` of `keys`. None for a
        prompt without a past, and if flashc.decode cannot place the queries."""
        key = queries, keys, batch, device
        if key not in self._known:
            self._check(queries, keys)
            self._known[key] = self._of_decode(queries, keys, batch, device)
        return self._known[key]

    def _of_decode(self, queries: int, keys: int, batch: int, device: torch.device) -> Any:
        conjunction, shift = self.conjunction, self.shift
        if queries > 1 and type(shift) is int and shift <= 0:
            return None
        # The last query sees no key after it, so the keys after it need not count.
        if conjunction.right == 0 and isinstance(shift, Tensor):
            lengths = torch.full((batch,), queries, dtype=torch.int32, device=device).add_(shift)
        else:
            length = shift + queries if conjunction.right == 0 else keys
            # flashc.decode gives query t the position length - queries + t.
            is_placed = type(shift) is int and shift == length - queries and length <= keys
            if not is_placed and (conjunction.window is not None or conjunction.is_of_queries):
                return None
            lengths = torch.full((batch,), length, dtype=torch.int32, device=device)
        return lengths, conjunction.window, conjunction.rest(Place("bottom-right", True))


def _is_capturing() -> bool:
    """Whether a CUDA graph is being captured."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def make_mask(batch_size: int, q_length: int, kv_length: int, q_offset: Any = 0, kv_offset: int = 0,
              mask_function: Callable[..., Any] = masking_utils.causal_mask_function,
              attention_mask: Optional[Tensor] = None, **others: Any) -> ModelMask:
    """Makes the mask of a model, as transformers' AttentionMaskInterface asks.

    Args:
        batch_size, q_length, kv_length: B, Nq and Nk.
        q_offset, kv_offset: the index of the first query and of the first key in their sequence. q_offset may be a
            tensor []: then kernels read it.
        mask_function: (b, h, q, kv) -> condition, of indices in the sequence.
        attention_mask: [B, N] of conditions, false for padding; columns are indices in the sequence.
        others: not used.
    """
    if torch.compiler.is_compiling():
        return _make_outside(batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask)
    return _make(batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask)


def _make(batch_size: int, q_length: int, kv_length: int, q_offset: Any, kv_offset: int,
          mask_function: Callable[..., Any], attention_mask: Optional[Tensor]) -> ModelMask:
    # A static cache adds to this tensor before attention runs.
    q_offset = q_offset.clone() if isinstance(q_offset, Tensor) else q_offset
    shift = q_offset - kv_offset if kv_offset else q_offset  # A tensor costs an operation.
    conjunction = read(mask_function, _Context(q_offset, kv_offset))
    padding = masking_utils.prepare_padding_mask(attention_mask, kv_length, kv_offset)
    if padding is not None:
        padding = _since(padding.to(torch.bool), kv_offset)
        seen = kv_length if conjunction.right != 0 else min(kv_length, shift + q_length) if type(shift) is int else None
        if not _is_full(padding, seen, q_length):
            conjunction = conjunction.joined(_keys_of(padding))
    return ModelMask(conjunction, (batch_size, 1, q_length, kv_length), shift)


_make_outside = torch.compiler.disable(_make, reason="flashc makes the mask of a model outside of graphs")


def _is_full(padding: Tensor, seen: Optional[int], queries: int) -> bool:
    """Whether the first `seen` columns have no padding. Waits for the GPU, as transformers does for `sdpa`; a call with
    one query, which is a step of generation, does not ask."""
    if seen is None or queries == 1 or _is_capturing():
        return False
    return bool(padding[:, :seen].all())
