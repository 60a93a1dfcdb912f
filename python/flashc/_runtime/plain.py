"""Specializations of the kernels that compute no scores."""
from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

from . import contexts, library


class Merge(NamedTuple):
    """FlashcMergeStates."""
    target: str
    parts_dtype: str
    dtype: str
    value_dim: int
    has_sinks: bool

    def compile(self) -> contexts.CompiledKernel:
        described = library.MergeStates(library.DTYPES[self.parts_dtype], library.DTYPES[self.dtype], self.value_dim,
                                        self.has_sinks)
        return contexts.context().compile_plain(library.lib.flashcCompileMergeStates, described, self.target)


class Append(NamedTuple):
    """FlashcAppendKV."""
    target: str
    dtype: str
    head_dim: int
    value_dim: int
    is_paged: bool = False
    has_counts: bool = False
    rotary_dim: int = 0
    rotary_dtype: str = "f32"
    is_interleaved: bool = False
    has_leftpad: bool = False
    #: `cache_dtype`: the element type of caches of 8 bits, "f8e4m3" or "i8". `scales`: whether each page has a scale of
    #: its own, and whether each key head has.
    cache_dtype: Optional[str] = None
    scales: Tuple[bool, bool] = (False, False)
    has_offsets: bool = False

    def compile(self) -> contexts.CompiledKernel:
        described = library.AppendKV(library.DTYPES[self.dtype], self.head_dim, self.value_dim, self.is_paged,
                                     self.has_counts, self.rotary_dim, library.DTYPES[self.rotary_dtype],
                                     self.is_interleaved, self.has_leftpad, library.CACHE_TYPES[self.cache_dtype],
                                     *self.scales, self.has_offsets)
        return contexts.context().compile_plain(library.lib.flashcCompileAppendKV, described, self.target)
