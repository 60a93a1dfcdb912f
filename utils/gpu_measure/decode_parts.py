"""Times some hundred query rows against long caches, with the kernel that flashc.decode chooses, with the forward
kernel on keys in one part and in several, and with decoding kernels.

  gpu_measure decode-parts    prints a row for each case: microseconds of the chosen kernel, of the forward kernel in
                              one part and in as many as fill the GPU, of decoding in one part and in two, of the chosen
                              kernel for pages of 16 rows; then the choice

Each contender is a CUDA graph of ten calls. All take turns, and the best of eight rounds counts.
"""
import torch

import flashc
from flashc import _decode
from flashc._arrays.cuda import multiprocessors_of
from graphs import capture, times_of

#: B, T, N, d, query heads, key heads.
CASES = [*((b, t, n, 128, 32, 8) for b, t, n in (
    (1, 17, 32768), (1, 32, 32768), (1, 33, 32768), (1, 64, 32768), (1, 128, 32768), (1, 256, 32768), (1, 512, 32768),
    (1, 128, 131072), (1, 64, 1024), (1, 128, 1024), (1, 256, 1024), (1, 33, 2048), (2, 17, 32768), (2, 64, 32768),
    (4, 17, 8192), (4, 32, 32768), (8, 8, 8192), (16, 8, 8192))),
    (1, 128, 32768, 64, 32, 8), (1, 256, 32768, 64, 32, 8), (1, 33, 32768, 64, 32, 8), (2, 64, 8192, 64, 32, 8),
    (1, 64, 32768, 128, 64, 8), (1, 64, 32768, 128, 32, 32), (2, 17, 32768, 128, 32, 32)]
CALLS, ROUNDS, PAGE = 10, 8, 16


def run(batch, tokens, keys, depth, heads, key_heads):
    q = torch.randn(batch, tokens, heads, depth, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(batch, keys, key_heads, depth, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    lengths = torch.full((batch,), keys, device="cuda", dtype=torch.int32)
    table = torch.randperm(batch * keys // PAGE, device="cuda", dtype=torch.int32).view(batch, -1)
    tiles = batch * heads * -(-tokens // 128)
    parts = max(1, min(multiprocessors_of(q.device.index) // tiles, keys // 256))
    choose, chosen, graphs = _decode._choose, [], {}

    def note(*arguments):
        chosen.append(choose(*arguments))
        return chosen[-1]
    forced = [None, "splits=1", f"splits={parts}", "warps=8,splits=1", "warps=8,splits=2,merge=cluster"]
    try:
        for text in forced:
            _decode._choose = note if text is None else lambda *_, text=text: text
            graphs[text] = capture(lambda: flashc.decode(q, k, v, lengths), CALLS)
        _decode._choose = choose
        pages = [x.view(-1, PAGE, key_heads, depth) for x in (k, v)]
        graphs["pages"] = capture(lambda: flashc.decode(q, *pages, lengths, table), CALLS)
    finally:
        _decode._choose = choose
    times = "  ".join(f"{1e3 * min(times):7.1f}" for times in times_of(graphs, ROUNDS).values())
    print(f"B={batch} T={tokens} N={keys} d={depth} {heads}/{key_heads}  {times}  {parts} parts; chosen: {chosen[-1]}",
          flush=True)


def main():
    for case in CASES:
        run(*case)
