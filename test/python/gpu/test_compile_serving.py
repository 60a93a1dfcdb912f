"""torch.compile of flashc.decode, flashc.append_kv and flashc.merge_states on a GPU. Compiled calls give the same bits
as eager calls, whose numbers other files check. Skipped where there is no GPU."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

from torch._dynamo.testing import CompileCounterWithBackend  # noqa: E402

import decoding  # noqa: E402
import flashc  # noqa: E402
from .test_compile import compiled, sees_even_distance  # noqa: E402

BF16, F32 = torch.bfloat16, torch.float32
# Each step: the lengths of a batch of sequences, and the number of rows that the caches have for each sequence.
STEPS = [([70, 3, 190], 192), ([1, 256], 256), ([500, 1, 33, 0, 64], 512), ([100, 90, 80, 70], 1024)]
SLOPES = None


def minus_slopes(s, b, h, i, j):
    return s - SLOPES[h] * (i - j)


def make(lengths, capacity, page=0, tokens=1, depth=64, heads=2, group=4):
    cache = decoding.Cache(lengths, heads, depth, depth, capacity, page, "cuda", BF16)
    return torch.randn(len(lengths), tokens, heads * group, depth, device="cuda").to(BF16), *cache.arguments()


def check(function, eager, *arguments):
    """Checks that a function and its compiled form return equal bits."""
    got, want = function(*arguments), eager(*arguments)
    for x, y in zip(got, want) if isinstance(want, tuple) else ((got, want),):
        assert x.shape == y.shape and x.dtype == y.dtype and not x.isnan().any()
        assert torch.equal(x, y)


@pytest.mark.parametrize("page", [0, 16, 32])
def test_lengths_and_batches_change(page):
    """One graph serves all lengths and batches."""
    backend = CompileCounterWithBackend("inductor")

    def step(q, k_cache, v_cache, lengths, table=None):
        o, lse = flashc.decode(q * 2, k_cache, v_cache, lengths, table, return_lse=True, window=200)
        return o + 1, lse * 2
    function = compiled(step, backend=backend, dynamic=True)
    for lengths, capacity in STEPS:
        check(function, step, *make(lengths, capacity, page))
    assert backend.frame_count == 1


@pytest.mark.parametrize("tokens", [1, 5])
def test_options(tokens):
    """Uses positions that the graph computes, several tokens, and keywords of all kinds."""
    sinks = torch.randn(8, device="cuda")
    for keywords in ({}, {"causal": False}, {"window": (9, 3), "causal": False}, {"scale": 0.3}, {"sinks": sinks},
                     {"splits": 3}, {"splits": 8}, {"batch_invariant": True}):
        def step(q, k_cache, v_cache, lengths):
            return flashc.decode(q, k_cache, v_cache, lengths - 1, **keywords)
        check(compiled(step), step, *make([300, 77, 9], 320, tokens=tokens))


def test_heads_first():
    def step(q, k_cache, v_cache, lengths, table):
        q, k_cache, v_cache = (x.transpose(1, 2) for x in (q, k_cache, v_cache))
        return flashc.decode(q, k_cache, v_cache, lengths, table, layout="bhsd", return_lse=True)
    check(compiled(step), step, *make([300, 77, 9], 320, page=32, tokens=3))


def test_functions():
    """Mask and score functions stay in the graph. A global that they use is read at every call."""
    global SLOPES

    def step(q, k_cache, v_cache, lengths):
        return flashc.decode(q, k_cache, v_cache, lengths, mask=sees_even_distance, score=minus_slopes)
    function = compiled(step, dynamic=True)
    for lengths, capacity in STEPS:
        SLOPES = torch.rand(8, device="cuda")
        check(function, step, *make(lengths, capacity))


def test_closures_break_the_graph():
    arguments = make([300, 77, 9], 320)

    def step(q, k_cache, v_cache, lengths, score):
        return flashc.decode(q, k_cache, v_cache, lengths, score=score)
    torch.compiler.reset()
    function = torch.compile(step)
    for factor in (0.5, 2.0):
        check(function, step, *arguments, lambda s, b, h, i, j: s * factor)
    factor = 0.5
    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(step)(*arguments, lambda s, b, h, i, j: s * factor)


def serve(k_cache, v_cache, lengths, table, q, k, v, cos, sin):
    """A step of decoding."""
    flashc.append_kv(k_cache, v_cache, k, v, table, lengths, rotary=(cos, sin, False))
    return flashc.decode(q, k_cache, v_cache, lengths + q.shape[1], table)


@pytest.mark.parametrize("page", [0, 16])
@pytest.mark.parametrize("interleaved", [False, True])
def test_steps(page, interleaved):
    """In one graph, tokens are written into the caches in place, and then read."""
    backend = CompileCounterWithBackend("inductor")
    function = compiled(serve, backend=backend, dynamic=True)
    for batch, capacity in ((3, 160), (5, 96), (2, 320)):
        cache = decoding.Cache([7] * batch, 4, 64, 64, capacity, page, "cuda", BF16, interleaved=interleaved)
        if page:  # gives every slot a page
            cache.table = torch.randperm(cache.k_cache.shape[0], device="cuda").to(torch.int32)[
                :batch * (capacity // page)].view(batch, -1)
        both = [x.nan_to_num() for x in (cache.k_cache, cache.v_cache)]
        eager, graph = [x.clone() for x in both], [x.clone() for x in both]
        lengths = torch.randint(40, (batch,), dtype=torch.int32, device="cuda")
        for turn in range(3):
            q = torch.randn(batch, 2, 8, 64, device="cuda").to(BF16)
            k, v = (torch.randn(batch, 2, 4, 64, device="cuda").to(BF16) for _ in range(2))
            angles = torch.randn(capacity, 32, device="cuda")
            new = lengths + 2 * turn, cache.table, q, k, v, angles.cos(), angles.sin()
            assert torch.equal(function(*graph, *new), serve(*eager, *new))
            assert all(torch.equal(x, y) for x, y in zip(graph, eager))
            assert not torch.equal(graph[0], both[0])
    assert backend.frame_count == 1


def test_a_step_copies_no_cache(alone):
    batch, capacity = 4, 8192
    k_cache, v_cache = (torch.zeros(batch, capacity, 8, 128, device="cuda", dtype=BF16) for _ in range(2))
    q = torch.randn(batch, 1, 32, 128, device="cuda").to(BF16)
    k, v = (torch.randn(batch, 1, 8, 128, device="cuda").to(BF16) for _ in range(2))
    lengths, angles = torch.full((batch,), 5000, dtype=torch.int32,
                                 device="cuda"), torch.randn(capacity, 64, device="cuda")
    arguments = k_cache, v_cache, lengths, None, q, k, v, angles.cos(), angles.sin()
    function = compiled(serve)
    function(*arguments)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    function(*arguments)
    assert torch.cuda.max_memory_allocated() - before < k_cache.nbytes


def test_merge_states():
    def cascade(q, k, v, sinks):
        parts = [flashc.attention(q, k[:, :, a:e], v[:, :, a:e], return_lse=True) for a, e in ((0, 64), (64, 200))]
        return flashc.merge_states(*(torch.stack(x) for x in zip(*parts)), sinks=sinks)
    q, k, v = (torch.randn(2, 4, 200, 64, device="cuda").to(BF16) for _ in range(3))
    check(compiled(cascade), cascade, q, k, v, torch.randn(4, device="cuda"))
    check(compiled(cascade), cascade, q, k, v, None)


def test_cuda_graphs():
    def step(q, k_cache, v_cache, lengths):
        return flashc.decode(q, k_cache, v_cache, lengths) * 2
    function = compiled(step, mode="reduce-overhead")
    q, k_cache, v_cache, lengths = make([512] * 3, 512)
    for new in ([512, 3, 100], [1, 400, 17], [0, 511, 33], [64, 65, 66]):
        q.normal_()
        lengths.copy_(torch.tensor(new, dtype=torch.int32))
        assert torch.equal(function(q, k_cache, v_cache, lengths).clone(), step(q, k_cache, v_cache, lengths))


@pytest.mark.parametrize("keywords", [{"schedule": "warps=4"}, {"mask": torch.ones(1, dtype=torch.bool)}], ids=str)
def test_refusals(keywords):
    def step(q, k_cache, v_cache, lengths):
        return flashc.decode(q, k_cache, v_cache, lengths, **keywords)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(step)(*make([30], 32))


def test_gradients_are_refused():
    q, *others = make([30, 20], 32)

    def step(q):
        return flashc.decode(q * 2, *others)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(step)(q.requires_grad_())
    with torch.no_grad():
        assert torch.equal(compiled(step)(q), step(q))


def test_ops_are_registered_as_pytorch_asks():
    tests = "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"
    q, k_cache, v_cache, lengths, table = make([30, 20], 32, page=16)
    k_cache, v_cache = k_cache.nan_to_num(), v_cache.nan_to_num()
    for return_lse in (False, True):
        torch.library.opcheck(torch.ops.flashc.decode.default,
                              (q, k_cache, v_cache, lengths, table, None, None, True, None, None, None, None,
                               return_lse, None, None, "bshd", None, False), test_utils=tests)
    new = torch.randn(2, 1, 2, 64, device="cuda").to(BF16)
    torch.library.opcheck(torch.ops.flashc.append_kv.default, (
        k_cache, v_cache, new, new, table, lengths, None, None, False, None), test_utils=tests)
    torch.library.opcheck(torch.ops.flashc.merge_states.default, (
        torch.randn(3, 2, 4, 5, 64, device="cuda"), torch.randn(3, 2, 4, 5, device="cuda"), None), test_utils=tests)


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_fake_tensors_have_the_shapes_and_strides_of_results(layout):
    from torch._subclasses.fake_tensor import FakeTensorMode
    real = make([30, 20], 32, tokens=3)
    if layout == "bhsd":
        real = [x.transpose(1, 2) for x in real[:3]] + [real[3]]
    want = flashc.decode(*real, return_lse=True, layout=layout)
    with FakeTensorMode() as mode:
        got = flashc.decode(*map(mode.from_tensor, real), return_lse=True, layout=layout)
    for x, y in zip(got, want):
        assert (x.shape, x.stride(), x.dtype) == (y.shape, y.stride(), y.dtype)
