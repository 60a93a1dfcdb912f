"""Masks that read arrays of which nothing is declared. Tiles are visited by the range of the array in each tile. On the
CPU, kept pairs are compared with rules for all pairs, and visited tiles with the ranges."""
import os

import numpy as np
import pytest

import flashc
from flashc import masks, ops
from test_masks import in_numpy, kept

SHAPES = [(2, 1, 64, 256), (2, 2, 131, 197), (2, 1, 1, 1)]
#: Masks that a kernel runs: one for each type of element, one that keeps no pair, and some that join two conditions.
#: test_tiles tests the tiles of all masks.
ON_CPU = ["causal documents", "documents of 64 bits", "flags", "unsigned flags", "times or near", "either",
          "small numbers", "nothing"]
ONE_BATCH = {"causal documents", "flags"}  # with one batch, their arrays have one row, which gives other kernels
ORDERS = ["sorted", "blocks", "shuffled"]
SKIPPED, PARTIAL, FULL = 0, 1, 2
SEEDS = int(os.environ.get("FLASHC_TEST_SEEDS", 60))


def documents(rng, n, order, count=5):
    ids = np.sort(rng.integers(0, count, n)).astype(np.int32)
    renamed = rng.permutation(count).astype(np.int32)[ids]
    return {"sorted": ids, "blocks": renamed, "shuffled": rng.permutation(ids)}[order]


def make_masks(rng, shape, order):
    b, h, nq, nk = shape
    n = max(nq, nk)
    ids = np.stack([documents(rng, n, order) for _ in range(b)])
    far = ids[0].astype(np.int64) * (1 << 40)
    keep = np.repeat(rng.random((b, -(-nk // 32))) < 0.5, 32, axis=1)[:, :nk]
    keep8, unsigned, times = keep.astype(np.int8), keep.astype(np.uint8), documents(rng, n, order, 1000)
    narrow = rng.integers(-128, 127, n).astype(np.int8)
    return {
        "documents": lambda b, h, i, j: ids[b, i] == ids[b, j],
        "causal documents": lambda b, h, i, j: (ids[b, i] == ids[b, j]) & (j <= i),
        "documents of 64 bits": lambda b, h, i, j: far[i] == far[j],
        "other documents": lambda b, h, i, j: ids[b, i] != ids[b, j],
        "flags": lambda b, h, i, j: keep[b, j],
        "flags as numbers": lambda b, h, i, j: keep8[b, j] != 0,
        "no flags": lambda b, h, i, j: ~keep[b, j] & (i - j < 100),
        "times": lambda b, h, i, j: times[j] <= times[i],
        "times or near": lambda b, h, i, j: (times[j] < times[i]) | (abs(i - j) < 20),
        "either": lambda b, h, i, j: (times[j] < times[i]) ^ keep[b, j],
        "neighbours": lambda b, h, i, j: ids[b, i] - ids[b, j] <= 1,
        "far neighbours": lambda b, h, i, j: far[i] - far[j] > 5,
        "small numbers": lambda b, h, i, j: narrow[j] > -100,
        "unsigned flags": lambda b, h, i, j: unsigned[b, j] != 0,
        "nothing": lambda b, h, i, j: (ids[b, j] > 100) & (j <= i),
        "everything": lambda b, h, i, j: (ids[b, j] >= 0) | (j <= i),
    }


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_kept_pairs(shape, order):
    made = make_masks(np.random.default_rng(len(order)), shape, order)
    for name in ON_CPU:
        mask = made[name]
        assert np.array_equal(kept(mask, shape), in_numpy(mask, shape)), name


def test_kept_pairs_of_one_batch():
    shape = (1, 2, 131, 197)
    made = make_masks(np.random.default_rng(0), shape, "blocks")
    for name in ONE_BATCH:
        assert np.array_equal(kept(made[name], shape), in_numpy(made[name], shape)), name


def test_elements_whose_sums_may_wrap_around():
    """Sums may wrap around, in NumPy and in kernels alike. A tile in which they may wrap around is evaluated. The
    smallest such sum is 2^62 + 2^62."""
    rng, shape = np.random.default_rng(0), (1, 1, 70, 130)
    large = np.where(rng.random(130) < 0.5, 0, 1 << 62)
    ends = np.sort(rng.choice([-2**63, -5, 0, 7, 2**63 - 1], 130))

    def ends_of(i):
        return ends[i] if isinstance(i, np.ndarray) else flashc.assume_sorted(ends)[i]

    with np.errstate(over="ignore"):
        for name, mask in {
                "sum": lambda b, h, i, j: large[i] + large[j] >= 5,
                "difference": lambda b, h, i, j: large[i] - -large[j] >= 5,
                "sorted": lambda b, h, i, j: (ends_of(i) + 5 > 0) & (large[j] == 0),
                "sorted and not": lambda b, h, i, j: ends_of(i) + 1 > large[j],
        }.items():
            assert np.array_equal(kept(mask, shape), in_numpy(mask, shape)), name


def find_tiles(keeps, tile):
    """Returns the class of every tile of a mask [Nq, Nk]."""
    nq, nk = keeps.shape
    rows = [slice(i, i + tile[0]) for i in range(0, nq, tile[0])]
    classes = np.empty((len(rows), -(-nk // tile[1])), int)
    for y, row in enumerate(rows):
        for x in range(classes.shape[1]):
            part = keeps[row, x * tile[1]:(x + 1) * tile[1]]
            whole = part.all() and (x + 1) * tile[1] <= nk
            classes[y, x] = FULL if whole else PARTIAL if part.any() else SKIPPED
    return classes


@pytest.mark.parametrize("order", ORDERS)
def test_tiles(order):
    """Checks the classes that are known before the mask is run, for arrays in any order: no tile with a kept pair is
    skipped, and no tile with a dropped pair goes without the mask."""
    shape = (2, 1, 900, 1100)
    q, k = flashc.ArraySpec((2, 1, 900, 64), "bf16"), flashc.ArraySpec((2, 1, 1100, 64), "bf16")
    for name, mask in make_masks(np.random.default_rng(len(order)), shape, order).items():
        explanation = flashc.explain(q, k, k, mask=mask)
        assert explanation.mask_class == "mapped", name
        assert explanation.reasons[0].startswith("tiles are visited by running the mask, where the range of capture"), \
            explanation.reasons
        keeps = in_numpy(mask, shape)
        for batch in range(2):
            tightest, tiles = find_tiles(keeps[batch, 0], explanation.tile), np.array(explanation.tiles[batch][0])
            assert np.all((tiles == tightest) | (tiles == PARTIAL)), name
            # The last row of tiles extends past the last query, and the range covers the elements there. So the row is
            # not compared.
            if order == "sorted" and name in ("documents", "times"):
                assert np.array_equal(tiles[:-1], tightest[:-1]), name


def mix(n):
    """Returns masks that the compiler understands, combined with flags of which it knows nothing."""
    rng = np.random.default_rng(n)
    keep = np.repeat(rng.random((2, -(-n // 32))) < 0.7, 32, axis=1)[:, :n]
    flags = lambda b, h, i, j: keep[b, j]  # noqa: E731
    offsets, ids = np.array([0, 200, 500, 501, 800, n], np.int32), np.sort(rng.integers(0, 6, n)).astype(np.int32)
    return {"packed": masks.packed(offsets) & flags, "causal": masks.packed(offsets, causal=True) & flags,
            "sorted": masks.documents(ids, sorted=True) & flags, "window": masks.sliding_window(200) & flags,
            "lengths": masks.key_padding(np.array([400, 1000], np.int32)) & flags,
            "dilated": masks.dilated_window(300, 4) & flags, "sinks": masks.sink_window(4, 200) & flags,
            "diffusion": masks.block_diffusion(n // 2, 64) & flags}


def test_bounds_bound_runs():
    """The understood part of a mask still skips tiles: not many more tiles are visited than contain a kept pair."""
    n = 1100
    spec = flashc.ArraySpec((2, 1, n, 64), "bf16")
    for name, mask in mix(n).items():
        explanation, keeps = flashc.explain(spec, spec, spec, mask=mask), in_numpy(mask, (2, 1, n, n))
        needed = 0
        for batch in range(2):
            tightest, tiles = find_tiles(keeps[batch, 0], explanation.tile), np.array(explanation.tiles[batch][0])
            assert np.all((tiles == tightest) | (tiles == PARTIAL)), name
            needed += np.sum(tightest != SKIPPED)
        assert explanation.partial + explanation.full <= 1.1 * needed, (name, explanation)


class Program:
    """A random mask that reads arrays: a function that both NumPy and flashc run."""

    def __init__(self, rng, batches, nq, nk):
        self.rng, n = rng, max(nq, nk)
        self.arrays = [documents(rng, n, ORDERS[rng.integers(3)], int(rng.integers(2, 40))) - 7,
                       np.sort(rng.integers(-128, 128, n).astype(np.int8)),
                       np.repeat(rng.random((batches, -(-n // 20))) < 0.6, 20, axis=1)[:, :n]]
        self.keep, self.get = self.condition(2), lambda number: ops.array(self.arrays[number])

    def integer(self, depth):
        kind = self.rng.integers(4 if depth == 0 else 12)
        which, number = int(self.rng.integers(2)), int(self.rng.integers(1, 200))
        if kind < 4:
            return [lambda b, h, i, j: self.get(which)[i], lambda b, h, i, j: self.get(which)[j],
                    lambda b, h, i, j: (i, j)[which], lambda b, h, i, j: (i, j)[which] * 0 + number - 40][kind]
        x, y, condition = self.integer(depth - 1), self.integer(depth - 1), self.condition(0)
        return [lambda *p: x(*p) + y(*p), lambda *p: x(*p) - y(*p), lambda *p: x(*p) * (number - 100),
                lambda *p: x(*p) // number, lambda *p: x(*p) % number, lambda *p: abs(x(*p)), lambda *p: x(*p) & 31,
                lambda *p: np.where(condition(*p), x(*p), y(*p))][kind - 4]

    def condition(self, depth):
        kind, relation = self.rng.integers(4 if depth == 0 else 8), self.rng.integers(6)
        if kind == 0:
            return lambda b, h, i, j: self.get(2)[b, j]
        if kind < 4:
            x, y = self.integer(depth), self.integer(depth)
            return [lambda *p: x(*p) == y(*p), lambda *p: x(*p) != y(*p), lambda *p: x(*p) < y(*p),
                    lambda *p: x(*p) <= y(*p), lambda *p: x(*p) > y(*p), lambda *p: x(*p) >= y(*p)][relation]
        x, y = self.condition(depth - 1), self.condition(depth - 1)
        return [lambda *p: x(*p) & y(*p), lambda *p: x(*p) | y(*p), lambda *p: x(*p) ^ y(*p),
                lambda *p: ~x(*p)][kind - 4]

    def in_numpy(self, shape):
        """Evaluates the mask in NumPy with wide integers, as flashc does."""
        self.get = lambda number: self.arrays[number].astype(bool if number == 2 else np.int64)
        return in_numpy(self.keep, shape)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_programs(seed):
    """The tiles of any mask are sound, for tiles of all shapes."""
    rng = np.random.default_rng(seed)
    nq, nk = (int(rng.choice([1, 40, 64, 129, 300])) for _ in range(2))
    program = Program(rng, 2, nq, nk)
    q, k = flashc.ArraySpec((2, 1, nq, 64), "bf16"), flashc.ArraySpec((2, 1, nk, 64), "bf16")
    schedule = f"consumers={rng.integers(1, 3)},kv-tile={rng.choice([16, 32, 64])}"
    explanation = flashc.explain(q, k, k, mask=program.keep, schedule=schedule)
    keeps = program.in_numpy((2, 1, nq, nk))
    for batch in range(2):
        tightest, tiles = find_tiles(keeps[batch, 0], explanation.tile), np.array(explanation.tiles[batch][0])
        assert np.all((tiles == tightest) | (tiles == PARTIAL)), str(explanation)


def test_runs():
    """Up to five runs of tiles are visited as they are. If there are more, the runs with the smallest gaps are
    joined."""
    q = flashc.ArraySpec((1, 1, 128, 64), "bf16")
    k = flashc.ArraySpec((1, 1, 32 * 64, 64), "bf16")

    def visited(*tiles):
        keep = np.zeros(32 * 64, bool)
        for tile in tiles:
            keep[64 * tile:64 * tile + 64] = True
        explanation = flashc.explain(q, k, k, mask=lambda b, h, i, j: keep[j], schedule="consumers=2,kv-tile=64")
        return explanation.tiles[0][0][0]

    def expected(full, partial=()):
        return [FULL if tile in full else PARTIAL if tile in partial else SKIPPED for tile in range(32)]

    assert visited() == expected(())
    assert visited(*range(32)) == expected(range(32))
    assert visited(0, 5, 6, 12, 20, 31) == expected((0, 5, 6, 12, 20, 31))
    assert visited(0, 5, 8, 14, 20, 31) == expected((0, 5, 14, 20, 31), (6, 7, 8))
    assert visited(0, 4, 5, 7, 8, 9, 14, 20, 31) == expected((0, 7, 8, 9, 14, 20, 31), (4, 5, 6))


def test_missing_elements_are_named():
    spec = flashc.ArraySpec((1, 1, 300, 64), "bf16")
    ids = flashc.ArraySpec((300,), "i32")
    with pytest.raises(flashc.CompileError, match=r"elements of argument 3 \(ids\), which loop bounds read"):
        flashc.explain(spec, spec, spec, mask=lambda b, h, i, j: ids[i] == ids[j])


def test_kernel_has_tables():
    spec, ids = flashc.ArraySpec((1, 1, 300, 64), "bf16"), flashc.ArraySpec((300,), "i32")
    kernel = flashc.compile(spec, spec, spec, mask=lambda b, h, i, j: ids[i] == ids[j])
    entry = kernel.manifest
    assert entry["version"] == 5
    assert [one["kernel"].rsplit("_", 1)[1] for one in entry["before"]] == ["classes", "runs", "order"]
    assert entry["workspace"].startswith("mul64(") and entry["mask_map"].startswith("add64(")
    assert [one.get("writes_mask_map", False) for one in entry["before"]] == [True, True, False]
    dense = flashc.compile(spec, spec, spec)
    assert dense.manifest["version"] == 1 and "before" not in dense.manifest
