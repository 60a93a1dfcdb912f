"""What an array is to flashc: where its elements are, and how the framework that made it allocates more.

`source_of(x)` finds the framework of `x`; a source describes arrays, allocates outputs, fills them, and knows the
framework's current stream. Nothing here imports a framework: one that the caller did not import has made no array.
"""
from __future__ import annotations

import ctypes
import math
import struct
import sys
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_uint8, c_uint16, c_uint32, \
    c_uint64, c_void_p
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

from ._library import ArgumentError, GPUError, UnsupportedTypeError

__all__ = ["ArraySpec", "Array", "Source", "source_of", "dtype_name", "CPU"]

#: The device of arrays in the memory of the host; others are numbers of GPUs.
CPU = -1

#: Bytes of an element. u8 is an i8 whose values are not negative.
ITEM_SIZE = {"bf16": 2, "f16": 2, "f32": 4, "f64": 8, "i1": 1, "i8": 1, "u8": 1, "i16": 2, "i32": 4, "i64": 8}

_NAMES = {"bfloat16": "bf16", "float16": "f16", "half": "f16", "float32": "f32", "float": "f32", "float64": "f64",
          "double": "f64", "bool": "i1", "bool_": "i1", "int8": "i8", "uint8": "u8", "int16": "i16", "int32": "i32",
          "int64": "i64"}


class Array(NamedTuple):
    """An array's elements. Extents and strides are in elements, outermost first."""
    address: int
    shape: Sequence[int]
    strides: Sequence[int]
    dtype: str
    device: int
    #: What must live until the launch: the array, or the capsule through which it came.
    owner: Any
    #: The stream on which the elements are written, where the exporter says so; None: no need to wait.
    stream: Optional[int] = None
    readonly: bool = False


_new_tuple = tuple.__new__


class ArraySpec:
    """The shape and the element type of an array that need not exist, for `flashc.compile`.

    Args:
        shape: extents, outermost first.
        dtype: "bf16", "f16", "f32" or a framework's name or object for them ("bfloat16", `torch.bfloat16`, ...).
        strides: in elements; None: contiguous.
    """
    __slots__ = ("shape", "dtype", "strides")

    def __init__(self, shape: Sequence[int], dtype: Any, strides: Optional[Sequence[int]] = None) -> None:
        self.shape = tuple(int(extent) for extent in shape)
        if any(extent < 0 for extent in self.shape):
            raise ArgumentError(f"expected extents that are not negative, got {self.shape}")
        self.dtype = dtype_name(dtype)
        self.strides = contiguous_strides(self.shape) if strides is None else tuple(int(stride) for stride in strides)
        if len(self.strides) != len(self.shape):
            raise ArgumentError(f"expected {len(self.shape)} strides, one per extent, got {len(self.strides)}")

    def __repr__(self) -> str:
        return f"ArraySpec({self.shape}, {self.dtype!r})"


def dtype_name(dtype: Any) -> str:
    """flashc's name ("bf16", "f16", "f32", ...) of an element type in anybody's words."""
    text = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", None) \
        or str(dtype)
    text = text.rsplit(".", 1)[-1]
    if text in ITEM_SIZE:
        return text
    try:
        return _NAMES[text]
    except KeyError:
        raise UnsupportedTypeError(f"expected an element type such as 'bf16', 'f16' or 'f32', got {dtype!r}") from None


def contiguous_strides(shape: Sequence[int]) -> Tuple[int, ...]:
    """The strides, in elements, of a row-major array without gaps."""
    strides, stride = [], 1
    for extent in reversed(shape):
        strides.append(stride)
        stride *= max(extent, 1)
    return tuple(reversed(strides))


def _elements(strides: Sequence[int], item: int, what: str) -> Tuple[int, ...]:
    if any(stride % item for stride in strides):
        raise ArgumentError(f"expected strides of whole elements of {item} bytes, got {tuple(strides)} bytes in {what}")
    return tuple(stride // item for stride in strides)


# --- Sources ----------------------------------------------------------------------------------------------------------

class Source:
    """A framework: how its arrays are described, allocated and filled."""

    name = "arrays"
    #: Whether `transpose` works.
    can_transpose = True

    def describe(self, x: Any, stream: Optional[int] = None) -> Array:
        """The elements of `x`. `stream`: where they will be read, for exporters that ask (DLPack); None: the
        default stream."""
        raise NotImplementedError

    def empty(self, like: Any, shape: Tuple[int, ...], dtype: str) -> Any:
        """A new array of that shape on the device of `like`. `dtype` is that of `like`, or "f32"."""
        raise ArgumentError(f"expected `out=`: flashc cannot allocate {self.describe_type(like)}; pass arrays for the "
                            "results that can be written, such as NumPy's, CuPy's or PyTorch's")

    def address(self, x: Any) -> int:
        """Where the first element of an array that `empty` made is."""
        return self.describe(x).address

    def transpose(self, x: Any) -> Any:
        """`x` with its dimensions 1 and 2 exchanged, without a copy."""
        return x.transpose(0, 2, 1, 3)

    def fill(self, x: Any, value: float) -> None:
        """Writes `value` to every element, on the current stream."""
        try:
            x[...] = value
        except TypeError:
            raise ArgumentError(f"expected keys, or results that can be filled: {self.describe_type(x)} cannot be "
                                "assigned to, and without keys there is no kernel that would write them") from None

    def current_stream(self, device: int, first: Array) -> int:
        """The framework's current stream on that GPU, as a CUstream; `first` is the description of one array."""
        return _plain_stream(first.stream)

    @staticmethod
    def describe_type(x: Any) -> str:
        return f"arrays of type {type(x).__module__}.{type(x).__qualname__}"


def _plain_stream(stream: Optional[int]) -> int:
    """A stream as the driver takes it, from the number of an array interface or DLPack: 1 is the legacy default."""
    return 0 if stream is None or stream == 1 else stream


class TorchSource(Source):
    """PyTorch, which must be imported already."""
    name = "PyTorch"

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.dtypes = {getattr(torch, long): short for long, short in _NAMES.items()
                       if isinstance(getattr(torch, long, None), torch.dtype)}
        self.float32 = torch.float32
        self.empty_like = torch.empty_like
        # Triton's way to the current stream as a number, without an object; far cheaper.
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
            raise UnsupportedTypeError(f"expected elements of bf16, f16 or f32 (masks: bool or integers too), got "
                                       f"{x.dtype}")
        try:
            # An Array without the detour through its constructor, which takes as long as the rest.
            return _new_tuple(Array, (x.data_ptr(), x.shape, x.stride(), dtype, device, x, None, False))
        except RuntimeError as error:
            raise ArgumentError(f"expected a dense tensor, got layout {x.layout}: {error}") from None

    def empty(self, like: Any, shape: Tuple[int, ...], dtype: str) -> Any:
        if dtype == "f32":
            return like.new_empty(shape, dtype=self.float32)
        if like.shape == shape and like.is_contiguous():
            return self.empty_like(like)  # The fastest way to one.
        return like.new_empty(shape)

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


class NumpySource(Source):
    """NumPy, with ml_dtypes for bfloat16."""
    name = "NumPy"

    def __init__(self, numpy: Any) -> None:
        self.numpy = numpy

    def describe(self, x: Any, stream: Optional[int] = None) -> Array:
        dtype = _NAMES.get(x.dtype.name)
        if dtype is None:
            raise UnsupportedTypeError(f"expected elements of bf16, f16 or f32 (masks: bool or integers too), got "
                                       f"{x.dtype}")
        if not x.dtype.isnative:
            raise UnsupportedTypeError(f"expected elements in this machine's byte order, got {x.dtype.str}")
        address, readonly = x.__array_interface__["data"]
        return Array(address, x.shape, _elements(x.strides, x.itemsize, "a NumPy array"), dtype, CPU, x, None, readonly)

    def empty(self, like: Any, shape: Tuple[int, ...], dtype: str) -> Any:
        return self.numpy.empty(shape, self.numpy.float32 if dtype == "f32" else like.dtype)


class ProtocolSource(Source):
    """Whoever speaks `__cuda_array_interface__`, `__dlpack__` or `__array_interface__`: CuPy, Numba, JAX, ..."""

    _TYPESTRS = {"f2": "f16", "f4": "f32", "f8": "f64", "b1": "i1", "i1": "i8", "u1": "u8", "i2": "i16", "i4": "i32",
                 "i8": "i64"}

    def describe(self, x: Any, stream: Optional[int] = None) -> Array:
        # A property may be there and raise: it depends on the device of the array (JAX, PyTorch).
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
            raise UnsupportedTypeError(f"expected elements of bf16, f16 or f32 (masks: bool or integers too), got "
                                       f"typestr '{typestr}' in {what}")
        if typestr[0] == (">" if sys.byteorder == "little" else "<"):
            raise UnsupportedTypeError(f"expected elements in this machine's byte order, got '{typestr}'")
        if interface.get("mask") is not None:
            raise ArgumentError(f"expected no array of valid elements ('mask') in {what}")
        if interface.get("data") is None:
            raise ArgumentError(f"expected an address ('data') in {what}")
        address, readonly = interface["data"]
        address = int(address or 0)
        shape = tuple(int(extent) for extent in interface["shape"])
        strides = interface.get("strides")
        strides = contiguous_strides(shape) if strides is None else _elements(strides, ITEM_SIZE[dtype], what)
        stream = interface.get("stream") if is_gpu else None
        if stream == 0:
            raise ArgumentError(f"expected a stream other than 0, which says nothing, in {what}")
        if is_gpu and stream is None and "stream" not in interface:
            # Before version 3 the interface says nothing of streams.
            stream = _cupy_stream(x)
        device = _device_of(x, address) if is_gpu else CPU
        return Array(address, shape, strides, dtype, device, x, stream, bool(readonly))

    def empty(self, like: Any, shape: Tuple[int, ...], dtype: str) -> Any:
        package = type(like).__module__.split(".")[0]
        if package in ("jax", "jaxlib"):
            raise ArgumentError("expected `out=`: JAX's arrays cannot be written; pass an array of another framework "
                                "for the result, such as CuPy's, and give that to JAX through DLPack")
        if package == "numba":
            from numba import cuda
            return cuda.device_array(shape, "float32" if dtype == "f32" else like.dtype)
        if hasattr(like, "__array_namespace__"):
            namespace = like.__array_namespace__()
            device = getattr(like, "device", None)
        else:
            namespace, device = sys.modules.get(package), None
        if not hasattr(namespace, "empty"):
            return super().empty(like, shape, dtype)
        element = namespace.float32 if dtype == "f32" else like.dtype
        if package == "cupy":
            with like.device:
                return namespace.empty(shape, dtype=element)
        return namespace.empty(shape, dtype=element, **({} if device is None else {"device": device}))

    def transpose(self, x: Any) -> Any:
        if hasattr(x, "transpose"):
            return x.transpose(0, 2, 1, 3)
        return sys.modules[type(x).__module__.split(".")[0]].permute_dims(x, (0, 2, 1, 3))


class BufferSource(Source):
    """Plain buffers: memoryview, ctypes arrays, whatever has Python's buffer protocol. Results are memoryviews."""
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
        return Array(_buffer_address(view), view.shape, _elements(strides, view.itemsize, "a buffer"), dtype, CPU,
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


class SpecSource(Source):
    """ArraySpec, which has no elements."""
    name = "ArraySpec"

    def describe(self, x: Any, stream: Optional[int] = None) -> Array:
        return Array(0, x.shape, x.strides, x.dtype, CPU, x)


_sources: Dict[type, Source] = {ArraySpec: SpecSource(), memoryview: BufferSource()}


def source_of(x: Any) -> Source:
    """The framework that made `x`.

    Raises:
        flashc.UnsupportedTypeError: `x` is no array.
    """
    source = _sources.get(type(x))
    if source is None:
        source = _sources[type(x)] = _find_source(x)
    return source


def _find_source(x: Any) -> Source:
    torch = sys.modules.get("torch")
    # `import torch` under way in another thread has a module without Tensor.
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
    return _sources[memoryview]


_singletons: Dict[type, Source] = {}


def _singleton(kind: Any, *arguments: Any) -> Source:
    if kind not in _singletons:
        _singletons[kind] = kind(*arguments)
    return _singletons[kind]


# --- GPUs -------------------------------------------------------------------------------------------------------------

_driver: Any = None


def _cuda() -> Any:
    """The CUDA driver: asked which GPU an address is on, and to wait for a stream."""
    global _driver
    if _driver is None:
        try:
            _driver = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise GPUError(f"cannot load the CUDA driver, which an array on a GPU needs: {error}") from None
    return _driver


def _device_of(x: Any, address: int) -> int:
    """The number of the GPU of an array with a CUDA array interface, which does not say."""
    if hasattr(x, "__dlpack_device__"):
        return int(x.__dlpack_device__()[1])
    number = getattr(getattr(x, "device", None), "id", None)
    if isinstance(number, int):
        return number
    if address == 0:
        return 0
    ordinal = c_int(0)
    attribute = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    status = _cuda().cuPointerGetAttribute(ctypes.byref(ordinal), c_int(attribute), c_uint64(address))
    if status != 0:
        raise GPUError(f"the CUDA driver knows no GPU for the address {address:#x} of an array (error {status})")
    return ordinal.value


def _cupy_stream(x: Any) -> Optional[int]:
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(x, cupy.ndarray):
        return cupy.cuda.get_current_stream().ptr or None
    return None


def synchronize(stream: int) -> None:
    """Waits until the work on a stream has ended."""
    status = _cuda().cuStreamSynchronize(c_void_p(stream))
    if status != 0:
        raise GPUError(f"cannot wait for the stream {stream:#x} on which an array is written (CUDA error {status})")


def _within(device: int, call: Any) -> int:
    """Runs `call` with the GPU's primary context as the current one."""
    driver, handle, context = _cuda(), c_int(0), c_void_p()
    status = driver.cuDeviceGet(ctypes.byref(handle), c_int(device)) or \
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)
    if status != 0:
        return status
    try:
        status = driver.cuCtxPushCurrent_v2(context)
        if status != 0:
            return status
        try:
            return call(driver)
        finally:
            driver.cuCtxPopCurrent_v2(ctypes.byref(c_void_p()))
    finally:
        driver.cuDevicePrimaryCtxRelease_v2(handle)


def copy_to_host(array: Array) -> Any:
    """A copy, on the host, of the memory of a GPU from an array's first element to its last one."""
    span = 1 + sum((extent - 1) * stride for extent, stride in zip(array.shape, array.strides))
    memory = ctypes.create_string_buffer(span * ITEM_SIZE[array.dtype])
    # What writes the array may be on any stream.
    status = _within(array.device, lambda driver: driver.cuCtxSynchronize() or driver.cuMemcpyDtoH_v2(
        memory, c_uint64(array.address), c_size_t(len(memory))))
    if status != 0:
        raise GPUError(f"cannot copy an array from GPU {array.device} (CUDA error {status})")
    return memory


class Scratch:
    """Memory of a GPU for one launch, from the driver. It is freed in the order of the stream: after the launch."""
    __slots__ = ("address", "_stream", "_device")

    def __init__(self, device: int, size: int, stream: int) -> None:
        self.address, self._stream, self._device = 0, stream, device
        address = c_uint64(0)
        status = _within(device, lambda driver: driver.cuMemAllocAsync(ctypes.byref(address), c_size_t(size),
                                                                       c_void_p(stream)))
        if status != 0:
            raise GPUError(f"cannot allocate {size} bytes on GPU {device} (CUDA error {status})")
        self.address = address.value

    def __del__(self) -> None:
        if self.address and not sys.is_finalizing():
            _within(self._device, lambda driver: driver.cuMemFreeAsync(c_uint64(self.address),
                                                                       c_void_p(self._stream)))


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


# --- DLPack -----------------------------------------------------------------------------------------------------------

class _DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class _DLManagedTensor(ctypes.Structure):
    _fields_ = [("dl_tensor", _DLTensor), ("manager_ctx", c_void_p), ("deleter", c_void_p)]


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("manager_ctx", c_void_p), ("deleter", c_void_p),
                ("flags", c_uint64), ("dl_tensor", _DLTensor)]


_DL_CPU, _DL_CUDA, _DL_CUDA_HOST, _DL_CUDA_MANAGED = 1, 2, 3, 13
_DL_READ_ONLY = 1
_DL_DTYPES = {(0, 8): "i8", (0, 16): "i16", (0, 32): "i32", (0, 64): "i64", (1, 8): "u8", (2, 16): "f16",
              (2, 32): "f32", (2, 64): "f64", (4, 16): "bf16", (6, 8): "i1"}

_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.argtypes = [ctypes.py_object, c_char_p]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = [ctypes.py_object, c_char_p]
_capsule_pointer.restype = c_void_p


def describe_dlpack(x: Any, stream: Optional[int] = None) -> Array:
    """The elements of an array that exports DLPack, of version 1 or before versions.

    The capsule is read and never renamed, so it still owns the tensor: when the description goes, the capsule's own
    destructor calls the deleter, once, as the standard asks of a capsule that nobody consumed.
    """
    kind, _ = x.__dlpack_device__()
    kind = int(kind)
    arguments: Dict[str, Any] = {}
    if kind in (_DL_CUDA, _DL_CUDA_MANAGED):
        # The exporter makes that stream wait for the elements. 1 is the legacy default stream; 0 is not allowed.
        stream = stream or 1
        arguments["stream"] = stream
    elif kind not in (_DL_CPU, _DL_CUDA_HOST):
        raise ArgumentError(f"expected an array on the CPU or a CUDA GPU, got DLPack device type {kind}")
    try:
        capsule = x.__dlpack__(max_version=(1, 0), **arguments)
    except TypeError:
        # From before DLPack had versions.
        capsule = x.__dlpack__(**arguments)
    readonly = False
    if _capsule_is(capsule, b"dltensor_versioned"):
        managed = ctypes.cast(_capsule_pointer(capsule, b"dltensor_versioned"),
                              POINTER(_DLManagedTensorVersioned)).contents
        if managed.major != 1:
            raise ArgumentError(f"expected DLPack of version 1, got version {managed.major}.{managed.minor}")
        readonly = bool(managed.flags & _DL_READ_ONLY)
    elif _capsule_is(capsule, b"dltensor"):
        managed = ctypes.cast(_capsule_pointer(capsule, b"dltensor"), POINTER(_DLManagedTensor)).contents
    else:
        raise ArgumentError("expected __dlpack__ to return a new capsule 'dltensor' or 'dltensor_versioned'")
    tensor = managed.dl_tensor
    dtype = _DL_DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        raise UnsupportedTypeError("expected elements of bf16, f16 or f32 (masks: bool or integers too), got DLPack "
                                   f"code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes")
    shape = tuple(tensor.shape[dim] for dim in range(tensor.ndim))
    strides = tuple(tensor.strides[dim] for dim in range(tensor.ndim)) if tensor.strides else contiguous_strides(shape)
    is_gpu = tensor.device_type in (_DL_CUDA, _DL_CUDA_MANAGED)
    return Array((tensor.data or 0) + tensor.byte_offset, shape, strides, dtype, tensor.device_id if is_gpu else CPU,
                 (capsule, x), stream if is_gpu else None, readonly)
