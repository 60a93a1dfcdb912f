"""Measures one cell: inputs, checks, interleaved timing."""

import time

import torch

import flashc

from . import _check, _peers
from ._report import CUBLAS, FLASHC, Entry, Row
from ._timing import input_sets, time_interleaved

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


class DeviceLost(Exception):
    """A kernel did something that CUDA does not forgive: nothing runs in this process any more. Has the row so far."""

    def __init__(self, row, error):
        super().__init__(str(error).splitlines()[0])
        self.row = row


class Measurer:
    """What outlives a cell: the peers, cuBLAS's operands, the clock."""

    def __init__(self, peers, dtype, clock, seed, device="cuda"):
        self.systems = [_peers.Flashc, *peers]
        self.dtype_name, self.dtype = dtype, DTYPES[dtype]
        self.device = torch.device(device)
        self.clock = clock
        self.generator = torch.Generator(device=self.device)
        self.generator.manual_seed(seed)
        properties = torch.cuda.get_device_properties(self.device)
        self.device_name = properties.name
        self.cache_bytes = getattr(properties, "L2_cache_size", 64 << 20)
        self.product, self.product_flops = _peers.cublas_contender(self.device, torch.bfloat16)

    def inputs(self, cell):
        """Sets of q, k, v with normal(0, 1) numbers; several if one would stay in the L2 cache."""
        def random(heads):
            shape = (cell.batch, heads, cell.n, cell.d)
            return torch.randn(shape, device=self.device, generator=self.generator, dtype=self.dtype)

        count = input_sets(cell.input_bytes(self.dtype.itemsize), self.cache_bytes)
        return [(random(cell.heads), random(cell.key_heads), random(cell.key_heads)) for _ in range(count)]

    def _burst(self, contender, calls):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        count = self.sets
        with contender.around():
            start.record()
            for i in range(calls):
                contender.run(i % count)
            end.record()
        end.synchronize()
        return start.elapsed_time(end)

    def _clock_under(self, contender, milliseconds):
        """The SM clock within about 60 ms of `contender`."""
        with contender.around():
            for i in range(max(1, min(400, round(60 / milliseconds)))):
                contender.run(i % self.sets)
        time.sleep(0.02)
        clock = self.clock.read()
        torch.cuda.synchronize()
        return clock

    def _poisoned_run(self, cell, inputs):
        """flashc's o and log-sum-exp, written over NaN."""
        q, k, v = inputs
        out = torch.full_like(q, float("nan"))
        lse = torch.full(q.shape[:3], float("nan"), device=q.device)
        flashc.attention(q, k, v, causal=cell.causal, enable_gqa=cell.group != 1, out=(out, lse))
        return out, lse

    def _prepare(self, cell, sets, row):
        """The contenders that run the cell, and what they compute on the first set of inputs."""
        contenders, outputs, lse = {}, {}, None
        for system in self.systems:
            entry = row.entries[system.name] = Entry()
            try:
                contender = system.prepare(cell, sets)
                with contender.around():
                    outputs[system.name] = contender.result(contender.run(0))
                if system is _peers.Flashc:
                    outputs[system.name], lse = self._poisoned_run(cell, sets[0])
                contenders[system.name] = contender
            except (_peers.Refused, flashc.Error, torch.cuda.OutOfMemoryError) as error:
                outputs.pop(system.name, None)
                entry.note = str(error).splitlines()[0]
            # An asynchronous failure shows up here, at the system that caused it.
            self._synchronize(row, system.name)
        return contenders, outputs, lse

    def _synchronize(self, row, name):
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            row.entries[name] = Entry(note=f"CUDA failed: {str(error).splitlines()[0]}")
            raise DeviceLost(row, error) from error

    def measure(self, cell):
        """The Row of a cell. Raises DeviceLost."""
        row = Row(self.device_name, self.dtype_name, cell, {})
        try:
            with torch.no_grad():
                return self._measure(cell, row)
        except DeviceLost:
            raise
        except Exception as error:
            row.entries.setdefault(FLASHC, Entry())
            name = next((name for name, entry in row.entries.items() if not entry.counts and not entry.note), FLASHC)
            row.entries[name].note = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            self._synchronize(row, name)
            return row
        finally:
            self.sets = 0

    def _measure(self, cell, row):
        sets = self.inputs(cell)
        self.sets = len(sets)
        contenders, outputs, lse = self._prepare(cell, sets, row)
        if outputs:
            compared = _check.compare(sets[0], cell.causal, outputs, lse if FLASHC in outputs else None)
            outputs = lse = None
            for name, comparison in compared.items():
                entry = row.entries[name]
                entry.error, entry.bound, entry.frobenius = comparison.error, comparison.bound, comparison.frobenius
                wrong = comparison.problem(self.dtype)
                if wrong:
                    entry.note = f"wrong: {wrong}"
                    del contenders[name]
        torch.cuda.empty_cache()
        contenders[CUBLAS] = self.product
        row.entries[CUBLAS] = Entry()
        timings = time_interleaved(contenders, self._burst)
        for name, timing in timings.items():
            entry = row.entries[name]
            entry.ms, entry.spread = timing.median, timing.spread
            entry.tflops = (self.product_flops if name == CUBLAS else cell.flops) / (timing.median * 1e9)
        busy = FLASHC if FLASHC in contenders else CUBLAS
        row.sm_mhz = self._clock_under(contenders[busy], timings[busy].median)
        return row


def failed(row):
    """Whether flashc did not run the cell, or a system computed wrong numbers in it."""
    mine = row.entries.get(FLASHC, Entry())
    return not mine.counts or any(entry.note.startswith("wrong") for entry in row.entries.values())


def describe_device():
    """One line: the GPU, the driver's CUDA, PyTorch, cuDNN."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    cudnn = torch.backends.cudnn.version()
    return (f"{properties.name}, {properties.multi_processor_count} SMs; PyTorch {torch.__version__}, CUDA "
            f"{torch.version.cuda}, cuDNN {cudnn if cudnn else 'none'}")


def device_uuid():
    """Of the current GPU, or None where this PyTorch does not tell."""
    uuid = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
    return str(uuid) if uuid is not None else None


