"""flashc on PyTorch tensors on a GPU. Skipped where there is no GPU.

Numbers follow the rule of docs/checking.md: the error against float32 attention is at most twice the error of plain
attention in the type of the inputs. Outputs are NaN before the launch, and so is the memory after them."""

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

import flashc  # noqa: E402
from .guarded import (  # noqa: E402, F401
    BF16, F16, F32, assert_right, bottom_right, fresh_numbers, guarded, positions, qkv, random, sdpa, top_left)


# --- Numbers ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("d, dv", [(64, 64), (128, 128), (256, 256), (192, 128), (72, 40)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_matches_float32(dtype, d, dv, causal):
    q, k, v = qkv(2, 4, 4, 333, 333, d, dv, dtype)
    o, lse = flashc.attention(q, k, v, causal=causal, return_lse=True)
    assert o.is_contiguous() and lse.is_contiguous()
    assert_right(o, q, k, v, lse, keep=bottom_right(333, 333) if causal else None)


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("d, dv", [(64, 64), (128, 128), (256, 256), (192, 128), (72, 40)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_without_log_sum_exp(dtype, d, dv, causal):
    q, k, v = qkv(2, 4, 4, 333, 333, d, dv, dtype)
    o, behind = guarded((2, 4, 333, dv), dtype)
    assert flashc.attention(q, k, v, causal=causal, out=o) is o
    assert_right(o, q, k, v, keep=bottom_right(333, 333) if causal else None)
    assert torch.isnan(behind).all()


def test_a_log_sum_exp_is_another_kernel(no_disk):
    q, k, v = qkv(2, 2, 2, 100, 100, 64)
    for _ in range(2):
        flashc.attention(q, k, v)
        sdpa(q, k, v)
    assert flashc.statistics().compilations == flashc.statistics().loads == 1
    for _ in range(2):
        flashc.attention(q, k, v, return_lse=True)
    assert flashc.statistics().compilations == flashc.statistics().loads == 2


def test_nothing_is_allocated_for_a_log_sum_exp_that_is_not_wanted():
    q, k, v = qkv(1, 1, 1, 1 << 20, 64, 8)
    o = torch.empty_like(q)
    flashc.attention(q, k, v, out=o)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    flashc.attention(q, k, v, out=o)
    assert torch.cuda.max_memory_allocated() == before
    flashc.attention(q, k, v, out=o, return_lse=True)
    assert torch.cuda.max_memory_allocated() >= before + 4 * (1 << 20)


@pytest.mark.parametrize("nq, nk", [(1, 1), (1, 63), (63, 65), (65, 63), (64, 64), (127, 131), (257, 1), (1009, 997),
                                    (1, 4099)])
@pytest.mark.parametrize("causal", [False, True])
def test_awkward_sizes_stay_within_their_arrays(nq, nk, causal):
    q, k, v = qkv(3, 2, 2, nq, nk, 64)
    o, behind_o = guarded((3, 2, nq, 64), BF16)
    lse, behind_lse = guarded((3, 2, nq), F32)
    flashc.attention(q, k, v, causal=causal, out=(o, lse))
    assert_right(o, q, k, v, lse, keep=bottom_right(nq, nk) if causal else None)
    assert torch.isnan(behind_o).all() and torch.isnan(behind_lse).all()


@pytest.mark.parametrize("hq, hk", [(8, 2), (6, 3), (5, 1), (7, 7)])
def test_grouped_query_heads(hq, hk):
    q, k, v = qkv(2, hq, hk, 200, 300, 128)
    o, lse = flashc.attention(q, k, v, causal=True, enable_gqa=True, return_lse=True)
    assert_right(o, q, k, v, lse, keep=bottom_right(200, 300))


def test_layouts():
    q, k, v = qkv(2, 4, 4, 150, 170, 64, swapped=True)
    want = flashc.attention(q.contiguous(), k.contiguous(), v.contiguous())
    assert torch.equal(flashc.attention(q, k, v), want)
    assert flashc.attention(q, k, v).stride() == q.stride()
    o = flashc.attention(*(x.transpose(1, 2) for x in (q, k, v)), layout="bshd")
    assert o.shape == (2, 150, 4, 64) and o.is_contiguous()
    assert torch.equal(o.transpose(1, 2), want)


def test_views_of_one_projection():
    packed = random(2, 100, 3, 4, 64)
    q, k, v = (packed[:, :, part].transpose(1, 2) for part in range(3))
    assert_right(flashc.attention(q, k, v), q, k, v)


@pytest.mark.parametrize("window", [(16, 0), (0, 16), (40, 8), (0, 0), (1000, 1000)])
@pytest.mark.parametrize("nq, nk", [(200, 200), (130, 300)])
def test_window(window, nq, nk):
    q, k, v = qkv(2, 2, 2, nq, nk, 64)
    i, j = positions(nq, nk)
    i = i + nk - nq
    o, lse = flashc.attention(q, k, v, window=window, return_lse=True)
    assert_right(o, q, k, v, lse, keep=(j >= i - window[0]) & (j <= i + window[1]))


@pytest.mark.parametrize("nq, nk", [(64, 128), (113, 203), (203, 113), (1, 500), (500, 1)])
def test_causal_aligns_the_last_query_with_the_last_key(nq, nk):
    q, k, v = qkv(2, 2, 2, nq, nk, 128)
    o, lse = flashc.attention(q, k, v, causal=True, return_lse=True)
    assert_right(o, q, k, v, lse, keep=bottom_right(nq, nk))


def test_scale():
    q, k, v = qkv(1, 2, 2, 100, 100, 64)
    assert_right(flashc.attention(q, k, v, scale=0.5), q, k, v, scale=0.5)
    assert_right(flashc.attention(q, k, v, scale=-0.1), q, k, v, scale=-0.1)


def test_score_and_mask_functions():
    q, k, v = qkv(2, 4, 4, 300, 300, 64)
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625], device="cuda")
    i, j = positions(300, 300)
    o = flashc.attention(q, k, v, score=lambda s, b, h, i, j: s + slopes[h] * (j - i), mask=lambda b, h, i, j: j <= i)
    assert_right(o, q, k, v, score=lambda s: s + slopes[:, None, None].to(s.dtype) * (j - i), keep=top_left(300, 300))
    documents = torch.randint(0, 3, (2, 300), device="cuda", dtype=torch.int32)
    o, lse = flashc.attention(q, k, v, mask=lambda b, h, i, j: documents[b, i] == documents[b, j], return_lse=True)
    assert_right(o, q, k, v, lse, keep=(documents[:, None, :, None] == documents[:, None, None, :]))


def test_new_values_in_a_captured_array_are_seen():
    q, k, v = qkv(1, 2, 2, 100, 100, 64)
    bias = torch.randn(100, device="cuda")
    for _ in range(2):
        bias.copy_(torch.randn(100, device="cuda"))
        assert_right(flashc.attention(q, k, v, score=lambda s, b, h, i, j: s + bias[j]), q, k, v,
                     score=lambda s: s + bias.to(s.dtype))


# --- Bad and empty inputs ---------------------------------------------------------------------------------------------

def test_refusals_say_what_is_wrong():
    q, k, v = qkv(2, 4, 4, 64, 64, 64)
    with pytest.raises(flashc.Error, match="CPU|device"):
        flashc.attention(q, k.cpu(), v)
    with pytest.raises(flashc.UnsupportedTypeError):
        flashc.attention(q, k.half(), v)
    with pytest.raises(flashc.UnsupportedTypeError):
        flashc.attention(q.float(), k.float(), v.float())
    with pytest.raises(flashc.UnsupportedTypeError):
        flashc.attention(q.double(), k.double(), v.double())
    with pytest.raises(flashc.ArgumentError):
        flashc.attention(q, k[:, :, :, :32], v)
    with pytest.raises(flashc.ArgumentError):
        flashc.attention(q, k[:, :, :63], v)
    with pytest.raises(flashc.ArgumentError):
        flashc.attention(q, k[:1], v[:1])
    with pytest.raises(flashc.ArgumentError):
        flashc.attention(q, k[:, :3], v[:, :3], enable_gqa=True)
    with pytest.raises(flashc.ArgumentError):
        flashc.attention(q[0], k[0], v[0])
    wide = random(1, 1, 64, 264)
    with pytest.raises(flashc.ArgumentError, match="multiples of 8"):
        flashc.attention(wide, wide, wide)
    # The refused calls left no error in CUDA.
    torch.cuda.synchronize()
    assert_right(flashc.attention(q, k, v), q, k, v)


def test_an_innermost_dimension_with_gaps_is_refused():
    q, k, v = qkv(1, 2, 2, 64, 64, 64)
    gaps = random(1, 2, 64, 128)[..., ::2]
    with pytest.raises(flashc.ArgumentError, match="contiguous"):
        flashc.attention(gaps, k, v)
    assert_right(sdpa(gaps, k, v), gaps, k, v)


@pytest.mark.parametrize("run", [flashc.attention, sdpa])
def test_empty_tensors(run):
    for shape in ((0, 2, 64, 64), (2, 0, 64, 64), (2, 2, 0, 64)):
        q = torch.empty(shape, device="cuda", dtype=BF16)
        assert run(q, q, q).shape == shape
    q = random(2, 2, 64, 64)
    none = q[:, :, :0]
    assert run(none, q, q).shape == (2, 2, 0, 64)
    o = run(q, none, none)
    assert o.shape == q.shape and (o == 0).all()


def test_no_keys_have_a_log_sum_exp_of_minus_infinity():
    q = random(2, 2, 64, 64)
    o, lse = flashc.attention(q, q[:, :, :0], q[:, :, :0], return_lse=True)
    assert (o == 0).all() and (lse == float("-inf")).all()


# --- Other frameworks -------------------------------------------------------------------------------------------------

class OnlyDLPack:
    """A tensor that has only DLPack."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **keywords):
        return self.tensor.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def test_dlpack():
    q, k, v = qkv(2, 2, 2, 100, 120, 64)
    o, lse = torch.full_like(q, float("nan")), torch.full(q.shape[:3], float("nan"), device="cuda")
    flashc.attention(OnlyDLPack(q), OnlyDLPack(k), OnlyDLPack(v), out=(OnlyDLPack(o), OnlyDLPack(lse)))
    assert_right(o, q, k, v, lse)


def test_cupy():
    cupy = pytest.importorskip("cupy")
    q, k, v = qkv(2, 2, 2, 100, 120, 64, dtype=F16)
    o, lse = flashc.attention(*(cupy.from_dlpack(x) for x in (q, k, v)), return_lse=True)
    assert isinstance(o, cupy.ndarray)
    assert_right(torch.from_dlpack(o), q, k, v, torch.from_dlpack(lse))
