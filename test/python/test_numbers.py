"""flashc.attention on the CPU against attention in f64."""
import numpy as np
import pytest

import flashc
from flashc._arrays import source
from reference import aligned, assert_close, attention, inputs

LENGTHS = [(1, 1), (1, 65), (63, 1), (63, 65), (65, 63), (7, 131), (127, 127), (97, 13)]


@pytest.mark.parametrize("nq, nk", LENGTHS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_plain(rng, nq, nk, dtype):
    q, k, v = inputs(rng, 2, 3, 3, nq, nk, 64, dtype=dtype)
    got = flashc.attention(q, k, v, return_lse=True)
    assert got[0].dtype == q.dtype and got[1].dtype == np.float32
    assert_close(got, attention(q, k, v), dtype)


@pytest.mark.parametrize("nq, nk", LENGTHS)
def test_causal_aligns_last_query_with_last_key(rng, nq, nk):
    q, k, v = inputs(rng, 1, 2, 2, nq, nk, 16)
    got = flashc.attention(q, k, v, causal=True, return_lse=True)
    assert_close(got, attention(q, k, v, aligned(nq, nk, right=0)))


@pytest.mark.parametrize("window, left, right", [((5, 3), 5, 3), ((-1, 2), None, 2), ((4, None), 4, None), (6, 6, 0),
                                                 ([0, 0], 0, 0), ((None, -1), None, None), ((2**40, 1), None, 1)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("nq, nk", [(33, 33), (20, 71), (71, 20)])
def test_window(rng, window, left, right, causal, nq, nk):
    q, k, v = inputs(rng, 1, 1, 1, nq, nk, 16)
    got = flashc.attention(q, k, v, window=window, causal=causal, return_lse=True)
    assert_close(got, attention(q, k, v, aligned(nq, nk, left, 0 if causal else right)))


@pytest.mark.parametrize("hq, hk", [(6, 6), (6, 3), (6, 2), (6, 1), (1, 1)])
def test_grouped_query_heads(rng, hq, hk):
    q, k, v = inputs(rng, 2, hq, hk, 17, 29, 24, 40)
    got = flashc.attention(q, k, v, enable_gqa=True, causal=True, return_lse=True)
    assert_close(got, attention(q, k, v, aligned(17, 29, right=0)))


@pytest.mark.parametrize("scale", [1.0, 0.25, -0.3, 0, np.float64(0.7), np.float32(0.5)])
def test_scale(rng, scale):
    q, k, v = inputs(rng, 1, 2, 2, 9, 33, 8)
    assert_close(flashc.attention(q, k, v, scale=scale, return_lse=True), attention(q, k, v, scale=float(scale)))


def test_scale_that_changes_in_place(rng):
    q, k, v = inputs(rng, 1, 1, 1, 9, 33, 8)
    scale = np.array(0.5)
    assert_close(flashc.attention(q, k, v, scale=scale, return_lse=True), attention(q, k, v, scale=0.5))
    scale[...] = 2.0
    assert_close(flashc.attention(q, k, v, scale=scale, return_lse=True), attention(q, k, v, scale=2.0))


def test_bshd(rng):
    q, k, v = inputs(rng, 2, 4, 2, 19, 23, 16, 8)
    flipped = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (q, k, v)]
    o, lse = flashc.attention(*flipped, layout="bshd", causal=True, enable_gqa=True, return_lse=True)
    assert o.shape == (2, 19, 4, 8) and o.flags.c_contiguous and lse.shape == (2, 4, 19)
    assert_close((o.transpose(0, 2, 1, 3), lse), attention(q, k, v, aligned(19, 23, right=0)))


def test_strides(rng):
    # q, k and v are slices of one array [B, N, 3, H, D], as a projection leaves them, seen as [B, H, N, D]. The heads
    # of k and v are reversed.
    qkv = rng.standard_normal((2, 31, 3, 4, 16)).astype(np.float32)
    q, k, v = (qkv[:, :, part].transpose(0, 2, 1, 3) for part in range(3))
    k, v = k[:, ::-1], v[:, ::-1]
    got = flashc.attention(q, k, v, return_lse=True)
    assert_close(got, attention(q, k, v))
    # The result has the order of q in memory: [B, N, H, D].
    assert got[0].transpose(0, 2, 1, 3).flags.c_contiguous


def test_broadcast_keys(rng):
    q, k, v = inputs(rng, 3, 2, 1, 5, 37, 8)
    k, v = (np.broadcast_to(x[:1], x.shape) for x in (k, v))
    assert_close(flashc.attention(q, k, v, enable_gqa=True, return_lse=True), attention(q, k, v))


def test_padding_is_not_touched(rng):
    # Rows of 8 elements lie inside rows of 24. The elements between them are NaN, and are neither read nor written.
    def padded(x):
        wide = np.full(x.shape[:-1] + (24,), np.nan, np.float32)
        wide[..., 8:16] = x
        return wide
    q, k, v = inputs(rng, 1, 2, 2, 13, 65, 8)
    wide = [padded(x) for x in (q, k, v)]
    out = np.full((1, 2, 13, 24), 7, np.float32)
    o = flashc.attention(*(x[..., 8:16] for x in wide), out=out[..., 8:16])
    assert o.base is out
    assert_close((o, attention(q, k, v)[1]), attention(q, k, v))
    assert np.all(out[..., :8] == 7) and np.all(out[..., 16:] == 7)


def test_out(rng):
    q, k, v = inputs(rng, 1, 2, 2, 13, 17, 8)
    o, lse = np.full(q.shape, np.nan, np.float32), np.full((1, 2, 13), np.nan, np.float32)
    assert flashc.attention(q, k, v, out=o) is o
    assert_close((o, attention(q, k, v)[1]), attention(q, k, v))
    o[...] = np.nan
    got = flashc.attention(q, k, v, out=(o, lse), return_lse=True)
    assert got[0] is o and got[1] is lse
    assert_close(got, attention(q, k, v))


def test_without_log_sum_exp(rng):
    """Runs the kernel that computes only o; the tests above run the kernel that computes o and lse."""
    q, k, v = inputs(rng, 2, 6, 3, 33, 70, 24, 40)
    bias = rng.standard_normal((6, 33, 70)).astype(np.float32)
    for keywords, keep, score in (
            ({}, None, None),
            ({"causal": True, "static_shapes": True}, aligned(33, 70, right=0), None),
            ({"window": (9, 3), "score": lambda s, b, h, i, j: s * (h + 1)}, aligned(33, 70, 9, 3),
             lambda s, b, h, i, j: s * (h + 1)),
            ({"mask": bias}, None, lambda s, b, h, i, j: s + bias)):
        want = attention(q, k, v, keep, score)
        o = flashc.attention(q, k, v, enable_gqa=True, **keywords)
        assert_close((o, want[1]), want)
        both = flashc.attention(q, k, v, enable_gqa=True, return_lse=True, **keywords)
        assert np.array_equal(both[0], o)
    flipped = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (q, k, v)]
    want = attention(q, k, v)
    o = flashc.attention(*flipped, layout="bshd", enable_gqa=True)
    assert_close((o.transpose(0, 2, 1, 3), want[1]), want)
    o = flashc.attention(*(x.astype(np.float16) for x in (q, k, v)), enable_gqa=True)
    assert_close((o, want[1]), want, "float16")


def test_nothing_is_allocated_for_a_log_sum_exp_that_is_not_wanted(rng, monkeypatch):
    q, k, v = inputs(rng, 1, 2, 2, 13, 17, 8)
    shapes, empty = [], source.NumpySource.empty
    monkeypatch.setattr(source.NumpySource, "empty", lambda self, like, shape, dtype: (
        shapes.append(tuple(shape)), empty(self, like, shape, dtype))[1])
    flashc.attention(q, k, v)
    flashc.attention(q, k[:, :, :0], v[:, :, :0])
    assert shapes == [q.shape] * 2
    flashc.attention(q, k, v, out=np.empty_like(q))
    flashc.attention(q, k[:, :, :0], v[:, :, :0], out=(np.empty_like(q), None))
    assert len(shapes) == 2
    flashc.attention(q, k, v, out=np.empty_like(q), return_lse=True)
    assert shapes[2:] == [(1, 2, 13)]


def test_a_place_for_the_log_sum_exp_asks_for_it(rng):
    q, k, v = inputs(rng, 1, 2, 2, 13, 17, 8)
    o, lse = np.full(q.shape, np.nan, np.float32), np.full((1, 2, 13), np.nan, np.float32)
    assert flashc.attention(q, k, v, out=(o, lse)) is o
    assert_close((o, lse), attention(q, k, v))


def test_boolean_mask(rng):
    q, k, v = inputs(rng, 2, 3, 3, 21, 37, 8)
    for shape in ((2, 3, 21, 37), (2, 1, 1, 37), (21, 37), (2, 3, 21, 1), ()):
        keep = rng.random(shape) < 0.6
        got = flashc.attention(q, k, v, mask=keep, return_lse=True)
        assert_close(got, attention(q, k, v, lambda b, h, i, j: np.broadcast_to(keep, (2, 3, 21, 37))))


def test_boolean_mask_of_any_strides(rng):
    q, k, v = inputs(rng, 2, 2, 2, 21, 21, 8)
    keep = rng.random((21, 21)) < 0.6
    for mask in (keep.T, keep[::-1], keep[:, ::-1], np.broadcast_to(keep, (2, 2, 21, 21))):
        got = flashc.attention(q, k, v, mask=mask, return_lse=True)
        assert_close(got, attention(q, k, v, lambda b, h, i, j: np.broadcast_to(mask, (2, 2, 21, 21))))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_additive_mask(rng, dtype):
    q, k, v = inputs(rng, 2, 3, 3, 21, 37, 8)
    for shape in ((2, 3, 21, 37), (1, 3, 21, 37), (2, 1, 1, 37), (21, 1)):
        bias = rng.standard_normal(shape).astype(dtype)
        got = flashc.attention(q, k, v, mask=bias, causal=True, return_lse=True)
        assert_close(got, attention(q, k, v, aligned(21, 37, right=0), lambda s, b, h, i, j: s + bias))


def test_additive_mask_of_minus_infinity(rng):
    q, k, v = inputs(rng, 1, 1, 1, 9, 33, 8)
    bias = np.where(rng.random((9, 33)) < 0.5, 0, -np.inf).astype(np.float32)
    bias[4] = -np.inf
    got = flashc.attention(q, k, v, mask=bias, return_lse=True)
    assert_close(got, attention(q, k, v, lambda b, h, i, j: np.isfinite(bias)[None, None]))
    assert np.all(got[0][0, 0, 4] == 0) and got[1][0, 0, 4] == -np.inf


def test_mask_and_score_together(rng):
    q, k, v = inputs(rng, 2, 3, 3, 21, 37, 8)
    bias = rng.standard_normal((3, 1, 37)).astype(np.float32)
    got = flashc.attention(q, k, v, mask=bias, score=lambda s, b, h, i, j: s * (h + 1), window=9, return_lse=True)
    assert_close(got, attention(q, k, v, aligned(21, 37, 9, 0), lambda s, b, h, i, j: s * (h + 1) + bias))
    keep = rng.random((21, 37)) < 0.5
    got = flashc.attention(q, k, v, mask=keep, score=lambda s, b, h, i, j: s - 0.1 * abs(i - j), return_lse=True)
    assert_close(got, attention(q, k, v, lambda b, h, i, j: keep, lambda s, b, h, i, j: s - 0.1 * abs(i - j)))


def test_rows_without_keys(rng):
    q, k, v = inputs(rng, 1, 2, 2, 40, 9, 8)
    o, lse = flashc.attention(q, k, v, causal=True, return_lse=True)
    assert np.all(o[:, :, :31] == 0) and np.all(lse[:, :, :31] == -np.inf) and np.all(np.isfinite(lse[:, :, 31:]))


@pytest.mark.parametrize("shape", ["B", "H", "Nq", "Nk"])
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_no_elements(shape, layout):
    b, h, nq, nk = (0 if name == shape else extent for name, extent in (("B", 2), ("H", 3), ("Nq", 5), ("Nk", 7)))
    q, k, v = np.ones((b, h, nq, 16), "f4"), np.ones((b, h, nk, 16), "f4"), np.ones((b, h, nk, 8), "f4")
    if layout == "bshd":
        q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    o, lse = flashc.attention(q, k, v, causal=True, return_lse=True, layout=layout)
    assert o.shape == ((b, h, nq, 8) if layout == "bhsd" else (b, nq, h, 8)) and lse.shape == (b, h, nq)
    assert np.all(o == 0) and np.all(lse == -np.inf)
    out = np.full(o.shape, np.nan, "f4")
    assert flashc.attention(q, k, v, out=out, layout=layout) is out and np.all(out == 0)


def test_static_shapes(rng, no_disk):
    for nk in (17, 33):
        q, k, v = inputs(rng, 2, 4, 2, 13, nk, 8)
        for _ in range(2):
            got = flashc.attention(q, k, v, static_shapes=True, enable_gqa=True, return_lse=True)
            assert_close(got, attention(q, k, v))
    assert flashc.statistics().compilations == 2


def test_same_kernel_for_other_shapes(rng, no_disk):
    for _ in range(6):
        b, hk, nq, nk = rng.integers(1, (4, 9, 40, 40))
        q, k, v = inputs(rng, b, hk * 2, hk, nq, nk, 8)
        got = flashc.attention(q, k, v, causal=True, enable_gqa=True, return_lse=True)
        assert_close(got, attention(q, k, v, aligned(nq, nk, right=0)))
    assert flashc.statistics().compilations == 1
