"""Results that overlap themselves or an input in memory are refused. Other results are written."""
import numpy as np
import pytest

import flashc
from flashc._arrays.array import Array
from flashc._arrays.overlap import find_shared, overlaps_itself, share_memory
from flashc._arrays.source import source_of
from reference import attention, inputs

strided = np.lib.stride_tricks.as_strided


def describe(x) -> Array:
    return source_of(x).describe(x)


def test_any_strides_as_numpy_says(rng):
    """Compares with NumPy's exact answer for random strides, most of which do not nest."""
    memory = np.zeros(4000, np.float32)
    answers = {True: 0, False: 0}
    for _ in range(3000):
        views = []
        for _ in range(2):
            shape = rng.integers(1, 5, 3)
            strides = rng.integers(-30, 31, 3) if rng.integers(2) else 5 * rng.integers(-6, 7, 3)
            view = strided(memory[rng.integers(1900, 2100):], shape, 4 * strides)
            views.append(view if rng.integers(2) else view.view(np.int32))
        want = np.shares_memory(*views)
        answers[want] += 1
        assert share_memory(*map(describe, views)) == want
        addresses = sum(np.multiply.outer(np.arange(extent), stride).reshape([-1 if d == n else 1 for d in range(3)])
                        for n, (extent, stride) in enumerate(zip(views[0].shape, views[0].strides)))
        assert overlaps_itself(views[0].shape, tuple(s // 4 for s in views[0].strides)) == \
            (len(np.unique(addresses)) != addresses.size)
    assert min(answers.values()) > 300


@pytest.fixture
def qkv(rng):
    return inputs(rng, 2, 4, 4, 20, 20, 16)


def refused(words, q, k, v, out, **keywords):
    for call in (flashc.attention, flashc.compile(q, k, v, **keywords)):
        with pytest.raises(flashc.ArgumentError, match=words):
            call(q, k, v, out=out, **(keywords if call is flashc.attention else {}))


def test_inputs(qkv):
    q, k, v = qkv
    refused("out to be apart from q", q, k, v, q)
    both = np.zeros((3, 4, 20, 16), np.float32)
    for name, place in (("q", 0), ("k", 1), ("v", 2)):
        arrays = list(qkv)
        arrays[place] = both[:2]
        refused(f"out to be apart from {name}", *arrays, both[1:])
    table = np.zeros(2 * 4 * 20 * 16, np.float32)
    refused("an array that the mask or the score reads", q, k, v, table.reshape(2, 4, 20, 16),
            score=lambda s, b, h, i, j: s + table[j])


def test_itself(qkv):
    out = strided(np.zeros(10000, np.float32), (2, 4, 20, 16), [4 * stride for stride in (1280, 320, 8, 1)])
    refused("elements of its own", *qkv, out)


def test_log_sum_exp(qkv):
    q, k, v = qkv
    out = np.zeros((2, 4, 20, 16), np.float32)
    refused(r"out\[1\] \(lse\) to be apart from out\[0\]", q, k, v, (out, out.reshape(-1)[:160].reshape(2, 4, 20)),
            return_lse=True)
    refused(r"out\[1\] \(lse\) to be apart from k", q, k, v, (out, k.reshape(-1)[:160].reshape(2, 4, 20)),
            return_lse=True)
    refused(r"out\[1\] \(lse\) with elements of its own", q, k, v,
            (out, strided(np.zeros(200, np.float32), (2, 4, 20), (320, 40, 4))), return_lse=True)


def test_packed_sequences(rng):
    q = rng.standard_normal((20, 4, 16)).astype(np.float32)
    with pytest.raises(flashc.ArgumentError, match="out to be apart from q"):
        flashc.varlen_attention(q, q.copy(), q.copy(), np.array([0, 5, 20], np.int32), out=q)


def test_between_the_elements_of_others(qkv):
    """An array may have four interleaved parts: q, k, v and the result."""
    packed = np.zeros((2, 20, 4, 4, 16), np.float32)
    for place, x in enumerate(qkv):
        packed[:, :, place] = x.transpose(0, 2, 1, 3)
    q, k, v, o = (packed[:, :, place].transpose(0, 2, 1, 3) for place in range(4))
    flashc.attention(q, k, v, out=o)
    np.testing.assert_allclose(o, attention(*qkv)[0], atol=1e-4)


def test_which_arrays_share_memory():
    memory = np.zeros(1000, np.float32)
    inputs_ = [describe(memory[start:start + 100]) for start in (0, 100, 200, 300)]
    assert find_shared(describe(memory[500:600]), inputs_) is None
    for place, start in enumerate((50, 199, 201, 399)):
        assert find_shared(describe(memory[start:start + 1]), inputs_) == place
    # Elements that lie between the other array's elements do not overlap them, nor does an empty array.
    assert find_shared(describe(memory[::2]), [describe(memory[1::2]), describe(memory[50:50])]) is None
