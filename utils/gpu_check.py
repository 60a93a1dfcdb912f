#!/usr/bin/env python3
"""Checks flashc's kernels on a GPU. Needs the package flashc, PyTorch (CUDA) and a flashc program; no LLVM.

    gpu_check.py                                         every kernel of the grid against float32 attention
    gpu_check.py --flashc build/bin/flashc               with a program that is not on PATH
    gpu_check.py --compile-only DIR                      only compile, on any machine, without PyTorch
    gpu_check.py --sanitize                              a small grid under compute-sanitizer: memcheck, then racecheck
    gpu_check.py --repeat                                2000 launches of causal kernels: no hang, always the same bits

The package comes from a wheel, or from a source tree: PYTHONPATH=python FLASHC_LIBRARY=build/lib/libflashc.so.

An output must meet max|out - ref| <= 2 max|naive - ref| + 2 max|(ref + 0.3 - 0.3) - ref|, where ref is float32
attention on the same inputs, and naive is plain attention in the input type. The relative Frobenius error must be under
3e-3 for bf16 (1e-3 for f16). The log-sum-exp must be within 1e-3, and exactly -inf where a row sees no key. Outputs,
and the memory after every array, are NaN before the launch.

Half of the cells use kernels without the log-sum-exp (*_no_lse), which flashc.attention compiles by default.

Kernels are compiled and run in a worker process, one cell at a time. If a kernel crashes or hangs, only the rest of its
own cells is skipped.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

LENGTHS = [1, 63, 64, 127, 128, 129, 1000, 4096]
UNEQUAL = [(1, 128), (1, 4096), (64, 129), (113, 203), (129, 64), (1000, 129), (128, 1000), (1000, 4096)]
HEAD_DIMS = [(64, 64), (128, 128), (256, 256), (192, 128)]
# Multiples of 8, most of which are no multiples of 64 (a panel's columns) or even of 16 (a product's step). Each pair
# is checked with one type and one mask.
ODD_HEAD_DIMS = [(8, 8), (40, 200), (72, 72), (96, 80), (112, 136), (160, 24), (248, 256)]
TARGET = "sm_90a"


# --- The grid ---------------------------------------------------------------------------------------------------------

def kernel_spec(d, dv, dtype, causal, hq, hk, lse=True):
    name = f"d{d}_{dv}_{dtype}_{'causal' if causal else 'full'}_h{hq}_{hk}{'' if lse else '_no_lse'}"
    return {"name": name, "d": d, "dv": dv, "dtype": dtype, "causal": causal, "hq": hq, "hk": hk, "lse": lse}


def both_flavours(kernel, cells, start):
    """Yields (kernel, cells) for a kernel with and without the log-sum-exp. The two share the cells in turn. The kernel
    with the log-sum-exp takes every second cell, beginning with cell `start` (0 or 1)."""
    yield kernel_spec(*kernel), cells[start::2]
    yield kernel_spec(*kernel, lse=False), cells[1 - start::2]


def check_jobs():
    """Yields (kernel, cells) for the correctness grid. Batch sizes are such that a CTA of a persistent kernel has more
    than one item. A cell that one head group checks with the log-sum-exp is checked without it by the other."""
    for d, dv in HEAD_DIMS:
        for dtype in ("bf16", "f16"):
            for causal in (False, True):
                for start, (hq, hk) in enumerate(((4, 4), (4, 1))):
                    cells = []
                    for nq, nk in [(n, n) for n in LENGTHS] + UNEQUAL:
                        batch = 2 if max(nq, nk) > 1000 else 9 if max(nq, nk) > 129 else 3
                        cells.append({"batch": batch, "nq": nq, "nk": nk, "layout": "bhnd"})
                    cells.append({"batch": 2, "nq": 1000, "nk": 1000, "layout": "bnhd"})
                    yield from both_flavours((d, dv, dtype, causal, hq, hk), cells, start)


def odd_jobs():
    """Yields (kernel, cells) for head dimensions between the common ones. The lengths come in one layout, and then in
    the other. Their number is odd, so each length is checked with and without the log-sum-exp."""
    for index, (d, dv) in enumerate(ODD_HEAD_DIMS):
        cells = [{"batch": 2, "nq": nq, "nk": nk, "layout": layout} for layout in ("bhnd", "bnhd")
                 for nq, nk in ((1, 1), (63, 65), (257, 257), (300, 1001), (1001, 300))]
        yield from both_flavours((d, dv, "bf16" if index % 2 else "f16", index % 3 != 0, 6, 3), cells, index % 2)


def sanitize_jobs():
    """Yields (kernel, cells) small enough for compute-sanitizer. Arrays have no guards, since compute-sanitizer detects
    accesses after an array. One cell has more tiles of queries than a GPU has multiprocessors. Each cell is checked
    with the log-sum-exp for one mask, and without it for the other."""
    for d, dv in HEAD_DIMS:
        for causal in (False, True):
            cells = [{"batch": batch, "nq": nq, "nk": nk, "layout": layout, "guard": 0}
                     for batch, nq, nk, layout in ((1, 1, 63, "bhnd"), (2, 129, 300, "bnhd"), (40, 1, 63, "bhnd"))]
            yield from both_flavours((d, dv, "bf16", causal, 4, 1), cells, int(causal))


def repeat_jobs(times):
    """Yields (kernel, cells) of the causal persistent kernels. Each cell is launched `times` times."""
    for d in (64, 128, 256):
        for start, (hq, hk) in enumerate(((4, 4), (8, 1))):
            cells = [{"batch": batch, "nq": nq, "nk": nk, "layout": "bhnd", "repeat": times}
                     for batch, nq, nk in ((9, 300, 300), (16, 512, 512), (5, 1000, 1300), (2, 4096, 4096))]
            yield from both_flavours((d, d, "bf16", True, hq, hk), cells, start)


def mlir_source(spec):
    q = f"tensor<?x{spec['hq']}x?x{spec['d']}x{spec['dtype']}>"
    k = f"tensor<?x{spec['hk']}x?x{spec['d']}x{spec['dtype']}>"
    v = f"tensor<?x{spec['hk']}x?x{spec['dv']}x{spec['dtype']}>"
    o = f"tensor<?x{spec['hq']}x?x{spec['dv']}x{spec['dtype']}>"
    lse = f"tensor<?x{spec['hq']}x?xf32>"
    results, values = (f"({o}, {lse})", f"%o, %lse : {o}, {lse}") if spec["lse"] else (o, f"%o : {o}")
    shift, mask = "", ""
    if spec["causal"]:
        shift = (f"  %c2 = arith.constant 2 : index\n  %nq = tensor.dim %q, %c2 : {q}\n"
                 f"  %nk = tensor.dim %k, %c2 : {k}\n  %shift = arith.subi %nk, %nq : index\n")
        mask = ("      mask (%b: index, %h: index, %i: index, %j: index) {\n"
                "        %last = arith.addi %i, %shift : index\n"
                "        %keep = arith.cmpi sle, %j, %last : index\n"
                "        flash.yield %keep : i1\n      }\n")
    return (f"func.func @{spec['name']}(%q: {q}, %k: {k}, %v: {v}) -> {results} {{\n{shift}"
            f"  %o, %lse = flash.attention ins(%q, %k, %v : {q}, {k}, {v})\n"
            f"      {{scale = {spec['d'] ** -0.5:.9e} : f32}}\n{mask}      -> {o}, {lse}\n"
            f"  return {values}\n}}\n")


# --- Compiling only ---------------------------------------------------------------------------------------------------

def compile_kernel(context, spec, folder, schedule):
    """Writes NAME.mlir, NAME.ptx and NAME.json. Returns None, or the reason of a failure."""
    import flashc
    stem, text = os.path.join(folder, spec["name"]), mlir_source(spec)
    with open(stem + ".mlir", "w") as file:
        file.write(text)
    try:
        kernel = context.compile_text(text, TARGET, schedule)
    except flashc.Error as error:
        return str(error)
    for suffix, contents in ((".ptx", kernel.ptx()), (".json", kernel.manifest())):
        with open(stem + suffix, "w") as file:
            file.write(contents)
    return None


def compile_all(jobs, folder, schedule):
    """Compiles every kernel into the folder. Returns the exit status."""
    from flashc._runtime import contexts
    start, context = time.time(), contexts.Context(disk_cache=False)
    os.makedirs(folder, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = list(pool.map(lambda job: compile_kernel(context, job[0], folder, schedule), jobs))
    failed = [f"{job[0]['name']}: {error}" for job, error in zip(jobs, errors) if error]
    print(f"compiled {len(jobs) - len(failed)} of {len(jobs)} kernels in {time.time() - start:.1f} s")
    for line in failed:
        print(line)
    return int(bool(failed))


# --- The parent -------------------------------------------------------------------------------------------------------

class WorkerLost(Exception):
    pass


class WorkerProcess:
    """A process of gpu_worker.py, which runs under the command `tool` if there is one."""

    def __init__(self, tool=()):
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu_worker.py")
        # Every array is allocated separately, so that a tool knows where it ends.
        environment = dict(os.environ, PYTORCH_NO_CUDA_MEMORY_CACHING="1") if tool else None
        self.process = subprocess.Popen([*tool, sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=environment, start_new_session=bool(tool))
        self.tool, self.said, self.lines = tool, [], queue.Queue()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.hello = self.answer(180)

    def read(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                self.lines.put(line)
            else:
                self.said.append(line)
        self.lines.put(None)

    def answer(self, timeout):
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            self.close()
            raise WorkerLost(f"no answer in {timeout} s") from None
        if line is None:
            self.process.wait()
            raise WorkerLost(f"the worker died (exit {self.process.returncode}){self.tool_report()}")
        return json.loads(line)

    def ask(self, job, timeout):
        try:
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise WorkerLost("the worker died") from None
        return self.answer(timeout)

    def finish(self, timeout):
        """Ends the worker after its last answer. Returns its tool_report."""
        with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
            self.process.stdin.close()
            self.process.wait(timeout)
            self.reader.join(timeout)
        self.close()
        return self.tool_report()

    def tool_report(self):
        """Returns the end of the tool's output, or "" if it counts no error and no hazard."""
        said = "".join(self.said).rstrip()
        if not self.tool or re.search(r"SUMMARY: 0 (errors|hazards)", said):
            return ""
        return f"; {' '.join(self.tool)} said: {said[-1500:] or 'nothing'}"

    def close(self):
        if self.tool:
            # The process is compute-sanitizer, and the worker is its child. The signal to the group ends both.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


def run_cells(jobs, options, tool=()):
    """Yields (kernel, cell, result) for every cell of every kernel. The last result has the report of the tool."""
    worker, published, deadline = None, False, time.time() + options.budget
    for spec, cells in jobs:
        program = {"text": mlir_source(spec), "target": TARGET, "schedule": options.schedule}
        lost = None
        for cell in cells:
            if lost or time.time() > deadline:
                yield spec, cell, {"skipped": lost or "out of time"}
                continue
            try:
                if worker is None:
                    worker = WorkerProcess(tool)
                    if not published:
                        published = True
                        print("GPU {ready}, PyTorch {torch}, flashc {flashc}".format(**worker.hello), flush=True)
                result = worker.ask(dict(cell, spec=spec, program=program), options.timeout)
            except WorkerLost as error:
                result, worker, lost = {"problem": str(error)}, None, f"after: {error}"
            # A kernel that cannot run is reported once, as a failure of its first cell.
            if result.get("final"):
                lost = f"after: {result['problem']}"
            if result.get("fatal"):
                result["problem"] += worker.finish(options.timeout)
                worker = None
            yield spec, cell, result
    complaint = worker.finish(options.timeout) if worker else ""
    if complaint:
        yield spec, cell, {"problem": f"after the last cell{complaint}"}


def describe(spec, cell):
    layout = "" if cell.get("layout", "bhnd") == "bhnd" else f" {cell['layout']}"
    return f"{spec['name']} B={cell['batch']} Nq={cell['nq']} Nk={cell['nk']}{layout}"


def run_check(jobs, options, tool=()):
    """Prints a line for each kernel, then the failures. Returns (passed, failed, skipped)."""
    rows, failures, totals = {}, [], [0, 0, 0]
    sizes = {spec["name"]: len(cells) for spec, cells in jobs}
    print(f"{'kernel':32} {'passed':>9} {'error/bound':>12} {'frobenius':>10} {'lse error':>10}")
    for spec, cell, result in run_cells(jobs, options, tool):
        row = rows.setdefault(spec["name"], [])
        row.append(result)
        outcome = 2 if "skipped" in result else 1 if "problem" in result else 0
        totals[outcome] += 1
        if outcome == 1:
            failures.append(f"{describe(spec, cell)}: {result['problem']}")
        if len(row) == sizes[spec["name"]]:
            ran = [r for r in row if "error" in r]
            passed = sum("problem" not in r and "skipped" not in r for r in row)
            worst = [max((f(r) for r in ran), default=float("nan")) for f in (
                lambda r: r["error"] / r["bound"] if r["bound"] else float(r["error"] > 0),
                lambda r: r["frobenius"], lambda r: r["lse_error"])]
            print(f"{spec['name']:32} {passed:4}/{len(row):4} {worst[0]:12.3f} {worst[1]:10.2e} {worst[2]:10.2e}",
                  flush=True)
    for line in failures[:options.show]:
        print("FAILED", line)
    if len(failures) > options.show:
        print(f"and {len(failures) - options.show} more failures")
    return totals


def run_sanitized(jobs, options):
    """Calls run_check under each tool of compute-sanitizer that the options name."""
    program = shutil.which("compute-sanitizer")
    if not program:
        sys.exit("gpu_check.py: expected compute-sanitizer on PATH, got none")
    totals = [0, 0, 0]
    for name in options.sanitize.split(","):
        print(f"compute-sanitizer --tool {name}", flush=True)
        # compute-sanitizer checks the kernels with this text in their names: those with 4 query heads and 1 key head.
        tool = [program, "--tool", name, "--kernel-name", "kns=_h4_1"]
        totals = [a + b for a, b in zip(totals, run_check(jobs, options, tool))]
    return totals


EXAMPLE_DIMS = ["B=1,Nq=63,Nk=65", "B=2,Nq=300,Nk=300", "B=3,Nq=257,Nk=129"]
# Schedules of examples/causal.mlir, with a head dimension of 128.
SCHEDULES = ["consumers=1", "consumers=2,ping-pong=false", "consumers=3,kv-tile=64",
             "consumers=2,kv-tile=176,stages=2", "stages=1",
             "consumers=2,kv-tile=80,stages=3", "q-stages=1", "q-stages=1,store=q-slot", "store=registers",
             "epilogue=plain", "epilogue=plain,store=registers", "wait-after=24",
             "stages=2,store=own-slot", "stages=2,q-stages=1,store=own-slot",
             "consumers=2,stages=2,q-stages=1,store=own-slot,epilogue=product",
             "stages=2,store=own-slot,persistent=false",
             "consumers=2,stages=2,q-stages=2,epilogue=softmax",
             "consumers=2,stages=2,q-stages=1,store=own-slot,epilogue=softmax,wait-after=12"]
# Schedules of a kernel without the log-sum-exp and with a head dimension of 64.
SCHEDULES_64 = ["tensor-sums=false", "wait-after=0", "wait-after=24", "tensor-sums=false,wait-after=24",
                "store=q-slot", "q-stages=2", "q-stages=2,epilogue=plain", "q-stages=2,store=registers",
                "q-stages=2,tensor-sums=false", "persistent=false",
                "q-stages=2,store=own-slot", "q-stages=1,store=own-slot",
                "q-stages=2,epilogue=softmax",
                "q-stages=2,store=own-slot,epilogue=softmax,wait-after=0"]


def launcher_runs():
    """Yields (program, options) for runs of flashc with its own launcher. A program is a file, or a kernel of the grid.
    Every example runs at several sizes. One example and one kernel run with every schedule, with more tiles of queries
    than CTAs."""
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".mlir"):
            for dims in EXAMPLE_DIMS:
                yield os.path.join(folder, name), [f"--dims={dims}"]
    for schedule in SCHEDULES:
        yield os.path.join(folder, "causal.mlir"), ["--dims=B=20,Nq=140,Nk=260", f"--schedule={schedule}"]
    for schedule in SCHEDULES_64:
        spec = kernel_spec(64, 64, "bf16", True, 4, 1, lse=False)
        yield spec, ["--dims=B=40,Nq=200,Nk=260", f"--schedule={schedule}"]


def run_launcher(options):
    """Runs flashc --run=gpu --check, which compiles, launches and compares by itself. Returns (passed, failed)."""
    passed = wrong = 0
    for program, arguments in launcher_runs():
        path, text = (program, None) if isinstance(program, str) else ("-", mlir_source(program))
        command = [options.flashc, path, *arguments, "--run=gpu", "--check"]
        try:
            done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=options.timeout)
            status, output = done.returncode, (done.stdout + done.stderr).strip()
        except (OSError, subprocess.TimeoutExpired) as error:
            status, output = 1, str(error)
        passed, wrong = passed + (status == 0), wrong + (status != 0)
        label = " ".join([os.path.basename(program) if text is None else program["name"], *arguments])
        print(f"passed {label}" if status == 0 else f"FAILED {label}: {output[-600:]}", flush=True)
    return passed, wrong


def choose_jobs(options):
    """Returns (kernel, cells) that the options ask for."""
    if options.sanitize:
        return sanitize_jobs()
    return repeat_jobs(options.repeat) if options.repeat else [*check_jobs(), *odd_jobs()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flashc", default="flashc", help="the program, for flashc --run=gpu --check")
    parser.add_argument("--schedule", help="overrides of the schedule table for the kernels of the grid")
    parser.add_argument("--filter", default="", help="only kernels whose name matches this regular expression")
    parser.add_argument("--cells", default="", help="only cells whose description matches this regular expression")
    parser.add_argument("--compile-only", metavar="DIR", help="leave the kernels of the grid in DIR, launch nothing")
    parser.add_argument("--sanitize", nargs="?", const="memcheck,racecheck", metavar="TOOLS",
                        help="run a small grid under these tools of compute-sanitizer (memcheck,racecheck)")
    parser.add_argument("--repeat", nargs="?", type=int, const=2000, metavar="N",
                        help="launch causal persistent kernels N times (2000) and compare the bits of their results")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one cell")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds for all cells; the rest is skipped")
    parser.add_argument("--show", type=int, default=40, help="how many failures to print")
    parser.add_argument("--no-launcher", action="store_true", help="leave out flashc --run=gpu --check")
    parser.add_argument("--list", action="store_true", help="print the cells, do nothing")
    options = parser.parse_args()
    jobs = [(spec, [cell for cell in cells if re.search(options.cells, describe(spec, cell))])
            for spec, cells in choose_jobs(options) if re.search(options.filter, spec["name"])]
    jobs = [(spec, cells) for spec, cells in jobs if cells]
    if options.list:
        for spec, cells in jobs:
            print("\n".join(describe(spec, cell) for cell in cells))
        return 0
    # Imported here, so that a missing package gives one message and not one for each worker.
    try:
        import flashc  # noqa: F401
    except (ImportError, RuntimeError) as error:
        sys.exit(f"gpu_check.py: {error}\nexpected the package flashc: install its wheel, or in a source tree set "
                 "PYTHONPATH=python FLASHC_LIBRARY=build/lib/libflashc.so")
    if options.compile_only:
        return compile_all(jobs, options.compile_only, options.schedule)
    totals = run_sanitized(jobs, options) if options.sanitize else run_check(jobs, options)
    if not (options.no_launcher or options.sanitize or options.repeat):
        passed, wrong = run_launcher(options)
        totals = [totals[0] + passed, totals[1] + wrong, totals[2]]
    print("{} passed, {} failed, {} skipped".format(*totals))
    return int(totals[1] > 0 or totals[0] == 0)


if __name__ == "__main__":
    sys.exit(main())
