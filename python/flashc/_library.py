"""The C API of libflashc.so through ctypes: a mirror of flashc-c/flashc.h, errors as exceptions, handles with an owner.

Everything that other modules need of the library goes through here. Loading takes a few milliseconds and imports
neither NumPy nor PyTorch.
"""
from __future__ import annotations

import ctypes
import os
import sys
import threading
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Sequence, Tuple

__all__ = ["Error", "CompileError", "GPUError", "ArgumentError", "UnsupportedTypeError", "Statistics", "configure",
           "statistics", "devices", "version"]


# --- Errors -----------------------------------------------------------------------------------------------------------

class Error(RuntimeError):
    """Whatever flashc refuses or fails at. The text holds the compiler's diagnostics or the CUDA driver's words."""


class CompileError(Error):
    """The program is wrong, or flashc has no kernel for it. The text is the compiler's diagnostics, one a line."""


class GPUError(Error):
    """There is no CUDA driver, or it is too old, or it failed, or the GPU does not take the kernel."""


class ArgumentError(Error, ValueError):
    """Arguments that do not go together: extents, strides, alignment, devices, values."""


class UnsupportedTypeError(Error, TypeError):
    """An argument of a type, or of an element type, that flashc does not take."""


# --- The structures of flashc.h ---------------------------------------------------------------------------------------

OK, INVALID_ARGUMENT, COMPILE_ERROR, NO_DRIVER, GPU_ERROR, ARGUMENT_MISMATCH = range(6)
_EXCEPTIONS = {INVALID_ARGUMENT: ArgumentError, COMPILE_ERROR: CompileError, NO_DRIVER: GPUError, GPU_ERROR: GPUError,
               ARGUMENT_MISMATCH: ArgumentError}

DTYPES = {"bf16": 0, "f16": 1, "f32": 2, "i1": 3, "i8": 4, "i32": 5, "i64": 6}
MASK_NONE, MASK_CAUSAL, MASK_WINDOW = range(3)
ANY = 0
DEVICE_CPU = -1


class Handle(ctypes.Structure):
    """FlashcContext, FlashcKernel, FlashcLoadedKernel and FlashcExplanation, which look the same."""
    _fields_ = [("ptr", c_void_p)]


class ContextOptions(ctypes.Structure):
    _fields_ = [("disable_disk_cache", c_bool), ("cache_directory", c_char_p), ("cache_bytes", c_uint64)]


class StatisticsStruct(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in ("compilations", "memory_hits", "disk_hits", "disk_rejected",
                                              "disk_write_failures", "loads")]


class CompileOptions(ctypes.Structure):
    _fields_ = [("target", c_char_p), ("schedule", c_char_p), ("function", c_char_p), ("schedule_table", c_char_p)]


class Capture(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int), ("rank", c_size_t), ("extents", POINTER(c_int64))]


class Attention(ctypes.Structure):
    _fields_ = [("dtype", c_int), ("head_dim", c_int64), ("value_dim", c_int64), ("group_size", c_int64),
                ("scale", c_float), ("mask", c_int), ("window_left", c_int64), ("window_right", c_int64),
                ("mask_code", c_char_p), ("score_code", c_char_p), ("captures", POINTER(Capture)),
                ("num_captures", c_size_t), ("batch", c_int64), ("key_heads", c_int64), ("queries", c_int64),
                ("keys", c_int64), ("omit_lse", c_bool)]


class CostStruct(ctypes.Structure):
    _fields_ = [("matmul_flops", c_int64), ("other_flops", c_int64), ("bytes_read", c_int64),
                ("bytes_written", c_int64)]


class Argument(ctypes.Structure):
    _fields_ = [("address", c_uint64), ("rank", c_size_t), ("extents", c_void_p), ("strides", c_void_p),
                ("scalar", c_uint64)]


# --- Finding and loading ----------------------------------------------------------------------------------------------

# A text that the caller frees must stay a pointer: ctypes turns c_char_p into bytes and loses the address.
_Text = c_void_p
_FUNCTIONS = {
    "flashcGetVersion": (c_char_p, []),
    "flashcStringDestroy": (None, [_Text]),
    "flashcContextCreate": (Handle, [POINTER(ContextOptions)]),
    "flashcContextDestroy": (None, [Handle]),
    "flashcContextGetCacheDirectory": (c_char_p, [Handle]),
    "flashcContextGetStatistics": (StatisticsStruct, [Handle]),
    "flashcGetDeviceCount": (c_int, [POINTER(c_int), POINTER(_Text)]),
    "flashcGetDeviceName": (c_int, [c_int, POINTER(_Text), POINTER(_Text)]),
    "flashcCompileText": (c_int, [Handle, c_char_p, c_size_t, POINTER(CompileOptions), POINTER(Handle),
                                  POINTER(_Text)]),
    "flashcAttentionGetText": (c_int, [Handle, POINTER(Attention), POINTER(_Text), POINTER(_Text)]),
    "flashcCompileAttention": (c_int, [Handle, POINTER(Attention), POINTER(CompileOptions), POINTER(Handle),
                                       POINTER(_Text)]),
    "flashcKernelGetPTX": (c_char_p, [Handle]),
    "flashcKernelGetManifest": (c_char_p, [Handle]),
    "flashcKernelGetSchedule": (c_char_p, [Handle]),
    "flashcKernelGetDecisions": (c_char_p, [Handle]),
    "flashcKernelGetIR": (c_int, [Handle, c_char_p, POINTER(_Text), POINTER(_Text)]),
    "flashcKernelGetCost": (c_int, [Handle, POINTER(Argument), c_size_t, POINTER(CostStruct), POINTER(_Text)]),
    "flashcKernelDestroy": (None, [Handle]),
    "flashcExplainText": (c_int, [Handle, c_char_p, c_size_t, POINTER(CompileOptions), POINTER(Argument), c_size_t,
                                  POINTER(Handle), POINTER(_Text)]),
    "flashcExplanationGetText": (c_char_p, [Handle]),
    "flashcExplanationGetJSON": (c_char_p, [Handle]),
    "flashcExplanationGetTiles": (c_void_p, [Handle, c_int64, c_int64]),
    "flashcExplanationGetPNG": (c_int, [Handle, c_int64, c_int64, POINTER(_Text), POINTER(c_size_t), POINTER(_Text)]),
    "flashcExplanationDestroy": (None, [Handle]),
    "flashcKernelLoad": (c_int, [Handle, c_int, POINTER(Handle), POINTER(_Text)]),
    # Called for every launch with ready-made addresses. A structure of one pointer is passed as that pointer is (System
    # V and AArch64), so the handle goes as c_void_p, which ctypes converts fastest.
    "flashcLoadedKernelLaunch": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "flashcLoadedKernelDestroy": (None, [Handle]),
}


def library_path() -> str:
    """The file of the library: $FLASHC_LIBRARY, or the one inside the package."""
    path = os.environ.get("FLASHC_LIBRARY")
    if path:
        return path
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "libflashc.so")


def _load() -> ctypes.CDLL:
    path = library_path()
    try:
        # Local and bound to itself: the process may hold another LLVM (PyTorch with Triton does).
        library = ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL)
    except OSError as error:
        if os.environ.get("FLASHC_LIBRARY"):
            why = "FLASHC_LIBRARY names it"
        else:
            why = ("it comes with the package's wheel; in a source tree, build flashc and set FLASHC_LIBRARY to "
                   "build/lib/libflashc.so")
        raise Error(f"cannot load flashc's library {path} ({why}): {error}") from None
    for name, (result, arguments) in _FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise Error(f"the library {path} has no function {name}: it is of another version than this package") \
                from None
        function.restype = result
        function.argtypes = arguments
    return library


lib = _load()


def version() -> str:
    """The library's version, such as "0.1.0"."""
    return lib.flashcGetVersion().decode()


def take_text(pointer: c_void_p) -> str:
    """The text behind a pointer that the caller owns, which is freed."""
    if not pointer.value:
        return ""
    try:
        return (ctypes.cast(pointer, c_char_p).value or b"").decode("utf-8", "replace")
    finally:
        lib.flashcStringDestroy(pointer)
        pointer.value = None


def fail(status: int, message: c_void_p, doing: str = "") -> None:
    """Raises what a status other than OK stands for; `message` is freed."""
    text = take_text(message).rstrip() or f"flashc failed with status {status}"
    raise _EXCEPTIONS.get(status, Error)(f"{doing}: {text}" if doing else text)


def _checked(function: Callable[..., int], *arguments: Any) -> None:
    message = c_void_p()
    status = function(*arguments, ctypes.byref(message))
    if status != OK:
        fail(status, message)


# --- Handles with an owner --------------------------------------------------------------------------------------------

class _Owned:
    """A handle that is destroyed with its Python object, except while the interpreter ends: CUDA may be gone then."""
    __slots__ = ("handle", "__weakref__")
    destroy = ""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def __del__(self) -> None:
        if sys is not None and not sys.is_finalizing() and getattr(self, "handle", None) is not None:
            getattr(lib, self.destroy)(self.handle)


class LoadedKernel(_Owned):
    """FlashcLoadedKernel. It keeps its kernel, so that it is never unloaded while a launch may still run."""
    __slots__ = ("_kernel",)
    destroy = "flashcLoadedKernelDestroy"

    def __init__(self, handle: Handle, kernel: "CompiledKernel") -> None:
        super().__init__(handle)
        self._kernel = kernel


class CompiledKernel(_Owned):
    """FlashcKernel."""
    __slots__ = ("context",)
    destroy = "flashcKernelDestroy"

    def __init__(self, handle: Handle, context: "Context") -> None:
        super().__init__(handle)
        self.context = context

    def ptx(self) -> str:
        return lib.flashcKernelGetPTX(self.handle).decode()

    def manifest(self) -> str:
        return lib.flashcKernelGetManifest(self.handle).decode()

    def schedule(self) -> str:
        return lib.flashcKernelGetSchedule(self.handle).decode()

    def decisions(self) -> str:
        return lib.flashcKernelGetDecisions(self.handle).decode()

    def ir(self, level: str) -> str:
        text = c_void_p()
        _checked(lib.flashcKernelGetIR, self.handle, level.encode(), ctypes.byref(text))
        return take_text(text)

    def cost(self, arguments: Any, count: int) -> CostStruct:
        cost = CostStruct()
        _checked(lib.flashcKernelGetCost, self.handle, arguments, count, ctypes.byref(cost))
        return cost

    def load(self, device: int) -> LoadedKernel:
        handle = Handle()
        _checked(lib.flashcKernelLoad, self.handle, device, ctypes.byref(handle))
        return LoadedKernel(handle, self)


class Explanation(_Owned):
    """FlashcExplanation."""
    __slots__ = ()
    destroy = "flashcExplanationDestroy"

    def text(self) -> str:
        return lib.flashcExplanationGetText(self.handle).decode()

    def json(self) -> str:
        return lib.flashcExplanationGetJSON(self.handle).decode()

    def tiles(self, batch: int, head: int, count: int) -> bytes:
        return ctypes.string_at(lib.flashcExplanationGetTiles(self.handle, batch, head), count)

    def png(self, batch: int, head: int) -> bytes:
        data, size = c_void_p(), c_size_t()
        _checked(lib.flashcExplanationGetPNG, self.handle, batch, head, ctypes.byref(data), ctypes.byref(size))
        try:
            return ctypes.string_at(data, size.value)
        finally:
            lib.flashcStringDestroy(data)


class Context(_Owned):
    """FlashcContext, with the user's table of schedules."""
    __slots__ = ("_table",)
    destroy = "flashcContextDestroy"

    def __init__(self, cache_directory: Optional[str] = None, disk_cache: bool = True, cache_bytes: int = 0,
                 schedule_table: Optional[str] = None) -> None:
        """`schedule_table`: the text of one, instead of the user's."""
        options = ContextOptions(not disk_cache, None if cache_directory is None else os.fsencode(cache_directory),
                                 cache_bytes)
        super().__init__(lib.flashcContextCreate(ctypes.byref(options)))
        self._table = None if schedule_table is None else schedule_table.encode()

    def _options(self, target: str, schedule: Optional[str], function: Optional[str] = None) -> CompileOptions:
        if self._table is None and target != "cpu":
            self._table = read_schedule_table(os.fsdecode(lib.flashcContextGetCacheDirectory(self.handle)))
        return CompileOptions(target.encode(), schedule.encode() if schedule else None,
                              function.encode() if function else None, self._table if target != "cpu" else None)

    def statistics(self) -> StatisticsStruct:
        return lib.flashcContextGetStatistics(self.handle)

    def compile_text(self, text: str, target: str, schedule: Optional[str],
                     function: Optional[str] = None) -> CompiledKernel:
        options = self._options(target, schedule, function)
        encoded, handle = text.encode(), Handle()
        _checked(lib.flashcCompileText, self.handle, encoded, len(encoded), ctypes.byref(options),
                 ctypes.byref(handle))
        return CompiledKernel(handle, self)

    def compile_attention(self, attention: Attention, target: str, schedule: Optional[str]) -> CompiledKernel:
        options, handle = self._options(target, schedule), Handle()
        _checked(lib.flashcCompileAttention, self.handle, ctypes.byref(attention), ctypes.byref(options),
                 ctypes.byref(handle))
        return CompiledKernel(handle, self)

    def explain(self, attention: Attention, target: str, schedule: Optional[str], arguments: Any,
                count: int) -> Explanation:
        text, options, handle = self.attention_text(attention).encode(), self._options(target, schedule), Handle()
        _checked(lib.flashcExplainText, self.handle, text, len(text), ctypes.byref(options), arguments, count,
                 ctypes.byref(handle))
        return Explanation(handle)

    def attention_text(self, attention: Attention) -> str:
        text = c_void_p()
        _checked(lib.flashcAttentionGetText, self.handle, ctypes.byref(attention), ctypes.byref(text))
        return take_text(text)


def make_attention(*, dtype: str, head_dim: int, value_dim: int, group_size: int, scale: float, mask: int,
                   window: Tuple[int, int], mask_code: Optional[str], score_code: Optional[str],
                   captures: Sequence[Tuple[str, str, Tuple[int, ...]]],
                   extents: Tuple[int, int, int, int], has_lse: bool) -> Attention:
    """A FlashcAttention. `captures`: name, dtype and extents of each; `extents`: B, Hk, Nq, Nk or ANY; `has_lse`:
    whether the log-sum-exp is an output. The structure keeps what it points to alive (ctypes holds on to it)."""
    array = (Capture * max(len(captures), 1))()
    for slot, (name, element, shape) in zip(array, captures):
        slot.name = name.encode()
        slot.dtype = DTYPES[element]
        slot.rank = len(shape)
        slot.extents = (c_int64 * max(len(shape), 1))(*shape)
    return Attention(DTYPES[dtype], head_dim, value_dim, group_size, scale, mask, window[0], window[1],
                     mask_code.encode() if mask_code is not None else None,
                     score_code.encode() if score_code is not None else None, array, len(captures), *extents,
                     not has_lse)


# --- The user's table of schedules ------------------------------------------------------------------------------------

def device_table_path(cache_directory: str, device: int = 0) -> Optional[str]:
    """The file of a GPU's own table in the cache; None where there is no such GPU."""
    name, message = c_void_p(), c_void_p()
    if lib.flashcGetDeviceName(device, ctypes.byref(name), ctypes.byref(message)) != OK:
        take_text(message)
        return None
    return os.path.join(cache_directory, "schedules", take_text(name).replace(" ", "-") + ".txt")


def read_schedule_table(cache_directory: str) -> bytes:
    """The text of the table that goes before the built-in one (docs/schedules.md): of the file that
    $FLASHC_SCHEDULE_TABLE names (empty: none), else of the first GPU's own table in the cache."""
    path = os.environ.get("FLASHC_SCHEDULE_TABLE")
    if path is None:
        # The CUDA driver is not asked before somebody has tuned: it would have to be initialised, which a fork resents.
        if not cache_directory or not os.path.isdir(os.path.join(cache_directory, "schedules")):
            return b""
        path = device_table_path(cache_directory)
        if path is None or not os.path.exists(path):
            return b""
    if not path:
        return b""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise Error(f"cannot read the schedule table {path}: {error.strerror}") from None


# --- The context of this process --------------------------------------------------------------------------------------

_lock = threading.Lock()
_context: Optional[Context] = None
# Contexts that configure() replaced. They own loaded kernels, whose launches may still run, so they stay.
_retired: List[Context] = []
# Called after configure(): caches above the C API drop what belongs to the old context.
on_configure: List[Callable[[], None]] = []


def context() -> Context:
    """The context of this process, made at its first use."""
    global _context
    if _context is None:
        with _lock:
            if _context is None:
                _context = Context()
    return _context


def configure(*, cache_directory: Optional[str] = None, disk_cache: bool = True,
              cache_bytes: Optional[int] = None) -> None:
    """Decides where kernels are kept between processes, and starts with no kernel and with zeros in `statistics()`.

    Args:
        cache_directory: the folder, made when it is first needed. None: $XDG_CACHE_HOME/flashc, or ~/.cache/flashc.
        disk_cache: False: nothing is read from or written to disk.
        cache_bytes: the folder's bound in bytes; what was not used for longest goes first. None: 256 MiB.

    Raises:
        flashc.ArgumentError: `cache_bytes` is not positive.

    Kernel objects from before keep working.
    """
    global _context
    if cache_bytes is not None and (not isinstance(cache_bytes, int) or cache_bytes <= 0):
        raise ArgumentError(f"expected cache_bytes to be a positive number of bytes, got {cache_bytes!r}")
    directory = None if cache_directory is None else os.fspath(cache_directory)
    fresh = Context(directory, disk_cache, cache_bytes or 0)
    with _lock:
        if _context is not None:
            _retired.append(_context)
        _context = fresh
    for forget in on_configure:
        forget()


@dataclass(frozen=True)
class Statistics:
    """What flashc has done in this process since it started, or since `flashc.configure`."""
    #: Programs that went through the compiler.
    compilations: int
    #: Requests for a kernel that was there already, or that another thread was compiling. Calls of
    #: `flashc.attention` that find their kernel in Python's own table do not ask, and are not counted.
    memory_hits: int
    #: Kernels that came from disk instead of the compiler.
    disk_hits: int
    #: Damaged files of the cache: removed, never executed.
    disk_rejected: int
    #: Files that could not be written.
    disk_write_failures: int
    #: Kernels loaded on a GPU.
    loads: int


def statistics() -> Statistics:
    """Counters of this process's compilations, cache and loads."""
    counters = context().statistics()
    return Statistics(*(getattr(counters, name) for name, _ in StatisticsStruct._fields_))


def devices() -> int:
    """The number of GPUs: 0 where there is no CUDA driver, or none that is usable. CPU arrays need none."""
    count, message = c_int(0), c_void_p()
    status = lib.flashcGetDeviceCount(ctypes.byref(count), ctypes.byref(message))
    if status == NO_DRIVER:
        take_text(message)
        return 0
    if status != OK:
        fail(status, message)
    return count.value
