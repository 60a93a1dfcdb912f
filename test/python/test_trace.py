"""Masks and scores in Python: what the traced code computes, and what is refused."""
import enum
import functools
import math
import operator
import types

import numpy as np
import pytest

import flashc
from flashc import ops
from flashc._trace.trace import trace
from reference import assert_close, attention, inputs

SHAPE = (2, 4, 21, 37)
TABLE = np.linspace(-1, 1, 4, dtype=np.float32)
LONG = np.zeros(65, np.float32)


def check(rng, mask=None, score=None, keep=None, rescore=None):
    """Compares the results of flashc for `mask` and `score` with those of NumPy for `keep` and `rescore`, which are the
    same functions by default."""
    b, h, nq, nk = SHAPE
    q, k, v = inputs(rng, b, h, h, nq, nk, 8)
    got = flashc.attention(q, k, v, mask=mask, score=score, return_lse=True)
    with np.errstate(all="ignore"):
        assert_close(got, attention(q, k, v, keep or mask, rescore or score))


MASKS = {
    "top left": lambda b, h, i, j: j <= i,
    "window": lambda b, h, i, j: (j <= i) & (i - j < 7) | (j < 2),
    "stripes": lambda b, h, i, j: (i - j) % 3 == 0,
    "negative modulus": lambda b, h, i, j: (j - i) % -5 >= -2,
    "blocks": lambda b, h, i, j: (i // 8 == j // 8) | ~(j > 5),
    "floor of a negative": lambda b, h, i, j: (j - 20) // 7 <= (i - 10) // 4,
    "per head": lambda b, h, i, j: (j + h) % (h + 1) < b + 1,
    "unequal": lambda b, h, i, j: (i != j) ^ (h == 2),
    "bits": lambda b, h, i, j: ((i ^ j) & 5) | (i & 8) > 2,
    "shifts": lambda b, h, i, j: (i >> 2) >= (j >> 3) << 1,
    "negated shift": lambda b, h, i, j: (i - j) >> 1 >= -3,
    "real": lambda b, h, i, j: i * 0.5 >= j / 3,
    "absolute": lambda b, h, i, j: abs(i - j) <= 4,
    "minus": lambda b, h, i, j: -i + 5 > -j,
    "plus": lambda b, h, i, j: +i > j,
    "complement": lambda b, h, i, j: ~(i - j) < 3,
    "numbers on the left": lambda b, h, i, j: (3 - i <= 4 - j) & (100 // (i + 1) > 17 % (j + 1)),
    "square": lambda b, h, i, j: i**2 >= j * j,
    "numpy": lambda b, h, i, j: np.logical_or(np.minimum(i, 5) == np.maximum(j, 5), np.where(h > 1, i, j) > 10),
    "conditions are numbers": lambda b, h, i, j: ((i > 3) * 2 + (j > 4)) * 1 != 2,
    "equal conditions": lambda b, h, i, j: (i > 3) == (j > 4),
}

SCORES = {
    "double": lambda s, b, h, i, j: s * 2,
    "reflected": lambda s, b, h, i, j: 1 - s / (2 + h),
    "slope": lambda s, b, h, i, j: s + (j - i) * 0.125,
    "cap": lambda s, b, h, i, j: 3 * np.tanh(s / 3),
    "branches": lambda s, b, h, i, j: np.where(s > 0, s * 0.5, s * 2),
    "minus infinity": lambda s, b, h, i, j: np.where(j <= i, s, -np.inf),
    "conditional on all": lambda s, b, h, i, j: np.where((s > 0) & (j < i), -s, s) + b,
    "powers": lambda s, b, h, i, j: s**2 - s**3 * 0.1 + s**0 + (j + 1.0) ** -1,
    "rounded": lambda s, b, h, i, j: np.floor(s) + np.ceil(s * 2) * 0.5,
    "floor division": lambda s, b, h, i, j: s // 0.3 * 0.1 + (s - 4) % 1.5,
    "functions": lambda s, b, h, i, j: np.exp(-abs(s)) + np.sin(s) * np.cos(s) + np.sqrt(np.abs(s)),
    "logarithms": lambda s, b, h, i, j: np.log(np.abs(s) + 1) - np.log2(np.square(s) + 1) + np.exp2(-s * 0.1),
    "clipped": lambda s, b, h, i, j: np.clip(s, -0.5, 0.75),
    "not a number": lambda s, b, h, i, j: np.where(s * np.nan != i, s, 5 * s) + np.where(s * np.nan >= i, 7, 0),
    "a number": lambda s, b, h, i, j: 1.5,
    "an index": lambda s, b, h, i, j: i - j,
    "a condition": lambda s, b, h, i, j: (i > j) * 1.0,
    "numbers of numpy": lambda s, b, h, i, j: np.float32(0.5) * s + np.int64(3) * (s > 0),
    "table of a global": lambda s, b, h, i, j: s + TABLE[h],
}


def groups(functions, size, without=()):
    """Splits the names of the functions into groups."""
    names = sorted(set(functions) - set(without))
    return [names[first:first + size] for first in range(0, len(names), size)]


def by_head(functions, names):
    """Returns a function that applies the n-th of `names` in head n."""
    def choose(*place):
        values = [functions[name](*place) for name in names]
        return functools.reduce(lambda rest, n: np.where(place[-3] == n, values[n], rest), range(1, len(names)),
                                values[0])
    return choose


@pytest.mark.parametrize("names", groups(MASKS, SHAPE[1]), ids=", ".join)
def test_masks(rng, names):
    check(rng, mask=by_head(MASKS, names))


@pytest.mark.parametrize("names", groups(SCORES, SHAPE[1]), ids=", ".join)
def test_scores(rng, names):
    check(rng, score=by_head(SCORES, names))


@pytest.mark.parametrize("names", groups(MASKS, 6, ["numpy"]), ids=", ".join)
def test_masks_have_kernels(names):
    """Compiles several masks in one kernel for the GPU."""
    spec = flashc.ArraySpec((2, 4, 21, 64), "bf16")

    def mask(*place):
        return functools.reduce(operator.and_, [MASKS[name](*place) for name in names])
    assert ".entry" in flashc.compile(spec, spec, spec, mask=mask).ptx


@pytest.mark.parametrize("names", groups(SCORES, 6, ["numpy"]), ids=", ".join)
def test_scores_have_kernels(names):
    spec = flashc.ArraySpec((2, 4, 21, 64), "bf16")

    def score(*place):
        return sum(SCORES[name](*place) for name in names)
    assert ".entry" in flashc.compile(spec, spec, spec, score=score).ptx


# --- Captures ---------------------------------------------------------------------------------------------------------

def test_captured_arrays(rng):
    b, h, nq, nk = SHAPE
    bias = rng.standard_normal((b, h, nq, nk)).astype(np.float16)
    lengths = rng.integers(1, nk, b).astype(np.int32)
    keeps = rng.random(nk) < 0.5
    check(rng, score=lambda s, b, h, i, j: s + bias[b, h, i, j])
    check(rng, score=lambda s, b, h, i, j: s + bias[b][h][i, j], rescore=lambda s, b, h, i, j: s + bias[b, h, i, j])
    check(rng, mask=lambda b, h, i, j: j < lengths[b])
    check(rng, mask=lambda b, h, i, j: keeps[j] | (j < lengths[b]), score=lambda s, b, h, i, j: s * lengths[b])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "int64", "float16", "float32"])
def test_elements(rng, dtype):
    table = rng.integers(0 if dtype in ("bool", "uint8") else -120, 2 if dtype == "bool" else 120, 37).astype(dtype)
    if dtype == "uint8":
        table += 120
    check(rng, score=lambda s, b, h, i, j: s + table[j] * 0.01,
          rescore=lambda s, b, h, i, j: s + table.astype(float)[j] * 0.01)


def test_views(rng):
    b, h, nq, nk = SHAPE
    base = rng.standard_normal((nk, nq)).astype(np.float32)
    for view in (base.T, base.T[::-1], base[::-1].T, np.broadcast_to(base[:, :1].T, (nq, nk)),
                 np.broadcast_to(base[:1].T, (nq, nk)), np.asfortranarray(base.T)):
        check(rng, score=lambda s, b, h, i, j: s + view[i, j])


def test_operands_have_unit_stride(rng):
    base = rng.standard_normal((4, 5, 6)).astype(np.float32)
    for view, shape in ((base, (0, 0, 0)), (base.T, (0, 0, 0, 1)), (base[:, :1], (0, 0)),
                        (base[:, :, ::2], (0, 0, 0, 1)),
                        (np.broadcast_to(base[:, :1], base.shape), (0, 0)), (base[:1, :1, :1], (1,))):
        code = trace(None, lambda s, b, h, i, j: s + view[b, i, j])
        assert code.captures[0].shape == shape and code.bound[0].strides[-1] == 1
        assert len(code.bound[0].extents) == len(code.bound[0].strides) == len(shape)


def test_same_array_is_one_operand(rng):
    table = rng.standard_normal(37).astype(np.float32)
    code = trace(lambda b, h, i, j: table[j] > table[i], lambda s, b, h, i, j: s + table[j])
    assert len(code.captures) == 1
    check(rng, mask=lambda b, h, i, j: table[j] > table[i], score=lambda s, b, h, i, j: s + table[j])


def test_computed_indices_are_clamped_where_nothing_hangs_on_them(rng):
    # `table` is a view of five elements inside an array of NaN, which may not be read.
    wide = np.full(100, np.nan, np.float32)
    wide[40:45] = rng.standard_normal(5)
    table = wide[40:45]
    check(rng, score=lambda s, b, h, i, j: ops.where(abs(i - j) < 5, s + table[i - j] + table[-abs(i - j)], s),
          rescore=lambda s, b, h, i, j: s + np.where(abs(i - j) < 5, table[np.clip(i - j, -5, 4)] +
                                                     table[np.clip(-abs(i - j), -5, 4)], 0))


def test_positions_need_elements(rng):
    q, k, v = inputs(rng, 2, 4, 4, 21, 37, 8)
    short = np.zeros(10, np.float32)
    for name, mask in (("the query's position", lambda b, h, i, j: short[i] > 0),
                       ("the key's position // 3", lambda b, h, i, j: short[j // 3] > 0),
                       ("the batch", lambda b, h, i, j: short[:1][b] > 0)):
        if "batch" in name:
            first = short[:1]
            mask = lambda b, h, i, j: first[b] > 0  # noqa: E731
        with pytest.raises(flashc.ArgumentError, match=f"indexed by {name}, got shape"):
            flashc.attention(q, k, v, mask=mask)
    check(rng, mask=lambda b, h, i, j: short[j // 4] >= 0)


def test_python_numbers_are_constants(rng, no_disk):
    for width in (3, 5):
        check(rng, mask=lambda b, h, i, j: abs(i - j) < width)
        check(rng, mask=lambda b, h, i, j: abs(i - j) < width)
    assert flashc.statistics().compilations == 2


def test_numpy_scalars_are_arguments(rng, no_disk):
    for width, slope in ((3, 0.5), (5, -0.25), (-1, 2.0)):
        width, slope, flag = np.int64(width), np.float32(slope), np.array(width > 4)
        check(rng, mask=lambda b, h, i, j: (abs(i - j) < width) | flag | (j == 0),
              score=lambda s, b, h, i, j: s * slope)
    assert flashc.statistics().compilations == 1


def test_closure_that_changes(rng):
    table = rng.standard_normal(37).astype(np.float32)

    def score(s, b, h, i, j):
        return s + table[j] * factor
    for factor in (1, 2.5):
        table = table + 1
        check(rng, score=score)
        table *= 3
        check(rng, score=score)


def test_functions_that_reach_arrays(rng):
    table = rng.standard_normal(37).astype(np.float32)

    def column(j):
        return table[j]

    def score(s, b, h, i, j, *, extra=TABLE):
        return s + column(j) + extra[h]
    check(rng, score=score)
    check(rng, score=functools.partial(lambda t, s, b, h, i, j: s + t[j], table))
    check(rng, score=lambda s, b, h, i, j, t=table: s + t[j])
    masks = (lambda b, h, i, j: table[j] > 0, MASKS["top left"])

    def both(b, h, i, j):
        keep = True
        for mask in masks:
            keep = mask(b, h, i, j) & keep
        return keep
    check(rng, mask=both)
    holder = types.SimpleNamespace(table=table)
    check(rng, score=lambda s, b, h, i, j: s + ops.array(holder.table)[j],
          rescore=lambda s, b, h, i, j: s + table[j])


def test_recursive_function(rng):
    table = rng.standard_normal(37).astype(np.float32)

    def repeat(s, j, times):
        return s if times == 0 else repeat(s + table[j], j, times - 1)
    check(rng, score=lambda s, b, h, i, j: repeat(s, j, 3))


def test_constant_masks(rng):
    q, k, v = inputs(rng, 1, 2, 2, 9, 17, 8)
    assert_close(flashc.attention(q, k, v, mask=lambda b, h, i, j: True, return_lse=True), attention(q, k, v))
    o, lse = flashc.attention(q, k, v, mask=lambda b, h, i, j: False, return_lse=True)
    assert np.all(o == 0) and np.all(lse == -np.inf)


def test_division_by_zero_does_not_end_the_process(rng):
    zeros = np.zeros(37, np.int32)
    check(rng, mask=lambda b, h, i, j: (i // zeros[j] == i) & (i % zeros[j] == 0),
          keep=lambda b, h, i, j: np.ones(SHAPE, bool))


def test_operations_on_numbers():
    assert ops.where(True, 1, 2) == 1 and ops.minimum(3, 4) == 3 and ops.maximum(3, 4) == 4
    assert ops.tanh(0.5) == math.tanh(0.5) and ops.floor(-1.5) == -2 and ops.abs(-3) == 3
    assert ops.logical_not(0) is True and ops.clip(9, 0, 5) == 5 and ops.power(2, 3) == 8 and ops.sigmoid(0) == 0.5


def test_numbers_of_other_types(rng):
    class Size(int, enum.Enum):
        WINDOW = 3

    check(rng, mask=lambda b, h, i, j: i - j < Size.WINDOW + (j >= 0) * True,
          keep=lambda b, h, i, j: i - j < 4)
    check(rng, score=lambda s, b, h, i, j: s + np.where(j > 4, True, 3))


def test_mask_that_takes_rounds_to_simplify(rng):
    def mask(b, h, i, j):
        first = ~((i < b) | (h < b)) & np.where(i >= j, i <= b, j >= 4)
        second = np.where(-7 > i, (j >= h) | (j < i), ~(i >= j))
        third = (~(j < 127) & ((i >= j) | (b < 63)), ((b <= i) & (i >= j)) | np.where(100 >= b, i > b, b >= b))
        return ~first | np.where(second, *third)

    q, k, v = inputs(rng, 2, 2, 2, 9, 17, 16, dtype=np.float16)
    got = flashc.attention(q, k, v, mask=mask, score=lambda s, b, h, i, j: 0.5, window=(5, 0), return_lse=True)
    assert_close(got, attention(q, k, v, lambda b, h, i, j: mask(b, h, i, j) & (j - i <= 8) & (j - i >= 3),
                                lambda s, b, h, i, j: 0.5), "float16")


def test_text_is_the_same_every_time():
    one, other = (trace(MASKS["window"], SCORES["cap"])._replace(trace_lines=None) for _ in range(2))
    assert one == other
    code = trace(lambda b, h, i, j: (i - j < 3) & (i - j > -3), None)
    assert code.mask.count("arith.subi") == 1 and code.mask.endswith(" : i1")


# --- Refusals ---------------------------------------------------------------------------------------------------------

def refused(mask=None, score=None):
    with pytest.raises(flashc.TraceError) as caught:
        trace(mask, score)
    return str(caught.value)


def test_branch_names_the_line():
    def mask(b, h, i, j):
        if i < j:
            return True
        return False
    text = refused(mask)
    line = mask.__code__.co_firstlineno + 1
    assert f"test_trace.py:{line}: in mask: a traced value has no truth value" in text
    assert "if i < j:" in text and "flashc.ops.where" in text


@pytest.mark.parametrize("mask, words", [
    (lambda b, h, i, j: 0 <= j < i, "no truth value"),
    (lambda b, h, i, j: i < j and j < 5, "no truth value"),
    (lambda b, h, i, j: min(i, j) > 3, "no truth value"),
    (lambda b, h, i, j: not i, "no truth value"),
    (lambda b, h, i, j: math.sqrt(i) > 3, "no number yet"),
    (lambda b, h, i, j: float(i) > 3, "no number yet"),
    (lambda b, h, i, j: int(i) > 3, "no number yet"),
    (lambda b, h, i, j: [1, 2, 3][i] > 3, "cannot index this object"),
    (lambda b, h, i, j: len(i) > 3, "no length"),
    (lambda b, h, i, j: i & (j < 3), "comparisons bind weaker"),
    (lambda b, h, i, j: i.item() > 3, "no number yet"),
    (lambda b, h, i, j: ~(i * 0.5), "condition or an integer"),
    (lambda b, h, i, j: i << 0.5, "integers for `<<`"),
    (lambda b, h, i, j: i << 70, "0 to 62 bits"),
    (lambda b, h, i, j: i // 0 == 1, "divisor other than 0"),
    (lambda b, h, i, j: i < 2**40, "integer of 32 bits"),
    (lambda b, h, i, j: i < "3", "got builtins.str"),
    (lambda b, h, i, j: i.__lt__(np.zeros(3)), "got numpy.ndarray; what the function makes itself is read through"),
    (lambda b, h, i, j: np.sinc(i) > 1, "cannot trace numpy.sinc"),
    (lambda b, h, i, j: np.cumsum(i) > 1, "cannot trace numpy.cumsum"),
    (lambda b, h, i, j: np.add.reduce(i) > 1, "method reduce"),
    (lambda b, h, i, j: TABLE[i, j] > 1, "at most 1 indices"),
    (lambda b, h, i, j: TABLE[-5] > 1, "index 0 from -4 to 3, got -5"),
    (lambda b, h, i, j: TABLE[9] > 1, "index 0 from -4 to 3, got 9"),
    (lambda b, h, i, j: TABLE[i * 0.5] > 1, "got a real number as index 0"),
    (lambda b, h, i, j: TABLE[i > 2] > 1, "got a condition as index 0"),
    (lambda b, h, i, j: TABLE[1:] > 1, "as index 0"),
    (lambda b, h, i, j: TABLE + i > 1, "expected an element of an array"),
    (lambda b, h, i, j: (TABLE == 3) & (i < j), "expected an element of an array"),
    (lambda b, h, i, j: (TABLE != TABLE) | (i < j), "expected an element of an array"),
    (lambda b, h, i, j: (TABLE > 0)[h], "expected an element of an array"),
    (lambda b, h, i, j: (2 - TABLE)[h] > 0, "expected an element of an array"),
    (lambda b, h, i, j: (-TABLE)[h] > 0, "expected an element of an array"),
    (lambda b, h, i, j: TABLE.sum() > i, "nothing else"),
    (lambda b, h, i, j: sum(LONG) > i, "a row of at most 64 elements, got 65"),
    (lambda b, h, i, j: round(i) > j, "works on no traced value: type Traced doesn't define __round__"),
    (lambda b, h, i, j: [x for x in i], "works on no traced value: 'Traced' object is not iterable"),
    (lambda b, h, i, j: {i: 1}, "works on no traced value: unhashable type"),
    (lambda b, h, i, j: f"{i:3d}" > "3", "works on no traced value: unsupported format string"),
    (lambda b, h, i, j: (i < j).any(), "has no dimensions: leave out any"),
    (lambda b, h, i, j: i - j, "mask to return a condition, got an integer"),
    (lambda b, h, i, j: i * 0.5, "mask to return a condition, got a real number"),
    (lambda b, h, i, j: None, "mask to return a condition, got None"),
])
def test_refused_mask(mask, words):
    place, text = refused(mask).split(": ", 1)
    assert place.rsplit(":", 1)[0].endswith("test_trace.py")
    # Searches the first line only: a later line may quote the user's code, which contains the same words.
    assert words in text.split("\n")[0]


def test_errors_of_the_function_stay_its_own():
    for mask, kind in ((lambda b, h, i, j: None.x, AttributeError), (lambda b, h, i, j: len(3), TypeError)):
        with pytest.raises(kind) as caught:
            trace(mask, None)
        assert not isinstance(caught.value, flashc.Error)


def test_kept_values_are_refused():
    """Values that are kept from another call, or from the mask for the score, are refused, because their names mean
    something else there."""
    kept = {}

    def keep(b, h, i, j):
        kept["i"], kept["near"] = i * 3, i < j
        return kept["near"]
    trace(keep, None)
    ids = flashc.assume_sorted(np.arange(4, dtype=np.int32))
    for mask in (lambda b, h, i, j: kept["i"] < j, lambda b, h, i, j: kept["near"], lambda b, h, i, j: ~kept["near"],
                 lambda b, h, i, j: (i < j) & kept["near"], lambda b, h, i, j: TABLE[kept["i"]] > 1,
                 lambda b, h, i, j: ops.count_le(ids, kept["i"]) > 1, lambda b, h, i, j: ids[kept["i"]] > 1,
                 lambda b, h, i, j: ops.where(kept["near"], i, j) > 3, lambda b, h, i, j: abs(kept["i"]) > 3):
        assert "got one that was kept from another" in refused(mask)
    assert "got one that was kept from another" in refused(keep, lambda s, b, h, i, j: s + kept["i"])


def test_lines_of_code_without_a_file():
    made = {}
    exec("def mask(b, h, i, j):\n    return i < j and j < 3\n", made)
    assert refused(made["mask"]).startswith("<string>:2: in mask: ")


def test_refused_score():
    assert "score to return a real number, got None" in refused(score=lambda s, b, h, i, j: None)
    with pytest.raises(flashc.UnsupportedTypeError, match="expected score to be a function"):
        trace(None, 3)
    with pytest.raises(flashc.TraceError, match="while a mask or a score is traced only"):
        ops.array(TABLE)
    for score, words in ((lambda s, b, h, i, j: s + ops.log(0), "of which Python has log, got 0"),
                         (lambda s, b, h, i, j: s * ops.exp(1000), "of which Python has exp, got 1000"),
                         (lambda s, b, h, i, j: s + (-2) ** i, "of which Python has log2, got -2")):
        assert words in refused(score=score).split("\n")[0]


def test_refused_index_names_the_line():
    """The message is ours. NumPy's message would say that only integers are valid indices, but to the user a position
    is an integer."""
    holder = types.SimpleNamespace(table=TABLE)
    text = refused(lambda b, h, i, j: holder.table[h] > 0)
    assert "flashc.ops.array(x)[...]" in text and "test_trace.py:" in text and "holder.table[h]" in text
    with pytest.raises(IndexError, match="out of range"):
        trace(lambda b, h, i, j: [i][1], None)


def test_refused_signatures():
    text = refused(lambda i, j: j <= i)
    assert "test_trace.py:" in text and "expected the mask to be a function of (b, h, i, j), got one of (i, j)" in text
    assert "the score to be a function of (s, b, h, i, j), got one of (s)" in refused(score=lambda s: s)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        trace(lambda b, h, i, j: (lambda x, y: x)(i), None)


def test_refused_captures(rng):
    q, k, v = inputs(rng, 1, 1, 1, 3, 3, 8)
    for table, error, words in ((np.zeros(3, "i2"), flashc.UnsupportedTypeError, "uint8, int32 or int64, got int16"),
                                (np.zeros(0, "f4"), flashc.ArgumentError, "with elements"),
                                (np.zeros(3, "c8"), flashc.UnsupportedTypeError, "complex64")):
        with pytest.raises(error, match=words):
            flashc.attention(q, k, v, mask=lambda b, h, i, j: table[j] > 0)
