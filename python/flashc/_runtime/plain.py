"""Calls of kernels without scores: what they are compiled for, and their launch."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from .._arrays.array import Array
from . import contexts, library, plans
from .launch import _WORDS, _Frame, unit_strides
from .specialization import target_of


class Merge(NamedTuple):
    """FlashcMergeStates."""
    parts_dtype: str
    dtype: str
    value_dim: int
    has_sinks: bool

    def compile(self, target: str) -> contexts.CompiledKernel:
        described = library.MergeStates(library.DTYPES[self.parts_dtype], library.DTYPES[self.dtype], self.value_dim,
                                        self.has_sinks)
        return contexts.context().compile_plain(library.lib.flashcCompileMergeStates, described, target)


class Append(NamedTuple):
    """FlashcAppendKV."""
    dtype: str
    head_dim: int
    value_dim: int
    is_paged: bool
    has_counts: bool
    rotary_dim: int
    rotary_dtype: str
    is_interleaved: bool
    has_leftpad: bool = False
    #: Of caches of 8 bits: "f8e4m3" or "i8", and whether pages and key heads have scales of their own.
    cache_dtype: Optional[str] = None
    scales: Tuple[bool, bool] = (False, False)

    def compile(self, target: str) -> contexts.CompiledKernel:
        described = library.AppendKV(library.DTYPES[self.dtype], self.head_dim, self.value_dim, self.is_paged,
                                     self.has_counts, self.rotary_dim, library.DTYPES[self.rotary_dtype],
                                     self.is_interleaved, self.has_leftpad, library.CACHE_TYPES[self.cache_dtype],
                                     *self.scales)
        return contexts.context().compile_plain(library.lib.flashcCompileAppendKV, described, target)


Plain = Union[Merge, Append]
# Kernels that are loaded, by what they are compiled for and their device.
_kernels: Dict[Tuple[Plain, int], contexts.LoadedKernel] = {}
contexts.on_configure.append(_kernels.clear)


def launch(plain: Plain, arrays: Sequence[Array], device: int, stream: Any) -> None:
    """`arrays`: those of the kernel, in order, on `device`. Nothing is asked of what they hold."""
    kernel = _kernels.get((plain, device))
    if kernel is None:
        kernel = _kernels.setdefault((plain, device), plain.compile(target_of(device)).load(device))
    frame = _Frame([len(x.shape) for x in arrays])
    numbers: List[int] = []
    for number, x in enumerate(arrays):
        numbers += x.shape
        numbers += unit_strides(x)
        frame.words[number * _WORDS] = x.address
    frame.set_numbers(numbers)
    status = plans.launch(kernel, frame, stream or 0, None)
    if status:
        frame.fail(status)
