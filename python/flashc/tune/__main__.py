"""The command line of `python -m flashc.tune`."""

import argparse
import datetime
import hashlib
import math
import os
import sys
import time

import flashc

from ..bench._grid import HELP as GRID_HELP
from ..bench._grid import GridError, parse_grid
from ..bench._progress import Progress
from . import _table
from ._journal import Journal
from ._search import DEFAULT, Lost, OutOfTime, Search
from ._space import SPACE, by_key, parse_space, schedules

DESCRIPTION = """Finds the fastest schedule for each element type, pair of head dimensions and class of masks (none, or
bounds: as causal), for each number of queries, on this machine's GPU. Schedules that the compiler refuses are left out,
and those whose numbers are wrong; the others are timed in turns, all of them briefly, the best of them longer. The
result is a table in the user's cache, which flashc uses from then on; rows for few queries are there where they are
faster by more than 2%."""

TABLE_VARIABLE = "FLASHC_SCHEDULE_TABLE"  # Names the table that flashc reads instead (docs/schedules.md).

EXAMPLES = """examples:
  python -m flashc.tune                                  everything
  python -m flashc.tune --keys d=64,192x128 causal=1     a part; n=512..4096 are the numbers of queries
  python -m flashc.tune --space stages=2,3 persistent=true,false
  python -m flashc.tune --print                          the table, in the form of the built-in one

It can be stopped at any time: the same command goes on where it was.
exit status: 0; 1 if something failed; 2 for a wrong command line; 3 if it stopped before the end, because of --budget
or because a kernel took the GPU down (it is left out the next time); 130 after Ctrl-C."""


def build_parser():
    parser = argparse.ArgumentParser(prog="python -m flashc.tune", description=DESCRIPTION, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", nargs="+", default=[], metavar="KEY=VALUES", help="what to tune, as cells of the "
                        "benchmark, one for each number of queries (default: its grid, and 192x128); " + GRID_HELP)
    parser.add_argument("--space", nargs="+", default=[], metavar="CHOICE=VALUES", help="values to try of "
                        "fields of the schedule, instead of these, or of other fields: " + " ".join(
                            f"{key}={','.join(values)}" for key, values in SPACE.items()))
    parser.add_argument("--budget", type=float, default=math.inf, metavar="SECONDS", help="stop after that long")
    parser.add_argument("--print", action="store_true", help="print the table of this GPU, search nothing")
    parser.add_argument("--list", action="store_true", help="print what would be tuned, search nothing")
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs (default: 0)")
    return parser


def report(result, count):
    """Returns lines about a search. For each number of queries they have the time with today's table, and the time with
    the new row."""
    key = result.rows[0].key
    lines = [f"{key}: {count} schedules, {len(result.refused)} refused by the compiler, {len(result.wrong)} with wrong "
             "numbers"]
    lines += [f"  wrong: {schedule}: {problem}" for schedule, problem in result.wrong.items()]
    for cell, times in result.times.items():
        chosen = result.chosen[cell]
        now = times.get(DEFAULT, math.nan)
        lines.append(f"  {cell.n:6} queries: {now:.4f} -> {times[chosen]:.4f} ms ({now / times[chosen] - 1:+.1%})  "
                     f"{result.overrides[chosen]}")
    return lines


def tune(device, library, keys, overrides, deadline):
    """Searches for all keys. Returns the exit status."""
    path = device.table
    journal_path = path[:-len("txt")] + "journal"
    journal = Journal(journal_path, library)
    progress = Progress(100)  # percent
    finished = 0

    def show(what, part):
        progress.done = int(100 * (finished + part) / len(keys))
        progress.show(what)

    def say(*lines):
        progress.clear()
        print("\n".join(lines), flush=True)

    search = Search(device, journal, overrides, show, deadline)
    try:
        for key, cells in keys.items():
            what = f"{key}: " + hashlib.sha256(repr((cells, overrides)).encode()).hexdigest()
            if what in journal.done:
                finished += 1
                continue
            result = search.run(key, cells)
            _table.write(path, _table.replace_key(_table.read(path), key, result.rows, device.name,
                                                  datetime.date.today().isoformat()))
            journal.note_done(what)
            finished += 1
            say(*report(result, len(overrides)), *map(str, result.rows), "")
    except OutOfTime:
        say(f"stopped after {finished} of {len(keys)} keys: the time is over; the same command goes on")
        return 3
    except Lost as error:
        say(f"stopped after {finished} of {len(keys)} keys: the GPU failed: {error}; the same command goes on without")
        return 3
    except KeyboardInterrupt:
        say(f"stopped after {finished} of {len(keys)} keys; the same command goes on")
        return 130
    except flashc.Error as error:
        say(f"flashc.tune: {error}")
        return 1
    finally:
        journal.close()
    os.unlink(journal_path)
    say(f"wrote {path}")
    return 0


def main(arguments=None):
    start = time.monotonic()
    parser = build_parser()
    options = parser.parse_args(arguments)
    items = options.keys if any(item.startswith("d=") for item in options.keys) else ["d=64,128,192x128,256",
                                                                                      *options.keys]
    try:
        keys = by_key(parse_grid(items))
    except (GridError, ValueError) as error:
        parser.error(f"--keys: {error}")
    try:
        overrides = schedules(parse_space(options.space))
    except ValueError as error:
        parser.error(f"--space: {error}")
    if options.list:
        for key, cells in keys.items():
            print(f"{key}: {len(overrides)} schedules, for {', '.join(str(cell.n) for cell in cells)} queries")
        return 0
    if TABLE_VARIABLE in os.environ and not options.print:
        parser.error(f"{TABLE_VARIABLE} is set, so that flashc would not read the table that is written: unset it")
    try:
        import torch
    except ImportError as error:
        parser.exit(1, f"flashc.tune needs PyTorch with CUDA: {error}\n")
    if not torch.cuda.is_available():
        parser.exit(1, "flashc.tune needs a GPU, and PyTorch sees none\n")
    from . import _device
    device = _device.GPU(options.seed)
    if options.print:
        text = _table.read(device.table)
        if not text:
            parser.exit(1, f"flashc.tune: there is no table of {device.name} yet: {device.table}\n")
        print(text, end="")
        return 0
    return tune(device, _device.library_version(), keys, overrides, start + options.budget)


if __name__ == "__main__":
    status = main()
    if status == 3:
        # A kernel may still be running. At a normal exit, CUDA would wait for it.
        sys.stdout.flush()
        os._exit(status)
    sys.exit(status)
