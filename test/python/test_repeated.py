"""The code of masks and scores that were traced before: equal to that of a new trace, whatever changed in between."""

import functools
import gc
import math
import operator
import os
import random
import re
import sys
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest

import flashc
from flashc import masks, ops, scores
from flashc._runtime import calls as calls_module
from flashc._runtime import contexts, launch, specialization
from flashc._trace import reads, repeated
from flashc._trace.repeated import code_of
from flashc._trace.trace import trace


def same(mask, score=None, **how):
    """Compares the code with that of a new trace; returns whether there was a trace."""
    before = repeated.traces
    have, want = code_of(mask, score, **how), trace(mask, score, **how)
    assert have[:4] == want[:4] and have.labels == want.labels
    assert len(have.arrays) == len(want.arrays)
    assert all(x.owner is y.owner and x[:5] == y[:5] for x, y in zip(have.arrays, want.arrays))
    assert have.needs == want.needs
    assert have.located()[:2] == want.located()[:2]
    return repeated.traces > before


# --- Random changes ---------------------------------------------------------------------------------------------------

class Settings:
    """An object whose attributes masks read."""

    def __init__(self, width):
        self.width, self.inner = width, self

    def keeps(self, b, h, i, j):
        return abs(i - j) <= self.width

    def scale(self, s, b, h, i, j):
        return s * self.width + self.inner.width

    @property
    def doubled(self):
        return 2 * self.width


WIDTH, SIZE, ENDS, OTHER, SETTINGS, LEVELS, ALIGN = 3, 4, np.arange(9), None, Settings(2), [1, 2, 5], "top-left"
CHOICE = {"near": 2, "far": 9}
LEVELS_OF_TEST, FACTOR = [np.arange(9)], 2


def helper(i, j):
    return i - j < WIDTH


def far(i, j):
    return i - j > WIDTH


NEAR = helper


def functions():
    """Functions of every kind of thing that a mask may refer to."""
    width, ends, table, inner = WIDTH, ENDS, np.asarray(ENDS), SETTINGS
    flag, real = np.bool_(WIDTH > 3), np.float32(WIDTH / 3)

    def with_default(b, h, i, j, size=WIDTH, *, at=ENDS):
        return (i // size == j // size) & (j < at[..., 3] if at.ndim > 1 else j < at[3])

    def loop(b, h, i, j):
        kept = i == j
        for level in LEVELS:
            kept = kept | (i - j == level)
        return kept

    return [
        (lambda b, h, i, j: j <= i + width, None), (lambda b, h, i, j: j <= i + WIDTH, None),
        (lambda b, h, i, j: j < ENDS[2] if ENDS.ndim == 1 else j < ENDS[b, h], None),
        (lambda b, h, i, j: (j < ends[b] if len(ends.shape) == 1 else j < ends[h, b]) & (i < table.shape[0]), None),
        (lambda b, h, i, j: helper(i, j) & NEAR(j, i), None), (with_default, None), (loop, None),
        (lambda b, h, i, j: j < CHOICE["near"] + CHOICE["far"] * i, None),
        (lambda b, h, i, j: i - j <= SETTINGS.width + SETTINGS.doubled, None), (SETTINGS.keeps, None),
        (lambda b, h, i, j: i - j < inner.inner.width, inner.scale),
        (functools.partial(lambda size, b, h, i, j: i // size == j // size, WIDTH), None),
        (masks.causal() & (lambda b, h, i, j: j >= WIDTH) | ~masks.sliding_window(SIZE, 2), None),
        (masks.sliding_window(SIZE, np.int64(SIZE)).aligned(ALIGN), None),
        (masks.key_padding(np.minimum(np.ravel(ENDS), 7)[:2].astype(np.int32)), None),
        (masks.documents(np.sort(np.ravel(ENDS)).astype(np.int32), sorted=WIDTH > 2), None),
        (lambda b, h, i, j: ops.count_le(flashc.assume_sorted(table), i) > 1 if table.ndim == 1 and
         table.dtype == np.int64 else i == j, None),
        (lambda b, h, i, j: (ENDS is OTHER) | (i >= j), None), (lambda b, h, i, j: flag | (j <= i), None),
        (None, lambda s, b, h, i, j: s * real - math.log2(WIDTH + 1) * np.abs(i - j) + float(WIDTH)),
        (None, lambda s, b, h, i, j: np.where(j <= i, s, WIDTH) if isinstance(WIDTH, float) else np.tanh(s / WIDTH)),
        (None, lambda s, b, h, i, j: s + operator.mul(LEVELS[h % 3], WIDTH)),
    ]


ARRAYS = [np.arange(9), np.arange(9, dtype=np.int32), np.arange(9.0), np.arange(12).reshape(3, 4), np.arange(20)[::2],
          np.arange(12).reshape(3, 4).T, np.arange(9).astype(np.uint8), np.arange(9).astype(np.int8),
          np.broadcast_to(np.arange(9), (3, 9)), np.zeros((9, 1), np.int64), np.arange(7) > 3]


def change(rng):
    """Changes one thing that the functions refer to."""
    global WIDTH, SIZE, ENDS, OTHER, NEAR, SETTINGS, LEVELS, ALIGN
    which = rng.randrange(11)
    number = rng.choice([1, 2, 3, 5, 1.0, 2.5, True, 0.0, -0.0, np.int32(4), np.float64(1.5)])
    if which == 0:
        WIDTH = number if number or isinstance(number, float) else 3
    elif which == 1:
        ENDS = rng.choice(ARRAYS)
    elif which == 2:
        ENDS = ENDS.copy()  # another address
    elif which == 3:
        ENDS.flags.writeable and ENDS.__setitem__(..., 1)
    elif which == 4:
        NEAR = rng.choice([helper, far, lambda i, j: i != j])
    elif which == 5:
        SETTINGS = Settings(number)
    elif which == 6:
        SETTINGS.width, SETTINGS.inner = number, Settings(rng.choice([1, 2.5, np.int64(7)]))
    elif which == 7:
        LEVELS = rng.choice([[*LEVELS, rng.randrange(9)], [1, 2, 5], (1, 2, 5), [1, 2.5, 5]])[:5]
    elif which == 8:
        CHOICE[rng.choice(["near", "far"])] = rng.randrange(4)
    elif which == 9:
        SIZE, ALIGN = rng.randrange(5), rng.choice(["top-left", "bottom-right", 5])
    else:
        OTHER = rng.choice([ENDS, None])


@pytest.fixture
def globals_of_test(monkeypatch):
    for name in ("WIDTH", "SIZE", "ENDS", "OTHER", "NEAR", "SETTINGS", "LEVELS", "ALIGN", "CHOICE"):
        monkeypatch.setitem(globals(), name, globals()[name])
    monkeypatch.setitem(globals(), "CHOICE", dict(CHOICE))


def test_code_is_never_stale(globals_of_test):
    """Changes what functions refer to between 20,000 calls. Each call gets the code that a new trace would give."""
    rng, made, outcomes = random.Random(5), functions(), []
    for call in range(20000):
        if rng.random() < 0.5:
            change(rng)
        if rng.random() < 0.2:
            made = functions()
        mask, score = rng.choice(made)
        try:
            trace(mask, score)
        except (flashc.Error, TypeError, AttributeError, IndexError, ZeroDivisionError) as problem:
            with pytest.raises(type(problem)):
                code_of(mask, score)
            continue
        outcomes.append(same(mask, score))
    assert len(outcomes) > 10000 and outcomes[-5000:].count(True) < 2000  # Most calls find a code.


# --- Functions whose code is found without a new trace ----------------------------------------------------------------

def is_traced_again(make):
    """Whether the third of three calls of `make()`'s results was a trace."""
    return [same(*make()) for _ in range(3)][-1]


@pytest.mark.parametrize("number", range(22))
def test_functions_are_traced_once(number):
    assert not is_traced_again(lambda: functions()[number])


def test_arrays_of_other_lengths_have_the_same_code():
    def of(ids):
        return lambda b, h, i, j: ids[i] == ids[j]
    assert same(of(np.arange(1001))) and not same(of(np.arange(77))) and same(of(np.arange(77.0)))

    def of_extent(ids):
        return lambda b, h, i, j: j < ids.shape[0] - ids[2]
    assert same(of_extent(np.arange(9))) and same(of_extent(np.arange(8))) and not same(of_extent(np.arange(9)))


def test_sorted_arrays_of_other_lengths_have_the_same_code():
    """The extents of an array that no function names are not in the code, but in the messages of another trace."""
    same(masks.documents(np.arange(20) // 3, sorted=True))
    assert not same(masks.documents(np.arange(31) // 5, sorted=True))
    outside = code_of(masks.Mask(lambda b, h, i, j: ops.array(LEVELS_OF_TEST[0])[i - j] > 2, "outside"), None).located()
    assert "of shape (9,)" in outside.mask


def test_scores_by_name_are_read_once(monkeypatch):
    """A score by name has the code of its constants; a score of a user's function is read at every call."""
    table, slopes = np.ones((8, 2), np.float32), np.ones(3, np.float32)
    made = [lambda: scores.soft_cap(7.0), lambda: scores.alibi(slopes), lambda: scores.alibi(3, align="top-left"),
            lambda: scores.relative_bias(table, max_distance=20), lambda: scores.soft_cap(7.0) >> scores.alibi(3)]
    for make in made:
        assert same(None, make()) and not same(None, make())
    assert same(None, scores.soft_cap(8.0))
    own = scores.Score(lambda s, b, h, i, j: s * FACTOR)
    assert same(None, own) and not same(None, own)
    monkeypatch.setitem(globals(), "FACTOR", 3)
    assert same(None, own)


def test_two_names_of_one_array_are_one_operand():
    x, y = np.arange(9), np.arange(9)

    def of(x, y):
        return lambda b, h, i, j: x[i] == y[j]
    assert same(of(x, x)) and same(of(x, y)) and not same(of(y, y)) and not same(of(y, x))

    def of_three(x, y, z):
        return lambda b, h, i, j: (x[i] == y[j]) & (z[i] < 3)
    assert same(of_three(x, y, x)) and same(of_three(x, y, y)) and not same(of_three(y, x, y))


def test_masks_by_name_are_read_once(globals_of_test):
    global WIDTH
    ids, others, size = np.arange(9) // 2, np.arange(9), np.int32(4)

    def make(ids, others, size, align="bottom-right"):
        return masks.documents(ids) & masks.sliding_window(size) | masks.causal(align) & masks.key_padding(others)
    mask = make(ids, others, size)
    assert same(mask) and not same(mask) and mask._constant is not None
    assert not same(make(others, ids, np.int32(7)))
    assert same(make(ids, ids, size)) and same(make(ids, others, size, "top-left")) and same(mask.aligned(3))
    joined = masks.causal() & (lambda b, h, i, j: j <= WIDTH)
    assert same(joined) and not same(joined) and joined._constant is None
    WIDTH = 8
    assert same(joined)


def test_globals_of_a_function_that_looks_like_one_of_flashc(globals_of_test):
    global WIDTH

    @functools.wraps(ops.tanh)
    def mask(b, h, i, j):
        return j <= i + WIDTH
    assert same(mask) and not same(mask)
    WIDTH = 8
    assert same(mask)


def test_signs_of_elements_are_told_apart():
    def of(x):
        return lambda b, h, i, j: j < x[x[i]]
    assert same(of(np.arange(9).astype(np.int8))) and same(of(np.arange(9).astype(np.uint8)))


def test_element_types_follow_the_frameworks_that_are_imported(monkeypatch):
    pytest.importorskip("torch")
    ids = np.arange(9)

    def mask(b, h, i, j):
        return ids[i] == ids[j] if ids.dtype == np.int64 else i == j
    with monkeypatch.context() as before:
        before.delitem(sys.modules, "torch")
        same(mask)
    assert same(mask) and not same(mask)


# --- What is traced at every call -------------------------------------------------------------------------------------

def impure():
    """Functions whose results follow from something that no key has."""
    counter, holder, draw = [0], Settings(1), random.Random(3)
    number = 0

    def writes(b, h, i, j):
        nonlocal number
        number += 1
        return j <= i + number

    def counts(b, h, i, j):
        counter[0] += 1
        return j <= i + counter[0]

    def hands_on(b, h, i, j):
        it = holder
        return j <= i + it.width

    def tries(b, h, i, j):
        try:
            return j <= i + WIDTH
        except ValueError:
            return i == j

    class Called:
        def __call__(self, b, h, i, j):
            return j <= i

    class Pair(NamedTuple):
        x: int

        def __call__(self, b, h, i, j):
            return j <= i + WIDTH

    helper.width = 5
    return [Pair(3), writes, counts, hands_on, tries, Called(), lambda b, h, i, j: j <= i + draw.randrange(99),
            lambda b, h, i, j: j <= i + int(np.random.default_rng().integers(99)),
            lambda b, h, i, j: (lambda x: x <= i)(j), lambda b, h, i, j: j <= i + helper.width,
            lambda b, h, i, j: j < ops.array(np.arange(9))[i], lambda b, h, i, j: j <= i + len(CHOICE.keys())]


@pytest.mark.parametrize("number", range(12))
def test_other_functions_are_traced_at_every_call(number):
    before, mask = repeated.traces, impure()[number]
    for _ in range(3):
        code_of(mask, None)
    assert repeated.traces == before + 3


# --- The cache --------------------------------------------------------------------------------------------------------

def test_codes_are_bounded_and_hold_no_array():
    def of(ids, size):
        return lambda b, h, i, j: (ids[i] == ids[j]) & (i // size == j // size)
    for size in range(1, repeated._MOST + 50):
        ids = np.arange(9)
        code_of(of(ids, size), None)
        assert len(repeated._codes) <= repeated._MOST
    kept = weakref.ref(ids)
    del ids
    gc.collect()
    assert kept() is None


def test_threads_have_their_own_arrays():
    def work(seed):
        rng = random.Random(seed)
        for _ in range(500):
            ids, size = np.arange(9) + rng.randrange(99), rng.randrange(1, 5)
            code = code_of(lambda b, h, i, j: (ids[i] == ids[j]) & (i // size == j // size), None)
            assert code.arrays[0].owner is ids and (size == 1 or f"arith.constant {size} : index" in code.mask)
    with ThreadPoolExecutor(4) as pool:
        assert len(list(pool.map(work, range(4)))) == 4


def test_calls_have_no_trace_and_right_numbers():
    """The whole way: packed documents, a captured array and a changed number, against NumPy."""
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((1, 2, 37, 8), np.float32) for _ in range(3))
    before = None
    for turn, slope in enumerate((0.5, 0.25, 2.0)):
        ids, real = np.sort(rng.integers(0, 4, 37)).astype(np.int32), np.float32(slope)
        got = flashc.attention(q, k, v, mask=masks.documents(ids) & (lambda b, h, i, j: j <= i + ids[0]),
                               score=lambda s, b, h, i, j: s - real * abs(i - j))
        i, j = np.ogrid[:37, :37]
        s = np.where((ids[:, None] == ids) & (j <= i + ids[0]), q @ k.swapaxes(2, 3) * 8**-0.5 - slope * abs(i - j),
                     -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        np.testing.assert_allclose(got, p / p.sum(-1, keepdims=True) @ v, atol=2e-5)
        if turn:
            assert repeated.traces == before
        before = repeated.traces


def test_block_masks_are_never_stale(monkeypatch):
    """Changes BlockMasks, and what their functions read, between calls. Each call gives what it gives in a process that
    made no call before."""
    torch = pytest.importorskip("torch", "2.5")
    from torch.nn.attention.flex_attention import create_block_mask

    from flashc import _flex
    from flashc.torch import flex_attention
    rng, width, ids = random.Random(7), 5, torch.arange(32) // 9
    q, k, v = (torch.randn(1, 2, 32, 16) for _ in range(3))

    def make():
        mask = rng.choice([lambda b, h, i, j: ids[i] == ids[j], lambda b, h, i, j: j <= i,
                           lambda b, h, i, j: (j <= i) & (i - j < width),
                           lambda b, h, i, j: (ids[i] >= ids[j]) & (j <= i + h)])
        sizes = rng.choice([(None, None), (1, 2)])
        return create_block_mask(mask, *sizes, 32, 32, device="cpu", BLOCK_SIZE=8)
    block_mask = make()
    for _ in range(120):
        which = rng.randrange(16)
        if which == 0:
            block_mask = make()
        elif which == 1:
            ids.copy_(torch.randint(0, 4, (32,)).sort().values)
        elif which == 2:
            ids = torch.randint(0, 4, (32,)).sort().values
        elif which == 3:
            block_mask.kv_num_blocks.copy_(torch.randint_like(block_mask.kv_num_blocks, 0, 4))
        elif which == 4:
            width = 8 - width
        how = {"block_mask": block_mask, "score_mod": rng.choice([None, None, lambda s, b, h, i, j: s * 0.5])}
        got = flex_attention(q, k, v, **how)
        with monkeypatch.context() as fresh:
            fresh.setattr(_flex, "_tables", weakref.WeakKeyDictionary())
            fresh.setattr(repeated, "_codes", {})
            assert torch.equal(got, flex_attention(q, k, v, **how))


# --- Whole calls ------------------------------------------------------------------------------------------------------

#: The number of random calls. FLASHC_RANDOM_CALLS=20000 takes minutes.
RANDOM_CALLS = int(os.environ.get("FLASHC_RANDOM_CALLS", "60"))


class RandomCalls:
    """Calls whose functions, arrays, shapes, strides and options change at random. `array` makes an array of a
    framework from one of NumPy."""

    def __init__(self, seed, array):
        self.rng, self.array = random.Random(seed), array
        self.numbers = np.random.default_rng(seed)
        self.made, self.ids, self.offsets = functions(), array(np.arange(9) // 4), array(np.array([0, 3, 7], np.int32))

    def inputs(self, *shape):
        """Returns random numbers of a shape, contiguous or with other strides."""
        x = self.numbers.standard_normal(shape).astype(np.float32)
        which = self.rng.randrange(3)
        if which == 0:
            return self.array(x)
        if which == 1:
            return self.array(np.concatenate([x, x], -1))[..., :shape[-1]]
        return self.array(np.ascontiguousarray(x.swapaxes(0, 1))).swapaxes(0, 1)

    def next(self):
        """Changes something, and returns a call."""
        rng = self.rng
        change(rng)
        if rng.random() < 0.3:
            self.made = functions()
        which = rng.randrange(4)
        if which == 0:  # The array before is freed, and the new one may have its address.
            self.ids = None
            self.ids = self.array(self.numbers.integers(0, 4, rng.choice([7, 9])))
        elif which == 1:
            self.ids[:] = self.array(self.numbers.integers(0, 4, len(self.ids)))
        elif which == 2:
            self.offsets = None
            self.offsets = self.array(np.sort([0, *self.numbers.integers(0, 8, rng.choice([1, 2]))]).astype(
                rng.choice([np.int32, np.int64])))
        else:
            self.offsets[1] = int(self.offsets[-1]) - int(self.offsets[1] == self.offsets[-1] > 0)
        return getattr(self, rng.choice(["functions", "captured", "mask_array", "packed", "decode"]))()

    def describe(self, call):
        """Returns what a call refers to, for messages."""
        found = [call.__qualname__, {name: globals()[name] for name in ("WIDTH", "SIZE", "ENDS", "LEVELS", "ALIGN")}]
        made = [call, *[x.cell_contents for x in call.__closure__ if hasattr(x.cell_contents, "__closure__")]]
        return found + [(x.__code__.co_firstlineno, [y.cell_contents for y in x.__closure__ or ()]) for x in made]

    def qkv(self):
        batch, heads, queries = self.rng.choice([1, 2]), self.rng.choice([1, 2]), self.rng.choice([3, 7])
        return [self.inputs(batch, heads, n, 8) for n in (queries, 7, 7)]

    def functions(self):
        (mask, score), qkv = self.rng.choice(self.made), self.qkv()
        how = {"causal": self.rng.random() < 0.3, "window": self.rng.choice([None, None, 2, (1, 1)]),
               "return_lse": self.rng.random() < 0.3, "scale": self.rng.choice([None, None, 0.5])}
        return lambda: flashc.attention(*qkv, mask=mask, score=score, **how)

    def captured(self):
        ids, real, qkv = self.ids, np.float32(self.rng.choice([0.5, 0.25])), self.qkv()
        written = eval(f"lambda b, h, i, j: j <= i + {self.rng.randrange(3)}")  # Its code is freed after the call.
        return lambda: flashc.attention(
            *qkv, mask=masks.documents(ids) & (lambda b, h, i, j: ids[i] <= ids[j]) | written,
            score=lambda s, b, h, i, j: s * real + ids[j])

    def mask_array(self):
        q, k, v = self.qkv()
        shape = [self.rng.choice([1, extent]) for extent in (*q.shape[:3], k.shape[2])]
        kept = self.numbers.random(shape) < 0.7
        mask = self.array(kept if self.rng.random() < 0.5 else np.where(kept, 0.5, -1).astype(np.float32))
        return lambda: flashc.attention(q, k, v, mask=mask)

    def packed(self):
        rows, offsets, ids = [self.inputs(7, 2, 8) for _ in range(3)], self.offsets, self.ids
        how = self.rng.choice([{}, {}, {"causal": True}, {"window": (2, 1)},
                               {"mask": lambda s, h, i, j: ids[i] == ids[j]},
                               {"score": lambda x, s, h, i, j: x + ids[s], "causal": True}])
        return lambda: flashc.varlen_attention(*rows, offsets, self.rng.choice([None, offsets]), return_lse=True, **how)

    def decode(self):
        token, pages = self.inputs(2, 1, 2, 8), self.inputs(4, 4, 1, 8)
        lengths, table = (self.array(x.astype(np.int32)) for x in (
            self.numbers.integers(0, 9, 2), self.numbers.permutation(4).reshape(2, 2)))
        how = self.rng.choice([{}, {"window": 3}, {"score": lambda s, b, h, i, j: s - WIDTH * (i - j)}])
        return lambda: flashc.decode(token, pages, pages, lengths, table, **how)


def outcome_of(call):
    """Returns the results of a call as bytes, or its error."""
    try:
        results = call()
    except (flashc.Error, TypeError, AttributeError, IndexError, ZeroDivisionError) as problem:
        return type(problem), re.sub("0x[0-9a-f]+", "", str(problem))
    return [np.asarray(x).tobytes() for x in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_whole_calls_are_never_stale(globals_of_test, monkeypatch, framework):
    """Each call gives what it gives in a process that made no call before."""
    array = np.asarray if framework == "numpy" else pytest.importorskip("torch").from_numpy
    calls, errors = RandomCalls(11, array), 0
    for _ in range(RANDOM_CALLS):
        call = calls.next()
        state = calls.rng.getstate()
        got = outcome_of(call)
        calls.rng.setstate(state)
        with monkeypatch.context() as fresh:
            for module, name in ((repeated, "_codes"), (reads, "_functions"), (reads, "_tokens"),
                                 (calls_module, "_cases"), (calls_module, "_launchers"),
                                 (specialization, "_mask_codes")):
                fresh.setattr(module, name, {})
            want = outcome_of(call)
        assert got == want, calls.describe(call)
        errors += isinstance(got, tuple)
    assert errors < RANDOM_CALLS / 3


def test_threads_share_no_call():
    """Threads make calls of the same cases at the same time, against NumPy."""
    q, k, v = (np.random.default_rng(7).standard_normal((1, 2, 19, 8), np.float32) for _ in range(3))

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(60):
            ids, real = rng.integers(0, 3, 19), np.float32(rng.choice([0.5, 0.25, 2.0]))
            got = flashc.attention(q, k, v, mask=lambda b, h, i, j: ids[i] == ids[j],
                                   score=lambda s, b, h, i, j: s * real)
            s = np.where(ids[:, None] == ids, q @ k.swapaxes(2, 3) * 8**-0.5 * real, -np.inf)
            p = np.exp(s - s.max(-1, keepdims=True))
            np.testing.assert_allclose(got, p / p.sum(-1, keepdims=True) @ v, atol=2e-5)
        return seed
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [0, 1, 2, 3]


def test_repeated_calls_keep_no_memory():
    """New arrays and functions in every call leave nothing in the memory of Python after the call."""
    q = np.zeros((1, 2, 16, 8), np.float32)
    rows, offsets = q[0].swapaxes(0, 1), np.array([0, 7, 16], np.int32)

    def call():
        ids = np.arange(16)
        flashc.attention(q, q, q, mask=lambda b, h, i, j: ids[i] == ids[j])
        flashc.attention(q, q, q, mask=masks.documents(ids))
        flashc.varlen_attention(rows, rows, rows, offsets.copy(), causal=True)
    sizes = []
    tracemalloc.start()
    try:
        for count in (50, 300):
            for _ in range(count):
                call()
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[1] - sizes[0] < 20000


# --- The work of a call -----------------------------------------------------------------------------------------------

def calls_of_python(call):
    """Returns how many functions of Python a repeated call runs."""
    count = [0]

    def see(frame, event, argument):
        count[0] += event == "call"
    for _ in range(4):
        call()
    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count[0]


def repeated_calls(array):
    """Calls by name; `array` makes an array of a framework."""
    random_numbers = np.random.default_rng(3)

    def numbers(*shape):
        return array(random_numbers.standard_normal(shape).astype(np.float32))
    q, k, v = (numbers(1, 2, 16, 16) for _ in range(3))
    token, pages, rows = numbers(2, 1, 1, 16), numbers(4, 32, 1, 16), numbers(16, 1, 16)
    ids, lengths, table, offsets = (array(np.array(x, np.int32)) for x in (
        np.arange(16) // 9, [60, 33], [[0, 1], [2, 3]], [0, 7, 16]))
    mask = masks.causal() & masks.documents(ids)
    return {
        "plain": lambda: flashc.attention(q, k, v, causal=True),
        "mask": lambda: flashc.attention(q, k, v, mask=lambda b, h, i, j: j <= i),
        "score": lambda: flashc.attention(q, k, v, score=lambda s, b, h, i, j: s - (i - j) * 0.5),
        "captured": lambda: flashc.attention(q, k, v, mask=lambda b, h, i, j: ids[i] == ids[j]),
        "named": lambda: flashc.attention(q, k, v, mask=mask),
        "decode": lambda: flashc.decode(token, pages, pages, lengths, table),
        "packed decode": lambda: flashc.decode(rows, pages, pages, lengths, table, cu_seqlens_q=offsets),
        "varlen": lambda: flashc.varlen_attention(rows, rows, rows, offsets, causal=True),
    }


def repeated_calls_of_torch(torch):
    """Calls by name of the drop-ins and of training."""
    from torch.nn.attention.flex_attention import create_block_mask

    from flashc.torch import flex_attention, scaled_dot_product_attention
    q, k, v = (torch.randn(1, 2, 16, 16) for _ in range(3))
    ids = torch.arange(16) // 9
    block_mask = create_block_mask(lambda b, h, i, j: ids[i] == ids[j], None, None, 16, 16, device="cpu", BLOCK_SIZE=8)
    trained, do = tuple([x.clone().requires_grad_() for x in (q, k, v)]), torch.ones_like(q)

    def train(**how):
        torch.autograd.grad(flashc.attention(*trained, **how), trained, do)
    return {
        "drop-in": lambda: scaled_dot_product_attention(q, k, v, is_causal=True),
        "flex": lambda: flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s - (i - j) * 0.5),
        "block mask": lambda: flex_attention(q, k, v, block_mask=block_mask),
        "training": lambda: train(causal=True),
        "training with a mask": lambda: train(mask=lambda b, h, i, j: ids[i] == ids[j]),
    }


# The limits on how many Python functions a call runs. On the CPU decode also reads the lengths, and varlen_attention
# the offsets. 30 to 40 functions of a training step are PyTorch's own.
MOST_CALLS = {"numpy": {"plain": 54, "mask": 61, "score": 62, "captured": 74, "named": 74, "decode": 78,
                        "packed decode": 91, "varlen": 78},
              "torch": {"plain": 25, "mask": 32, "score": 33, "captured": 38, "named": 38, "decode": 32,
                        "packed decode": 37, "varlen": 45, "drop-in": 30, "flex": 45, "block mask": 64, "training": 93,
                        "training with a mask": 109}}


def calls_of(framework):
    """Returns the calls of a framework by name."""
    if framework == "numpy":
        return repeated_calls(np.asarray)
    torch = pytest.importorskip("torch", "2.5")
    return {**repeated_calls(torch.from_numpy), **repeated_calls_of_torch(torch)}


@pytest.mark.parametrize("framework", MOST_CALLS)
def test_repeated_calls_do_not_compile(monkeypatch, framework):
    """The second call of a BlockMask makes a plan; no later call traces a function, describes a kernel or reads its
    manifest."""
    every = calls_of(framework)
    for call in every.values():
        call()
        call()

    def refuse(*arguments, **keywords):
        raise AssertionError("a repeated call did this again")
    for owner, name in ((repeated, "trace"), (specialization, "trace"), (specialization.Specialization, "describe"),
                        (specialization.Specialization, "compile"), (launch.Launcher, "_order"), (launch.json, "loads"),
                        (contexts, "context")):
        monkeypatch.setattr(owner, name, refuse)
    for call in every.values():
        call()


@pytest.mark.parametrize("framework", MOST_CALLS)
def test_repeated_calls_do_little_in_python(framework):
    most = MOST_CALLS[framework]
    counts = {name: calls_of_python(call) for name, call in calls_of(framework).items()}
    assert counts.keys() == most.keys()
    # Other versions of Python, NumPy and PyTorch run some more functions of their own.
    assert not {name: counts[name] for name in most if counts[name] > most[name] + 4}
