"""Finds the unit that limits flashc in each cell of the benchmark's grid, from hardware counters. Needs a GPU whose
counters Nsight Compute (ncu) may read, PyTorch, and the package flashc.

    gpu_measure limits                                       every cell of the grid
    gpu_measure limits --grid d=128 n=4096,16384 causal=1    some of them, as for python -m flashc.bench
    gpu_measure limits --schedule consumers=2 --csv out.csv  another schedule; every number to a file

Each cell is launched once to compile, and once to measure. ncu does not change the clocks. It runs the measured launch
several times, alone on the GPU, so the clock differs from that of a benchmark, which the power limit lowers.

`us` is the time, and `MHz` the clock of the multiprocessors. The other columns are in percent of the peak over the
launch. `useful`: the operations that attention needs, relative to the 4096 that the tensor cores of a multiprocessor do
in a cycle; `tensor`: cycles in which the tensor cores ran, also for masked parts of a tile; `xu`: exponentials; `fma`,
`alu`, `uniform`: these pipes; `issue`: the instruction schedulers; `l2`, `dram`: throughput; `SMs`: cycles in which a
multiprocessor had a CTA.
The limit is the busiest unit. If that unit is under 60%, the limit is `latency`, followed by the unit. If
multiprocessors had work for less than 85% of the time, the limit is `idle SMs`.
"""

import argparse
import csv
import os
import shutil
import subprocess
import sys
import tempfile

PEAK = "pct_of_peak_sustained_elapsed"
# ncu's metrics of the units that may limit a kernel.
UNITS = {
    "tensor": f"sm__pipe_tensor_cycles_active.avg.{PEAK}",
    "xu": f"sm__inst_executed_pipe_xu.avg.{PEAK}",
    "fma": f"sm__pipe_fma_cycles_active.avg.{PEAK}",
    "alu": f"sm__pipe_alu_cycles_active.avg.{PEAK}",
    "uniform": f"sm__inst_executed_pipe_uniform.avg.{PEAK}",
    "issue": f"sm__inst_issued.avg.{PEAK}",
    "l2": f"lts__throughput.avg.{PEAK}",
    "dram": f"gpu__dram_throughput.avg.{PEAK}",
}
TIME, CLOCK, ACTIVE = "gpu__time_duration.sum", "sm__cycles_elapsed.avg.per_second", f"sm__cycles_active.avg.{PEAK}"
PROCESSORS = "device__attribute_multiprocessor_count"
METRICS = [TIME, CLOCK, ACTIVE, PROCESSORS, *UNITS.values()]
# Factors to ns and to Hz. Versions of ncu have different names for the base units.
SCALES = {TIME: {"ns": 1, "nsecond": 1, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6},
          CLOCK: {"hz": 1, "cycle/second": 1, "cycle/s": 1, "mhz": 1e6, "ghz": 1e9, "cycle/nsecond": 1e9,
                  "cycle/usecond": 1e6}}
TENSOR_FLOPS = 4096  # of dense 16-bit products, per cycle and multiprocessor: 989 TFLOP/s of 132 at 1.83 GHz
BUSY, WORKING = 60, 85  # percent; see above
COLUMNS = ["us", "MHz", "useful", *UNITS, "SMs"]


class LimitsError(Exception):
    """A reason why the metrics cannot be measured."""


# --- Reading ncu ------------------------------------------------------------------------------------------------------

def read_rows(text):
    """Returns {metric: number} for every launch, from the output of `ncu --csv --page raw --print-units base`. Raises
    LimitsError if a metric is missing."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    if len(lines) < 3:
        said = " ".join(line.strip() for line in text.splitlines() if line.strip())
        raise LimitsError(f"expected a launch in ncu's output, got: {said[-600:] or 'nothing'}")
    table = list(csv.DictReader(lines))
    units, rows = table[0], []
    for launch in table[1:]:
        row = {}
        for metric in METRICS:
            try:
                row[metric] = float(launch[metric].replace(",", ""))
            except (KeyError, ValueError, AttributeError):
                got = launch.get(metric)
                raise LimitsError(f"expected the metric {metric}, which this ncu or GPU does not have: got "
                                  f"{'no column' if got is None else repr(got)}; see ncu --query-metrics") from None
            scales = SCALES.get(metric)
            if scales and units[metric].lower() not in scales:
                raise LimitsError(f"expected {metric} in one of {', '.join(scales)}, got '{units[metric]}'")
            if scales:
                row[metric] *= scales[units[metric].lower()]
        rows.append(row)
    return rows


def columns(cell, row):
    """Returns {column: number} for a cell, from its metrics."""
    cycles = row[TIME] * 1e-9 * row[CLOCK]
    useful = 100 * cell.flops / (cycles * row[PROCESSORS] * TENSOR_FLOPS)
    return {"us": row[TIME] / 1e3, "MHz": row[CLOCK] / 1e6, "useful": useful,
            **{name: row[metric] for name, metric in UNITS.items()}, "SMs": row[ACTIVE]}


def limit(values):
    """Returns the name of the unit that limits a launch, from its columns."""
    unit = max(UNITS, key=values.get)
    if values["SMs"] < WORKING:
        return f"idle SMs ({unit} {values[unit]:.0f})"
    return unit if values[unit] >= BUSY else f"latency ({unit} {values[unit]:.0f})"


# --- Under ncu --------------------------------------------------------------------------------------------------------

def run_cells(cells, options):
    """Launches every cell twice, the second time between cudaProfilerStart and Stop. ncu profiles this process."""
    import torch
    if not torch.cuda.is_available():
        sys.exit("gpu_measure limits: expected a GPU, got none")
    import flashc
    flashc.configure(disk_cache=False)
    dtypes = {"bf16": torch.bfloat16, "f16": torch.float16}
    for cell in cells:
        q, k, v = (torch.randn((cell.batch, heads, cell.n, d), device="cuda", dtype=dtypes[cell.dtype])
                   for heads, d in ((cell.heads, cell.d), (cell.key_heads, cell.d), (cell.key_heads, cell.dv)))
        for measured in (False, True):
            torch.cuda.synchronize()
            if measured:
                torch.cuda.cudart().cudaProfilerStart()
            flashc.attention(q, k, v, causal=cell.causal, enable_gqa=cell.group != 1, schedule=options.schedule,
                             static_shapes=options.static_shapes)
            torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()


def measure(cells, options):
    """Returns the metrics of every cell. Runs this program under ncu."""
    if not shutil.which(options.ncu):
        raise LimitsError(f"expected Nsight Compute, got no program '{options.ncu}'")
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "ncu.csv")
        command = [options.ncu, "--clock-control", "none", "--cache-control", "none", "--profile-from-start", "off",
                   "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(METRICS), "--log-file",
                   log, sys.executable, os.path.dirname(os.path.abspath(__file__)), "limits", "--run-cells"]
        command += ["--grid", *options.grid] if options.grid else []
        command += ["--schedule", options.schedule] if options.schedule else []
        command += ["--static-shapes"] if options.static_shapes else []
        done = subprocess.run(command, capture_output=True, text=True)
        text = ""
        if os.path.exists(log):
            with open(log, encoding="utf-8", errors="replace") as file:
                text = file.read()
        if done.returncode:
            errors = "\n".join(line for line in text.splitlines() if not line.startswith('"'))
            raise LimitsError(f"ncu ended with status {done.returncode}:\n{errors}{done.stdout}{done.stderr}".strip())
    rows = read_rows(text)
    if len(rows) != len(cells):
        raise LimitsError(f"expected one launch for each of {len(cells)} cells, got {len(rows)}")
    return rows


# --- The table --------------------------------------------------------------------------------------------------------

def print_table(found):
    """Prints a line for each (cell, columns)."""
    width = max(len(str(cell)) for cell, _ in found)
    print(" ".join([f"{'cell':{width}}", *(f"{name:>7}" for name in COLUMNS), " limit"]))
    for cell, values in found:
        numbers = (f"{values[name]:7.0f}" if name == "MHz" else f"{values[name]:7.1f}" for name in COLUMNS)
        print(" ".join([f"{str(cell):{width}}", *numbers, f" {limit(values)}"]))


def write_csv(path, found):
    """Writes a line for each (cell, columns), with columns for the cell's fields."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["dtype", "d", "dv", "causal", "n", "batch", "heads", "group", *COLUMNS, "limit"])
        for cell, values in found:
            writer.writerow([cell.dtype, cell.d, cell.dv, int(cell.causal), cell.n, cell.batch, cell.heads, cell.group,
                             *(f"{values[name]:.2f}" for name in COLUMNS), limit(values)])


def main():
    # Imported here, so that a missing package gives one message.
    try:
        from flashc.bench import _grid
    except (ImportError, RuntimeError) as error:
        sys.exit(
            f"gpu_measure limits: {error}\nexpected the package flashc: install its wheel, or in a source tree set "
            "PYTHONPATH=python FLASHC_LIBRARY=build/lib/libflashc.so")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", nargs="+", default=[], metavar="KEY=VALUES", help=_grid.HELP)
    parser.add_argument("--schedule", help="overrides of the schedule table")
    parser.add_argument("--static-shapes", action="store_true", help="compile for each cell's shapes")
    parser.add_argument("--csv", metavar="FILE", help="write the table there, too")
    parser.add_argument("--ncu", default="ncu", help="the program")
    parser.add_argument("--run-cells", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        cells = _grid.parse_grid(options.grid)
        if options.run_cells:
            return run_cells(cells, options)
        rows = measure(cells, options)
    except (_grid.GridError, LimitsError) as error:
        sys.exit(f"gpu_measure limits: {error}")
    found = [(cell, columns(cell, row)) for cell, row in zip(cells, rows)]
    print_table(found)
    if options.csv:
        write_csv(options.csv, found)
    return 0
