"""flashc: attention, compiled for the masks, scores and shapes that it meets.

    import flashc
    o = flashc.attention(q, k, v, causal=True)
    o = flashc.attention(q, k, v, mask=lambda b, h, i, j: (j <= i) & (i - j < 256))
    print(flashc.compile(q, k, v, causal=True).ptx)
    print(flashc.explain(q, k, v, causal=True, png="tiles.png"))

PyTorch, NumPy, CuPy and others give the arrays; none of them is needed to import this. Arrays on the host run on the
CPU, so that flashc can be tried without a GPU. `python -m flashc` lists the GPUs, folders and programs of this machine.
"""
from __future__ import annotations

from . import masks, ops, scores
from ._append_kv import append_kv
from ._arrays.array import ArraySpec
from ._arrays.protocol import ArrayLike, IntegersLike
from ._attention import attention
from ._attention_backward import attention_backward
from ._column_sums import column_sums
from ._decode import decode
from ._documents import documents
from ._dropout import dropout_mask
from ._explain import Explanation, explain
from ._merge_states import merge_states
from ._runtime.contexts import Statistics, configure, statistics
from ._runtime.kernel import Cost, Kernel, compile
from ._runtime.plans import MaskPlan, plan_mask
from ._runtime.library import ArgumentError, CompileError, Error, GPUError, OutOfMemoryError, UnsupportedTypeError, \
    devices, version
from ._trace.declared import assume_sorted
from ._trace.region import TraceError
from ._varlen import varlen_attention

__version__ = version()
__doc__ += f"\nDocuments: {documents() or 'not installed'} (recipes.md, api.md, README.md)\n"
__all__ = ["ArgumentError", "ArrayLike", "ArraySpec", "CompileError", "Cost", "Error", "Explanation", "GPUError",
           "IntegersLike", "Kernel", "MaskPlan", "OutOfMemoryError", "Statistics", "TraceError", "UnsupportedTypeError",
           "append_kv", "assume_sorted", "attention", "attention_backward", "column_sums", "compile", "configure",
           "decode", "devices", "dropout_mask", "explain", "masks", "merge_states", "ops", "plan_mask", "scores",
           "statistics", "varlen_attention", "__version__"]
