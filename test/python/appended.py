"""A reference for appending keys and values to caches, and random arguments for it."""
import numpy as np


def append(k_cache, v_cache, k, v, table, positions, counts=None, rotary=None):
    """Appends to caches of float64. Tokens that have no place in a cache are dropped."""
    k = np.array(k, np.float64)
    length = k_cache.shape[1] if table is None else table.shape[1] * k_cache.shape[1]
    for b in range(k.shape[0]):
        for t in range(k.shape[1] if counts is None else min(max(int(counts[b]), 0), k.shape[1])):
            position = int(positions[b]) + t
            page, row = b, position
            if not 0 <= position < (length if rotary is None else min(length, len(rotary[0]))):
                continue
            if table is not None:
                page, row = int(table[b, position // k_cache.shape[1]]), position % k_cache.shape[1]
                if not 0 <= page < k_cache.shape[0]:
                    continue
            k_cache[page, row] = k[b, t] if rotary is None else rotate(k[b, t], position, *rotary)
            v_cache[page, row] = v[b, t]


def pack(rng, batch, tokens):
    """Returns the number of tokens of each of `batch` sequences, at most `tokens` and often none, their offsets, and
    the rows of these tokens in an array [batch, tokens] whose first two dimensions are merged. Four rows follow that
    no sequence has."""
    counts = rng.choice([0, 1, tokens, tokens // 2], batch).astype(np.int32)
    rows = np.concatenate([b * tokens + np.arange(count) for b, count in enumerate(counts)] + [np.zeros(4, np.int64)])
    return counts, np.concatenate([[0], np.cumsum(counts)]).astype(np.int32), rows.astype(np.int64)


def rotate(x, position, cos, sin, interleaved):
    """Rotates the rows of one token."""
    cos, sin = (np.asarray(angles[position], np.float64) for angles in (cos, sin))
    half, x = len(cos), x.copy()
    first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else \
        (slice(0, half), slice(half, 2 * half))
    a, b = x[..., first].copy(), x[..., second].copy()
    x[..., first], x[..., second] = a * cos - b * sin, b * cos + a * sin
    return x


def make_table(rng, batch, slots, pages):
    """Gives every slot a page of its own while there are pages left. The other slots get -1 or a page number out of
    range."""
    table = np.array([-1, pages, pages + 1, -2**31, 2**31 - 1], np.int32)[rng.integers(0, 5, (batch, slots))]
    count = min(pages, batch * slots)
    places = rng.permutation(batch * slots)[:count]
    table.reshape(-1)[places] = rng.permutation(pages)[:count]
    return table


def make_positions(rng, batch, tokens, length, page):
    """Chooses positions at random, and at both sides of the ends of pages and of the cache."""
    edges = [0, page - 1, page, page - tokens, length - 1, length - tokens, length, -1, -tokens, -2**31, 2**31 - 1]
    chosen = np.where(rng.random(batch) < 0.5, rng.integers(0, length + 1, batch), rng.choice(edges, batch))
    return chosen.astype(np.int32)


def make_angles(rng, rows, half):
    """Returns cos and sin of rotary embeddings with random frequencies."""
    angles = np.arange(rows)[:, None] * np.exp(-rng.random(half) * 6)
    return np.cos(angles), np.sin(angles)
