"""Fails unless the fastest of some runs of a command takes less than a number of milliseconds: start-time.py MS
COMMAND... Only processor time counts, since other programs would disturb the elapsed time. MS is for a machine on which
this interpreter starts in 10 ms. If the interpreter takes longer, as where page faults are slow, the limit grows in
proportion."""

import os
import subprocess
import sys


def time_of(command):
    """Returns the milliseconds of processor time of the fastest run."""
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
