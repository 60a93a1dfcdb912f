"""Checks the elements of lengths and block tables on the CPU, before a call uses them to read caches."""
from __future__ import annotations

import ctypes
from typing import List, Tuple

from ._arrays.array import Array
from ._runtime.calls import Inputs
from ._runtime.library import ArgumentError
from ._runtime.specialization import Extents, Specialization
from ._varlen import check_ascending

_INTEGERS = {"i32": ctypes.c_int32, "i64": ctypes.c_int64}


def check_cache_values(inputs: Inputs, extents: Extents, specialization: Specialization, has_mask: bool) -> None:
    """Refuses offsets of packed queries that do not ascend from 0 to the number of rows of q at most. Refuses lengths
    that are negative or exceed the caches' rows. Refuses entries of block_table that are no pages, if a query sees keys
    there. If there is a mask, entries are not checked, because it is not known here which keys the mask keeps; keys of
    an entry that is no page are NaN."""
    lengths = inputs["lengths"]
    page_size, (_, (left, _)) = specialization.page_size, specialization.options.mask()
    queries = _read_queries(inputs, extents)
    for sequence in range(lengths.shape[0]):
        length = _read(lengths, sequence)
        if not 0 <= length <= extents.keys:
            what = f"the rows of {inputs['block_table'].shape[1]} pages of a block_table" if page_size else "the rows"
            raise ArgumentError(f"expected lengths from 0 to {extents.keys}, {what}, got {length} for sequence "
                                f"{sequence}")
        if page_size and not has_mask and queries[sequence]:
            first = max(length - queries[sequence], 0)
            _check_pages(inputs, sequence, page_size, (max(first - left, 0) if left >= 0 else 0, length))


def _read_queries(inputs: Inputs, extents: Extents) -> List[int]:
    """Returns the number of queries of each sequence."""
    sequences = inputs["lengths"].shape[0]
    if "cu_seqlens_q" not in inputs:
        return [extents.queries] * sequences
    offsets = [_read(inputs["cu_seqlens_q"], number) for number in range(sequences + 1)]
    check_ascending("cu_seqlens_q", offsets, "total", inputs["q"].shape[1])
    return [end - begin for begin, end in zip(offsets, offsets[1:])]


def _check_pages(inputs: Inputs, sequence: int, page_size: int, keys: Tuple[int, int]) -> None:
    """Refuses entries of block_table that are no pages, for the keys from keys[0] to keys[1] - 1."""
    pages, table = inputs["k_cache"].shape[0], inputs["block_table"]
    for slot in range(keys[0] // page_size, -(-keys[1] // page_size) if keys[0] < keys[1] else 0):
        page = _read(table, sequence, slot)
        if not 0 <= page < pages:
            raise ArgumentError(f"expected pages from 0 to {pages - 1} in block_table, got {page} in slot {slot} of "
                                f"sequence {sequence}, whose queries see keys {keys[0]} to {keys[1] - 1}")


def _read(array: Array, *indices: int) -> int:
    """Returns an element of an array of integers on the CPU."""
    kind = _INTEGERS[array.dtype]
    place = sum(index * stride for index, stride in zip(indices, array.strides))
    return kind.from_address(array.address + place * ctypes.sizeof(kind)).value
