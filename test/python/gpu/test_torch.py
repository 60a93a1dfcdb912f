"""flashc on PyTorch's tensors on a GPU. Run with pytest where there is one; everything is skipped elsewhere.

Numbers are held to the rule of docs/checking.md: the error against float32 attention is at most twice that of plain
attention in the inputs' type. Outputs are NaN before the launch, and so is what lies behind them."""

import threading

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

import flashc  # noqa: E402
import flashc.torch  # noqa: E402
from flashc.bench import _check  # noqa: E402

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


# --- Helpers ----------------------------------------------------------------------------------------------------------

@pytest.fixture(autouse=True)
def fresh_numbers():
    torch.set_float32_matmul_precision("highest")
    yield
    torch.cuda.synchronize()


@pytest.fixture
def fresh_context():
    """flashc with nothing compiled, on disk neither, and counters at zero."""
    flashc.configure(disk_cache=False)
    yield
    flashc.configure(disk_cache=False)


def guarded(shape, dtype, swapped=False):
    """An array of NaN in a buffer with NaN behind it, and what is behind it. `swapped`: [b, n, h, d] in memory."""
    count = 1
    for extent in shape:
        count *= extent
    buffer = torch.full((count + 4096,), float("nan"), device="cuda", dtype=dtype)
    if swapped:
        b, h, n, d = shape
        return buffer[:count].view(b, n, h, d).transpose(1, 2), buffer[count:]
    return buffer[:count].view(shape), buffer[count:]


def random(*shape, dtype=BF16, swapped=False):
    """normal(0, 1), with NaN behind the end."""
    array, _ = guarded(shape, dtype, swapped)
    return array.copy_(torch.randn(shape, device="cuda"))


def qkv(b, hq, hk, nq, nk, d, dv=None, dtype=BF16, swapped=False):
    return (random(b, hq, nq, d, dtype=dtype, swapped=swapped), random(b, hk, nk, d, dtype=dtype, swapped=swapped),
            random(b, hk, nk, d if dv is None else dv, dtype=dtype, swapped=swapped))


def assert_right(out, q, k, v, lse=None, **how):
    problem = _check.Reference(q, k, v, **how).compare(out, lse).problem
    assert not problem, problem


def positions(nq, nk):
    return torch.arange(nq, device="cuda")[:, None], torch.arange(nk, device="cuda")[None, :]


def bottom_right(nq, nk):
    return _check.causal(nq, nk, "cuda")


def top_left(nq, nk):
    i, j = positions(nq, nk)
    return j <= i


def sdpa(*arguments, **keywords):
    return flashc.torch.scaled_dot_product_attention(*arguments, **keywords)


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


def test_a_log_sum_exp_is_another_kernel(fresh_context):
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


# --- The drop-in ------------------------------------------------------------------------------------------------------

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
        sdpa(q, k, v, dropout_p=0.1)
    with pytest.raises(flashc.Error, match="attn_mask or is_causal"):
        sdpa(q, k, v, attn_mask=mask, is_causal=True)
    with pytest.raises(flashc.Error, match="enable_gqa"):
        sdpa(q, k[:, :1], v[:, :1])
    with pytest.raises(flashc.Error, match="dimensions"):
        sdpa(q, k[0], v[0])
    with pytest.raises(flashc.Error):
        sdpa(q, k, v, attn_mask=mask[:, :63])
    with pytest.raises(flashc.UnsupportedTypeError):
        sdpa(q.double(), k.double(), v.double())


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
    # Nothing above has left an error behind in CUDA.
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


# --- Sizes ------------------------------------------------------------------------------------------------------------

def test_more_than_2_to_the_31_elements():
    b, hq, hk, n, d = 129, 1024, 8, 128, 128
    assert b * hq * n * d > 1 << 31
    q = torch.empty(b, hq, n, d, device="cuda", dtype=BF16)
    for part in q:
        part.normal_()
    k, v = (torch.randn(b, hk, n, d, device="cuda").to(BF16) for _ in range(2))
    o = torch.empty_like(q)
    o.fill_(float("nan"))
    lse = torch.full((b, hq, n), float("nan"), device="cuda")
    flashc.attention(q, k, v, causal=True, enable_gqa=True, out=(o, lse))
    keep = bottom_right(n, n)
    # Element 2^31 of q and o is the first of batch 128.
    for batch, first in ((0, 0), (0, 1016), (63, 512), (127, 1016), (128, 0), (128, 1016)):
        heads = slice(first, first + 8)
        key_head = slice(first // 128, first // 128 + 1)
        assert_right(o[batch:batch + 1, heads], q[batch:batch + 1, heads], k[batch:batch + 1, key_head],
                     v[batch:batch + 1, key_head], lse[batch:batch + 1, heads], keep=keep)
    assert not any(torch.isnan(part).any() for part in o) and not torch.isnan(lse).any()


def test_strides_of_more_than_2_to_the_31_elements():
    step, shape = (1 << 31) + 64, (2, 2, 100, 64)
    buffers = [torch.empty(step + 2 * 100 * 64, device="cuda", dtype=BF16) for _ in range(4)]
    q, k, v, o = (buffer.as_strided(shape, (step, 6400, 64, 1)) for buffer in buffers)
    for x in (q, k, v):
        x.normal_()
    o.fill_(float("nan"))
    buffers[3][12800:13800] = 7.0  # Between the two batches.
    flashc.attention(q, k, v, out=o)
    assert_right(o, q, k, v)
    assert (buffers[3][12800:13800] == 7.0).all()


def test_a_thousand_sizes_compile_once(fresh_context):
    q, k, v = (torch.randn(25 * 2 * 400 * 64, device="cuda").to(BF16) for _ in range(3))
    for b in range(1, 26):
        for n in range(10, 410, 10):
            now = [x[:b * 2 * n * 64].view(b, 2, n, 64) for x in (q, k, v)]
            o = flashc.attention(*now, causal=True)
            if n % 130 == 0 and b % 8 == 1:
                assert_right(o, *now, keep=bottom_right(n, n))
    assert flashc.statistics().compilations == 1
    assert flashc.statistics().loads == 1


# --- Streams, threads, graphs -----------------------------------------------------------------------------------------

def test_side_stream():
    source = qkv(2, 4, 4, 512, 512, 64)
    q, k, v = (torch.zeros_like(x) for x in source)
    flashc.attention(q, k, v)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)  # A launch on another stream would see zeros.
        for x, value in zip((q, k, v), source):
            x.copy_(value)
        o = flashc.attention(q, k, v)
        doubled = o * 2
    side.synchronize()
    assert_right(o, *source)
    assert torch.equal(doubled, o * 2)


def test_two_threads_compile_once_and_are_right(fresh_context):
    inputs = [qkv(2, 2, 2, 200, 200 + 8 * index, 80) for index in range(4)]
    outputs, errors = [None] * 4, []
    barrier = threading.Barrier(4)
    torch.cuda.synchronize()

    def work(index):
        try:
            stream = torch.cuda.Stream()
            barrier.wait()
            with torch.cuda.stream(stream):
                for _ in range(20):
                    outputs[index] = flashc.attention(*inputs[index], causal=True)
            stream.synchronize()
        except Exception as error:  # A thread's exception would be lost.
            errors.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert flashc.statistics().compilations == 1
    for (q, k, v), o in zip(inputs, outputs):
        assert_right(o, q, k, v, keep=bottom_right(q.shape[2], k.shape[2]))


@pytest.mark.parametrize("run", [lambda q, k, v: flashc.attention(q, k, v, causal=True),
                                 lambda q, k, v: sdpa(q, k, v, is_causal=True)], ids=["attention", "sdpa"])
def test_cuda_graph_replays_on_new_inputs(run):
    q, k, v = qkv(2, 4, 4, 300, 300, 64)
    run(q, k, v)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = run(q, k, v)
    for _ in range(3):
        for x in (q, k, v):
            x.copy_(torch.randn(x.shape, device="cuda"))
        o.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert_right(o, q, k, v, keep=bottom_right(300, 300))


def test_graph_captures_the_first_launch_of_a_variant():
    """A launch loads the entry that it takes, which a capture in the strictest mode would refuse."""
    flashc.configure(disk_cache=False)
    many, few = qkv(1, 2, 2, 5000, 5000, 128), qkv(1, 2, 2, 300, 300, 128)
    o = flashc.attention(*many, causal=True)
    assert_right(o, *many, keep=bottom_right(5000, 5000))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = flashc.attention(*few, causal=True)
    assert flashc.statistics().loads == 1  # one kernel, with two entries
    for _ in range(2):
        o.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert_right(o, *few, keep=bottom_right(300, 300))


# --- torch.compile ----------------------------------------------------------------------------------------------------

def sees_even_distance(b, h, i, j):
    return (i - j) % 2 == 0


TABLE = None


def adds_table(s, b, h, i, j):
    return s + TABLE[h, j]


def compiled(function, **keywords):
    torch.compiler.reset()
    return torch.compile(function, fullgraph=True, **keywords)


def test_compile_of_attention():
    q, k, v = qkv(2, 4, 4, 200, 200, 64)
    function = compiled(lambda q, k, v: flashc.attention(q * 2, k, v, causal=True, return_lse=True)[0] + 1)
    want = flashc.attention(q * 2, k, v, causal=True, return_lse=True)[0] + 1
    assert torch.equal(function(q, k, v), want)


def test_compile_of_sdpa_with_a_projection():
    x, weight = random(2, 256, 256), random(256, 768) * 0.06

    def block(x):
        q, k, v = (x @ weight).view(2, -1, 3, 4, 64).unbind(2)
        o = sdpa(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return o.transpose(1, 2).reshape(2, -1, 256).relu()

    want = block(x)
    assert (compiled(block)(x).float() - want.float()).abs().max() < 0.05


def test_compile_with_dynamic_shapes():
    function = compiled(lambda q, k, v: sdpa(q, k, v, is_causal=True), dynamic=True)
    for nq, nk in ((128, 128), (200, 200), (96, 160), (160, 96)):
        q, k, v = qkv(2, 2, 2, nq, nk, 64)
        assert_right(function(q, k, v), q, k, v, keep=top_left(nq, nk))


def test_compile_with_masks():
    q, k, v = qkv(2, 4, 4, 100, 100, 64)
    keep = torch.rand(2, 1, 100, 100, device="cuda") > 0.3
    function = compiled(lambda q, k, v, keep: sdpa(q, k, v, attn_mask=~keep))
    assert_right(function(q, k, v, keep), q, k, v, keep=~keep)
    bias = torch.randn(4, 1, 100, device="cuda")
    function = compiled(lambda q, k, v, bias: sdpa(q, k, v, attn_mask=bias * 2))
    assert_right(function(q, k, v, bias), q, k, v, score=lambda s: s + (bias * 2).to(s.dtype))


def test_compile_with_functions():
    global TABLE
    q, k, v = qkv(2, 4, 4, 100, 100, 64)
    i, j = positions(100, 100)
    TABLE = torch.randn(4, 100, device="cuda")
    function = compiled(lambda q, k, v: flashc.attention(q, k, v, mask=sees_even_distance, score=adds_table))
    for _ in range(2):
        assert_right(function(q, k, v), q, k, v, keep=(i - j) % 2 == 0,
                     score=lambda s: s + TABLE[:, None, :].to(s.dtype))
        TABLE = torch.randn(4, 100, device="cuda")


def test_compile_does_not_mix_up_closures():
    q, k, v = qkv(1, 2, 2, 100, 100, 64)
    torch.compiler.reset()
    function = torch.compile(lambda q, k, v, score: flashc.attention(q, k, v, score=score))
    for factor in (0.5, 2.0):
        assert_right(function(q, k, v, lambda s, b, h, i, j: s * factor), q, k, v, score=lambda s: s * factor)


def test_compile_into_cuda_graphs():
    function = compiled(lambda q, k, v: flashc.attention(q, k, v) * 2, mode="reduce-overhead")
    for _ in range(4):
        q, k, v = qkv(2, 2, 2, 128, 128, 64)
        o = function(q, k, v).clone()
        assert torch.equal(o, flashc.attention(q, k, v) * 2)


def test_the_op_runs_the_kernel_that_its_result_needs(fresh_context):
    q, k, v = qkv(1, 2, 2, 100, 130, 64)
    arguments = (q, k, v, None, None, None, True, None, None, 0.125, False, "bhsd")
    o, none = torch.ops.flashc.attention.default(*arguments, False)
    assert none.shape == (0,) and none.dtype == F32
    assert_right(o, q, k, v, keep=bottom_right(100, 130))
    with torch.enable_grad():
        assert sdpa(*(x.detach().requires_grad_() for x in (q, q, q)), scale=0.125).requires_grad
    flashc.attention(q, k, v, scale=0.125, causal=True)
    flashc.attention(q, k, v, scale=0.125)
    assert flashc.statistics().compilations == 2
    o, lse = torch.ops.flashc.attention.default(*arguments, True)
    assert_right(o, q, k, v, lse, keep=bottom_right(100, 130))
    assert flashc.statistics().compilations == 3


def test_the_op_is_registered_as_pytorch_asks():
    q, k, v = qkv(1, 4, 2, 64, 64, 64)
    for return_lse in (False, True):
        arguments = (q, k, v, None, None, None, True, None, None, 0.125, True, "bhsd", return_lse)
        torch.library.opcheck(torch.ops.flashc.attention.default, arguments,
                              test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))


def test_fake_tensors_have_the_shapes_and_strides_of_results():
    from torch._subclasses.fake_tensor import FakeTensorMode
    q, k, v = qkv(2, 4, 2, 70, 90, 64, 128)
    swapped = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
    for layout, real in (("bhsd", (q, k, v)), ("bshd", swapped), ("bhsd", [x.transpose(1, 2) for x in swapped])):
        want = flashc.attention(*real, enable_gqa=True, return_lse=True, layout=layout)
        with FakeTensorMode() as mode:
            fake = [mode.from_tensor(x) for x in real]
            got = flashc.attention(*fake, enable_gqa=True, return_lse=True, layout=layout)
        for x, y in zip(got, want):
            assert (x.shape, x.stride(), x.dtype) == (y.shape, y.stride(), y.dtype)


def test_a_backward_is_refused_and_not_forgotten():
    q, k, v = (x.requires_grad_() for x in qkv(1, 2, 2, 64, 64, 64))
    with pytest.raises(flashc.Error, match="without gradients"):
        flashc.attention(q, k, v)
    # The drop-in computes first: models are often evaluated without torch.no_grad().
    o = sdpa(q, k, v)
    assert o.requires_grad
    assert_right(o.detach(), q.detach(), k.detach(), v.detach())
    with pytest.raises(NotImplementedError, match="no backward yet"):
        o.sum().backward()
    with torch.no_grad():
        assert not sdpa(q, k, v).requires_grad and not flashc.attention(q, k, v).requires_grad


# --- Other frameworks -------------------------------------------------------------------------------------------------

class OnlyDLPack:
    """A tensor without anything but DLPack."""

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
