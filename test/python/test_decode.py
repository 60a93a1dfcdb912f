"""flashc.decode on the CPU, against the formula in f64; and what it refuses."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import decoding  # noqa: E402
import flashc  # noqa: E402


def make(lengths, heads=2, group=2, tokens=1, depth=16, value_depth=None, page=0, capacity=None, **keywords):
    cache = decoding.Cache(lengths, heads, depth, value_depth or depth, capacity or max(max(lengths), 1), page, **keywords)
    return cache, torch.randn(len(lengths), tokens, heads * group, depth)


@pytest.mark.parametrize("page", [0, 1, 7, 8, 16, 64])
@pytest.mark.parametrize("tokens", [1, 3])
def test_pages(page, tokens):
    cache, q = make([37, 1, 0, 16, 2], tokens=tokens, page=page)
    decoding.check(cache, q, 1e-5)


@pytest.mark.parametrize("order,interleaved", [("nhd", False), ("hnd", False), ("nhd", True)])
def test_layouts(order, interleaved):
    cache, q = make([20, 33], page=8, order=order, interleaved=interleaved)
    decoding.check(cache, q, 1e-5)
    heads_first = [x.transpose(1, 2) for x in (q, cache.k_cache, cache.v_cache)]
    o = flashc.decode(*heads_first, *cache.arguments()[2:], layout="bhsd")
    assert torch.equal(o.transpose(1, 2), flashc.decode(q, *cache.arguments()))


@pytest.mark.parametrize("heads,group,tokens", [(1, 1, 1), (1, 5, 2), (3, 4, 4), (1, 2, 20)])
def test_rows(heads, group, tokens):
    cache, q = make([30, 5, 41], heads=heads, group=group, tokens=tokens, depth=8, value_depth=24)
    decoding.check(cache, q, 1e-5)


@pytest.mark.parametrize("page", [0, 7, 16])
@pytest.mark.parametrize("tokens", [17, 129])
def test_prefill(page, tokens):
    """Some sequences are shorter than the tokens: queries at negative positions see nothing."""
    cache, q = make([150, 1, 0, 16, 129], tokens=tokens, page=page)
    decoding.check(cache, q, 1e-5)


def test_masks_and_scores():
    cache, q = make([30, 5, 41], tokens=3, page=8)
    slopes = torch.rand(4)
    decoding.check(cache, q, 1e-5, window=7, keep=lambda b, h, i, j: (j <= i) & (j >= i - 7))
    decoding.check(cache, q, 1e-5, causal=False, keep=lambda b, h, i, j: j >= 0)
    decoding.check(cache, q, 1e-5, mask=lambda b, h, i, j: j % 3 != h % 3, keep=lambda b, h, i, j: (j <= i) & (j % 3 != h % 3))
    decoding.check(cache, q, 1e-5, rescore=lambda s, b, h, i, j: s - slopes[h] * (i - j))
    decoding.check(cache, q, 1e-5, sinks=torch.randn(4))


def test_numpy():
    cache, q = make([12, 9], page=4)
    o = flashc.decode(q.numpy(), *(x.numpy() for x in cache.arguments()))
    assert isinstance(o, np.ndarray) and np.array_equal(o, flashc.decode(q, *cache.arguments()).numpy())


def test_out():
    cache, q = make([12, 9])
    out = torch.full_like(q, torch.nan), torch.full((2, 4, 1), torch.nan)
    assert flashc.decode(q, *cache.arguments(), out=out) is out[0]
    o, lse = flashc.decode(q, *cache.arguments(), return_lse=True)
    assert torch.equal(o, out[0]) and torch.equal(lse, out[1])


def test_nothing():
    cache, q = make([3, 2])
    o, lse = flashc.decode(q[:0], cache.k_cache[:0], cache.v_cache[:0], cache.lengths[:0], return_lse=True)
    assert o.shape == (0, 1, 4, 16) and lse.shape == (0, 4, 1)
    o, lse = flashc.decode(q, cache.k_cache[:, :0], cache.v_cache[:, :0], 0 * cache.lengths, return_lse=True)
    assert not o.any() and (lse == -torch.inf).all()


REFUSALS = [
    (dict(lengths=torch.tensor([3])), "expected lengths of shape"),
    (dict(lengths=torch.tensor([3, 2])), "expected lengths of i32, got i64"),
    (dict(block_table=torch.tensor([3, 2], dtype=torch.int32)), "expected block_table of shape"),
    (dict(mask=torch.ones(1, dtype=torch.bool)), "expected mask to be a function"),
    (dict(layout="sbhd"), "expected layout 'bhsd'"),
    (dict(v_cache=torch.randn(2, 4, 2, 16)), "expected k_cache and v_cache of as many rows"),
    (dict(q=torch.randn(2, 1, 3, 16)), "expected the heads of q to be a multiple"),
    (dict(q=torch.randn(2, 4, 16)), "expected q of 4 dimensions"),
]


@pytest.mark.parametrize("changed,message", REFUSALS, ids=[message for _, message in REFUSALS])
def test_refusals(changed, message):
    cache, q = make([3, 2])
    arguments = dict(q=q, k_cache=cache.k_cache, v_cache=cache.v_cache, lengths=cache.lengths) | changed
    with pytest.raises(flashc.Error, match=message):
        flashc.decode(**arguments)
