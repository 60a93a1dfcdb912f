"""Times the cost of sinks and dropout on a GPU, for the tables of docs/sinks.md and docs/dropout.md.

    gpu_measure costs [--peers]

All variants are CUDA graphs of five calls, and take turns. A figure is the median time of a variant, divided by that of
the same call without sinks and dropout. --peers also times PyTorch's own attention with the same rate of dropout, by
FlashAttention-2 and by cuDNN, in ms.
"""
from __future__ import annotations

import argparse
from typing import Any, Callable, Dict

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import flashc
from graphs import capture, medians

TOKENS, WIDTH, RATE = 16384, 2048, 0.1


def of_peers(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Dict[str, Callable[[], Any]]:
    def attend(backend: SDPBackend, rate: float) -> torch.Tensor:
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, dropout_p=rate)

    return {f"{name} {rate:g}": lambda backend=backend, rate=rate: attend(backend, rate)
            for name, backend in (("fa2", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION))
            for rate in (0.0, RATE)}


def measure(d: int, length: int, causal: bool, has_peers: bool) -> None:
    heads, batch = WIDTH // d, TOKENS // length
    q, k, v, do = (torch.randn(batch, heads, length, d, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    variants: Dict[str, Dict[str, Any]] = {
        "plain": {}, "sinks": {"sinks": torch.randn(heads, device="cuda")},
        "dropout": {"dropout_p": RATE, "philox": torch.tensor([1, 2], device="cuda")}}
    graphs, kept = {}, []
    for name, keywords in variants.items():
        o, lse = flashc.attention(q, k, v, causal=causal, return_lse=True, **keywords)
        kept.append((o, lse))  # kept for as long as the graph may run
        graphs["forward " + name] = capture(
            lambda keywords=keywords: flashc.attention(q, k, v, causal=causal, return_lse=True, **keywords))
        graphs["backward " + name] = capture(
            lambda keywords=keywords, o=o, lse=lse: flashc.attention_backward(q, k, v, o, lse, do, causal=causal,
                                                                              **keywords))
    for name, run in of_peers(q, k, v, causal).items() if has_peers else ():
        graphs[name] = capture(run)
    found = medians(graphs)
    ratios = [f"{what}: {found[f'{what} plain']:.3f} ms, " + ", ".join(
        f"{name} {found[f'{what} {name}'] / found[f'{what} plain']:.2f}" for name in ("sinks", "dropout"))
        for what in ("forward", "backward")]
    peers = [f"{name}: {time:.3f} ms" for name, time in found.items() if not name.startswith(("forward", "backward"))]
    print(f"d={d} N={length}{' causal' if causal else ''}", *ratios, *peers, sep="; ", flush=True)
    graphs.clear()
    torch.cuda.empty_cache()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", action="store_true")
    arguments = parser.parse_args()
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, "flashc", flashc.__version__)
    for d in (64, 128, 256):
        for length in (512, 4096):
            for causal in (False, True):
                measure(d, length, causal, arguments.peers and d < 256)
