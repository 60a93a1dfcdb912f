"""Score functions as users write them, for NumPy or torch. flashc traces them, and the references call them with index
grids. None of them jumps, since a score may be off by a rounding error."""
import math
import types

import numpy as np

from flashc import ops


def _erf(x):
    return np.vectorize(math.erf)(x) if isinstance(x, np.ndarray) else ops.erf(x)


#: NumPy's functions, and erf, which NumPy lacks.
NUMPY = types.SimpleNamespace(erf=_erf, **{name: getattr(np, name) for name in (
    "arcsinh", "arctan", "clip", "cos", "cosh", "exp", "expm1", "log", "log1p", "log2", "logaddexp", "maximum", "sin",
    "sqrt", "tanh", "trunc", "where")})

# Captured arrays have elements for so many more queries and keys than a call has. So they have several elements even
# for one query or key, and the tests cover arrays that are longer than needed.
_SPARE = 3


def bucket(xp, i, j, buckets=32, most=128):
    """Returns T5's bucket of a distance. Half of the buckets are for each direction, and far distances share buckets by
    their logarithm."""
    half, exact = buckets // 2, buckets // 4
    distance = abs(i - j)
    # The term 1e-3 moves the number away from whole numbers. There, the rounding of the logarithm would decide the
    # result of `trunc`.
    far = xp.log(xp.clip(distance, exact, most) / exact) * ((half - exact) / math.log(most / exact)) + 1e-3
    far = xp.clip(exact + xp.trunc(far), exact, half - 1)
    near = distance * 1.0
    return xp.where(j > i, half, 0) + xp.where(distance < exact, near, far)


def make_scores(xp, array, rng, b, h, nq, nk):
    """Returns the functions by name. `array` turns a NumPy array into one that the functions may capture."""
    def normal(*shape, dtype="float32"):
        return array(rng.standard_normal(shape).astype(dtype))

    nq, nk = nq + _SPARE, nk + _SPARE
    slopes = array(np.float32(2.0) ** -np.arange(1, h + 1, dtype=np.float32))
    temperatures = array(np.linspace(0.5, 2, h, dtype=np.float32))
    frequencies = array(np.linspace(0.01, 0.5, h, dtype=np.float32))
    gates = array(1 / (1 + np.exp(-rng.standard_normal((b, nk)).astype(np.float32))))
    positions = array(np.cumsum(rng.integers(0, 3, max(nq, nk))).astype(np.int32))
    relative, t5 = normal(33, h), normal(32, h)
    row_slopes, cut = normal(nq), array(np.where(np.arange(nq) % 5 == 2, -np.inf, 1).astype(np.float32))
    of_rows, of_columns = normal(h, nq), normal(b, nk, dtype="float16")
    of_heads, of_all = normal(b, h), normal(b, h, nq, nk, dtype="float16")
    factor = array(np.array(0.75, np.float32))

    return {
        # These scores depend on the product `s` only.
        "scaled": lambda s, b, h, i, j: s * 0.5,
        "captured factor": lambda s, b, h, i, j: s * factor,
        "soft cap": lambda s, b, h, i, j: 30 * xp.tanh(s / 30),
        "clipped": lambda s, b, h, i, j: xp.clip(s, -2, 2),
        "leaky": lambda s, b, h, i, j: xp.maximum(s, 0.1 * s),
        "gelu": lambda s, b, h, i, j: 0.5 * s * (1 + xp.erf(s * math.sqrt(0.5))),
        "sigmoid gate": lambda s, b, h, i, j: s / (1 + xp.exp(-s)),
        "log sigmoid": lambda s, b, h, i, j: -xp.log1p(xp.exp(-s)),
        "arc tangent": lambda s, b, h, i, j: 4 * xp.arctan(s / 4),
        "arsinh": lambda s, b, h, i, j: xp.arcsinh(s),
        "hyperbola": lambda s, b, h, i, j: xp.sqrt(s * s + 1),
        "cosh and expm1": lambda s, b, h, i, j: xp.expm1(s * 0.25) - xp.cosh(s * 0.125),
        # These scores depend on the batch and the head.
        "temperature of a head": lambda s, b, h, i, j: s * temperatures[h],
        "of a batch and a head": lambda s, b, h, i, j: s / (1.0 + b) + of_heads[b, h],
        "conditional on the head": lambda s, b, h, i, j: xp.where(h % 2 == 0, s, 0.5 * s),
        # These scores depend on the query or the key, except "soft maximum", which depends on the batch and the head.
        "log n": lambda s, b, h, i, j: s * (xp.log(i + 2.0) / math.log(512.0)),
        "bias of a query": lambda s, b, h, i, j: s + of_rows[h, i],
        "bias of a key": lambda s, b, h, i, j: s + of_columns[b, j],
        "gate of a key": lambda s, b, h, i, j: s * gates[b, j],
        "soft maximum": lambda s, b, h, i, j: xp.logaddexp(s, of_heads[b, h] * 1.0),
        # These scores depend on the query and the key.
        "bias of all": lambda s, b, h, i, j: s + of_all[b, h, i, j],
        "alibi": lambda s, b, h, i, j: s + slopes[h] * (j - i),
        "alibi of the other sign": lambda s, b, h, i, j: slopes[h] * (i - j) + s,
        "slope of a query": lambda s, b, h, i, j: s - row_slopes[i] * (2 * j - i) / 64,
        "alibi and biases": lambda s, b, h, i, j: (of_rows[h, i] + s + of_columns[b, j]) - slopes[h] * (i - j) * 0.5,
        "rows cut off": lambda s, b, h, i, j: s + cut[i] + slopes[h] * (j - i),
        "symmetric alibi": lambda s, b, h, i, j: s - slopes[h] * abs(i - j),
        "soft cap and alibi": lambda s, b, h, i, j: 20 * xp.tanh(s / 20) + slopes[h] * (j - i),
        "relative table": lambda s, b, h, i, j: s + relative[xp.clip(i - j, -16, 16) + 16, h],
        "t5": lambda s, b, h, i, j: s + t5[_index(bucket(xp, i, j)), h],
        "distance decay": lambda s, b, h, i, j: s - 0.1 * xp.log1p(abs(i - j) * 1.0),
        "exponential decay": lambda s, b, h, i, j: s * xp.exp(-abs(i - j) / 64),
        "power law": lambda s, b, h, i, j: s * (abs(i - j) + 1.0) ** -0.5,
        "quadratic decay": lambda s, b, h, i, j: s - 1e-4 * (i - j) ** 2,
        "root of the distance": lambda s, b, h, i, j: s - 0.05 * xp.sqrt(abs(i - j) + 1.0),
        "cosine decay": lambda s, b, h, i, j: s * xp.cos(xp.clip(abs(i - j) / 256, 0.0, 1.0) * (math.pi / 2)),
        "sine of the distance": lambda s, b, h, i, j: s + 0.5 * xp.sin((i - j) * frequencies[h]),
        "logarithm to base 2": lambda s, b, h, i, j: s - slopes[h] * xp.log2(1.0 + abs(i - j)),
        "conditional on both": lambda s, b, h, i, j: xp.where(j <= i, s, s - 2),
        "blocks": lambda s, b, h, i, j: xp.where((i // 16 == j // 16) | (h == 0), s + 1, s - 0.5),
        "bits": lambda s, b, h, i, j: s + ((i ^ j) & 3) * 0.25,
        "positions of tokens": lambda s, b, h, i, j: s - abs(positions[i] - positions[j]) * 0.02,
        "minus infinity": lambda s, b, h, i, j: xp.where(((i + 2 * j) % 7 == 0) | (i % 5 == 3), -math.inf, s),
    }


def _index(x):
    """Turns a whole number into an index: by `.long()` for torch and while tracing, by astype for NumPy."""
    return x.astype(np.int64) if isinstance(x, np.ndarray) else x.long()


#: Masks: functions that say which keys a query sees. Some leave single rows without keys, others whole tiles.
MASKS = {
    "causal": lambda b, h, i, j: j <= i,
    "window": lambda b, h, i, j: (j <= i) & (i - j < 37),
    "rows without keys": lambda b, h, i, j: (i % 5 != 0) & (j < i),
    "of heads": lambda b, h, i, j: (j >= i - 40) | (h == 1),
    "late keys": lambda b, h, i, j: j >= 70 - 40 * b,
    "stripes": lambda b, h, i, j: (i - j) % 3 != 0,
}

NAMES = tuple(make_scores(NUMPY, lambda x: x, np.random.default_rng(0), 1, 1, 1, 1))

#: For each name in flashc.ops: the function of a number, and the range of its arguments.
ANY, NEAR, POSITIVE, UNIT, ABOVE = (-3.0, 3.0), (-0.01, 0.01), (0.01, 9.0), (-0.99, 0.99), (1.0, 9.0)
FUNCTIONS = {
    "exp": (math.exp, ANY), "exp2": (lambda x: 2**x, ANY), "expm1": (math.expm1, NEAR), "log": (math.log, POSITIVE),
    "log2": (math.log2, POSITIVE), "log10": (math.log10, POSITIVE), "log1p": (math.log1p, NEAR),
    "sqrt": (math.sqrt, POSITIVE), "rsqrt": (lambda x: x**-0.5, POSITIVE), "cbrt": (np.cbrt, ANY),
    "sin": (math.sin, ANY), "cos": (math.cos, ANY), "tan": (math.tan, UNIT), "asin": (math.asin, UNIT),
    "acos": (math.acos, UNIT), "atan": (math.atan, ANY), "sinh": (math.sinh, ANY), "cosh": (math.cosh, ANY),
    "tanh": (math.tanh, ANY), "asinh": (math.asinh, ANY), "acosh": (math.acosh, ABOVE), "atanh": (math.atanh, UNIT),
    "erf": (math.erf, ANY), "erfc": (math.erfc, ANY), "floor": (math.floor, ANY), "ceil": (math.ceil, ANY),
    "trunc": (math.trunc, ANY), "round": (round, ANY), "sigmoid": (lambda x: 1 / (1 + math.exp(-x)), ANY),
    "relu": (lambda x: max(x, 0), ANY), "silu": (lambda x: x / (1 + math.exp(-x)), ANY),
    "gelu": (lambda x: x * 0.5 * (1 + math.erf(x * 0.5**0.5)), ANY), "sign": (lambda x: (x > 0) - (x < 0), ANY),
    "softplus": (lambda x: math.log(1 + math.exp(x)), ANY),
    "log_sigmoid": (lambda x: -math.log(1 + math.exp(-x)), ANY), "abs": (abs, ANY),
}


def in_groups(names, size=4):
    """Splits the names into groups. The functions of a group share a kernel (`by_head`)."""
    return [list(names)[first:first + size] for first in range(0, len(names), size)]


def by_head(functions):
    """Returns a score that applies another function of (s, b, h, i, j) in each head, in turn. The values of the other
    functions in that head do not matter, even if they are NaN."""
    def score(s, b, h, i, j):
        value = functions[0](s, b, h, i, j)
        for number, function in enumerate(functions[1:], 1):
            value = np.where(h % len(functions) == number, function(s, b, h, i, j), value)
        return value
    return score
