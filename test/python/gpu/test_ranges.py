"""Masks that read arrays of which nothing is declared, on a GPU. Kernels that run before the attention find the tiles
to visit.

Results are compared with float32 attention by the rule of docs/checking.md. Outputs are NaN before the launch."""

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc import masks  # noqa: E402
from .tensors import positions, qkv  # noqa: E402
from .test_masks import BF16, F16, assert_right  # noqa: E402

SIZES = [(333, 333), (129, 1517), (1517, 129), (1, 1000), (1009, 997), (4096, 4096)]
ORDERS = ["sorted", "blocks", "shuffled"]


def documents(n, order, count=7, dtype=torch.int32):
    ids = torch.randint(count, (n,), device="cuda").sort().values
    if order == "blocks":
        ids = torch.randperm(count, device="cuda")[ids]
    elif order == "shuffled":
        ids = ids[torch.randperm(n, device="cuda")]
    return ids.to(dtype)


def make_masks(batch, nq, nk, order):
    """Returns masks by name. Some are pairs of a mask and the same rule for torch."""
    n = max(nq, nk)
    ids = torch.stack([documents(n, order) for _ in range(batch)])
    far = documents(n, order, dtype=torch.int64) * (1 << 32)  # ids that differ only above the last 32 bits
    keep = (torch.rand(batch, -(-nk // 64), device="cuda") < 0.4).repeat_interleave(64, 1)[:, :nk].contiguous()
    keep[batch - 1] = False  # no query of this batch sees a key
    flags, unsigned, times = keep.to(torch.int8), keep.to(torch.uint8), documents(n, order, 1000)
    offsets = torch.tensor([0, n // 5, n // 5, n // 2, n], device="cuda", dtype=torch.int32)
    number = torch.bucketize(torch.arange(n, device="cuda"), offsets[1:], right=True)
    flag = lambda b, h, i, j: keep[b, j]  # noqa: E731
    return {
        "documents": lambda b, h, i, j: ids[b, i] == ids[b, j],
        "causal documents": lambda b, h, i, j: (ids[b, i] == ids[b, j]) & (j <= i),
        "documents of 64 bits": lambda b, h, i, j: far[i] == far[j],
        "flags": lambda b, h, i, j: keep[b, j],
        "flags as numbers": lambda b, h, i, j: flags[b, j] != 0,
        "unsigned flags": lambda b, h, i, j: unsigned[b, j] != 0,
        "times": lambda b, h, i, j: times[j] <= times[i],
        "times of heads": lambda b, h, i, j: (times[j] <= times[i]) & ((h % 2 == 0) | (j <= i)),
        "packed": (masks.packed(offsets) & flag, lambda b, h, i, j: (number[i] == number[j]) & keep[b, j]),
        "packed and causal": (masks.packed(offsets, causal=True) & flag, lambda b, h, i, j:
                              (number[i] == number[j]) & keep[b, j] & (j <= i)),
        "window": (masks.sliding_window(200, align="top-left") & flag, lambda b, h, i, j:
                   (j <= i) & (i - j <= 200) & keep[b, j]),
        "neither": lambda b, h, i, j: ~((times[j] < times[i]) ^ keep[b, j]),
        "nothing": lambda b, h, i, j: ids[b, j] > 100,
        "everything": lambda b, h, i, j: (ids[b, j] >= 0) | (j <= i),
    }


def check(mask, shape, d, dtype=BF16, **keywords):
    """`mask` is a mask, or a pair of a mask and the same rule for torch."""
    b, h, nq, nk = shape
    mask, rule = mask if isinstance(mask, tuple) else (mask, mask)
    q, k, v = qkv(b, h, h // 2, nq, nk, d, dtype=dtype)
    o, lse = flashc.attention(q, k, v, mask=mask, enable_gqa=True, return_lse=True, **keywords)
    assert_right(o, lse, q, k, v, rule(*positions(b, h, nq, nk)))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("nq, nk", SIZES)
def test_masks(nq, nk, d, order):
    for name, mask in make_masks(2, nq, nk, order).items():
        print(name)
        check(mask, (2, 4, nq, nk), d)


@pytest.mark.parametrize("d", [8, 72, 192, 256])
def test_head_dimensions(d):
    for mask in make_masks(2, 700, 900, "blocks").values():
        check(mask, (2, 2, 700, 900), d, F16)


@pytest.mark.parametrize("schedule", ["consumers=1,kv-tile=32", "consumers=3", "persistent=false"])
def test_schedules(schedule):
    for mask in make_masks(3, 1009, 997, "sorted").values():
        check(mask, (3, 2, 1009, 997), 64, schedule=schedule)


def test_scores_with_positions():
    """A score that uses j needs the position of a key in full tiles too."""
    ids = documents(2048, "sorted")
    q, k, v = qkv(1, 2, 2, 2048, 2048, 64)
    mask = lambda b, h, i, j: ids[i] == ids[j]  # noqa: E731
    score = lambda s, b, h, i, j: s - 0.01 * (i - j) * (h + 1)  # noqa: E731
    o, lse = flashc.attention(q, k, v, mask=mask, score=score, return_lse=True)
    grid = positions(1, 2, 2048, 2048)
    assert_right(o, lse, q, k, v, mask(*grid), lambda s: score(s, *grid))


def test_arrays_that_change():
    """All arrays of a shape share one kernel. Its tables are computed again at every launch, and at every replay of a
    graph."""
    ids = documents(1500, "sorted")
    q, k, v = qkv(1, 2, 2, 1500, 1500, 128)
    mask = lambda b, h, i, j: ids[i] == ids[j]  # noqa: E731
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        flashc.attention(q, k, v, mask=mask)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o, lse = flashc.attention(q, k, v, mask=mask, return_lse=True)
    for order in ORDERS:
        ids.copy_(documents(1500, order))
        o.fill_(float("nan"))
        graph.replay()
        assert_right(o, lse, q, k, v, mask(*positions(1, 2, 1500, 1500)))


def test_tiles_are_skipped():
    """Attention over sixteen documents takes far less time than over one document."""
    n = 16384
    q, k, v = qkv(1, 8, 8, n, n, 128)
    one = torch.zeros(n, device="cuda", dtype=torch.int32)
    many = torch.arange(n, device="cuda", dtype=torch.int32) // 1024

    def time(ids):
        def run():
            flashc.attention(q, k, v, mask=lambda b, h, i, j: ids[i] == ids[j])
        run()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(10):
            run()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 10
    times = time(one), time(many)
    print(f"one document {times[0]:.3f} ms, sixteen {times[1]:.3f} ms")
    assert times[1] < times[0] / 4
