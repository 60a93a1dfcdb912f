#!/usr/bin/env python3
"""The process of gpu_check.py that touches the GPU: one cell per line of standard input, one result per line of
standard output, both JSON. Whatever goes wrong on the GPU ends with this process."""

import json
import sys

import torch

import flashc_launch


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


class Worker:
    """Holds what outlives a cell: the loaded kernels and the operands of the cuBLAS product."""

    def __init__(self):
        torch.set_float32_matmul_precision("highest")
        self.kernels = {}
        self.product = None

    def kernel(self, job):
        stem = job["stem"]
        if stem not in self.kernels:
            with open(stem + ".ptx", "rb") as file:
                self.kernels[stem] = flashc_launch.Kernel(file.read(), flashc_launch.read_manifest(stem + ".json"))
        return self.kernels[stem]

    def arrays(self, job, layout):
        """Inputs, outputs, and the NaN guards behind all of them."""
        spec = job["spec"]
        dtype = flashc_launch.TORCH_DTYPES[spec["dtype"]]
        batch, hq, hk, nq, nk = job["batch"], spec["hq"], spec["hk"], job["nq"], job["nk"]
        shapes = [((batch, hq, nq, spec["d"]), dtype, "random"), ((batch, hk, nk, spec["d"]), dtype, "random"),
                  ((batch, hk, nk, spec["dv"]), dtype, "random"), ((batch, hq, nq, spec["dv"]), dtype, "nan"),
                  ((batch, hq, nq), torch.float32, "nan")]
        pairs = [guarded(shape, kind, layout, fill) for shape, kind, fill in shapes]
        return [array for array, _ in pairs[:3]], [array for array, _ in pairs[3:]], [guard for _, guard in pairs]

    def takes_strides(self, kernel):
        """Whether the kernel asks for the strides of whatever it reaches by pointer."""
        parameters = kernel.manifest["parameters"]
        strided = {p["argument"] for p in parameters if p["kind"] == "stride"}
        return all(p["argument"] in strided for p in parameters
                   if p["kind"] == "pointer" and len(kernel.manifest["arguments"][p["argument"]]["shape"]) == 4)

    def check(self, job):
        torch.manual_seed(job["nq"] * 8191 + job["nk"])
        kernel = self.kernel(job)
        if job["layout"] == "bnhd" and not self.takes_strides(kernel):
            return {"skipped": "the kernel takes no strides"}
        inputs, outputs, guards = self.arrays(job, job["layout"])
        kernel.launch(*inputs, *outputs)
        torch.cuda.synchronize()
        result = output_error(*outputs, inputs, job["spec"]["causal"], job["spec"]["dtype"])
        if not all(torch.isnan(guard).all() for guard in guards):
            result["problem"] = result.get("problem", "") + "; wrote behind the end of an array"
        return result

    def contenders(self, job, kernel, inputs, outputs):
        """{name: function that launches it once}. Peers that refuse the case are left out."""
        causal = job["spec"]["causal"]
        from torch.nn.attention import SDPBackend, sdpa_kernel
        runs = {"flashc": kernel.prepare(inputs + outputs)}
        for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("fa2", SDPBackend.FLASH_ATTENTION)):
            def run(backend=backend):
                with sdpa_kernel(backend):
                    return torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=causal)
            try:
                result = run()
                torch.cuda.synchronize()
                runs[name] = run
                if name == "cudnn":
                    self.peer_output = result
            except RuntimeError:
                pass
        if self.product is None:
            a = torch.randn(8192, 8192, device="cuda").bfloat16()
            b = torch.randn(8192, 8192, device="cuda").bfloat16()
            c = torch.empty_like(a)
            self.product = lambda: torch.mm(a, b, out=c)
        runs["cublas"] = self.product
        return runs

    def time_interleaved(self, runs, rounds=7, target_ms=12.0):
        """Median milliseconds per call of each contender; in every round each of them runs for about target_ms."""
        def measure(run, calls):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(calls):
                run()
            end.record()
            end.synchronize()
            return start.elapsed_time(end) / calls
        calls = {}
        for name, run in runs.items():
            measure(run, 2)
            calls[name] = max(1, min(200, round(target_ms / max(measure(run, 3), 1e-3))))
        times = {name: [] for name in runs}
        for _ in range(rounds):
            for name, run in runs.items():
                times[name].append(measure(run, calls[name]))
        return {name: sorted(values)[len(values) // 2] for name, values in times.items()}

    def bench(self, job):
        spec = job["spec"]
        torch.manual_seed(0)
        self.peer_output = None
        kernel = self.kernel(job)
        inputs, outputs, _ = self.arrays(job, "bhnd")
        kernel.launch(*inputs, *outputs)
        torch.cuda.synchronize()
        times = self.time_interleaved(self.contenders(job, kernel, inputs, outputs))
        operations = 4.0 * job["batch"] * spec["hq"] * job["nq"] * job["nk"] * spec["d"]
        if spec["causal"]:
            operations /= 2
        result = {name: operations / (ms * 1e9) for name, ms in times.items() if name != "cublas"}
        result["cublas"] = 2 * 8192.0 ** 3 / (times["cublas"] * 1e9)
        result["ms"] = times["flashc"]
        if self.peer_output is not None:
            peer = self.peer_output.float()
            difference = ((outputs[0].float() - peer).norm() / peer.norm()).item()
            result["difference"] = difference
            if not difference < 6e-3:
                result["problem"] = f"differs from cuDNN by {difference:.3g} (relative Frobenius)"
        return result

    def serve(self):
        print(json.dumps({"ready": torch.cuda.get_device_name(0), "torch": torch.__version__,
                          "cudnn": torch.backends.cudnn.version()}), flush=True)
        for line in sys.stdin:
            job = json.loads(line)
            try:
                result = self.check(job) if job["kind"] == "check" else self.bench(job)
            except Exception as error:  # Reported to the parent, which decides what to do with this process.
                result = {"problem": f"{type(error).__name__}: {error}", "fatal": True}
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    Worker().serve()
