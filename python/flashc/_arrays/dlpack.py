"""Arrays that come through DLPack."""
from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, Dict, Optional

from .._runtime.library import ArgumentError
from .array import CPU, Array, contiguous_strides, no_elements


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
              (2, 32): "f32", (2, 64): "f64", (4, 16): "bf16", (6, 8): "i1",
              (10, 8): "f8e4m3"}

_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.argtypes = [ctypes.py_object, c_char_p]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = [ctypes.py_object, c_char_p]
_capsule_pointer.restype = c_void_p


def describe_dlpack(x: Any, stream: Optional[int] = None) -> Array:
    """Describes an array that exports DLPack, with or without a version.

    The capsule is read but never renamed, so it still owns the tensor. When the description is freed, the destructor of
    the capsule calls the deleter once, as the standard requires for a capsule that was not consumed.
    """
    kind, _ = x.__dlpack_device__()
    kind = int(kind)
    arguments: Dict[str, Any] = {}
    if kind in (_DL_CUDA, _DL_CUDA_MANAGED):
        # The exporter makes this stream wait for the elements. 1 is the legacy default stream; 0 is not allowed.
        stream = stream or 1
        arguments["stream"] = stream
    elif kind not in (_DL_CPU, _DL_CUDA_HOST):
        raise ArgumentError(f"expected an array on the CPU or a CUDA GPU, got DLPack device type {kind}")
    try:
        capsule = x.__dlpack__(max_version=(1, 0), **arguments)
    except TypeError:
        # Exporters from before DLPack had versions do not accept max_version.
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
        raise no_elements(f"DLPack code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes")
    shape = tuple(tensor.shape[dim] for dim in range(tensor.ndim))
    strides = tuple(tensor.strides[dim] for dim in range(tensor.ndim)) if tensor.strides else contiguous_strides(shape)
    is_gpu = tensor.device_type in (_DL_CUDA, _DL_CUDA_MANAGED)
    return Array((tensor.data or 0) + tensor.byte_offset, shape, strides, dtype, tensor.device_id if is_gpu else CPU,
                 (capsule, x), stream if is_gpu else None, readonly)
