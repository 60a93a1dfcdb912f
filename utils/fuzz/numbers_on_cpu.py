"""Cases of kind "numbers": flashc.attention on the CPU with random masks and scores, against NumPy.

Scores are computed in f32, operation by operation, as in kernels, and the softmax in f64. A row is compared only if the
error bounds of its scores (evaluate.py) are small enough.
"""

import numpy as np

import flashc
import reference
from calls import Fault, call, dense_mask, functions, length, make_arrays, smaller_calls as smaller, show_call as show
from evaluate import Value, evaluate
from regions import Regions, positions

__all__ = ["check", "generate", "show", "smaller"]

#: A score that is this far below the largest one of its row does not matter, and its error does not either.
FAR = 60
TOLERANCE = {"float32": 1e-4, "float16": 8e-3}


def generate(rng):
    hk = rng.choice([1, 1, 2])
    sizes = {"b": rng.choice([1, 1, 2]), "hq": hk * rng.choice([1, 1, 2, 3]), "hk": hk, "nq": length(rng, 140),
             "nk": length(rng, 200), "d": rng.choice([8, 8, 16, 40]), "dv": rng.choice([8, 8, 16, 24])}
    regions = Regions(rng, sizes, rng.choice([0, 0.3]))
    return {"kind": "numbers", "sizes": sizes, "mask": regions.mask() if rng.random() < 0.6 else None,
            "score": regions.score() if rng.random() < 0.75 else None, "causal": rng.random() < 0.15,
            "window": [rng.randint(-1, 80), rng.randint(-1, 80)] if rng.random() < 0.1 else None,
            "dtype": rng.choice(["float32", "float32", "float16"]), "seed": rng.randrange(1 << 30),
            "sinks": rng.random() < 0.2, "dropout": rng.choice([0.0, 0.0, 0.0, 0.1, 0.5, 0.9])}


def make_inputs(case):
    """Returns q and k of small multiples of 1/2, so that any order of summation gives the same score, and normal v."""
    sizes, rng = case["sizes"], np.random.default_rng(case["seed"])
    of_queries, of_keys = (sizes["b"], sizes["hq"], sizes["nq"]), (sizes["b"], sizes["hk"], sizes["nk"])
    q, k = (rng.integers(-3, 4, (*shape, sizes["d"])) / 2 for shape in (of_queries, of_keys))
    return [x.astype(case["dtype"]) for x in (q, k, rng.standard_normal((*of_keys, sizes["dv"])))]


def more_arguments(case):
    """Returns the arguments for sinks and dropout."""
    rng, more = np.random.default_rng(case["seed"] + 1), {}
    if case["sinks"]:
        more["sinks"] = rng.choice([-np.inf, -2.5, 0, 1.25, 30], case["sizes"]["hq"]).astype(np.float32)
    if case["dropout"]:
        more |= {"dropout_p": case["dropout"], "philox": rng.integers(-2**63, 2**63 - 1, 2)}
    return more


def factors_of(case, more):
    """Returns the factors of dropout."""
    if not case["dropout"]:
        return 1.0
    sizes, rate = case["sizes"], round(case["dropout"] * 256) / 256
    shape = sizes["b"], sizes["hq"], sizes["nq"], sizes["nk"]
    return flashc.dropout_mask(shape, case["dropout"], more["philox"]) / (1 - rate)


def score_of(case, arrays, s):
    """Returns the results of the score region and the bounds of their errors, [B, Hq, Nq, Nk]."""
    if case["score"] is None:
        return np.asarray(s, np.float64), np.zeros(s.shape)
    names = {**positions(case["sizes"]), **arrays, "s": Value(np.asarray(s, np.float32), np.zeros(s.shape))}
    value = evaluate(case["score"], names)
    return tuple(np.broadcast_to(x, s.shape).astype(np.float64) for x in (value.v, value.e))


def compare(got, want, moved, largest, dtype):
    """Returns the fault of the first wrong row, or None. `moved` says by how much the scores of a row may differ."""
    o, lse = (np.asarray(x, np.float64) for x in got)
    tolerance = TOLERANCE[dtype] + 4 * moved[..., None] * largest
    # If a sum has NaN or infinities, o must be NaN.
    with np.errstate(invalid="ignore"):
        want_o = np.where(np.isfinite(want[0]), want[0], np.nan)
        is_close = np.abs(o - want_o) <= tolerance * (1 + np.abs(want_o))
        finite_lse = np.where(np.isfinite(want[1]), want[1], np.nan)
        same_lse = (lse == want[1]) | (np.abs(lse - finite_lse) <= (2e-5 + 2 * moved) * (1 + np.abs(finite_lse)))
    same_o = (is_close | np.isnan(want_o) & np.isnan(o)).all(-1)
    same_lse |= np.isnan(want[1]) & np.isnan(lse) | np.isposinf(want[1]) & np.isnan(lse)
    wrong = np.argwhere(~(same_o & same_lse) & (moved < 0.05))
    return tuple(wrong[0]) if len(wrong) else None


def check(case):
    arrays = make_arrays(case)
    q, k, v = make_inputs(case)
    keeps = dense_mask(case, arrays)
    errors = []

    def score(s, b, h, i, j):
        values, bound = score_of(case, arrays, s)
        errors.append((values, bound))
        return values
    more = more_arguments(case)
    factors = factors_of(case, more)
    with np.errstate(all="ignore"):
        want = reference.attention(q, k, v, lambda b, h, i, j: keeps, score, 0.25, more.get("sinks"), factors)
    values, bound = errors[0]
    with np.errstate(invalid="ignore"):
        top = np.max(np.where(keeps, values - bound, -np.inf), -1, keepdims=True, initial=-np.inf)
        counts = keeps & (bound > 0) & ~(values + bound < top - FAR)
    moved = np.max(np.where(counts, bound, 0), -1, initial=0)

    got = call(flashc.attention, q, k, v, scale=0.25, enable_gqa=True, return_lse=True, **more,
               **functions(case, arrays))
    row = compare(got, want, moved, np.abs(v.astype(np.float64)).max() * np.max(factors), case["dtype"])
    if row is not None:
        raise Fault(f"numbers: row {tuple(map(int, row))}: expected lse {want[1][row]:.9g} and o "
                    f"{np.array2string(want[0][row], threshold=4)}, got {got[1][row]:.9g} and "
                    f"{np.array2string(got[0][row], threshold=4)} ({int(keeps[row].sum())} keys kept)")
