"""The translation of FlexAttention's arguments into a call of flashc.attention.

FlexAttention takes a mask twice: as tables of blocks, and as a function, `BlockMask.mask_mod`. A query sees the keys of
its full blocks, and those keys of its partial blocks for which the function holds. flashc makes one mask of both, with
a table that has the class of each block:

    table[b, h, i // rows, j // columns] = FULL  or  = PARTIAL and mask_mod(b, h, i, j)

Loop bounds are what the compiler proves of a function; it proves nothing about elements of a table. PyTorch's
`create_block_mask` makes tables that follow from the function: then the tables add nothing, and the function alone is
the mask. Whether the tables follow is found on the GPU, once per BlockMask, by running the function over all pairs
(`Follows`). Either mask has a plan: the tiles that it keeps are found once per BlockMask.
"""
from __future__ import annotations

import operator
import re
import sys
import weakref
from typing import Any, Callable, NamedTuple, Optional, Sequence, Tuple

from . import ops
from ._runtime.library import ArgumentError, UnsupportedTypeError, described, parse_flag
from ._runtime.options import Operands, Options
from ._runtime.plans import MaskPlan, TracedPlan
from ._trace.repeated import code_of
from ._trace.code import Code
from ._trace.trace import call_mask

#: The BLOCK_SIZE of the BlockMask that PyTorch makes where the caller gives none.
_WHOLE = 1 << 30

#: The classes of blocks in a table. A block of class 0 is not visited.
_PARTIAL, _FULL = 1, 2

#: `follows(mask_mod, table, block_size, lengths)`: whether the table keeps the same pairs as the function. None: it
#: cannot be found out now. `table` is [B or 1, H or 1, rows, columns].
Follows = Callable[[Any, Any, Tuple[int, int], Tuple[int, int]], Optional[bool]]


class AuxOutput(NamedTuple):
    """FlexAttention's AuxOutput, for a PyTorch without it."""
    lse: Any = None
    max_scores: Any = None


def read(operands: Operands, options: Options, kernel_options: Any, return_aux: Any,
         follows: Optional[Follows] = None) -> Tuple[Operands, Options, Callable[..., Any]]:
    """Checks FlexAttention's arguments; returns those of flashc.attention, and a function that turns its results into
    FlexAttention's. `operands.mask` is the block_mask. `follows`: None: tables are always read."""
    query, key, value, block_mask, score_mod, *_ = operands
    _check_tensors(query, key, value)
    return_lse = options.return_lse
    if type(return_lse) is not bool or type(options.enable_gqa) is not bool:
        return_lse = parse_flag("return_lse", return_lse)
        parse_flag("enable_gqa", options.enable_gqa)
    if return_aux is not None and not hasattr(return_aux, "max_scores"):
        raise UnsupportedTypeError(f"expected return_aux to be an AuxRequest or None, got {described(return_aux)}")
    if kernel_options is not None and not hasattr(kernel_options, "keys"):
        raise UnsupportedTypeError(f"expected kernel_options to be a dictionary or None, got {kernel_options!r}")
    if score_mod is not None and not callable(score_mod):
        raise UnsupportedTypeError(f"expected score_mod to be a function (score, b, h, q_idx, kv_idx) -> score, got "
                                   f"{type(score_mod)!r}")
    if return_aux is not None:
        if return_lse:
            raise ArgumentError("expected return_lse or return_aux, got both")
        if return_aux.max_scores:
            raise ArgumentError("expected return_aux without max_scores, which flashc does not compute")
        return_lse = return_aux.lse
    mask = block_mask
    if block_mask is not None:
        device, is_double = (query.get_device(), query.element_size() == 8) if hasattr(query, "get_device") else \
            (None, False)
        mask = mask_of(block_mask, query.shape[2], key.shape[2], follows, device, is_double)
    if query.shape[0] != key.shape[0]:
        if key.shape[0] != 1:
            raise ArgumentError(f"expected query, key and value of one batch, or key and value of batch 1, got "
                                f"{query.shape[0]} and {key.shape[0]}")
        key, value = (x.expand(query.shape[0], *x.shape[1:]) for x in (key, value))
    scale = query.shape[-1] ** -0.5 if options.scale is None and query.shape[-1] else options.scale

    def returned(o: Any, lse: Any = None) -> Any:
        if return_aux is None:
            return (o, lse) if return_lse else o
        flex = sys.modules.get("torch.nn.attention.flex_attention")
        return o, getattr(flex, "AuxOutput", AuxOutput)(lse=lse, max_scores=None)
    asked = Options(scale=scale, enable_gqa=options.enable_gqa, return_lse=return_lse)
    return Operands(query, key, value, mask, score_mod), asked, returned


def _check_tensors(query: Any, key: Any, value: Any) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        if isinstance(x, type) or not hasattr(x, "dim"):
            raise UnsupportedTypeError(f"expected {name} to be a tensor, got {described(x)}")
        if x.dim() != 4:
            raise ArgumentError(f"expected {name} of 4 dimensions [B, H, N, E], got shape {tuple(x.shape)}")
    if query.shape[-1] != key.shape[-1]:
        raise ArgumentError(f"expected query and key of one embedding dimension, got {query.shape[-1]} and "
                            f"{key.shape[-1]}")


def mask_of(block_mask: Any, queries: int, keys: int, follows: Optional[Follows] = None,
            device: Optional[int] = None, is_double: bool = False) -> Optional[Callable[..., Any]]:
    """Returns the mask of a BlockMask, or None if it keeps everything. A function is returned as it is. `device`, if it
    is known, and `is_double`: those of the call, as for `trace`."""
    if block_mask is None:
        return None
    if not hasattr(block_mask, "mask_mod"):
        if callable(block_mask):
            return block_mask
        raise UnsupportedTypeError(f"expected block_mask to be a BlockMask, a function (b, h, q_idx, kv_idx) -> "
                                   f"condition or None, got {type(block_mask)!r}")
    lengths = tuple(block_mask.seq_lengths)
    mask_mod = None if _keeps_everything(block_mask.mask_mod) else block_mask.mask_mod
    if min(block_mask.BLOCK_SIZE) >= _WHOLE and lengths == (1, 1):
        return mask_mod  # PyTorch made the BlockMask because the caller gave none. It fits any lengths.
    if lengths != (queries, keys):
        raise ArgumentError(f"expected a block_mask that was made for {queries} queries and {keys} keys, got one for "
                            f"{lengths[0]} and {lengths[1]}")
    code = None if mask_mod is None else code_of(mask_mod, None, device=device, is_double=is_double)
    return _tables_of(block_mask, keys).choose(mask_mod, code, lengths, follows, device is not None)


def _keeps_everything(mask_mod: Any) -> bool:
    """Whether a BlockMask was made of tables alone: PyTorch gives it a function that is true everywhere."""
    return mask_mod is None or (getattr(mask_mod, "__name__", "") == "noop_mask" and
                                (mask_mod.__module__ or "").startswith("torch."))


# --- Tables -----------------------------------------------------------------------------------------------------------

_fields_of = operator.attrgetter("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices")


#: Arrays, and how often each of them was written.
_Stamps = Tuple[Sequence[Any], Sequence[int]]


def _stamps(arrays: Sequence[Any]) -> Optional[_Stamps]:
    """Returns the arrays with their versions, which differ after one was written; None if PyTorch does not count the
    writes of an array."""
    versions = []
    for x in arrays:
        try:
            versions.append(0 if x is None else x._version)
        except (AttributeError, RuntimeError):  # Tensors of inference mode have no count.
            return None
    return arrays, versions


def _is_same(x: Optional[_Stamps], y: Optional[_Stamps]) -> bool:
    return x is not None and y is not None and x[1] == y[1] and all(map(operator.is_, x[0], y[0]))


def _is_same_code(x: Optional[Code], y: Optional[Code]) -> bool:
    return x is y or (x is not None and y is not None and x[:3] == y[:3] and x.bound == y.bound)


class _Tables:
    """The tables of a BlockMask, as one table of the classes of blocks."""

    def __init__(self, block_mask: Any, keys: int) -> None:
        rows, columns = block_mask.BLOCK_SIZE
        self.block_size = (int(rows), int(columns))
        self.stamps = _stamps(_fields_of(block_mask))
        count, full = -(-keys // self.block_size[1]), block_mask.full_kv_num_blocks
        table = _dense(block_mask.kv_num_blocks, block_mask.kv_indices, count)
        if full is not None:
            table = table.masked_fill(_dense(full, block_mask.full_kv_indices, count) != 0, _FULL)
        self.has_full = full is not None
        while len(table.shape) < 4:
            table = table[None]
        self.table = table
        # The last call of `choose`: the code of the mask_mod, the arrays that it reads with their numbers of writes,
        # whether the tables say nothing, and the plan, which the second call with the same code and arrays makes.
        self._last: Optional[Tuple[Optional[Code], _Stamps, bool, Optional[MaskPlan]]] = None

    def choose(self, mask_mod: Any, code: Optional[Code], lengths: Tuple[int, int], follows: Optional[Follows],
               is_whole: bool = False) -> Callable[..., Any]:
        """Returns the mask_mod alone if the tables say nothing more than it does, else the mask of both. `code` is the
        code of the mask_mod. The mask has a plan, which is valid until the tables or the arrays that the mask_mod reads
        change. The first call with new arrays returns the mask without a plan, since a function may read other arrays
        in every call. So does a call in a CUDA graph, since the arrays may be written between replays. `is_whole`:
        whether `code` is that of a call whose mask is the mask_mod."""
        stamps = _stamps([array.owner for array in code.arrays] if code is not None and code.arrays else ())
        says_nothing: Optional[bool] = False
        plan, last = None, self._last
        is_same = last is not None and _is_same_code(last[0], code) and _is_same(last[1], stamps)
        if last is not None and is_same:
            says_nothing, plan = last[2:]
        elif code is not None and follows is not None:
            says_nothing = self._say_nothing(mask_mod, code, lengths, follows)
        can_plan = stamps is not None and self.stamps is not None and not _is_capturing(self.table)
        if plan is not None and can_plan:
            return TracedPlan(plan, code) if says_nothing and is_whole else plan
        mask = mask_mod if says_nothing else self.mask(mask_mod)
        if is_same and can_plan:
            mask = plan = MaskPlan(mask)
        if stamps is not None and says_nothing is not None:
            self._last = code, stamps, says_nothing, plan
        return mask

    def _say_nothing(self, mask_mod: Any, code: Code, lengths: Tuple[int, int], follows: Follows) -> Optional[bool]:
        """Whether the tables keep the same pairs as the function, so that they add nothing to it. None: it cannot be
        found out now."""
        # A table that all batches or heads share cannot follow from a function that reads the batch or the head.
        for extent, position in zip(self.table.shape, ("%b", "%h")):
            if extent == 1 and re.search(rf"{position}\b", code.mask or ""):
                return False
        return follows(mask_mod, self.table, self.block_size, lengths)

    def mask(self, mask_mod: Any) -> Callable[..., Any]:
        table, has_full = self.table, self.has_full
        rows, columns = self.block_size
        outer = tuple(table.shape[:2])

        def keep(b: Any, h: Any, i: Any, j: Any) -> Any:
            places = [0 if extent == 1 else place for extent, place in zip(outer, (b, h))]
            block = ops.array(table)[(*places, i // rows, j // columns)]
            if mask_mod is None:
                return block != 0
            kept = call_mask(mask_mod, b, h, i, j)
            if not has_full:
                return (block != 0) & kept
            return (block == _FULL) | ((block == _PARTIAL) & kept)
        return keep


def _dense(counts: Any, indices: Any, columns: int) -> Any:
    """Returns an array [..., rows, columns] with 1 for the blocks that a row lists. Nothing waits for the GPU: blocks
    past the keys, and entries past the count, go into one more column that is cut off."""
    places = indices.new_ones(indices.shape[-1:]).cumsum(-1) - 1
    is_listed = (places < counts[..., None]) & (indices >= 0) & (indices < columns)
    dense = indices.new_zeros((*indices.shape[:-1], columns + 1))
    return dense.scatter_(-1, indices.masked_fill(~is_listed, columns).long(), _PARTIAL)[..., :columns]


_tables: "weakref.WeakKeyDictionary[Any, _Tables]" = weakref.WeakKeyDictionary()


def _tables_of(block_mask: Any, keys: int) -> _Tables:
    """Returns the tables of a BlockMask. Makes them again if PyTorch's tables were written since."""
    known = _tables.get(block_mask)
    if known is not None and known.block_size == tuple(block_mask.BLOCK_SIZE) and known.table.shape[-1] == \
            -(-keys // known.block_size[1]) and _is_same(known.stamps, _stamps(_fields_of(block_mask))):
        return known
    fresh = _Tables(block_mask, keys)
    if not _is_capturing(block_mask.kv_indices):
        _tables[block_mask] = fresh
    return fresh


def _is_capturing(x: Any) -> bool:
    """Whether a CUDA graph is being captured. If so, results cannot be read before a replay of the graph."""
    torch = sys.modules.get("torch")
    return bool(torch is not None and getattr(x, "is_cuda", False) and torch.cuda.is_current_stream_capturing())


def is_true_to(table: Any, block_size: Tuple[int, int], first: int, kept: Any) -> Any:
    """Returns whether the table of one batch and head keeps the same pairs as `kept`, conditions [queries, keys] for
    the queries from `first` on. The result is an array without dimensions; nothing waits for it."""
    rows, columns = block_size
    queries, keys = kept.shape
    i = (table.new_ones((queries,)).cumsum(-1) + (first - 1)) // rows
    j = (table.new_ones((keys,)).cumsum(-1) - 1) // columns
    blocks = table[i][:, j]
    return (((blocks != 0) | ~kept) & ((blocks != _FULL) | kept)).all()
