"""Prefill and chunked prefill through caches (flashc.decode with many tokens), on a GPU against the formula in f64. The
forward kernel reads the cache. Skipped where there is no GPU."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import decoding  # noqa: E402
import flashc  # noqa: E402
from flashc._runtime import library  # noqa: E402

LIMIT = {torch.bfloat16: 8e-3, torch.float16: 2e-3}
# Lengths of the sequences. If a sequence is shorter than the number of queries, the first queries have negative
# positions and see no keys.
RAGGED = [1000, 1, 0, 37, 517, 16, 333, 1411]
SHORT = [300, 1, 0, 37, 16, 257]


@pytest.fixture(autouse=True, params=[1, 3])
def forward(monkeypatch, request):
    """Makes decode run the forward kernel, even where the decoding kernel would be faster, with the keys cut into as
    many parts as the call's `splits` says. Without `splits` there are 1 or 3 parts, the fixture's parameter."""
    def choose(specialization, extents, device, options):
        parts = f"splits={options.splits or request.param}"
        return library.FORWARD_KERNEL, ",".join(filter(None, [parts, options.schedule]))
    monkeypatch.setattr("flashc._decode._choose", choose)
    return request.param


def make(lengths, tokens, heads=2, group=8, depth=128, value_depth=None, page=0, dtype=torch.bfloat16, capacity=None,
         **keywords):
    cache = decoding.Cache(lengths, heads, depth, value_depth or depth, capacity or max(max(lengths), 1), page, "cuda",
                           dtype, **keywords)
    q = torch.randn(len(lengths), tokens, heads * group, depth, device="cuda").to(dtype)
    return cache, q


@pytest.mark.parametrize("tokens", [17, 63, 65, 129, 1000])
@pytest.mark.parametrize("page", [0, 8, 16, 32, 64, 128, 256])
def test_tokens(page, tokens):
    cache, q = make(RAGGED, tokens, page=page)
    decoding.check(cache, q, LIMIT[q.dtype])


@pytest.mark.parametrize("depth,value_depth", [(64, 64), (40, 40), (64, 128), (96, 96), (256, 256), (192, 128)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("page", [0, 16, 64])
def test_dimensions(page, depth, value_depth, dtype):
    cache, q = make(SHORT, 100, depth=depth, value_depth=value_depth, dtype=dtype, page=page)
    decoding.check(cache, q, LIMIT[dtype])


@pytest.mark.parametrize("heads,group,tokens", [(8, 1, 65), (1, 8, 129), (2, 3, 50), (1, 64, 17), (3, 5, 33)])
@pytest.mark.parametrize("page", [0, 32])
def test_heads(heads, group, tokens, page):
    cache, q = make(SHORT, tokens, heads=heads, group=group, page=page)
    decoding.check(cache, q, LIMIT[q.dtype])


@pytest.mark.parametrize("page,order,interleaved", [(0, "hnd", False), (16, "hnd", False), (128, "nhd", True),
                                                    (64, "hnd", True)])
def test_layouts(page, order, interleaved):
    cache, q = make(RAGGED, 129, page=page, order=order, interleaved=interleaved)
    decoding.check(cache, q, LIMIT[q.dtype])
    heads_first = [x.transpose(1, 2) for x in (q, cache.k_cache, cache.v_cache)]
    o = flashc.decode(*heads_first, *cache.arguments()[2:], layout="bhsd")
    assert torch.equal(o.transpose(1, 2), flashc.decode(q, *cache.arguments()))


@pytest.mark.parametrize("name", decoding.MASKS)
@pytest.mark.parametrize("page,tokens", [(0, 65), (16, 300), (128, 300)])
def test_masks(name, page, tokens):
    cache, q = make(RAGGED, tokens, page=page)
    decoding.check(cache, q, LIMIT[q.dtype], **decoding.MASKS[name])


@pytest.mark.parametrize("page,tokens", [(0, 65), (64, 300)])
@pytest.mark.parametrize("depth", [64, 128])
def test_scores(page, tokens, depth):
    cache, q = make(RAGGED, tokens, page=page, depth=depth)
    slopes, bias = torch.rand(16, device="cuda") * 0.1, torch.randn(16, 1500, device="cuda")
    scores = {"alibi": lambda s, b, h, i, j: s - slopes[h] * (i - j), "cap": lambda s, b, h, i, j: 20 * (s / 20).tanh(),
              # Only the last keys, which are not on the first page, get terms near 0. All others get large negative
              # ones.
              "steep": lambda s, b, h, i, j: s - 2e5 * slopes[h] * (i - j),
              "bias": lambda s, b, h, i, j: s + bias[h, j]}
    for rescore in scores.values():
        decoding.check(cache, q, LIMIT[q.dtype], rescore=rescore)


@pytest.mark.parametrize("page", [0, 64])
def test_sinks(page):
    cache, q = make(RAGGED, 129, page=page)
    decoding.check(cache, q, LIMIT[q.dtype], sinks=torch.randn(16, device="cuda"))


# Schedules that the schedule table or a user may choose: kernels that are not persistent, other epilogues, consumers
# with keys of their own.
SCHEDULES = ["persistent=false", "epilogue=plain,store=registers",
             "consumers=3,kv-tile=80,stages=4,own-keys=true", "consumers=2,kv-tile=64,stages=3",
             "consumers=1,kv-tile=96,stages=2", "ping-pong=false"]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("page", [0, 16, 64, 128])
def test_schedules(page, schedule, forward):
    cache, q = make(RAGGED, 300, page=page)
    if forward > 1 and "own-keys" in schedule:
        with pytest.raises(flashc.CompileError, match="expected splits=1 for"):
            flashc.decode(q, *cache.arguments(), schedule=schedule)
        return
    decoding.check(cache, q, LIMIT[q.dtype], schedule=schedule)


@pytest.mark.parametrize("page", [0, 16, 256])
def test_long(page):
    """Chunks of long sequences, with more queries than the entries for few queries take."""
    cache, q = make([20000, 5000, 0], 5000, heads=1, group=2, page=page)
    decoding.check(cache, q, LIMIT[q.dtype])
    decoding.check(cache, q[:, -600:], LIMIT[q.dtype])


@pytest.mark.parametrize("page", [0, 16])
def test_chunks(page):
    """Attention of a prompt in chunks gives the same rows as the whole prompt."""
    tokens = 700
    cache, q = make([tokens], tokens, page=page)
    whole = flashc.decode(q, *cache.arguments())
    for first, last in ((0, 100), (100, 228), (228, 700)):
        lengths = torch.tensor([last], dtype=torch.int32, device="cuda")
        part = flashc.decode(q[:, first:last], cache.k_cache, cache.v_cache, lengths,
                             *([] if cache.table is None else [cache.table]))
        assert (part - whole[:, first:last]).float().norm() <= 1e-2 * whole[:, first:last].float().norm()


def test_batch_invariant():
    lengths, tokens = [5000, 1024, 300, 0, 4097], 200
    cache, q = make(lengths, tokens, capacity=6000)
    together = decoding.check(cache, q, LIMIT[q.dtype], batch_invariant=True)
    for b, length in enumerate(lengths):
        alone = flashc.decode(q[b:b + 1], cache.k_cache[b:b + 1, :max(length, 1)],
                              cache.v_cache[b:b + 1, :max(length, 1)], cache.lengths[b:b + 1], batch_invariant=True)
        assert torch.equal(alone[0], together[b])


def test_graphs():
    """Lengths change between replays of a CUDA graph."""
    whole = decoding.Cache([1500, 1500], 2, 128, 128, 1500, 64, "cuda", torch.bfloat16)
    q = torch.randn(2, 129, 16, 128, device="cuda").bfloat16()
    flashc.decode(q, *whole.arguments())
    torch.cuda.synchronize()
    lengths = whole.lengths.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = flashc.decode(q, whole.k_cache, whole.v_cache, lengths, whole.table)
    for new in ([1500, 1500], [3, 900], [0, 129], [130, 1]):
        lengths.copy_(torch.tensor(new, dtype=torch.int32))
        o.fill_(torch.nan)
        graph.replay()
        want, _ = decoding.attention(q, whole.k, whole.v, lengths)
        assert (o.double() - want).norm() <= LIMIT[q.dtype] * (want.norm() + 1e-3)


def test_many_launches():
    """Every launch gives the same bits while other work runs on the GPU."""
    cache, q = make(RAGGED, 300, page=16)
    first = flashc.decode(q, *cache.arguments())
    other, side = torch.randn(2048, 2048, device="cuda"), torch.cuda.Stream()
    different = torch.zeros((), dtype=torch.int64, device="cuda")
    out = torch.empty_like(first)
    for turn in range(500):
        if turn % 20 == 0:
            with torch.cuda.stream(side):
                other @ other
        out.fill_(torch.nan)
        flashc.decode(q, *cache.arguments(), out=out)
        different += (out.view(torch.int16) != first.view(torch.int16)).any()
    assert int(different) == 0
