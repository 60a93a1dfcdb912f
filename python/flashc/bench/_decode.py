"""The decoding benchmark: attention of one query token of each sequence to its cache, or of several, with flashc and
other libraries.

Each contender is a CUDA graph of calls. The calls use several caches in turn, which together exceed the L2 cache, and
all contenders take turns. TB/s counts the keys and values that a call reads, once."""

import math
from itertools import accumulate

import torch

import flashc

from . import _peers
from ._decode_grid import MOST_BYTES
from ._decode_report import Row, write_csv
from ._report import VARIANT
from ._timing import time_interleaved

#: The other libraries that accept one query, grouped heads, and caches with any strides. Libraries that read caches as
#: servers do are in _serving_peers.
PEERS = {name: peer for name, peer in _peers.PEERS.items() if issubclass(peer, (_peers.SDPA, _peers.FlexAttention))}
#: The libraries of PEERS that are compiled for each cell. Compiling takes longer than all other work.
NOT_BY_DEFAULT = {name for name, peer in PEERS.items() if issubclass(peer, _peers.FlexAttention)}
#: flashc with one call for each kind of sequences of a step.
CALLS = VARIANT + "calls"
L2_BYTES = 60 << 20
LIMIT = 1e-2
CHECKED = 16  # queries of a sequence that are compared with the reference


class Inputs:
    """The queries, and so many caches that a call never finds its cache in the L2."""

    def __init__(self, cell, device="cuda"):
        self.cell, self.device = cell, device
        self.queries, self.keys = cell.query_counts, cell.key_counts
        self.lengths, self.offsets = self.integers(self.keys), self.integers([0, *accumulate(self.queries)])
        self.q = torch.randn(sum(self.queries), cell.query_heads, cell.depth, device=device, dtype=torch.bfloat16)
        count = min(64, math.ceil(4 * L2_BYTES / cell.bytes) + 1, MOST_BYTES // 2 // cell.cache_bytes)
        self.sets = [tuple(self.make_cache() for _ in range(2)) for _ in range(max(2, count))]
        self.table = None
        if cell.page:
            per_sequence = cell.keys // cell.page
            self.table = torch.randperm(cell.batch * per_sequence, device=device,
                                        dtype=torch.int32).view(cell.batch, -1)
        #: [(sequence, queries)] that are compared with the reference. They are of the last sequence of each kind.
        self.checked = [(end - 1, torch.linspace(0, count - 1, min(count, CHECKED)).round().long().to(device))
                        for end, (_, count) in zip(accumulate(batch for batch, _ in cell.kinds), cell.kinds)]

    def integers(self, values):
        return torch.tensor(values, dtype=torch.int32, device=self.device)

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

    def caches(self, number):
        """Returns K and V as pages, or as [B, N, Hk, D] if the cell has no pages."""
        return tuple(x.transpose(1, 2) if self.table is None else self.pages_of(x) for x in self.sets[number])

    def _decode(self, number, q, first=0, last=None, **keywords):
        """Calls flashc.decode for the sequences from `first` to `last` - 1."""
        caches, lengths = self.caches(number), self.lengths[first:last]
        if self.table is None:
            return flashc.decode(q, *(x[first:last] for x in caches), lengths, **keywords)
        return flashc.decode(q, *caches, lengths, self.table[first:last], **keywords)

    def call(self, number, **keywords):
        """Calls flashc.decode on one of the caches. Returns o [total, Hq, D]."""
        if self.cell.is_packed:
            return self._decode(number, self.q, cu_seqlens_q=self.offsets, **keywords)
        return self._decode(number, self.q.unflatten(0, (self.cell.batch, -1)), **keywords).flatten(0, 1)

    def call_each_kind(self, number):
        """Calls flashc.decode once for each kind of sequences of a step. Returns o [total, Hq, D]."""
        out, first, row = torch.empty_like(self.q), 0, 0
        for batch, count in self.cell.kinds:
            q, o = (x[row:row + batch * count].unflatten(0, (batch, count)) for x in (self.q, out))
            self._decode(number, q, first, first + batch, out=o)
            first, row = first + batch, row + batch * count
        return out

    def for_peers(self):
        """Returns q, k and v as [B, H, N, D] for each set of caches."""
        return [(self.q.unflatten(0, (self.cell.batch, -1)).transpose(1, 2), k, v) for k, v in self.sets]

    def checked_rows(self, o):
        """Returns the checked rows of [total, Hq, D] in f32."""
        return torch.cat([o[sum(self.queries[:b]) + rows].float() for b, rows in self.checked])

    def reference(self, is_paged):
        """Returns the checked rows of o in f32."""
        return torch.cat([self._reference(b, rows, is_paged) for b, rows in self.checked])

    def _reference(self, b, rows, is_paged):
        cell, count = self.cell, self.keys[b]
        k, v = ((self.pages_of(x)[self.table[b].long()].flatten(0, 1) if is_paged else x[b].transpose(0, 1))[:count]
                .float() for x in self.sets[0])
        q = self.q[sum(self.queries[:b]) + rows].float().unflatten(1, (cell.key_heads, -1))
        sees = torch.arange(count, device=self.device) <= (count - self.queries[b] + rows)[:, None]
        scores = torch.einsum("ihgd,jhd->hgij", q, k) * cell.depth**-0.5
        return torch.einsum("hgij,jhd->ihgd", scores.masked_fill(~sees, -math.inf).softmax(-1), v).flatten(1, 2)


class Graph:
    """A CUDA graph of calls that together take about a millisecond."""

    def __init__(self, contender):
        count = contender.count
        self.contender = contender  # It has arrays that the graph reads.
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
    """Returns {name: Contender} for flashc's variants and for the peers that have a kernel. A peer that serves the cell
    and has no kernel gets a note."""
    calls = {name: lambda number, keywords=keywords: inputs.call(number, **keywords)
             for name, keywords in variants.items()}
    if inputs.cell.is_packed:
        calls[CALLS] = inputs.call_each_kind
    found = {name: _peers.Contender(call, len(inputs.sets)) for name, call in calls.items()}
    peers = [peer for peer in peers if (peer.serves(inputs.cell) if peer.reads_cache else inputs.cell.is_plain)]
    for peer in peers:
        peer.begin()
    for peer in peers:
        try:
            found[peer.name] = peer.prepare(inputs.cell, inputs if peer.reads_cache else inputs.for_peers())
        except _peers.Refused as why:
            notes[peer.name] = str(why)
        except Exception as error:  # noqa: BLE001
            notes[peer.name] = _peers.first_line(error)
    return found


def _problem(contender, inputs, want):
    """Returns the problem of a contender's numbers, or None."""
    with contender.around():
        o = contender.result(contender.run(0))
    o = inputs.checked_rows(o.transpose(1, 2).flatten(0, 1) if o.dim() == 4 else o)
    error = float((o - want).norm() / want.norm())
    return None if error <= LIMIT else f"wrong: relative error {error:.1e}"


def measure(cell, variants, peers, total_ms=40.0, device="cuda"):
    """Measures a cell with flashc's variants ({name: keywords}) and the peers. Returns its Row."""
    inputs, notes, graphs = Inputs(cell, device), {}, {}
    # A peer without pages reads the rows of the cache in another order, so its result is another one.
    contiguous = {peer.name for peer in peers if not peer.reads_cache}
    references = {is_paged: inputs.reference(is_paged) for is_paged in {False, inputs.table is not None}}
    for name, contender in _prepare(inputs, variants, peers, notes).items():
        try:
            problem = _problem(contender, inputs, references[inputs.table is not None and name not in contiguous])
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
