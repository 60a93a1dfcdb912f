"""Arrays that are declared sorted, and packed sequences, on the CPU."""
from bisect import bisect_right

import numpy as np
import pytest

import flashc
from flashc import masks, ops
from flashc._trace.trace import trace
from reference import assert_close, attention, inputs
from test_masks import check, in_numpy, kept

FLAGS = np.zeros(512, bool)
LENGTHS = [[(70, 70), (1, 1), (0, 0), (37, 37), (9, 9)], [(5, 9), (0, 40), (64, 64), (30, 0), (10, 2), (23, 31)],
           [(0, 0), (100, 130)], [(3, 4)] * 13]


def offsets(lengths, dtype=np.int32):
    return tuple(np.cumsum([0, *part]).astype(dtype) for part in zip(*lengths))


def in_sequences(starts, key_starts, left=None, right=None):
    """Returns the rule of packed sequences."""
    starts, key_starts = list(map(int, starts)), list(map(int, key_starts))
    sequences = [s for s in range(len(starts) - 1) for _ in range(starts[s], starts[s + 1])]

    def rule(b, h, i, j):
        s = sequences[i]
        distance = (j - key_starts[s + 1]) - (i - starts[s + 1])
        return key_starts[s] <= j < key_starts[s + 1] and (left is None or distance >= -left) and \
            (right is None or distance <= right)
    return rule


# --- Sorted arrays ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", ["int32", "int64", "int8"])
def test_sorted_documents(rng, dtype):
    ids = np.sort(rng.integers(-4, 5, 256)).astype(dtype)
    check(masks.documents(ids, sorted=True), lambda b, h, i, j: ids[i] == ids[j])
    key_ids = np.sort(rng.integers(-4, 5, 256)).astype(dtype)
    check(masks.documents(ids, key_ids, sorted=True) & masks.causal("top-left"),
          lambda b, h, i, j: ids[i] == key_ids[j] and j <= i)


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8"])
def test_documents_with_the_least_and_the_greatest_integer(dtype):
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    ids = np.array([least] * 70 + [least + 1, 0] + [most - 1] * 50 + [most] * 78, dtype)
    ids.sort()
    check(masks.documents(ids, sorted=True), lambda b, h, i, j: ids[i] == ids[j], [(2, 1, 200, 200)])
    check(lambda b, h, i, j: flashc.assume_sorted(ids)[j] < flashc.assume_sorted(ids)[i],
          lambda b, h, i, j: ids[j] < ids[i], [(2, 1, 200, 200)])


def test_sorted_documents_of_each_batch(rng):
    ids = np.sort(rng.integers(0, 9, (2, 256)), axis=-1)
    check(masks.documents(ids, sorted=True), lambda b, h, i, j: ids[b, i] == ids[b, j])
    check(masks.shared_prefix(40, ids, "top-left", sorted=True), lambda b, h, i, j: j <= i and
          (j < 40 or ids[b, i] == ids[b, j]))


def test_rows_of_each_head():
    times = np.arange(256, dtype=np.int32) * 3 // 2 - 20
    check(lambda b, h, i, j: flashc.assume_sorted(times)[j] <= i + 60 * h, lambda b, h, i, j: times[j] <= i + 60 * h,
          [(2, 3, 131, 197), (1, 3, 5, 90)])
    check(lambda b, h, i, j: flashc.assume_sorted(times)[j] < 90 * h, lambda b, h, i, j: times[j] < 90 * h,
          [(2, 3, 131, 197)])


class SortedProgram:
    """A random mask that reads arrays which are declared sorted."""

    def __init__(self, rng, n):
        self.rng = rng
        self.arrays = [np.sort(rng.choice(values, n)).astype(dtype) for dtype in ("int8", "int32", "int64")
                       for values in (np.arange(-4, 5), [np.iinfo(dtype).min, -7, 0, np.iinfo(dtype).max])]
        self.declared = [flashc.assume_sorted(array) for array in self.arrays]
        self.keep = self.condition(3)

    def compare(self):
        x, y = (self.declared[number] for number in self.rng.integers(len(self.arrays), size=2))
        relation, step, number = self.rng.integers(6), int(self.rng.choice([1, 1, 3])), int(self.rng.integers(-5, 5))
        limit = [lambda i: x[i], lambda i: x[i // step], lambda i: number][self.rng.integers(3)]
        return [lambda b, h, i, j: limit(i) == y[j // step], lambda b, h, i, j: limit(i) != y[j],
                lambda b, h, i, j: limit(i) < y[j], lambda b, h, i, j: y[j // step] <= limit(i),
                lambda b, h, i, j: limit(i) > y[j], lambda b, h, i, j: limit(i) >= y[j]][relation]

    def condition(self, depth):
        kind, shift = self.rng.integers(4 if depth == 0 else 10), int(self.rng.integers(-50, 50))
        if kind == 0:
            return lambda b, h, i, j: j <= i + shift
        if kind < 4:
            return self.compare()
        x, y = self.condition(depth - 1), self.condition(depth - 1)
        return [lambda *p: x(*p) & y(*p), lambda *p: x(*p) | y(*p), lambda *p: ~x(*p)][kind % 3]


@pytest.mark.parametrize("seed", range(8))
def test_random_masks_over_sorted_arrays(seed):
    rng = np.random.default_rng(seed)
    nq, nk = (int(rng.choice([1, 65, 130, 200])) for _ in range(2))
    program = SortedProgram(rng, max(nq, nk))
    shape = (1, 2, nq, nk)
    assert np.array_equal(kept(program.keep, shape), in_numpy(program.keep, shape))


def test_declared_in_the_function(rng):
    ids = np.sort(rng.integers(0, 9, 256))
    rule = lambda b, h, i, j: ids[i] <= ids[j]  # noqa: E731
    check(lambda b, h, i, j: flashc.assume_sorted(ids)[i] <= flashc.assume_sorted(ids)[j], rule)
    declared = flashc.assume_sorted(ids)
    check(lambda b, h, i, j: declared[i] <= flashc.assume_sorted(declared)[j], rule)
    code = trace(lambda b, h, i, j: flashc.assume_sorted(ids)[i] <= flashc.assume_sorted(ids)[j], None)
    assert code.mask.count("flash.assume_sorted") == 1 and [one.shape for one in code.captures][-1] == (0,)


def test_count_le(rng):
    starts = [0, 3, 3, 50, 130, 256]
    declared = flashc.assume_sorted(np.array(starts))
    check(lambda b, h, i, j: ops.count_le(declared, i) == ops.count_le(declared, j),
          lambda b, h, i, j: bisect_right(starts, i) == bisect_right(starts, j))
    check(lambda b, h, i, j: ops.count_le(declared, 50) + j > ops.count_le(declared, i - j) + 20,
          lambda b, h, i, j: 4 + j > bisect_right(starts, i - j) + 20)
    batches = [[0, 9, 9, 256], [5, 100, 180, 240]]
    of_batch = flashc.assume_sorted(np.array(batches))
    mask = lambda b, h, i, j: ops.count_le(of_batch[b], i) >= ops.count_le(of_batch[b], j)  # noqa: E731
    check(mask, lambda b, h, i, j: bisect_right(batches[b], i) >= bisect_right(batches[b], j))
    assert ops.count_le(np.array(starts), 3) == ops.count_le(declared, 3) == 3 and ops.count_le(declared, -1) == 0


def test_one_kernel_for_all_lengths_of_arrays(no_disk):
    for count in (1, 2, 5):
        starts = np.array([0] * count + [200])
        check(masks.packed(starts), lambda b, h, i, j: True, [(2, 1, 200, 200)])
    for ids in (np.zeros((2, 40), int), np.zeros((2, 1), int)):
        check(masks.documents(ids, sorted=True), lambda b, h, i, j: True, [(2, 1, ids.shape[1], ids.shape[1])])
    assert flashc.statistics().compilations == 2


def test_sorted_arrays_go_on_around_themselves():
    starts = np.array([[10, 20, 20, 60], [0, 1, 2, 70]])
    declared = flashc.assume_sorted(starts)

    def at(b, place):
        return -1000 if place < 0 else 1000 if place > 3 else starts[b, place]
    for mask, rule in ((lambda b, h, i, j: declared[b, j // 9 - 2] <= i, lambda b, h, i, j: at(b, j // 9 - 2) <= i),
                       (lambda b, h, i, j: declared[0, i - 70] >= j, lambda b, h, i, j: at(0, i - 70) >= j)):
        check(mask, rule, [(2, 1, 80, 70)], is_eager=False)


@pytest.mark.parametrize("mask, words", [
    (lambda b, h, i, j: ops.count_le(TABLE, i) > 3, "array that flashc.assume_sorted declares to be sorted"),
    (lambda b, h, i, j: ops.count_le([1, 2], i) > 3, "declares to be sorted, got <class 'list'>"),
    (lambda b, h, i, j: ops.count_le(PAIR, i) > 3, "one dimension left to search, got one with 2"),
    (lambda b, h, i, j: ops.count_le(PAIR[b], i * 0.5) > 3, "expected an integer to compare the elements with"),
    (lambda b, h, i, j: ops.count_le(PAIR[b], i > 3) > 3, "expected an integer to compare the elements with"),
    (lambda b, h, i, j: flashc.assume_sorted(TABLE2[b])[i] > 3, "expected a whole array to be declared sorted"),
])
def test_refused_searches(mask, words):
    with pytest.raises(flashc.TraceError) as caught:
        trace(mask, None)
    # Searches the first line only: the next line quotes the mask's code, which contains the same words.
    first = str(caught.value).split("\n")[0]
    assert "test_varlen.py:" in first and words in first


TABLE, TABLE2 = np.arange(9), np.zeros((2, 9), int)
PAIR = flashc.assume_sorted(TABLE2)


@pytest.mark.parametrize("mask", [
    masks.documents(np.zeros(512, int), sorted=True) & masks.causal(),
    masks.packed(np.array([0, 512]), causal=True),
    masks.documents(np.zeros((2, 512), int), sorted=True),
    masks.shared_prefix(9, np.zeros(512, int), sorted=True),
    masks.packed(np.array([0, 512]), np.array([0, 512]), causal=True),
    masks.packed(np.array([[0, 512]] * 2))
], ids=repr)
def test_mask_has_kernel(mask):
    spec = flashc.ArraySpec((2, 2, 512, 64), "bf16")
    assert ".entry" in flashc.compile(spec, spec, spec, mask=mask).ptx


@pytest.mark.parametrize("mask, name", [
    (masks.documents(np.zeros(512, int), sorted=True), "several"),
    (masks.documents(np.zeros((2, 512), int), sorted=True) & masks.causal(), "several"),
    (masks.documents(np.zeros(512, int), sorted=True) | masks.key_padding(np.array([9, 9])), "several"),
    (~masks.documents(np.zeros(512, int), sorted=True), "several"),
    (masks.shared_prefix(9, np.zeros(512, int), sorted=True), "several"),
    (masks.documents(np.zeros(512, int), sorted=True) & (lambda b, h, i, j: ops.array(FLAGS)[j]), "code"),
    (masks.documents(np.zeros(512, int)), "code")], ids=repr)
def test_schedules_by_what_is_left_to_read(mask, name):
    spec = flashc.ArraySpec((2, 2, 512, 64), "bf16")
    kernel = flashc.compile(spec, spec, spec, mask=mask, target="sm_90a")
    assert f"mask={name}" in kernel.decisions.splitlines()[0].replace(":", " ").split(), kernel.decisions
    before = [one["kernel"].rsplit("_", 1)[1] for one in kernel.manifest["before"]]
    assert (before == ["rows", "order"]) == (name == "several"), before


# --- Packed sequences -------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("keywords, left, right", [({}, None, None), ({"causal": True}, None, 0),
                                                   ({"window": (20, 5)}, 20, 5), ({"window": (9, None)}, 9, None)])
def test_packed(lengths, keywords, left, right):
    starts, key_starts = offsets(lengths)
    shape = (1, 1, starts[-1], key_starts[-1])
    check(masks.packed(starts, key_starts, **keywords), in_sequences(starts, key_starts, left, right), [shape])
    if lengths is LENGTHS[0]:
        shape = (1, 1, starts[-1], starts[-1])
        check(masks.packed(starts, **keywords), in_sequences(starts, starts, left, right), [shape])


def test_packed_in_each_batch():
    starts = np.array([[0, 100, 131], [0, 0, 131]])
    key_starts = np.array([[0, 97, 197], [0, 30, 197]])
    check(masks.packed(starts, key_starts, causal=True),
          lambda b, h, i, j: in_sequences(starts[b], key_starts[b], None, 0)(b, h, i, j), [(2, 1, 131, 197)])


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("causal", [False, True])
def test_varlen_attention(rng, lengths, dtype, causal):
    starts, key_starts = offsets(lengths, dtype)
    q, k, v = (x[0].swapaxes(0, 1) for x in inputs(rng, 1, 4, 2, starts[-1], key_starts[-1], 16, 24))
    o, lse = flashc.varlen_attention(q, k, v, starts, key_starts, causal=causal, enable_gqa=True, return_lse=True)
    assert o.shape == (starts[-1], 4, 24) and lse.shape == (4, starts[-1])
    for s in range(len(starts) - 1):
        queries, keys = slice(starts[s], starts[s + 1]), slice(key_starts[s], key_starts[s + 1])
        nq, nk = q[queries].shape[0], k[keys].shape[0]
        want = attention(*(x.swapaxes(0, 1)[None] for x in (q[queries], k[keys], v[keys])),
                         (lambda b, h, i, j: j <= i + nk - nq) if causal else None)
        assert_close((o[queries].swapaxes(0, 1)[None], lse[None, :, queries]), want)


@pytest.mark.parametrize("starts", [[70, 71, 180], [0, 150], [300], [-5, 0, 64, 64, 900]])
def test_offsets_that_do_not_cover_the_queries(rng, starts):
    """Queries before the first offset and behind the last one form sequences too: each row is in one tile."""
    declared = flashc.assume_sorted(np.array(starts))
    number = np.searchsorted(starts, np.arange(200), "right")
    q, k, v = inputs(rng, 1, 2, 1, 200, 200, 16)
    got = flashc.attention(q, k, v, enable_gqa=True, return_lse=True, mask=masks.causal() & (
        lambda b, h, i, j: ops.count_le(declared, i) == ops.count_le(declared, j)))
    assert_close(got, attention(q, k, v, lambda b, h, i, j: (number[i] == number[j]) & (j <= i)))


def test_no_queries(rng):
    q, k, v = (x[0].swapaxes(0, 1) for x in inputs(rng, 1, 1, 1, 0, 9, 8))
    o, lse = flashc.varlen_attention(q, k, v, np.array([0, 0, 0]), np.array([0, 4, 9]), return_lse=True)
    assert o.shape == (0, 1, 8) and lse.shape == (1, 0)


def test_one_kernel_for_all_sequences(rng, no_disk):
    for lengths in LENGTHS:
        starts, key_starts = offsets(lengths)
        q, k, v = (x[0].swapaxes(0, 1) for x in inputs(rng, 1, 1, 1, starts[-1], key_starts[-1], 8))
        flashc.varlen_attention(q, k, v, starts, key_starts)
    assert flashc.statistics().compilations == 1


def test_masks_and_scores_of_sequences(rng):
    starts, key_starts = offsets(LENGTHS[1])
    lengths = np.array([3, 4, 50, 6, 7, 8])
    slopes = np.array([0.5, -0.25], np.float32)
    q, k, v = (x[0].swapaxes(0, 1) for x in inputs(rng, 1, 2, 2, starts[-1], key_starts[-1], 8))
    got = flashc.varlen_attention(q, k, v, starts, key_starts, mask=lambda s, h, i, j: (j < lengths[s]) | (i == j),
                                  score=lambda x, s, h, i, j: x + slopes[h] * (i - j), return_lse=True, scale=0.5)
    number, key_number = (np.searchsorted(x, np.arange(x[-1]), "right") - 1 for x in (starts, key_starts))

    def keep(b, h, i, j):
        place, key = i - starts[number[i]], j - key_starts[key_number[j]]
        return (number[i] == key_number[j]) & ((key < lengths[number[i]]) | (place == key))

    def rescore(s, b, h, i, j):
        return s + slopes[h] * ((i - starts[number[i]]) - (j - key_starts[key_number[j]]))
    want = attention(*(x.swapaxes(0, 1)[None] for x in (q, k, v)), keep, rescore, 0.5)
    assert_close((got[0].swapaxes(0, 1)[None], got[1][None]), want)


def test_outputs_of_the_caller(rng):
    starts, _ = offsets(LENGTHS[0])
    q, k, v = (x[0].swapaxes(0, 1) for x in inputs(rng, 1, 2, 2, starts[-1], starts[-1], 8))
    want, want_lse = flashc.varlen_attention(q, k, v, starts, starts, 100, 100, causal=True, return_lse=True)
    o, lse = np.empty_like(want), np.empty_like(want_lse)
    assert flashc.varlen_attention(q, k, v, starts, causal=True, out=o) is o and np.array_equal(o, want)
    o[:] = 0
    results = flashc.varlen_attention(q, k, v, starts, causal=True, out=(o, lse), return_lse=True)
    assert results[0] is o and results[1] is lse
    assert np.array_equal(o, want) and np.array_equal(lse, want_lse)
    assert np.array_equal(flashc.varlen_attention(q, k, v, starts, causal=True, out=o, return_lse=True)[1], want_lse)


def test_no_tokens():
    q, k = np.zeros((0, 2, 8), np.float32), np.zeros((3, 2, 8), np.float32)
    assert flashc.varlen_attention(q, q, q, np.array([0]), np.array([0])).shape == (0, 2, 8)
    o, lse = flashc.varlen_attention(k, q, q, np.array([0, 3]), np.array([0, 0]), return_lse=True)
    assert not o.any() and np.all(lse == -np.inf)


@pytest.mark.parametrize("changes, error, words", [
    ({"q": np.zeros((1, 9, 2, 8), np.float32)}, flashc.ArgumentError, r"q of 3 dimensions \[total_q, Hq, D\]"),
    ({"v": np.zeros((9, 8), np.float32)}, flashc.ArgumentError, r"v of 3 dimensions \[total_k, Hk, Dv\]"),
    ({"k": memoryview(b"abc")}, flashc.ArgumentError, "k of 3 dimensions"),
    ({"k": [1]}, flashc.UnsupportedTypeError, "k to be an array with a shape"),
    ({"cu_seqlens_q": np.zeros((1, 2), int)}, flashc.ArgumentError, r"cu_seqlens_q of shape \[S \+ 1\], got"),
    ({"cu_seqlens_q": np.zeros(0, int)}, flashc.ArgumentError, r"cu_seqlens_q of shape \[S \+ 1\], got"),
    ({"cu_seqlens_q": [0, 9.5]}, flashc.UnsupportedTypeError, "cu_seqlens_q to be an array or a list of integers"),
    ({"cu_seqlens_q": np.array([0, 9], "i1")}, flashc.UnsupportedTypeError, "int32 or int64, got int8"),
    ({"cu_seqlens_q": np.array([0.0, 9.0])}, flashc.UnsupportedTypeError, "int32 or int64, got f64"),
    ({"cu_seqlens_q": np.array([1, 9])}, flashc.ArgumentError, r"ascend from 0 to total_q = 9 at most, got \[1, 9\]"),
    ({"cu_seqlens_q": np.array([0, 10])}, flashc.ArgumentError, r"ascend from 0 to total_q = 9 at most, got \[0, 10\]"),
    ({"cu_seqlens_q": np.array([0, 5, 4, 9])}, flashc.ArgumentError, "ascend from 0 to total_q = 9"),
    ({"cu_seqlens_k": np.array([0, 10])}, flashc.ArgumentError, "ascend from 0 to total_k = 9"),
    ({"cu_seqlens_k": np.array([0, 4, 9])}, flashc.ArgumentError, "cu_seqlens_q and cu_seqlens_k of one length"),
    ({"q": np.zeros((7, 2, 8), np.float32), "cu_seqlens_q": np.array([0, 7])}, flashc.ArgumentError,
     "expected cu_seqlens_k where q and k differ in length, got 7 queries and 9 keys"),
    ({"mask": np.ones(3, bool)}, flashc.UnsupportedTypeError, "mask to be a function"),
    ({"score": 3}, flashc.UnsupportedTypeError, "score to be a function"),
    ({"window": (1,)}, flashc.ArgumentError, "window to be"),
])
def test_refused_sequences(changes, error, words):
    x = np.zeros((9, 2, 8), np.float32)
    with pytest.raises(error, match=words):
        flashc.varlen_attention(**{"q": x, "k": x, "v": x, "cu_seqlens_q": np.array([0, 9]), **changes})


def test_random_offsets(rng):
    for _ in range(3):
        count = int(rng.integers(1, 8))
        starts, key_starts = (np.sort(np.append(rng.integers(0, 201, count), [0, 200])) for _ in range(2))
        mask = masks.packed(starts, key_starts, causal=bool(rng.integers(2)), window=(int(rng.integers(99)), None))
        want = in_numpy(mask, (1, 1, 200, 200))
        assert np.array_equal(kept(mask, (1, 1, 200, 200)), want)
