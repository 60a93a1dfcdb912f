"""Times flashc.column_sums: gpu_measure column-sums [SCHEDULE ...]

Times 16384 tokens of hidden size 2048 in bf16, with d = 64, 128, 256 and N = 1024, 4096, 16384, with and without a
causal mask, with the schedule of the table; then each SCHEDULE at d = 128, N = 4096. A time is the median of seven
replays of a CUDA graph of ten calls. A causal mask halves the FLOPs.
"""
import sys

import torch

import flashc
from graphs import capture, medians


def run(d, n, causal, schedule=None):
    heads, batch = 2048 // d, 16384 // n
    q, k, v = (torch.randn(batch, heads, n, d, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    lse = flashc.attention(q, k, v, causal=causal, return_lse=True)[1]
    out = torch.empty(batch, heads, n, device="cuda")

    def launch():
        flashc.column_sums(q, k, lse, causal=causal, out=out, schedule=schedule)

    milliseconds = medians({"": capture(launch, 10)}, 7)[""]
    flops = 2 * batch * heads * n * n * d / (2 if causal else 1)
    print(f"d={d} n={n} causal={causal} {schedule or 'table'}: {milliseconds * 1e3:.1f} us "
          f"{flops / milliseconds / 1e9:.0f} TFLOP/s", flush=True)


def main():
    with torch.no_grad():
        for d in (64, 128, 256):
            for n in (1024, 4096, 16384):
                for causal in (False, True):
                    run(d, n, causal)
        for schedule in sys.argv[1:]:
            for causal in (False, True):
                run(128, 4096, causal, schedule)
