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


def check(mask, nq, nk, wants="exact", is_tight=None):
    """The class; of an exact mask every tile, of others that no tile is skipped, or left without the mask, that may
    not be. `is_tight`: whether every tile is asked for all the same."""
    is_tight = wants == "exact" if is_tight is None else is_tight
    q, k = (flashc.ArraySpec((2, 1, n, 64), "bf16") for n in (nq, nk))
    got = flashc.explain(q, k, k, mask=mask)
    assert got.mask_class == wants, got
    keep = in_numpy(mask, (2, 1, nq, nk))
    rows, columns = got.tile
    for b, heads in enumerate(got.tiles):
        for row, tiles in enumerate(heads[0]):
            for column, tile in enumerate(tiles):
                part = keep[b, 0, row * rows:(row + 1) * rows, column * columns:(column + 1) * columns]
                best = 0 if not part.any() else 2 if part.all() and part.shape[1] == columns else 1
                assert tile == best if is_tight else best in {0: [0], 1: [0, 1, 2], 2: [2]}[tile], \
                    f"tile ({row}, {column}) of {nq} x {nk}: {tile}, expected {best}"


@pytest.mark.parametrize("name", EXACT)
def test_exact(name):
    for nq, nk in SHAPES:
        check(EXACT[name], nq, nk)


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_are_exact(name):
    spec = flashc.ArraySpec((2, 1, 256, 64), "bf16")
    assert flashc.explain(spec, spec, spec, mask=POSITIONS[name][0]).mask_class == "exact"


@pytest.mark.parametrize("causal", [False, True])
def test_packed_sequences_are_exact(causal):
    for starts in ([0, 700], [0, 100, 100, 101, 400, 650, 700], [0, 0, 64, 128, 700]):
        check(masks.packed(np.array(starts), causal=causal), 700, 700)


@pytest.mark.parametrize("keywords", [{}, {"causal": True}, {"window": (60, 9)}])
def test_packed_sequences_of_two_lengths(keywords):
    """Keys of a sequence without queries are visited if they lie between those of others: the class says so."""
    starts, key_starts = np.array([0, 0, 100, 100, 301, 500, 700]), np.array([0, 100, 200, 500, 500, 900, 1000])
    check(masks.packed(starts, key_starts, **keywords), 700, 1000, "conservative")
    with pytest.raises(AssertionError, match=r"tile \(.*: 1, expected 0"):
        check(masks.packed(starts, key_starts, **keywords), 700, 1000, "conservative", is_tight=True)


@pytest.mark.parametrize("causal", [False, True])
def test_packed_sequences_of_two_lengths_that_all_have_queries(causal):
    """Nothing says so, and the class is the same, but there are no such keys: every tile is what it could be."""
    starts, key_starts = np.array([0, 1, 300, 301, 500, 700]), np.array([0, 400, 500, 500, 900, 1000])
    check(masks.packed(starts, key_starts, causal=causal), 700, 1000, "conservative", is_tight=True)


def test_what_is_not_declared_has_no_bounds():
    check(masks.documents(IDS) & masks.causal(), 700, 700, "conservative")
