"""Reads the clock of the GPU's multiprocessors, through the library that nvidia-smi uses."""

import ctypes

_CLOCK_SM = 1


class SMClock:
    """`read()` returns megahertz, or NaN if the library is missing or fails."""

    def __init__(self, uuid=None):
        """`uuid` is the UUID of the GPU, as text with or without "GPU-". None: the first GPU."""
        self._library = self._device = None
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
            if library.nvmlInit_v2() != 0:
                return
            device = ctypes.c_void_p()
            if uuid is None:
                status = library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
            else:
                text = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
                status = library.nvmlDeviceGetHandleByUUID(text.encode(), ctypes.byref(device))
            if status == 0:
                self._library, self._device = library, device
        except (OSError, AttributeError):
            pass

    def read(self):
        if self._library is None:
            return float("nan")
        clock = ctypes.c_uint()
        status = self._library.nvmlDeviceGetClockInfo(self._device, _CLOCK_SM, ctypes.byref(clock))
        return float(clock.value) if status == 0 else float("nan")
