"""Fails unless the best of some runs of a command takes less than a number of milliseconds: start-time.py MS COMMAND...
What counts is the processor's time: on a machine with other work a clock would tell about that. The
milliseconds are of a machine where this interpreter starts in 10; one where that takes longer, as where page faults are
slow, has as much more."""

import os
import subprocess
import sys


def time_of(command):
    """Milliseconds of the processor's time, the least of some runs."""
    times = []
    for _ in range(20):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0, status
        times.append((usage.ru_utime + usage.ru_stime) * 1e3)
    return min(times)


limit, taken = float(sys.argv[1]), time_of(sys.argv[2:])
if taken >= limit:
    limit *= max(1.0, time_of([sys.executable, "-I", "-c", ""]) / 10)
print(f"{taken:.1f} ms of {limit:.1f}")
sys.exit(taken >= limit)
