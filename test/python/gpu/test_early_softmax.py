"""Kernels that run the first softmax of the next tile of queries before they store the current one (epilogue=softmax),
on a GPU, against f32 attention by the rule of flashc.bench: masked and unmasked first tiles, rows without keys, one
tile of keys and many, ragged lengths, several tiles of queries for each CTA, packed sequences. Skipped where there is
no GPU."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc import masks, ops  # noqa: E402
from flashc.bench._check import Reference  # noqa: E402
from .test_masks import offsets, packed_inputs, same_sequence  # noqa: E402

EARLY = "epilogue=softmax,"
THREE = EARLY + "consumers=3,kv-tile=128,stages=4,q-stages=2,store=own-slot"
TWO = EARLY + "consumers=2,kv-tile=128,stages=4,q-stages=2,store=own-slot"
WIDE = EARLY + "consumers=2,kv-tile=128,stages=2,q-stages=2,store=own-slot"
SCHEDULES = [(64, THREE), (64, TWO), (128, WIDE)]
OTHERS = [
    (64, THREE + ",wait-after=24"),
    (64, THREE + ",wait-after=0,tensor-sums=false"),
    (64, EARLY + "consumers=3,kv-tile=64,stages=2,q-stages=2,store=q-slot,ping-pong=false,wait-after=0"),
    (64, EARLY + "consumers=2,kv-tile=128,stages=1,q-stages=1,store=own-slot"),
    (64, EARLY + "consumers=1,kv-tile=32,stages=3,q-stages=3,store=registers,wait-after=0"),
    (128, EARLY + "consumers=2,kv-tile=80,stages=2,q-stages=2,store=q-slot"),
    (128, WIDE + ",wait-after=12"),
]
MASKS = {
    "none": None,
    "causal": lambda b, h, i, j: j <= i,
    "window": lambda b, h, i, j: (j <= i) & (i - j < 200),
    "both sides": lambda b, h, i, j: (i - j <= 300) & (j - i <= 200),
    "some rows empty": lambda b, h, i, j: (j <= i - 70) & (j >= i - 75),
    "two runs": lambda b, h, i, j: (j <= i) & ((i - j < 150) | (j < 5)),
    "of each head": lambda b, h, i, j: (j <= i) & (j < 150 * h + 90),  # depends on the head: work tiles are sorted
    "unbounded": lambda b, h, i, j: (i + 3 * j) % 7 != h % 7,
}
LENGTHS = [(1, 1), (63, 65), (65, 63), (129, 1), (1, 2049), (129, 1000), (1000, 129), (1000, 1000), (2049, 2049)]


def inputs(d, nq, nk, dtype):
    """Makes batches so large that each of about 130 CTAs has several tiles of queries, even if a head has few."""
    batch = max(3, 24 * 128 // max(nq, 128))
    return [torch.randn(batch, heads, n, d, device="cuda").to(dtype) for heads, n in ((16, nq), (4, nk), (4, nk))]


def keep_of(mask, heads, nq, nk):
    if mask is None:
        return None
    axes = [torch.arange(extent, device="cuda") for extent in (1, heads, nq, nk)]
    grid = [axis.view([-1 if dim == place else 1 for dim in range(4)]) for place, axis in enumerate(axes)]
    return mask(*grid)


def check(mask, schedule, d, dtype, with_lse, lengths=LENGTHS, score=None, plain_score=None, **keywords):
    print("seed", torch.seed())
    for nq, nk in lengths:
        q, k, v = inputs(d, nq, nk, dtype)
        out = torch.full_like(q, float("nan"))
        lse = torch.full(q.shape[:3], float("nan"), device="cuda") if with_lse else None
        if mask is not None:
            keywords["mask"] = mask
        flashc.attention(q, k, v, score=score, enable_gqa=True, schedule=schedule, return_lse=with_lse,
                         out=(out, lse) if with_lse else out, **keywords)
        comparison = Reference(q, k, v, keep_of(mask, 16, nq, nk), plain_score).compare(out, lse)
        assert not comparison.problem, (comparison, nq, nk)


@pytest.mark.parametrize("dtype, with_lse", [(torch.bfloat16, False), (torch.bfloat16, True), (torch.float16, False),
                                             (torch.float16, True)])
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("d, schedule", SCHEDULES)
def test_against_f32(d, schedule, name, dtype, with_lse):
    check(MASKS[name], schedule, d, dtype, with_lse)


@pytest.mark.parametrize("name", ["none", "causal", "window"])
@pytest.mark.parametrize("d, schedule", OTHERS)
def test_other_schedules(d, schedule, name):
    check(MASKS[name], schedule, d, torch.bfloat16, with_lse=schedule.endswith("12"))


@pytest.mark.parametrize("name", ["none", "causal"])
@pytest.mark.parametrize("d, schedule", SCHEDULES)
def test_one_tile_of_keys(d, schedule, name):
    """Extents are known at compile time, so there is no loop over keys."""
    check(MASKS[name], schedule, d, torch.bfloat16, False, [(300, 100), (64, 128)], static_shapes=True)


@pytest.mark.parametrize("d, schedule", SCHEDULES)
def test_scores(d, schedule):
    """Tests a soft cap, for which the warps vote in the first tile; a bias along the keys, which the tensor cores add;
    and a bias from memory."""
    lengths = [(65, 63), (1000, 1000)]
    check(None, schedule, d, torch.bfloat16, False, lengths, lambda s, b, h, i, j: 30 * ops.tanh(s / 30),
          lambda s: 30 * torch.tanh(s / 30))
    causal = MASKS["causal"]
    slopes = 2.0 ** -(torch.arange(16, device="cuda") / 2 + 1)
    for n in (65, 1000):
        i, j = torch.arange(n, device="cuda")[:, None], torch.arange(n, device="cuda")[None]
        bias = slopes[:, None, None] * (j - i)
        check(causal, schedule, d, torch.bfloat16, False, [(n, n)], lambda s, b, h, i, j: s + slopes[h] * (j - i),
              lambda s: s + bias.to(s.dtype))
        table = torch.randn(n, n, device="cuda")
        check(causal, schedule, d, torch.bfloat16, False, [(n, n)], lambda s, b, h, i, j: s + table[i, j],
              lambda s: s + table.to(s.dtype))


@pytest.mark.parametrize("keywords, left, right", [({}, None, None), ({"causal": True}, None, 0),
                                                   ({"window": (100, 7)}, 100, 7)])
@pytest.mark.parametrize("d, schedule", SCHEDULES)
def test_packed(d, schedule, keywords, left, right):
    for lengths in ([64] * 80 + [1100, 0, 1, 777] + [63] * 20, [8] * 1000, [700, 3000, 1, 129]):
        pairs = [(n, n) for n in lengths]
        q, k, v = (x.transpose(0, 1)[None].contiguous() for x in packed_inputs(pairs, 4, 2, d))
        starts, _ = offsets(pairs)
        out = torch.full_like(q, float("nan"))
        flashc.attention(q, k, v, mask=masks.packed(starts, **keywords), enable_gqa=True, schedule=schedule, out=out)
        comparison = Reference(q, k, v, same_sequence(pairs, left, right)).compare(out)
        assert not comparison.problem, comparison


@pytest.mark.parametrize("name", ["none", "causal", "window"])
@pytest.mark.parametrize("d, schedule", SCHEDULES)
def test_many_launches_agree(d, schedule, name):
    print("seed", torch.seed())
    q, k, v = inputs(d, 520, 520, torch.bfloat16)
    keywords = {} if MASKS[name] is None else {"mask": MASKS[name]}
    first = flashc.attention(q, k, v, enable_gqa=True, schedule=schedule, **keywords)
    for _ in range(500):
        assert torch.equal(first, flashc.attention(q, k, v, enable_gqa=True, schedule=schedule, **keywords))
