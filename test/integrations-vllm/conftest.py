"""Tests of the door to vLLM, with vLLM (`make test-vllm`). The batches come from test/python/paged_server.py."""
import pathlib
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
# vLLM's module for CUDA needs a driver. The tests only ask its selector.
sys.modules.setdefault("vllm._C_stable_libtorch", types.ModuleType("vllm._C_stable_libtorch"))
