#!/usr/bin/env python3
"""Checks and times flashc's kernels on a GPU. Needs Python 3 with PyTorch (CUDA) and a flashc program; no LLVM.

    gpu_check.py --flashc bin/flashc                     every kernel of the grid against float32 attention
    gpu_check.py --flashc bin/flashc --bench out.csv     speed beside cuDNN, FlashAttention-2 and cuBLAS, interleaved
    gpu_check.py --flashc bin/flashc --compile-only DIR  only compile, on any machine; later: --kernels DIR

The check of an output: max|out - ref| <= 2 max|naive - ref| + 2 max|(ref + 0.3 - 0.3) - ref|, where ref is float32
attention on the same inputs and naive is plain attention in the input type; the relative Frobenius error is under 3e-3
for bf16 (1e-3 for f16); the log-sum-exp is within 1e-3 and exactly -inf where a row sees no key. Outputs and what lies
behind every array are NaN before the launch.

Kernels run in a worker process, one cell at a time. One that crashes or hangs costs only the rest of its own cells.
"""

import argparse
import concurrent.futures
import csv
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time

LENGTHS = [1, 63, 64, 127, 128, 129, 1000, 4096]
UNEQUAL = [(1, 128), (1, 4096), (64, 129), (113, 203), (129, 64), (1000, 129), (128, 1000), (1000, 4096)]
HEAD_DIMS = [(64, 64), (128, 128), (256, 256), (192, 128)]
# Multiples of 8 that fill neither a panel of 64 columns nor a step of 16; each with half of the masks and types.
ODD_HEAD_DIMS = [(8, 8), (40, 200), (72, 72), (96, 80), (112, 136), (160, 24), (248, 256)]
BENCH_TOKENS, BENCH_HIDDEN = 16384, 2048
BENCH_LENGTHS = [512, 1024, 2048, 4096, 8192, 16384]


# --- The grid ---------------------------------------------------------------------------------------------------------

def kernel_spec(d, dv, dtype, causal, hq, hk):
    name = f"d{d}_{dv}_{dtype}_{'causal' if causal else 'full'}_h{hq}_{hk}"
    return {"name": name, "d": d, "dv": dv, "dtype": dtype, "causal": causal, "hq": hq, "hk": hk}


def check_jobs():
    """(kernel, cells) for the correctness grid. Batch sizes give the persistent loop more than one item per CTA."""
    for d, dv in HEAD_DIMS:
        for dtype in ("bf16", "f16"):
            for causal in (False, True):
                for hq, hk in ((4, 4), (4, 1)):
                    kernel = kernel_spec(d, dv, dtype, causal, hq, hk)
                    cells = []
                    for nq, nk in [(n, n) for n in LENGTHS] + UNEQUAL:
                        batch = 2 if max(nq, nk) > 1000 else 9 if max(nq, nk) > 129 else 3
                        cells.append({"kind": "check", "batch": batch, "nq": nq, "nk": nk, "layout": "bhnd"})
                    cells.append({"kind": "check", "batch": 2, "nq": 1000, "nk": 1000, "layout": "bnhd"})
                    yield kernel, cells


def odd_jobs():
    """(kernel, cells) for head dimensions between the common ones."""
    for index, (d, dv) in enumerate(ODD_HEAD_DIMS):
        kernel = kernel_spec(d, dv, "bf16" if index % 2 else "f16", index % 3 != 0, 6, 3)
        yield kernel, [{"kind": "check", "batch": 2, "nq": nq, "nk": nk, "layout": layout}
                       for nq, nk in ((1, 1), (63, 65), (257, 257), (300, 1001), (1001, 300))
                       for layout in ("bhnd", "bnhd")]


def bench_jobs():
    for d in (64, 128, 256):
        for causal in (False, True):
            heads = BENCH_HIDDEN // d
            cells = [{"kind": "bench", "batch": BENCH_TOKENS // n, "nq": n, "nk": n} for n in BENCH_LENGTHS]
            yield kernel_spec(d, d, "bf16", causal, heads, heads), cells


def mlir_source(spec):
    q = f"tensor<?x{spec['hq']}x?x{spec['d']}x{spec['dtype']}>"
    k = f"tensor<?x{spec['hk']}x?x{spec['d']}x{spec['dtype']}>"
    v = f"tensor<?x{spec['hk']}x?x{spec['dv']}x{spec['dtype']}>"
    o = f"tensor<?x{spec['hq']}x?x{spec['dv']}x{spec['dtype']}>"
    lse = f"tensor<?x{spec['hq']}x?xf32>"
    shift, mask = "", ""
    if spec["causal"]:
        shift = (f"  %c2 = arith.constant 2 : index\n  %nq = tensor.dim %q, %c2 : {q}\n"
                 f"  %nk = tensor.dim %k, %c2 : {k}\n  %shift = arith.subi %nk, %nq : index\n")
        mask = ("      mask (%b: index, %h: index, %i: index, %j: index) {\n"
                "        %last = arith.addi %i, %shift : index\n"
                "        %keep = arith.cmpi sle, %j, %last : index\n"
                "        flash.yield %keep : i1\n      }\n")
    return (f"func.func @{spec['name']}(%q: {q}, %k: {k}, %v: {v}) -> ({o}, {lse}) {{\n{shift}"
            f"  %o, %lse = flash.attention ins(%q, %k, %v : {q}, {k}, {v})\n"
            f"      {{scale = {spec['d'] ** -0.5:.9e} : f32}}\n{mask}      -> {o}, {lse}\n"
            f"  return %o, %lse : {o}, {lse}\n}}\n")


# --- Compiling --------------------------------------------------------------------------------------------------------

def compile_kernel(spec, folder, options):
    """Writes NAME.mlir, NAME.ptx, NAME.json. Returns None, or why it failed."""
    stem = os.path.join(folder, spec["name"])
    if options.kernels and os.path.exists(stem + ".ptx") and os.path.exists(stem + ".json"):
        return None
    with open(stem + ".mlir", "w") as file:
        file.write(mlir_source(spec))
    command = [options.flashc, stem + ".mlir", "-o", stem + ".ptx", "--target=sm_90a"] + options.flashc_args.split()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode != 0:
        return f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()[-400:]}"
    return None


def compile_all(jobs, folder, options):
    """Returns {kernel name: error} of the kernels that do not compile."""
    start = time.time()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = list(pool.map(lambda job: compile_kernel(job[0], folder, options), jobs))
    failed = {job[0]["name"]: error for job, error in zip(jobs, errors) if error}
    print(f"compiled {len(jobs) - len(failed)} of {len(jobs)} kernels in {time.time() - start:.1f} s", flush=True)
    return failed


# --- The parent -------------------------------------------------------------------------------------------------------

class WorkerLost(Exception):
    pass


class WorkerProcess:
    def __init__(self):
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu_worker.py")
        self.process = subprocess.Popen([sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        self.hello = self.answer(180)

    def read(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                self.lines.put(line)
        self.lines.put(None)

    def answer(self, timeout):
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            self.close()
            raise WorkerLost(f"no answer in {timeout} s") from None
        if line is None:
            self.process.wait()
            raise WorkerLost(f"the worker died (exit {self.process.returncode})")
        return json.loads(line)

    def ask(self, job, timeout):
        try:
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise WorkerLost("the worker died") from None
        return self.answer(timeout)

    def close(self):
        self.process.kill()
        self.process.wait()


def run_cells(jobs, folder, failed, options):
    """Yields (kernel, cell, result) for every cell of every kernel."""
    worker, deadline = None, time.time() + options.budget
    for spec, cells in jobs:
        lost = f"does not compile: {failed[spec['name']]}" if spec["name"] in failed else None
        for index, cell in enumerate(cells):
            if lost or time.time() > deadline:
                # What kept the kernel from running is reported once, as its first cell's failure.
                key = "problem" if index == 0 and lost else "skipped"
                yield spec, cell, {key: lost or "out of time"}
                continue
            try:
                if worker is None:
                    worker = WorkerProcess()
                    if not options.announced:
                        options.announced = True
                        print("GPU {ready}, PyTorch {torch}, cuDNN {cudnn}".format(**worker.hello), flush=True)
                job = dict(cell, spec=spec, stem=os.path.join(folder, spec["name"]))
                result = worker.ask(job, options.timeout)
            except WorkerLost as error:
                result, worker, lost = {"problem": str(error)}, None, f"after: {error}"
            if result.get("fatal"):
                lost = f"after: {result['problem']}"
                worker.close()
                worker = None
            yield spec, cell, result
    if worker:
        worker.close()


def describe(spec, cell):
    layout = "" if cell.get("layout", "bhnd") == "bhnd" else f" {cell['layout']}"
    return f"{spec['name']} B={cell['batch']} Nq={cell['nq']} Nk={cell['nk']}{layout}"


def run_check(jobs, folder, failed, options):
    """Prints a line for each kernel, then the failures. Returns (passed, failed, skipped)."""
    rows, failures, totals = {}, [], [0, 0, 0]
    sizes = {spec["name"]: len(cells) for spec, cells in jobs}
    print(f"{'kernel':32} {'passed':>9} {'error/bound':>12} {'frobenius':>10} {'lse error':>10}")
    for spec, cell, result in run_cells(jobs, folder, failed, options):
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


EXAMPLE_DIMS = ["B=1,Nq=63,Nk=65", "B=2,Nq=300,Nk=300", "B=3,Nq=257,Nk=129"]
SCHEDULES = ["consumers=1", "consumers=2,ping-pong=false", "consumers=2,overlap=false", "consumers=3,kv-tile=64",
             "consumers=2,overlap=false,ping-pong=false", "consumers=2,kv-tile=176", "stages=1", "stages=3,kv-tile=80"]


def launcher_runs():
    """Options of flashc for its own launcher: every example at several sizes, one of them with every schedule."""
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".mlir"):
            for dims in EXAMPLE_DIMS:
                yield [os.path.join(folder, name), f"--dims={dims}"]
    for schedule in SCHEDULES:
        yield [os.path.join(folder, "causal.mlir"), "--dims=B=2,Nq=500,Nk=777", f"--schedule={schedule}"]


def run_launcher(options):
    """flashc --run=gpu --check, which compiles, launches and compares by itself. Returns (passed, failed)."""
    passed = wrong = 0
    for arguments in launcher_runs():
        command = [options.flashc, *arguments, "--run=gpu", "--check"] + options.flashc_args.split()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
            status, text = done.returncode, (done.stdout + done.stderr).strip()
        except (OSError, subprocess.TimeoutExpired) as error:
            status, text = 1, str(error)
        passed, wrong = passed + (status == 0), wrong + (status != 0)
        label = " ".join([os.path.basename(arguments[0]), *arguments[1:]])
        print(f"passed {label}" if status == 0 else f"FAILED {label}: {text[-600:]}", flush=True)
    return passed, wrong


def run_bench(jobs, folder, failed, options):
    """Prints and writes a row for each cell. Returns (passed, failed, skipped)."""
    totals = [0, 0, 0]
    columns = ["flashc", "cudnn", "fa2", "cublas"]
    with open(options.bench, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["d", "causal", "N", "ms"] + columns + ["ratio", "difference", "note"])
        print(f"{'d':>4} {'causal':>6} {'N':>6} " + " ".join(f"{c:>7}" for c in columns) + "   ratio")
        for spec, cell, result in run_cells(jobs, folder, failed, options):
            note = result.get("problem", result.get("skipped", ""))
            totals[2 if "skipped" in result else 1 if note else 0] += 1
            rates = [result.get(c, float("nan")) for c in columns]
            peers = [result[c] for c in ("cudnn", "fa2") if c in result]
            ratio = rates[0] / max(peers) if peers else float("nan")
            print(f"{spec['d']:4} {int(spec['causal']):6} {cell['nq']:6} " + " ".join(f"{r:7.0f}" for r in rates) +
                  f" {ratio:7.2f}  {note}", flush=True)
            writer.writerow([spec["d"], int(spec["causal"]), cell["nq"], f"{result.get('ms', float('nan')):.4f}"] +
                            [f"{r:.1f}" for r in rates] +
                            [f"{ratio:.3f}", f"{result.get('difference', float('nan')):.2e}", note])
            file.flush()
    return totals


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flashc", default="flashc", help="the compiler")
    parser.add_argument("--flashc-args", default="", help="further options for it, in one string")
    parser.add_argument("--bench", metavar="CSV", help="time instead of check; write a table")
    parser.add_argument("--filter", default="", help="only kernels whose name matches this regular expression")
    parser.add_argument("--cells", default="", help="only cells whose description matches this regular expression")
    parser.add_argument("--compile-only", metavar="DIR", help="leave the compiled kernels in DIR, launch nothing")
    parser.add_argument("--kernels", metavar="DIR", help="use the kernels compiled there, where they exist")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one cell")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds for all cells; the rest is skipped")
    parser.add_argument("--show", type=int, default=40, help="how many failures to print")
    parser.add_argument("--no-launcher", action="store_true", help="leave out flashc --run=gpu --check")
    parser.add_argument("--list", action="store_true", help="print the cells, do nothing")
    options = parser.parse_args()
    options.announced = False
    jobs = [(spec, [cell for cell in cells if re.search(options.cells, describe(spec, cell))])
            for spec, cells in (bench_jobs() if options.bench else [*check_jobs(), *odd_jobs()])
            if re.search(options.filter, spec["name"])]
    jobs = [(spec, cells) for spec, cells in jobs if cells]
    if options.list:
        for spec, cells in jobs:
            print("\n".join(describe(spec, cell) for cell in cells))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.abspath(options.compile_only or options.kernels or scratch)
        os.makedirs(folder, exist_ok=True)
        failed = compile_all(jobs, folder, options)
        if options.compile_only:
            print("\n".join(f"{name}: {error}" for name, error in failed.items()), end="\n" if failed else "")
            return int(bool(failed))
        totals = (run_bench if options.bench else run_check)(jobs, folder, failed, options)
        if not options.bench and not options.no_launcher:
            passed, wrong = run_launcher(options)
            totals = [totals[0] + passed, totals[1] + wrong, totals[2]]
    print("{} passed, {} failed, {} skipped".format(*totals))
    return int(totals[1] > 0 or totals[0] == 0)


if __name__ == "__main__":
    sys.exit(main())
