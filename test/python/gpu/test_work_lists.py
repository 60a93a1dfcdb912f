"""Kernels that run before the attention kernel on a GPU: the work list that the order kernel makes, and the outputs of
kernels that use the list, on several streams and in graphs. Skipped where there is no GPU."""
import ctypes
import re

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from .tensors import qkv  # noqa: E402
from .test_attention import check  # noqa: E402


# --- The list ---------------------------------------------------------------------------------------------------------

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    assert status == 0, f"{name}: error {status}"


def evaluate(formula, arguments):
    """Evaluates a formula of the manifest for tensors."""
    mul, add = lambda x, y: x * y, lambda x, y: x + y
    words = {"ceildiv": lambda x, y: -(-x // y), "mul": mul, "mul64": mul, "min": min, "add": add, "add64": add,
             "sm_count": torch.cuda.get_device_properties(0).multi_processor_count}
    text = re.sub(r"arg(\d+)\.dim(\d+)", lambda match: str(arguments[int(match[1])].shape[int(match[2])]), str(formula))
    return eval(text, {"__builtins__": {}}, words)


def run_order_kernel(kernel, arguments, items):
    """Runs the order kernel of `kernel`. Returns the items in the order of the list, and the work of each item, both
    from the workspace. (There, further numbers follow each item of the list. The work of all items follows the list,
    then further numbers, and last the counter of drawn items.)"""
    manifest = kernel.manifest
    (before,) = manifest["before"]
    words = evaluate(manifest["workspace"], arguments) // 4
    workspace = torch.full((words + 64,), -7, dtype=torch.int32, device="cuda")
    values = []
    for parameter in before["parameters"]:
        x = arguments[parameter["argument"]] if "argument" in parameter else workspace
        values.append({"workspace": lambda: ctypes.c_uint64(x.data_ptr()),
                       "pointer": lambda: ctypes.c_uint64(x.data_ptr()),
                       "extent": lambda: ctypes.c_int32(x.shape[parameter["dim"]]),
                       "stride": lambda: ctypes.c_int64(x.stride(parameter["dim"]))}[parameter["kind"]]())
    pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), kernel.ptx.encode())
    try:
        call("cuModuleGetFunction", ctypes.byref(function), module, before["kernel"].encode())
        grid = [evaluate(extent, arguments) for extent in before["grid"]]
        torch.cuda.synchronize()
        call("cuLaunchKernel", function, *grid, *before["block"], before["dynamic_shared_memory"], None, pointers, None)
        torch.cuda.synchronize()
    finally:
        cuda.cuModuleUnload(module)
    assert (workspace[-64:] == -7).all(), "written behind the workspace"
    size = words // (2 * items)
    assert words == 2 * items * size + 1 and workspace[words - 1] == 0
    return workspace[:size * items:size], workspace[size * items:(size + 1) * items]


def assert_sorted(order, work):
    """Checks that `order` is a permutation that sorts the items by falling work. The order is exact if the largest work
    is at most 256. Otherwise items count as equal if their distances from the largest work are equal after a division
    by a power of two. Equal items keep their order."""
    assert torch.equal(order.sort().values, torch.arange(len(order), device="cuda", dtype=torch.int32))
    most = int(work.max())
    key = (most - work.long()) >> max((most - 1).bit_length() - 8, 0)
    assert torch.equal(order.long(), torch.argsort(key, stable=True))


@pytest.mark.parametrize("batch,queries", [(1, 1), (1, 128), (3, 1000), (32, 128), (33, 4096), (300, 2000),
                                           (2, 1 << 20), (1, 1 << 27)])
@pytest.mark.parametrize("keys", [100, 5000, 200000])
def test_list_is_a_sorted_permutation(batch, queries, keys):
    # Only the extents of such large tensors are used.
    q = torch.empty(1, 1, 1, 64, device="cuda", dtype=torch.bfloat16).expand(batch, 1, queries, 64)
    k = q[:, :, :1].expand(batch, 1, keys, 64)
    lengths = torch.randint(0, keys + 1, (batch,), device="cuda", dtype=torch.int32)
    small = [torch.empty(batch, 1, 256, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    kernel = flashc.compile(*small, mask=lambda b, h, i, j: j < lengths[b], schedule="consumers=2,kv-tile=128")
    arguments = [q, k, k, lengths]
    for _ in range(3):
        tiles = -(-queries // 128)
        order, work = run_order_kernel(kernel, arguments, batch * tiles)
        assert torch.equal(work.view(batch, tiles), lengths.add(127).div(128, rounding_mode="floor").clamp(1)[:, None]
                           .expand(batch, tiles).int())
        assert_sorted(order, work)


@pytest.mark.parametrize("seed", range(5))
def test_list_of_sequences(seed):
    """Tests the tiles of flash.segment_tile. A tile of a sequence visits the keys of the sequence up to the tile's last
    query. A tile without a query visits one tile of keys, the least that a kernel needs."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 1500, (1 + 7 * seed,), generator=generator).tolist() + [77]
    starts = torch.tensor([0, *lengths]).cumsum(0).int().cuda()
    q, k, v = qkv(1, 2, 2, sum(lengths), sum(lengths), 128)
    kernel = flashc.compile(q, k, v, mask=flashc.masks.packed(starts, causal=True),
                            schedule="consumers=2,kv-tile=128,own-keys=false")
    want, begins = [], [0, *starts.tolist(), sum(lengths)]
    for n, (begin, end) in enumerate(zip(begins, begins[1:])):
        for tile in range(end // 128 - begin // 128 + 1):
            want.append(max(1, -(-(min((tile + 1) * 128, end - begin)) // 128) if tile * 128 < end - begin else 1))
    order, work = run_order_kernel(kernel, [q, k, v, starts], len(want))
    # Items may be numbered from the last tile, since that one has the most keys under a causal mask.
    assert work.tolist() in (want, want[::-1])
    assert_sorted(order, work)


# --- Outputs ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("batch,heads,queries", [(1, 1, 1), (1, 2, 300), (5, 3, 700), (2, 40, 129), (1, 16, 3000)])
def test_outputs_by_a_list(d, batch, heads, queries):
    q, k, v = qkv(batch, heads, heads, queries, queries, d)
    lengths = torch.randint(0, queries + 1, (batch,), device="cuda", dtype=torch.int32)
    padding = lambda b, h, i, j: j < lengths[b]  # noqa: E731
    check(q, k, v, padding, mask=padding)
    widths = torch.randint(0, queries + 1, (batch, heads), device="cuda", dtype=torch.int32)
    per_head = lambda b, h, i, j: (j <= i) & (j < widths[b, h])  # noqa: E731
    check(q, k, v, per_head, mask=per_head)


def test_lists_give_equal_outputs():
    q, k, v = qkv(3, 8, 2, 2000, 2000, 128)
    lengths = torch.tensor([2000, 0, 700], device="cuda", dtype=torch.int32)
    run = lambda **keywords: flashc.attention(  # noqa: E731
        q, k, v, mask=lambda b, h, i, j: j < lengths[b], enable_gqa=True, **keywords)
    o = run()
    assert torch.equal(o, run())


# --- Streams and graphs -----------------------------------------------------------------------------------------------

def padded(q, k, v, lengths):
    return flashc.attention(q, k, v, mask=lambda b, h, i, j: j < lengths[b])


def test_streams_do_not_share_lists():
    """Launches of one kernel run at the same time, each on a stream of its own and with a list of another length."""
    problems = []
    for index in range(6):
        q, k, v = qkv(4, 8, 8, 500 + 300 * index, 1500, 64)
        problems.append((q, k, v, torch.randint(0, 1501, (4,), device="cuda", dtype=torch.int32)))
    expected = [padded(*problem) for problem in problems]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in problems]
    results = [[] for _ in problems]
    for _ in range(20):
        for stream, problem, result in zip(streams, problems, results):
            with torch.cuda.stream(stream):
                result.append(padded(*problem))
    torch.cuda.synchronize()
    for want, result in zip(expected, results):
        assert all(torch.equal(want, o) for o in result)


def test_graph_makes_its_list_again():
    q, k, v = qkv(4, 8, 8, 1000, 1000, 64)
    lengths = torch.tensor([1000, 10, 500, 0], device="cuda", dtype=torch.int32)
    padded(q, k, v, lengths)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first = padded(q, k, v, lengths)
        second = padded(q, k, v, lengths)
    for _ in range(3):
        lengths.copy_(torch.randint(0, 1001, (4,), device="cuda", dtype=torch.int32))
        first.fill_(float("nan"))
        second.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        want = padded(q, k, v, lengths)
        assert torch.equal(first, want) and torch.equal(second, want)


def test_memory_stays_the_same(alone):
    q, k, v = qkv(4, 8, 8, 1000, 1000, 64)
    lengths = torch.tensor([1000, 10, 500, 0], device="cuda", dtype=torch.int32)
    padded(q, k, v, lengths)
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    for _ in range(2000):
        padded(q, k, v, lengths)
    torch.cuda.synchronize()
    assert torch.cuda.mem_get_info()[0] >= free - (64 << 20)
