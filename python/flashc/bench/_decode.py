"""Decoding: one query token of each sequence against its cache, beside PyTorch's attentions.

Each contender is a CUDA graph of calls that rotate among caches of more bytes than the L2 holds, and all take turns. TB/s
counts the keys and values that a call reads, once."""

import csv
import dataclasses
import math
from typing import Optional

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import flashc

from ._timing import time_interleaved

PEERS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "fa2": SDPBackend.FLASH_ATTENTION}
L2_BYTES, MOST_BYTES = 60 << 20, 100 << 30


@dataclasses.dataclass(frozen=True)
class Cell:
    batch: int
    keys: int
    query_heads: int = 32
    key_heads: int = 8
    depth: int = 128
    #: Rows of a page; 0: no pages.
    page: int = 0
    #: "hnd": the tokens of a head follow each other, in the cache or in its page; "nhd": the heads of a token do.
    layout: str = "hnd"

    @property
    def bytes(self):
        return self.batch * self.keys * self.key_heads * self.depth * 4

    def __str__(self):
        pages = (f" page={self.page}" if self.page else "") + (" nhd" if self.layout == "nhd" else "")
        return f"{self.query_heads}/{self.key_heads} d={self.depth} B={self.batch} N={self.keys}{pages}"


def grid(heads=((32, 8), (64, 8), (32, 32)), depths=(128, 64), batches=(1, 4, 16, 64, 128),
         keys=(1024, 4096, 16384, 65536), pages=(0,), layouts=("hnd",)):
    """Cells whose caches fit the GPU, a few times over."""
    cells = [Cell(b, n, hq, hk, d, page, layout) for hq, hk in heads for d in depths for b in batches for n in keys
             for layout in layouts for page in pages]
    return [cell for cell in cells if 2 * cell.bytes <= MOST_BYTES // 2]


def parse(texts):
    """The cells of a command line: "heads=32/8,64/8", "d=128", "b=1,4", "n=1024", "page=0,16", "layout=hnd,nhd"."""
    names = {"heads": "heads", "d": "depths", "b": "batches", "n": "keys", "page": "pages", "layout": "layouts"}
    axes = {}
    for text in texts:
        key, _, values = text.partition("=")
        if key not in names or not values:
            raise ValueError(f"expected heads=, d=, b=, n=, page= or layout=, got '{text}'")
        read = {"heads": lambda value: tuple(map(int, value.split("/"))), "layout": str}.get(key, int)
        axes[names[key]] = list(map(read, values.split(",")))
    if unknown := set(axes.get("layouts", ())) - {"hnd", "nhd"}:
        raise ValueError(f"expected layout=hnd or nhd, got {min(unknown)}")
    return grid(**axes)


class Inputs:
    """Queries, and as many caches as it takes to find none in the L2."""

    def __init__(self, cell):
        self.cell, self.lengths = cell, torch.full((cell.batch,), cell.keys, dtype=torch.int32, device="cuda")
        self.q = torch.randn(cell.batch, 1, cell.query_heads, cell.depth, device="cuda", dtype=torch.bfloat16)
        count = max(2, min(64, math.ceil(4 * L2_BYTES / cell.bytes) + 1))
        self.sets = [tuple(self.make_cache() for _ in range(2)) for _ in range(count)]
        self.table = None
        if cell.page:
            per_sequence = cell.keys // cell.page
            self.table = torch.randperm(cell.batch * per_sequence, device="cuda", dtype=torch.int32).view(cell.batch, -1)

    def make_cache(self):
        """[B, Hk, N, D], of the cell's layout."""
        cell = self.cell
        order = (cell.key_heads, cell.keys) if cell.layout == "hnd" else (cell.keys, cell.key_heads)
        x = torch.randn((cell.batch, *order, cell.depth), device="cuda", dtype=torch.bfloat16)
        return x if cell.layout == "hnd" else x.transpose(1, 2)

    def pages_of(self, cache):
        """The same memory as pages of the cell's layout, [P, page, Hk, D]."""
        cell = self.cell
        if cell.layout == "nhd":
            return cache.transpose(1, 2).view(-1, cell.page, cell.key_heads, cell.depth)
        return cache.view(-1, cell.key_heads, cell.page, cell.depth).transpose(1, 2)

    def call(self, number, **keywords):
        """flashc on one of the caches."""
        if self.table is None:
            return flashc.decode(self.q, *(x.transpose(1, 2) for x in self.sets[number]), self.lengths, **keywords)
        return flashc.decode(self.q, *map(self.pages_of, self.sets[number]), self.lengths, self.table, **keywords)

    def call_peer(self, number, backend):
        q = self.q.transpose(1, 2)
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, *self.sets[number], enable_gqa=self.cell.query_heads != self.cell.key_heads)

    def reference(self, is_paged):
        """o of the last sequence in f32, [1, Hq, D]."""
        cell = self.cell
        k, v = (x[-1].float() for x in self.sets[0])
        if is_paged:
            pages = self.table[-1].long()
            k, v = (self.pages_of(x)[pages].reshape(cell.keys, cell.key_heads, cell.depth).transpose(0, 1).float()
                    for x in self.sets[0])
        q = self.q[-1, 0].float().view(cell.key_heads, -1, cell.depth)
        return (((q @ k.mT) * cell.depth**-0.5).softmax(-1) @ v).reshape(1, cell.query_heads, cell.depth)


class Graph:
    """Calls in a CUDA graph, as many as fill a millisecond or so."""

    def __init__(self, call, count, milliseconds):
        self.calls = count * max(1, min(256 // count, round(1.0 / max(milliseconds, 1e-3)) // count))
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            call(0)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for number in range(self.calls):
                call(number % count)

    def measure(self, replays):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(replays):
            self.graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / self.calls


def _time_once(call):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call(0)
    begin.record()
    call(1)
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def measure(cell, variants, peers, total_ms=40.0):
    """{name: microseconds} of flashc, in each variant of its keywords, and of the peers; and what was wrong."""
    inputs = Inputs(cell)
    calls = {name: (lambda number, keywords=keywords: inputs.call(number, **keywords)) for name, keywords in variants.items()}
    calls.update({name: (lambda number, backend=PEERS[name]: inputs.call_peer(number, backend)) for name in peers})
    of_peers = inputs.reference(is_paged=False)
    of_flashc = of_peers if inputs.table is None else inputs.reference(is_paged=True)
    graphs, problems = {}, []
    for name, call in calls.items():
        try:
            want = of_peers if name in PEERS else of_flashc
            o = call(0)[-1].float()
            o = o if o.shape == want.shape else o.transpose(0, 1)
            error = float((o - want).norm() / want.norm())
            if not error <= 1e-2:
                problems.append(f"{cell}: {name}: relative error {error:.1e}")
                continue
            graphs[name] = Graph(call, len(inputs.sets), _time_once(call))
        except Exception as problem:  # noqa: BLE001
            problems.append(f"{cell}: {name}: {str(problem).splitlines()[0]}")
    timings = time_interleaved(graphs, lambda graph, replays: graph.measure(replays), total_ms, rounds=4, warm_up_ms=4.0)
    return {name: 1e3 * timing.median for name, timing in timings.items()}, problems


@dataclasses.dataclass
class Row:
    cell: Cell
    microseconds: dict

    @property
    def ratio(self) -> Optional[float]:
        """Of the best peer's time to flashc's."""
        peers = [time for name, time in self.microseconds.items() if name in PEERS]
        return min(peers) / self.microseconds["flashc"] if peers and "flashc" in self.microseconds else None

    def line(self):
        text = f"{str(self.cell):36}"
        for name, time in self.microseconds.items():
            text += f" {name} {time:9.1f} us {self.cell.bytes / time / 1e6:5.2f} TB/s"
        return text + (f"  {self.ratio:5.2f}" if self.ratio else "")


def run(cells, variants, peers, csv_file=None):
    """Prints a line for each cell, and the geometric mean of ratios; returns whether all went well."""
    rows, problems = [], []
    for cell in cells:
        microseconds, found = measure(cell, variants, peers)
        torch.cuda.empty_cache()
        rows.append(Row(cell, microseconds))
        problems += found
        print(rows[-1].line(), flush=True)
    ratios = [row.ratio for row in rows if row.ratio]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean of {len(ratios)} ratios to the best peer: {mean:.3f} ({min(ratios):.3f} to {max(ratios):.2f})")
    for problem in problems:
        print(f"note: {problem}")
    if csv_file:
        with open(csv_file, "w", newline="") as out:
            writer = csv.writer(out)
            writer.writerow([field.name for field in dataclasses.fields(Cell)] + ["system", "microseconds", "tb_per_s"])
            for row in rows:
                for name, time in row.microseconds.items():
                    writer.writerow([*dataclasses.astuple(row.cell), name, f"{time:.2f}", f"{row.cell.bytes / time / 1e6:.3f}"])
    return not problems
