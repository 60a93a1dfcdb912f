"""The C API of libflashc.so through ctypes. This module mirrors flashc-c/flashc.h, and turns errors into exceptions.

All other modules call the library through this one. Objects that own its handles are in `contexts.py`. Loading the
library takes a few milliseconds, and imports neither NumPy nor PyTorch.
"""
from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_bool, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any, Callable, Optional

# --- Errors -----------------------------------------------------------------------------------------------------------


class Error(RuntimeError):
    """The base class of flashc's errors. The text has the compiler's diagnostics or the CUDA driver's message."""


class CompileError(Error):
    """The program is wrong, or flashc has no kernel for it. The text is the compiler's diagnostics, one per line."""


class GPUError(Error):
    """There is no CUDA driver, or it is too old or failed, or the GPU refuses the kernel. Never raised for the CPU."""


class ArgumentError(Error, ValueError):
    """Arguments that do not go together: extents, strides, alignment, devices, values; on the CPU also elements of
    arrays, such as an index outside of an array that a score reads."""


class OutOfMemoryError(Error, MemoryError):
    """The host does not have the memory that a call needs. Nothing else is lost: the next call may succeed."""


class UnsupportedTypeError(Error, TypeError):
    """An argument of a type, or of an element type, that flashc does not take."""


# --- The structures of flashc.h ---------------------------------------------------------------------------------------

OK, INVALID_ARGUMENT, COMPILE_ERROR, NO_DRIVER, GPU_ERROR, ARGUMENT_MISMATCH, OUT_OF_MEMORY = range(7)
_EXCEPTIONS = {INVALID_ARGUMENT: ArgumentError, COMPILE_ERROR: CompileError, NO_DRIVER: GPUError, GPU_ERROR: GPUError,
               ARGUMENT_MISMATCH: ArgumentError, OUT_OF_MEMORY: OutOfMemoryError}

DTYPES = {"bf16": 0, "f16": 1, "f32": 2, "i1": 3, "i8": 4, "i32": 5, "i64": 6, "f64": 7}
MASK_NONE, MASK_CAUSAL, MASK_WINDOW = range(3)
FORWARD_KERNEL, DECODE_KERNEL = range(2)
ATTENTION, COLUMN_SUMS, GROUP_COLUMN_SUMS, ATTENTION_BACKWARD, CAPTURED_GRADIENT = range(5)
#: FlashcCacheType. None means the dtype of q.
CACHE_TYPES = {None: 0, "f8e4m3": 1, "i8": 2}
ANY = 0


class Handle(ctypes.Structure):
    """A FlashcContext, FlashcKernel, FlashcLoadedKernel or FlashcExplanation. All have the same layout."""
    _fields_ = [("ptr", c_void_p)]


class ContextOptions(ctypes.Structure):
    _fields_ = [("disable_disk_cache", c_bool), ("cache_directory", c_char_p), ("cache_bytes", c_uint64)]


class StatisticsStruct(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in ("compilations", "memory_hits", "disk_hits", "disk_rejected",
                                              "disk_write_failures", "loads")]


class MaskMapsStruct(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in ("maps", "bytes", "hits", "misses")]


class CompileOptions(ctypes.Structure):
    _fields_ = [("target", c_char_p), ("schedule", c_char_p), ("function", c_char_p), ("schedule_table", c_char_p)]


class Capture(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int), ("rank", c_size_t), ("extents", POINTER(c_int64))]


class Attention(ctypes.Structure):
    _fields_ = [("dtype", c_int), ("head_dim", c_int64), ("value_dim", c_int64), ("group_size", c_int64),
                ("scale", c_float), ("mask", c_int), ("window_left", c_int64), ("window_right", c_int64),
                ("mask_code", c_char_p), ("score_code", c_char_p), ("captures", POINTER(Capture)),
                ("num_captures", c_size_t), ("batch", c_int64), ("key_heads", c_int64), ("queries", c_int64),
                ("keys", c_int64), ("omit_lse", c_bool), ("operation", c_int), ("deterministic", c_bool),
                ("sinks", c_bool), ("dropout_p", c_float), ("captured", c_size_t), ("cache", c_bool),
                ("page_size", c_int64), ("cache_type", c_int), ("page_scales", c_bool), ("head_scales", c_bool),
                ("options", c_char_p)]


class CacheLaunch(ctypes.Structure):
    _fields_ = [("multiprocessors", c_int64), ("splits", c_int64), ("batch_invariant", c_bool)]


class MergeStates(ctypes.Structure):
    _fields_ = [("parts_dtype", c_int), ("dtype", c_int), ("value_dim", c_int64), ("sinks", c_bool)]


class AppendKV(ctypes.Structure):
    _fields_ = [("dtype", c_int), ("head_dim", c_int64), ("value_dim", c_int64), ("paged", c_bool), ("counts", c_bool),
                ("rotary_dim", c_int64), ("rotary_dtype", c_int), ("interleaved", c_bool), ("leftpad", c_bool),
                ("cache_type", c_int), ("page_scales", c_bool), ("head_scales", c_bool), ("offsets", c_bool)]


class CostStruct(ctypes.Structure):
    _fields_ = [(name, c_double) for name in ("matmul_flops", "other_flops", "bytes_read", "bytes_written")]


class Argument(ctypes.Structure):
    _fields_ = [("address", c_uint64), ("rank", c_size_t), ("extents", c_void_p), ("strides", c_void_p),
                ("scalar", c_uint64)]


# --- Finding and loading ----------------------------------------------------------------------------------------------

# A text that the caller frees has the type c_void_p, because ctypes turns c_char_p into bytes and loses the address.
_Text = c_void_p


def _fallible(*arguments: Any) -> Any:
    """Returns the types of a function that returns a status, and whose last argument is a message."""
    return c_int, [*arguments, POINTER(_Text)]


_OUT_TEXT, _OPTIONS, _ARGUMENTS = POINTER(_Text), POINTER(CompileOptions), POINTER(Argument)
_FUNCTIONS = {
    "flashcGetVersion": (c_char_p, []),
    "flashcStringDestroy": (None, [_Text]),
    "flashcContextCreate": (Handle, [POINTER(ContextOptions)]),
    "flashcContextDestroy": (None, [Handle]),
    "flashcContextGetCacheDirectory": (c_char_p, [Handle]),
    "flashcContextGetStatistics": (StatisticsStruct, [Handle]),
    "flashcGetDeviceCount": _fallible(POINTER(c_int)),
    "flashcGetDeviceName": _fallible(c_int, _OUT_TEXT),
    "flashcCompileText": _fallible(Handle, c_char_p, c_size_t, _OPTIONS, POINTER(Handle)),
    "flashcAttentionChooseKernel": _fallible(POINTER(Attention), POINTER(CacheLaunch), _OPTIONS, POINTER(c_int),
                                             _OUT_TEXT),
    "flashcCompileAttention": _fallible(Handle, POINTER(Attention), _OPTIONS, POINTER(Handle)),
    "flashcCompileMergeStates": _fallible(Handle, POINTER(MergeStates), _OPTIONS, POINTER(Handle)),
    "flashcCompileAppendKV": _fallible(Handle, POINTER(AppendKV), _OPTIONS, POINTER(Handle)),
    "flashcKernelGetPTX": (c_char_p, [Handle]),
    "flashcKernelGetManifest": (c_char_p, [Handle]),
    "flashcKernelGetSchedule": (c_char_p, [Handle]),
    "flashcKernelGetDecisions": (c_char_p, [Handle]),
    "flashcKernelGetIR": _fallible(Handle, c_char_p, _OUT_TEXT),
    "flashcKernelGetCost": _fallible(Handle, _ARGUMENTS, c_size_t, POINTER(CostStruct)),
    "flashcKernelDestroy": (None, [Handle]),
    "flashcExplainAttention": _fallible(Handle, POINTER(Attention), _OPTIONS, _ARGUMENTS, c_size_t, POINTER(Handle)),
    "flashcExplanationGetText": (c_char_p, [Handle]),
    "flashcExplanationGetJSON": (c_char_p, [Handle]),
    "flashcExplanationGetTiles": (c_void_p, [Handle, c_int64, c_int64]),
    "flashcExplanationDestroy": (None, [Handle]),
    "flashcKernelLoad": _fallible(Handle, c_int, POINTER(Handle)),
    # This function is called for every launch, with ready-made addresses. The handle is a structure of one pointer,
    # which is passed like a pointer (System V and AArch64). So it is a c_void_p here, which ctypes converts fastest.
    "flashcLoadedKernelLaunch": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "flashcLoadedKernelLaunchPlanned": (c_int, [c_void_p, c_void_p, c_size_t, c_uint64, c_void_p, c_void_p]),
    "flashcLoadedKernelForgetPlan": _fallible(Handle, c_uint64),
    "flashcLoadedKernelGetMaskMaps": (MaskMapsStruct, [Handle]),
    "flashcLoadedKernelDestroy": (None, [Handle]),
}


def library_path() -> str:
    """Returns the path of the library: $FLASHC_LIBRARY, or the file inside the package."""
    path = os.environ.get("FLASHC_LIBRARY")
    if path:
        return path
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    # The file name ends with the version of the ABI. libflashc.so is for linkers.
    return os.path.join(folder, next((name for name in names if name.startswith("libflashc.so.")), "libflashc.so"))


def _load() -> ctypes.CDLL:
    path = library_path()
    try:
        # RTLD_LOCAL, since the process may contain another LLVM, as it does with PyTorch and Triton.
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
    """Returns the text of a pointer that the caller owns, and frees it."""
    if not pointer.value:
        return ""
    try:
        return (ctypes.cast(pointer, c_char_p).value or b"").decode("utf-8", "replace")
    finally:
        lib.flashcStringDestroy(pointer)
        pointer.value = None


def fail(status: int, message: c_void_p, doing: str = "") -> None:
    """Raises the error of a status other than OK, and frees `message`."""
    text = take_text(message).rstrip() or f"flashc failed with status {status}"
    raise _EXCEPTIONS.get(status, Error)(f"{doing}: {text}" if doing else text)


def encoded(name: str, text: Any) -> bytes:
    """Returns the argument `name`, which must be text, as bytes for C."""
    if not isinstance(text, str):
        raise UnsupportedTypeError(f"expected {name} to be text, got {text!r}")
    if "\0" in text:
        raise ArgumentError(f"expected {name} without the character NUL, got {text!r}")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ArgumentError(f"expected {name} to be text of Unicode, got {text!r}") from None


def path_text(name: str, path: Any) -> str:
    """Returns the argument `name`, which must be a path, as text."""
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise UnsupportedTypeError(f"expected {name} to be a path, got {path!r}") from None
    if "\0" in text:
        raise ArgumentError(f"expected {name} without the character NUL, got {path!r}")
    return text


def parse_flag(name: str, value: Any) -> bool:
    """Returns the argument `name`, which must be a bool of Python or NumPy, or an integer 0 or 1."""
    kind = type(value)
    if kind is bool or kind.__name__ in ("bool_", "bool") or (kind is int and value in (0, 1)):
        return bool(value)
    raise UnsupportedTypeError(f"expected {name} to be True or False, got {described(value)}")


def described(value: Any) -> str:
    """Returns a value as text for a message: the value itself if it is short, and otherwise its type."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value) if len(repr(value)) <= 80 else f"{type(value).__name__} {repr(value)[:60]}..."
    return f"{type(value)!r}"


def checked(function: Callable[..., int], *arguments: Any) -> None:
    """Calls a function whose last argument is a message. Raises the error of its status."""
    message = c_void_p()
    status = function(*arguments, ctypes.byref(message))
    if status != OK:
        fail(status, message)


def devices() -> int:
    """Returns the number of GPUs, or 0 if there is no usable CUDA driver. Arrays on the CPU need no driver."""
    count, message = c_int(0), c_void_p()
    status = lib.flashcGetDeviceCount(ctypes.byref(count), ctypes.byref(message))
    if status == NO_DRIVER:
        take_text(message)
        return 0
    if status != OK:
        fail(status, message)
    return count.value


def gpu_name(device: int) -> Optional[str]:
    """Returns the CUDA driver's name of a GPU, such as "NVIDIA H200"; None if there is no such GPU."""
    name, message = c_void_p(), c_void_p()
    if lib.flashcGetDeviceName(device, ctypes.byref(name), ctypes.byref(message)) != OK:
        take_text(message)
        return None
    return take_text(name)
