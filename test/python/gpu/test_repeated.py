"""Code of masks and scores that is kept between calls, on a GPU: 5,000 calls of functions whose closures, globals,
arrays, shapes, strides, streams and devices change between calls. Skipped where there is no GPU.

Each result must have the bits of the same call without kept code.
"""
import random

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc import masks, ops  # noqa: E402
from flashc._trace import repeated  # noqa: E402

WIDTH, LIMIT = 9, torch.tensor(40)


def integers(device):
    return torch.randint(0, 7, (LENGTH,), dtype=torch.int32, device=device)


LENGTH = 100  # of the arrays; no call has more queries or keys


class State:
    """What the functions refer to. `change` changes one thing."""

    def __init__(self, rng):
        self.rng, self.device, self.shape = rng, "cuda", (1, 2, 77, 64)
        self.streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
        self.stream, self.size, self.slope = self.streams[0], 5, 0.5
        self.make_arrays()

    def make_arrays(self):
        self.ids = integers(self.device)
        self.bias = torch.randn(LENGTH, device=self.device)
        self.ends = integers(self.device).sort().values

    def change(self):
        global WIDTH, LIMIT
        which = self.rng.randrange(10)
        if which == 0:
            WIDTH = self.rng.randrange(1, 4)
        elif which == 1:
            LIMIT = torch.tensor(self.rng.randrange(LENGTH))
        elif which == 2:
            self.ids.random_(0, 5)  # in place
        elif which == 3:
            self.ids = self.ids.clone()
        elif which == 4:
            self.bias = None  # frees the memory, so that the next array gets the same address
            self.bias = torch.randn(LENGTH, device=self.device)
        elif which == 5:
            self.ids = integers(self.device).repeat_interleave(2)[::2] if self.ids.is_contiguous() else \
                integers(self.device)
        elif which == 6:
            self.size, self.slope = self.rng.randrange(2, 5), self.rng.choice([0.5, 0.25])
        elif which == 7:
            self.shape = (self.rng.randrange(1, 3), 2, self.rng.randrange(1, LENGTH), 64)
        elif which == 8:
            self.stream = self.rng.choice(self.streams)
        elif self.rng.randrange(4) == 0:
            self.device = "cpu" if self.device == "cuda" else "cuda"
            self.make_arrays()

    def functions(self):
        ids, bias, ends, size, slope = self.ids, self.bias, self.ends, self.size, self.slope
        return [(lambda b, h, i, j: ids[i] == ids[j], None),
                (lambda b, h, i, j: (j <= i) & (i // size == j // size), None),
                (lambda b, h, i, j: j <= i + WIDTH, None), (lambda b, h, i, j: j < LIMIT, None),
                (masks.documents(ids) & masks.causal(), None), (masks.documents(ends, sorted=True), None),
                (masks.sliding_window(WIDTH) | (lambda b, h, i, j: ids[j] == 3), None),
                (None, lambda s, b, h, i, j: s + bias[j]), (None, lambda s, b, h, i, j: s - slope * ops.abs(i - j)),
                (masks.causal(), lambda s, b, h, i, j: ops.where(ids[i] == ids[j], s, s * slope))]


def call(state, number, arrays):
    mask, score = state.functions()[number]
    return flashc.attention(*arrays, mask=mask, score=score, return_lse=True)


def test_no_call_is_stale():
    rng = random.Random(11)
    state, counts = State(rng), []
    for _ in range(5000):
        state.change()
        number, before = rng.randrange(10), repeated.traces
        with torch.cuda.stream(state.stream):
            state.stream.wait_stream(state.streams[0])
            arrays = [torch.randn(state.shape, dtype=torch.bfloat16, device=state.device) for _ in range(3)]
            got = call(state, number, arrays)
            counts.append(repeated.traces - before)
            kept = dict(repeated._codes)
            repeated._codes.clear()
            want = call(state, number, arrays)
            repeated._codes.clear()
            repeated._codes.update(kept)
        torch.cuda.synchronize()
        assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1]), number
    assert sum(counts[-2000:]) < 200  # Most calls find their code.


def test_a_replayed_graph_reads_what_arrays_hold_then():
    ids = integers("cuda")
    q, k, v = (torch.randn(1, 2, LENGTH, 64, dtype=torch.bfloat16, device="cuda") for _ in range(3))

    def attend():
        return flashc.attention(q, k, v, mask=lambda b, h, i, j: ids[i] == ids[j])
    attend()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = attend()
    for _ in range(3):
        ids.random_(0, 5)
        graph.replay()
        assert torch.equal(o, attend())


def test_memory_stays_the_same():
    q, k, v = (torch.randn(1, 2, LENGTH, 64, dtype=torch.bfloat16, device="cuda") for _ in range(3))

    def attend():
        ids = integers("cuda")
        flashc.attention(q, k, v, mask=lambda b, h, i, j: ids[i] == ids[j])
    for _ in range(20):
        attend()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(500):
        attend()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before
