"""Cases of kind "tiles": the tiles of flashc.explain against the mask of every pair.

No tile with a kept pair may be skipped, and no tile with a dropped pair may be full. If the mask is said to be exact,
no other tile may be visited or masked.
"""

import numpy as np

import flashc
from calls import Fault, call, dense_mask, functions, length, make_arrays, smaller_calls as smaller, show_call as show
from regions import Regions

__all__ = ["check", "generate", "show", "smaller"]

SKIPPED, PARTIAL, FULL = range(3)
SCHEDULES = [None, None, None, "consumers=1,kv-tile=64", "consumers=1,kv-tile=128"]


def generate(rng):
    longest = rng.choice([300, 300, 700])
    hk = rng.choice([1, 1, 2])
    sizes = {"b": rng.choice([1, 1, 2]), "hq": hk * rng.choice([1, 2]), "hk": hk, "nq": length(rng, longest),
             "nk": length(rng, longest), "d": rng.choice([64, 128]), "dv": 64}
    sizes["dv"] = sizes["d"]
    return {"kind": "tiles", "sizes": sizes, "mask": Regions(rng, sizes).mask(), "score": None,
            "causal": rng.random() < 0.1,
            "window": [rng.randint(-1, 300), rng.randint(-1, 300)] if rng.random() < 0.1 else None,
            "target": rng.choice(["sm_90a", "sm_90a", "cpu"]), "schedule": rng.choice(SCHEDULES),
            "static": rng.random() < 0.2, "seed": rng.randrange(1 << 30)}


def rows_of(queries, tile, starts):
    """Returns the begin and the end of each tile of queries. With `starts`, each sequence begins a new tile. The number
    of tiles is then the largest possible one, so some are empty."""
    if starts is None:
        return [(i, min(i + tile, queries)) for i in range(0, queries, tile)]
    begins, rows = [0, *(min(int(start), queries) for start in starts), queries], []
    for number, (begin, end) in enumerate(zip(begins, begins[1:])):
        while len(rows) < end // tile + number + 1:
            first = min(begin + (len(rows) - begin // tile - number) * tile, end)
            rows.append((first, min(first + tile, end)))
    return rows


def classify(keeps, width, shift, columns):
    """Returns the tightest class of each tile of one row of tiles, and whether keys before the first tile are kept.
    Tiles begin `shift` keys after multiples of their size."""
    keys = keeps.shape[1]
    counts = np.concatenate([[0], np.cumsum(keeps.sum(0, dtype=np.int64))])
    begins = np.minimum(np.arange(columns) * width + shift, keys)
    ends = np.minimum(begins + width, keys)
    kept = counts[ends] - counts[begins]
    whole = (begins + width <= keys) & (kept == len(keeps) * width) & (len(keeps) > 0)
    return np.where(whole, FULL, np.where(kept > 0, PARTIAL, SKIPPED)), bool(counts[min(shift, keys)])


def row_fault(got, keeps, width, is_exact, shift):
    """Returns the fault of a row of tiles, or None. Tiles begin `shift` keys after multiples of their size."""
    want, has_lost = classify(keeps, width, shift, len(got))
    if has_lost or np.any((got == SKIPPED) & (want != SKIPPED)):
        return "unsound: a tile with a pair that is kept is skipped"
    if np.any((got == FULL) & (want != FULL)):
        return "unsound: a tile with a pair that is cut is full"
    # A launch with a single tile has no loop over keys, so no bound can skip the tile.
    if is_exact and len(got) > 1 and np.any(got != want):
        return "not tight: the mask is said to be exact"
    return None


def find_fault(got, keeps, rows, width, is_exact, is_moved):
    """Returns the fault of the tiles of one head, `got`, for its mask, `keeps`; or None."""
    if len(got) != len(rows):
        return f"rows: expected {len(rows)} rows of tiles, got {len(got)}"
    for number, ((begin, end), cells) in enumerate(zip(rows, got)):
        # Moved tiles do not begin at multiples of their size, and their shift is unknown. The row is right if all of
        # its tiles are right for one shift.
        shifts = range(width) if is_moved else [0]
        faults = []
        for shift in shifts:
            faults.append(row_fault(cells, keeps[begin:end], width, is_exact, shift))
            if faults[-1] is None:
                break
        else:
            want = classify(keeps[begin:end], width, 0, len(cells))[0]
            return f"{faults[0]}, queries {begin} to {end - 1}: expected {want.tolist()}, got {cells.tolist()}"
    return None


def explain(case, arrays):
    sizes = case["sizes"]
    q = flashc.ArraySpec((sizes["b"], sizes["hq"], sizes["nq"], sizes["d"]), "bf16")
    k = flashc.ArraySpec((sizes["b"], sizes["hk"], sizes["nk"], sizes["d"]), "bf16")
    schedule = case["schedule"] if case["target"] != "cpu" else None
    return call(flashc.explain, q, k, k, target=case["target"], schedule=schedule, static_shapes=case["static"],
                enable_gqa=True, **functions(case, arrays))


def check(case):
    arrays = make_arrays(case)
    keeps = dense_mask(case, arrays)
    explanation = explain(case, arrays)
    is_exact = explanation.mask_class == "exact"
    is_moved = any(bound.startswith("origin ") for bound in explanation.bounds)
    queries, (height, width) = case["sizes"]["nq"], explanation.tile
    # The rows of tiles follow the grid, or begin anew at each offset of one of the arrays.
    offsets = [array for name, array in arrays.items() if "offsets" in name]
    layouts = [rows_of(queries, height, starts) for starts in [None, *offsets]]
    for batch, heads in enumerate(explanation.tiles):
        for head, tiles in enumerate(heads):
            faults = [find_fault(np.array(tiles), keeps[batch, head], rows, width, is_exact, is_moved)
                      for rows in layouts]
            if None not in faults:
                fault = next((fault for fault in faults if not fault.startswith("rows")), faults[0])
                raise Fault(f"tiles: {fault} (batch {batch}, head {head}, tile {explanation.tile})")
