"""Appends new tokens to caches on the CPU, and compares with loops in f64. Elements that are not written keep their
bits."""
import numpy as np
import pytest

import flashc
from appended import append, make_angles, make_positions, make_table, pack

PAGE_SIZES = [1, 2, 3, 7, 16, 63, 64, 65, 128, 256]


def check(k_cache, v_cache, k, v, table, positions, counts=None, rotary=None, offsets=None, rows=None,
          **keywords):
    """With `offsets`, `rows` of k and v are appended as packed tokens.
    Checks that the caches contain their old elements and the new tokens. NaN equals NaN here."""
    want_k, want_v = np.array(k_cache, np.float64), np.array(v_cache, np.float64)
    append(want_k, want_v, k, v, table, positions, counts, rotary)
    before = np.array(k_cache, np.float64)
    if offsets is not None:
        k, v = (x.reshape(-1, *x.shape[2:])[rows] for x in (k, v))
        counts = None
    assert flashc.append_kv(k_cache, v_cache, k, v, table, positions, counts=counts, rotary=rotary, cu_seqlens=offsets,
                            **keywords) is None
    assert np.array_equal(np.float64(v_cache), want_v, equal_nan=True)
    got = np.float64(k_cache)
    if rotary is None:
        assert np.array_equal(got, want_k, equal_nan=True)
        return
    limit = 2e-3 if k_cache.dtype == np.float16 else 2e-6
    assert np.allclose(got, want_k, rtol=limit, atol=limit, equal_nan=True)
    kept = (want_k == before) | np.isnan(want_k) & np.isnan(before)
    assert np.array_equal(got[kept], before[kept], equal_nan=True)


def make_caches(rng, shape, depth, value_depth, dtype, layout="nhd"):
    """Returns caches that are partly NaN. `layout` is "nhd", "hnd", or "both" for K and V in one allocation."""
    def fill(*extents):
        x = rng.standard_normal(extents).astype(dtype)
        x[rng.random(extents) < 0.5] = np.nan
        return x
    outer, rows, heads = shape
    if layout == "both":
        both = fill(outer, rows, heads, depth + value_depth)
        return both[..., :depth], both[..., depth:]
    if layout == "hnd":
        return fill(outer, heads, rows, depth).swapaxes(1, 2), fill(outer, heads, rows, value_depth).swapaxes(1, 2)
    return fill(outer, rows, heads, depth), fill(outer, rows, heads, value_depth)


def make_news(rng, batch, tokens, heads, depth, value_depth, dtype):
    return (rng.standard_normal((batch, tokens, heads, depth)).astype(dtype),
            rng.standard_normal((batch, tokens, heads, value_depth)).astype(dtype))


def check_paged(rng, page, layout="nhd", dtype=np.float16, depth=16, value_depth=16, with_counts=None, rotary=None):
    batch, tokens, heads = int(rng.choice([1, 2, 5, 7])), int(rng.choice([1, 2, 63, 65, 17])), int(rng.integers(1, 4))
    slots = int(rng.integers(1, 5))
    pages = max(1, batch * slots + int(rng.integers(-2, 4)))
    caches = make_caches(rng, (pages, page, heads), depth, value_depth, dtype, layout)
    news = make_news(rng, batch, tokens, heads, depth, value_depth, dtype)
    positions = make_positions(rng, batch, tokens, slots * page, page)
    counts = None
    if with_counts or (with_counts is None and rng.integers(2)):
        counts = rng.choice([0, -1, 1, tokens, tokens + 1, tokens // 2], batch).astype(np.int32)
    check(*caches, *news, make_table(rng, batch, slots, pages), positions, counts, rotary)


@pytest.mark.parametrize("layout", ["nhd", "hnd", "both"])
@pytest.mark.parametrize("page", PAGE_SIZES)
def test_pages(rng, page, layout):
    for _ in range(4):
        check_paged(rng, page, layout)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("depth, value_depth", [(1, 1), (8, 8), (64, 128), (128, 64), (12, 20), (65, 33), (192, 128)])
def test_depths(rng, depth, value_depth, dtype):
    for _ in range(3):
        check_paged(rng, int(rng.choice(PAGE_SIZES)), dtype=dtype, depth=depth, value_depth=value_depth)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype, angle", [(np.float32, np.float32), (np.float16, np.float32), (np.float16, np.float16)])
@pytest.mark.parametrize("depth, rotated", [(16, 16), (64, 32), (128, 128), (20, 12), (10, 2), (80, 80)])
def test_rotary(rng, depth, rotated, dtype, angle, interleaved):
    for rows in (1, 50, 2000):
        cos, sin = (x.astype(angle) for x in make_angles(rng, rows, rotated // 2))
        check_paged(rng, int(rng.choice([1, 16, 63])), dtype=dtype, depth=depth, value_depth=24,
                    rotary=(cos, sin, interleaved))


@pytest.mark.parametrize("layout", ["nhd", "hnd", "both"])
def test_contiguous(rng, layout):
    for length in (1, 63, 65, 97):
        batch, tokens = 3, int(rng.choice([1, 2, 63]))
        caches = make_caches(rng, (batch, length, 2), 16, 16, np.float16, layout)
        news = make_news(rng, batch, tokens, 2, 16, 16, np.float16)
        positions = make_positions(rng, batch, tokens, length, length)
        rotary = (*(x.astype(np.float32) for x in make_angles(rng, 80, 8)), False)
        check(*caches, *news, None, positions)
        check(*caches, *news, None, positions, np.array([0, 1, tokens], np.int32), rotary)


def test_counts(rng):
    for _ in range(5):
        check_paged(rng, 16, with_counts=True)


@pytest.mark.parametrize("page", [1, 16, None])
@pytest.mark.parametrize("interleaved", [None, False, True])
def test_packed_tokens(rng, page, interleaved):
    """Each sequence has its own number of tokens. Rows that no sequence has are not written."""
    for _ in range(4):
        batch, tokens, slots = int(rng.choice([1, 2, 5, 7])), int(rng.choice([1, 2, 63, 65])), int(rng.integers(1, 5))
        rotary = None if interleaved is None else (*make_angles(rng, 99, 4), interleaved)
        rotary = rotary and (*(x.astype(np.float32) for x in rotary[:2]), interleaved)
        counts, offsets, rows = pack(rng, batch, tokens)
        news = make_news(rng, batch, tokens, 2, 16, 8, np.float32)
        pages = batch * slots
        caches = make_caches(rng, (pages, page, 2) if page else (batch, 99, 2), 16, 8, np.float32)
        table = make_table(rng, batch, slots, pages) if page else None
        positions = make_positions(rng, batch, tokens, slots * page if page else 99, page or 99)
        check(*caches, *news, table, positions, counts, rotary, offsets, rows)


def test_new_tokens_of_any_strides(rng):
    """Keys and values are parts of one array, as a projection leaves them."""
    both = rng.standard_normal((2, 5, 3, 40)).astype(np.float16)
    caches = make_caches(rng, (2, 9, 3), 16, 24, np.float16)
    check(*caches, both[..., :16], both[..., 16:], None, np.array([2, 7], np.int32))


def test_interleaved_pages(rng):
    """Pages are [pages, 2, page, Hk, D], as in FlashInfer."""
    both = rng.standard_normal((6, 2, 16, 3, 8)).astype(np.float32)
    news = make_news(rng, 2, 20, 3, 8, 8, np.float32)
    check(both[:, 0], both[:, 1], *news, make_table(rng, 2, 3, 6), np.array([5, 31], np.int32))


def test_steps_make_a_sequence(rng):
    """Appending tokens one by one gives the same as appending all of them at once."""
    shape = (8, 4, 2)
    once, steps = ([np.zeros((*shape, 8), np.float32) for _ in range(2)] for _ in range(2))
    k, v = make_news(rng, 2, 13, 2, 8, 8, np.float32)
    table = rng.permutation(8).astype(np.int32).reshape(2, 4)
    flashc.append_kv(*once, k, v, table, np.zeros(2, np.int32))
    for t in range(13):
        flashc.append_kv(*steps, k[:, t:t + 1], v[:, t:t + 1], table, np.full(2, t, np.int32))
    assert all(np.array_equal(a, b) for a, b in zip(once, steps))


def test_torch(rng):
    torch = pytest.importorskip("torch")
    cache = torch.zeros(5, 3, 16, 8, dtype=torch.bfloat16)
    other, k, v = cache.clone(), *torch.randn(2, 2, 7, 3, 8).bfloat16()
    table = torch.tensor([[3, 1], [4, 0]], dtype=torch.int32)
    flashc.append_kv(cache.transpose(1, 2), other.transpose(1, 2), k, v, table, torch.tensor([12, 0],
                                                                                             dtype=torch.int32))
    assert torch.equal(cache[3, :, 12:].transpose(0, 1), k[0, :4]) and torch.equal(cache[1, :, :3].transpose(0, 1),
                                                                                   k[0, 4:])
    assert torch.equal(other[4, :, :7].transpose(0, 1), v[1]) and not cache[2].any() and not other[2].any()
    with pytest.raises(flashc.Error, match="k without gradients"):
        flashc.append_kv(cache.transpose(1, 2), other.transpose(1, 2), k.requires_grad_(), v, table,
                         torch.tensor([12, 0], dtype=torch.int32))


def test_nothing_to_write(rng):
    cache, other = make_caches(rng, (2, 4, 1), 8, 8, np.float32)
    before = cache.copy(), other.copy()
    none = np.zeros((2, 0, 1, 8), np.float32)
    flashc.append_kv(cache, other, none, none, None, np.zeros(2, np.int32))
    new = np.zeros((2, 3, 1, 8), np.float32)
    flashc.append_kv(cache, other, new, new, np.zeros((2, 0), np.int32), np.zeros(2, np.int32))
    assert np.array_equal(cache, before[0], equal_nan=True) and np.array_equal(other, before[1], equal_nan=True)


def arguments():
    return dict(k_cache=np.zeros((4, 16, 2, 8), np.float32), v_cache=np.zeros((4, 16, 2, 8), np.float32),
                k=np.zeros((2, 3, 2, 8), np.float32), v=np.zeros((2, 3, 2, 8), np.float32),
                block_table=np.zeros((2, 2), np.int32), positions=np.zeros(2, np.int32))


ANGLES, SHARED = np.zeros((9, 4), np.float32), np.zeros((4, 16, 2, 8), np.float32)
ROWS = np.zeros((6, 2, 8), np.float32)


@pytest.mark.parametrize("change, error, words", [
    (dict(positions=None), flashc.ArgumentError, r"positions, \[B\] in int32, got None"),
    (dict(positions=np.zeros(2, np.float32)), flashc.UnsupportedTypeError, "positions of int32, got f32"),
    (dict(positions=np.zeros(3, np.int32)), flashc.ArgumentError, r"positions of shape \[B\] = \[2\], got \(3,\)"),
    (dict(counts=np.zeros(3, np.int32)), flashc.ArgumentError, r"counts of shape \[B\] = \[2\], got \(3,\)"),
    (dict(block_table=np.zeros((3, 2), np.int32)), flashc.ArgumentError, r"block_table of shape \[B, M\] = \[2, 2\]"),
    (dict(block_table=np.zeros(2, np.int32)), flashc.ArgumentError, r"block_table of shape \[B, M\]"),
    (dict(k=np.zeros((2, 3, 8), np.float32)), flashc.ArgumentError, "k and v of 4 dimensions"),
    (dict(cu_seqlens=[0, 1, 2]), flashc.ArgumentError, r"k and v of 3 dimensions \[total, Hk, D\] together with cu"),
    (dict(cu_seqlens=[0, 1, 2], counts=[1, 1]), flashc.ArgumentError, "no counts and no q together with cu_seqlens"),
    (dict(cu_seqlens=[0, 1], k=ROWS, v=ROWS), flashc.ArgumentError, r"cu_seqlens of shape \[B \+ 1\] = \[3\], got"),
    (dict(cu_seqlens=[0, 1, 2], k=ROWS, v=ROWS[:2]), flashc.ArgumentError, r"v of shape \[total, Hk, Dv\] = \[6, 2, 8"),
    (dict(k=np.zeros((2, 3, 2, 8), np.int32)), flashc.UnsupportedTypeError, "k of bf16, f16 or f32, got int32"),
    (dict(v=np.zeros((2, 3, 1, 8), np.float32)), flashc.ArgumentError, r"v of shape \[B, T, Hk, Dv\] = \[2, 3, 2, 8\]"),
    (dict(v=np.zeros((2, 3, 2, 8), np.float16)), flashc.UnsupportedTypeError, "v of f32, got f16"),
    (dict(k=np.zeros((2, 3, 2, 16), np.float32)[..., ::2]), flashc.ArgumentError, "last dimension of k"),
    (dict(k_cache=np.zeros((4, 16, 2, 16), np.float32)), flashc.ArgumentError, "k_cache of shape"),
    (dict(v_cache=np.zeros((4, 16, 2, 8), np.float16)), flashc.UnsupportedTypeError, "v_cache of f32, got f16"),
    (dict(v_cache=np.zeros((5, 16, 2, 8), np.float32)), flashc.ArgumentError, "k_cache and v_cache of one shape"),
    (dict(k_cache=np.zeros((4, 2, 16, 8), np.float32)), flashc.ArgumentError, "k_cache of shape"),
    (dict(block_table=None), flashc.ArgumentError, r"k_cache of shape \[B, N, Hk, D\] for k"),
    (dict(k_cache=SHARED, v_cache=SHARED), flashc.ArgumentError, "k_cache to be apart from v_cache"),
    (dict(k_cache=np.broadcast_to(np.float32(0), (4, 16, 2, 8))), flashc.ArgumentError, "can be written|of its own"),
    (dict(rotary=(ANGLES, ANGLES)), flashc.ArgumentError, r"rotary to be \(cos, sin, interleaved\)"),
    (dict(rotary=(ANGLES, ANGLES[:5], True)), flashc.ArgumentError, r"sin of shape \[positions, R / 2\] = \[9, 4\]"),
    (dict(rotary=(np.zeros((9, 5), np.float32),) * 2 + (True,)), flashc.ArgumentError, "R from 2 to D = 8"),
    (dict(rotary=(ANGLES.astype(np.float16),) * 2 + (True,)), flashc.UnsupportedTypeError,
     "cos of f32 or, as k, of f32"),
    (dict(rotary=(ANGLES, ANGLES.astype(np.float16), True)), flashc.UnsupportedTypeError, "sin of f32, got f16")
])
def test_refusals(change, error, words):
    with pytest.raises(error, match=words):
        flashc.append_kv(**(arguments() | change))


def test_caches_apart_from_tokens():
    given = arguments()
    with pytest.raises(flashc.ArgumentError, match="v_cache to be apart from k, got arrays that share memory"):
        flashc.append_kv(**(given | dict(k=given["v_cache"][:2, :3])))
