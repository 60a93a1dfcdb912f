"""Large sizes, streams, threads and graphs on a GPU. Skipped where there is no GPU.

Numbers follow the rule of docs/checking.md: the error against float32 attention is at most twice the error of plain
attention in the type of the inputs. Outputs are NaN before the launch, and so is the memory after them."""

import threading

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

import flashc  # noqa: E402
from .guarded import BF16, assert_right, bottom_right, fresh_numbers, qkv, sdpa  # noqa: E402, F401


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
    buffers[3][12800:13800] = 7.0  # memory between the two batches
    flashc.attention(q, k, v, out=o)
    assert_right(o, q, k, v)
    assert (buffers[3][12800:13800] == 7.0).all()


def test_a_thousand_sizes_compile_once(no_disk):
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
        torch.cuda._sleep(50_000_000)  # a launch on another stream would see zeros
        for x, value in zip((q, k, v), source):
            x.copy_(value)
        o = flashc.attention(q, k, v)
        doubled = o * 2
    side.synchronize()
    assert_right(o, *source)
    assert torch.equal(doubled, o * 2)


def test_two_threads_compile_once_and_are_right(no_disk):
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
        except Exception as error:  # the main thread does not see exceptions of other threads
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
    """The first launch that takes a kernel entry loads this entry. A launch relaxes the mode of a capture meanwhile,
    since the strictest mode refuses to load an entry."""
    flashc.configure(disk_cache=False)
    many, few = qkv(1, 2, 2, 5000, 5000, 128), qkv(1, 2, 2, 300, 300, 128)
    o = flashc.attention(*many, causal=True)
    assert_right(o, *many, keep=bottom_right(5000, 5000))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = flashc.attention(*few, causal=True)
    assert flashc.statistics().loads == 1  # one kernel, which has two entries
    for _ in range(2):
        o.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert_right(o, *few, keep=bottom_right(300, 300))
