"""Indices that scores and masks compute. Negative indices count from the end, and on the CPU indices out of range are
errors. Also promises about arrays, and the messages of errors in code that flashc generates."""
import inspect

import numpy as np
import pytest

import flashc
from flashc import ops
from reference import assert_close, attention, inputs

SHAPES = (1, 2, 1, 1), (2, 3, 63, 65), (1, 2, 37, 53)
LISTED = [0.5, -1.0, 2.0, 0.25, 1.5]


def check(rng, shape, mask=None, score=None):
    """Compares flashc with NumPy, where negative indices count from the end too. Both call the same functions."""
    b, h, nq, nk = shape
    q, k, v = inputs(rng, b, h, h, nq, nk, 16)
    got = flashc.attention(q, k, v, mask=mask, score=score, return_lse=True)
    assert_close(got, attention(q, k, v, mask, score))


@pytest.mark.parametrize("shape", SHAPES)
def test_computed_indices_count_from_the_end(rng, shape):
    n = max(shape[2:])
    table, wide = rng.standard_normal(n).astype(np.float32), rng.standard_normal((3, 2 * n)).astype(np.float32)
    bits, near = rng.random((2, n)) < 0.7, rng.standard_normal(5).astype(np.float16)
    bits[:, 0] = True  # every query sees a key
    listed = np.array(LISTED, np.float32)
    for score in (lambda s, b, h, i, j: s + table[j - 1] - 0.5 * table[i - 1],
                  lambda s, b, h, i, j: s + wide[h - 1, i - j] * wide[-1 - b, -1 - j],
                  lambda s, b, h, i, j: s + near[np.clip(i - j, -5, 4)].astype(np.float32)
                  if isinstance(i, np.ndarray) else s + near[(i - j).clip(-5, 4)],
                  lambda s, b, h, i, j: s + listed[(i + j) % 9 - 5] if isinstance(i, np.ndarray)
                  else s + LISTED[(i + j) % 9 - 5]):
        check(rng, shape, score=score)
    check(rng, shape, mask=lambda b, h, i, j: bits[0 - b, j - i] | (i == j))


def test_negative_indices_in_decode(rng):
    table = np.array([1.0, -2.0, 3.0, 0.5, 2.0, 8.0, -1.0], np.float32)
    q, cache = rng.standard_normal((2, 1, 2, 16), np.float32), rng.standard_normal((2, 16, 2, 16), np.float32)
    lengths = np.array([7, 5], np.int32)
    _, lse = flashc.decode(q, cache, cache, lengths, score=lambda s, b, h, i, j: 0 * s + table[j - i - 1],
                           return_lse=True)
    want = [np.log(np.exp(table[np.arange(n) - (n - 1) - 1]).sum()) for n in lengths]
    np.testing.assert_allclose(np.asarray(lse).reshape(2, 2), np.array([want, want]).T, rtol=1e-5)


@pytest.mark.parametrize("index", [lambda h, i, j: (h, j - 3), lambda h, i, j: (h - 2, i - j),
                                   lambda h, i, j: (h, 4 - i)])
def test_the_gradient_of_a_table_that_is_read_from_its_end(rng, index):
    nq, nk = 13, 19
    q, k, v = inputs(rng, 1, 2, 2, nq, nk, 16)
    table = rng.standard_normal((2, 40)).astype(np.float32)
    score = lambda s, b, h, i, j: s + table[index(h, i, j)]  # noqa: E731
    o, lse = flashc.attention(q, k, v, score=score, return_lse=True)
    do = rng.standard_normal(o.shape).astype(np.float32)
    got = flashc.attention_backward(q, k, v, o, lse, do, score=score, captured=(table,))[3]
    h, i, j = np.ogrid[:2, :nq, :nk]
    s = np.einsum("hid,hjd->hij", q[0], k[0]) / 4 + table[index(h, i, j)]
    p = np.exp(s - lse[0][..., None])
    ds = p * (np.einsum("hid,hjd->hij", do[0], v[0]) - (o[0] * do[0]).sum(-1)[..., None])
    want = np.zeros(table.shape)
    np.add.at(want, tuple(np.broadcast_arrays(*index(h, i, j), ds)[:2]), ds)
    np.testing.assert_allclose(got, want, atol=1e-4)


def fails(rng, mask=None, score=None, shape=(1, 2, 5, 7), **keywords):
    b, h, nq, nk = shape
    q, k, v = inputs(rng, b, h, h, nq, nk, 16)
    with pytest.raises(flashc.ArgumentError) as error:
        flashc.attention(q, k, v, mask=mask, score=score, **keywords)
    return str(error.value)


def line_of(function):
    return f"{__file__}:{inspect.getsourcelines(function)[1]}: "


def test_an_index_outside_names_the_array_and_the_line(rng):
    table = rng.standard_normal((7, 4)).astype(np.float32)
    tables = {"near": table}
    score = lambda s, b, h, i, j: s + table[j, i]  # noqa: E731
    assert "at least 5 elements" in fails(rng, score=score)  # the range of a position is known before the launch
    for score, name in ((lambda s, b, h, i, j: s + table[j, i + 0], "dimension 1 of table"),
                        (lambda s, b, h, i, j: s + tables["near"][j + i * 0, -1 - i], "dimension 1 of tables['near']"),
                        (lambda s, b, h, i, j: s + ops.array(table)[j - 8, 0], "dimension 0 of table"),
                        (lambda s, b, h, i, j: s + LISTED[j], "a list of 5")):
        message = fails(rng, score=score)
        assert line_of(score) + f"expected an index into {name} between" in message, message
        assert "text:" not in message and "flashc.ops.where" in message, message
    mask = lambda b, h, i, j: table[j - 9, 0] > 0  # noqa: E731
    assert line_of(mask) in fails(rng, mask=mask)


def test_positions_in_packed_sequences_outside_of_an_array(rng):
    q = rng.standard_normal((9, 2, 16)).astype(np.float32)
    table = rng.standard_normal(5).astype(np.float32)
    score = lambda s, n, h, i, j: s + table[j]  # noqa: E731
    flashc.varlen_attention(q, q, q, [0, 4, 9], score=score)
    with pytest.raises(flashc.ArgumentError, match=f"{line_of(score)}expected an index into table between"):
        flashc.varlen_attention(q, q, q, [0, 3, 9], score=score)


def test_an_index_that_nothing_hangs_on_may_be_outside(rng):
    table, flags = rng.standard_normal(5).astype(np.float32), np.array([True, False, True, True, True])
    for shape in SHAPES:
        check(rng, shape, score=lambda s, b, h, i, j: s + np.where(j < 5, table[np.minimum(j, 4)], 0)
              if isinstance(j, np.ndarray) else ops.where(j < 5, s + table[j + 0], s))
        check(rng, shape, mask=lambda b, h, i, j: np.where(j < 5, flags[np.minimum(j, 4)], False)
              if isinstance(j, np.ndarray) else (j < 5) & flags[j + 0])
    # Pairs that the mask drops, and pairs of a tile that do not exist, have no score: their indices may be out of
    # range.
    q, k, v = inputs(rng, 1, 2, 2, 5, 70, 16)
    flashc.attention(q, k, v, mask=lambda b, h, i, j: j < 5, score=lambda s, b, h, i, j: s + table[j + 0])
    exact = rng.standard_normal(70).astype(np.float32)
    flashc.attention(q, k, v, score=lambda s, b, h, i, j: s + exact[j + 0] + exact[j - 70])
    flashc.attention(q, k[:, :, :5], v[:, :, :5], causal=True, score=lambda s, b, h, i, j: s + table[i - j])


def test_a_promise_that_does_not_hold_is_refused(rng):
    ids, offsets = np.array([3, 1, 1, 3, 3], np.int32), np.array([[0, 4, 2]], np.int32)
    for mask, name in ((flashc.masks.documents(ids, sorted=True), "ids"),
                       (lambda b, h, i, j: flashc.assume_sorted(ids)[i] == flashc.assume_sorted(ids)[j], "ids"),
                       (lambda b, h, i, j: ops.count_le(flashc.assume_sorted(offsets)[b], i) == 1, "offsets")):
        message = fails(rng, mask=mask, shape=(1, 2, 5, 5))
        assert f"expected {name} to ascend" in message and __file__ in message, message
    q, k, v = inputs(rng, 1, 2, 2, 5, 5, 16)
    flashc.attention(q, k, v, mask=flashc.masks.documents(np.sort(ids), sorted=True))
    flashc.attention(q, k, v, mask=flashc.masks.documents(ids))


def test_a_refusal_of_the_compiler_names_the_users_line(rng):
    torch = pytest.importorskip("torch")
    q, k, v = inputs(rng, 1, 2, 2, 5, 7, 16)
    # All functions of flashc.ops have derivatives, so the test uses the bits of a float, which have none.
    score = lambda s, b, h, i, j: s._region.value(  # noqa: E731
        "f32", f"arith.bitcast {s._region.emit(f'arith.bitcast {s._name} : f32 to i32')} : i32 to f32")
    q, k, v = (torch.from_numpy(x) for x in (q, k, v))
    o, lse = flashc.attention(q, k, v, score=lambda s, b, h, i, j: s, return_lse=True)
    with pytest.raises(flashc.CompileError) as error:
        flashc.attention_backward(q, k, v, o, lse, o, score=score)
    message = str(error.value)
    line = score.__code__.co_firstlineno + 1
    assert f"{__file__}:{line}: note: 'arith.bitcast' has none" in message, message
    assert "(C" not in message and "flash." not in message, message
