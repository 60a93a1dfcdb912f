"""Trains a layer of PyTorch's own on flashc's kernels: nothing of the layer or of the training is changed.

    python examples/pytorch_activate.py     # on a GPU, with PyTorch 2.11 or newer

A program needs two lines: `import flashc.integrations.pytorch`, and `activate_flash_attention_impl("flashc")`. The
example also runs the same steps on PyTorch's own kernels, and prints the losses and times of both.
"""
import argparse
import time
from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.nn.attention import activate_flash_attention_impl, restore_flash_attention_impl

import flashc.integrations.pytorch  # noqa: F401: registers "flashc"


def make_layer(width: int, heads: int, device: str) -> nn.TransformerEncoderLayer:
    """Returns a layer with equal weights in every call."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
    return layer.to(device)


def train(layer: nn.Module, x: Tensor, steps: int) -> Tuple[List[float], float]:
    """Trains the layer to predict the next row of x [B, N, width]. Returns the losses, and seconds per step."""
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-3)
    mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
    losses, begin = [], 0.0
    for step in range(steps + 1):
        if step == 1:  # The first step compiles the kernels.
            begin = _now(x)
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            loss = (layer(x, src_mask=mask, is_causal=True)[:, :-1] - x[:, 1:]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, (_now(x) - begin) / max(steps, 1)


def _now(x: Tensor) -> float:
    if x.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter()


def main(arguments: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="on the CPU, PyTorch has no flash operators to replace")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--shape", type=int, nargs=3, default=(4, 4096, 1024), metavar=("B", "N", "WIDTH"))
    options = parser.parse_args(arguments)
    batch, length, width = options.shape
    heads = max(width // 128, 1)
    x = torch.randn(batch, length, width, device=options.device).cumsum(1) / length ** 0.5

    results = {}
    for name in ("PyTorch's kernels", "flashc's kernels"):
        if name == "flashc's kernels":
            activate_flash_attention_impl("flashc")
        results[name] = train(make_layer(width, heads, options.device), x, options.steps)
    restore_flash_attention_impl()

    for name, (losses, seconds) in results.items():
        print(f"{name:<18} {seconds * 1e3:8.2f} ms a step, loss {losses[0]:.4f} -> {losses[-1]:.4f}")


if __name__ == "__main__":
    main()
