"""Arguments that other libraries accept, on a GPU: tables of two distances, caches of 8 bits, rotation, torch.func.
Skipped where there is no GPU."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc.torch import flex_attention, scaled_dot_product_attention as sdpa  # noqa: E402
from .guarded import BF16, F32, assert_right, qkv, random  # noqa: E402

eager = torch.nn.functional.scaled_dot_product_attention


def near(x, y, bound=2e-2):
    assert x.shape == y.shape and (x.float() - y.float()).abs().max() <= bound * (1 + y.float().abs().max())


def test_swin_trains():
    """A table of two distances in windows of 7 x 7 gives the same as a bias that is gathered from the table before the
    call."""
    q, k, v = (random(64, 3, 49, 32).requires_grad_() for _ in "qkv")
    table = torch.randn(13, 13, 3, device="cuda", requires_grad=True)
    i, j = torch.arange(49, device="cuda")[:, None], torch.arange(49, device="cuda")
    o = flashc.attention(q, k, v, score=lambda s, b, h, i, j: s + table[i // 7 - j // 7 + 6, i % 7 - j % 7 + 6, h])
    bias = table[i // 7 - j // 7 + 6, i % 7 - j % 7 + 6].permute(2, 0, 1)
    want = eager(q.float(), k.float(), v.float(), bias)
    near(o, want)
    do = torch.randn_like(o)
    for x, y in zip(torch.autograd.grad(o, (q, k, v, table), do),
                    torch.autograd.grad(want, (q, k, v, table), do.float())):
        near(x, y)


@pytest.mark.parametrize("kind", [torch.int8, torch.float8_e4m3fn])
@pytest.mark.parametrize("form", [(), (2,), (6, 1), (6, 2)])
@pytest.mark.parametrize("depth", [32, 128, 80])
def test_append_kv_to_caches_of_8_bits(kind, form, depth):
    """The GPU stores the same bytes as the CPU, where PyTorch converts them. Rotation and left padding are tested
    too."""
    new, scales = torch.randn(2, 3, 2, depth) * 3, [torch.rand(form) * 0.2 + 0.02 for _ in "kv"]
    table, positions = torch.tensor([[1, 4], [3, 0]]), torch.tensor([15, 3])
    angles = torch.randn(40, depth // 4)
    for rotary in (None, (angles.cos(), angles.sin(), False), (angles.cos(), angles.sin(), True)):
        results = []
        for device in ("cpu", "cuda"):
            caches = [torch.zeros(6, 16, 2, depth, device=device).to(kind) for _ in "kv"]
            on = [x.to(device) for x in (new, table, positions, *scales)]
            flashc.append_kv(*caches, on[0].to(F32), 2 * on[0], *on[1:3], k_scale=on[3], v_scale=on[4],
                             leftpad=[2, 0],
                             rotary=None if rotary is None else (rotary[0].to(device), rotary[1].to(device), rotary[2]))
            results.append([x.cpu().view(torch.uint8).int() for x in caches])
        assert torch.equal(results[0][1], results[1][1])
        differs = (results[0][0] != results[1][0]).float().mean()  # a GPU may fuse products and round differently
        assert differs == 0 if rotary is None else differs < 1e-3


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("tokens", [1, 5, 70])
def test_rotary_of_decode(tokens, interleaved):
    """Gives the same as rotating q before the call, with left padding and rows of a larger cache."""
    q, cache = random(2, tokens, 4, 64), random(5, 256, 2, 64)
    lengths, leftpad, rows = torch.tensor([200, 97], device="cuda"), [3, 20], [4, 1]
    angles = torch.randn(256, 16, device="cuda")
    cos, sin = angles.cos(), angles.sin()
    place = lengths[:, None] - tokens + torch.arange(tokens, device="cuda") - torch.tensor(leftpad, device="cuda")[:,
                                                                                                                   None]
    c, s = (x[place][:, :, None] for x in (cos, sin))
    x, y = (q[..., 0:32:2], q[..., 1:32:2]) if interleaved else (q[..., :16], q[..., 16:32])
    x, y = (x.float() * c - y.float() * s).to(BF16), (y.float() * c + x.float() * s).to(BF16)
    turned = torch.cat([torch.stack([x, y], -1).flatten(-2) if interleaved else torch.cat([x, y], -1), q[..., 32:]], -1)
    got = flashc.decode(q, cache, cache, lengths, leftpad=leftpad, cache_batch_idx=rows, rotary=(cos, sin, interleaved))
    for b in range(2):
        own = cache[rows[b]:rows[b] + 1, leftpad[b]:]
        want = flashc.decode(turned[b:b + 1], own, own, [int(lengths[b]) - leftpad[b]])
        near(got[b:b + 1], want)


def test_batches_and_masks_broadcast_in_the_drop_ins():
    q, k, v = qkv(3, 2, 2, 70, 70, 64)
    for f in (sdpa, flex_attention):
        assert_right(f(q, k[:1], v[:1]), q, k[:1].expand_as(k), v[:1].expand_as(v))
    x = random(2, 3, 4, 7, 64)
    mask = torch.rand(2, 1, 1, 1, 7, device="cuda") > 0.3
    near(sdpa(x, x, x, mask), eager(x, x, x, mask).nan_to_num(0))


def test_vmap_of_gradients():
    x = random(5, 1, 2, 16, 64)
    got, want = (torch.func.vmap(torch.func.grad(lambda x: f(x, x, x).float().square().sum()))(x)
                 for f in (sdpa, eager))
    near(got, want)


@pytest.mark.parametrize("mask",
                         [lambda b, h, i, j: j < 0, lambda b, h, i, j: False, lambda b, h, i, j: (i < j) & (j < i)])
@pytest.mark.parametrize("length", [1, 128, 1000])
def test_gradients_of_a_mask_that_keeps_nothing(mask, length):
    q, k, v = (random(1, 2, length, 64).requires_grad_() for _ in "qkv")
    o, lse = flashc.attention(q, k, v, mask=mask, return_lse=True)
    o.sum().backward()
    assert not o.any() and bool((lse == -torch.inf).all()) and not any(x.grad.any() for x in (q, k, v))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_types_of_sinks_and_tables(dtype):
    q, sinks, table = random(1, 2, 100,
                             64), torch.randn(2, device="cuda").to(dtype), torch.randn(199, device="cuda").to(dtype)
    o = flashc.attention(q, q, q, sinks=sinks, score=lambda s, b, h, i, j: s + table[i - j + 99])
    other_sinks, other = sinks.float(), table.float()
    assert torch.equal(o, flashc.attention(q, q, q, sinks=other_sinks,
                                           score=lambda s, b, h, i, j: s + other[i - j + 99]))


def test_integers_of_decode():
    q, c = random(2, 1, 4, 64), random(8, 16, 2, 64)
    want = flashc.decode(q, c, c,
                         *(torch.tensor(x, device="cuda", dtype=torch.int32) for x in ([20, 3], [[1, 2], [3, 0]])))
    assert torch.equal(flashc.decode(q, c, c, [20, 3], [[1, 2], [3, 0]]), want)
    wide = [torch.tensor(x, device="cuda") for x in ([20, 3], [[1, 2], [3, 0]])]
    assert torch.equal(flashc.decode(q, c, c, *wide), want)


def test_values_made_on_the_device_of_q():
    """A mask that is joined as in transformers, and a number that the score function creates on the GPU."""
    q, k, v = qkv(1, 2, 2, 100, 100, 64)

    def joined(b, h, i, j):
        result = b.new_ones((), dtype=torch.bool)
        return result & (j <= i).to(result.device)
    o = flashc.attention(q, k, v, mask=joined, score=lambda s, b, h, i, j: s * torch.tensor(0.5, device=s.device))
    assert torch.equal(o, flashc.attention(q, k, v, causal=True, score=lambda s, b, h, i, j: s * 0.5))
