"""flashc.decode of sequences with different numbers of queries (cu_seqlens_q) on a GPU, against f32. Rows of caches
after a sequence's end, pages of no sequence and outputs are NaN before the launch. Skipped where there is no GPU."""
import random as dice

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc import ops, scores  # noqa: E402
from packed_queries import CODES, reference, sequences  # noqa: E402

TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 3e-3}


def check(seed, hq, hk, d, dv=None, dtype=torch.bfloat16, code="causal", schedule=None, page=16, lengths=None, **how):
    step = sequences(torch, seed, hq, hk, d, dv or d, dtype, "cuda", page=page, lengths=lengths)
    o = torch.full((step.total, hq, dv or d), torch.nan, dtype=dtype, device="cuda")
    lse = torch.full((hq, step.total), torch.nan, device="cuda")
    keywords, keep, rescore = CODES[code](torch, ops, scores)
    flashc.decode(step.q, *step.cache, cu_seqlens_q=step.offsets, out=(o, lse), return_lse=True, schedule=schedule,
                  **keywords, **how)
    want, sums = reference(torch, step, keep, rescore)
    assert torch.allclose(lse, sums, atol=2e-3, rtol=1e-3)  # -inf is close to -inf alone
    assert (o.float() - want).abs().max() <= TOLERANCE[dtype]
    return o


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("code", CODES)
def test_mixed_steps(seed, code):
    rng = dice.Random(100 * seed + len(code))
    hq, hk = rng.choice([(8, 2), (4, 4), (8, 1), (6, 2)])
    check(seed, hq, hk, rng.choice([64, 128]), dtype=rng.choice(list(TOLERANCE)), code=code,
          page=rng.choice([8, 16, 64, None]))


@pytest.mark.parametrize("schedule", ["heads=4,consumers=1,kv-tile=128", "heads=4,consumers=2", "heads=2", "heads=1",
                                      "heads=4,consumers=1,kv-tile=128,splits=3", "splits=2",
                                      "heads=4,consumers=1,kv-tile=128,splits=16,persistent=true",
                                      "heads=1,splits=3,persistent=true"])
@pytest.mark.parametrize("d, dv", [(64, 64), (128, 128), (72, 40), (192, 128), (256, 256)])
def test_schedules(schedule, d, dv):
    if d > 128 and "kv-tile" in schedule:
        schedule = schedule.replace(",kv-tile=128", "")
    check(d, 8, 2, d, dv, schedule=schedule)


@pytest.mark.parametrize("lengths", [[(1, 1)], [(1, 5000)] * 40, [(1, 0), (0, 0), (3, 3)], [(500, 500), (1, 4096)],
                                     [(0, 9)] * 3, [(64, 3000)] * 4 + [(512, 2000)] * 4 + [(1, 1500)] * 32])
def test_lengths(lengths):
    check(len(lengths), 8, 2, 128, lengths=lengths)


@pytest.mark.parametrize("hq, hk", [(8, 2), (4, 4), (8, 1)])
@pytest.mark.parametrize("seed", range(4))
def test_parts_by_work(hq, hk, seed):
    """A few sequences have most of the keys. The launch cuts them into parts, the others stay whole."""
    rng = dice.Random(seed)
    lengths = [(rng.randint(0, 8), rng.choice([8, 100, 257, 9000])) for _ in range(20)]
    check(seed, hq, hk, 128, lengths=lengths, code=rng.choice(["causal", "alibi", "lengths"]))


def test_equal_bits_in_any_batch():
    """With batch_invariant, the bits of a sequence do not depend on the other sequences."""
    lengths = [(1, 700), (17, 300), (150, 1111), (5, 5)]
    step = sequences(torch, 3, 8, 2, 128, 128, torch.bfloat16, "cuda", lengths=lengths)
    k, v, sizes, table = step.cache
    whole = flashc.decode(step.q, *step.cache, cu_seqlens_q=step.offsets, batch_invariant=True)
    begin = 0
    for b, (queries, _) in enumerate(lengths):
        rows = step.q[begin:begin + queries]
        alone = flashc.decode(rows, k, v, sizes[b:b + 1], table[b:b + 1], cu_seqlens_q=[0, queries],
                              batch_invariant=True)
        assert torch.equal(alone, whole[begin:begin + queries])
        begin += queries


def test_a_graph_takes_other_offsets():
    """Offsets and lengths change from replay to replay of a CUDA graph."""
    first = sequences(torch, 1, 8, 2, 64, 64, torch.bfloat16, "cuda", lengths=[(3, 90), (20, 20), (1, 300)])
    q, (k, v, sizes, table), offsets = first.q.clone(), first.cache, first.offsets.clone()
    sizes = sizes.clone()
    flashc.decode(q, k, v, sizes, table, cu_seqlens_q=offsets)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = flashc.decode(q, k, v, sizes, table, cu_seqlens_q=offsets)
    for counts, lengths in (([3, 20, 1], [90, 20, 300]), ([1, 1, 2], [80, 20, 17]), ([0, 20, 0], [0, 20, 0])):
        offsets.copy_(torch.tensor([0, *counts], device="cuda").cumsum(0))
        sizes.copy_(torch.tensor(lengths))
        graph.replay()
        want = flashc.decode(q, k, v, sizes, table, cu_seqlens_q=offsets, schedule="heads=1")
        assert (o - want).abs().max() <= 1e-2


@pytest.mark.parametrize("schedule", [None, "heads=4,consumers=1", "heads=1", "heads=4,consumers=2,splits=2",
                                      "heads=4,consumers=1,splits=8,persistent=true"])
def test_sinks_and_arrays(schedule):
    lengths = [(3, 200), (0, 4), (9, 9), (1, 333), (150, 700)]
    step = sequences(torch, 9, 8, 2, 64, 64, torch.bfloat16, "cuda", lengths=lengths)
    sinks, starts = torch.randn(8, device="cuda"), torch.tensor([2, 0, 4, 100, 129], device="cuda")
    o, lse = flashc.decode(step.q, *step.cache, cu_seqlens_q=step.offsets, sinks=sinks, return_lse=True,
                           schedule=schedule, mask=lambda b, h, i, j: j >= ops.array(starts)[b])
    want, sums = reference(torch, step, lambda b, h, i, j: (j <= i) & (j >= starts[b]), None)
    whole = torch.logaddexp(sums, sinks[:, None])
    assert torch.allclose(lse, whole, atol=2e-3, rtol=1e-3)
    assert (o.float() - want * (sums - whole).exp().T[..., None]).abs().max() <= 2e-2


@pytest.mark.parametrize("schedule", ["heads=4", "heads=2,consumers=1"])
@pytest.mark.parametrize("causal", [True, False])
def test_tiles_of_a_group_in_packed_sequences_without_a_cache(schedule, causal):
    offsets = torch.tensor([0, 5, 5, 200, 263, 1000], dtype=torch.int32, device="cuda")
    q, k, v = (torch.randn(1000, heads, 64, device="cuda", dtype=torch.bfloat16) for heads in (8, 2, 2))
    out = torch.full_like(q, torch.nan)
    flashc.varlen_attention(q, k, v, offsets, causal=causal, enable_gqa=True, schedule=schedule, out=out)
    want = flashc.varlen_attention(q, k, v, offsets, causal=causal, enable_gqa=True)
    assert (out - want).abs().max() <= 2e-2


def test_compiled():
    step = sequences(torch, 2, 8, 2, 64, 64, torch.bfloat16, "cuda")

    def run(q, k, v, sizes, table, offsets):
        return flashc.decode(q, k, v, sizes, table, cu_seqlens_q=offsets, return_lse=True)
    got = torch.compile(run, fullgraph=True)(step.q, *step.cache, step.offsets)
    for one, other in zip(got, run(step.q, *step.cache, step.offsets)):
        assert torch.equal(one, other)
