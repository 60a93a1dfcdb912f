"""Calls of the CUDA driver: the GPU of an address, attributes of a GPU, waiting, copies to the host, scratch memory."""
from __future__ import annotations

import ctypes
import functools
import sys
from ctypes import c_int, c_size_t, c_uint64, c_void_p
from typing import Any, Optional, Tuple

from .._runtime.library import GPUError
from .array import ITEM_SIZE, Array

_driver: Any = None


def get_driver() -> Any:
    """Returns the CUDA driver, which the first call loads."""
    global _driver
    if _driver is None:
        try:
            _driver = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise GPUError(f"cannot load the CUDA driver, which an array on a GPU needs: {error}") from None
    return _driver


def device_of(x: Any, address: int) -> int:
    """Returns the number of the GPU of an array. A CUDA array interface does not contain it."""
    if hasattr(x, "__dlpack_device__"):
        return int(x.__dlpack_device__()[1])
    number = getattr(getattr(x, "device", None), "id", None)
    if isinstance(number, int):
        return number
    if address == 0:
        return 0
    ordinal = c_int(0)
    attribute = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    status = get_driver().cuPointerGetAttribute(ctypes.byref(ordinal), c_int(attribute), c_uint64(address))
    if status != 0:
        raise GPUError(f"the CUDA driver knows no GPU for the address {address:#x} of an array (error {status})")
    return ordinal.value


@functools.lru_cache(maxsize=None)
def _attribute_of(device: int, attribute: int) -> int:
    """Returns a CUdevice_attribute of a GPU."""
    driver, handle, value = get_driver(), c_int(0), c_int(0)
    status = driver.cuDeviceGet(ctypes.byref(handle), c_int(device)) or \
        driver.cuDeviceGetAttribute(ctypes.byref(value), c_int(attribute), handle)
    if status != 0:
        raise GPUError(f"cannot ask GPU {device} for its attribute {attribute} (CUDA error {status})")
    return value.value


def multiprocessors_of(device: int) -> int:
    return _attribute_of(device, 16)


def capability_of(device: int) -> Tuple[int, int]:
    """Returns the compute capability, such as (9, 0)."""
    return _attribute_of(device, 75), _attribute_of(device, 76)


def cupy_stream(x: Any) -> Optional[int]:
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(x, cupy.ndarray):
        return cupy.cuda.get_current_stream().ptr or None
    return None


def synchronize(stream: int) -> None:
    """Waits until the work on a stream has ended."""
    status = get_driver().cuStreamSynchronize(c_void_p(stream))
    if status != 0:
        raise GPUError(f"cannot wait for the stream {stream:#x} on which an array is written (CUDA error {status})")


def _within(device: int, call: Any) -> int:
    """Runs `call` with the GPU's primary context as the current one."""
    driver, handle, context = get_driver(), c_int(0), c_void_p()
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
    """Copies the memory of a GPU, from an array's first element to its last one, to the host."""
    span = 1 + sum((extent - 1) * stride for extent, stride in zip(array.shape, array.strides))
    memory = ctypes.create_string_buffer(span * ITEM_SIZE[array.dtype])
    # Any stream may be writing the array, so this waits for all of them.
    status = _within(array.device, lambda driver: driver.cuCtxSynchronize() or driver.cuMemcpyDtoH_v2(
        memory, c_uint64(array.address), c_size_t(len(memory))))
    if status != 0:
        raise GPUError(f"cannot copy an array from GPU {array.device} (CUDA error {status})")
    return memory


class Scratch:
    """Memory of a GPU for one launch on a stream. It is freed on the stream, after the launch."""
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
            _within(self._device, lambda driver: driver.cuMemFreeAsync(c_uint64(self.address), c_void_p(self._stream)))
