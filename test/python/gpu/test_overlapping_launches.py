r"""Kernels of one launch that start before those in front of them have ended, on a GPU: each waits before it touches
memory, so that outputs are those of kernels that run one after the other, bit by bit. Skipped where there is no GPU.

    PYTHONPATH=python FLASHC_LIBRARY=build/lib/libflashc.so python3 -m pytest \
        test/python/gpu/test_overlapping_launches.py -s

In its workspace a launch finds what the previous launch of the same kernel has left there: lists and tables of other
lengths. The output would be wrong if a kernel read these."""

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc import masks  # noqa: E402
from .tensors import qkv  # noqa: E402


def sorted_ids(n, count):
    return torch.randint(count, (n,), device="cuda").sort().values.int()


class Case:
    """A mask that reads an array, a function that draws contents for the array, and the kernels that run before the
    attention kernel."""

    def __init__(self, mask, draw, before, shape):
        self.mask, self.draw, self.before = mask, draw, before
        self.q, self.k, self.v = qkv(*shape)
        self.array = draw()

    def run(self, array, **keywords):
        return flashc.attention(self.q, self.k, self.v, mask=self.mask(array), enable_gqa=True, **keywords)

    def expect(self, content):
        """Returns the right output for `content`, even if kernels do not wait for the kernels before them. A kernel
        that does not wait may read what the launch before has left in the workspace. With each launch the workspace
        gets the right data of one more kernel, so that the last launch reads right data only."""
        self.array.copy_(content)
        for _ in range(len(self.before) + 1):
            torch.cuda.synchronize()
            output = self.run(self.array)
        return output


def padding():
    """Returns a case of many tiles of queries with almost no work each, so that the order kernel takes as long as all
    of the attention."""
    batch = 128
    return Case(lambda lengths: lambda b, h, i, j: j < lengths[b],
                lambda: torch.randint(0, 513, (batch,), device="cuda").int(), ["order"], (batch, 1, 1, 2048, 512, 64))


def packed():
    def draw():
        cuts = torch.randint(0, 8193, (31,), device="cuda").sort().values.int()
        return torch.cat([cuts.new_zeros(1), cuts, cuts.new_full((1,), 8192)])
    return Case(lambda offsets: masks.packed(offsets, causal=True), draw, ["order"], (1, 4, 2, 8192, 8192, 128))


def documents():
    return Case(lambda ids: masks.documents(ids, sorted=True), lambda: sorted_ids(16384, 100), ["rows", "order"],
                (1, 2, 2, 16384, 16384, 64))


def ranges():
    def draw():
        ids = sorted_ids(8192, 60)
        return torch.randperm(60, device="cuda").int()[ids.long()]
    return Case(masks.documents, draw, ["classes", "runs", "order"], (1, 4, 4, 8192, 8192, 128))


CASES = [padding, packed, documents, ranges]
each_case = pytest.mark.parametrize("make", CASES, ids=[case.__name__ for case in CASES])


@each_case
def test_kernels_overlap_where_they_may(make):
    case = make()
    kernel = flashc.compile(case.q, case.k, case.v, mask=case.mask(case.array), enable_gqa=True)
    for entry in [kernel.manifest, *kernel.manifest.get("variants", ())]:
        assert entry["programmatic_launch"]
        assert [before["kernel"].rsplit("_", 1)[1] for before in entry["before"]] == case.before
    assert "griddepcontrol.wait" in kernel.ptx


def run_often(case, expected, get_array):
    """Launches one kernel 200 times, with outputs that are NaN before. Launch n reads the array `get_array(n)`. The GPU
    sleeps first, so that each launch is queued before the launch in front of it ends."""
    case.run(case.array)
    outputs = [torch.empty_like(expected[0]) for _ in range(20)]
    for _ in range(10):
        for output in outputs:
            output.fill_(float("nan"))
        torch.cuda.synchronize()
        torch.cuda._sleep(50_000_000)
        for number, output in enumerate(outputs):
            case.run(get_array(number), out=output)
        torch.cuda.synchronize()
        for number, output in enumerate(outputs):
            assert torch.equal(output, expected[number % len(expected)]), number


@each_case
def test_launches_back_to_back(make):
    """Nothing runs between launches: the first kernel of a launch follows the last kernel of the launch before."""
    case = make()
    arrays = [case.draw() for _ in range(10)]
    run_often(case, [case.expect(array) for array in arrays], lambda number: arrays[number % 10])


@each_case
def test_launches_of_an_array_that_changes(make):
    """Between two launches only a copy runs, which writes new contents into the array that the launches read."""
    case = make()
    contents = [case.draw() for _ in range(10)]
    run_often(case, [case.expect(content) for content in contents],
              lambda number: case.array.copy_(contents[number % 10]))


@each_case
def test_work_of_others_in_front_and_behind(make):
    """A launch starts after the work that is queued before it. Work that is queued after it may change everything that
    the launch has read."""
    case = make()
    right = [case.draw(), case.q.clone(), case.k.clone(), case.v.clone()]
    wrong = [case.draw(), *(torch.randn_like(x) for x in right[1:])]
    places = [case.array, case.q, case.k, case.v]
    want = case.expect(right[0])
    case.run(case.array)
    output, seen = torch.empty_like(want), torch.empty_like(want)
    for _ in range(10):
        output.fill_(float("nan"))
        for place, value in zip(places, wrong):
            place.copy_(value)
        torch.cuda._sleep(1_000_000)
        for place, value in zip(places, right):
            place.copy_(value)
        case.run(case.array, out=output)
        seen.copy_(output)  # reads the output; then the output and inputs change
        output.fill_(float("nan"))
        for place, value in zip(places, wrong):
            place.copy_(value)
        torch.cuda.synchronize()
        assert torch.equal(seen, want)
        assert torch.isnan(output).all()


def test_two_streams():
    problems = [make() for make in CASES[:2] for _ in range(2)]
    expected = [case.expect(case.array.clone()) for case in problems]
    for case in problems:
        case.run(case.array)
    outputs = [[torch.full_like(want, float("nan")) for _ in range(10)] for want in expected]
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for _ in range(10):
        for place in range(10):
            for number, case in enumerate(problems):
                with torch.cuda.stream(streams[number % 2]):
                    case.run(case.array, out=outputs[number][place])
    torch.cuda.synchronize()
    for want, results in zip(expected, outputs):
        assert all(torch.equal(want, output) for output in results)


@each_case
def test_graph(make):
    """Captured launches overlap in the same way. Each replay of the graph repeats them with new contents."""
    case = make()
    contents = [case.draw() for _ in range(8)]
    expected = [case.expect(content) for content in contents]
    source = case.draw()
    outputs = [torch.empty_like(expected[0]) for _ in range(3)]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        case.run(case.array, out=outputs[0])
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        case.array.copy_(source)
        for output in outputs:
            case.run(case.array, out=output)
    for number in range(40):
        source.copy_(contents[number % 8])
        for output in outputs:
            output.fill_(float("nan"))
        graph.replay()
        for output in outputs:
            assert torch.equal(output, expected[number % 8]), number
