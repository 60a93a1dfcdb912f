"""Serving steps on a GPU, against the formula in f64: append_kv with rotary embedding, and then decode, with the sizes,
caches and masks of serving. Skipped where there is no GPU."""
import itertools

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import decoding  # noqa: E402
import flashc  # noqa: E402

#: Each case: the number of queries, and the number of rows of the cache.
SIZES = [(1, 128), (1, 339), (3, 1024), (64, 800), (64, 256), (3, 799), (64, 2048), (16, 20000), (1, 65536), (128, 128),
         (259, 300)]
LIMIT = 8e-3


def rotate(x, first, cos, sin, interleaved):
    """Rotates x [T, H, D], whose first token is at position `first`, in f64."""
    half = cos.shape[1]
    c, s = (angles[first:first + len(x)].double()[:, None] for angles in (cos, sin))
    a, b = (x[..., :2 * half:2], x[..., 1:2 * half:2]) if interleaved else (x[..., :half], x[..., half:2 * half])
    rotated = torch.stack([a * c - b * s, b * c + a * s], -1).flatten(-2) if interleaved else \
        torch.cat([a * c - b * s, b * c + a * s], -1)
    return torch.cat([rotated, x[..., 2 * half:]], -1)


def step(queries, keys, new, page, heads, group, depth, rotary, *, padded=False, **keywords):
    """Appends `new` tokens to sequences of random lengths, and computes attention of the last `queries` tokens. With
    `padded`, the first keys of a sequence do not belong to it."""
    batch = 3
    length = torch.randint(max(queries - new, 0), keys - new + 1, (batch,))
    length[0] = keys - new
    cache = decoding.Cache(length.tolist(), heads, depth, depth, keys, page, "cuda", torch.bfloat16)
    if page:  # appended tokens need pages, so every slot gets a page
        slots = cache.table.shape[1]
        table = torch.randperm(batch * slots).int().view(batch, slots).cuda()
        filled = []
        for x in (cache.k, cache.v):
            pages = torch.full((batch * slots + 3, page, heads, depth), torch.nan, device="cuda", dtype=torch.bfloat16)
            for b, n in enumerate(length.tolist()):
                rows = torch.full((slots * page, heads, depth), torch.nan, device="cuda", dtype=torch.bfloat16)
                rows[:n] = x[b, :n]
                pages[table[b].long()] = rows.view(slots, page, heads, depth)
            filled.append(pages)
        (cache.k_cache, cache.v_cache), cache.table = filled, table
    old = cache.lengths
    total = old + new
    q = torch.randn(batch, queries, heads * group, depth, device="cuda").bfloat16()
    if new:
        k, v = (torch.randn(batch, new, heads, depth, device="cuda").bfloat16() for _ in range(2))
        flashc.append_kv(cache.k_cache, cache.v_cache, k, v, cache.table, old, rotary=rotary)
        for b, n in enumerate(old.tolist()):
            cache.v[b, n:n + new] = v[b]
            cache.k[b, n:n + new] = k[b] if rotary is None else rotate(k[b].double(), n, *rotary).bfloat16()
    if rotary is not None:
        q = torch.stack([rotate(q[b].double(), n - queries, *rotary).bfloat16() for b, n in enumerate(total.tolist())])
    cache.lengths = total
    if padded:
        first = (total // 3).int()
        keywords["mask"] = lambda b, h, i, j: j >= first[b]
        keywords["keep"] = lambda b, h, i, j: (j <= i) & (j >= first[int(b)])
    decoding.check(cache, q, LIMIT, **keywords)


@pytest.mark.parametrize("queries,keys", SIZES)
@pytest.mark.parametrize("page", [0, 16, 256])
@pytest.mark.parametrize("heads,group", [(6, 1), (2, 3), (1, 6)])
def test_sizes(queries, keys, page, heads, group):
    step(queries, keys, queries, page, heads, group, 128, None)


@pytest.mark.parametrize("queries,keys", SIZES[:6])
@pytest.mark.parametrize("interleaved,half", itertools.product([False, True], [16, 32]))
@pytest.mark.parametrize("page", [0, 64])
def test_rotary(queries, keys, interleaved, half, page):
    angles = torch.rand(keys, half, device="cuda") * 6.3
    step(queries, keys, queries, page, 2, 3, 64, (angles.cos(), angles.sin(), interleaved))


@pytest.mark.parametrize("queries,new", [(1, 3), (2, 64), (16, 100), (64, 200), (3, 1)])
@pytest.mark.parametrize("page", [0, 1, 16, 256])
def test_new_keys_are_more_than_queries_or_fewer(queries, new, page):
    step(queries, 800, new, page, 2, 4, 128, None)


@pytest.mark.parametrize("queries,keys", [(1, 339), (3, 1024), (64, 800), (16, 20000)])
@pytest.mark.parametrize("page", [0, 64])
def test_padding_on_the_left(queries, keys, page):
    step(queries, keys, queries, page, 2, 4, 128, None, padded=True)


@pytest.mark.parametrize("queries,keys", [(1, 339), (3, 1024), (64, 800), (16, 20000)])
@pytest.mark.parametrize("depth", [64, 96, 192, 256])
def test_windows_and_slopes(queries, keys, depth):
    slopes = torch.rand(8, device="cuda") * 0.1
    step(queries, keys, queries, 16, 2, 4, depth, None, window=100, keep=lambda b, h, i, j: (j <= i) & (j >= i - 100),
         rescore=lambda s, b, h, i, j: s - slopes[h] * (i - j))
    step(queries, keys, queries, 16, 2, 4, depth, None, rescore=lambda s, b, h, i, j: 15 * (s / 15).tanh())


@pytest.mark.parametrize("queries", [1, 4, 64])
def test_without_causality(queries):
    step(queries, 1000, queries, 16, 2, 4, 128, None, causal=False, keep=lambda b, h, i, j: j >= 0)


@pytest.mark.parametrize("tokens", [17, 33, 64, 129, 250])
@pytest.mark.parametrize("page", [0, 16])
@pytest.mark.parametrize("depth", [64, 128])
def test_a_prompt_against_a_long_cache(tokens, page, depth):
    """There are too few tiles of queries to fill the GPU, so either kernel cuts the keys into parts. Bits are equal
    each time."""
    cache = decoding.Cache([20000, 3], 2, depth, depth, 20011 if not page else 20016, page, "cuda", torch.bfloat16)
    q = torch.randn(2, tokens, 16, depth, device="cuda").bfloat16()
    sinks = torch.randn(16, device="cuda")
    first = decoding.check(cache, q, LIMIT, sinks=sinks)
    assert torch.equal(first, decoding.check(cache, q, LIMIT, sinks=sinks))
    decoding.check(cache, q, LIMIT, window=5000, keep=lambda b, h, i, j: (j <= i) & (j >= i - 5000))
    decoding.check(cache, q, LIMIT, splits=5)


@pytest.mark.parametrize("tokens", [40, 100])
def test_a_mask_by_arrays_of_a_prompt(tokens):
    """The bounds of the mask are runs in a table, so the keys are not cut into parts."""
    cache = decoding.Cache([9000, 4000], 2, 128, 128, 9000, 0, "cuda", torch.bfloat16)
    q = torch.randn(2, tokens, 16, 128, device="cuda").bfloat16()
    ids = torch.randint(0, 3, (9000,), device="cuda", dtype=torch.int32).sort().values
    decoding.check(cache, q, LIMIT, keep=lambda b, h, i, j: (j <= i) & (ids[i] == ids[j]),
                   mask=lambda b, h, i, j: ids[i] == ids[j])
