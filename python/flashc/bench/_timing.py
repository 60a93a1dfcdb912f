"""Timing: contenders take turns, and the result of each contender is the median over its turns.

The power of the GPU is limited, so its clock changes by 20% with the load, and with the kernels that ran just before.
Therefore every contender runs in every round, and only results of the same rounds are compared."""

import dataclasses
import statistics
import time
from typing import List

MAX_CALLS = 500  # Calls in a burst. More launches would fill the driver's queue and block the host.


@dataclasses.dataclass
class Timing:
    """`samples` has the milliseconds per call for each round."""
    samples: List[float]
    total_ms: float = 0.0

    @property
    def median(self):
        return statistics.median(self.samples)

    @property
    def spread(self):
        """Half the distance between the quartiles, divided by the median."""
        if len(self.samples) < 4:
            return 0.0
        low, _, high = statistics.quantiles(self.samples, n=4)
        return (high - low) / 2 / self.median


def burst_length(milliseconds, target_ms):
    """Returns how many calls of `milliseconds` take `target_ms` together, from 1 to MAX_CALLS."""
    return max(1, min(MAX_CALLS, round(target_ms / max(milliseconds, 1e-4))))


def time_interleaved(contenders, measure, total_ms=60.0, rounds=6, warm_up_ms=10.0, max_rounds=200):
    """Times `contenders`, a dictionary by name. Returns {name: Timing}. `measure(contender, calls)` runs a contender
    `calls` times and returns the milliseconds of all calls. In each round every contender has one turn of about
    total_ms / rounds, in rotated order. Rounds continue until each contender has at least `rounds` turns and `total_ms`
    in all."""
    calls = {}
    for name, contender in contenders.items():
        measure(contender, 1)
        estimate = measure(contender, 3) / 3
        # For a short kernel, the first estimate is mostly launch time. A burst gives a better estimate.
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
    """Returns the number of input sets that calls must use in turn, so that no call finds its inputs in a cache of
    `cache_bytes`. Between two uses of a set all other sets are used; together these must have at least twice the bytes
    of the cache. Returns 1 if a single set has that many bytes."""
    if bytes_each >= 2 * cache_bytes:
        return 1
    return min(most, 1 + -(-2 * cache_bytes // bytes_each))


# --- Time of the host -------------------------------------------------------------------------------------------------

def milliseconds(run, clock=time.perf_counter_ns):
    start = clock()
    run()
    return (clock() - start) / 1e6


def call_times(call, wait, calls=10000, per_wait=50, clock=time.perf_counter_ns):
    """Returns the microseconds that the host takes for each of `calls` calls. After every `per_wait` calls, the queue
    of the GPU is emptied outside of the measured time, so that no call waits for space in it."""
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
