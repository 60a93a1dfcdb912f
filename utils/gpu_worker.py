#!/usr/bin/env python3
"""The process of gpu_check.py that touches the GPU: one cell per line of standard input, one result per line of
standard output, both JSON. Whatever goes wrong on the GPU ends with this process."""

import ctypes
import json
import sys

import torch

import flashc
from flashc import _library

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


def guarded(shape, dtype, layout, fill):
    """A [B, H, N, D] array of random numbers or NaN in a buffer whose end is NaN too. Returns it and the buffer."""
    count = 1
    for extent in shape:
        count *= extent
    buffer = torch.full((count + 4096,), float("nan"), device="cuda", dtype=dtype)
    if layout == "bnhd" and len(shape) == 4:
        b, h, n, d = shape
        array = buffer[:count].view(b, n, h, d).transpose(1, 2)
    else:
        array = buffer[:count].view(shape)
    if fill == "random":
        array.copy_(torch.randn(shape, device="cuda", dtype=torch.float32))
    return array, buffer[count:]


def attention(q, k, v, causal, dtype):
    """Plain attention with every intermediate in `dtype`. Returns o and the log-sum-exp; rows without keys: 0, -inf."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (x.to(dtype) for x in (q, k, v))
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = (q @ k.transpose(2, 3)) * q.shape[3] ** -0.5
    if causal:
        nq, nk = scores.shape[2:]
        i = torch.arange(nq, device=q.device)[:, None] + (nk - nq)
        scores.masked_fill_(torch.arange(nk, device=q.device)[None, :] > i, float("-inf"))
    lse = torch.logsumexp(scores.float(), dim=3)
    p = torch.softmax(scores, dim=3).nan_to_num_(0.0)
    return p @ v, lse


def output_error(out, lse, inputs, causal, dtype_name):
    """Compares with the reference. Returns the numbers of a result, with a `problem` if the cell fails."""
    ref, ref_lse = attention(*inputs, causal, torch.float32)
    naive, _ = attention(*inputs, causal, inputs[0].dtype)
    naive = naive.float()
    out = out.float()
    error = (out - ref).abs().max().item()
    bound = 2 * (naive - ref).abs().max().item() + 2 * ((ref + 0.3 - 0.3) - ref).abs().max().item()
    norm = ref.norm().item()
    frobenius = (out - ref).norm().item() / norm if norm > 0 else (out - ref).norm().item()
    empty = torch.isinf(ref_lse)
    lse_error = (lse - ref_lse)[~empty].abs().max().item() if (~empty).any() else 0.0
    result = {"error": error, "bound": bound, "frobenius": frobenius, "lse_error": lse_error}
    problems = []
    if torch.isnan(out).any():
        rows = torch.isnan(out).any(dim=3).nonzero()
        problems.append(f"NaN in {len(rows)} rows of o, first (b, h, i) = {rows[0].tolist()}")
    elif not error <= bound:
        where = (out - ref).abs().argmax().item()
        b, rest = divmod(where, out[0].numel())
        h, rest = divmod(rest, out[0, 0].numel())
        problems.append(f"o off by {error:.3g} > {bound:.3g} at (b, h, i, d) = {(b, h, *divmod(rest, out.shape[3]))}")
    if not frobenius < (3e-3 if dtype_name == "bf16" else 1e-3):
        problems.append(f"relative Frobenius error {frobenius:.3g}")
    if not torch.equal(lse == float("-inf"), empty):
        problems.append("-inf of lse in the wrong rows")
    elif not lse_error <= 1e-3:
        problems.append(f"lse off by {lse_error:.3g}")
    if problems:
        result["problem"] = "; ".join(problems)
    return result


def launch(loaded, tensors):
    """Starts the kernel on PyTorch's current stream, with the manifest's arguments in order."""
    arguments, numbers = (_library.Argument * len(tensors))(), []
    for argument, tensor in zip(arguments, tensors):
        array = ctypes.c_int64 * tensor.dim()
        extents, strides = array(*tensor.shape), array(*tensor.stride())
        numbers += [extents, strides]  # Read during the call.
        argument.address, argument.rank = tensor.data_ptr(), tensor.dim()
        argument.extents, argument.strides = ctypes.addressof(extents), ctypes.addressof(strides)
    message = ctypes.c_void_p()
    status = _library.lib.flashcLoadedKernelLaunch(loaded.handle.ptr, ctypes.addressof(arguments), len(arguments),
                                                   torch.cuda.current_stream().cuda_stream, ctypes.addressof(message))
    if status != _library.OK:
        _library.fail(status, message)


def takes_strides(manifest):
    """Whether the kernel asks for the strides of whatever it reaches by pointer."""
    parameters = manifest["parameters"]
    strided = {p["argument"] for p in parameters if p["kind"] == "stride"}
    return all(p["argument"] in strided for p in parameters
               if p["kind"] == "pointer" and len(manifest["arguments"][p["argument"]]["shape"]) == 4)


class Worker:
    """Holds what outlives a cell: the loaded kernels."""

    def __init__(self):
        torch.set_float32_matmul_precision("highest")
        self.context = _library.Context(disk_cache=False)
        self.kernels = {}

    def kernel(self, program):
        """A program's kernel on the GPU, and its manifest."""
        text = program["text"]
        if text not in self.kernels:
            kernel = self.context.compile_text(**program)
            self.kernels[text] = kernel.load(torch.cuda.current_device()), json.loads(kernel.manifest())
        return self.kernels[text]

    def arrays(self, job, layout):
        """Inputs, outputs, and the NaN guards behind all of them."""
        spec = job["spec"]
        dtype = DTYPES[spec["dtype"]]
        batch, hq, hk, nq, nk = job["batch"], spec["hq"], spec["hk"], job["nq"], job["nk"]
        shapes = [((batch, hq, nq, spec["d"]), dtype, "random"), ((batch, hk, nk, spec["d"]), dtype, "random"),
                  ((batch, hk, nk, spec["dv"]), dtype, "random"), ((batch, hq, nq, spec["dv"]), dtype, "nan"),
                  ((batch, hq, nq), torch.float32, "nan")]
        pairs = [guarded(shape, kind, layout, fill) for shape, kind, fill in shapes]
        return [array for array, _ in pairs[:3]], [array for array, _ in pairs[3:]], [guard for _, guard in pairs]

    def check(self, job):
        torch.manual_seed(job["nq"] * 8191 + job["nk"])
        loaded, manifest = self.kernel(job["program"])
        if job["layout"] == "bnhd" and not takes_strides(manifest):
            return {"skipped": "the kernel takes no strides"}
        inputs, outputs, guards = self.arrays(job, job["layout"])
        launch(loaded, inputs + outputs)
        torch.cuda.synchronize()
        result = output_error(*outputs, inputs, job["spec"]["causal"], job["spec"]["dtype"])
        if not all(torch.isnan(guard).all() for guard in guards):
            result["problem"] = result.get("problem", "") + "; wrote behind the end of an array"
        return result

    def serve(self):
        print(json.dumps({"ready": torch.cuda.get_device_name(0), "torch": torch.__version__,
                          "flashc": flashc.__version__}), flush=True)
        for line in sys.stdin:
            job = json.loads(line)
            try:
                result = self.check(job)
            except flashc.CompileError as error:
                result = {"problem": f"does not compile: {error}", "final": True}
            except Exception as error:  # Reported to the parent, which decides what to do with this process.
                result = {"problem": f"{type(error).__name__}: {error}", "final": True, "fatal": True}
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    Worker().serve()
