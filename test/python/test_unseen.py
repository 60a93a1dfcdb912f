"""Elements that no query sees are not multiplied, so they may be NaN: attention and its gradients on the CPU, with
masks of data."""
import numpy as np
import pytest

import flashc
from flashc import masks
from reference import attention, attention_backward, inputs

LENGTHS = [3, 0, 65, 1, 63, 5]
BAD = [np.nan, np.inf, -np.inf]


def offsets(lengths):
    return np.cumsum([0, *lengths]).astype(np.int32)


def packed(rng, n, keywords, rule):
    """Returns the mask of packed sequences, with rows after the last sequence, and the pairs that it keeps."""
    starts = offsets(LENGTHS)
    number = np.searchsorted(starts, np.arange(n), side="right")
    seen = (number[:, None] == number) & (number[:, None] < len(starts)) & rule(np.arange(n)[:, None], np.arange(n))
    return masks.packed(starts, **keywords), seen[None, None]


CASES = {
    "packed": lambda rng, n: packed(rng, n, {}, lambda i, j: j >= 0),
    "packed, causal": lambda rng, n: packed(rng, n, dict(causal=True), lambda i, j: j <= i),
    "packed, window": lambda rng, n: packed(rng, n, dict(window=(9, 2)), lambda i, j: (j >= i - 9) & (j <= i + 2)),
    "key padding": lambda rng, n: (masks.key_padding(np.array([21, 90])),
                                   np.arange(n) < np.array([21, 90])[:, None, None, None]),
    "left padding": lambda rng, n: ((lambda start: lambda b, h, i, j: (j >= start[b]) & (j <= i))(np.array([65, 7])),
                                    (np.arange(n) >= np.array([65, 7])[:, None, None, None]) & np.tri(n, dtype=bool)),
    "documents": lambda rng, n: (lambda ids: (masks.documents(ids, sorted=True), (ids[:, None] == ids)[None, None]))(
        np.sort(rng.integers(0, 4, n))),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", CASES)
def test_hidden_positions(name, bad, rng):
    """Rows that no pair uses are set to `bad`, and so are all rows after a cut that no pair crosses. The results of
    the other rows must not change."""
    n, d = 151, 16
    mask, seen = CASES[name](rng, n)
    batch = 2
    seen = np.broadcast_to(seen, (batch, 1, n, n))
    q, k, v = inputs(rng, batch, 2, 1, n, n, d)
    do = rng.standard_normal(q.shape).astype(np.float32)
    keep = lambda b, h, i, j: seen[b, 0, i, j]  # noqa: E731
    o, lse = attention(q, k, v, keep)
    want = attention_backward(q, k, v, o, lse, do, keep=keep)
    # If no pair connects the positions before a cut with those after it, neither side affects the other's results.
    pairs = np.broadcast_to(seen.any(0)[0], (n, n))
    pairs = pairs | pairs.T
    cut = next((c for c in range(n // 3, n) if not pairs[:c, c:].any()), None)
    hidden = np.zeros((batch, n), bool)
    if cut is not None:
        hidden[:, cut:] = True
    unseen = ~seen.any(2)[:, 0] & ~seen.any(3)[:, 0] | hidden
    keys, queries = unseen | ~seen.any(2)[:, 0], unseen | ~seen.any(3)[:, 0]
    assert keys.any()
    for x, rows in ((k, keys), (v, keys), (q, unseen), (do, unseen), (o, unseen), (lse, unseen)):
        np.moveaxis(x, 2, 1)[rows] = bad
    got = flashc.attention(q, k, v, mask=mask, enable_gqa=True, return_lse=True)
    for b in range(batch):
        rows = ~unseen[b]
        assert np.abs(got[0][b][:, rows] - o[b][:, rows]).max() < 1e-4
        assert np.array_equal(np.isinf(got[1][b][:, rows]), np.isinf(lse[b][:, rows]))
    gradients = flashc.attention_backward(q, k, v, o.astype(np.float32), lse.astype(np.float32), do, mask=mask,
                                          enable_gqa=True)
    for b in range(batch):
        for x, y, rows in zip(gradients, want, (~unseen[b], ~keys[b], ~keys[b])):
            assert np.abs(np.asarray(x)[b][:, rows] - y[b][:, rows]).max() < 1e-3, name


@pytest.mark.parametrize("keywords", [{}, dict(causal=True), dict(window=(4, 1))])
def test_rows_after_the_last_offset(keywords, rng):
    """Rows after the last offset see nothing (o = 0 and lse = -inf), and nothing sees them."""
    starts, key_starts, n = offsets([5, 0, 30]), offsets([9, 2, 40]), 70
    q, k, v = (rng.standard_normal((n, 2, 16)).astype(np.float32) for _ in "qkv")
    want = flashc.varlen_attention(q[:35], k[:51], v[:51], starts, key_starts, return_lse=True, **keywords)
    q[35:], k[51:], v[51:] = np.nan, np.nan, np.nan
    o, lse = flashc.varlen_attention(q, k, v, starts, key_starts, return_lse=True, **keywords)
    assert np.array_equal(o[:35], want[0]) and np.array_equal(lse[:, :35], want[1])
    assert not o[35:].any() and np.all(lse[:, 35:] == -np.inf)
    same = flashc.varlen_attention(q, q, q, starts, **keywords)
    assert not same[35:].any() and np.isfinite(same[:35]).all()


def test_a_visible_nan_is_seen(rng):
    q, k, v = inputs(rng, 1, 1, 1, 70, 70, 16)
    v[0, 0, 30, 3] = np.nan
    o = flashc.attention(q, k, v, causal=True)
    assert np.isnan(o[0, 0, 30:, 3]).all() and np.isfinite(o[0, 0, :30]).all() and np.isfinite(o[..., :3]).all()
