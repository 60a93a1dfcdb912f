"""Rows that no query sees may be NaN on a GPU, forward and backward: padding, rows after the last offset, other packed
sequences, and keys of caches before a window. Skipped where there is no GPU.

Results must be the same as if these rows held numbers."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import decoding  # noqa: E402
import flashc  # noqa: E402
from flashc import masks  # noqa: E402
from .tensors import qkv  # noqa: E402

BAD = [float("nan"), float("inf")]
#: Lengths of sequences: LONG ones have tiles of their own, SHORT ones share tiles.
LONG, SHORT = [700, 1, 300, 0, 1000, 129, 63], [65, 3, 0, 1, 63, 64, 8] * 3
KEYWORDS = [{}, dict(causal=True), dict(window=(40, 3))]


def offsets(lengths):
    return torch.tensor([0, *lengths], device="cuda").cumsum(0, dtype=torch.int32)


def run(mask, q, k, v, do):
    """Returns o, lse, dq, dk and dv."""
    o, lse = flashc.attention(q, k, v, mask=mask, enable_gqa=True, return_lse=True)
    return o, lse, *flashc.attention_backward(q, k, v, o, lse, do, mask=mask, enable_gqa=True)


def is_same(name, x, y):
    """Returns whether bits are equal. dq need only be close, since it is summed in any order."""
    return torch.equal(x, y) if name != "dq" else torch.allclose(x.float(), y.float(), atol=0.02, rtol=0.02)


def check(mask, arrays, keys, queries, bad):
    """`keys` and `queries` [B, N] say which rows exist. The other rows become `bad`."""
    want = run(mask, *arrays)
    q, k, v, do = (x.clone() for x in arrays)
    for x, rows in ((q, queries), (do, queries), (k, keys), (v, keys)):
        x.transpose(1, 2)[~rows] = bad
    got = run(mask, q, k, v, do)
    for name, x, y, rows in zip(("o", "lse", "dq", "dk", "dv"), got, want, (queries, queries, queries, keys, keys)):
        assert is_same(name, x.transpose(1, 2)[rows], y.transpose(1, 2)[rows]), name
    assert all(x.isfinite().all() for x in (*got[:1], *got[2:])) or queries.all()
    for gradient in got[3:]:
        assert not gradient.transpose(1, 2)[~keys].any()


def before(lengths, n):
    return torch.arange(n, device="cuda") < torch.tensor(lengths, device="cuda")[:, None]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("n", [65, 331])
def test_padding(n, d, bad):
    lengths = torch.tensor([21, n], device="cuda")
    arrays = [*qkv(2, 4, 2, n, n, d), torch.randn(2, 4, n, d, device="cuda").bfloat16()]
    everything = torch.ones(2, n, dtype=torch.bool, device="cuda")
    for mask in (masks.key_padding(lengths), masks.key_padding(lengths) & masks.causal()):
        check(mask, arrays, before([21, n], n), everything, bad)
    starts = n - lengths
    check(lambda b, h, i, j: (j >= starts[b]) & (j <= i), arrays, ~before([n - 21, 0], n), ~before([n - 21, 0], n), bad)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("keywords", KEYWORDS)
@pytest.mark.parametrize("lengths", [LONG, SHORT], ids=["long", "short"])
def test_rows_after_the_last_offset(lengths, keywords, d, bad):
    total = sum(lengths)
    n = total + 77
    arrays = [*qkv(1, 4, 2, n, n, d), torch.randn(1, 4, n, d, device="cuda").bfloat16()]
    mask = masks.packed(offsets(lengths), **keywords)
    check(mask, arrays, before([total], n), before([total], n), bad)
    o, lse = flashc.attention(*arrays[:3], mask=mask, enable_gqa=True, return_lse=True)
    assert not o[:, :, total:].any() and (lse[:, :, total:] == -torch.inf).all()
    alone = flashc.attention(*(x[:, :, :total].contiguous() for x in arrays[:3]), mask=mask, enable_gqa=True)
    assert (o[:, :, :total].float() - alone.float()).abs().max() < 2e-2


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("keywords", KEYWORDS)
def test_other_sequences(keywords, d, bad):
    """A sequence that has tiles of its own is not affected by bad keys and values of other sequences, and its gradients
    are not affected by bad values."""
    starts, n = offsets(LONG), sum(LONG)
    arrays = [*qkv(1, 4, 2, n, n, d), torch.randn(1, 4, n, d, device="cuda").bfloat16()]
    mask = masks.packed(starts, **keywords)
    want = run(mask, *arrays)
    q, k, v, do = arrays
    for number in (0, 2, 5):
        begin, end = starts[number].item(), starts[number + 1].item()
        rows = torch.ones(n, dtype=torch.bool, device="cuda")
        rows[begin:end] = False
        bad_k, bad_v = k.clone(), v.clone()
        bad_k[:, :, begin:end] = bad_v[:, :, begin:end] = bad
        o, lse = flashc.attention(q, bad_k, bad_v, mask=mask, enable_gqa=True, return_lse=True)
        assert torch.equal(o[:, :, rows], want[0][:, :, rows]) and torch.equal(lse[:, :, rows], want[1][:, :, rows])
        assert o[:, :, ~rows].isnan().any()
        for name, x, y in zip(("o", "lse", "dq", "dk", "dv"), run(mask, q, k, bad_v, do), want):
            assert is_same(name, x[:, :, rows], y[:, :, rows]), name


@pytest.mark.parametrize("keywords", KEYWORDS)
def test_offsets_of_keys_below_the_rows(keywords):
    starts, key_starts = offsets([300, 0, 150]), offsets([100, 40, 333])
    nq, nk, d = 500, 600, 64
    arrays = [*qkv(1, 4, 2, nq, nk, d), torch.randn(1, 4, nq, d, device="cuda").bfloat16()]
    check(masks.packed(starts, key_starts, **keywords), arrays, before([473], nk), before([450], nq), float("nan"))


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("page", [0, 1, 8, 16, 24, 64, 256])
@pytest.mark.parametrize("entry", [-1, None])
def test_keys_before_a_window_are_free(page, entry, target, monkeypatch):
    monkeypatch.setattr("flashc._decode._target_of", lambda device: target)
    for tokens, group in ((1, 4), (3, 2), (200, 4)):
        if target == "sm_80" and tokens > 16:
            continue
        cache = decoding.Cache([1000, 1, 0, 37, 517, 333], 2, 128, 128, 1000, page, "cuda", torch.bfloat16)
        cache.free(lambda length: length - tokens - 50, entry)
        q = torch.randn(6, tokens, 2 * group, 128, device="cuda").bfloat16()
        keep = lambda b, h, i, j: (j <= i) & (j >= i - 50)  # noqa: E731
        decoding.check(cache, q, 8e-3, window=50, keep=keep)
        decoding.check(cache, q, 8e-3, mask=lambda b, h, i, j: i - j <= 50, keep=keep)


@pytest.mark.parametrize("scales", ["heads", "pages and heads"])
def test_keys_of_eight_bits_before_a_window(scales):
    cache = decoding.Cache([1000, 1, 0, 37, 517, 333], 2, 128, 128, 1000, 32, "cuda", torch.bfloat16, stored=torch.int8,
                           scales=scales)
    begins = [max(length - 51, 0) for length in cache.lengths.tolist()]
    for b, begin in enumerate(begins):
        cache.table[b, :begin // 32] = -1
    q = torch.randn(6, 1, 8, 128, device="cuda").bfloat16()
    decoding.check(cache, q, 8e-3, window=50, keep=lambda b, h, i, j: (j <= i) & (j >= i - 50))
