"""A stand-in for PyTorch in tests in which gpu_worker.py needs no arrays of PyTorch. The number of its GPU is the C
API's number for the CPU."""
import sys
import unittest.mock

stub = unittest.mock.MagicMock()
stub.__version__ = "0"
stub.cuda.get_device_name.return_value = "stub"
stub.cuda.current_device.return_value = -1
stub.cuda.current_stream.return_value.cuda_stream = None
sys.modules[__name__] = stub
