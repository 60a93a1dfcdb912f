"""Timing: contenders take turns, and the result of each is the median over its turns.

The GPU is power-limited: its clock moves by 20% with the load and with the kernels that ran just before. So every
contender runs in every round, and only results of the same rounds are compared."""

import dataclasses
import statistics
import time
from typing import List

MAX_CALLS = 500  # The most calls in one burst: fewer than the launches after which the driver blocks the host.


@dataclasses.dataclass
class Timing:
    """`samples`: milliseconds per call, for each round."""
    samples: List[float]
    total_ms: float = 0.0

    @property
    def median(self):
        return statistics.median(self.samples)

    @property
    def spread(self):
        """Half the distance between the quartiles, over the median."""
        if len(self.samples) < 4:
            return 0.0
        low, _, high = statistics.quantiles(self.samples, n=4)
        return (high - low) / 2 / self.median


def burst_length(milliseconds, target_ms):
    """Returns how many calls of `milliseconds` fill `target_ms`, from 1 to MAX_CALLS."""
    return max(1, min(MAX_CALLS, round(target_ms / max(milliseconds, 1e-4))))


def time_interleaved(contenders, measure, total_ms=60.0, rounds=6, warm_up_ms=10.0, max_rounds=200):
    """Times `contenders`, a dictionary by name; returns {name: Timing}. `measure(contender, calls)` runs a contender
    `calls` times and returns the milliseconds of all calls. In each round every contender has one turn of about
    total_ms / rounds, in rotated order; rounds go on until each has `total_ms` in at least `rounds` turns."""
    calls = {}
    for name, contender in contenders.items():
        measure(contender, 1)
        estimate = measure(contender, 3) / 3
        # A short kernel's first estimate is mostly launch time; a burst gives a better one.
        count = burst_length(estimate, warm_up_ms)
        estimate = measure(contender, count) / count
        calls[name] = burst_length(estimate, 1.1 * total_ms / rounds)
    timings = {name: Timing([]) for name in contenders}
    order = list(contenders)
    for turn in range(max_rounds):
        if turn >= rounds and all(timing.total_ms >= total_ms for timing in timings.values()):
            break
        for name in order:
            elapsed = measure(contenders[name], calls[name])
            timings[name].samples.append(elapsed / calls[name])
            timings[name].total_ms += elapsed
        order = order[1:] + order[:1]
    return timings


def input_sets(bytes_each, cache_bytes, most=32):
    """Returns the number of sets of inputs to rotate among so that no call finds its inputs in a cache of
    `cache_bytes`: the other sets have at least twice its bytes. 1 if a single set has."""
    if bytes_each >= 2 * cache_bytes:
        return 1
    return min(most, 1 + -(-2 * cache_bytes // bytes_each))


# --- Time of the host -------------------------------------------------------------------------------------------------

def milliseconds(run, clock=time.perf_counter_ns):
    start = clock()
    run()
    return (clock() - start) / 1e6


def call_times(call, wait, calls=10000, per_wait=50, clock=time.perf_counter_ns):
    """Returns the host's microseconds of each of `calls` calls. Every `per_wait` calls the GPU's queue is emptied,
    untimed, so that no call waits for room in it."""
    for _ in range(per_wait):
        call()
    wait()
    times = []
    for i in range(calls):
        start = clock()
        call()
        times.append((clock() - start) / 1e3)
        if (i + 1) % per_wait == 0:
            wait()
    wait()
    return times
