"""The search for one key. It finds the schedules that compile, those that give right numbers, and the fastest schedule
for each number of queries.

The device is an object with a `name`, the path of its `table`, and

    present(cell) -> []                  the whole schedules of the present table, for all numbers of queries
    prepare(cell, overrides) -> str      compile and load; the whole schedule; raises CompileError. From any thread.
    check(cell, schedule) -> str         run a kernel for the first time; the problem of its numbers, or ""
    time(cell, schedules, effort) -> {}  milliseconds of each, timed in turns
    shorten(cell, schedule) -> str       the fields that a row needs for a whole schedule

`check` and `time` raise Lost. Schedules are texts, as in `flashc.attention(schedule=...)`. A whole schedule has all
fields; fields that overrides leave out come from the table."""

import concurrent.futures
import math
import os
import time
from typing import Dict, List, NamedTuple

import flashc

from ..bench._grid import Cell
from ._space import key_of
from ._table import Row, merge


class Effort(NamedTuple):
    """Says how long schedules are timed, in at least `rounds` rounds. `part` of the schedules, but at least `least` of
    them, go on to the next stage."""
    total_ms: float
    rounds: int
    warm_up_ms: float
    part: float
    least: int


# The first stage times all schedules roughly, later stages time fewer schedules for longer.
STAGES = [Effort(total_ms=6, rounds=3, warm_up_ms=1, part=0.2, least=12),
          Effort(total_ms=30, rounds=6, warm_up_ms=3, part=0.0, least=3)]
# The best schedules for each number of queries are then timed for all numbers. Rows are made from these times.
FINAL = Effort(total_ms=100, rounds=10, warm_up_ms=10, part=1.0, least=0)
PARTS = 2 + len(STAGES) + 1  # Parts of the progress bar: compiling, checking, the stages, the final times.
DEFAULT = ""


class OutOfTime(Exception):
    """The search has reached its deadline. Its results are in the journal."""


class Lost(Exception):
    """After a kernel that failed or hangs, CUDA runs nothing more in this process."""

    def __init__(self, schedule, reason):
        super().__init__(f"schedule {schedule}: {reason}" if schedule else f"the table's schedule: {reason}")
        self.schedule = schedule


class Result(NamedTuple):
    """The result of the search for a key. `overrides` is {schedule: fields of its row}. `chosen` is {cell: schedule of
    the row that applies}. `times` is {cell: {schedule: milliseconds}}, where DEFAULT stands for the schedule of the
    present table. `refused` and `wrong` are {overrides or schedule: reason}."""
    rows: List[Row]
    overrides: Dict[str, str]
    chosen: Dict[Cell, str]
    times: Dict[Cell, Dict[str, float]]
    refused: Dict[str, str]
    wrong: Dict[str, str]


class Search:
    """The searches for several keys. `show(what, part)` is called to show the progress; `part` is from 0 to 1."""

    def __init__(self, device, journal, overrides, show, deadline=math.inf, clock=time.monotonic, threads=None):
        self.device, self.journal, self.overrides, self.show = device, journal, overrides, show
        self.deadline, self.clock, self.threads = deadline, clock, threads or os.cpu_count()

    def run(self, key, cells):
        """Returns the Result for the cells of a key. Raises OutOfTime, and the errors of the device."""
        present = self.device.present(cells[0])
        candidates, refused = self._compile(cells[0], present)
        right, wrong = self._check(candidates, cells[0])
        if not right:
            schedule, reason = next(iter({**wrong, **refused}.items()), ("", "none was tried"))
            raise flashc.Error(f"{key}: expected a schedule that gives right numbers, got none: {schedule}: {reason}")
        finalists = {}
        for done, cell in enumerate(cells):
            finalists.update(dict.fromkeys(self._halve(right, cell, done / len(cells))))
        times, final = {}, [*finalists] if wrong.keys() & set(present) else [*finalists, DEFAULT]
        for done, cell in enumerate(cells):
            times[cell] = self._time(cell, final, "final", FINAL, (PARTS - 1 + done / len(cells)) / PARTS)
        merged = merge({cell.n: {name: times[cell][name] for name in finalists} for cell in cells})
        chosen = {cell: next(name for queries, name in merged if queries is None or cell.n <= queries)
                  for cell in cells}
        overrides = {name: self.device.shorten(cells[0], name) for _, name in merged}
        rows = [Row(key, queries, overrides[name]) for queries, name in merged]
        return Result(rows, overrides, chosen, times, refused, wrong)

    def _look_at_clock(self):
        if self.clock() > self.deadline:
            raise OutOfTime()

    def _compile(self, cell, present):
        """Returns the different whole schedules that compile, and {overrides: why they do not compile}."""
        self._look_at_clock()
        found, refused = {}, {}
        # The present schedules are tried too, so that no cell becomes slower.
        tried = [*self.overrides, *present]
        with concurrent.futures.ThreadPoolExecutor(self.threads) as pool:
            waiting = {pool.submit(self.device.prepare, cell, overrides): overrides for overrides in tried}
            try:
                for done, future in enumerate(concurrent.futures.as_completed(waiting)):
                    self.show(f"{key_of(cell)}: compiling", done / len(waiting) / PARTS)
                    self._look_at_clock()
                    try:
                        found[waiting[future]] = future.result()
                    except flashc.CompileError as error:
                        refused[waiting[future]] = str(error).splitlines()[0]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return list(dict.fromkeys(found[overrides] for overrides in tried if overrides in found)), refused

    def _check(self, candidates, cell):
        """Returns the schedules with right numbers, and {schedule: problem}. Kernels run for the first time here."""
        self.checked, right, wrong = cell, [], {}
        for done, schedule in enumerate(candidates):
            self.show(f"{cell}: checking", (1 + done / len(candidates)) / PARTS)
            problem = self.journal.problem(cell, schedule)
            if problem is None:
                self._look_at_clock()
                problem = self._first_run(cell, schedule)
            if problem:
                wrong[schedule] = problem
            else:
                right.append(schedule)
        return right, wrong

    def _first_run(self, cell, schedule):
        """Returns the problem of a kernel's numbers. If the process dies here, the journal has the schedule of the
        kernel."""
        self.journal.begin_check(cell, schedule)
        problem = None
        try:
            problem = self.device.check(cell, schedule)
        except Lost as error:
            problem = str(error)
            raise
        finally:
            self.journal.end_check(cell, schedule, problem)
        return problem

    def _halve(self, schedules, cell, done):
        """Returns the few fastest schedules for a cell."""
        for number, stage in enumerate(STAGES):
            times = self._time(cell, schedules, number, stage, (2 + (done * len(STAGES) + number)) / PARTS)
            count = max(stage.least, math.ceil(stage.part * len(schedules)))
            schedules = sorted(schedules, key=times.get)[:count]
        return schedules

    def _time(self, cell, schedules, stage, effort, part):
        self.show(f"{cell}: timing {len(schedules)} schedules", part)
        times = self.journal.times(cell, str(stage), schedules)
        if times is None:
            self._look_at_clock()
            try:
                times = self.device.time(cell, schedules, effort)
            except Lost as error:  # noted, so that the kernel is not run again
                self.journal.end_check(self.checked, error.schedule, str(error))
                raise
            self.journal.note_times(cell, str(stage), times)
        return times
