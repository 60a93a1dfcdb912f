"""Packed sequences that are shorter than a tile of queries, on a GPU, against float32 attention: the kernel entry for
them, and the other entries. Skipped where there is no GPU.

Numbers follow the rule of docs/checking.md. Outputs are NaN before the launch."""

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc import masks  # noqa: E402
from .test_masks import assert_right, offsets, packed_inputs, same_sequence  # noqa: E402
from .test_work_lists import evaluate  # noqa: E402

# Lengths of sequences. On average, those of SHORT are less than a tile of 128 to 256 queries, and those of LONG are
# not.
SHORT = {
    "eight": [8] * 2048, "one": [1] * 1500, "63": [63] * 70, "64": [64] * 80, "one of them": [77],
    "64 beside long ones": [64] * 30 + [1100] + [64] * 30 + [777] + [64] * 20,
    "zero lengths": [0, 3, 0, 0, 100, 17, 0] * 30,
    "of all lengths": [(7 * n * n) % 181 for n in range(60)],
}
LONG = {"few": [700, 300, 1000], "long ones beside 64": [64] * 5 + [3000, 0, 64, 500],
        "zero lengths": [0, 900, 0, 433, 500, 0]}
KEYWORDS = [({}, None, None), ({"causal": True}, None, 0), ({"window": (40, 3)}, 40, 3)]


def takes_short(kernel, arguments):
    """Returns whether the first variant of the kernel that applies to a launch is the entry for short sequences."""
    variants = kernel.manifest["variants"]
    assert any(variant["kernel"].endswith("_short") for variant in variants)
    return next((variant["kernel"].endswith("_short") for variant in variants
                 if all(evaluate(formula, arguments) <= bound for formula, bound in variant["when"])), False)


def check(lengths, d, keywords, left, right, is_short, empty_sequences=0, more_keys=0):
    """Launches once, and checks that the launch takes the right entry. Empty sequences at the end reduce the average
    length. If more than half of the keys belong to no sequence, the other entry is taken in any case."""
    pairs = [(n, n) for n in lengths]
    q, k, v = (x.transpose(0, 1)[None].contiguous() for x in packed_inputs(pairs, 4, 2, d))
    starts, _ = offsets(pairs + [(0, 0)] * empty_sequences)
    more = [torch.randn(1, 2, more_keys, d, device="cuda").to(q.dtype) for _ in range(2)]
    k, v = torch.cat([k, more[0]], dim=2), torch.cat([v, more[1]], dim=2)
    kernel = flashc.compile(q, k, v, mask=masks.packed(starts, **keywords), enable_gqa=True)
    assert takes_short(kernel, [q, k, v, starts]) == is_short
    o, lse = torch.full_like(q, float("nan")), torch.full(q.shape[:3], float("nan"), device="cuda")
    kernel(q, k, v, out=(o, lse), return_lse=True)
    keep = torch.nn.functional.pad(same_sequence(pairs, left, right), (0, more_keys))
    assert_right(o, lse, q, k, v, keep)


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("keywords, left, right", KEYWORDS)
@pytest.mark.parametrize("name", SHORT)
def test_short_sequences(name, keywords, left, right, d):
    check(SHORT[name], d, keywords, left, right, is_short=True)
    check(SHORT[name], d, keywords, left, right, is_short=False, more_keys=sum(SHORT[name]) + 3)


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("keywords, left, right", KEYWORDS)
@pytest.mark.parametrize("name", LONG)
def test_long_sequences(name, keywords, left, right, d):
    check(LONG[name], d, keywords, left, right, is_short=False)
    check(LONG[name], d, keywords, left, right, is_short=True, empty_sequences=100)


@pytest.mark.parametrize("lengths", [[(1, 2)] * 1000, [(8, 5)] * 500, [(60, 110), (0, 40), (1, 0), (100, 130)] * 20])
@pytest.mark.parametrize("keywords, left, right", KEYWORDS)
def test_offsets_of_keys(lengths, keywords, left, right):
    """Sequences have other lengths for keys than for queries; some have no keys, some no queries."""
    q, k, v = packed_inputs(lengths, 4, 2, 128)
    starts, key_starts = offsets(lengths)
    o, lse = torch.full_like(q, float("nan")), torch.full((4, q.shape[0]), float("nan"), device="cuda")
    flashc.varlen_attention(q, k, v, starts, key_starts, enable_gqa=True, return_lse=True, out=(o, lse), **keywords)
    assert_right(o.transpose(0, 1)[None], lse[None], *(x.transpose(0, 1)[None].contiguous() for x in (q, k, v)),
                 same_sequence(lengths, left, right))


def test_both_entries_in_turn():
    """One kernel has both entries. Each launch chooses one by the extents, also in a captured graph."""
    flashc.configure(disk_cache=False)
    cases = [[8] * 500, [1000, 3000], [8] * 500, [130] * 20]
    pairs = [[(n, n) for n in lengths] for lengths in cases]
    inputs = [(packed_inputs(lengths, 4, 2, 64), offsets(lengths)[0]) for lengths in pairs]
    eager = [flashc.varlen_attention(*x, starts, causal=True, enable_gqa=True) for x, starts in inputs]
    assert flashc.statistics().compilations == 1
    outputs = [torch.full_like(o, float("nan")) for o in eager]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for (x, starts), o in zip(inputs, outputs):
            flashc.varlen_attention(*x, starts, causal=True, enable_gqa=True, out=o)
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(o, want) for o, want in zip(outputs, eager))
