"""Steps of vLLM on the CPU, without vLLM: batches that change from step to step, against the formula in f64. On a GPU
gpu/test_vllm_door.py does the same, and test/integrations-vllm has the tests with vLLM's classes."""
import pytest

torch = pytest.importorskip("torch")

if not hasattr(torch, "float8_e4m3fn"):
    pytest.skip("PyTorch has no types of 8 bits", allow_module_level=True)

import flashc  # noqa: E402
import paged_server  # noqa: E402
from flashc.integrations import _vllm_step as door  # noqa: E402
from paged_server import step_of  # noqa: E402

HEADS, KEY_HEADS, DEPTH, CAPACITY = 4, 2, 16, 1024
SINKS = torch.tensor(paged_server.SINKS)
LAYERS, SLOPES = paged_server.LAYERS, paged_server.SLOPES


def check(server, batch, step, layer, **keywords):
    paged_server.check(server, batch, step, layer, 1e-5, **keywords)


def places_of(server):
    return door.Places(CAPACITY, server.page, "cpu")


@pytest.mark.parametrize("plan", [None, door.piecewise_calls], ids=["packed", "pieces"])
@pytest.mark.parametrize("name", LAYERS)
def test_batches(rng, name, plan):
    server = paged_server.Server(int(rng.integers(1 << 30)), HEADS, KEY_HEADS, DEPTH)
    options, keywords = LAYERS[name]
    layer, places = paged_server.layer_of(server, **options), places_of(server)
    for _ in range(4):
        batch = server.step()
        check(server, batch, step_of(server, batch, places, plan), layer, **keywords)


@pytest.mark.parametrize("queries", [1, 3])
def test_equal_numbers_of_queries(rng, queries):
    server = paged_server.Server(int(rng.integers(1 << 30)), HEADS, KEY_HEADS, DEPTH)
    layer, places = door.Layer(DEPTH, DEPTH**-0.5), places_of(server)
    for _ in range(3):
        batch = server.step(queries)
        step = step_of(server, batch, places, door.uniform_call)
        assert [(call.begin, call.count, call.queries) for call in step.calls] == [(0, len(batch.past), queries)]
        check(server, batch, step, layer)


@pytest.mark.parametrize("offsets,calls", [
    ([0, 1, 2, 3], [(0, 3, 1)]),
    ([0, 3, 6, 6, 6], [(0, 2, 3)]),  # requests without queries after the last one are padding
    ([0, 1, 1, 2], None), ([0, 0, 1], None), ([0, 2, 4], None), ([0, 1, 4], None), ([0, 0], None),
])
def test_plan_of_equal_numbers(offsets, calls):
    lengths, table = torch.zeros(len(offsets) - 1, dtype=torch.int32), torch.zeros(len(offsets) - 1, 2)
    found = door.uniform_call(offsets, lengths, table, (1, 3))
    assert calls == (found and [call[:3] for call in found])


def test_plan_of_pieces():
    """A long prompt has calls of 64 queries and of one, and no other ones."""
    lengths, table = torch.tensor([9, 8, 500], dtype=torch.int32), torch.arange(12).view(3, 4)
    calls = door.piecewise_calls([0, 1, 2, 135], lengths, table, (1,))
    assert [call[:3] for call in calls] == [(0, 2, 1), (2, 2, 64), (130, 5, 1)]
    assert calls[1].lengths.tolist() == [431, 495] and calls[2].lengths.tolist() == [496, 497, 498, 499, 500]
    assert calls[1].table.tolist() == [[8, 9, 10, 11]] * 2


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (1, 0, 2, 3)])
@pytest.mark.parametrize("key_heads", [1, 2])
def test_layouts(rng, order, key_heads):
    server = paged_server.Server(int(rng.integers(1 << 30)), HEADS, key_heads, DEPTH, order=order)
    batch = server.step()
    check(server, batch, step_of(server, batch, places_of(server)), door.Layer(DEPTH, DEPTH**-0.5))


@pytest.mark.parametrize("options,clamps", [({}, False), (dict(window=20), False), (dict(window=20), True)])
def test_ranges(rng, options, clamps):
    """A query of a range sees all keys of the range, also later ones."""
    server = paged_server.Server(int(rng.integers(1 << 30)), HEADS, KEY_HEADS, DEPTH)
    batch, size = server.step(40), options.get("window", 1000)
    ranges = torch.full((batch.tokens, 2), -1, dtype=torch.int32)
    for begin, end, length in zip(batch.offsets, batch.offsets[1:], batch.lengths.tolist()):
        ranges[end - 30:end - 5] = torch.tensor([length - 30, length - 6], dtype=torch.int32)

    def keep(b, h, i, j):
        i = i.clamp(max=batch.lengths[b] - 1)
        first, last = (ranges[batch.offsets[b]:batch.offsets[b + 1], side][:, None] for side in (0, 1))
        is_inside = (j >= first) & (j <= last)
        is_near = i - j < size
        return (j <= i) & is_near | is_inside & (is_near if clamps else True)
    step = step_of(server, batch, places_of(server), mm_prefix_query_range_tensor=ranges)
    check(server, batch, step, door.Layer(DEPTH, DEPTH**-0.5, clamps_ranges=clamps, **options), keep=keep)


@pytest.mark.parametrize("options", [{}, dict(window=20), dict(slopes=SLOPES)])
def test_not_causal(rng, options):
    """All requests, or some of them, see later keys. A window then has both sides."""
    server = paged_server.Server(int(rng.integers(1 << 30)), HEADS, KEY_HEADS, DEPTH)
    batch, places, size = server.step(), places_of(server), options.get("window", 1000)
    flags = torch.tensor([b % 2 for b in range(len(batch.past))], dtype=torch.int32)
    rescore = paged_server.alibi(SLOPES) if "slopes" in options else None
    layer = door.Layer(DEPTH, DEPTH**-0.5, **options)
    check(server, batch, step_of(server, batch, places, causal=False), layer,
          keep=lambda b, h, i, j: (i - j).abs() < size, rescore=rescore)
    check(server, batch, step_of(server, batch, places, causal=flags), layer,
          keep=lambda b, h, i, j: ((i - j).abs() < size) & ((j <= i) if b % 2 else (j >= 0)), rescore=rescore)


def test_encoder(rng):
    server = paged_server.Server(int(rng.integers(1 << 30)), HEADS, KEY_HEADS, DEPTH)
    batch = server.step()
    new = batch._replace(past=[rows[len(rows) - (end - begin):] for rows, begin, end in
                               zip(batch.past, batch.offsets, batch.offsets[1:])])
    step = door.Step(batch.tokens, torch.tensor(batch.offsets, dtype=torch.int32), batch.lengths, batch.table, None)
    for options, keep in (({}, lambda b, h, i, j: j >= 0), (dict(window=9), lambda b, h, i, j: (i - j).abs() < 9)):
        out = torch.full_like(batch.query, torch.nan)
        door.Layer(DEPTH, DEPTH**-0.5, sinks=SINKS, **options).encode(step, batch.query, batch.key, batch.value, out)
        torch.testing.assert_close(out[:batch.tokens].double(), paged_server.right(new, keep, sinks=SINKS), rtol=1e-4,
                                   atol=1e-5)


@pytest.mark.parametrize("scales", [(0.5, 0.25), ([0.5, 1.0], [0.25, 2.0])])
def test_eight_bits(rng, scales):
    """The numbers of the cache are multiples of its scales, so float8_e4m3fn holds them exactly."""
    server = paged_server.Server(int(rng.integers(1 << 30)), HEADS, KEY_HEADS, DEPTH, grain=2.0,
                                 cache_dtype=torch.float8_e4m3fn)
    layer, places = door.Layer(DEPTH, DEPTH**-0.5), places_of(server)
    for _ in range(3):
        batch = server.step()
        step = step_of(server, batch, places, door.piecewise_calls)
        check(server, batch, step, layer, scales=[torch.tensor(scale) for scale in scales])


def test_tokens_without_slots(rng):
    """A token with slot -1 is not written. Neither are tokens that an earlier, larger step had and this one has not."""
    server = paged_server.Server(int(rng.integers(1 << 30)), HEADS, KEY_HEADS, DEPTH)
    layer, places, batch = door.Layer(DEPTH, DEPTH**-0.5), places_of(server), server.step(20, padding=0)
    graph = places.find(batch.slots, batch.tokens)  # a graph that was captured for all tokens reads these arrays
    slots = batch.slots[:9].clone()
    slots[4] = -1
    places.find(slots, 9)
    server.cache.zero_()
    layer.write(door.Step(batch.tokens, None, None, None, graph), batch.key, batch.value, server.cache)
    written = torch.cat([slots[:4], slots[5:]])
    rows = server.cache.transpose(1, 2).reshape(-1, KEY_HEADS, 2 * DEPTH)
    expected = torch.zeros_like(rows)
    expected[written] = torch.cat([batch.key, batch.value], -1)[[0, 1, 2, 3, 5, 6, 7, 8]]
    torch.testing.assert_close(rows, expected, rtol=0, atol=0)


def test_batch_invariance_is_asked_for(rng, monkeypatch):
    server = paged_server.Server(int(rng.integers(1 << 30)), HEADS, KEY_HEADS, DEPTH)
    batch, asked = server.step(), []
    monkeypatch.setattr(flashc, "decode", lambda *arrays, batch_invariant, **rest: asked.append(batch_invariant))
    for wanted in (False, True):
        layer = paged_server.layer_of(server, batch_invariant=wanted)
        layer.attend_cache(step_of(server, batch, places_of(server)), batch.query, server.cache, batch.query)
    assert asked == [False, True]


def test_refusals(rng):
    server = paged_server.Server(int(rng.integers(1 << 30)), HEADS, KEY_HEADS, DEPTH)
    batch, layer = server.step(), door.Layer(DEPTH, DEPTH**-0.5)
    with pytest.raises(flashc.ArgumentError, match="expected at most 1 tokens in a step, got "):
        door.Places(1, 16, "cpu").find(batch.slots, 2)
    step = step_of(server, batch, door.Places(CAPACITY, 32, "cpu"))
    with pytest.raises(flashc.ArgumentError, match="expected a step with pages of 16 rows, got 32"):
        layer.write(step, batch.key, batch.value, server.cache)
    step.places = None
    with pytest.raises(flashc.ArgumentError, match="expected a step with pages of 16 rows, got None"):
        layer.write(step, batch.key, batch.value, server.cache)
    step = step_of(server, batch, places_of(server), door.piecewise_calls, causal=torch.ones(len(batch.past)))
    with pytest.raises(flashc.ArgumentError, match="expected a step with packed queries for masks by sequence"):
        layer.attend_cache(step, batch.query, server.cache, torch.empty_like(batch.query))
