"""`python -m flashc.bench --latency`: measures the time from a program to PTX, the time to its first launch, and the
time of later launches.

All measurements use the C API (flashc-c/flashc.h), as flashc.attention does, and the clock of this process. The first
launch of a process is measured in new processes, after CUDA has started there."""

import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile

from .._arrays.array import contiguous_strides
from .._runtime import contexts, library
from .._runtime.options import Options
from .._runtime.specialization import Specialization
from . import _host
from ._report import latency_line
from ._timing import call_times, milliseconds

TARGET = "sm_90a"
LAUNCHES = 10000
COMPILE_RUNS, PROCESSES = 5, 5
# The number of queries of a first launch. It decides which entry of the kernel is loaded.
QUERIES = 4096


def programs():
    """Returns {name: FlashcAttention} for the kernels that are compiled."""
    def attention(dtype, d, group=1, score=None, **options):
        return Specialization(dtype, d, d, group, Options(**options).of_kernel(d), score_code=score).describe()

    soft_cap = ("%cap = arith.constant 2.000000e+01 : f32\n%x = arith.divf %s, %cap : f32\n"
                "%y = math.tanh %x : f32\n%t = arith.mulf %y, %cap : f32\nflash.yield %t : f32\n")
    return {"bf16 d=64": attention("bf16", 64),
            "bf16 d=128 causal": attention("bf16", 128, causal=True),
            "f16 d=256 causal, 4 heads a key head": attention("f16", 256, group=4, causal=True),
            "bf16 d=128 window of 1024, soft cap": attention("bf16", 128, score=soft_cap, window=(1024, 0))}


# --- The CUDA driver --------------------------------------------------------------------------------------------------

class Driver:
    """The CUDA driver, with the primary context of the first GPU. It allocates and waits. Raises OSError."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._check(self.library.cuInit(0), "cuInit")
        self._check(self.library.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
        self._check(self.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
        self._check(self.library.cuCtxSetCurrent(context), "cuCtxSetCurrent")

    @staticmethod
    def _check(status, what):
        if status != 0:
            raise OSError(f"{what} failed with {status}")

    def allocate(self, count):
        address = ctypes.c_uint64()
        self._check(self.library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(count)), "cuMemAlloc")
        self._check(self.library.cuMemsetD8_v2(address, ctypes.c_ubyte(0x3c), ctypes.c_size_t(count)), "cuMemsetD8")
        return address.value

    def wait(self):
        self._check(self.library.cuCtxSynchronize(), "cuCtxSynchronize")


def open_driver():
    """Returns a Driver and "", or None and the reason of the failure."""
    try:
        return Driver(), ""
    except OSError as error:
        return None, str(error)


# --- Measuring --------------------------------------------------------------------------------------------------------

def compile_times(attention, runs=COMPILE_RUNS):
    """Returns milliseconds to PTX. Each run has a new context, without a cache on disk."""
    times = []
    for _ in range(runs):
        context = contexts.Context(disk_cache=False)
        texts = []
        times.append(milliseconds(lambda: texts.append(context.compile_attention(attention, TARGET, None).ptx())))
        if not texts[0]:
            raise library.Error("a kernel without PTX")
    return times


def make_arguments(driver, attention, length):
    """Returns the arguments of a launch, and the objects that own their memory. The launch has one batch, one key head,
    as many keys as queries, and no log-sum-exp."""
    arguments, kept = (library.Argument * 4)(), []
    heads, d, dv = attention.group_size, attention.head_dim, attention.value_dim
    shapes = (1, heads, length, d), (1, 1, length, d), (1, 1, length, dv), (1, heads, length, dv)
    for argument, shape in zip(arguments, shapes):
        extents, strides = ((ctypes.c_int64 * 4)(*values) for values in (shape, contiguous_strides(shape)))
        kept += [extents, strides]
        argument.address = driver.allocate(2 * shape[1] * shape[2] * shape[3])
        argument.rank = 4
        argument.extents = ctypes.addressof(extents)
        argument.strides = ctypes.addressof(strides)
    return arguments, kept


def make_call(loaded, arguments):
    """Returns a function that only launches. `arguments` must live as long as the function."""
    message = ctypes.c_void_p()
    launch, handle, count = library.lib.flashcLoadedKernelLaunch, loaded.handle.ptr, len(arguments)
    address, reason = ctypes.addressof(arguments), ctypes.addressof(message)

    def call():
        status = launch(handle, address, count, None, reason)
        if status:
            library.fail(status, message)

    return call


def first_launch_time(driver, name, folder=None, compiles_all=False):
    """Measures the milliseconds from a new context to the end of its first call, which compiles and loads the entry
    that it launches. Returns them with the counters of the context. With `compiles_all`, all entries are compiled
    first."""
    attention = programs()[name]
    arguments, _kept = make_arguments(driver, attention, QUERIES)
    made = []

    def run():
        context = contexts.Context(folder, disk_cache=folder is not None)
        kernel = context.compile_attention(attention, TARGET, None)
        if compiles_all:
            kernel.ptx()
        loaded = kernel.load(0)
        made.append((context, loaded))
        make_call(loaded, arguments)()

    elapsed = milliseconds(run)
    driver.wait()
    counters = made[0][0].statistics()
    return {"ms": elapsed, "compilations": counters.compilations, "disk_hits": counters.disk_hits}


def run_in_process(arguments, **environment):
    """Runs this file in a new process. Returns the JSON of the last line of its output."""
    environment = dict(os.environ, **environment)
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH")]))
    done = subprocess.run([sys.executable, "-m", "flashc.bench._latency", *arguments], env=environment,
                          capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise library.Error(f"the process that launches a kernel ended with {done.returncode}: "
                            f"{done.stderr.strip()[-400:]}")
    return json.loads(done.stdout.splitlines()[-1])


def first_launch_in_process(name, folder):
    """Runs first_launch_time in a new process. The CUDA driver of that process also caches its machine code in the
    folder."""
    return run_in_process([name, folder], CUDA_CACHE_DISABLE="0", CUDA_CACHE_PATH=os.path.join(folder, "driver"))


def first_launches_in_turns(driver, name, runs=COMPILE_RUNS):
    """Returns milliseconds to first launches in this process, measured in turns: with one entry compiled, and with all
    entries."""
    first_launch_time(driver, name)
    one, every = [], []
    for _ in range(runs):
        one.append(first_launch_time(driver, name)["ms"])
        every.append(first_launch_time(driver, name, compiles_all=True)["ms"])
    return one, every


def first_launch_times(name, runs=PROCESSES):
    """Returns milliseconds to a first launch, cold (with an empty folder) and from disk. Notes say if a launch was not
    cold, or not from disk."""
    cold, warm, cold_note, warm_note = [], [], "", ""
    for _ in range(runs):
        with tempfile.TemporaryDirectory(prefix="flashc-bench-") as folder:
            first, second = (first_launch_in_process(name, folder) for _ in range(2))
        cold.append(first.pop("ms"))
        warm.append(second.pop("ms"))
        if first["compilations"] != 1:
            cold_note = f"not cold: {first}"
        if second["compilations"] != 0:
            warm_note = f"not from disk: {second}"
    return cold, warm, cold_note, warm_note


def launch_times(driver, calls=LAUNCHES):
    """Returns the microseconds of flashcLoadedKernelLaunch with ready arguments, and of a ctypes call that does
    nothing."""
    attention = programs()["bf16 d=64"]
    loaded = contexts.Context(disk_cache=False).compile_attention(attention, TARGET, None).load(0)
    arguments, _kept = make_arguments(driver, attention, 64)
    nothing = library.lib.flashcGetVersion
    return (call_times(make_call(loaded, arguments), driver.wait, calls), call_times(nothing, driver.wait, calls))


# --- Printing ---------------------------------------------------------------------------------------------------------

def main():
    def line(what, times, unit, target=None, note=""):
        print(latency_line(what, times, unit, target, note), flush=True)

    print(f"flashc {library.version()}, target {TARGET}; medians")
    for name, attention in programs().items():
        line(f"IR to PTX: {name}", compile_times(attention), "ms", 150)
    driver, reason = open_driver()
    if driver is None:
        print(f"left out, because there is no GPU ({reason}): to a first launch, from disk, per launch")
        return 0
    for name in ("bf16 d=128 causal", "f16 d=256 causal, 4 heads a key head"):
        cold, warm, cold_note, warm_note = first_launch_times(name)
        line(f"to a first launch, cold: {name}", cold, "ms", 1000, cold_note)
        line(f"to a first launch, from disk: {name}", warm, "ms", 5, warm_note)
        one, every = run_in_process([name], CUDA_CACHE_DISABLE="1")
        line(f"in turns, the entry that is launched: {name}", one, "ms")
        line(f"in turns, all entries: {name}", every, "ms", note=f"ratio of the medians "
             f"{statistics.median(one) / statistics.median(every):.2f}")
    launch, nothing = launch_times(driver)
    line("launch (C API through ctypes)", launch, "us", 5, f"an empty ctypes call: {statistics.median(nothing):.2f} us")
    _host.main()
    return 0


if __name__ == "__main__":
    gpu, why = open_driver()
    if gpu is None:
        sys.exit(f"no GPU ({why})")
    measure = first_launch_time if len(sys.argv) > 2 else first_launches_in_turns
    print(json.dumps(measure(gpu, *sys.argv[1:])))
