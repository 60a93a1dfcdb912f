"""flashc.masks and packed sequences on a GPU, against float32 attention. Skipped where there is no GPU.

Numbers follow the rule of docs/checking.md. Outputs are NaN before the launch."""

import itertools

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc import masks, ops  # noqa: E402
from flashc.bench import _check  # noqa: E402
from .tensors import positions, qkv  # noqa: E402

BF16, F16 = torch.bfloat16, torch.float16
SIZES = [(333, 333), (129, 517), (517, 129), (1, 1000), (1009, 997)]


def assert_right(o, lse, q, k, v, keep, score=None, scale=None):
    problem = _check.Reference(q, k, v, keep.broadcast_to(*q.shape[:3], k.shape[2]), score, scale) \
        .compare(o, lse).problem
    assert not problem, problem


def check(mask, rule, b, h, nq, nk, d, dtype):
    q, k, v = qkv(b, h, h, nq, nk, d, dtype=dtype)
    o, lse = flashc.attention(q, k, v, mask=mask, return_lse=True)
    assert_right(o, lse, q, k, v, rule(*positions(b, h, nq, nk)))


# --- Masks by name ----------------------------------------------------------------------------------------------------

def in_diffusion(n, size):
    def rule(b, h, i, j):
        block, key_block = (torch.where(x < n, x, x - n).div(size, rounding_mode="floor") for x in (i, j))
        first, key_first = i < n, j < n
        return first & key_first & (block == key_block) | first & ~key_first & (key_block < block) | \
            ~first & ~key_first & (key_block <= block)
    return rule


def device_int(*numbers, dtype=torch.int32):
    return torch.tensor(numbers, device="cuda", dtype=dtype)


LENGTHS = device_int(517, 0, 131)
IDS = torch.arange(1024, device="cuda", dtype=torch.int32) // 77
UNSORTED = (torch.arange(1024, device="cuda") * 7919 % 1024) // 300
IDS_OF_BATCH = torch.stack([IDS, IDS // 2, torch.zeros_like(IDS)])
FAR_IDS = IDS_OF_BATCH.long() * (1 << 40) - (1 << 41)
TIMES = torch.arange(1024, device="cuda", dtype=torch.int32) * 3 // 2 - 20
BLOCK, NEGATIVE = torch.tensor(96, device="cuda"), torch.tensor(-40, device="cuda")
STARTS, KEY_STARTS = device_int(0, 1, 1, 300, 301, 333), device_int(0, 5, 60, 60, 200, 333)

MASKS = {
    "causal": (masks.causal("top-left"), lambda b, h, i, j: j <= i),
    "shifted causal": (masks.causal(-40), lambda b, h, i, j: j <= i - 40),
    "shift in memory": (masks.causal(torch.tensor(100, device="cuda")), lambda b, h, i, j: j <= i + 100),
    "window": (masks.sliding_window(200, align="top-left"), lambda b, h, i, j: (i - j).abs().le(200) & (i >= j)),
    "window on both sides": (masks.sliding_window(60, 130, "top-left"), lambda b, h, i, j:
                             (j >= i - 60) & (j <= i + 130)),
    "window to the left": (masks.sliding_window(100, None, "top-left"), lambda b, h, i, j: i - j <= 100),
    "prefix": (masks.prefix_lm(150, "top-left"), lambda b, h, i, j: (j <= i) | (j < 150)),
    "prefix of each batch": (masks.prefix_lm(LENGTHS, "top-left"), lambda b, h, i, j: (j <= i) | (j < LENGTHS[b])),
    "chunks": (masks.chunked(100, "top-left"),
               lambda b, h, i, j: i.div(100, rounding_mode="floor") == j.div(100, rounding_mode="floor")),
    "causal chunks": (masks.chunked(256, "top-left") & masks.causal("top-left"), lambda b, h, i, j:
                      (j <= i) & (j >= i - i % 256)),
    "blocks": (masks.block_causal(48, "top-left"), lambda b, h, i, j: j < i - i % 48 + 48),
    "sinks": (masks.sink_window(4, 200, "top-left"), lambda b, h, i, j: (j <= i) & ((i - j <= 200) | (j < 4))),
    "dilated": (masks.dilated_window(300, 4, align="top-left"), lambda b, h, i, j:
                (j <= i) & (i - j <= 300) & ((i-j) % 4 == 0)),
    "every third": (masks.dilated_window(280, 3, 90, "top-left"), lambda b, h, i, j:
                    (j <= i + 90) & (i - j <= 280) & ((i-j) % 3 == 0)),
    "every seventh": (masks.dilated_window(280, 7, align="top-left"), lambda b, h, i, j:
                      (j <= i) & (i - j <= 280) & ((i-j) % 7 == 0)),
    "two of five": (lambda b, h, i, j: ((2*j + i) % 5 < 2) | (j == i), lambda b, h, i, j:
                    ((2*j + i) % 5 < 2) | (j == i)),
    "remainders of twelve": (lambda b, h, i, j: (j % 12 != i % 12) & (j <= i), lambda b, h, i, j:
                             (j % 12 != i % 12) & (j <= i)),
    "padding": (masks.key_padding(LENGTHS), lambda b, h, i, j: j < LENGTHS[b]),
    "continuations": (masks.shared_prefix(140, 90, "top-left"), lambda b, h, i, j: (j <= i) & ((j < 140) | (
        (i - 140).div(90, rounding_mode="floor") == (j - 140).div(90, rounding_mode="floor")))),
    "diffusion": (masks.block_diffusion(160, 16), in_diffusion(160, 16)),
    "unequal blocks of diffusion": (masks.block_diffusion(167, 32), None),
    "diffusion of a length in memory": (masks.block_diffusion(torch.tensor(231, device="cuda"), 48), None),
    "continuations of each batch": (masks.shared_prefix(LENGTHS, 90, "top-left"), lambda b, h, i, j:
                                    (j <= i) & ((j < LENGTHS[b]) | ((i - LENGTHS[b]).div(90, rounding_mode="floor") ==
                                                                    (j - LENGTHS[b]).div(90, rounding_mode="floor")))),
    "blocks of a size in memory": (lambda b, h, i, j: i // BLOCK == j // BLOCK,
                                   lambda b, h, i, j: i // BLOCK == j // BLOCK),
    "blocks of a negative size": (lambda b, h, i, j: (j-7) // NEGATIVE <= (i-7) // NEGATIVE, lambda b, h, i, j:
                                  (j-7) // NEGATIVE <= (i-7) // NEGATIVE),
    "documents": (masks.documents(IDS, sorted=True), lambda b, h, i, j: IDS[i] == IDS[j]),
    "causal documents": (masks.documents(IDS, sorted=True) & masks.causal("top-left"), lambda b, h, i, j:
                         (IDS[i] == IDS[j]) & (j <= i)),
    "documents in any order": (masks.documents(UNSORTED), lambda b, h, i, j: UNSORTED[i] == UNSORTED[j]),
    "documents of each batch": (masks.documents(IDS_OF_BATCH, sorted=True),
                                lambda b, h, i, j: IDS_OF_BATCH[b, i] == IDS_OF_BATCH[b, j]),
    "documents of 64 bits in each batch": (masks.documents(FAR_IDS, sorted=True),
                                           lambda b, h, i, j: FAR_IDS[b, i] == FAR_IDS[b, j]),
    "documents by two arrays": (masks.documents(IDS, IDS_OF_BATCH.long(),
                                                sorted=True), lambda b, h, i, j: IDS[i] == IDS_OF_BATCH[b, j]),
    "documents and a prefix": (masks.documents(IDS, sorted=True) | masks.key_padding(LENGTHS), lambda b, h, i, j:
                               (IDS[i] == IDS[j]) | (j < LENGTHS[b])),
    "other documents": (~masks.documents(IDS_OF_BATCH, sorted=True),
                        lambda b, h, i, j: IDS_OF_BATCH[b, i] != IDS_OF_BATCH[b, j]),
    "times of heads": (lambda b, h, i, j: flashc.assume_sorted(TIMES)[j] <= i + 60*h,
                       lambda b, h, i, j: TIMES[j] <= i + 60*h),
    "one time": (lambda b, h, i, j: flashc.assume_sorted(TIMES)[j] < 300, lambda b, h, i, j: TIMES[j] < 300),
    "continuations by number": (masks.shared_prefix(77, IDS, "top-left", sorted=True), lambda b, h, i, j:
                                (j <= i) & ((j < 77) | (IDS[i] == IDS[j]))),
    "complement": (~masks.sliding_window(100, 100, "top-left"), lambda b, h, i, j: (i - j).abs() > 100),
    "windows of heads": (lambda b, h, i, j: (j <= i) & ((h % 2 == 0) | (i - j < 64)), lambda b, h, i, j:
                         (j <= i) & ((h % 2 == 0) | (i - j < 64))),
    "islands": (masks.chunked(64, "top-left") | masks.key_padding(30) | (lambda b, h, i, j:
                                                                         (j > 400) & (j < 450)), lambda b, h, i, j:
                (i // 64 == j // 64) | (j < 30) | (j > 400) & (j < 450)),
}


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("name", MASKS)
def test_mask(name, d, dtype):
    mask, rule = MASKS[name]
    for nq, nk in SIZES:
        check(mask, rule or (lambda *place: mask(*place)), 3, 2, nq, nk, d, dtype)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
def test_documents_with_the_least_and_the_greatest_integer(dtype):
    least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    ids = torch.tensor([least] * 170 + [least + 1, 0] + [most - 1] * 150 + [most] * 278, device="cuda", dtype=dtype)
    check(masks.documents(ids, sorted=True), lambda b, h, i, j: ids[i] == ids[j], 2, 2, 600, 600, 64, BF16)


@pytest.mark.parametrize("nq, nk", SIZES)
def test_alignment_at_the_ends(nq, nk):
    shift = nk - nq
    check(masks.causal("bottom-right"), lambda b, h, i, j: j <= i + shift, 2, 2, nq, nk, 64, BF16)
    check(masks.sliding_window(70, 3, "bottom-right"), lambda b, h, i, j: (j >= i + shift - 70) & (j <= i + shift + 3),
          2, 2, nq, nk, 64, BF16)
    check(masks.sink_window(4, 70).aligned("bottom-right"),
          lambda b, h, i, j: (j <= i + shift) & ((j >= i + shift - 70) | (j < 4)), 2, 2, nq, nk, 64, BF16)


def test_masks_with_scores_and_groups():
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625], device="cuda")
    for name in ("sinks", "causal documents", "diffusion", "dilated"):
        q, k, v = qkv(3, 4, 2, 320, 320, 64)
        b, h, i, j = positions(3, 4, 320, 320)
        o, lse = flashc.attention(q, k, v, mask=MASKS[name][0], score=lambda s, b, h, i, j: s + slopes[h] * (j - i),
                                  enable_gqa=True, return_lse=True)
        assert_right(o, lse, q, k, v, MASKS[name][1](b, h, i, j), lambda s: s + (slopes[h] * (j - i)).to(s.dtype))


# --- Packed sequences -------------------------------------------------------------------------------------------------

SEQUENCES = {
    "one": [(300, 300)],
    "short": [(3, 4)] * 90,
    "zero lengths": [(0, 0), (100, 100), (0, 0), (0, 50), (70, 0), (129, 200), (0, 0)],
    "of all lengths": [(1, 1), (64, 64), (65, 63), (200, 513), (513, 200), (1, 300), (300, 1), (128, 128)],
    "documents": [(n, n) for n in (700, 20, 1, 0, 64, 333, 500)],
}


def offsets(lengths, dtype=torch.int32):
    return [torch.tensor([0, *itertools.accumulate(part)], dtype=dtype, device="cuda") for part in zip(*lengths)]


def same_sequence(lengths, left=None, right=None):
    """Returns the mask [total_q, total_k] of sequences that follow each other."""
    total_q, total_k = (sum(part) for part in zip(*lengths))
    keep = torch.zeros(total_q, total_k, dtype=torch.bool, device="cuda")
    query = key = 0
    for nq, nk in lengths:
        distance = torch.arange(nk, device="cuda")[None] - torch.arange(nq, device="cuda")[:, None] - (nk - nq)
        part = torch.ones_like(distance, dtype=torch.bool)
        if left is not None:
            part &= distance >= -left
        if right is not None:
            part &= distance <= right
        keep[query:query + nq, key:key + nk] = part
        query, key = query + nq, key + nk
    return keep


def packed_inputs(lengths, heads, key_heads, d, dtype=BF16):
    totals = [sum(part) for part in zip(*lengths)]
    return [torch.randn(total, h, d, device="cuda").to(dtype)
            for total, h in ((totals[0], heads), (totals[1], key_heads), (totals[1], key_heads))]


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("keywords, left, right", [({}, None, None), ({"causal": True}, None, 0),
                                                   ({"window": (100, 7)}, 100, 7)])
@pytest.mark.parametrize("name", SEQUENCES)
def test_varlen_attention(name, keywords, left, right, d):
    lengths = SEQUENCES[name]
    for dtype, type in ((BF16, torch.int32), (F16, torch.int64)):
        q, k, v = packed_inputs(lengths, 4, 2, d, dtype)
        starts, key_starts = offsets(lengths, type)
        o, lse = flashc.varlen_attention(q, k, v, starts, key_starts, enable_gqa=True, return_lse=True, **keywords)
        assert o.shape == q.shape and lse.shape == (4, q.shape[0])
        batch = [x.transpose(0, 1)[None].contiguous() for x in (q, k, v)]
        assert_right(o.transpose(0, 1)[None], lse[None], *batch, same_sequence(lengths, left, right))
    if all(nq == nk for nq, nk in lengths):
        alone = flashc.varlen_attention(q, k, v, starts, enable_gqa=True, **keywords)
        assert (alone - o).abs().max() <= 2e-2


@pytest.mark.parametrize("schedule", [None, "persistent=false"])
@pytest.mark.parametrize("d", [64, 128])
def test_tiles_of_queries_follow_sequences(d, schedule):
    """Sequences may begin at any row: every row is stored, and only by the tile of its own sequence."""
    random = torch.Generator().manual_seed(d)
    for draw in range(12):
        count = int(torch.randint(1, 30, (), generator=random))
        most = int(torch.randint(2, 1000, (), generator=random))
        lengths = [(n, n) for n in torch.randint(0, most, (count,), generator=random).tolist()] + [(5, 5)]
        q, k, v = packed_inputs(lengths, 4, 2, d)
        starts, _ = offsets(lengths)
        o, lse = torch.full_like(q, float("nan")), torch.full((4, q.shape[0]), float("nan"), device="cuda")
        for keywords, right in (({}, None), ({"causal": True}, 0)):
            flashc.varlen_attention(q, k, v, starts, enable_gqa=True, return_lse=True, out=(o, lse), schedule=schedule,
                                    **keywords)
            batch = [x.transpose(0, 1)[None].contiguous() for x in (q, k, v)]
            assert_right(o.transpose(0, 1)[None], lse[None], *batch, same_sequence(lengths, right=right))
            o.fill_(float("nan"))
            lse.fill_(float("nan"))


def test_offsets_that_do_not_cover_the_queries():
    """The queries before the first offset, and those after the last one, are sequences too."""
    starts = flashc.assume_sorted(device_int(70, 71, 300))
    number = torch.bucketize(torch.arange(500, device="cuda"), starts.array, right=True)
    same = masks.Mask(lambda b, h, i, j: ops.count_le(starts, i) == ops.count_le(starts, j))
    check(same & masks.causal(), lambda b, h, i, j: (number[i] == number[j]) & (j <= i), 2, 2, 500, 500, 64, BF16)


def test_sequences_are_those_of_padded_attention():
    lengths = [(n, n) for n in (130, 1, 64, 200)]
    q, k, v = packed_inputs(lengths, 2, 2, 64)
    starts, _ = offsets(lengths)
    o = flashc.varlen_attention(q, k, v, starts, causal=True)
    for first, last in zip(starts.tolist(), starts.tolist()[1:]):
        one = flashc.attention(*(x[None, first:last] for x in (q, k, v)), causal=True, layout="bshd")
        assert (one[0] - o[first:last]).abs().max() <= 2e-2


def test_one_kernel_and_no_wait_for_all_offsets():
    flashc.configure(disk_cache=False)
    torch.cuda.synchronize()
    for name in SEQUENCES:
        q, k, v = packed_inputs(SEQUENCES[name], 2, 2, 64)
        starts, key_starts = offsets(SEQUENCES[name])
        flashc.varlen_attention(q, k, v, starts, key_starts, causal=True)
        torch.cuda.set_sync_debug_mode("error")
        try:
            flashc.varlen_attention(q, k, v, starts, key_starts, causal=True)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert flashc.statistics().compilations == 1


def test_offsets_that_change_in_a_graph():
    """The offsets change in place between replays of a CUDA graph."""
    lengths = [(100, 100), (60, 60), (140, 140)]
    q, k, v = packed_inputs(lengths, 2, 2, 64)
    starts, _ = offsets(lengths)
    o, lse = torch.empty_like(q), torch.empty(2, 300, device="cuda")
    flashc.varlen_attention(q, k, v, starts, causal=True, out=(o, lse))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        flashc.varlen_attention(q, k, v, starts, causal=True, out=(o, lse))
    for others in ([(1, 1), (0, 0), (299, 299)], [(300, 300), (0, 0), (0, 0)], lengths):
        starts.copy_(offsets(others)[0])
        o.fill_(float("nan"))
        graph.replay()
        assert_right(o.transpose(0, 1)[None], lse[None], *(x.transpose(0, 1)[None].contiguous() for x in (q, k, v)),
                     same_sequence(others, None, 0))


def test_masks_and_scores_of_sequences():
    lengths = SEQUENCES["of all lengths"]
    q, k, v = packed_inputs(lengths, 4, 4, 64)
    starts, key_starts = offsets(lengths)
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625], device="cuda")
    kept = torch.arange(1, len(lengths) + 1, device="cuda") * 30
    o, lse = flashc.varlen_attention(q, k, v, starts, key_starts, return_lse=True,
                                     mask=lambda s, h, i, j: (j < kept[s]) | (i % 2 == 0),
                                     score=lambda x, s, h, i, j: x + slopes[h] * (j - i))
    number = torch.searchsorted(starts, torch.arange(q.shape[0], device="cuda", dtype=torch.int32), right=True) - 1
    key_number = torch.searchsorted(key_starts, torch.arange(k.shape[0], device="cuda", dtype=torch.int32),
                                    right=True) - 1
    i = (torch.arange(q.shape[0], device="cuda") - starts[number])[:, None]
    j = (torch.arange(k.shape[0], device="cuda") - key_starts[key_number])[None]
    keep = same_sequence(lengths) & ((j < kept[number][:, None]) | (i % 2 == 0))
    assert_right(o.transpose(0, 1)[None], lse[None], *(x.transpose(0, 1)[None].contiguous() for x in (q, k, v)), keep,
                 lambda s: s + (slopes[:, None, None] * (j - i)).to(s.dtype))


def test_packed_lines_of_a_batch():
    starts = torch.tensor([[0, 100, 333], [0, 0, 333], [0, 333, 333]], device="cuda")
    b, h, i, j = positions(3, 2, 333, 333)
    number = (starts[:, None, None, :] <= i.view(-1)[:, None]).sum(-1)[..., None]
    key_number = number.transpose(2, 3)
    for causal in (False, True):
        check(masks.packed(starts, causal=causal),
              lambda b, h, i, j: (number == key_number) & ((j <= i) if causal else (j >= 0)), 3, 2, 333, 333, 64, BF16)


def test_offsets_of_other_lengths_for_keys():
    mask = masks.packed(STARTS, KEY_STARTS, causal=True)
    check(mask, lambda b, h, i, j: same_sequence(
        list(zip((STARTS[1:] - STARTS[:-1]).tolist(), (KEY_STARTS[1:] - KEY_STARTS[:-1]).tolist())), None, 0),
        2, 2, 333, 333, 128, BF16)


def test_refusals():
    q, k, v = packed_inputs([(64, 64)], 2, 2, 64)
    with pytest.raises(flashc.ArgumentError, match="cu_seqlens_q on GPU 0, where q is, got one on the CPU"):
        flashc.varlen_attention(q, k, v, torch.tensor([0, 64]))
    with pytest.raises(flashc.ArgumentError, match="on GPU 0, where q is"):
        flashc.attention(*(x[None] for x in (q, k, v)), mask=masks.documents(torch.zeros(64, dtype=torch.int32)),
                         layout="bshd")
    assert ops.count_le(device_int(0, 3, 5), 4) == 2


def test_torch_compile_breaks_the_graph_there():
    q, k, v = packed_inputs([(64, 64), (100, 100)], 2, 2, 64)
    starts = device_int(0, 64, 164)

    @torch.compile
    def twice(q, k, v, starts):
        return flashc.varlen_attention(q * 1, k, v, starts, causal=True) * 2
    want = flashc.varlen_attention(q, k, v, starts, causal=True) * 2
    assert (twice(q, k, v, starts) - want).abs().max() <= 2e-2
