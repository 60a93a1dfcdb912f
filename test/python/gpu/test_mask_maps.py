"""Mask maps that kernels keep between launches, and plans, on a GPU.

Results are compared with float32 attention by the rule of docs/checking.md. Outputs are NaN before the launch."""

import gc

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
import flashc.torch  # noqa: E402
from flashc._trace.repeated import code_of  # noqa: E402
from .tensors import positions, qkv  # noqa: E402
from .test_masks import assert_right  # noqa: E402
from .test_mapped import is_neighbour  # noqa: E402


def neighbours(b, h, i, j):
    return is_neighbour(i, j, 35, 4)  # no other test has these numbers: equal code shares a kernel and its maps


def blocks_of(table):
    return lambda b, h, i, j: table[i // 64, j // 64]


def launch(kernel, mask, nq, nk, heads=2):
    q, k, v = qkv(1, heads, heads, nq, nk, 64)
    out = torch.full_like(q, torch.nan), torch.full(q.shape[:3], torch.nan, device="cuda")
    kernel(q, k, v, return_lse=True, out=out)
    assert_right(*out, q, k, v, mask(*positions(1, heads, nq, nk)))


def compile_for(mask):
    return flashc.compile(*qkv(1, 2, 2, 300, 300, 64), mask=mask)


def test_of_positions():
    kernel = compile_for(neighbours)
    assert kernel.mask_maps == (0, 0, 0, 0)
    for round_number in range(2):
        for nq, nk in ((300, 300), (1, 77), (1009, 997), (300, 300)):
            launch(kernel, neighbours, nq, nk)
    maps = kernel.mask_maps
    assert maps.maps == 3 and maps.misses == 3 and maps.hits == 5 and 0 < maps.bytes < 1 << 20
    # The map does not depend on heads and batches.
    launch(kernel, neighbours, 300, 300, heads=5)
    assert kernel.mask_maps.hits == 6


def test_of_scalars():
    """The same kernel gets another number at each call."""
    before = flashc.statistics().compilations
    q, k, v = qkv(1, 2, 2, 500, 500, 64)
    for distance in (1, 5, 1, 9, 5):
        number = torch.tensor(distance)
        mask = lambda b, h, i, j: is_neighbour(i, j, 40, number)  # noqa: E731
        o, lse = flashc.attention(q, k, v, mask=mask, return_lse=True)
        assert_right(o, lse, q, k, v, mask(*positions(1, 2, 500, 500)))
    assert flashc.statistics().compilations - before == 1


def test_streams_wait_for_each_other():
    q, k, v = qkv(1, 2, 2, 3000, 3000, 64)
    mask = lambda b, h, i, j: (i * 5 + j * 3) % 211 < 40  # noqa: E731
    kernel = flashc.compile(q, k, v, mask=mask)
    streams, results = [torch.cuda.Stream() for _ in range(4)], []
    torch.cuda.synchronize()
    for stream in streams:
        with torch.cuda.stream(stream):
            results.append(kernel(q, k, v))
    torch.cuda.synchronize()
    assert kernel.mask_maps.maps == 1 and kernel.mask_maps.hits == 3
    for other in results[1:]:
        assert torch.equal(results[0], other)


@pytest.mark.parametrize("is_warm", [False, True])
def test_graphs(is_warm):
    q, k, v = qkv(1, 2, 2, 700, 700, 64)
    width = 24 + 8 * is_warm
    mask = lambda b, h, i, j: is_neighbour(i, j, width, 3)  # noqa: E731
    kernel = flashc.compile(q, k, v, mask=mask)
    if is_warm:
        kernel(q, k, v)
    torch.cuda.synchronize()
    out = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(q, k, v, return_lse=True, out=out)
    assert kernel.mask_maps.maps == is_warm and kernel.mask_maps.hits == is_warm
    for _ in range(2):
        out[0].fill_(torch.nan)
        graph.replay()
        assert_right(*out, q, k, v, mask(*positions(1, 2, 700, 700)))


def test_plan():
    """A plan keeps the map of its first launch. Without a plan the mask is evaluated at every launch."""
    table = torch.rand(11, 11, device="cuda") < 0.3
    mask = blocks_of(table)
    q, k, v = (x.requires_grad_() for x in qkv(1, 2, 2, 700, 700, 64))
    plan = flashc.plan_mask(mask, 700, 700)
    kernel = flashc.compile(q, k, v, mask=plan)
    for _ in range(3):
        launch(kernel, mask, 700, 700)
    assert kernel.mask_maps[0] == 1 and kernel.mask_maps[2:] == (2, 1)
    o = flashc.attention(q, k, v, mask=plan)
    do = torch.randn_like(o)
    planned = torch.autograd.grad(o, (q, k, v), do)
    unplanned = torch.autograd.grad(flashc.attention(q, k, v, mask=mask), (q, k, v), do)
    for one, other in zip(planned[1:], unplanned[1:]):
        assert torch.equal(one, other)
    other = compile_for(mask)
    launch(other, mask, 700, 700)
    launch(other, mask, 700, 700)
    assert other.mask_maps[0] == 0 or other.mask_maps[0] == 1  # 1 if `mask` compiles to the same kernel object as above
    with pytest.raises(flashc.ArgumentError, match="expected 700 queries"):
        flashc.attention(q[:, :, :10], k, v, mask=plan)


def test_plans_end():
    table = torch.rand(5, 5, device="cuda") < 0.5
    q, k, v = qkv(1, 1, 1, 300, 300, 64)
    mask = lambda b, h, i, j: table[i // 64, j // 64] | (i == j)  # noqa: E731
    plan = flashc.plan_mask(mask)
    kernel = flashc.compile(q, k, v, mask=plan)
    kernel(q, k, v)
    assert kernel.mask_maps.maps == 1
    kernel._request = kernel._request._replace(code=kernel._request.code._replace(plan=None))
    del plan
    gc.collect()
    assert kernel.mask_maps.maps == 0 and kernel.mask_maps.bytes == 0


def test_block_mask_is_a_plan():
    from torch.nn.attention.flex_attention import create_block_mask
    ids = torch.randint(0, 4, (640,), device="cuda",
                        dtype=torch.int32).sort().values[torch.randperm(640, device="cuda")]
    mask = lambda b, h, i, j: ids[i] == ids[j]  # noqa: E731
    block_mask = create_block_mask(mask, None, None, 640, 640, device="cuda")
    q, k, v = qkv(1, 2, 2, 640, 640, 64)
    for _ in range(2):
        o, lse = flashc.torch.flex_attention(q, k, v, block_mask=block_mask, return_lse=True)
        assert_right(o, lse, q, k, v, mask(*positions(1, 2, 640, 640)))
    ids.copy_(ids.flip(0) + 1)  # changes data that the function reads, so that there is another plan
    ids[:5] = 9
    o, lse = flashc.torch.flex_attention(q, k, v, block_mask=block_mask, return_lse=True)
    tables = flashc._flex._tables_of(block_mask, 640)
    keep = tables.choose(mask, code_of(mask, None), (640, 640), flashc.torch._follows)
    keep = getattr(keep, "mask", keep)  # without the plan
    assert tables._last is not None
    assert_right(o, lse, q, k, v, _evaluate(keep, tables, mask, 640))


def _evaluate(keep, tables, mask, n):
    """Returns the pairs that FlexAttention keeps: all pairs of full blocks, and in partial blocks those that the
    function keeps."""
    if keep is mask:
        return mask(*positions(1, 2, n, n))
    i = torch.arange(n, device="cuda")
    blocks = tables.table[0, 0][i // tables.block_size[0]][:, i // tables.block_size[1]]
    return (blocks == 2) | ((blocks == 1) & mask(*positions(1, 2, n, n)))
