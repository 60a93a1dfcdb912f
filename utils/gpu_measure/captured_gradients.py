"""Times gradients of captured tensors on a GPU, for the table of docs/captured-gradients.md: the backward pass with and
without these gradients, and FlexAttention's backward pass.

    gpu_measure captured-gradients [--no-peers]

All variants take turns. FlexAttention is compiled for these shapes. Its backward pass takes milliseconds, so it is
launched without a CUDA graph.
"""
from __future__ import annotations

import argparse
import statistics
from typing import Any, Callable, Dict, Sequence, Tuple

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import flashc
from graphs import capture, elapsed, medians

TOKENS, HEADS = 8192, 16


def is_causal(b: Any, h: Any, i: Any, j: Any) -> Any:
    return j <= i


def make_scores(n: int) -> Dict[str, Tuple[Sequence[torch.Tensor], Callable[..., Any]]]:
    bias = torch.randn(HEADS, n, n, device="cuda")
    slopes = torch.rand(HEADS, device="cuda") * 0.1
    table = torch.randn(HEADS, 2 * n - 1, device="cuda")
    return {"bias [Hq, N, N]": ((bias,), lambda s, b, h, i, j: s + bias[h, i, j]),
            "slopes [Hq]": ((slopes,), lambda s, b, h, i, j: s + slopes[h] * (j - i)),
            "table [Hq, 2N - 1]": ((table,), lambda s, b, h, i, j: s + table[h, i - j + n - 1])}


def time_of(run: Callable[[], Any]) -> float:
    return statistics.median([elapsed(run) for _ in range(12)][2:])


def of_flex(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, captured: Sequence[torch.Tensor],
            score: Callable[..., Any], n: int, causal: bool) -> Dict[str, float]:
    attend = torch.compile(flex_attention, dynamic=False)
    mask = create_block_mask(is_causal, None, None, n, n, device="cuda") if causal else None
    found = {}
    leaves = [x.requires_grad_() for x in (q, k, v)]
    for name, needed in (("flex", ()), ("flex with", captured)):
        for x in captured:
            x.requires_grad_(bool(needed))
        for options in (None, {"num_stages": 1}, {"BLOCK_M1": 32, "BLOCK_N1": 32, "BLOCK_M2": 32, "BLOCK_N2": 32,
                                                  "num_stages": 1}):
            torch._dynamo.reset()
            try:
                o = attend(*leaves, score_mod=score, block_mask=mask, kernel_options=options)
                found[name] = time_of(lambda: torch.autograd.grad(o, [*leaves, *needed], do, retain_graph=True))
                break
            except Exception as problem:  # noqa: BLE001
                reason = str(problem).splitlines()[0]
        else:
            print(f"  {name} does not compile: {reason}")
    for x in (*leaves, *captured):
        x.requires_grad_(False)
    return found


def measure(d: int, n: int, causal: bool, has_peers: bool) -> None:
    q, k, v, do = (torch.randn(TOKENS // n, HEADS, n, d, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    for what, (captured, score) in make_scores(n).items():
        o, lse = flashc.attention(q, k, v, causal=causal, score=score, return_lse=True)

        def run(captured: Sequence[torch.Tensor]) -> Any:
            return flashc.attention_backward(q, k, v, o, lse, do, causal=causal, score=score, captured=captured)

        graphs = {"without": capture(lambda: run(())), "with": capture(lambda: run(captured))}
        found = medians(graphs)
        graphs.clear()
        torch.cuda.empty_cache()
        if has_peers:
            found.update(of_flex(q, k, v, do, captured, score, n, causal))
        print(f"d={d} N={n}{' causal' if causal else ''} {what}: " +
              ", ".join(f"{name} {time:.3f} ms" for name, time in found.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("-d", type=int, nargs="*", default=[64, 128])
    parser.add_argument("-n", type=int, nargs="*", default=[1024, 4096])
    arguments = parser.parse_args()
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, "flashc", flashc.__version__)
    for d in arguments.d:
        for n in arguments.n:
            for causal in (False, True):
                measure(d, n, causal, not arguments.no_peers)
