"""That flashc.masks have the bounds that they could have: what flashc.explain says, against every pair."""
import numpy as np
import pytest

import flashc
from flashc import masks
from test_masks import POSITIONS, in_numpy

SHAPES = [(700, 700), (300, 1100), (1100, 300), (1, 640)]
IDS = np.sort(np.random.default_rng(0).integers(0, 7, 1200)).astype(np.int32)
IDS_OF_BATCH = np.stack([IDS, np.arange(1200, dtype=np.int32) // 100])
# Masks that are wider than tiles, which those of test_masks.py are not.
EXACT = {
    "causal": masks.causal(),
    "shifted causal": masks.causal(np.int64(130)),
    "window": masks.sliding_window(200, 0),
    "window on both sides": masks.sliding_window(100, 250),
    "window to the left": masks.sliding_window(256, None),
    "prefix": masks.prefix_lm(300),
    "prefix of each batch": masks.prefix_lm(np.array([400, 10])),
    "chunks": masks.chunked(256),
    "causal chunks": masks.chunked(192) & masks.causal(),
    "blocks": masks.block_causal(128),
    "sinks": masks.sink_window(4, 300),
    "dilated": masks.dilated_window(300, 4),
    "padding": masks.key_padding(np.array([900, 130])),
    "continuations": masks.shared_prefix(200, 150),
    "continuations of each batch": masks.shared_prefix(np.array([200, 64]), 150),
    "diffusion": masks.block_diffusion(512, 64),
    "diffusion of a length that is given": masks.block_diffusion(np.int64(300), 96),
    "documents": masks.documents(IDS, sorted=True),
    "causal documents": masks.documents(IDS, sorted=True) & masks.causal(),
    "documents of each batch": masks.documents(IDS_OF_BATCH, sorted=True),
    "continuations by number": masks.shared_prefix(200, IDS, sorted=True),
}


# Where tiles begin that are moved: the first key that is kept of the batch and a tile's first query.
ORIGINS = {
    "documents": lambda b, i: np.searchsorted(IDS, IDS[i]),
    "documents of each batch": lambda b, i: np.searchsorted(IDS_OF_BATCH[b], IDS_OF_BATCH[b, i]),
}


def check(mask, nq, nk, wants="exact", is_tight=None, origin=None):
    """The class; of an exact mask every tile, of others that no tile is skipped, or left without the mask, that may
    not be. `is_tight`: whether every tile is asked for all the same. `origin`: where tiles begin, if they are moved."""
    is_tight = wants == "exact" if is_tight is None else is_tight
    q, k = (flashc.ArraySpec((2, 1, n, 64), "bf16") for n in (nq, nk))
    got = flashc.explain(q, k, k, mask=mask)
    assert got.mask_class == wants, got
    assert any(bound.startswith("origin ") for bound in got.bounds) == (origin is not None), got
    keep = in_numpy(mask, (2, 1, nq, nk))
    rows, columns = got.tile
    for b, heads in enumerate(got.tiles):
        for row, tiles in enumerate(heads[0]):
            first = 0 if origin is None else min(origin(b, row * rows), nk)
            assert not keep[b, 0, row * rows:(row + 1) * rows, :first].any() and not any(tiles[:first // columns])
            for column, tile in enumerate(tiles[first // columns:]):
                key = first + column * columns
                part = keep[b, 0, row * rows:(row + 1) * rows, key:key + columns]
                best = 0 if not part.any() else 2 if part.all() and part.shape[1] == columns else 1
                assert tile == best if is_tight else best in {0: [0], 1: [0, 1, 2], 2: [2]}[tile], \
                    f"tile ({row}, {column}) of {nq} x {nk}: {tile}, expected {best}"


@pytest.mark.parametrize("name", EXACT)
def test_exact(name):
    for nq, nk in SHAPES:
        check(EXACT[name], nq, nk, origin=ORIGINS.get(name))


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_are_exact(name):
    spec = flashc.ArraySpec((2, 1, 256, 64), "bf16")
    assert flashc.explain(spec, spec, spec, mask=POSITIONS[name][0]).mask_class == "exact"


def find_start(starts, key_starts=None, left=1000):
    """Where the keys of a query's sequence begin, or its window in there."""
    key_starts = starts if key_starts is None else key_starts

    def find(b, i):
        n = np.searchsorted(starts, i, side="right")
        return max(key_starts[n - 1], min(i + key_starts[n] - starts[n] - left, key_starts[n]))
    return find


@pytest.mark.parametrize("causal", [False, True])
def test_packed_sequences_are_exact(causal):
    for starts in ([0, 700], [0, 100, 100, 101, 400, 650, 700], [0, 0, 64, 128, 700]):
        check(masks.packed(np.array(starts), causal=causal), 700, 700, origin=find_start(starts))


@pytest.mark.parametrize("keywords", [{}, {"causal": True}, {"window": (60, 9)}])
def test_packed_sequences_of_two_lengths(keywords):
    """Keys of a sequence without queries are visited if they lie between those of others: the class says so."""
    starts, key_starts = np.array([0, 0, 100, 100, 301, 500, 700]), np.array([0, 100, 200, 500, 500, 900, 1000])
    origin = find_start(starts, key_starts, left=keywords.get("window", [1000])[0])
    check(masks.packed(starts, key_starts, **keywords), 700, 1000, "conservative", origin=origin)
    with pytest.raises(AssertionError, match=r"tile \(.*: 1, expected 0"):
        check(masks.packed(starts, key_starts, **keywords), 700, 1000, "conservative", is_tight=True, origin=origin)


@pytest.mark.parametrize("causal", [False, True])
def test_packed_sequences_of_two_lengths_that_all_have_queries(causal):
    """Nothing says so, and the class is the same, but there are no such keys: every tile is what it could be."""
    starts, key_starts = np.array([0, 1, 300, 301, 500, 700]), np.array([0, 400, 500, 500, 900, 1000])
    check(masks.packed(starts, key_starts, causal=causal), 700, 1000, "conservative", is_tight=True,
          origin=find_start(starts, key_starts))


def test_what_is_not_declared_has_no_bounds():
    check(masks.documents(IDS) & masks.causal(), 700, 700, "conservative")
