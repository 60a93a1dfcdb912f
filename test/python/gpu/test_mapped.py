"""Masks whose bounds leave tiles undecided, so that a kernel evaluates them before the attention, on a GPU.

Results are compared with float32 attention by the rule of docs/checking.md. Outputs are NaN before the launch."""

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from .tensors import positions, qkv  # noqa: E402
from .test_attention_backward import check as check_gradients  # noqa: E402
from .test_masks import BF16, F16, assert_right  # noqa: E402

SIZES = [(333, 333), (129, 1517), (1517, 129), (1, 1000), (63, 65), (1009, 997), (4096, 4096)]


def is_near(x, y, distance):
    return (x - y <= distance) & (y - x <= distance)


def is_neighbour(i, j, width, distance):
    return is_near(i // width, j // width, distance) & is_near(i % width, j % width, distance)


def unweave(x, shift):
    """Takes every second bit of `x`, which gives a coordinate of Morton order."""
    bits = 0
    for n in range(6):
        bits = bits | ((x >> (2 * n + shift)) & 1) << n
    return bits


def make_masks(batch, heads, nq, nk):
    n = max(nq, nk)
    blocks = torch.rand(-(-nq // 64), -(-nk // 64), device="cuda") < 0.2
    pairs = torch.rand(batch, heads, -(-nq // 32), -(-nk // 32), device="cuda") < 0.1
    weights = torch.randn(n, device="cuda")
    weights[::5] = torch.nan  # no comparison with NaN is true
    distances = torch.arange(heads, device="cuda", dtype=torch.int32) * 3
    tiles = torch.rand(-(-nq // 128) + 1, -(-nk // 128) + 1, device="cuda") < 0.4
    sizes = torch.randint(0, 129, (-(-nk // 128),), device="cuda")
    stamps = (torch.randint(0, 5, (n // 50 + 1,), device="cuda") << 40).repeat_interleave(50)
    return {
        "neighbours": lambda b, h, i, j: is_neighbour(i, j, 32, 4),
        "neighbours of wide rows": lambda b, h, i, j: is_neighbour(i, j, 130, 20),
        "neighbours in Morton order": lambda b, h, i, j: is_near(unweave(i, 0), unweave(j, 0), 5)
        & is_near(unweave(i, 1), unweave(j, 1), 5),
        "every third diagonal of blocks": lambda b, h, i, j: ((i // 16 - j // 16) % 3 == 0) & (j <= i),
        "a product": lambda b, h, i, j: (i * j) % 77 < 20,
        "products of heads": lambda b, h, i, j: (i * j + h * 3 + b) % 77 < 20,
        "distances of heads": lambda b, h, i, j: is_neighbour(i, j, 48, distances[h]),
        "batches": lambda b, h, i, j: is_neighbour(i, j, 40, 3 + b * 5),
        "blocks": lambda b, h, i, j: blocks[i // 64, j // 64],
        "blocks of batches and heads": lambda b, h, i, j: pairs[b, h, i // 32, j // 32],
        "weights": lambda b, h, i, j: (weights[i] > 0.5) & (weights[j] < 0.0),
        "magnitudes": lambda b, h, i, j: (abs(i // 32 - j // 32) <= 4) & (abs(j % 32 - i % 32) < 5),
        "apart": lambda b, h, i, j: (abs(i % 64 - j % 96) > 40) | (abs(i % 7 - j % 7) >= 6),
        "parts of tiles": lambda b, h, i, j: tiles[i // 128, j // 128] & (j % 128 < sizes[j // 128]),
        "numbers of 64 bits": lambda b, h, i, j: stamps[i] > stamps[j],
        "next to nothing": lambda b, h, i, j: (i * 7 + j * 13) % 1009 == 5,
    }


@pytest.mark.parametrize("name", ["blocks of batches and heads", "products of heads", "distances of heads"])
def test_many_tiles(name):
    """There are more tiles than a GPU runs warps at a time, so a warp evaluates several tiles, and some of them stay
    undecided."""
    batch, heads, nq, nk = 2, 8, 4097, 4033
    mask = make_masks(batch, heads, nq, nk)[name]
    q, k, v = qkv(batch, heads, heads, nq, nk, 64)
    o, lse = flashc.attention(q, k, v, mask=mask, return_lse=True)
    assert_right(o, lse, q, k, v, mask(*positions(batch, heads, nq, nk)))


@pytest.mark.parametrize("nq,nk", SIZES)
@pytest.mark.parametrize("name", make_masks(1, 1, 1, 1))
def test_mapped(name, nq, nk):
    batch, heads, d = 2, 3, 64 if nq % 2 else 128
    mask = make_masks(batch, heads, nq, nk)[name]
    q, k, v = qkv(batch, heads, heads, nq, nk, d, dtype=F16 if nk == 65 else BF16)
    assert flashc.explain(q, k, v, mask=mask).mask_class == "mapped"
    o, lse = flashc.attention(q, k, v, mask=mask, return_lse=True)
    assert_right(o, lse, q, k, v, mask(*positions(batch, heads, nq, nk)))
    again, _ = flashc.attention(q, k, v, mask=mask, return_lse=True)
    assert torch.equal(o, again)


def test_changes_between_launches():
    """The tensors that the mask reads may change: a graph evaluates the mask at every replay."""
    q, k, v = qkv(1, 2, 2, 700, 700, 64)
    blocks = torch.rand(11, 11, device="cuda") < 0.3
    mask = lambda b, h, i, j: blocks[i // 64, j // 64]  # noqa: E731
    o, lse = (torch.empty_like(q), torch.empty(q.shape[:3], device="cuda"))
    flashc.attention(q, k, v, mask=mask, out=(o, lse))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        flashc.attention(q, k, v, mask=mask, out=(o, lse))
    for share in (0.0, 0.1, 1.0):
        blocks.copy_(torch.rand(11, 11, device="cuda") < share)
        o.fill_(torch.nan)
        graph.replay()
        assert_right(o, lse, q, k, v, mask(*positions(1, 2, 700, 700)))


@pytest.mark.parametrize("nq,nk", [(333, 257), (1, 200), (129, 63), (1009, 997)])
@pytest.mark.parametrize("name", make_masks(1, 1, 1, 1))
def test_gradients(name, nq, nk):
    """Tests the list of query tiles that a tile of keys visits, and the list of key tiles where dq has a kernel of its
    own."""
    mask = make_masks(2, 4, nq, nk)[name]
    for d, key_heads in ((64, 4), (128, 2), (192, 4)):
        check_gradients(2, 4, key_heads, nq, nk, d, keep=mask, mask=mask, with_dlse=d == 64)
    check_gradients(2, 4, 4, nq, nk, 64, keep=mask, mask=mask, deterministic=True)
