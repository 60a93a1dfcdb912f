"""Consumers that visit only the key tiles that their own rows need (own-keys), on a GPU, against f32 attention by the
rule of flashc.bench. Masks let consumers leave out key tiles at the start, at the end, at both ends, or all but one,
and the numbers differ between tiles of queries. Other masks add sink tokens and other keys that all queries see.
Lengths are ragged, some rows have no keys, and kernels are launched many times. The bounds of some masks read arrays;
then the work list tells each consumer which keys to visit: packed sequences and documents of any length, also empty
ones. Skipped where there is no GPU."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc import masks  # noqa: E402
from flashc.bench._check import Reference  # noqa: E402

LENGTHS = [(1, 1), (1, 700), (63, 65), (65, 1), (193, 193), (257, 331), (700, 63), (1000, 1000), (1009, 1009),
           (1031, 2053), (2049, 2049)]
MASKS = {
    "causal": lambda b, h, i, j: j <= i,
    "window": lambda b, h, i, j: (j <= i) & (i - j < 100),
    "one key": lambda b, h, i, j: j == i,
    "wide window": lambda b, h, i, j: (i - j <= 300) & (j - i <= 200),
    "ahead": lambda b, h, i, j: j > i + 64,
    "steep": lambda b, h, i, j: (j <= 3 * i) & (j >= 3 * i - 500),
    "some rows empty": lambda b, h, i, j: (j <= i - 70) & (j >= i - 75),
    "first tiles of rows empty": lambda b, h, i, j: (j <= i - 388) & (j >= i - 458),
    "sinks": masks.sink_window(4, 1023, "top-left"),
    "sinks, short window": masks.sink_window(1, 100, "top-left"),
    "sinks, own key": masks.sink_window(70, 0, "top-left"),
    "sinks of several tiles": masks.sink_window(300, 200, "top-left"),
    "sinks, longer than the window": masks.sink_window(700, 63, "top-left"),
    "prefix and both sides": lambda b, h, i, j: (j < 200) | ((i - j <= 300) & (j - i <= 200)),
    "sinks and keys ahead": lambda b, h, i, j: (j < 4) | (j > i + 64),
    "two prefixes": lambda b, h, i, j: (j < 4) | ((j >= 130) & (j < 400)) | ((j <= i) & (i - j < 100)),
    "sinks, steep": lambda b, h, i, j: (j < 5) | ((j <= 3 * i) & (j >= 3 * i - 500)),
    "sinks, falling": lambda b, h, i, j: (j < 130) | ((j <= 1500 - i) & (j >= 1200 - i)),
    "sinks, some rows empty": lambda b, h, i, j: (i > 100) & (j < 4) | (j <= i - 70) & (j >= i - 75),
}


def cut(n, count, align=1):
    """Returns offsets of `count` sequences that have n tokens together. Some sequences may be empty."""
    cuts = torch.randint(0, n // align + 1, (count - 1,)) * align
    return torch.cat([torch.tensor([0]), cuts.sort()[0], torch.tensor([n])]).to(torch.int32).cuda()


def ids_of(n, count):
    return torch.randint(-count, count, (n,), device="cuda").sort()[0].to(torch.int32)


def each(make, *arguments):
    """Returns arrays for two batches."""
    return torch.stack([make(*arguments), make(*arguments)])


def in_sequences(offsets, key_offsets, nq, nk, left=None, right=None):
    """Returns the keys that queries see, [batches, 1, nq, nk], by the rule of flashc.masks.packed."""
    keeps = []
    i, j = torch.arange(nq, device="cuda"), torch.arange(nk, device="cuda")
    for starts, key_starts in zip(torch.atleast_2d(offsets).long(), torch.atleast_2d(key_offsets).long()):
        number = torch.searchsorted(starts, i, right=True)
        # Queries after the last offset see no keys.
        end, key_end = torch.cat([starts, starts[-1:]])[number], torch.cat([key_starts, key_starts[-1:]])[number]
        position = (i + key_end - end)[:, None]
        keep = (j >= key_starts[number - 1][:, None]) & (j < key_end[:, None])
        keep = keep if left is None else keep & (j >= position - left)
        keeps.append(keep if right is None else keep & (j <= position + right))
    return torch.stack(keeps)[:, None]


def packed(nq, nk, offsets, key_offsets=None, **options):
    """Returns the mask, and the keys that queries see."""
    left, right = options.get("window", (None, 0 if options.get("causal") else None))
    others = offsets if key_offsets is None else key_offsets
    return masks.packed(offsets, key_offsets, **options), in_sequences(offsets, others, nq, nk, left, right)


def documents(nq, nk, ids, key_ids=None, causal=False):
    others = torch.atleast_2d(ids if key_ids is None else key_ids)
    keep = torch.atleast_2d(ids)[:, None, :nq, None] == others[:, None, None, :nk]
    mask = masks.documents(ids, key_ids, sorted=True)
    if causal:
        mask, keep = mask & masks.causal("top-left"), keep & torch.ones(nq, nk, dtype=torch.bool, device="cuda").tril()
    return mask, keep


def padding(nq, nk):
    lengths = torch.randint(0, nk + 1, (2,), device="cuda", dtype=torch.int32)
    keep = torch.ones(nq, nk, dtype=torch.bool, device="cuda").tril()
    return (masks.key_padding(lengths) & masks.causal("top-left"),
            keep & (torch.arange(nk, device="cuda") < lengths[:, None, None, None]))


# Functions that make a mask from the numbers of queries, keys and sequences. In those named "apart", queries and keys
# have different offsets.
LISTED = {
    "packed": lambda nq, nk, s: packed(nq, nk, cut(nq, s)),
    "packed causal": lambda nq, nk, s: packed(nq, nk, cut(nq, s), causal=True),
    "packed causal, whole tiles": lambda nq, nk, s: packed(nq, nk, cut(nq, s, align=64), causal=True),
    "packed causal, of each batch": lambda nq, nk, s: packed(nq, nk, each(cut, nq, s), causal=True),
    "packed causal, tokens behind the end": lambda nq, nk, s: packed(nq, nk, cut(nq - nq // 3, s), causal=True),
    "packed window": lambda nq, nk, s: packed(nq, nk, cut(nq, s), window=(100, 0)),
    "packed window, both sides": lambda nq, nk, s: packed(nq, nk, cut(nq, s), window=(300, 200)),
    "apart": lambda nq, nk, s: packed(nq, nk, cut(nq, s), cut(nk, s)),
    "apart, causal": lambda nq, nk, s: packed(nq, nk, cut(nq, s), cut(nk, s), causal=True),
    "apart, window": lambda nq, nk, s: packed(nq, nk, cut(nq, s), cut(nk, s), window=(100, 50)),
    "documents": lambda nq, nk, s: documents(nq, nk, ids_of(nq, s)),
    "documents, causal": lambda nq, nk, s: documents(nq, nk, ids_of(nq, s), causal=True),
    "documents, of each batch": lambda nq, nk, s: documents(nq, nk, each(ids_of, nq, s)),
    "documents apart": lambda nq, nk, s: documents(nq, nk, ids_of(nq, s), ids_of(nk, s)),
    "padding, causal": lambda nq, nk, s: padding(nq, nk),
}
NO_TURNS = "consumers=4,kv-tile=64,stages=8,ping-pong=false,q-stages=2,store=q-slot,epilogue=plain"
SCHEDULES = {
    (64, "three"): "consumers=3,kv-tile=128,stages=4,q-stages=1,store=registers",
    (64, "small tiles"): "consumers=3,kv-tile=64,stages=2,q-stages=1,store=registers",
    (64, "no turns"): "consumers=3,kv-tile=128,stages=2,q-stages=1,store=registers,ping-pong=false",
    (64, "two"): "consumers=2,kv-tile=128,stages=2,q-stages=1,store=registers,wait-after=0",
    (64, "one stage more"): "consumers=2,kv-tile=32,stages=3,q-stages=1,store=registers,wait-after=0",
    (64, "four, no turns"): NO_TURNS,
    (64, "four, output slot"): NO_TURNS.replace("store=q-slot", "store=own-slot"),
    (128, "three"): "consumers=3,kv-tile=80,stages=4,q-stages=1,store=registers",
    (128, "two"): "consumers=2,kv-tile=128,stages=2,q-stages=1,store=registers",
}


def run(mask, schedule, d, nq, nk, batch=2, score=None):
    q, k, v = (torch.randn(batch, heads, n, d, device="cuda").to(torch.bfloat16)
               for heads, n in ((4, nq), (2, nk), (2, nk)))
    out = torch.full_like(q, float("nan"))
    flashc.attention(q, k, v, mask=mask, score=score, enable_gqa=True, schedule=schedule + ",own-keys=true", out=out)
    return q, k, v, out


def get_keep(mask, nq, nk):
    axes = [torch.arange(extent, device="cuda") for extent in (2, 4, nq, nk)]
    return mask(*(axis.view([-1 if dim == place else 1 for dim in range(4)]) for place, axis in enumerate(axes)))


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("d,kind", SCHEDULES)
def test_against_f32(d, kind, name):
    print("seed", torch.seed())
    mask = MASKS[name]
    for nq, nk in LENGTHS:
        q, k, v, out = run(mask, SCHEDULES[d, kind], d, nq, nk)
        comparison = Reference(q, k, v, get_keep(mask, nq, nk)).compare(out)
        assert not comparison.problem, (comparison, nq, nk)


@pytest.mark.parametrize("name", ["window", "sinks", "sinks of several tiles"])
def test_score_by_position(name):
    """The score needs the position of a key even in tiles that are not masked."""
    print("seed", torch.seed())
    for nq, nk in ((193, 193), (2049, 2049)):
        distance = (torch.arange(nq, device="cuda")[:, None] - torch.arange(nk, device="cuda")).abs()
        q, k, v, out = run(MASKS[name], SCHEDULES[64, "three"], 64, nq, nk,
                           score=lambda s, b, h, i, j: s - 0.01 * abs(i - j))
        comparison = Reference(q, k, v, get_keep(MASKS[name], nq, nk), lambda s: s - 0.01 * distance).compare(out)
        assert not comparison.problem, (comparison, nq, nk)


@pytest.mark.parametrize("name", ["causal", "window", "wide window", "steep", "sinks", "sinks of several tiles"])
@pytest.mark.parametrize("kind", ["three", "no turns", "four, no turns", "four, output slot"])
def test_many_launches_agree(kind, name):
    """If consumers do not take turns, a warp may be late by the time that the stores of a tile take. Every launch must
    give the same bits all the same."""
    print("seed", torch.seed())
    q, k, v, first = run(MASKS[name], SCHEDULES[64, kind], 64, 2053, 2053, batch=8)
    schedule = SCHEDULES[64, kind] + ",own-keys=true"
    for _ in range(500):
        again = flashc.attention(q, k, v, mask=MASKS[name], enable_gqa=True, schedule=schedule)
        assert torch.equal(first, again)


LISTED_SCHEDULES = {
    (64, "three"): "consumers=3,kv-tile=128,stages=4,q-stages=1,store=own-slot",
    (64, "wait-after"): "consumers=3,kv-tile=128,stages=4,q-stages=1,store=registers,wait-after=12",
    (64, "small tiles"): "consumers=3,kv-tile=64,stages=2,q-stages=1,store=registers",
    (64, "no turns"): "consumers=3,kv-tile=32,stages=2,q-stages=1,store=registers,wait-after=0,ping-pong=false",
    (64, "two"): "consumers=2,kv-tile=128,stages=2,q-stages=1,store=registers,wait-after=0",
    (64, "two slots"): "consumers=2,kv-tile=128,stages=4,q-stages=2,store=registers,epilogue=plain",
    (64, "three slots"): "consumers=2,kv-tile=32,stages=3,q-stages=3,store=own-slot,epilogue=plain,"
                         "wait-after=0",
    # Under a packed mask the output cannot be stored through Q's slot, so this schedule stores from registers.
    (64, "four, no turns"): NO_TURNS.replace("store=q-slot", "store=registers"),
    (64, "one consumer"): "consumers=1,kv-tile=64,stages=2,q-stages=1,store=registers",
    (128, "three"): "consumers=3,kv-tile=80,stages=4,q-stages=1,store=registers",
    (128, "two slots"): "consumers=2,kv-tile=128,stages=2,q-stages=2,store=own-slot,epilogue=plain",
}


@pytest.mark.parametrize("name", LISTED)
@pytest.mark.parametrize("d,kind", LISTED_SCHEDULES)
def test_arrays_against_f32(d, kind, name):
    """Tiles of queries follow few sequences, but stay on the grid if there are many (docs/masks.md, short
    sequences)."""
    print("seed", torch.seed())
    for nq, nk, sequences in ((1, 1, 1), (63, 63, 2), (193, 193, 1), (257, 257, 5), (1009, 1009, 3), (1031, 1031, 40),
                              (2500, 2500, 9), (700, 1100, 4), (1100, 700, 6)):
        if nq != nk and "apart" not in name and "padding" not in name:
            continue
        mask, keep = LISTED[name](nq, nk, sequences)
        q, k, v, out = run(mask, LISTED_SCHEDULES[d, kind], d, nq, nk)
        comparison = Reference(q, k, v, keep).compare(out)
        assert not comparison.problem, (comparison, nq, nk, sequences)


@pytest.mark.parametrize("name", ["packed causal", "apart, causal", "documents", "documents apart"])
def test_arrays_with_the_log_sum_exp(name):
    """Rows that see no key have o = 0 and lse = -inf."""
    print("seed", torch.seed())
    for nq, nk, sequences in ((257, 257, 5), (1100, 1100, 40), (2049, 2049, 3)):
        mask, keep = LISTED[name](nq, nk, sequences)
        q, k, v = (torch.randn(2, 4, n, 64, device="cuda").to(torch.bfloat16) for n in (nq, nk, nk))
        out, lse = flashc.attention(q, k, v, mask=mask, return_lse=True,
                                    schedule=LISTED_SCHEDULES[64, "three"] + ",own-keys=true")
        comparison = Reference(q, k, v, keep).compare(out, lse)
        assert not comparison.problem, (comparison, nq, nk)


@pytest.mark.parametrize("name", ["packed causal", "packed window", "apart, window", "documents", "documents, causal"])
def test_many_launches_of_arrays_agree(name):
    """There are many more tiles than CTAs, and consumers leave out whole documents."""
    print("seed", torch.seed())
    mask, _ = LISTED[name](4099, 4099, 11)
    for kind in ("three", "small tiles", "two slots", "four, no turns"):
        q, k, v, first = run(mask, LISTED_SCHEDULES[64, kind], 64, 4099, 4099, batch=4)
        schedule = LISTED_SCHEDULES[64, kind] + ",own-keys=true"
        for _ in range(200):
            again = flashc.attention(q, k, v, mask=mask, enable_gqa=True, schedule=schedule)
            assert torch.equal(first, again)
