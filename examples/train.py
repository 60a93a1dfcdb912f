"""Trains a small GPT with flashc's attention and with PyTorch's own, from one seed, and compares the losses.

    python examples/train.py --picture losses.png     # on a GPU: 8 layers, width 1024, 300 steps, each way
    python examples/train.py --device cpu --steps 20  # anywhere: a tiny model, in seconds

The model reads bytes. It has RoPE, grouped query heads, a sliding window in every other layer, a sink for each query
head, and documents that are packed into sequences: no token sees another document. The text is this repository's own,
README.md and docs/*.md. `FlashcAttention` has the call of flashc for all of that; docs/training.md explains it.
"""
import argparse
import csv
import dataclasses
import importlib.util
import math
import pathlib
import shutil
import sys
import time
from typing import Any, Callable, Dict, List, Optional

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import flashc

TORCH_VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
VOCABULARY = 256  # bytes

SIZES = {
    "cuda": dict(layers=8, width=1024, heads=8, key_heads=2, window=256, sequences=8, length=4096, learning_rate=6e-4),
    "cpu": dict(layers=2, width=64, heads=4, key_heads=2, window=8, sequences=2, length=96, learning_rate=5e-3),
}


# --- The text ---------------------------------------------------------------------------------------------------------

@dataclasses.dataclass
class Batch:
    """Sequences of packed documents. `documents` and `offsets` describe the same documents; each attention uses one of
    them."""
    tokens: Tensor  # [sequences, length]
    targets: Tensor  # [sequences, length]: the byte that follows each token in its own document
    documents: Tensor  # [sequences, length]: the number of each token's document
    offsets: Tensor  # [most documents + 1]: where each document begins if all sequences are concatenated


class Batches:
    """Packs pieces of pages until sequences are full. Equal seeds give equal batches."""

    def __init__(self, sequences: int, length: int, seed: int) -> None:
        root = pathlib.Path(__file__).resolve().parent.parent
        files = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
        self.pages = [np.frombuffer(file.read_bytes(), np.uint8) for file in files]
        self.sequences, self.length = sequences, length
        self.shortest, self.longest = length // 8, length // 2
        self.generator = np.random.default_rng(seed)
        # A piece has at least this length, except the last piece of a sequence, which is cut to fit.
        least = min(self.shortest, min(len(page) for page in self.pages) - 1)
        self.most_documents = sequences * -(-length // least)

    def _piece(self, room: int) -> np.ndarray:
        """Returns up to `room` bytes of a page, followed by one more byte, the last target."""
        page = self.pages[self.generator.integers(len(self.pages))]
        size = min(self.generator.integers(self.shortest, self.longest + 1), len(page) - 1, room)
        begin = self.generator.integers(len(page) - size)
        return page[begin:begin + size + 1]

    def next(self, device: str) -> Batch:
        pieces, total = [], self.sequences * self.length
        for _ in range(self.sequences):
            room = self.length
            while room:
                pieces.append(self._piece(room))
                room -= len(pieces[-1]) - 1
        sizes = np.array([len(piece) - 1 for piece in pieces])
        # Empty documents pad the offsets, so that their shape is the same in all batches, which --compile needs.
        offsets = np.full(self.most_documents + 1, total, np.int32)
        offsets[0], offsets[1:len(pieces) + 1] = 0, sizes.cumsum()
        grid = (self.sequences, self.length)
        return Batch(*(_move(x, device) for x in (
            np.concatenate([piece[:-1] for piece in pieces]).astype(np.int64).reshape(grid),
            np.concatenate([piece[1:] for piece in pieces]).astype(np.int64).reshape(grid),
            np.repeat(np.arange(len(pieces), dtype=np.int32), sizes).reshape(grid), offsets)))


def _move(array: np.ndarray, device: str) -> Tensor:
    """Copies an array to the device without waiting for the GPU."""
    x = torch.from_numpy(array)
    return x.pin_memory().to(device, non_blocking=True) if device == "cuda" else x


# --- Attention --------------------------------------------------------------------------------------------------------
#
# Each attention has `prepare`, which computes from a batch what the layers with this window (or none) need. A call
# takes q [B, N, Hq, D], k and v [B, N, Hk, D] and sinks [Hq], and returns [B, N, Hq, D]. A window of w is a query's own
# position and the w before it.

class FlashcAttention:
    name = "flashc.varlen_attention"

    def prepare(self, batch: Batch, window: Optional[int]) -> Tensor:
        return batch.offsets

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, window: Optional[int],
                 offsets: Tensor) -> Tensor:
        # The batch becomes one packed sequence of documents, [B * N, H, D]. No document crosses the end of a row of the
        # batch.
        rows = [x.flatten(0, 1) for x in (q, k, v)]
        o = flashc.varlen_attention(*rows, offsets, causal=True, window=window, sinks=sinks, enable_gqa=True)
        return o.view(q.shape)


def sees(documents: Tensor, window: Optional[int]) -> Callable[..., Tensor]:
    """Returns the mask for PyTorch, a function of batch, head, query and key."""
    def keep(b, h, i, j):
        kept = (documents[b, i] == documents[b, j]) & (j <= i)
        return kept if window is None else kept & (i - j <= window)
    return keep


class FlexAttention:
    """PyTorch's FlexAttention, compiled. It has no sinks, but it returns a log-sum-exp that has a gradient: a sink
    takes the share exp(sink) / (exp(sink) + exp(lse)) of the weights of a row."""
    name = "torch.nn.attention.flex_attention, compiled"

    def __init__(self) -> None:
        from torch.nn.attention import flex_attention as flex
        has_aux = hasattr(flex, "AuxRequest")  # since PyTorch 2.9

        def attend(q, k, v, sinks, block_mask):
            if has_aux:
                o, aux = flex.flex_attention(q, k, v, block_mask=block_mask, enable_gqa=True,
                                             return_aux=flex.AuxRequest(lse=True))
                lse = aux.lse
            else:
                o, lse = flex.flex_attention(q, k, v, block_mask=block_mask, enable_gqa=True, return_lse=True)
            return (o * torch.sigmoid(lse - sinks[:, None])[..., None]).to(o.dtype)

        self._attend = torch.compile(attend, fullgraph=True, dynamic=False)
        self._make_block_mask = torch.compile(flex.create_block_mask)

    def prepare(self, batch: Batch, window: Optional[int]) -> Any:
        sequences, length = batch.tokens.shape
        return self._make_block_mask(sees(batch.documents, window), sequences, None, length, length,
                                     device=batch.tokens.device)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, window: Optional[int],
                 block_mask: Any) -> Tensor:
        return self._attend(*(x.transpose(1, 2) for x in (q, k, v)), sinks, block_mask).transpose(1, 2)


class MaskedAttention:
    """PyTorch's attention with a mask in memory, for versions without FlexAttention. A sink is an additional key whose
    elements are zero, with a value of zeros; the mask adds the sink to the score of this key."""
    name = "torch.nn.functional.scaled_dot_product_attention" if TORCH_VERSION >= (2, 0) else "PyTorch's softmax"

    def prepare(self, batch: Batch, window: Optional[int]) -> Tensor:
        sequences, length = batch.tokens.shape
        at = torch.arange(length, device=batch.tokens.device)
        b = torch.arange(sequences, device=batch.tokens.device)[:, None, None, None]
        return sees(batch.documents, window)(b, None, at[:, None], at)  # [B, 1, N, N]

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, window: Optional[int], kept: Tensor) -> Tensor:
        group = q.shape[2] // k.shape[2]
        k, v = (functional.pad(x.repeat_interleave(group, 2), (0, 0, 0, 0, 0, 1)) for x in (k, v))
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        rows = (*q.shape[:3], -1)
        added = torch.zeros_like(kept, dtype=q.dtype).masked_fill(~kept, -math.inf)
        added = torch.cat((added.expand(rows), sinks.to(q.dtype)[:, None, None].expand(*q.shape[:3], 1)), 3)
        if TORCH_VERSION >= (2, 0):
            o = functional.scaled_dot_product_attention(q, k, v, attn_mask=added)
        else:
            o = (q @ k.transpose(2, 3) * q.shape[3] ** -0.5 + added).softmax(3) @ v
        return o.transpose(1, 2)


class WiderAttention:
    """PyTorch's attention in a wider type: f32 if the model has bf16, and f64 if it has f32."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.prepare = inner, inner.prepare
        self.name = f"{inner.name}, wider"

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, window: Optional[int], seen: Any) -> Tensor:
        wide = torch.float64 if q.dtype == torch.float32 else torch.float32
        with torch.autocast(q.device.type, enabled=False):
            o = self.inner(*(x.to(wide) for x in (q, k, v)), sinks, window, seen)
        return o.to(q.dtype)


def torch_attention(device: str) -> Any:
    """Returns PyTorch's fastest attention that supports sinks, windows, documents and all their gradients."""
    return FlexAttention() if device == "cuda" and TORCH_VERSION >= (2, 5) else MaskedAttention()


ATTENTIONS: Dict[str, Callable[[str], Any]] = {
    "flashc": lambda device: FlashcAttention(),
    "torch": torch_attention,
    "control": lambda device: WiderAttention(torch_attention(device)),
}


# --- The model --------------------------------------------------------------------------------------------------------

class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


def rotations(length: int, depth: int) -> Tensor:
    """Returns RoPE's cosines and sines, [2, length, 1, depth / 2]. Positions may count from the start of a sequence,
    even if it has several documents, because RoPE depends only on distances."""
    frequencies = 10000.0 ** (-torch.arange(0, depth, 2) / depth)
    angles = torch.arange(length)[:, None, None] * frequencies
    return torch.stack((angles.cos(), angles.sin()))


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotates x [B, N, H, D] in f32, and returns it in the type of x."""
    cos, sin = rotation
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, options: argparse.Namespace, window: Optional[int], attend: Any) -> None:
        super().__init__()
        self.heads, self.key_heads, self.depth = options.heads, options.key_heads, options.width // options.heads
        self.qkv = nn.Linear(options.width, (self.heads + 2 * self.key_heads) * self.depth, bias=False)
        self.out = nn.Linear(options.width, options.width, bias=False)
        self.sinks = nn.Parameter(torch.zeros(self.heads))  # f32, even if q, k and v are bf16
        self.window, self.attend = window, attend

    def forward(self, x: Tensor, rotation: Tensor, seen: Any) -> Tensor:
        heads = self.qkv(x).view(*x.shape[:2], -1, self.depth)
        q, k, v = heads.split((self.heads, self.key_heads, self.key_heads), 2)
        o = self.attend(rotate(q, rotation), rotate(k, rotation), v, self.sinks, self.window, seen)
        return self.out(o.flatten(2))


class Block(nn.Module):
    def __init__(self, options: argparse.Namespace, window: Optional[int], attend: Any) -> None:
        super().__init__()
        self.attention_norm, self.attention = RMSNorm(options.width), Attention(options, window, attend)
        self.mlp_norm = RMSNorm(options.width)
        self.mlp = nn.Sequential(nn.Linear(options.width, 4 * options.width, bias=False), nn.GELU(),
                                 nn.Linear(4 * options.width, options.width, bias=False))

    def forward(self, x: Tensor, rotation: Tensor, seen: Any) -> Tensor:
        x = x + self.attention(self.attention_norm(x), rotation, seen)
        return x + self.mlp(self.mlp_norm(x))


class GPT(nn.Module):
    """A model in which every second layer, beginning with the first, has the sliding window."""

    def __init__(self, options: argparse.Namespace, attend: Any) -> None:
        super().__init__()
        self.attend, self.windows = attend, (options.window, None)
        self.embedding = nn.Embedding(VOCABULARY, options.width)
        self.blocks = nn.ModuleList(Block(options, self.windows[layer % 2], attend) for layer in range(options.layers))
        self.norm, self.head = RMSNorm(options.width), nn.Linear(options.width, VOCABULARY, bias=False)
        self.register_buffer("rotation", rotations(options.length, options.width // options.heads), persistent=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                is_last = name.endswith(("out.weight", "mlp.2.weight"))  # scaled down, as it is added to the residual
                nn.init.normal_(weight, std=0.02 / (2 * options.layers) ** 0.5 if is_last else 0.02)

    def forward(self, batch: Batch) -> Tensor:
        """Returns the logits [sequences, length, 256]."""
        seen = {window: self.attend.prepare(batch, window) for window in self.windows}
        x = self.embedding(batch.tokens)
        for layer, block in enumerate(self.blocks):
            x = block(x, self.rotation, seen[self.windows[layer % 2]])
        return self.head(self.norm(x))


# --- Training ---------------------------------------------------------------------------------------------------------

@dataclasses.dataclass
class Run:
    name: str
    attention: str  # the implementation of attention
    losses: List[float]
    first_step: float  # its seconds, with compilation
    tokens_per_second: float  # without the first steps; NaN if there are no others

    def speed(self) -> str:
        return "no speed: too few steps" if math.isnan(self.tokens_per_second) else \
            f"{self.tokens_per_second:,.0f} tokens/s"


def loss_of(model: GPT, batch: Batch) -> Tensor:
    with torch.autocast(batch.tokens.device.type, dtype=torch.bfloat16, enabled=batch.tokens.is_cuda):
        logits = model(batch)
    return functional.cross_entropy(logits.float().flatten(0, 1), batch.targets.flatten())


def make_model(name: str, options: argparse.Namespace) -> GPT:
    torch.manual_seed(options.seed)
    model = GPT(options, ATTENTIONS[name](options.device)).to(options.device)
    if options.compile:
        for block in model.blocks:
            block.compile(fullgraph=True, dynamic=False)
    return model


def make_optimizer(model: GPT, options: argparse.Namespace) -> torch.optim.Optimizer:
    """Returns AdamW. Only matrices have weight decay, since it would pull sinks to 0."""
    groups = [dict(params=[x for x in model.parameters() if x.dim() == 2], weight_decay=0.1),
              dict(params=[x for x in model.parameters() if x.dim() < 2], weight_decay=0.0)]
    fused = dict(fused=True) if options.device == "cuda" and TORCH_VERSION >= (2, 0) else {}
    return torch.optim.AdamW(groups, lr=options.learning_rate, betas=(0.9, 0.95), **fused)


def learning_rate(step: int, options: argparse.Namespace) -> float:
    """Returns the learning rate, which rises over the first steps and then falls to a tenth along a cosine."""
    warm_up = max(1, options.steps // 15)
    return options.learning_rate * min(1.0, (step + 1) / warm_up) * \
        (0.55 + 0.45 * math.cos(math.pi * step / options.steps))


def train(name: str, options: argparse.Namespace) -> Run:
    if hasattr(torch, "compiler"):
        torch.compiler.reset()  # so that each run compiles in its own first step
    model = make_model(name, options)
    optimizer, batches = make_optimizer(model, options), Batches(options.sequences, options.length, options.seed)
    losses = torch.zeros(options.steps, device=options.device)
    untimed = min(10, (options.steps + 1) // 2)

    def now() -> float:
        if options.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    begin, progress = now(), Progress(name, options.steps)
    for step in range(options.steps):
        if step == untimed:
            timed_begin = now()
        loss = loss_of(model, batches.next(options.device))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, options)
        optimizer.step()
        losses[step] = loss.detach()  # stays on the GPU, since reading it would wait
        if step == 0:
            first_step = now() - begin
        progress.show(step + 1, losses[step])
    end = now()
    progress.clear()
    speed = math.nan
    if options.steps > untimed:
        speed = (options.steps - untimed) * options.sequences * options.length / (end - timed_begin)
    return Run(name, model.attend.name, losses.tolist(), first_step, speed)


class Progress:
    """A progress line on standard error, which is rewritten at each step. There is none if standard error is no
    terminal."""

    def __init__(self, label: str, total: int) -> None:
        self.label, self.total, self.begin = label, total, time.monotonic()
        self.is_shown = sys.stderr.isatty()

    def show(self, done: int, loss: Tensor) -> None:
        """Shows the line, in later steps only every tenth time, because reading the loss waits for the GPU."""
        if not self.is_shown or (done % 10 and 10 < done < self.total):
            return
        filled, seconds = 30 * done // self.total, time.monotonic() - self.begin
        text = (f"{self.label:<8}[{'#' * filled}{'.' * (30 - filled)}] {done}/{self.total}  loss {loss.item():.3f}  "
                f"{seconds:.0f} s, {seconds / done * (self.total - done):.0f} s left")
        sys.stderr.write("\r\x1b[K" + text[:shutil.get_terminal_size().columns - 1])
        sys.stderr.flush()

    def clear(self) -> None:
        if self.is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


# --- What is shown ----------------------------------------------------------------------------------------------------

def distances(run: Run, other: Run) -> List[float]:
    return [abs(x - y) for x, y in zip(run.losses, other.losses)]


def report(run: Run) -> str:
    return (f"{run.name:<8}{run.speed()}; first step {run.first_step:.2f} s; loss {run.losses[0]:.4f} to "
            f"{run.losses[-1]:.4f}  ({run.attention})")


def compare(run: Run, other: Run) -> str:
    apart = distances(run, other)
    most = max(apart)
    ratio = run.tokens_per_second / other.tokens_per_second
    return (f"{run.name} and {other.name}: losses at most {most:.2e} apart (step {apart.index(most)}), "
            f"{sum(apart) / len(apart):.2e} on average" + ("" if math.isnan(ratio) else f"; tokens/s {ratio:.3f} to 1"))


def write_csv(runs: List[Run], path: str) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["step", *(run.name for run in runs)])
        writer.writerows([step, *losses] for step, losses in enumerate(zip(*(run.losses for run in runs))))


def draw(runs: List[Run], title: str, path: str) -> None:
    """Draws the losses, and below them the distance of each from PyTorch's loss, with gaps where they are equal."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    colours = {"flashc": "#d62728", "torch": "#9467bd", "control": "#999999"}
    reference = next((run for run in runs if run.name == "torch"), None)
    others = [run for run in runs if run is not reference] if reference else []
    figure, axes = pyplot.subplots(2 if others else 1, 1, figsize=(8, 6 if others else 4), sharex=True, squeeze=False,
                                   gridspec_kw=dict(height_ratios=[2, 1]) if others else None, layout="constrained")
    for run in (run for run in runs if run.name != "control"):
        axes[0, 0].plot(run.losses, label=f"{run.name}: {run.speed()}", color=colours[run.name],
                        linewidth=2.4 if run is reference else 1.2, alpha=0.6 if run is reference else 1.0)
    axes[0, 0].set_ylabel("loss (nats per byte)")
    axes[0, 0].legend()
    for run in others:
        axes[1, 0].plot([x or math.nan for x in distances(run, reference)], label=f"|{run.name} - torch|",
                        color=colours[run.name], linewidth=1.0)
        axes[1, 0].set_ylabel("distance")
        axes[1, 0].set_yscale("log")
        axes[1, 0].legend()
    for axis in axes[:, 0]:
        axis.grid(alpha=0.3)
    axes[-1, 0].set_xlabel("step")
    figure.suptitle(title)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


# --- The command ------------------------------------------------------------------------------------------------------

def parse(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--attention", choices=("flashc", "torch", "both"), default="both", help="default: both, one after the other")
    add("--control", action="store_true", help="also train with PyTorch's attention in f32 (on the CPU f64): how far "
        "rounding alone takes two runs apart")
    add("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu",
        help="it decides the sizes, too (default: %(default)s)")
    add("--steps", type=int, default=300)
    add("--seed", type=int, default=0)
    add("--compile", action="store_true", help="torch.compile each block, with either attention")
    add("--csv", metavar="FILE", help="write the losses of each step")
    add("--picture", metavar="FILE", help="draw the losses, as .png, .pdf or .svg (needs matplotlib)")
    for name, what in (("layers", None), ("width", None), ("heads", "query heads"), ("key-heads", None),
                       ("window", "of every other layer: positions in front of the query that it sees"),
                       ("sequences", "of a batch"), ("length", "tokens of a sequence"), ("learning-rate", None)):
        default = " or ".join(f"{SIZES[device][name.replace('-', '_')]:g}" for device in ("cuda", "cpu"))
        add(f"--{name}", type=float if name == "learning-rate" else int,
            help=f"{what}; default: {default}" if what else f"default: {default}")
    options = parser.parse_args(arguments)
    for name, default in SIZES[options.device].items():
        if getattr(options, name) is None:
            setattr(options, name, default)
    problem = problem_with(options)
    if problem:
        parser.error(problem)
    return options


def problem_with(options: argparse.Namespace) -> Optional[str]:
    """Returns what is wrong with the options, or None."""
    for name in ("steps", *SIZES[options.device]):
        if getattr(options, name) <= 0:
            return f"expected --{name.replace('_', '-')} to be positive, got {getattr(options, name)}"
    if options.device == "cuda" and not torch.cuda.is_available():
        return "expected a GPU that PyTorch can use, got none: --device cpu trains a tiny model"
    if options.heads % options.key_heads:
        return f"expected --heads to be a multiple of --key-heads, got {options.heads} and {options.key_heads}"
    if options.width % options.heads:
        return f"expected --width to be a multiple of --heads, got {options.width} and {options.heads}"
    depth = options.width // options.heads
    if depth % 8 or depth > 256:
        return f"expected heads of 8, 16, ... 256 dimensions, got {depth} (--width / --heads)"
    if options.length < 16:
        return f"expected --length to be 16 or more, to hold several documents, got {options.length}"
    if options.control and options.attention == "flashc":
        return "expected PyTorch's attention beside --control, which is compared with it, got --attention flashc"
    if options.compile and TORCH_VERSION < (2, 4):
        return f"expected PyTorch 2.4 or newer for --compile, got {torch.__version__}"
    for name, path in (("csv", options.csv), ("picture", options.picture)):
        if path and not pathlib.Path(path).absolute().parent.is_dir():
            return f"expected --{name} in a folder that exists, got {path}"
    if options.picture and pathlib.Path(options.picture).suffix not in (".png", ".pdf", ".svg"):
        return f"expected --picture to end in .png, .pdf or .svg, got {options.picture}"
    if options.picture and importlib.util.find_spec("matplotlib") is None:
        return "--picture needs matplotlib, which is not installed"
    return None


def main(arguments: Optional[List[str]] = None) -> List[Run]:
    options = parse(arguments)
    device = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    title = (f"{options.layers} layers, width {options.width}, {options.heads} query heads over {options.key_heads}, "
             f"window {options.window}; {options.sequences} x {options.length} tokens; "
             f"{'bf16' if options.device == 'cuda' else 'f32'}, {device}")
    print(f"{title}, PyTorch {torch.__version__}", flush=True)
    runs = []
    for name in (*(("torch", "flashc") if options.attention == "both" else (options.attention,)),
                 *(("control",) if options.control else ())):
        runs.append(train(name, options))
        print(report(runs[-1]), flush=True)
    for run in runs[1:]:
        print(compare(run, runs[0]))
    if options.csv:
        write_csv(runs, options.csv)
    if options.picture:
        draw(runs, title, options.picture)
    return runs


if __name__ == "__main__":
    main()
