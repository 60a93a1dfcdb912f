"""Measures cells: makes inputs, checks outputs, and times systems in turns."""

import contextlib
import time

import torch

import flashc

from . import _check, _peers
from ._report import CUBLAS, FLASHC, Entry, Row
from ._timing import input_sets, time_interleaved

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


class DeviceLost(Exception):
    """After a failed kernel, CUDA runs nothing more in this process. `rows` has the rows that were measured before."""

    def __init__(self, rows, error):
        super().__init__(str(error).splitlines()[0])
        self.rows = rows


def random_inputs(cell, generator):
    """Returns normally distributed q, k and v of a cell; for its backward pass also the gradient of o."""
    shapes = [(cell.heads, cell.d), (cell.key_heads, cell.d), (cell.key_heads, cell.dv)]
    if cell.backward:
        shapes.append((cell.heads, cell.dv))
    return tuple(torch.randn((cell.batch, heads, cell.n, d), device=generator.device, generator=generator,
                             dtype=DTYPES[cell.dtype]) for heads, d in shapes)


def random_sets(cell, generator, cache_bytes):
    """Returns sets of random inputs. There are several sets if one would stay in a cache of `cache_bytes`."""
    return [random_inputs(cell, generator) for _ in range(input_sets(cell.input_bytes(), cache_bytes))]


def reference(cell, inputs):
    """Returns the reference for a cell's outputs."""
    kind = _check.GradientReference if cell.backward else _check.Reference
    return kind(*inputs, keep=_check.causal(cell.n, cell.n, inputs[0].device) if cell.causal else None)


def burst(contender, calls):
    """Returns the milliseconds that the GPU takes for `calls` calls, which use the contender's sets of inputs in
    turn."""
    with contender.around():
        return _peers.elapsed(lambda i: contender.run(i % contender.count), calls)


def cache_bytes(device):
    """Returns the size of the level-2 cache in bytes."""
    return getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 64 << 20)


class Measurer:
    """Measures cells. It has the systems, cuBLAS's operands and the clock for all of them."""

    def __init__(self, systems, clock, seed, device="cuda"):
        self.systems = systems
        self.device = torch.device(device)
        self.clock = clock
        self.generator = torch.Generator(device=self.device)
        self.generator.manual_seed(seed)
        self.device_name = torch.cuda.get_device_properties(self.device).name
        self.cache_bytes = cache_bytes(self.device)
        self.product, self.product_flops = _peers.cublas_contender(self.device, torch.bfloat16)

    def measure(self, cells):
        """Measures cells together, with all their systems in turns. Returns their Rows. Raises DeviceLost."""
        rows = [Row(self.device_name, cell, {}) for cell in cells]
        contenders = {CUBLAS: self.product}
        for system in self.systems:
            system.begin()
        with torch.no_grad():
            for row in rows:
                with self._noting_errors(rows, row):
                    contenders.update(self._open(rows, row))
            torch.cuda.empty_cache()
            with self._noting_errors(rows, rows[0]):
                self._time(rows, contenders)
        return rows

    @contextlib.contextmanager
    def _noting_errors(self, rows, row):
        try:
            yield
        except DeviceLost:
            raise
        except Exception as error:
            row.entries.setdefault(FLASHC, Entry())
            name = next((name for name, entry in row.entries.items() if not entry.counts and not entry.note), FLASHC)
            row.entries[name].note = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            self._synchronize(rows, row, name)

    def _synchronize(self, rows, row, name):
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            row.entries[name] = Entry(note=f"CUDA failed: {str(error).splitlines()[0]}")
            raise DeviceLost(rows, error) from error

    def _open(self, rows, row):
        """Returns {(cell, system): Contender} for the systems that run the cell and compute right numbers."""
        cell, found = row.cell, {}
        sets = random_sets(cell, self.generator, self.cache_bytes)
        outputs = {}
        for system in self.systems:
            entry = row.entries[system.name] = Entry()
            try:
                contender = system.prepare(cell, sets)
                with contender.around():
                    outputs[system.name] = contender.result(contender.run(0))
                if isinstance(system, _peers.Flashc):
                    outputs[system.name] = system.poisoned_run(cell, sets[0])
                found[cell, system.name] = contender
            except (_peers.Refused, flashc.Error, torch.cuda.OutOfMemoryError) as error:
                outputs.pop(system.name, None)
                entry.note = str(error).splitlines()[0]
            # An asynchronous failure is raised here, so that it is clear which system failed.
            self._synchronize(rows, row, system.name)
        ref = reference(cell, sets[0]) if outputs else None
        for name, out in outputs.items():
            entry, comparison = row.entries[name], ref.compare(out)
            entry.error, entry.bound, entry.frobenius = comparison.error, comparison.bound, comparison.frobenius
            entry.gradients = comparison.gradients
            if comparison.problem:
                entry.note = f"wrong: {comparison.problem}"
                del found[cell, name]
        return found

    def _time(self, rows, contenders):
        timings = time_interleaved(contenders, burst)
        for row in rows:
            row.entries[CUBLAS] = Entry()
            for name, entry in row.entries.items():
                key = CUBLAS if name == CUBLAS else (row.cell, name)
                if key in timings:
                    entry.ms, entry.spread = timings[key].median, timings[key].spread
                    entry.tflops = (self.product_flops if name == CUBLAS else row.cell.flops) / (entry.ms * 1e9)
            busy = (row.cell, FLASHC) if (row.cell, FLASHC) in timings else CUBLAS
            row.sm_mhz = self._clock_under(contenders[busy], timings[busy].median)

    def _clock_under(self, contender, milliseconds):
        """Returns the clock of the multiprocessors while `contender` runs for about 60 ms."""
        with contender.around():
            for i in range(max(1, min(400, round(60 / milliseconds)))):
                contender.run(i % contender.count)
        time.sleep(0.02)
        clock = self.clock.read()
        torch.cuda.synchronize()
        return clock


def failed(row):
    """Whether flashc did not run the cell, or a system computed wrong numbers."""
    mine = row.entries.get(FLASHC, Entry())
    return not mine.counts or any(entry.note.startswith("wrong") for entry in row.entries.values())


def describe_device():
    """Returns a line with the GPU and the versions of PyTorch, CUDA and cuDNN."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    cudnn = torch.backends.cudnn.version()
    return (f"{properties.name}, {properties.multi_processor_count} SMs; PyTorch {torch.__version__}, CUDA "
            f"{torch.version.cuda}, cuDNN {cudnn if cudnn else 'none'}")


def device_uuid():
    """Returns the UUID of the current GPU, or None if this version of PyTorch does not provide it."""
    uuid = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
    return str(uuid) if uuid is not None else None
