"""flashc.append_kv on tensors on a GPU against loops in f64. Skipped where there is no GPU."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from appended import append, make_angles, make_positions, make_table, pack  # noqa: E402
from .guarded import BF16, F16, F32, guarded  # noqa: E402
from .test_merge_states import time_of  # noqa: E402

PAGE_SIZES = [1, 2, 3, 7, 16, 63, 64, 65, 128, 256]
LIMIT = {F32: 2e-6, F16: 2e-3, BF16: 1e-2}


def cuda(x):
    return None if x is None else torch.from_numpy(np.ascontiguousarray(x)).cuda()


def check(k_cache, v_cache, k, v, table, positions, counts=None, rotary=None, offsets=None, rows=None):
    """With `offsets`, `rows` of k and v are appended as packed tokens.
    `k_cache` and `v_cache` may be views of larger buffers. The arguments after `v` are NumPy arrays."""
    before = k_cache.double().cpu().numpy(), v_cache.double().cpu().numpy()
    want = [x.copy() for x in before]
    append(*want, k.double().cpu().numpy(), v.double().cpu().numpy(), table, positions, counts, rotary)
    on_gpu = None if rotary is None else (cuda(rotary[0]), cuda(rotary[1]), rotary[2])
    if offsets is not None:
        k, v, counts = *(x.flatten(0, 1)[cuda(rows)] for x in (k, v)), None
    flashc.append_kv(k_cache, v_cache, k, v, cuda(table), cuda(positions), counts=cuda(counts), rotary=on_gpu,
                     cu_seqlens=cuda(offsets))
    got = k_cache.double().cpu().numpy(), v_cache.double().cpu().numpy()
    assert np.array_equal(got[1], want[1], equal_nan=True)
    limit = 0 if rotary is None else LIMIT[k.dtype]
    assert np.allclose(got[0], want[0], rtol=limit, atol=limit, equal_nan=True)
    kept = (want[0] == before[0]) | np.isnan(want[0])
    assert np.array_equal(got[0][kept], before[0][kept], equal_nan=True)


def make_caches(shape, depth, value_depth, dtype, layout):
    """Returns caches that are partly NaN, and the memory after them. `layout` is as in
    test/python/test_append_kv.py."""
    def fill(*extents):
        x, behind = guarded(extents, dtype)
        x.copy_(torch.where(torch.rand(extents, device="cuda") < 0.5, torch.nan, torch.randn(extents, device="cuda")))
        return x, behind
    outer, rows, heads = shape
    if layout == "both":
        both, behind = fill(outer, rows, heads, depth + value_depth)
        return both[..., :depth], both[..., depth:], [behind]
    if layout == "hnd":
        (k, k_behind), (v, v_behind) = fill(outer, heads, rows, depth), fill(outer, heads, rows, value_depth)
        return k.transpose(1, 2), v.transpose(1, 2), [k_behind, v_behind]
    (k, k_behind), (v, v_behind) = fill(outer, rows, heads, depth), fill(outer, rows, heads, value_depth)
    return k, v, [k_behind, v_behind]


def check_paged(rng, page, layout="nhd", dtype=BF16, depth=64, value_depth=64, rotary=None, is_packed=False):
    batch, tokens, heads = int(rng.choice([1, 2, 5, 37])), int(rng.choice([1, 2, 63, 65, 17])), int(rng.integers(1, 9))
    slots = int(rng.integers(1, 5))
    pages = max(1, batch * slots + int(rng.integers(-2, 4)))
    k_cache, v_cache, behind = make_caches((pages, page, heads), depth, value_depth, dtype, layout)
    k, v = (guarded((batch, tokens, heads, d), dtype)[0].normal_() for d in (depth, value_depth))
    positions = make_positions(rng, batch, tokens, slots * page, page)
    counts = rng.choice([0, -1, 1, tokens, tokens + 1, tokens // 2], batch).astype(np.int32)
    counts, packed = counts if rng.integers(2) else None, ()
    if is_packed:
        counts, *packed = pack(rng, batch, tokens)
    check(k_cache, v_cache, k, v, make_table(rng, batch, slots, pages), positions, counts, rotary, *packed)
    assert all(x.isnan().all() for x in behind)


@pytest.mark.parametrize("layout", ["nhd", "hnd", "both"])
@pytest.mark.parametrize("page", PAGE_SIZES)
def test_pages(rng, page, layout):
    for _ in range(4):
        check_paged(rng, page, layout)


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=["f32", "f16", "bf16"])
@pytest.mark.parametrize("depth, value_depth", [(1, 1), (8, 8), (64, 128), (128, 64), (12, 20), (65, 33), (192, 128),
                                                (128, 128), (256, 256)])
def test_depths(rng, depth, value_depth, dtype):
    for _ in range(3):
        check_paged(rng, int(rng.choice(PAGE_SIZES)), dtype=dtype, depth=depth, value_depth=value_depth)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype, angle", [(F32, F32), (F16, F32), (BF16, F32), (F16, F16)], ids=str)
@pytest.mark.parametrize("depth, rotated", [(16, 16), (64, 32), (128, 128), (20, 12), (10, 2), (80, 80)])
def test_rotary(rng, depth, rotated, dtype, angle, interleaved):
    for rows in (1, 50, 2000):
        angles = [x.astype(np.float16 if angle == F16 else np.float32) for x in make_angles(rng, rows, rotated // 2)]
        check_paged(rng, int(rng.choice([1, 16, 63])), dtype=dtype, depth=depth, value_depth=24,
                    rotary=(*angles, interleaved))


@pytest.mark.parametrize("layout", ["nhd", "hnd", "both"])
def test_contiguous(rng, layout):
    for length in (1, 63, 65, 97):
        tokens = int(rng.choice([1, 2, 63]))
        k_cache, v_cache, behind = make_caches((3, length, 2), 64, 64, BF16, layout)
        k, v = (guarded((3, tokens, 2, 64), BF16)[0].normal_() for _ in range(2))
        check(k_cache, v_cache, k, v, None, make_positions(rng, 3, tokens, length, length))
        assert all(x.isnan().all() for x in behind)


@pytest.mark.parametrize("page", [1, 16, 63])
@pytest.mark.parametrize("depth,value_depth,interleaved", [(64, 64, None), (128, 128, False), (40, 24, True)])
def test_packed_tokens(rng, page, depth, value_depth, interleaved):
    rotary = None if interleaved is None else (*(x.astype(np.float32) for x in make_angles(rng, 200, 8)), interleaved)
    for _ in range(8):
        check_paged(rng, page, "nhd", BF16, depth, value_depth, rotary, is_packed=True)


def test_graph():
    """A captured step of decoding is replayed while lengths and pages change on the device only."""
    table = torch.randperm(40, device="cuda", dtype=torch.int32).view(4, 10)
    caches = [torch.zeros(40, 16, 8, 128, device="cuda", dtype=BF16) for _ in range(2)]
    k, v = (torch.empty(4, 1, 8, 128, device="cuda", dtype=BF16) for _ in range(2))
    lengths = torch.zeros(4, device="cuda", dtype=torch.int32)
    k.zero_(), v.zero_()
    flashc.append_kv(*caches, k, v, table, lengths)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        flashc.append_kv(*caches, k, v, table, lengths)
        lengths += 1
    lengths.zero_()
    written = []
    for _ in range(150):
        k.normal_(), v.normal_()
        written.append((k.clone(), v.clone()))
        graph.replay()
    for number, cache in enumerate(caches):
        rows = cache[table.long()].view(4, 160, 8, 128)
        assert torch.equal(rows[:, :150], torch.cat([new[number] for new in written], 1)) and not rows[:, 150:].any()


def test_streams():
    cache, other = (torch.zeros(8, 16, 2, 64, device="cuda", dtype=BF16) for _ in range(2))
    table = torch.arange(8, device="cuda", dtype=torch.int32).view(2, 4)
    k, v = (torch.randn(2, 60, 2, 64, device="cuda").to(BF16) for _ in range(2))
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(10_000_000)
        flashc.append_kv(cache, other, k.clone(), v.clone(), table, torch.zeros(2, device="cuda", dtype=torch.int32))
    torch.cuda.synchronize()
    assert torch.equal(cache.view(2, 64, 2, 64)[:, :60], k) and torch.equal(other.view(2, 64, 2, 64)[:, :60], v)


def test_attention_of_a_cache():
    """Attention to a cache whose keys were appended equals attention to the original array."""
    q, k, v = (torch.randn(2, 4, 64, 64, device="cuda").to(BF16) for _ in range(3))
    cache, other = (torch.zeros(2, 64, 4, 64, device="cuda", dtype=BF16) for _ in range(2))
    start = torch.zeros(2, device="cuda", dtype=torch.int32)
    flashc.append_kv(cache, other, k.transpose(1, 2), v.transpose(1, 2), None, start)
    got = flashc.attention(q, cache.transpose(1, 2), other.transpose(1, 2))
    assert torch.equal(got, flashc.attention(q, k, v))


@pytest.mark.parametrize("with_rotary", [False, True], ids=["copied", "rotated"])
@pytest.mark.parametrize("page", [16, 256])
def test_bandwidth(alone, page, with_rotary):
    """Appending to 128 sequences reaches 80% of the bandwidth of a copy of as many bytes."""
    batch, tokens, heads, depth = 128, 512, 8, 128
    slots = tokens // page
    k, v = (torch.randn(batch, tokens, heads, depth, device="cuda").to(BF16) for _ in range(2))
    caches = [torch.empty(batch * slots, page, heads, depth, device="cuda", dtype=BF16) for _ in range(2)]
    table = torch.randperm(batch * slots, device="cuda", dtype=torch.int32).view(batch, slots)
    start = torch.zeros(batch, device="cuda", dtype=torch.int32)
    angles = torch.randn(tokens, depth // 2, device="cuda")
    rotary = (angles.cos(), angles.sin(), False) if with_rotary else None
    seconds = time_of(lambda: flashc.append_kv(*caches, k, v, table, start, rotary=rotary))
    of_copy = time_of(lambda: (caches[0].view(-1).copy_(k.view(-1)), caches[1].view(-1).copy_(v.view(-1))))
    moved = 2 * (k.nbytes + v.nbytes)
    print(f"{moved / seconds / 1e12:.2f} TB/s, a copy {moved / of_copy / 1e12:.2f}")
    assert seconds < of_copy / 0.8
