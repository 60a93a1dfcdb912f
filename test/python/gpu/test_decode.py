"""flashc.decode on a GPU against the formula in f64. Skipped where there is no GPU."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import decoding  # noqa: E402
import flashc  # noqa: E402


@pytest.fixture(params=["sm_90a", "sm_80"])
def target(request, monkeypatch):
    """Selects one of the two forms of the kernel: tiles loaded by TMA, or rows loaded by cp.async."""
    monkeypatch.setattr("flashc._decode._target_of", lambda device: request.param)
    return request.param


LIMIT = {torch.bfloat16: 8e-3, torch.float16: 2e-3}
RAGGED = [1000, 1, 0, 37, 517, 16, 333]


def make(lengths, heads=8, group=4, tokens=1, depth=128, value_depth=None, page=0, dtype=torch.bfloat16, capacity=None,
         **keywords):
    cache = decoding.Cache(lengths, heads, depth, value_depth or depth, capacity or max(max(lengths), 1), page, "cuda",
                           dtype, **keywords)
    q = torch.randn(len(lengths), tokens, heads * group, depth, device="cuda").to(dtype)
    return cache, q


@pytest.mark.parametrize("splits", [1, 2, 4, 8, 3, 16])
@pytest.mark.parametrize("page", [0, 1, 8, 16, 24, 64, 256])
def test_splits(page, splits, target):
    cache, q = make(RAGGED, page=page)
    decoding.check(cache, q, LIMIT[q.dtype], splits=splits)


@pytest.mark.parametrize("depth,value_depth", [(64, 64), (128, 128), (40, 40), (64, 128), (96, 96), (256, 256),
                                               (192, 128), (16, 16), (8, 24)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_dimensions(depth, value_depth, dtype, target):
    for splits in (1, 8):
        cache, q = make([65, 300, 7], heads=2, depth=depth, value_depth=value_depth, dtype=dtype)
        decoding.check(cache, q, LIMIT[dtype], splits=splits)


@pytest.mark.parametrize("heads,group,tokens", [(8, 1, 1), (1, 8, 1), (2, 3, 1), (2, 16, 1), (1, 64, 1), (4, 4, 2),
                                                (2, 8, 4), (2, 4, 16), (3, 5, 3), (1, 1, 64), (2, 2, 17), (1, 24, 2)])
@pytest.mark.parametrize("page", [0, 32, 8])
def test_rows(heads, group, tokens, page, target):
    cache, q = make([130, 64, 2, 1, 0, 400], heads=heads, group=group, tokens=tokens, page=page)
    decoding.check(cache, q, LIMIT[q.dtype])


@pytest.mark.parametrize("page,order,interleaved", [(0, "hnd", False), (16, "hnd", False), (128, "nhd", True),
                                                    (64, "hnd", True), (8, "hnd", True), (1, "nhd", True)])
def test_layouts(page, order, interleaved, target):
    cache, q = make(RAGGED, page=page, order=order, interleaved=interleaved)
    decoding.check(cache, q, LIMIT[q.dtype])
    heads_first = [x.transpose(1, 2) for x in (q, cache.k_cache, cache.v_cache)]
    o = flashc.decode(*heads_first, *cache.arguments()[2:], layout="bhsd")
    assert torch.equal(o.transpose(1, 2), flashc.decode(q, *cache.arguments()))


@pytest.mark.parametrize("name", decoding.MASKS)
@pytest.mark.parametrize("page,tokens", [(0, 1), (16, 3), (1, 2)])
def test_masks(name, page, tokens, target):
    cache, q = make(RAGGED, page=page, tokens=tokens, heads=4)
    decoding.check(cache, q, LIMIT[q.dtype], **decoding.MASKS[name])


@pytest.mark.parametrize("page,tokens", [(0, 1), (64, 4)])
def test_scores(page, tokens, target):
    cache, q = make(RAGGED, page=page, tokens=tokens, heads=4)
    slopes = torch.rand(16, device="cuda") * 0.1
    bias = torch.randn(16, 1024, device="cuda")
    scores = {"alibi": lambda s, b, h, i, j: s - slopes[h] * (i - j), "cap": lambda s, b, h, i, j: 20 * (s / 20).tanh(),
              "bias": lambda s, b, h, i, j: s + bias[h, j]}
    for name, rescore in scores.items():
        decoding.check(cache, q, LIMIT[q.dtype], rescore=rescore)


STORED = [torch.float8_e4m3fn, torch.int8]


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("page,scales", [(0, "all"), (0, "heads"), (1, "heads"), (8, "all"), (16, "pages"),
                                         (64, "pages and heads"), (32, "heads"), (256, "all")])
@pytest.mark.parametrize("splits", [1, 8, 5])
def test_eight_bits(stored, page, scales, splits):
    cache, q = make(RAGGED, page=page, stored=stored, scales=scales, order="hnd" if page == 64 else "nhd")
    decoding.check(cache, q, LIMIT[q.dtype], splits=splits)


@pytest.mark.parametrize("depth,value_depth", [(64, 64), (16, 16), (48, 80), (256, 256), (192, 128), (64, 128)])
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_dimensions_of_eight_bits(depth, value_depth, stored, dtype):
    for splits in (1, 4, 16):
        cache, q = make([65, 300, 7], heads=2, group=3, depth=depth, value_depth=value_depth, dtype=dtype,
                        stored=stored, tokens=2, scales="heads")
        decoding.check(cache, q, LIMIT[dtype], splits=splits)


@pytest.mark.parametrize("page", [0, 1, 64])
def test_bytes_on_ampere(page, monkeypatch):
    monkeypatch.setattr("flashc._decode._target_of", lambda device: "sm_80")
    cache, q = make(RAGGED, page=page, stored=torch.int8, scales="heads", group=7, tokens=2)
    for splits in (None, 4):
        decoding.check(cache, q, LIMIT[q.dtype], splits=splits)
    cache, q = make(RAGGED, page=page, stored=torch.float8_e4m3fn)
    with pytest.raises(flashc.CompileError, match="which has no float8"):
        decoding.check(cache, q, LIMIT[q.dtype])


@pytest.mark.parametrize("stored", STORED)
def test_code_of_eight_bits(stored):
    cache, q = make(RAGGED, page=16, tokens=3, heads=4, stored=stored, scales="pages and heads")
    slopes = torch.rand(16, device="cuda") * 0.1
    decoding.check(cache, q, LIMIT[q.dtype], rescore=lambda s, b, h, i, j: s - slopes[h] * (i - j),
                   **decoding.MASKS["sink and window"])
    decoding.check(cache, q, LIMIT[q.dtype], sinks=torch.randn(16, device="cuda"), batch_invariant=True,
                   **decoding.MASKS["window"])


def test_all_bytes():
    """Finds each finite float8 value alone, and checks that a NaN is seen."""
    codes = torch.arange(256, device="cuda").to(torch.uint8)
    codes[codes & 127 == 127] = 0
    v = codes.view(torch.float8_e4m3fn).view(1, 16, 1, 16).clone()
    k, one = torch.zeros_like(v.float()).to(v.dtype), torch.ones((), device="cuda")
    q = torch.randn(1, 1, 1, 16, device="cuda").bfloat16()
    lengths, chosen = (torch.full((1,), n, dtype=torch.int32, device="cuda") for n in (16, 0))

    def find(key):
        chosen.fill_(key)
        return flashc.decode(q, k, v, lengths, k_scale=one, v_scale=one, causal=False,
                             mask=lambda b, h, i, j: j == chosen[0])
    for key in range(16):
        assert torch.equal(find(key)[0, 0, 0].float(), v[0, key, 0].float())
    v.view(torch.uint8)[0, 3, 0, 5] = 0x7F
    assert find(3)[0, 0, 0].isnan().tolist() == [d == 5 for d in range(16)]


@pytest.mark.parametrize("tokens", [2, 9])
@pytest.mark.parametrize("splits", [1, 4, 5])
def test_sinks(splits, tokens, target):
    cache, q = make(RAGGED, tokens=tokens)
    decoding.check(cache, q, LIMIT[q.dtype], sinks=torch.randn(32, device="cuda"), splits=splits)


@pytest.mark.parametrize("name", [None, *decoding.MASKS])
@pytest.mark.parametrize("depth,group,tokens", [(128, 4, 1), (128, 4, 16), (64, 8, 5), (128, 6, 3), (256, 16, 4),
                                                (72, 64, 1)])
@pytest.mark.parametrize("page", [0, 16])
def test_parts_by_work(name, depth, group, tokens, page):
    """The launch cuts the keys of long sequences into parts by the work of all tiles."""
    cache, q = make([*RAGGED, 9000, 2, 130, 4097], 2, group, tokens, depth, page=page)
    heads = {6: 2}.get(group, group)
    schedule = f"splits=8,persistent=true,heads={heads},consumers=1" + (",kv-tile=128" if depth <= 128 else "")
    decoding.check(cache, q, LIMIT[q.dtype], sinks=torch.randn(2 * group, device="cuda"), schedule=schedule,
                   **decoding.MASKS.get(name, {}))


def test_tree():
    """Speculative decoding: each token sees its ancestors, which a table in memory lists."""
    tokens = 8
    cache, q = make([300, 77, 9], tokens=tokens, heads=2)
    parents = [-1, 0, 0, 1, 1, 2, 3, 5]
    tree = torch.zeros(tokens, tokens, dtype=torch.bool)
    for t in range(tokens):
        at = t
        while at >= 0:
            tree[t, at], at = True, parents[at]
    tree, lengths = tree.cuda(), cache.lengths

    def sees(b, h, i, j):
        first = lengths[b] - tokens
        return (j < first) | tree[i - first, (j - first).clip(0, tokens - 1)]
    decoding.check(cache, q, LIMIT[q.dtype], mask=sees, causal=False,
                   keep=lambda b, h, i, j: (j < int(lengths[b]) - tokens) | tree[
                       (i - int(lengths[b]) + tokens), (j - int(lengths[b]) + tokens).clip(0, tokens - 1)])


def test_batch_invariant(target):
    lengths = [5000, 1024, 300, 0, 4097]
    cache, q = make(lengths, capacity=6000)
    together = decoding.check(cache, q, LIMIT[q.dtype], batch_invariant=True)
    for b, length in enumerate(lengths):
        alone = flashc.decode(q[b:b + 1], cache.k_cache[b:b + 1, :max(length, 1)],
                              cache.v_cache[b:b + 1, :max(length, 1)], cache.lengths[b:b + 1], batch_invariant=True)
        assert torch.equal(alone[0], together[b])


@pytest.mark.parametrize("splits", [1, 8, 16])
def test_graphs(splits):
    """Lengths change between replays of a CUDA graph."""
    cache, q = make([700, 123], capacity=1500, page=64)
    whole = decoding.Cache([1500, 1500], 8, 128, 128, 1500, 64, "cuda", torch.bfloat16)
    flashc.decode(q, *whole.arguments(), splits=splits)
    torch.cuda.synchronize()
    lengths = whole.lengths.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = flashc.decode(q, whole.k_cache, whole.v_cache, lengths, whole.table, splits=splits)
    for new in ([1500, 1500], [3, 900], [0, 1]):
        lengths.copy_(torch.tensor(new, dtype=torch.int32))
        o.fill_(torch.nan)
        graph.replay()
        want, _ = decoding.attention(q, whole.k, whole.v, lengths)
        assert (o.double() - want).norm() <= LIMIT[q.dtype] * (want.norm() + 1e-3)


@pytest.mark.parametrize("splits", [2, 8, 16])
def test_many_launches(splits):
    """Every launch gives the same bits while other work runs on the GPU."""
    cache, q = make(RAGGED, page=16)
    first = flashc.decode(q, *cache.arguments(), splits=splits)
    other, side = torch.randn(2048, 2048, device="cuda"), torch.cuda.Stream()
    different = torch.zeros((), dtype=torch.int64, device="cuda")
    out = torch.empty_like(first)
    for turn in range(10_000):
        if turn % 20 == 0:
            with torch.cuda.stream(side):
                other @ other
        out.fill_(torch.nan)
        flashc.decode(q, *cache.arguments(), splits=splits, out=out)
        different += (out.view(torch.int16) != first.view(torch.int16)).any()
    assert int(different) == 0
