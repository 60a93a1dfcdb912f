"""flashc.merge_states on tensors on a GPU against the merge in f64. Skipped where there is no GPU."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from .guarded import BF16, F16, F32, assert_right, guarded, qkv  # noqa: E402

TOLERANCE = {F32: 1e-5, F16: 2e-3, BF16: 2e-2}


def parts(*shape, dtype=F32, dead=0.2):
    """Returns random parts, some of which are empty and hold NaN. All of them are followed by NaN in memory."""
    o, lse = guarded(shape, dtype)[0], guarded(shape[:4], F32)[0]
    lse.copy_(3 * torch.randn(shape[:4], device="cuda"))
    lse[torch.rand(shape[:4], device="cuda") < dead] = -torch.inf
    o.copy_(torch.where(lse.isinf()[..., None], torch.nan, torch.randn(shape, device="cuda")))
    return o, lse


def merge(o, lse, sinks=None):
    """Merges in f64, by the formula."""
    o, lse = torch.where(lse.isinf()[..., None], 0.0, o.double()), lse.double()
    if sinks is not None:
        lse = torch.cat([lse, sinks.double()[None, None, :, None].expand(1, *lse.shape[1:])])
        o = torch.cat([o, torch.zeros_like(o[:1])])
    whole = lse.logsumexp(0)
    weights = torch.exp(lse - torch.where(whole.isinf(), 0.0, whole))
    return (weights[..., None] * o).sum(0), whole


def check(o, lse, sinks=None, dtype=None):
    """Merges into arrays of NaN that are followed by NaN in memory."""
    dtype = dtype or o.dtype
    (out, behind), (whole, behind_lse) = guarded(o.shape[1:], dtype), guarded(o.shape[1:4], F32)
    flashc.merge_states(o, lse, sinks=sinks, out=(out, whole))
    want, want_lse = merge(o, lse, sinks)
    limit = TOLERANCE[dtype]
    torch.testing.assert_close(out.double(), want, rtol=limit, atol=limit)
    torch.testing.assert_close(whole.double(), want_lse, rtol=1e-5, atol=1e-5)
    assert behind.isnan().all() and behind_lse.isnan().all()


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=["f32", "f16", "bf16"])
@pytest.mark.parametrize("depth", [1, 8, 12, 64, 65, 100, 128, 256])
def test_sizes(rng, depth, dtype):
    for number in [1, 2, 3, 7, 8, 9, 16, 17, 64]:
        rows = int(rng.choice([1, 2, 63, 65, 97, 500]))
        shape = (number, int(rng.integers(1, 4)), int(rng.integers(1, 9)), rows, depth)
        o, lse = parts(*shape, dtype=dtype)
        check(o, lse)
        check(o, lse, torch.randn(shape[2], device="cuda"), dtype=(F32, BF16, F16)[number % 3])


def test_large_log_sum_exps():
    o, lse = parts(9, 2, 4, 77, 64)
    for scale in (30, 1000):
        check(o, lse * scale)


def test_nothing_at_all():
    o, lse = parts(5, 2, 3, 9, 64, dead=2.0)
    got, whole = flashc.merge_states(o, lse)
    assert (got == 0).all() and (whole == -torch.inf).all()
    sinks = torch.tensor([1.5, -torch.inf, 0.0], device="cuda")
    got, whole = flashc.merge_states(o, lse, sinks=sinks)
    assert (got == 0).all() and torch.equal(whole, sinks[:, None].expand(2, 3, 9))


def test_one_part_is_itself():
    o, lse = parts(1, 2, 3, 65, 128, dtype=BF16, dead=0)
    got, whole = flashc.merge_states(o, lse)
    assert torch.equal(got, o[0])
    torch.testing.assert_close(whole, lse[0], rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [BF16, F16], ids=["bf16", "f16"])
def test_parts_of_attention(dtype):
    q, k, v = qkv(2, 8, 2, 65, 700, 128, dtype=dtype)
    cuts = [(0, 1), (1, 300), (300, 640), (640, 700)]
    states = [flashc.attention(q, k[:, :, a:e], v[:, :, a:e], enable_gqa=True, return_lse=True) for a, e in cuts]
    o, lse = (torch.stack(arrays) for arrays in zip(*states))
    assert_right(*[flashc.merge_states(o, lse)[0], q, k, v])


def test_strides():
    o, lse = parts(3, 2, 20, 5, 64, dtype=BF16)
    turned, lses = o.transpose(2, 3), lse.transpose(2, 3).contiguous()
    out = torch.full((2, 20, 5, 64), torch.nan, device="cuda", dtype=BF16).transpose(1, 2)
    whole = torch.full((2, 5, 20), torch.nan, device="cuda")
    flashc.merge_states(turned, lses, out=(out, whole))
    torch.testing.assert_close(out.double(), merge(turned, lses)[0], rtol=2e-2, atol=2e-2)


def test_launches_agree():
    o, lse = parts(33, 3, 8, 200, 128)
    first = flashc.merge_states(o, lse)
    for _ in range(20):
        again = flashc.merge_states(o, lse)
        assert torch.equal(again[0], first[0]) and torch.equal(again[1], first[1])


def test_graph():
    """A merge is captured once, and replayed with other numbers."""
    o, lse = parts(4, 2, 8, 33, 128)
    out, whole = torch.empty(2, 8, 33, 128, device="cuda"), torch.empty(2, 8, 33, device="cuda")
    flashc.merge_states(o, lse, out=(out, whole))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        flashc.merge_states(o, lse, out=(out, whole))
    for _ in range(3):
        fresh = parts(4, 2, 8, 33, 128)
        o.copy_(fresh[0]), lse.copy_(fresh[1])
        out.fill_(torch.nan), whole.fill_(torch.nan)
        graph.replay()
        want = merge(*fresh)
        torch.testing.assert_close(out.double(), want[0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(whole.double(), want[1], rtol=1e-5, atol=1e-5)


def test_streams():
    """Inputs that another stream of the caller writes are read after they are written."""
    o, lse = parts(4, 2, 8, 333, 128)
    want = flashc.merge_states(o, lse)
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(10_000_000)
        late = o.clone(), lse.clone()
        got = flashc.merge_states(*late)
    torch.cuda.synchronize()
    assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])


def test_bandwidth(alone):
    """Large merges reach 80% of the bandwidth of a copy."""
    o, lse = parts(4, 16, 32, 1024, 128, dtype=BF16, dead=0)
    out, whole = torch.empty_like(o[0]), torch.empty_like(lse[0])
    copied = torch.empty_like(o)
    seconds = time_of(lambda: flashc.merge_states(o, lse, out=(out, whole)))
    of_copy = time_of(lambda: copied.copy_(o))
    moved = 5 / 4 * o.nbytes + 5 / 4 * lse.nbytes
    rate, best = moved / seconds, 2 * o.nbytes / of_copy
    print(f"{rate / 1e12:.2f} TB/s, a copy {best / 1e12:.2f}")
    assert rate > 0.8 * best


def time_of(call, rounds=10, calls=10):
    """Returns the seconds of one call: `calls` calls are captured in a CUDA graph, and the fastest of `rounds` replays
    counts."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call()
    torch.cuda.synchronize()
    graph, times = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3 / calls)
    return min(times)
