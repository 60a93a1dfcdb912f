"""The decoding benchmark: attention of one query token of each sequence to its cache, with flashc and PyTorch's
attentions.

Each contender is a CUDA graph of calls. The calls use several caches in turn, which together exceed the L2 cache, and
all contenders take turns. TB/s counts the keys and values that a call reads, once."""

import math

import torch

import flashc

from . import _peers
from ._decode_report import Row, write_csv
from ._report import is_peer
from ._timing import time_interleaved

#: The other libraries that accept one query, grouped heads, and caches with any strides.
PEERS = {name: peer for name, peer in _peers.PEERS.items() if issubclass(peer, (_peers.SDPA, _peers.FlexAttention))}
#: The libraries of PEERS that are compiled for each cell. Compiling takes longer than all other work.
NOT_BY_DEFAULT = {name for name, peer in PEERS.items() if issubclass(peer, _peers.FlexAttention)}
L2_BYTES = 60 << 20
LIMIT = 1e-2


class Inputs:
    """The queries, and so many caches that a call never finds its cache in the L2."""

    def __init__(self, cell, device="cuda"):
        self.cell, self.device = cell, device
        self.lengths = torch.full((cell.batch,), cell.keys, dtype=torch.int32, device=device)
        self.q = torch.randn(cell.batch, 1, cell.query_heads, cell.depth, device=device, dtype=torch.bfloat16)
        count = max(2, min(64, math.ceil(4 * L2_BYTES / cell.bytes) + 1))
        self.sets = [tuple(self.make_cache() for _ in range(2)) for _ in range(count)]
        self.table = None
        if cell.page:
            per_sequence = cell.keys // cell.page
            self.table = torch.randperm(cell.batch * per_sequence, device=device,
                                        dtype=torch.int32).view(cell.batch, -1)

    def make_cache(self):
        """Returns a cache [B, Hk, N, D] with the cell's layout in memory."""
        cell = self.cell
        order = (cell.key_heads, cell.keys) if cell.layout == "hnd" else (cell.keys, cell.key_heads)
        x = torch.randn((cell.batch, *order, cell.depth), device=self.device, dtype=torch.bfloat16)
        return x if cell.layout == "hnd" else x.transpose(1, 2)

    def pages_of(self, cache):
        """Returns the cache as pages of the cell's layout, [P, page, Hk, D]."""
        cell = self.cell
        if cell.layout == "nhd":
            return cache.transpose(1, 2).view(-1, cell.page, cell.key_heads, cell.depth)
        return cache.view(-1, cell.key_heads, cell.page, cell.depth).transpose(1, 2)

    def call(self, number, **keywords):
        """Calls flashc.decode on one of the caches."""
        if self.table is None:
            return flashc.decode(self.q, *(x.transpose(1, 2) for x in self.sets[number]), self.lengths, **keywords)
        return flashc.decode(self.q, *map(self.pages_of, self.sets[number]), self.lengths, self.table, **keywords)

    def for_peers(self):
        """Returns q, k and v as [B, H, N, D] for each set of caches."""
        return [(self.q.transpose(1, 2), k, v) for k, v in self.sets]

    def reference(self, is_paged):
        """Returns o of the last sequence in f32, [1, Hq, D]."""
        cell = self.cell
        k, v = (x[-1].float() for x in self.sets[0])
        if is_paged:
            pages = self.table[-1].long()
            k, v = (self.pages_of(x)[pages].reshape(cell.keys, cell.key_heads, cell.depth).transpose(0, 1).float()
                    for x in self.sets[0])
        q = self.q[-1, 0].float().view(cell.key_heads, -1, cell.depth)
        return (((q @ k.mT) * cell.depth**-0.5).softmax(-1) @ v).reshape(1, cell.query_heads, cell.depth)


class Graph:
    """A CUDA graph of calls that together take about a millisecond."""

    def __init__(self, contender):
        count = contender.count
        with contender.around():
            contender.run(0)
            milliseconds = _peers.elapsed(contender.run)
            self.calls = count * max(1, min(256 // count, round(1.0 / max(milliseconds, 1e-3)) // count))
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                contender.run(0)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                for number in range(self.calls):
                    contender.run(number % count)

    def measure(self, replays):
        """Returns `replays` times the milliseconds of a call."""
        return _peers.elapsed(lambda _: self.graph.replay(), replays) / self.calls


def _prepare(inputs, variants, peers, notes):
    """Returns {name: Contender} for flashc's variants and for the peers that have a kernel. The other peers get a
    note."""
    found = {name: _peers.Contender(lambda number, keywords=keywords: inputs.call(number, **keywords), len(inputs.sets))
             for name, keywords in variants.items()}
    for peer in peers:
        peer.begin()
    for peer in peers:
        try:
            found[peer.name] = peer.prepare(inputs.cell, inputs.for_peers())
        except _peers.Refused as why:
            notes[peer.name] = str(why)
        except Exception as error:  # noqa: BLE001
            notes[peer.name] = _peers.first_line(error)
    return found


def _problem(contender, want):
    """Returns the problem of a contender's numbers, or None."""
    with contender.around():
        o = contender.run(0)[-1].float()
    o = o if o.shape == want.shape else o.transpose(0, 1)
    error = float((o - want).norm() / want.norm())
    return None if error <= LIMIT else f"wrong: relative error {error:.1e}"


def measure(cell, variants, peers, total_ms=40.0, device="cuda"):
    """Measures a cell with flashc's variants ({name: keywords}) and the peers. Returns its Row."""
    inputs, notes, graphs = Inputs(cell, device), {}, {}
    of_peers = inputs.reference(is_paged=False)
    of_flashc = of_peers if inputs.table is None else inputs.reference(is_paged=True)
    for name, contender in _prepare(inputs, variants, peers, notes).items():
        try:
            problem = _problem(contender, of_peers if is_peer(name) else of_flashc)
            if problem:
                notes[name] = problem
            else:
                graphs[name] = Graph(contender)
        except Exception as error:  # noqa: BLE001
            notes[name] = _peers.first_line(error)
    timings = time_interleaved(graphs, lambda graph, replays: graph.measure(replays), total_ms, rounds=4,
                               warm_up_ms=4.0)
    return Row(cell, {name: 1e3 * timing.median for name, timing in timings.items()}, notes)


def run(cells, variants, peers, csv_file=None):
    """Measures the cells, prints a line for each, and returns the rows. Each row is also written to the open file
    `csv_file`, if given."""
    rows = []
    for cell in cells:
        rows.append(measure(cell, variants, peers))
        torch.cuda.empty_cache()
        print(rows[-1].line(), flush=True)
        if csv_file:
            write_csv(csv_file, rows[-1:], with_names=len(rows) == 1)
    return rows
