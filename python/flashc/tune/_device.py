"""The device that a search uses: a GPU of this machine."""

import contextlib
import hashlib
import json
import os
import time

import torch

import flashc
from flashc._runtime import contexts, library
from flashc._runtime.options import Options
from flashc._runtime.specialization import Specialization

from ..bench import _measure, _peers
from ..bench._timing import time_interleaved
from ._search import Lost

ORDINAL = 0  # flashc reads the table of this GPU for all GPUs.

FIRST_RUN_LIMIT = 20  # Seconds. A kernel of these cells takes milliseconds, unless it hangs.

ALWAYS_SAID = ("consumers", "kv-tile", "stages")  # Fields that every row has, for readers of the table.


def library_version():
    """Returns a hash that identifies the build of the compiler."""
    with open(library.library_path(), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class GPU:
    """The device that a search uses (see _search.py). It has the inputs and the reference of one cell."""

    def __init__(self, seed, device=f"cuda:{ORDINAL}"):
        self.device = torch.device(device)
        self.name = torch.cuda.get_device_properties(self.device).name
        self.cache_bytes = _measure.cache_bytes(self.device)
        self.generator = torch.Generator(device=self.device)
        self.generator.manual_seed(seed)
        self.cell, self.sets, self.reference = None, [], None
        folder = os.fsdecode(library.lib.flashcContextGetCacheDirectory(contexts.context().handle))
        # The path at which flashc looks for this GPU's schedule table.
        self.table = contexts.device_table_path(folder, ORDINAL)
        # The kernels of a search are not kept on disk.
        flashc.configure(cache_directory=folder, disk_cache=False)

    @staticmethod
    def _specialize(cell, overrides):
        """Returns the specialization that flashc.attention will use."""
        return Specialization(cell.dtype, cell.d, cell.dv, cell.group,
                              Options(cell.causal, schedule=overrides).of_kernel(cell.d))

    def present(self, cell):
        kernel = self._specialize(cell, None).compile()
        variants = json.loads(kernel.manifest()).get("variants", [])
        return [kernel.schedule(), *(variant["schedule"] for variant in variants)]

    def prepare(self, cell, overrides):
        schedule = self._specialize(cell, overrides).compile().schedule()
        # The kernel is compiled again from the whole schedule. A kernel that is compiled from overrides only may have
        # variants for several rows of the table.
        self._specialize(cell, schedule).compile().load(ORDINAL)
        return schedule

    def shorten(self, cell, schedule):
        """Returns the fields for a row: ALWAYS_SAID, and each other field without which the row would give another
        schedule."""
        fields = schedule.split(",")
        for field in [field for field in fields if field.split("=")[0] not in ALWAYS_SAID]:
            fewer = [other for other in fields if other != field]
            try:
                if self._of_row(cell, fewer) == schedule:
                    fields = fewer
            except flashc.CompileError:  # the other fields need this field
                pass
        return ",".join(fields)

    def _of_row(self, cell, fields):
        """Returns the whole schedule that a row with these fields gives."""
        context = contexts.Context(disk_cache=False, schedule_table=": " + ",".join(fields))
        return self._specialize(cell, None).compile(context).schedule()

    def _open(self, cell):
        """Returns the sets of inputs for the cell. They are kept until another cell is opened."""
        if self.cell != cell:
            self.cell, self.sets, self.reference = cell, [], None  # frees the memory of the last cell first
            self.sets = _measure.random_sets(cell, self.generator, self.cache_bytes)
        return self.sets

    def check(self, cell, schedule):
        inputs = self._open(cell)[0]
        if self.reference is None:
            self.reference = _measure.reference(cell, inputs)
        with torch.no_grad(), self._losing(lambda: schedule):
            out = _peers.Flashc(schedule=schedule).poisoned_run(cell, inputs)
            self._wait()
        return self.reference.compare(out).problem

    def time(self, cell, schedules, effort):
        sets, running = self._open(cell), ""
        contenders = {schedule: (schedule, _peers.Flashc(schedule=schedule or None).prepare(cell, sets))
                      for schedule in schedules}

        def measure(contender, calls):
            nonlocal running
            running, kernel = contender
            return _measure.burst(kernel, calls)

        with torch.no_grad(), self._losing(lambda: running):
            timings = time_interleaved(contenders, measure, effort.total_ms, effort.rounds, effort.warm_up_ms)
        return {schedule: timing.median for schedule, timing in timings.items()}

    @staticmethod
    @contextlib.contextmanager
    def _losing(schedule):
        """Returns a context that turns failures of CUDA into Lost. `schedule()` returns the schedule of the running
        kernel."""
        try:
            yield
        except (flashc.Error, torch.cuda.OutOfMemoryError):
            raise
        except RuntimeError as error:
            raise Lost(schedule(), str(error).splitlines()[0]) from error

    @staticmethod
    def _wait():
        """Does what torch.cuda.synchronize does, but for at most FIRST_RUN_LIMIT seconds."""
        event = torch.cuda.Event()
        event.record()
        start = time.monotonic()
        while not event.query():
            if time.monotonic() - start > FIRST_RUN_LIMIT:
                raise RuntimeError(f"no end after {FIRST_RUN_LIMIT} s")
            time.sleep(1e-4)
