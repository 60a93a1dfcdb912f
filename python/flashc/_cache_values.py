"""Checks the elements of lengths and block tables on the CPU, before a call uses them to read caches."""
from __future__ import annotations

from ._arrays.integers import check_ascending, integers_of
from ._runtime.calls import Case, Inputs
from ._runtime.library import ArgumentError


def check_cache_values(inputs: Inputs, case: Case, has_mask: bool) -> None:
    """Refuses offsets of packed queries that do not ascend from 0 to the number of rows of q at most. If anything is
    launched, refuses lengths that are negative or exceed the caches' rows, and entries of block_table that are no
    pages, if a query sees keys there. If there is a mask, entries are not checked, because it is not known here which
    keys the mask keeps; keys of an entry that is no page are NaN."""
    arrays, extents, page_size = inputs.arrays, case.extents, case.specialization.page_size
    offsets = None
    if "cu_seqlens_q" in arrays:
        offsets = integers_of("cu_seqlens_q", arrays["cu_seqlens_q"])
        check_ascending("cu_seqlens_q", offsets, "total", arrays["q"].shape[0])
    if case.is_empty:
        return
    lengths = integers_of("lengths", arrays["lengths"])
    if min(lengths) < 0 or max(lengths) > extents.keys:
        sequence = [0 <= length <= extents.keys for length in lengths].index(False)
        what = f"the rows of {arrays['block_table'].shape[1]} pages of a block_table" if page_size else "the rows"
        raise ArgumentError(f"expected lengths from 0 to {extents.keys}, {what}, got {lengths[sequence]} for sequence "
                            f"{sequence}")
    if not page_size or has_mask:
        return
    table, pages, (left, _) = arrays["block_table"], arrays["k_cache"].shape[0], case.window
    for sequence, length in enumerate(lengths):
        queries = extents.queries if offsets is None else offsets[sequence + 1] - offsets[sequence]
        if not queries or not length:
            continue
        begin = max(length - queries, 0)
        begin = max(begin - left, 0) if left >= 0 else 0
        slot = begin // page_size
        entries = integers_of("block_table", table, sequence, slot, -(-length // page_size))
        if entries and (min(entries) < 0 or max(entries) >= pages):
            number = [0 <= entry < pages for entry in entries].index(False)
            raise ArgumentError(f"expected pages from 0 to {pages - 1} in block_table, got {entries[number]} in slot "
                                f"{slot + number} of sequence {sequence}, whose queries see keys {begin} to "
                                f"{length - 1}")
