"""Times masks and scores in decoding, relative to plain decoding of as many keys: a window of a long sequence, sinks, a
soft cap and ALiBi. The caches are used in turn, and together exceed the L2 cache.

  gpu_measure decode-masks           prints the microseconds of each, and its ratio to plain decoding
  gpu_measure decode-masks --once    launches each once, in this order, for Nsight Compute:
      ncu --clock-control none -k regex:attention --metrics dram__bytes_read.sum python3 utils/gpu_measure decode-masks
      --once
"""
import argparse

import torch

import flashc
from graphs import capture, medians

BATCH, HEADS, GROUP, DEPTH, KEYS, LONG, CALLS = 16, 8, 4, 128, 4096, 32768, 12


def make(keys, count):
    """Returns `count` pairs of caches [B, N, Hk, D], whose heads are outermost in memory."""
    return [
        tuple(
            torch.randn(BATCH, HEADS, keys, DEPTH, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
            for _ in range(2))
        for _ in range(count)
    ]


def make_calls():
    """Returns {name: function that makes a call with the cache of a number}."""
    q = torch.randn(BATCH, 1, HEADS * GROUP, DEPTH, device="cuda", dtype=torch.bfloat16)
    short, long = make(KEYS, 3), make(LONG, 2)
    sinks, slopes = torch.randn(HEADS * GROUP, device="cuda"), torch.rand(HEADS * GROUP, device="cuda") * 0.1

    def call(caches, **keywords):
        lengths = torch.full((BATCH,), caches[0][0].shape[1], dtype=torch.int32, device="cuda")
        return lambda number: flashc.decode(q, *caches[number % len(caches)], lengths, **keywords)
    return {"plain": call(short), "window": call(long, window=KEYS - 1), "sinks": call(short, sinks=sinks),
            "soft cap": call(short, score=lambda s, b, h, i, j: 30 * flashc.ops.tanh(s / 30)),
            "ALiBi": call(short, score=lambda s, b, h, i, j: s - slopes[h] * (i - j)),
            "window and sinks": call(long, window=KEYS - 1, sinks=sinks)}


def all_of(call):
    def run():
        for number in range(CALLS):
            call(number)
    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--once", action="store_true", help="launch each once")
    once = parser.parse_args().once
    calls = make_calls()
    print(f"{BATCH} sequences, {HEADS * GROUP}/{HEADS} heads, d={DEPTH}, {KEYS} keys that are kept: "
          f"{BATCH * HEADS * KEYS * DEPTH * 4 / 1e6:.1f} MB")
    if once:
        for call in calls.values():
            call(1)
        torch.cuda.synchronize()
        return
    times = {name: medians({name: capture(all_of(call), 1)}, 9)[name] / CALLS for name, call in calls.items()}
    for name, time in times.items():
        print(f"{name:18} {1e3 * time:7.1f} us  {time / times['plain']:.3f}")
