"""Sources: one class per framework. A source describes the arrays of its framework, allocates and fills outputs, and
knows the current stream. `source_of(x)` returns the source of an array. No framework is imported here, because a caller
that has an array has imported its framework.
"""
from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import struct
import sys
from ctypes import POINTER, c_char_p, c_int, c_ssize_t, c_void_p
from typing import Any, Dict, Optional, Tuple

from .._runtime.library import ArgumentError, Error, UnsupportedTypeError
from .array import CPU, ITEM_SIZE, NAMES, Array, ArraySpec, contiguous_strides, element_strides, no_elements
from .cuda import cupy_stream, device_of
from .dlpack import describe_dlpack


class Source:
    """The functions of a framework that flashc needs."""

    name = "arrays"
    #: Whether `transpose` is supported.
    can_transpose = True

    def describe(self, x: Any, stream: Optional[int] = None) -> Array:
        """Describes `x`. `stream` is the stream on which the elements will be read, for exporters that ask for it
        (DLPack). None means the default stream."""
        raise NotImplementedError

    def empty(self, like: Any, shape: Tuple[int, ...], dtype: str) -> Any:
        """Makes a new array of that shape on the device of `like`. `dtype` is the type of `like`, or "f32"."""
        raise ArgumentError(f"expected `out=`: flashc cannot allocate {self.describe_type(like)}; pass arrays for the "
                            "results that can be written, such as NumPy's, CuPy's or PyTorch's")

    def stack(self, parts: Any) -> Any:
        """Joins arrays of one shape along a new first dimension."""
        raise ArgumentError(f"expected one array of all parts, got a list of {self.describe_type(parts[0])}, which "
                            "flashc cannot join")

    def integers(self, like: Any, values: Any) -> Any:
        """Makes a new array of int32 on the device of `like` from a list."""
        raise ArgumentError(f"expected an array, got a list: flashc cannot make {self.describe_type(like)}")

    def address(self, x: Any) -> int:
        """Returns the address of an array that `empty` made."""
        return self.describe(x).address

    def transpose(self, x: Any) -> Any:
        """Returns a view of `x` with dimensions 1 and 2 exchanged."""
        return x.transpose(0, 2, 1, 3)

    def fill(self, x: Any, value: float) -> None:
        """Writes `value` to every element, on the current stream."""
        try:
            x[...] = value
        except TypeError:
            raise ArgumentError(f"expected keys, or results that can be filled: {self.describe_type(x)} cannot be "
                                "assigned to, and without keys there is no kernel that would write them") from None

    def current_stream(self, device: int, first: Array) -> int:
        """Returns the framework's current stream on a GPU, as a CUstream. `first` describes an array on that GPU."""
        return plain_stream(first.stream)

    @staticmethod
    def describe_type(x: Any) -> str:
        return f"arrays of type {type(x).__module__}.{type(x).__qualname__}"


def plain_stream(stream: Optional[int]) -> int:
    """Converts the stream number of an array interface or of DLPack to a CUstream. There, 1 is the legacy default
    stream."""
    return 0 if stream is None or stream == 1 else stream


# --- Frameworks -------------------------------------------------------------------------------------------------------

_new_tuple = tuple.__new__


class TorchSource(Source):
    """PyTorch, which must be imported already."""
    name = "PyTorch"

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.dtypes = {getattr(torch, long): short for long, short in NAMES.items()
                       if isinstance(getattr(torch, long, None), torch.dtype)}
        self.float32 = torch.float32
        self.empty_like = torch.empty_like
        # Returns the current stream as a number, as Triton reads it. This is much cheaper than making a stream object.
        self.raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)

    def describe(self, x: Any, stream: Optional[int] = None) -> Array:
        dtype = self.dtypes.get(x.dtype)
        if x.is_cuda:
            device = x.get_device()
        elif x.device.type == "cpu":
            device = CPU
        else:
            raise ArgumentError(f"expected a tensor on a CUDA device or the CPU, got one on '{x.device}'")
        if dtype is None:
            raise no_elements(x.dtype)
        try:
            # Calling Array itself would take as long as everything else here.
            return _new_tuple(Array, (x.data_ptr(), x.shape, x.stride(), dtype, device, x, None, False))
        except RuntimeError as error:
            if _is_of_torch_func(self.torch, x):
                raise ArgumentError("expected a tensor with elements, got one that a transform of torch.func follows: "
                                    "only q, k, v, mask and sinks of flashc.attention and of the drop-ins may be "
                                    "such tensors") from None
            raise ArgumentError(f"expected a dense tensor, got layout {x.layout}: {error}") from None

    def empty(self, like: Any, shape: Tuple[int, ...], dtype: str) -> Any:
        if dtype == "f32":
            return like.new_empty(shape, dtype=self.float32)
        if like.shape == shape and like.is_contiguous():
            return self.empty_like(like)  # This is faster than new_empty.
        return like.new_empty(shape)

    def stack(self, parts: Any) -> Any:
        return self.torch.stack(list(parts))

    def integers(self, like: Any, values: Any) -> Any:
        return self.torch.tensor(values, dtype=self.torch.int32, device=like.device)

    def address(self, x: Any) -> int:
        return x.data_ptr()

    def transpose(self, x: Any) -> Any:
        return x.transpose(1, 2)

    def fill(self, x: Any, value: float) -> None:
        x.fill_(value)

    def current_stream(self, device: int, first: Array) -> int:
        if self.raw_stream is not None:
            return self.raw_stream(device)
        return self.torch.cuda.current_stream(device).cuda_stream


def _is_of_torch_func(torch: Any, x: Any) -> bool:
    """Whether a transform of torch.func, such as grad or vmap, follows the tensor."""
    is_wrapped = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", None)
    return is_wrapped is not None and is_wrapped(x)


class NumpySource(Source):
    """NumPy, with ml_dtypes for bfloat16."""
    name = "NumPy"

    def __init__(self, numpy: Any) -> None:
        self.numpy = numpy

    def describe(self, x: Any, stream: Optional[int] = None) -> Array:
        dtype = NAMES.get(x.dtype.name)
        if dtype is None:
            raise no_elements(x.dtype)
        if not x.dtype.isnative:
            raise UnsupportedTypeError(f"expected elements in this machine's byte order, got {x.dtype.str}")
        address, readonly = x.__array_interface__["data"]
        strides = element_strides(x.strides, x.itemsize, "a NumPy array")
        return Array(address, x.shape, strides, dtype, CPU, x, None, readonly)

    def empty(self, like: Any, shape: Tuple[int, ...], dtype: str) -> Any:
        return self.numpy.empty(shape, self.numpy.float32 if dtype == "f32" else like.dtype)

    def stack(self, parts: Any) -> Any:
        return self.numpy.stack(parts)

    def integers(self, like: Any, values: Any) -> Any:
        return self.numpy.array(values, self.numpy.int32)


class ProtocolSource(Source):
    """Frameworks with `__cuda_array_interface__`, `__dlpack__` or `__array_interface__`: CuPy, Numba, JAX, ..."""

    _TYPESTRS = {"f2": "f16", "f4": "f32", "f8": "f64", "b1": "i1", "i1": "i8", "u1": "u8", "i2": "i16", "i4": "i32",
                 "i8": "i64"}

    def describe(self, x: Any, stream: Optional[int] = None) -> Array:
        # The property may exist and yet raise, depending on the array's device (JAX, PyTorch).
        interface = getattr(x, "__cuda_array_interface__", None)
        if interface is not None:
            return self._from_interface(x, interface, is_gpu=True)
        if hasattr(x, "__dlpack__"):
            return describe_dlpack(x, stream)
        interface = getattr(x, "__array_interface__", None)
        if interface is not None:
            return self._from_interface(x, interface, is_gpu=False)
        raise UnsupportedTypeError(f"expected an array (DLPack, an array interface or a buffer), got {type(x)!r}")

    def _from_interface(self, x: Any, interface: Dict[str, Any], is_gpu: bool) -> Array:
        what = "__cuda_array_interface__" if is_gpu else "__array_interface__"
        typestr = interface["typestr"]
        dtype = self._TYPESTRS.get(typestr[1:])
        if typestr[1:] == "V2" and "bfloat16" in str(getattr(x, "dtype", "")):
            dtype = "bf16"
        if dtype is None:
            raise no_elements(f"typestr '{typestr}' in {what}")
        if typestr[0] == (">" if sys.byteorder == "little" else "<"):
            raise UnsupportedTypeError(f"expected elements in this machine's byte order, got '{typestr}'")
        if interface.get("mask") is not None:
            raise ArgumentError(f"expected no array of valid elements ('mask') in {what}")
        if interface.get("data") is None:
            raise ArgumentError(f"expected an address ('data') in {what}")
        address, readonly = interface["data"]
        address = int(address or 0)
        shape = tuple(map(int, interface["shape"]))
        strides = interface.get("strides")
        strides = contiguous_strides(shape) if strides is None else element_strides(strides, ITEM_SIZE[dtype], what)
        stream = interface.get("stream") if is_gpu else None
        if stream == 0:
            raise ArgumentError(f"expected a stream other than 0, which says nothing, in {what}")
        if is_gpu and stream is None and "stream" not in interface:
            # The interface has no stream before version 3.
            stream = cupy_stream(x)
        device = device_of(x, address) if is_gpu else CPU
        return Array(address, shape, strides, dtype, device, x, stream, bool(readonly))

    def empty(self, like: Any, shape: Tuple[int, ...], dtype: str) -> Any:
        package = type(like).__module__.split(".")[0]
        if package in ("jax", "jaxlib"):
            raise ArgumentError("expected `out=`: JAX's arrays cannot be written; pass an array of another framework "
                                "for the result, such as CuPy's, and give that to JAX through DLPack")
        if package == "numba":
            from numba import cuda
            return cuda.device_array(shape, "float32" if dtype == "f32" else like.dtype)
        namespace = self._namespace(like)
        if not hasattr(namespace, "empty"):
            return super().empty(like, shape, dtype)
        device = getattr(like, "device", None) if hasattr(like, "__array_namespace__") and package != "cupy" else None
        with self._on_device_of(like):
            return namespace.empty(shape, dtype=namespace.float32 if dtype == "f32" else like.dtype,
                                   **({} if device is None else {"device": device}))

    @staticmethod
    def _namespace(x: Any) -> Any:
        """Returns the module with the functions of an array's framework."""
        return x.__array_namespace__() if hasattr(x, "__array_namespace__") else \
            sys.modules.get(type(x).__module__.split(".")[0])

    @staticmethod
    def _on_device_of(x: Any) -> Any:
        """Returns a context in which CuPy makes arrays on the device of `x`. CuPy makes arrays on the current
        device."""
        return x.device if type(x).__module__.split(".")[0] == "cupy" else contextlib.nullcontext()

    def stack(self, parts: Any) -> Any:
        namespace = self._namespace(parts[0])
        return namespace.stack(parts) if hasattr(namespace, "stack") else super().stack(parts)

    def integers(self, like: Any, values: Any) -> Any:
        namespace = self._namespace(like)
        if not hasattr(namespace, "asarray") or not hasattr(namespace, "int32"):
            return super().integers(like, values)
        with self._on_device_of(like):
            return namespace.asarray(values, dtype=namespace.int32)

    def transpose(self, x: Any) -> Any:
        if hasattr(x, "transpose"):
            return x.transpose(0, 2, 1, 3)
        return sys.modules[type(x).__module__.split(".")[0]].permute_dims(x, (0, 2, 1, 3))


# --- Buffers ----------------------------------------------------------------------------------------------------------

class _PyBuffer(ctypes.Structure):
    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t), ("itemsize", c_ssize_t), ("readonly", c_int),
                ("ndim", c_int), ("format", c_char_p), ("shape", POINTER(c_ssize_t)), ("strides", POINTER(c_ssize_t)),
                ("suboffsets", POINTER(c_ssize_t)), ("internal", c_void_p)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, POINTER(_PyBuffer), c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [POINTER(_PyBuffer)]
_release_buffer.restype = None
_PYBUF_STRIDED_RO = 0x18


def _buffer_address(view: memoryview) -> int:
    buffer = _PyBuffer()
    _get_buffer(view, ctypes.byref(buffer), _PYBUF_STRIDED_RO)
    try:
        return buffer.buf or 0
    finally:
        _release_buffer(ctypes.byref(buffer))


class BufferSource(Source):
    """Objects with Python's buffer protocol, such as memoryviews and ctypes arrays. Results are memoryviews."""
    name = "buffers"
    can_transpose = False

    def describe(self, x: Any, stream: Optional[int] = None) -> Array:
        try:
            view = memoryview(x)
        except TypeError:
            raise UnsupportedTypeError(f"expected an array (DLPack, an array interface or a buffer), got {type(x)!r}") \
                from None
        form = view.format.lstrip("@=" + ("<" if sys.byteorder == "little" else ">"))
        dtype = {"e": "f16", "f": "f32", "d": "f64", "?": "i1", "b": "i8", "B": "u8"}.get(form)
        if dtype is None and len(form) == 1 and form in "ilqn":
            dtype = {4: "i32", 8: "i64"}.get(view.itemsize)
        if dtype is None:
            raise UnsupportedTypeError(f"expected a buffer of format 'f' or 'e' (masks: '?' or integers too), got "
                                       f"'{view.format}'")
        if view.suboffsets:
            raise ArgumentError("expected a buffer without indirections (suboffsets)")
        strides = view.strides if view.strides is not None else ()
        return Array(_buffer_address(view), view.shape, element_strides(strides, view.itemsize, "a buffer"), dtype, CPU,
                     view, None, view.readonly)

    def empty(self, like: Any, shape: Tuple[int, ...], dtype: str) -> Any:
        form = memoryview(like).format if dtype != "f32" else "f"
        try:
            return memoryview(bytearray(math.prod(shape) * ITEM_SIZE[dtype])).cast(form.lstrip("@=<>"), shape)
        except (ValueError, TypeError) as error:
            raise ArgumentError(f"expected `out=`: Python cannot make a buffer of format '{form}' and shape {shape} "
                                f"({error})") from None

    def fill(self, x: Any, value: float) -> None:
        view = memoryview(x)
        if not view.c_contiguous:
            raise ArgumentError("expected a contiguous buffer for the result of no keys")
        elements = struct.pack(view.format, value) * (view.nbytes // view.itemsize)
        ctypes.memmove(_buffer_address(view), elements, view.nbytes)


# --- All sources ------------------------------------------------------------------------------------------------------

class SpecSource(Source):
    """ArraySpec, whose arrays have no elements."""
    name = "ArraySpec"

    def describe(self, x: Any, stream: Optional[int] = None) -> Array:
        return Array(0, x.shape, x.strides, x.dtype, CPU, x)


#: The sources that were used, by types of arrays. Callers on the way of every call look here before `source_of`.
known_sources: Dict[type, Source] = {ArraySpec: SpecSource(), memoryview: BufferSource()}


def source_of(x: Any) -> Source:
    """Returns the source of an array.

    Raises:
        flashc.UnsupportedTypeError: `x` is no array.
    """
    source = known_sources.get(type(x))
    if source is None:
        source = known_sources[type(x)] = _find_source(x)
    return source


def described_array(name: str, x: Any, stream: Optional[int] = None) -> Array:
    """Describes an array. If that fails, the error begins with the array's name."""
    try:
        return (known_sources.get(type(x)) or source_of(x)).describe(x, stream)
    except Error as problem:
        raise named(name, problem) from None


def named(name: str, problem: Error) -> Error:
    """Returns an error about an array with the name of the array in front."""
    return type(problem)(f"{name}: {problem}")


def _find_source(x: Any) -> Source:
    if isinstance(x, type):
        raise UnsupportedTypeError(f"expected an array, got the class {x.__module__}.{x.__qualname__}")
    torch = sys.modules.get("torch")
    # While another thread imports torch, the module has no Tensor.
    if torch is not None and isinstance(x, getattr(torch, "Tensor", ())):
        return _singleton(TorchSource, torch)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, getattr(numpy, "ndarray", ())):
        return _singleton(NumpySource, numpy)
    if any(hasattr(type(x), name) or hasattr(x, name)
           for name in ("__cuda_array_interface__", "__dlpack__", "__array_interface__")):
        return _singleton(ProtocolSource)
    try:
        memoryview(x)
    except TypeError:
        raise UnsupportedTypeError(f"expected an array (PyTorch, DLPack, an array interface or a buffer), got "
                                   f"{type(x).__module__}.{type(x).__qualname__}") from None
    return known_sources[memoryview]


@functools.lru_cache(maxsize=None)
def _singleton(kind: Any, *arguments: Any) -> Source:
    return kind(*arguments)
