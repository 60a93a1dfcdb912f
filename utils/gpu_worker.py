#!/usr/bin/env python3
"""The process of gpu_check.py that uses the GPU. It reads one cell per line of standard input, and writes one result
per line of standard output, both as JSON. An error of the GPU ends only this process."""

import ctypes
import dataclasses
import json
import sys

import torch

import flashc
from flashc._runtime import contexts, library
from flashc.bench import _check

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


def guarded(shape, dtype, layout, fill, guard=4096):
    """Returns an array [B, H, N, D] of random numbers or NaN, and the `guard` NaN elements behind it in the same
    buffer."""
    count = 1
    for extent in shape:
        count *= extent
    buffer = torch.full((count + guard,), float("nan"), device="cuda", dtype=dtype)
    if layout == "bnhd" and len(shape) == 4:
        b, h, n, d = shape
        array = buffer[:count].view(b, n, h, d).transpose(1, 2)
    else:
        array = buffer[:count].view(shape)
    if fill == "random":
        array.copy_(torch.randn(shape, device="cuda", dtype=torch.float32))
    return array, buffer[count:]


def output_error(outputs, inputs, causal):
    """Compares o, and the log-sum-exp if there is one, with the reference. Returns the numbers of a result, and a
    `problem` if the cell fails."""
    nq, nk = inputs[0].shape[2], inputs[1].shape[2]
    keep = _check.causal(nq, nk, outputs[0].device) if causal else None
    result = dataclasses.asdict(_check.Reference(*inputs, keep=keep).compare(*outputs))
    return result if result["problem"] else {key: value for key, value in result.items() if key != "problem"}


def launch(loaded, tensors):
    """Launches the kernel on PyTorch's current stream, with arguments in the manifest's order."""
    arguments, numbers = (library.Argument * len(tensors))(), []
    for argument, tensor in zip(arguments, tensors):
        array = ctypes.c_int64 * tensor.dim()
        extents, strides = array(*tensor.shape), array(*tensor.stride())
        numbers += [extents, strides]  # keeps them alive during the call
        argument.address, argument.rank = tensor.data_ptr(), tensor.dim()
        argument.extents, argument.strides = ctypes.addressof(extents), ctypes.addressof(strides)
    message = ctypes.c_void_p()
    status = library.lib.flashcLoadedKernelLaunch(loaded.handle.ptr, ctypes.addressof(arguments), len(arguments),
                                                  torch.cuda.current_stream().cuda_stream, ctypes.addressof(message))
    if status != library.OK:
        library.fail(status, message)


def count_different(start, outputs, times):
    """Calls `start` `times` times, each time with NaN in the outputs. Returns how often a bit of the outputs differed
    from the outputs before the first call."""
    def bits(array):
        return array.view({2: torch.int16, 4: torch.int32}[array.element_size()])

    first = [bits(output).clone() for output in outputs]
    different = torch.zeros((), dtype=torch.int64, device=outputs[0].device)
    for _ in range(times):
        for output in outputs:
            output.fill_(float("nan"))
        start()
        different += torch.stack([(bits(output) != before).any() for output, before in zip(outputs, first)]).any()
    return different.item()


def takes_strides(manifest):
    """Returns whether the kernel has arguments for the strides of the arrays that it reads by pointer."""
    parameters = manifest["parameters"]
    strided = {p["argument"] for p in parameters if p["kind"] == "stride"}
    return all(p["argument"] in strided for p in parameters
               if p["kind"] == "pointer" and len(manifest["arguments"][p["argument"]]["shape"]) == 4)


class Worker:
    """Runs cells, and keeps the loaded kernels."""

    def __init__(self):
        self.context = contexts.Context(disk_cache=False)
        self.kernels = {}

    def kernel(self, program):
        """Returns a program's loaded kernel, and its manifest."""
        text = program["text"]
        if text not in self.kernels:
            kernel = self.context.compile_text(**program)
            self.kernels[text] = kernel.load(torch.cuda.current_device()), json.loads(kernel.manifest())
        return self.kernels[text]

    def arrays(self, job, layout):
        """Makes inputs and outputs. Returns them with the NaN guards behind them."""
        spec = job["spec"]
        dtype = DTYPES[spec["dtype"]]
        batch, hq, hk, nq, nk = job["batch"], spec["hq"], spec["hk"], job["nq"], job["nk"]
        shapes = [((batch, hq, nq, spec["d"]), dtype, "random"), ((batch, hk, nk, spec["d"]), dtype, "random"),
                  ((batch, hk, nk, spec["dv"]), dtype, "random"), ((batch, hq, nq, spec["dv"]), dtype, "nan")]
        if spec["lse"]:
            shapes.append(((batch, hq, nq), torch.float32, "nan"))
        guard = job.get("guard", 4096)
        pairs = [guarded(shape, kind, layout, fill, guard) for shape, kind, fill in shapes]
        return [array for array, _ in pairs[:3]], [array for array, _ in pairs[3:]], [guard for _, guard in pairs]

    def check(self, job):
        torch.manual_seed(job["nq"] * 8191 + job["nk"])
        loaded, manifest = self.kernel(job["program"])
        if job["layout"] == "bnhd" and not takes_strides(manifest):
            return {"skipped": "the kernel takes no strides"}
        inputs, outputs, guards = self.arrays(job, job["layout"])
        launch(loaded, inputs + outputs)
        torch.cuda.synchronize()
        result = output_error(outputs, inputs, job["spec"]["causal"])
        times = job.get("repeat", 1) - 1
        different = count_different(lambda: launch(loaded, inputs + outputs), outputs, times)
        if different:
            result["problem"] = result.get("problem", "") + f"; {different} of {times} more launches gave other results"
        if not all(torch.isnan(guard).all() for guard in guards):
            result["problem"] = result.get("problem", "") + "; wrote past the end of an array"
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
            except Exception as error:  # the parent decides what to do with this process
                result = {"problem": f"{type(error).__name__}: {error}", "final": True, "fatal": True}
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    Worker().serve()
