"""The journal of a search on disk. It has a line of JSON for each result, so that the search can stop at any moment."""

import contextlib
import json
import os


class Journal:
    """Checks and times of one build of the library on one device. A file that another build wrote is overwritten."""

    def __init__(self, path, library):
        """`library` is a text that identifies the build of the compiler."""
        self.checks, self.timings, self.done = {}, {}, set()
        lines = self._read(path)
        if lines[:1] != [{"library": library}]:
            lines = []
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.file = open(path, "w", encoding="utf-8")
        self._write({"library": library})
        for line in lines[1:]:
            self._note(line)
            self._write(line)

    @staticmethod
    def _read(path):
        found = []
        # A ValueError means that the process ended while it wrote the last line.
        with contextlib.suppress(FileNotFoundError, ValueError), open(path, encoding="utf-8") as file:
            for line in file:
                found.append(json.loads(line))
        return found

    def _write(self, line):
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()

    def _note(self, line):
        if "done" in line:
            self.done.add(line["done"])
        elif "problem" in line:
            self.checks[line["cell"], line["schedule"]] = line["problem"]
        else:
            self.timings[line["cell"], line["stage"]] = line["times"]

    def _add(self, line):
        self._note(line)
        self._write(line)

    def begin_check(self, cell, schedule):
        """Notes that a kernel is about to run for the first time. If no `end_check` follows, its first run did not
        end."""
        self._add({"cell": str(cell), "schedule": schedule, "problem": "its first run did not end"})

    def end_check(self, cell, schedule, problem):
        """`problem` says what is wrong. It is "" if the numbers are right, and None if that is unknown."""
        self._add({"cell": str(cell), "schedule": schedule, "problem": problem})

    def problem(self, cell, schedule):
        """Returns the problem of a kernel. It is "" if there is none, and None if that is unknown."""
        return self.checks.get((str(cell), schedule))

    def note_times(self, cell, stage, times):
        self._add({"cell": str(cell), "stage": stage, "times": times})

    def times(self, cell, stage, schedules):
        """Returns {schedule: milliseconds} if exactly these schedules were timed together, else None."""
        times = self.timings.get((str(cell), stage))
        return times if times is not None and set(times) == set(schedules) else None

    def note_done(self, what):
        """Adds `what` to `done`."""
        self._add({"done": what})

    def close(self):
        self.file.close()
