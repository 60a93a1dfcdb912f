"""Scores with numbers at the limits of f32 (1e30 to 3.4e38, subnormal, infinite, NaN) in all elements, in one key or in
one row. The functions work with NumPy and with torch. flashc traces them, and the references call them with index grids
and evaluate them in f32.

Products are exact, because q and k contain small whole numbers and scales are powers of two. Any two programs that
compute such a score in f32, operation by operation, therefore get the same score, and so the same weights, however
large the scores are."""
import math

import numpy as np

LOWEST = float(np.finfo(np.float32).min)  # the value that Hugging Face puts into additive masks
LOWEST_BF16 = -3.3895313892515355e38

#: The numbers that scores contain. 2^100 is a number like others: no code may treat it as infinity.
NUMBERS = {
    "1e30": 1e30, "-1e30": -1e30, "-1e31": -1e31, "2^100": 2.0**100, "-2^100": -(2.0**100), "3e38": 3e38,
    "-3e38": -3e38, "lowest": LOWEST, "lowest bf16": LOWEST_BF16, "2^22": 2.0**22, "-1e7": -1e7, "subnormal": 1e-40,
    "-0": -0.0, "inf": math.inf, "-inf": -math.inf, "nan": math.nan
}


def make_programs(xp, array, number, b, h, nq, nk):
    """Returns scores that contain `number`, by name. `array` turns a NumPy array into one that the functions may
    capture."""
    def some(n, every, at):
        return array(np.where(np.arange(n) % every == at, np.float32(number), np.float32(0)))

    rows, keys = some(nq, 5, 3), some(nk, 7, 2)
    first = array(np.where(np.arange(nk) < 10, np.float32(number), np.float32(0)))
    of_heads = array(np.where(np.arange(h) % 2 == 0, np.float32(number), np.float32(0.5)))
    with np.errstate(over="ignore", invalid="ignore"):
        slopes = array(np.float32(number) * np.float32(2) ** -np.arange(20, 20 + h, dtype=np.float32))
    return {
        "all": lambda s, b, h, i, j: s * 0 + number,
        "added": lambda s, b, h, i, j: s + number,
        "factor": lambda s, b, h, i, j: s * number,
        "one key": lambda s, b, h, i, j: xp.where(j == 7, number, s),
        "one row": lambda s, b, h, i, j: xp.where(i == 5, number, s),
        "one row, added": lambda s, b, h, i, j: xp.where(i % 4 == 1, s + number, s),
        "bias of rows": lambda s, b, h, i, j: s + rows[i],
        "bias of keys": lambda s, b, h, i, j: s + keys[j],
        "left padding": lambda s, b, h, i, j: s + first[j],
        "bias of heads": lambda s, b, h, i, j: s + of_heads[h],
        "both signs": lambda s, b, h, i, j: xp.where(j % 2 == 0, number, -number),
        "slope": lambda s, b, h, i, j: s + of_heads[h] * (j - i),
        "small slope": lambda s, b, h, i, j: s + slopes[h] * (j - i),
        "distance": lambda s, b, h, i, j: s - of_heads[h] * abs(i - j),
        "slope and bias": lambda s, b, h, i, j: s + of_heads[h] * (j - i) + rows[i] + keys[j],
        "soft cap": lambda s, b, h, i, j: 20 * xp.tanh((s + keys[j]) / 20),
        "soft cap of rows": lambda s, b, h, i, j: 20 * xp.tanh((s + rows[i]) / 20) + rows[i],
        "clipped": lambda s, b, h, i, j: xp.clip(xp.where(i % 3 == 0, s + number, s), -1e31, 1e31),
    }


PROGRAMS = tuple(make_programs(np, lambda x: x, 0.0, 1, 1, 1, 1))

#: Every program with every number (288 pairs). The tests take masks and shapes in turn.
CASES = tuple((program, name) for program in PROGRAMS for name in NUMBERS)

MASKS = {
    "full": None,
    "causal": lambda b, h, i, j: j <= i,
    "window": lambda b, h, i, j: (j <= i) & (i - j < 37),
    "rows without keys": lambda b, h, i, j: (i % 5 != 0) & (j < i),
}


def small_numbers(rng, *shape):
    """Returns random whole numbers from -2 to 2."""
    return rng.integers(-2, 3, shape).astype(np.float32)


def reference(scores, v):
    """Returns o and lse in f64, for scores [B, Hq, Nq, Nk] in f32, which are -inf where masked, and values [B, Hk, Nk,
    Dv]. A row whose scores are all -inf is empty. A row with NaN or +inf is NaN, as exp(inf - inf) is."""
    s, v = scores.astype(np.float64), np.repeat(v.astype(np.float64), scores.shape[1] // v.shape[1], 1)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        top = s.max(-1, keepdims=True)
        p = np.exp(s - np.where(top == -np.inf, 0, top))
        total = p.sum(-1, keepdims=True)
        return p @ v / np.where(total == 0, 1, total), (np.log(total) + top)[..., 0]


def assert_same(got, want, tolerance, what):
    """Checks that two pairs (o, lse) are NaN and infinite in the same places, and close elsewhere."""
    for name, x, y, limit in (("o", got[0], want[0], tolerance), ("lse", got[1], want[1], 1e-3)):
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        for kind in (np.isnan, np.isposinf, np.isneginf):
            wrong = np.argwhere(kind(x) != kind(y))
            assert not len(wrong), (what, name, kind.__name__, len(wrong), wrong[0].tolist(), x[tuple(wrong[0])],
                                    y[tuple(wrong[0])])
        real = np.isfinite(y)
        error = np.abs(x[real] - y[real]) / (1 + np.abs(y[real]))
        assert not error.size or error.max() <= limit, (what, name, error.max())
