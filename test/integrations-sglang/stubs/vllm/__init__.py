"""A package in place of vLLM, for SGLang on machines without its kernels: `_custom_ops.py` says why."""
