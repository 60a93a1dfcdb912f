"""The door to vLLM on a GPU, without vLLM: batches that change from step to step, against the formula in f64, and CUDA
graphs that are replayed with other batches. Skipped where there is no GPU."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import paged_server  # noqa: E402
from flashc.integrations import _vllm_step as door  # noqa: E402
from paged_server import LAYERS, SINKS, layer_of, step_of  # noqa: E402

CAPACITY, LIMIT = 1024, 2e-2


def server_of(rng, key_heads=2, depth=64, **options):
    return paged_server.Server(int(rng.integers(1 << 30)), 4, key_heads, depth, device="cuda",
                               **{"dtype": torch.bfloat16, **options})


def places_of(server):
    return door.Places(CAPACITY, server.page, "cuda")


@pytest.mark.parametrize("depth,key_heads", [(64, 2), (128, 1), (256, 4), (72, 2)])
@pytest.mark.parametrize("name", LAYERS)
def test_batches(rng, name, depth, key_heads):
    server, (options, keywords) = server_of(rng, key_heads, depth), LAYERS[name]
    layer, places = layer_of(server, **options), places_of(server)
    for _ in range(8):
        batch = server.step()
        paged_server.check(server, batch, step_of(server, batch, places), layer, LIMIT, **keywords)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (1, 0, 2, 3)])
@pytest.mark.parametrize("key_heads,page", [(1, 16), (2, 48), (4, 128)])
def test_layouts(rng, order, key_heads, page, dtype):
    server = server_of(rng, key_heads, 128, page=page, order=order, dtype=dtype)
    layer, places = layer_of(server), places_of(server)
    for _ in range(4):
        batch = server.step()
        paged_server.check(server, batch, step_of(server, batch, places), layer, LIMIT)


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("name", LAYERS)
def test_equal_numbers_of_queries(rng, name, queries):
    server, (options, keywords) = server_of(rng), LAYERS[name]
    layer, places = layer_of(server, **options), places_of(server)
    for _ in range(4):
        batch = server.step(queries)
        step = step_of(server, batch, places, door.uniform_call)
        assert step.calls
        paged_server.check(server, batch, step, layer, LIMIT, **keywords)


@pytest.mark.parametrize("scales", [(0.5, 0.25), ([0.5, 1.0], [0.25, 2.0])])
@pytest.mark.parametrize("name", ["causal", "window", "soft cap", "alibi", "sinks and window"])
def test_eight_bits(rng, name, scales):
    server, (options, keywords) = server_of(rng, grain=2.0, cache_dtype=torch.float8_e4m3fn), LAYERS[name]
    layer, places = layer_of(server, **options), places_of(server)
    for _ in range(4):
        batch = server.step()
        step = step_of(server, batch, places, door.piecewise_calls)
        paged_server.check(server, batch, step, layer, 2 * LIMIT, **keywords,
                           scales=[torch.tensor(scale, device="cuda") for scale in scales])


@pytest.mark.parametrize("size", [None, 20])
def test_not_causal(rng, size):
    server, near = server_of(rng), size or 10**6
    batch, places, layer = server.step(), places_of(server), layer_of(server, window=size)
    flags = torch.tensor([b % 2 for b in range(len(batch.past))], dtype=torch.int32, device="cuda")
    paged_server.check(server, batch, step_of(server, batch, places, causal=False), layer, LIMIT,
                       keep=lambda b, h, i, j: (i - j).abs() < near)
    paged_server.check(server, batch, step_of(server, batch, places, causal=flags), layer, LIMIT,
                       keep=lambda b, h, i, j: ((i - j).abs() < near) & ((j <= i) if b % 2 else (j >= 0)))


@pytest.mark.parametrize("size,clamps", [(None, False), (20, False), (20, True)])
def test_ranges(rng, size, clamps):
    server, near = server_of(rng), size or 10**6
    batch = server.step(40)
    ranges = torch.full((batch.tokens, 2), -1, dtype=torch.int32, device="cuda")
    for end, length in zip(batch.offsets[1:], batch.lengths.tolist()):
        ranges[end - 30:end - 5] = torch.tensor([length - 30, length - 6], dtype=torch.int32, device="cuda")

    def keep(b, h, i, j):
        first, last = (ranges[batch.offsets[b]:batch.offsets[b + 1], side][:, None] for side in (0, 1))
        is_near = i - j < near
        return (j <= i) & is_near | (j >= first) & (j <= last) & (is_near if clamps else True)
    step = step_of(server, batch, places_of(server), mm_prefix_query_range_tensor=ranges)
    paged_server.check(server, batch, step, layer_of(server, window=size, clamps_ranges=clamps), LIMIT, keep=keep)


def test_encoder(rng):
    server = server_of(rng)
    batch = server.step()
    new = batch._replace(past=[rows[len(rows) - (end - begin):] for rows, begin, end in
                               zip(batch.past, batch.offsets, batch.offsets[1:])])
    step, out = step_of(server, batch, places_of(server)), torch.full_like(batch.query, torch.nan)
    layer_of(server, sinks=SINKS).encode(step, batch.query, batch.key, batch.value, out)
    right = paged_server.right(new, lambda b, h, i, j: j >= 0, sinks=torch.tensor(SINKS, device="cuda"))
    assert (out[:batch.tokens].double() - right).abs().max() <= LIMIT


@pytest.mark.parametrize("queries", [1, None])
@pytest.mark.parametrize("name", ["causal", "sinks and window"])
def test_graphs(rng, name, queries):
    """A graph of one batch serves others: with as many queries of each request, or any queries (packed). Its arrays
    have a fixed place, and requests and tokens that a batch has not are padding."""
    server, (options, keywords) = server_of(rng), LAYERS[name]
    layer, places, plan = layer_of(server, **options), places_of(server), None
    requests, rows = 8, 8 if queries else 600
    offsets = torch.arange(requests + 1, dtype=torch.int32, device="cuda")
    lengths = torch.ones(requests, dtype=torch.int32, device="cuda")
    table = torch.zeros(requests, server.slots, dtype=torch.int32, device="cuda")
    query, key, value = (torch.zeros(rows, heads, 64, dtype=torch.bfloat16, device="cuda") for heads in (4, 2, 2))
    out = torch.empty_like(query)
    if queries:
        plan = door.uniform_call(offsets.tolist(), lengths, table, (1,))
    step = door.Step(rows, offsets, lengths, table, places.find(torch.full((rows,), -1, device="cuda"), rows),
                     calls=plan)

    def compute():
        layer.write(step, key, value, server.cache)
        layer.attend_cache(step, query, server.cache, out)
    compute()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        compute()
    for _ in range(6):
        batch = server.step(queries, padding=0)
        count, tokens = len(batch.past), batch.tokens
        if tokens > rows:
            continue
        offsets[:] = tokens
        offsets[:count + 1] = torch.tensor(batch.offsets, dtype=torch.int32)
        lengths.zero_()[:count] = batch.lengths
        table.zero_()[:count] = batch.table
        places.find(batch.slots, tokens)
        for x, new in ((query, batch.query), (key, batch.key), (value, batch.value)):
            x[:tokens] = new
        out.fill_(torch.nan)
        graph.replay()
        wanted = dict(keywords)
        if "sinks" in wanted:
            wanted["sinks"] = torch.tensor(SINKS, device="cuda")
        assert (out[:tokens].double() - paged_server.right(batch, **wanted)).abs().max() <= LIMIT


def test_batch_invariance(rng):
    """The bits of a request are the same alone and among others."""
    server = server_of(rng)
    layer, places = layer_of(server, batch_invariant=True), places_of(server)
    for _ in range(4):
        batch = server.step()
        step, out = step_of(server, batch, places), torch.empty_like(batch.query)
        layer.write(step, batch.key, batch.value, server.cache)
        layer.attend_cache(step, batch.query, server.cache, out)
        for b, (begin, end) in enumerate(zip(batch.offsets, batch.offsets[1:])):
            if begin == end:
                continue
            alone = torch.empty_like(out[begin:end])
            offsets = torch.tensor([0, end - begin], dtype=torch.int32, device="cuda")
            layer.attend_cache(door.Step(end - begin, offsets, batch.lengths[b:b + 1], batch.table[b:b + 1], None),
                               batch.query[begin:end], server.cache, alone)
            assert torch.equal(alone, out[begin:end])
