"""Checks that flashc.masks have bounds as tight as possible: compares the tiles of flashc.explain with every pair."""
import re

import numpy as np
import pytest

import flashc
from flashc import masks
from test_masks import POSITIONS, TOP, compose, in_numpy

SHAPES = [(700, 700), (300, 1100), (1100, 300), (1, 640)]
IDS = np.sort(np.random.default_rng(0).integers(0, 7, 1200)).astype(np.int32)
IDS_OF_BATCH = np.stack([IDS, np.arange(1200, dtype=np.int32) // 100])
# Masks that are wider than a tile; the masks of test_masks.py are not.
EXACT = {
    "causal": masks.causal(TOP),
    "shifted causal": masks.causal(np.int64(130)),
    "window": masks.sliding_window(200, 0, TOP),
    "window on both sides": masks.sliding_window(100, 250, TOP),
    "window to the left": masks.sliding_window(256, None, TOP),
    "prefix": masks.prefix_lm(300, TOP),
    "prefix of each batch": masks.prefix_lm(np.array([400, 10]), TOP),
    "chunks": masks.chunked(256, TOP),
    "causal chunks": masks.chunked(192, TOP) & masks.causal(TOP),
    "blocks": masks.block_causal(128, TOP),
    "sinks": masks.sink_window(4, 300, TOP),
    "dilated": masks.dilated_window(300, 4, align=TOP),
    "neighborhood": masks.neighborhood(1200, 301),
    "dilated neighborhood": masks.neighborhood(1200, 100, 4),
    "padding": masks.key_padding(np.array([900, 130])),
    "continuations": masks.shared_prefix(200, 150, TOP),
    "continuations of each batch": masks.shared_prefix(np.array([200, 64]), 150, TOP),
    "diffusion": masks.block_diffusion(512, 64),
    "diffusion of a length that is given": masks.block_diffusion(np.int64(300), 96),
    "documents": masks.documents(IDS, sorted=True),
    "causal documents": masks.documents(IDS, sorted=True) & masks.causal(TOP),
    "documents of each batch": masks.documents(IDS_OF_BATCH, sorted=True),
    "continuations by number": masks.shared_prefix(200, IDS, TOP, sorted=True),
}


# For masks whose tiles of keys are moved: the first key of these tiles, which is the first key that query i sees in
# batch b. Here i is the first query of a tile of queries.
ORIGINS = {
    "documents": lambda b, i, n: np.searchsorted(IDS, IDS[i]),
    "causal documents": lambda b, i, n: np.searchsorted(IDS, IDS[i]),
    "documents of each batch": lambda b, i, n: np.searchsorted(IDS_OF_BATCH[b], IDS_OF_BATCH[b, i]),
}


def cut(length, tile, starts=None):
    """Returns the begin, the end and the number of the sequence of each tile of queries. If `starts` is given, the
    tiles follow the sequences, and are those that flash.segment_tile numbers."""
    if starts is None:
        return [(i, min(i + tile, length), 0) for i in range(0, length, tile)]
    begins, tiles = [0, *(min(start, length) for start in starts), length], []
    for n, (begin, end) in enumerate(zip(begins, begins[1:])):
        while len(tiles) < end // tile + n + 1:
            first = min(begin + (len(tiles) - begin // tile - n) * tile, end)
            tiles.append((first, min(first + tile, end), n))
    return tiles


def check(mask, nq, nk, wants="exact", origin=None, starts=None, stays=lambda tile: False):
    """Checks the class of the mask and every tile. If the mask moves the tiles of keys, `origin(batch, query, number)`
    returns where they begin, for the first query of a tile of queries and the number of the query's sequence. The tiles
    do not move if `stays(tile)` is true. `starts` are the starts of the sequences that tiles of queries follow, except
    in kernels for sequences shorter than a tile."""
    for dtype in ("bf16", "f32") if starts is not None else ("bf16",):  # f32 never takes a kernel for short sequences
        q, k = (flashc.ArraySpec((2, 1, n, 64), dtype) for n in (nq, nk))
        got = flashc.explain(q, k, k, mask=mask)
        is_moved = any(bound.startswith("origin ") for bound in got.bounds)
        if "on their grid" in got.tile_source:
            queries = [(begin, end, np.searchsorted(starts, begin, "right")) for begin, end, _ in cut(nq, got.tile[0])]
            check_tiles(got, mask, nq, nk, got.mask_class, queries, origin if is_moved else None)
            continue
        assert got.mask_class == wants, got
        assert is_moved == (origin is not None and not stays(got.tile)), got
        check_tiles(got, mask, nq, nk, wants, cut(nq, got.tile[0], starts), origin if is_moved else None)


def check_tiles(got, mask, nq, nk, wants, queries, origin):
    """Checks every tile. `queries` are the tiles of queries, as `cut` returns them."""
    keep, columns = in_numpy(mask, (2, 1, nq, nk)), got.tile[1]
    assert len(queries) == got.rows
    for b, heads in enumerate(got.tiles):
        for (begin, end, n), tiles in zip(queries, heads[0]):
            kept = keep[b, 0, begin:end]
            first = 0 if origin is None or begin == end else max(min(origin(b, begin, n), nk), 0)
            assert not kept[:, :first].any() and not any(tiles[:first // columns])
            for column, tile in enumerate(tiles[first // columns:]):
                key = first + column * columns
                part = kept[:, key:key + columns]
                best = 0 if not part.any() else 2 if part.all() and part.shape[1] == columns else 1
                if wants == "exact":
                    assert tile == best, f"queries {begin} to {end} of {nq}, key {key} of {nk}: {tile}, expected {best}"
                else:  # a tile may be skipped, or go without the mask, only if that is right
                    assert best in {0: [0], 1: [0, 1, 2], 2: [2]}[tile], (begin, key, tile, best)


@pytest.mark.parametrize("name", EXACT)
def test_exact(name):
    """Causal documents do not move the tiles of keys if these are as long as the tiles of queries, or divide them. The
    diagonal then cuts one tile; if the tiles moved, it would cut two."""
    for nq, nk in SHAPES:
        check(EXACT[name], nq, nk, origin=ORIGINS.get(name),
              stays=lambda tile: name == "causal documents" and tile[0] % tile[1] == 0)


@pytest.mark.parametrize("name", [name for name in EXACT if "document" not in name and "number" not in name])
def test_exact_where_the_last_query_is_at_the_last_key(name):
    for nq, nk in SHAPES[1:3]:
        check(EXACT[name].aligned("bottom-right"), nq, nk)


@pytest.mark.parametrize("mask", [lambda align: masks.documents(IDS, sorted=True) & masks.causal(align),
                                  lambda align: masks.shared_prefix(200, IDS, align, sorted=True)])
def test_sorted_data_have_as_many_tiles_wherever_queries_are(mask):
    """With causal=True or "bottom-right", Nq and Nk may differ, so the compiler proves less about the mask, and its
    bounds are conservative. The numbers of tiles must be the same as for "top-left" all the same."""
    spec = flashc.ArraySpec((2, 1, 700, 64), "bf16")
    top, bottom = (flashc.explain(spec, spec, spec, mask=mask(align)) for align in (TOP, "bottom-right"))
    assert (top.skipped, top.partial, top.full) == (bottom.skipped, bottom.partial, bottom.full)


def test_causal_documents_are_those_of_the_argument():
    spec, documents = flashc.ArraySpec((2, 1, 700, 64), "bf16"), masks.documents(IDS, sorted=True)
    name = flashc.explain(spec, spec, spec, mask=documents & masks.causal())
    argument = flashc.explain(spec, spec, spec, mask=documents, causal=True)
    assert (name.mask_class, name.tiles) == (argument.mask_class, argument.tiles)


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_are_exact(name):
    spec = flashc.ArraySpec((2, 1, 256, 64), "bf16")
    assert flashc.explain(spec, spec, spec, mask=POSITIONS[name][0]).mask_class == "exact"


@pytest.mark.parametrize("number", range(12))
def test_random_compositions(rng, number):
    """If a composition is exact, its tiles are as tight as possible. Otherwise a tile is skipped, or goes without the
    mask, only if that is right."""
    mask, _ = compose(rng)
    for nq, nk in SHAPES[:3]:
        q, k = (flashc.ArraySpec((2, 1, n, 64), "bf16") for n in (nq, nk))
        got, keep = flashc.explain(q, k, k, mask=mask), in_numpy(mask, (2, 1, nq, nk))
        is_moved = any(bound.startswith("origin ") for bound in got.bounds)
        check_tiles(got, mask, nq, nk, got.mask_class, cut(nq, got.tile[0]),
                    (lambda b, i, n: keep[b, 0, i].argmax()) if is_moved else None)


def find_start(starts, key_starts, left=1000):
    """Returns a function for the first key of a query's sequence, or of its window within the sequence."""
    return lambda b, i, n: max(key_starts[n - 1], i + key_starts[n] - starts[n] - left)


@pytest.mark.parametrize("causal", [False, True])
def test_packed_sequences_are_exact(causal):
    for starts in ([0, 700], [0, 100, 100, 101, 400, 650, 700], [0, 0, 64, 128, 700], [0, 256, 512, 700]):
        check(masks.packed(np.array(starts), causal=causal), 700, 700, origin=find_start(starts, starts), starts=starts)


@pytest.mark.parametrize("causal", [False, True])
def test_packed_sequences_of_each_batch_are_exact(causal):
    starts = np.array([[0, 100, 200, 700], [0, 0, 690, 700]])
    for b in range(2):  # tests each batch alone
        one = masks.packed(starts[b], causal=causal)
        check(one, 700, 700, origin=find_start(starts[b], starts[b]), starts=starts[b])
    q = flashc.ArraySpec((2, 1, 700, 64), "bf16")
    both = flashc.explain(q, q, q, mask=masks.packed(starts, causal=causal))
    for b in range(2):
        assert both.tiles[b] == flashc.explain(q, q, q, mask=masks.packed(starts[b], causal=causal)).tiles[b]


@pytest.mark.parametrize("keywords", [{}, {"causal": True}, {"window": (60, 9)}])
@pytest.mark.parametrize("starts, key_starts", [
    ([0, 0, 100, 100, 301, 500, 700], [0, 100, 200, 500, 500, 900, 1000]),
    ([0, 1, 300, 301, 500, 700], [0, 400, 500, 500, 900, 1000])])
def test_packed_sequences_of_two_lengths(starts, key_starts, keywords):
    """A tile of queries belongs to one sequence, so keys between two sequences are not visited, nor are keys of a
    sequence without queries."""
    starts, key_starts = np.array(starts), np.array(key_starts)
    check(masks.packed(starts, key_starts, **keywords), 700, 1000, starts=starts,
          origin=find_start(starts, key_starts, left=keywords.get("window", [1000])[0]))


@pytest.mark.parametrize("seed", range(30))
def test_random_sequences(seed):
    rng = np.random.default_rng(seed)
    count, most = rng.integers(1, 20), rng.integers(2, 500)
    lengths = rng.integers(0, most, (2, count))
    lengths[:, -1] += 1
    is_same = seed % 2
    starts, key_starts = (np.concatenate([[0], np.cumsum(lengths[part * (1 - is_same)])]) for part in range(2))
    keywords, left = [({}, 10000), ({"causal": True}, 10000), ({"window": (130, 0)}, 130)][seed % 3]
    check(masks.packed(starts, None if is_same else key_starts, **keywords), int(starts[-1]), int(key_starts[-1]),
          starts=starts, origin=find_start(starts, key_starts, left=left))


@pytest.mark.parametrize("name", ["causal", "window", "window on both sides", "prefix", "chunks", "blocks", "sinks",
                                  "dilated"])
def test_masks_of_positions_take_no_memory(name):
    """The mask takes no memory: the kernel has no workspace, and no other kernel runs before it."""
    spec = flashc.ArraySpec((1, 8, 32768, 64), "bf16")
    manifest = flashc.compile(spec, spec, spec, mask=EXACT[name]).manifest
    for entry in [manifest, *manifest.get("variants", [])]:
        assert entry["workspace"] == 0 and "before" not in entry


@pytest.mark.parametrize("mask, why", [
    (masks.prefix_lm(8192), "pairs of tiles of queries, one from either end, differ in their keys"),
    (masks.shared_prefix(2048, 1024), "tiles of queries differ in their keys"),
    (masks.block_diffusion(16384, 256), "tiles of queries see fewer keys than tiles before them")],
    ids=["prefix", "continuations", "diffusion"])
def test_masks_whose_tiles_differ_have_a_list_of_them(mask, why):
    """Such a mask takes only a list: a few i32 for each tile of queries, however many keys there are. An entry for few
    queries may have no list."""
    spec = flashc.ArraySpec((1, 8, 32768, 64), "bf16")
    manifest = flashc.compile(spec, spec, spec, mask=mask).manifest
    assert manifest["sorted"] == why
    for entry in [manifest, *(entry for entry in manifest.get("variants", []) if "before" in entry)]:
        assert [before["kernel"] for before in entry["before"]] == [entry["kernel"] + "_order"]
        assert re.fullmatch(r"mul64\(4, add\(mul\(2, ceildiv\(arg0.dim2, \d+\)\), 1\)\)", entry["workspace"])


def test_neighborhoods_of_images_are_run():
    check(masks.neighborhood((25, 28), 7), 700, 700, "mapped")


def test_what_is_not_declared_is_run():
    check(masks.documents(IDS) & masks.causal(), 700, 700, "mapped")
