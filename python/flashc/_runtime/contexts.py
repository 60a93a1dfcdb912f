"""Objects that own handles of the library, and the context of this process, which owns its kernels."""
from __future__ import annotations

import ctypes
import os
import sys
import threading
from ctypes import c_int, c_void_p
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Tuple

from .files import read_regular
from .library import ArgumentError, Attention, CacheLaunch, CompileOptions, ContextOptions, CostStruct, Error, Handle, \
    MaskMapsStruct, OutOfMemoryError, StatisticsStruct, checked, encoded, gpu_name, lib, parse_flag, path_text, \
    take_text
from .public import public

# --- Handles with an owner --------------------------------------------------------------------------------------------


class _Owned:
    """Destroys a handle together with its Python object. A handle is not destroyed while the interpreter ends, since
    CUDA may be gone then."""
    __slots__ = ("handle", "__weakref__")
    destroy = ""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def __del__(self) -> None:
        if sys is not None and not sys.is_finalizing() and getattr(self, "handle", None) is not None:
            getattr(lib, self.destroy)(self.handle)


class LoadedKernel(_Owned):
    """FlashcLoadedKernel. It keeps the FlashcKernel alive."""
    __slots__ = ("_kernel",)
    destroy = "flashcLoadedKernelDestroy"

    def __init__(self, handle: Handle, kernel: "CompiledKernel") -> None:
        super().__init__(handle)
        self._kernel = kernel

    def mask_maps(self) -> MaskMapsStruct:
        return lib.flashcLoadedKernelGetMaskMaps(self.handle)


class CompiledKernel(_Owned):
    """FlashcKernel."""
    __slots__ = ("context",)
    destroy = "flashcKernelDestroy"

    def __init__(self, handle: Handle, context: "Context") -> None:
        super().__init__(handle)
        self.context = context

    def ptx(self) -> str:
        text = lib.flashcKernelGetPTX(self.handle)
        if text is None:
            raise OutOfMemoryError("flashc has not the memory to compile the kernel's entries")
        return text.decode()

    def manifest(self) -> str:
        return lib.flashcKernelGetManifest(self.handle).decode()

    def schedule(self) -> str:
        return lib.flashcKernelGetSchedule(self.handle).decode()

    def decisions(self) -> str:
        return lib.flashcKernelGetDecisions(self.handle).decode()

    def ir(self, level: str) -> str:
        text = c_void_p()
        checked(lib.flashcKernelGetIR, self.handle, encoded("level", level), ctypes.byref(text))
        return take_text(text)

    def cost(self, arguments: Any, count: int) -> CostStruct:
        cost = CostStruct()
        checked(lib.flashcKernelGetCost, self.handle, arguments, count, ctypes.byref(cost))
        return cost

    def load(self, device: int) -> LoadedKernel:
        handle = Handle()
        checked(lib.flashcKernelLoad, self.handle, device, ctypes.byref(handle))
        return LoadedKernel(handle, self)


#: The largest number of tiles of a head that are listed. A list takes eight bytes for each tile.
_MAX_TILES = 1 << 31


class Explanation(_Owned):
    """FlashcExplanation."""
    __slots__ = ()
    destroy = "flashcExplanationDestroy"

    def text(self) -> str:
        return lib.flashcExplanationGetText(self.handle).decode()

    def json(self) -> str:
        return lib.flashcExplanationGetJSON(self.handle).decode()

    def tiles(self, batch: int, head: int, count: int) -> bytes:
        tiles = lib.flashcExplanationGetTiles(self.handle, batch, head) if count <= _MAX_TILES else None
        if not tiles:
            raise OutOfMemoryError(f"there is not the memory to list the {count} tiles of a head")
        return ctypes.string_at(tiles, count)


class Context(_Owned):
    """FlashcContext, with the user's schedule table."""
    __slots__ = ("_table",)
    destroy = "flashcContextDestroy"

    def __init__(self, cache_directory: Optional[str] = None, disk_cache: bool = True, cache_bytes: int = 0,
                 schedule_table: Optional[str] = None) -> None:
        """`schedule_table` is the text of a table that replaces the user's table. None: the user's table."""
        options = ContextOptions(not disk_cache, None if cache_directory is None else os.fsencode(cache_directory),
                                 cache_bytes)
        super().__init__(lib.flashcContextCreate(ctypes.byref(options)))
        self._table = None if schedule_table is None else schedule_table.encode()

    def _options(self, target: str, schedule: Optional[str], function: Optional[str] = None) -> CompileOptions:
        if self._table is None and target != "cpu":
            self._table = read_schedule_table(self.cache_directory())
        chosen = None if schedule is None else encoded("schedule", schedule) or None
        return CompileOptions(encoded("target", target), chosen,
                              function.encode() if function else None, self._table if target != "cpu" else None)

    def cache_directory(self) -> str:
        """Returns the folder for kernels on disk, which need not exist. Returns an empty text if no folder can be
        found."""
        return os.fsdecode(lib.flashcContextGetCacheDirectory(self.handle))

    def statistics(self) -> StatisticsStruct:
        return lib.flashcContextGetStatistics(self.handle)

    def compile_text(self, text: str, target: str, schedule: Optional[str],
                     function: Optional[str] = None) -> CompiledKernel:
        options = self._options(target, schedule, function)
        encoded, handle = text.encode(), Handle()
        checked(lib.flashcCompileText, self.handle, encoded, len(encoded), ctypes.byref(options), ctypes.byref(handle))
        return CompiledKernel(handle, self)

    def compile_attention(self, attention: Attention, target: str, schedule: Optional[str]) -> CompiledKernel:
        options, handle = self._options(target, schedule), Handle()
        checked(lib.flashcCompileAttention, self.handle, ctypes.byref(attention), ctypes.byref(options),
                ctypes.byref(handle))
        return CompiledKernel(handle, self)

    def choose_kernel(self, attention: Attention, launch: CacheLaunch, target: str,
                      schedule: Optional[str]) -> Tuple[int, str]:
        """Returns which kernel reads the cache in a launch, FORWARD_KERNEL or DECODE_KERNEL, and its schedule."""
        options, kind, text = self._options(target, schedule), c_int(), c_void_p()
        checked(lib.flashcAttentionChooseKernel, ctypes.byref(attention), ctypes.byref(launch), ctypes.byref(options),
                ctypes.byref(kind), ctypes.byref(text))
        return kind.value, take_text(text)

    def compile_plain(self, function: Callable[..., int], described: Any, target: str) -> CompiledKernel:
        """Compiles with `function`, which is flashcCompileMergeStates or flashcCompileAppendKV."""
        options, handle = CompileOptions(encoded("target", target), None, None, None), Handle()
        checked(function, self.handle, ctypes.byref(described), ctypes.byref(options), ctypes.byref(handle))
        return CompiledKernel(handle, self)

    def explain(self, attention: Attention, target: str, schedule: Optional[str], arguments: Any,
                count: int) -> Explanation:
        options, handle = self._options(target, schedule), Handle()
        checked(lib.flashcExplainAttention, self.handle, ctypes.byref(attention), ctypes.byref(options), arguments,
                count, ctypes.byref(handle))
        return Explanation(handle)


# --- The user's table of schedules ------------------------------------------------------------------------------------

def device_table_path(cache_directory: str, device: int = 0) -> Optional[str]:
    """Returns the path of a GPU's own table in the cache folder; None if there is no such GPU."""
    name = gpu_name(device)
    return None if name is None else os.path.join(cache_directory, "schedules", name.replace(" ", "-") + ".txt")


def read_schedule_table(cache_directory: str) -> bytes:
    """Returns the text of the user's table, whose rows take precedence over the built-in ones (docs/schedules.md). It
    is the file that $FLASHC_SCHEDULE_TABLE names (none if that is empty), or else the table of the first GPU in the
    cache folder."""
    path = os.environ.get("FLASHC_SCHEDULE_TABLE")
    if path is None:
        # If there is no folder of tables, the CUDA driver is not initialised, because an initialised driver does not
        # survive a fork.
        if not cache_directory or not os.path.isdir(os.path.join(cache_directory, "schedules")):
            return b""
        path = device_table_path(cache_directory)
        if path is None or not os.path.exists(path):
            return b""
    if not path:
        return b""
    try:
        return read_regular(path)
    except OSError as error:
        raise Error(f"cannot read the schedule table {path}: {error.strerror}") from None


# --- The context of this process --------------------------------------------------------------------------------------

_lock = threading.Lock()
_context: Optional[Context] = None
# Contexts that configure() replaced. They are kept, because launches of their kernels may still be running.
_retired: List[Context] = []
# Functions that configure() calls to clear caches of objects that belong to the old context.
on_configure: List[Callable[[], None]] = []


def context() -> Context:
    """Returns the context of this process, which is made at its first use."""
    global _context
    if _context is None:
        with _lock:
            if _context is None:
                _context = Context()
    return _context


@public
def configure(*, cache_directory: Optional[str] = None, disk_cache: bool = True,
              cache_bytes: Optional[int] = None) -> None:
    """Sets where kernels are kept between processes. No kernels are left in memory, and `statistics()` are 0.

    Args:
        cache_directory: the folder, created when it is first needed. None: $XDG_CACHE_HOME/flashc, or ~/.cache/flashc.
        disk_cache: if False, nothing is read from or written to disk.
        cache_bytes: the limit of bytes in the folder. The least recently used files are removed. None: 256 MiB.

    Raises:
        flashc.ArgumentError: `cache_bytes` is not positive.

    Kernel objects from before keep working.
    """
    global _context
    if cache_bytes is not None and (type(cache_bytes) is not int or cache_bytes <= 0):
        raise ArgumentError(f"expected cache_bytes to be a positive number of bytes, got {cache_bytes!r}")
    disk_cache = parse_flag("disk_cache", disk_cache)
    directory = None if cache_directory is None else path_text("cache_directory", cache_directory)
    fresh = Context(directory, disk_cache, cache_bytes or 0)
    with _lock:
        if _context is not None:
            _retired.append(_context)
        _context = fresh
    for forget in on_configure:
        forget()


@dataclass(frozen=True)
class Statistics:
    """Counters of this process since it started, or since `flashc.configure`."""
    #: Programs that went through the compiler.
    compilations: int
    #: Requests for a kernel that was in memory, or that another thread was compiling. Calls of `flashc.attention` that
    #: find their kernel in Python's own table are not counted.
    memory_hits: int
    #: Kernels that came from disk instead of the compiler.
    disk_hits: int
    #: Damaged files of the cache: removed, never executed.
    disk_rejected: int
    #: Files that could not be written.
    disk_write_failures: int
    #: Kernels loaded on a GPU.
    loads: int


@public
def statistics() -> Statistics:
    """Counters of this process's compilations, cache and loads."""
    counters = context().statistics()
    return Statistics(*(getattr(counters, name) for name, _ in StatisticsStruct._fields_))
