"""Lists and tuples that a mask or a score indexes by b, h or a computed integer."""
import functools
import types

import numpy as np
import pytest

import flashc
from flashc import ops
from flashc._trace.trace import trace
from reference import assert_close, attention, inputs

SHAPE = (2, 4, 21, 37)
WINDOWS = [1, 5, 9, 30]
TABLE = ((0.5, 1.0, -2.0, 3.0), (1.5, 0.25, 4.0, -1.0))


def check(rng, mask=None, score=None, keep=None, rescore=None):
    """Compares the results of flashc for `mask` and `score` with those of NumPy for `keep` and `rescore`."""
    b, h, nq, nk = SHAPE
    q, k, v = inputs(rng, b, h, h, nq, nk, 8)
    got = flashc.attention(q, k, v, mask=mask, score=score, return_lse=True)
    assert_close(got, attention(q, k, v, keep or mask, rescore or score))


def window(windows):
    windows = np.array(windows)
    return lambda b, h, i, j: abs(i - j) < windows[h]


def test_list(rng):
    windows = [3, 7, 7, 20]
    check(rng, mask=lambda b, h, i, j: abs(i - j) < windows[h], keep=window(windows))
    check(rng, mask=lambda b, h, i, j: abs(i - j) < WINDOWS[h], keep=window(WINDOWS))
    pair = tuple(windows)
    check(rng, mask=lambda b, h, i, j: abs(i - j) < pair[h], keep=window(windows))


def test_where_a_list_is_found(rng):
    keep = window(WINDOWS)
    check(rng, mask=lambda b, h, i, j, windows=WINDOWS: abs(i - j) < windows[h], keep=keep)

    def by_keyword(b, h, i, j, *, windows=tuple(WINDOWS)):
        return abs(i - j) < windows[h]
    check(rng, mask=by_keyword, keep=keep)
    check(rng, mask=functools.partial(lambda windows, b, h, i, j: abs(i - j) < windows[h], WINDOWS), keep=keep)
    holder = types.SimpleNamespace(windows=WINDOWS)
    check(rng, mask=lambda b, h, i, j: abs(i - j) < ops.array(holder.windows)[h], keep=keep)
    check(rng, mask=lambda b, h, i, j: abs(i - j) < ops.array([1, 5, 9, 30])[h], keep=keep)
    sizes = {"windows": WINDOWS}
    check(rng, mask=lambda b, h, i, j: abs(i - j) < sizes["windows"][h], keep=keep)


def test_nested_lists(rng):
    table = np.array(TABLE, np.float32)
    want = {"rescore": lambda s, b, h, i, j: s * table[b, h]}
    rows = [list(row) for row in TABLE]
    check(rng, score=lambda s, b, h, i, j: s * TABLE[b][h], **want)
    check(rng, score=lambda s, b, h, i, j: s * rows[b][h], **want)
    check(rng, score=lambda s, b, h, i, j: s * TABLE[1][h], rescore=lambda s, b, h, i, j: s * table[1, h])
    check(rng, score=lambda s, b, h, i, j: s * TABLE[b][-1], rescore=lambda s, b, h, i, j: s * table[b, 3])
    check(rng, score=lambda s, b, h, i, j: s * sum(TABLE[b]), rescore=lambda s, b, h, i, j: s * table.sum(-1)[b])
    spans = [(0, 9), (4, 30), (7, 8), (0, 37)]

    def inside(b, h, i, j):
        first, last = spans[h]
        return (first <= j) & (j < last)
    first, last = np.array(spans).T
    check(rng, mask=inside, keep=lambda b, h, i, j: (first[h] <= j) & (j < last[h]) & (i >= 0))


def test_computed_indices_count_from_the_end(rng):
    numbers, table = [5, 2, 8], np.array([5, 2, 8])
    check(rng, mask=lambda b, h, i, j: j % 9 <= numbers[(i - j) % 6 - 3],
          keep=lambda b, h, i, j: j % 9 <= table[(i - j) % 6 - 3])
    check(rng, mask=lambda b, h, i, j: j % 9 <= numbers[i > j],
          keep=lambda b, h, i, j: j % 9 <= table[(i > j).astype(int)])
    check(rng, mask=lambda b, h, i, j: j % 9 <= numbers[-1] + numbers[1:][h // 2],
          keep=lambda b, h, i, j: j % 9 <= 8 + table[1:][h // 2])


def test_kinds_of_entries(rng):
    flags, mixed, slopes = [True, False, True, True], [1, 0.5, 2, 3], [np.float32(0.5), np.float32(2)]
    keeps, table = np.array(flags), np.array(mixed, np.float32)
    check(rng, mask=lambda b, h, i, j: flags[h] | (j <= i), keep=lambda b, h, i, j: keeps[h] | (j <= i))
    check(rng, score=lambda s, b, h, i, j: s * mixed[h], rescore=lambda s, b, h, i, j: s * table[h])
    biases = [slopes[0], 3.0]
    check(rng, score=lambda s, b, h, i, j: s * biases[b],
          rescore=lambda s, b, h, i, j: s * np.array([0.5, 3.0], np.float32)[b])


def test_lists_are_lists_otherwise(rng):
    seen = []

    def mask(b, h, i, j):
        seen.append((len(WINDOWS), list(WINDOWS), WINDOWS[1], WINDOWS[-1], WINDOWS[1:3], max(WINDOWS), 9 in WINDOWS,
                     WINDOWS == [1, 5, 9, 30], isinstance(WINDOWS, list), WINDOWS.index(9), TABLE[0] + (1,),
                     isinstance(TABLE, tuple), hash(TABLE)))
        return j <= i
    trace(mask, None)
    mask(0, 0, 0, 0)
    assert seen[0] == seen[1]


class Shape(tuple):
    """A tuple with further methods, like PyTorch's Size."""

    def numel(self):
        return self[0] * self[1]


def test_tuples_of_other_classes_stay(rng):
    shape, table = Shape((2, 3)), np.arange(4, dtype=np.float32)
    check(rng, score=lambda s, b, h, i, j: s * shape.numel() + table[h] * WINDOWS[-1],
          rescore=lambda s, b, h, i, j: s * 6 + table[h] * 30)


def test_what_a_function_does_to_a_list_is_done():
    counts, calls = [0, 4], 0

    def mask(b, h, i, j):
        nonlocal calls
        counts[0] += 1
        counts.append(7)
        counts.extend(iter((8, 9)))
        calls += 1
        return j <= i + counts[h]
    trace(mask, None)
    assert counts == [1, 4, 7, 8, 9] and calls == 1


def test_other_constants_are_another_kernel(rng, no_disk):
    for windows in ([3, 4, 5, 6], [3, 4, 5, 7], [3, 4, 5, 6]):
        check(rng, mask=lambda b, h, i, j: abs(i - j) < windows[h], keep=window(windows))
    assert flashc.statistics().compilations == 2


def test_kernels_of_lists():
    spec = flashc.ArraySpec((2, 4, 21, 64), "bf16")
    assert ".entry" in flashc.compile(spec, spec, spec, mask=lambda b, h, i, j: abs(i - j) < WINDOWS[h],
                                      score=lambda s, b, h, i, j: s * TABLE[b][h]).ptx


LONG = list(range(65))
WIDE = [[1.0] * 13] * 5
RAGGED = [[1, 2], [3]]
MISSING = [3, None]
WORDS = [3, "x"]


@pytest.mark.parametrize("mask, words", [
    (lambda b, h, i, j: LONG[h] > i, "expected at most 64 numbers in a list that is indexed by a traced value, got 65"),
    (lambda b, h, i, j: WIDE[b][h] > i, "at most 64 numbers .*, got 65: make it an array"),
    (lambda b, h, i, j: RAGGED[b][h] > i, "expected lists of one length"),
    (lambda b, h, i, j: MISSING[h] > i, "got builtins.NoneType"),
    (lambda b, h, i, j: WORDS[h] > i, "got builtins.str"),
    (lambda b, h, i, j: WINDOWS[h * 0.5] > i, "expected an integer as index into a list, got a real number"),
    (lambda b, h, i, j: ops.array([])[h] > i, "expected a list with entries"),
    (lambda b, h, i, j: [1, 2, 3][h] > i, "cannot index this object.* lists and tuples"),
])
def test_refused(mask, words):
    with pytest.raises(flashc.TraceError, match=f"test_lists.py:[0-9]+: in <lambda>: .*{words}"):
        trace(mask, None)


def test_pythons_own_errors_stay():
    with pytest.raises(IndexError, match="list index out of range"):
        trace(lambda b, h, i, j: WINDOWS[9] > i, None)
