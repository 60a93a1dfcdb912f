"""The replacement for PyTorch's scaled_dot_product_attention on a GPU. Skipped where there is no GPU.

Numbers follow the rule of docs/checking.md: the error against float32 attention is at most twice the error of plain
attention in the type of the inputs. Outputs are NaN before the launch, and so is the memory after them."""

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

import flashc  # noqa: E402
from .guarded import BF16, F32, assert_right, fresh_numbers, qkv, random, sdpa, top_left  # noqa: E402, F401


@pytest.mark.parametrize("nq, nk", [(100, 100), (64, 200), (200, 64)])
def test_sdpa_causal_aligns_the_first_query_with_the_first_key(nq, nk):
    q, k, v = qkv(2, 2, 2, nq, nk, 64)
    o = sdpa(q, k, v, is_causal=True)
    assert_right(o, q, k, v, keep=top_left(nq, nk))
    want = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True)
    assert (o.float() - want).abs().max() < 0.05


@pytest.mark.parametrize("shape", [(2, 4, 100, 130), (1, 1, 100, 130), (4, 100, 130), (100, 130), (2, 1, 1, 130),
                                   (2, 4, 100, 1), (1, 130)])
@pytest.mark.parametrize("kind", [torch.bool, BF16, F32])
def test_sdpa_masks_broadcast(shape, kind):
    q, k, v = qkv(2, 4, 4, 100, 130, 64)
    mask = torch.randn(shape, device="cuda")
    if kind == torch.bool:
        mask = mask > -0.5
        o = sdpa(q, k, v, attn_mask=mask)
        assert_right(o, q, k, v, keep=mask.expand(2, 4, 100, 130))
    else:
        mask = mask.to(kind)
        o = sdpa(q, k, v, attn_mask=mask)
        assert_right(o, q, k, v, score=lambda s: s + mask.to(s.dtype))


@pytest.mark.parametrize("shape", [(100, 64), (5, 100, 64), (2, 3, 100, 64), (2, 3, 2, 50, 64)])
def test_sdpa_takes_any_leading_dimensions(shape):
    q, k, v = (random(*shape) for _ in range(3))
    o = sdpa(q, k, v)
    assert o.shape == q.shape
    flat = [x.reshape(1, -1, *x.shape[-2:]) for x in (q, k, v)]
    assert_right(o.reshape(flat[0].shape), *flat)


@pytest.mark.parametrize("d, dv", [(65, 65), (33, 7), (64, 100)])
def test_sdpa_takes_any_head_dimension(d, dv):
    q, k, v = qkv(2, 2, 2, 90, 110, d, dv)
    assert_right(sdpa(q, k, v), q, k, v)


def test_sdpa_results_lie_in_memory_as_queries_do():
    q, k, v = qkv(2, 4, 4, 128, 128, 64, swapped=True)
    o = sdpa(q, k, v)
    assert o.stride() == q.stride()
    assert_right(o, q, k, v)
    assert sdpa(*(x.contiguous() for x in (q, k, v))).is_contiguous()


def test_sdpa_copies_what_kernels_cannot_read():
    q, k, v = qkv(2, 2, 2, 100, 100, 64)
    columns = q.transpose(2, 3).contiguous().transpose(2, 3)
    assert columns.stride(3) != 1
    assert_right(sdpa(columns, k, v), q, k, v)
    shifted = torch.randn(2 * 2 * 100 * 64 + 1, device="cuda").to(BF16)[1:].view(2, 2, 100, 64)
    assert_right(sdpa(q, shifted, v), q, shifted, v)
    shifted = shifted.view(2, 100, 2, 64).transpose(1, 2)
    assert_right(sdpa(shifted, k, v), shifted, k, v)
    assert sdpa(shifted, k, v).stride() == shifted.stride()
    one = random(2, 1, 100, 64).expand(2, 2, 100, 64)
    assert_right(sdpa(q, one, v), q, one, v)


def test_sdpa_grouped_query_heads():
    q, k, v = qkv(2, 8, 2, 128, 128, 64)
    assert_right(sdpa(q, k, v, enable_gqa=True, scale=0.2), q, k, v, scale=0.2)


def test_sdpa_refusals():
    q, k, v = qkv(1, 2, 2, 64, 64, 64)
    mask = torch.ones(64, 64, device="cuda", dtype=torch.bool)
    with pytest.raises(flashc.Error, match="dropout_p"):
        sdpa(q, k, v, dropout_p=1.0)
    with pytest.raises(flashc.Error, match="attn_mask or is_causal"):
        sdpa(q, k, v, attn_mask=mask, is_causal=True)
    with pytest.raises(flashc.Error, match="enable_gqa"):
        sdpa(q.repeat(1, 2, 1, 1), k, v)
    with pytest.raises(flashc.Error, match="dimensions"):
        sdpa(q, k[0, 0, 0], v[0, 0, 0])
    with pytest.raises(flashc.Error):
        sdpa(q, k, v, attn_mask=mask[:, :63])
    with pytest.raises(flashc.UnsupportedTypeError):
        sdpa(q.double(), k.double(), v.double())
