"""Peers that read caches as servers do: FlashAttention-3 out of vLLM's wheel, and FlashInfer. Both plan for the cell's
lengths before the measurement, as servers do before the layers of a step."""

import importlib.util
import math
import pathlib
from itertools import accumulate

import torch

from . import _peers

WORKSPACE_BYTES = 512 << 20


class FlashAttention3(_peers.System):
    """FlashAttention-3 of vLLM, with packed queries. `library` is the path of `_vllm_fa3_C.abi3.so`, which needs
    nothing else of vLLM. None: the library of the installed package."""
    name, reads_cache = "fa3", True

    def __init__(self, library=None):
        self.library = library

    def _path(self):
        if self.library:
            return pathlib.Path(self.library)
        package = importlib.util.find_spec("vllm")
        return package and pathlib.Path(package.origin).parent / "vllm_flash_attn" / "_vllm_fa3_C.abi3.so"

    def missing(self):
        path = self._path()
        if path is None:
            return "no module vllm, and no --fa3"
        return None if path.is_file() else f"no file {path}"

    def serves(self, cell):
        return True

    def operators(self):
        """Returns the operators `fwd` and `get_scheduler_metadata` of the library."""
        torch.ops.load_library(str(self._path().resolve()))
        return torch.ops._vllm_fa3_C

    def prepare(self, cell, inputs):
        operators, caches = self.operators(), [inputs.caches(number) for number in range(len(inputs.sets))]
        shared = {"cu_seqlens_q": inputs.offsets, "seqused_k": inputs.lengths, "max_seqlen_q": max(inputs.queries),
                  "max_seqlen_k": max(inputs.keys), "is_causal": True, "window_size_left": -1, "window_size_right": -1,
                  "num_splits": 0, "sm_margin": 0}
        plan = _call(operators.get_scheduler_metadata, batch_size=cell.batch, num_heads=cell.query_heads,
                     num_heads_k=cell.key_heads, headdim=cell.depth, headdim_v=cell.depth, qkv_dtype=inputs.q.dtype,
                     page_size=cell.page or None, max_seqlen_k_new=0, has_softcap=False, **shared)

        def run(number):
            k, v = caches[number]
            return _call(operators.fwd, q=inputs.q, k=k, v=v, out=torch.empty_like(inputs.q), page_table=inputs.table,
                         softmax_scale=cell.depth**-0.5, softcap=0.0, is_rotary_interleaved=True,
                         scheduler_metadata=plan, cp_world_size=1, cp_rank=0, **shared)[0]
        return _peers.Contender(run, len(caches))


def _call(operator, **arguments):
    """Calls a PyTorch operator by the names of its arguments. Arguments that are left out are None."""
    names = [argument.name for argument in operator.default._schema.arguments]
    unknown = arguments.keys() - set(names)
    if unknown:
        raise _peers.Refused(f"expected other arguments than {', '.join(sorted(unknown))}")
    return operator(**{**dict.fromkeys(names), **arguments})


class FlashInfer(_peers.System):
    """FlashInfer's wrappers for pages: the decoding wrapper with tensor cores for one query; the prefill wrapper, with
    the backend that FlashInfer chooses, for several."""
    name, reads_cache = "flashinfer", True
    tensor_cores, backend = True, "auto"

    @staticmethod
    def missing():
        return None if importlib.util.find_spec("flashinfer") else "no module flashinfer"

    @staticmethod
    def serves(cell):
        return cell.page > 0

    def prepare(self, cell, inputs):
        try:
            import flashinfer
        except Exception as error:  # A package that was built for another PyTorch fails in many ways.
            raise _peers.Refused(f"cannot import flashinfer: {_peers.first_line(error)}") from None
        workspace = torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=inputs.device)
        pages = [math.ceil(count / cell.page) for count in inputs.keys]
        table = (inputs.integers([0, *accumulate(pages)]),
                 torch.cat([row[:count] for row, count in zip(inputs.table, pages)]),
                 inputs.integers([count - (used - 1) * cell.page for count, used in zip(inputs.keys, pages)]))
        extents = cell.query_heads, cell.key_heads, cell.depth, cell.page
        dtypes = {"q_data_type": inputs.q.dtype, "kv_data_type": inputs.q.dtype}
        layout = cell.layout.upper()
        if max(inputs.queries) == 1:
            wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, layout,
                                                                    use_tensor_cores=self.tensor_cores)
            wrapper.plan(*table, *extents, **dtypes)
        else:
            wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace, layout, backend=self.backend)
            wrapper.plan(inputs.offsets, *table, *extents, causal=True, **dtypes)
        caches = [inputs.caches(number) for number in range(len(inputs.sets))]
        if cell.layout == "hnd":
            caches = [tuple(x.transpose(1, 2) for x in cache) for cache in caches]
        return _peers.Contender(lambda number: wrapper.run(inputs.q, caches[number]), len(caches))


class FlashInferCudaCores(FlashInfer):
    """The decoding wrapper of FlashInfer without tensor cores."""
    name, tensor_cores = "flashinfer-cuda-cores", False

    @staticmethod
    def serves(cell):
        return FlashInfer.serves(cell) and max(cell.query_counts) == 1


class FlashInferFA2(FlashInfer):
    """The prefill wrapper of FlashInfer with the kernels that run on all GPUs."""
    name, backend = "flashinfer-fa2", "fa2"

    @staticmethod
    def serves(cell):
        return FlashInfer.serves(cell) and max(cell.query_counts) > 1


def peers(library=None):
    """Returns {name: peer}. `library` is the path of FlashAttention-3's library."""
    return {peer.name: peer for peer in (FlashAttention3(library), FlashInfer(), FlashInferCudaCores(),
                                         FlashInferFA2())}
