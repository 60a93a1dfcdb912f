"""flashc.decode on the CPU, against the formula in f64; and what it refuses."""
import resource

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import decoding  # noqa: E402
import flashc  # noqa: E402
from flashc import _decode  # noqa: E402
from flashc._arrays import cuda  # noqa: E402
from flashc._arrays.array import CPU  # noqa: E402
from flashc._runtime import library  # noqa: E402
from flashc._runtime.calls import Inputs  # noqa: E402
from flashc._runtime.options import Options  # noqa: E402
from flashc._runtime.specialization import Extents, make_code, specialize  # noqa: E402


def make(lengths, heads=2, group=2, tokens=1, depth=16, value_depth=None, page=0, capacity=None, **keywords):
    cache = decoding.Cache(lengths, heads, depth, value_depth or depth, capacity or max(max(lengths), 1), page,
                           **keywords)
    return cache, torch.randn(len(lengths), tokens, heads * group, depth)


@pytest.mark.parametrize("page", [0, 1, 7, 8, 16, 64])
@pytest.mark.parametrize("tokens", [1, 3])
def test_pages(page, tokens):
    cache, q = make([37, 1, 0, 16, 2], tokens=tokens, page=page)
    decoding.check(cache, q, 1e-5)


STORED = [torch.int8, *([torch.float8_e4m3fn] if hasattr(torch, "float8_e4m3fn") else [])]


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("page,scales", [(0, "all"), (0, "heads"), (7, "pages"), (16, "pages and heads"), (8, "heads")])
def test_eight_bits(stored, page, scales):
    cache, q = make([37, 1, 0, 16, 2], tokens=3, page=page, stored=stored, scales=scales)
    decoding.check(cache, q, 1e-5)


def test_scales_are_refused():
    cache, q = make([20, 33], stored=torch.int8, scales="heads")
    k, v, lengths = cache.arguments()
    good = cache.scales["k_scale"]

    def call(*caches, **keywords):
        return flashc.decode(q, *caches, lengths, **keywords)
    with pytest.raises(flashc.ArgumentError, match="expected k_scale and v_scale for caches of int8"):
        call(k, v, k_scale=good)
    with pytest.raises(flashc.ArgumentError, match="expected no k_scale and v_scale for caches of f32"):
        call(k.float(), v.float(), k_scale=good, v_scale=good)
    with pytest.raises(flashc.UnsupportedTypeError,
                       match="expected k_cache and v_cache of one element type, got int8 and f32"):
        call(k, v.float(), k_scale=good, v_scale=good)
    with pytest.raises(flashc.ArgumentError, match="expected v_scale of shape"):
        call(k, v, k_scale=good, v_scale=torch.ones(3))
    with pytest.raises(flashc.ArgumentError, match="expected k_scale and v_scale of one shape"):
        call(k, v, k_scale=good, v_scale=good[0])
    with pytest.raises(flashc.UnsupportedTypeError, match="expected k_scale of f32, got f64"):
        call(k, v, k_scale=good.double(), v_scale=good)
    with pytest.raises(flashc.ArgumentError, match="multiple of 16 for caches of 8 bits, got 8"):
        flashc.decode(*(x[..., :8].contiguous() for x in (q, k, v)), lengths, k_scale=good, v_scale=good)


@pytest.mark.parametrize("page", [0, 1, 7, 16, 64])
@pytest.mark.parametrize("entry", [-1, 1 << 30, None])
@pytest.mark.parametrize("tokens", [1, 20])
def test_keys_before_a_window_are_free(page, entry, tokens):
    cache, q = make([150, 1, 0, 16, 129], tokens=tokens, page=page)
    cache.free(lambda length: length - tokens - 9, entry)
    decoding.check(cache, q, 1e-5, **WINDOW)
    if page or entry is None:  # masks by code: nobody says which key is the first
        decoding.check(cache, q, 1e-5, mask=lambda b, h, i, j: i - j <= 9, keep=WINDOW["keep"])


WINDOW = dict(window=9, keep=lambda b, h, i, j: (j <= i) & (j >= i - 9))


def test_lengths_and_tables_on_the_cpu_are_checked():
    cache, q = make([20, 33], page=16)
    k, v, lengths, table = cache.arguments()
    for bad in (-1, 49):
        with pytest.raises(flashc.ArgumentError, match=f"expected lengths from 0 to 48, .* got {bad} for sequence 1"):
            flashc.decode(q, k, v, torch.tensor([20, bad], dtype=torch.int32), table)
        with pytest.raises(flashc.ArgumentError, match=f"expected lengths from 0 to 16, the rows, got {bad}"):
            flashc.decode(q[:1], k[:1], v[:1], torch.tensor([bad], dtype=torch.int32))
    table[1, 1] = len(k)
    with pytest.raises(flashc.ArgumentError,
                       match=f"expected pages from 0 to .* in block_table, got {len(k)} in slot 1 of seq"):
        flashc.decode(q, k, v, lengths, table)
    flashc.decode(q, k, v, lengths, table, window=0)
    o = flashc.decode(q, k, v, lengths, table, mask=lambda b, h, i, j: j < 16)
    assert o.isfinite().all()
    o = flashc.decode(q, k, v, lengths, table, mask=lambda b, h, i, j: j >= 0)
    assert o[0].isfinite().all() and o[1].isnan().all()


@pytest.mark.parametrize("order,interleaved", [("nhd", False), ("hnd", False), ("nhd", True)])
def test_layouts(order, interleaved):
    cache, q = make([20, 33], page=8, order=order, interleaved=interleaved)
    decoding.check(cache, q, 1e-5)
    heads_first = [x.transpose(1, 2) for x in (q, cache.k_cache, cache.v_cache)]
    o = flashc.decode(*heads_first, *cache.arguments()[2:], layout="bhsd")
    assert torch.equal(o.transpose(1, 2), flashc.decode(q, *cache.arguments()))


@pytest.mark.parametrize("heads,group,tokens", [(1, 1, 1), (1, 5, 2), (3, 4, 4), (1, 2, 20)])
def test_rows(heads, group, tokens):
    cache, q = make([30, 5, 41], heads=heads, group=group, tokens=tokens, depth=8, value_depth=24)
    decoding.check(cache, q, 1e-5)


@pytest.mark.parametrize("page", [0, 7, 16])
@pytest.mark.parametrize("tokens", [17, 129])
def test_prefill(page, tokens):
    """Some sequences have fewer keys than tokens: queries at negative positions see nothing."""
    cache, q = make([150, 1, 0, 16, 129], tokens=tokens, page=page)
    decoding.check(cache, q, 1e-5)


def test_masks_and_scores():
    cache, q = make([30, 5, 41], tokens=3, page=8)
    slopes = torch.rand(4)
    decoding.check(cache, q, 1e-5, window=7, keep=lambda b, h, i, j: (j <= i) & (j >= i - 7))
    decoding.check(cache, q, 1e-5, causal=False, keep=lambda b, h, i, j: j >= 0)
    decoding.check(cache, q, 1e-5, mask=lambda b, h, i, j: j % 3 != h % 3, keep=lambda b, h, i, j:
                   (j <= i) & (j % 3 != h % 3))
    decoding.check(cache, q, 1e-5, rescore=lambda s, b, h, i, j: s - slopes[h] * (i - j))
    decoding.check(cache, q, 1e-5, sinks=torch.randn(4))


def test_numpy():
    cache, q = make([12, 9], page=4)
    o = flashc.decode(q.numpy(), *(x.numpy() for x in cache.arguments()))
    assert isinstance(o, np.ndarray) and np.array_equal(o, flashc.decode(q, *cache.arguments()).numpy())


def test_out():
    cache, q = make([12, 9])
    out = torch.full_like(q, torch.nan), torch.full((2, 4, 1), torch.nan)
    assert flashc.decode(q, *cache.arguments(), out=out) is out[0]
    o, lse = flashc.decode(q, *cache.arguments(), return_lse=True)
    assert torch.equal(o, out[0]) and torch.equal(lse, out[1])


def test_nothing():
    cache, q = make([3, 2])
    o, lse = flashc.decode(q[:0], cache.k_cache[:0], cache.v_cache[:0], cache.lengths[:0], return_lse=True)
    assert o.shape == (0, 1, 4, 16) and lse.shape == (0, 4, 1)
    o, lse = flashc.decode(q, cache.k_cache[:, :0], cache.v_cache[:, :0], 0 * cache.lengths, return_lse=True)
    assert not o.any() and (lse == -torch.inf).all()


REFUSALS = [
    (dict(lengths=torch.tensor([3])), "expected lengths of shape"),
    (dict(lengths=torch.tensor([3.0, 2.0])), "expected lengths of int32, got f32"),
    (dict(block_table=torch.tensor([3, 2], dtype=torch.int32)), "expected block_table of shape"),
    (dict(mask=torch.ones(1, dtype=torch.bool)), "expected mask to be a function"),
    (dict(layout="sbhd"), "expected layout 'bhsd'"),
    (dict(v_cache=torch.randn(2, 4, 2, 16)), "expected k_cache and v_cache of as many rows"),
    (dict(q=torch.randn(2, 1, 3, 16)), "expected the heads of q to be a multiple"),
    (dict(q=torch.randn(2, 4, 16)), "expected q of 4 dimensions"),
]


@pytest.mark.parametrize("changed,message", REFUSALS, ids=[message for _, message in REFUSALS])
def test_refusals(changed, message):
    cache, q = make([3, 2])
    arguments = dict(q=q, k_cache=cache.k_cache, v_cache=cache.v_cache, lengths=cache.lengths) | changed
    with pytest.raises(flashc.Error, match=message):
        flashc.decode(**arguments)


class TwoGPUs:
    """A CUDA driver that only knows attributes. GPU 0 has 132 multiprocessors, and GPU 1 has 16."""

    def cuDeviceGet(self, handle, device):
        handle._obj.value = device.value
        return 0 if device.value < 2 else 101

    def cuDeviceGetAttribute(self, value, attribute, handle):
        value._obj.value = {16: (132, 16)[handle.value], 75: 9, 76: 0}[attribute.value]
        return 0


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(cuda, "_driver", TwoGPUs())
    monkeypatch.setattr(_decode, "_plans", {})
    cuda._attribute_of.cache_clear()
    yield
    cuda._attribute_of.cache_clear()


def test_schedules_go_by_the_gpu(two_gpus):
    extents = Extents(1, 32, 8, 1, 8192, 128, 128, "bf16")
    specialization = specialize(extents, Options(causal=True), "sm_90a")._replace(page_size=0)

    def parts(device):
        fields = dict(
            field.split("=") for field in _decode._choose(specialization, extents, device, Options())[1].split(","))
        return int(fields["splits"])
    first = parts(0)
    assert first > parts(1) >= 1 and parts(0) == first
    with pytest.raises(flashc.GPUError, match="GPU 2"):
        cuda.multiprocessors_of(2)


def test_a_cache_that_grows_has_a_new_choice_after_64_rows(two_gpus, monkeypatch):
    asked, choose = [], _decode._choose
    monkeypatch.setattr(_decode, "_choose",
                        lambda it, extents, *how: asked.append(extents.keys) or choose(it, extents, *how))
    for rows in (1, 63, 64, 65, 4097):
        cache = flashc.ArraySpec((2, rows, 2, 64), "bf16")
        inputs = Inputs({"q": flashc.ArraySpec((2, 1, 8, 64), "bf16"), "k_cache": cache, "v_cache": cache,
                         "lengths": flashc.ArraySpec((2,), "int32")})
        inputs.device = 0
        case = _decode._case(inputs, Options(causal=True, enable_gqa=True, layout="bshd"))
        assert case.finish(case.specialization).options.schedule
    assert asked == [64, 64, 64, 128, 4160] and len(_decode._plans) == 3


def test_schedules_go_by_the_mask(two_gpus):
    """With equal extents, the mask decides whether keys are cut into parts. They are not cut if the mask's bounds may
    be runs in a table."""
    extents = Extents(1, 32, 8, 128, 8192, 128, 128, "bf16")
    ids = np.zeros(8192, np.int32)

    def choose(mask):
        code = make_code(mask, None, extents, CPU, None)
        specialization = specialize(extents, Options(causal=True), "sm_90a").of(code)
        kind, schedule = _decode._choose(specialization._replace(page_size=0), extents, 0, Options())
        assert kind == library.FORWARD_KERNEL
        return schedule
    assert choose(None) == "splits=4"
    assert choose(lambda b, h, i, j: ids[i] == ids[j]) == ""
    assert choose(lambda b, h, i, j: i - j < 999) == "splits=4"


def test_many_sequences_share_the_work(two_gpus):
    """Large caches of many sequences are cut into parts by the work of all tiles, since lengths may differ. Rows of a
    sequence must fit into a tile, and a list of 8 us must pay."""
    def choose(batch, heads, tokens, keys, depth=128, group=4, **how):
        extents = Extents(batch, heads * group, heads, tokens, keys, depth, depth, "bf16")
        options = Options(causal=True, **how)
        specialization = specialize(extents, options, "sm_90a")._replace(page_size=16)
        return _decode._choose(specialization, extents, 0, options)[1]

    by_work = "splits=8,heads=4,consumers=1,kv-tile=128,persistent=true"
    assert choose(64, 8, 1, 4096) == choose(16, 8, 16, 32768) == choose(8, 8, 4, 65536) == by_work
    assert choose(64, 8, 4, 16384, depth=64, group=8) == by_work.replace("heads=4", "heads=8")
    for other in (choose(64, 8, 1, 1024), choose(7, 8, 4, 65536), choose(64, 8, 17, 4096),
                  choose(64, 32, 1, 4096, group=1), choose(64, 8, 16, 16384, depth=64, group=8),
                  choose(64, 8, 1, 4096, window=(1000, 0)), choose(64, 8, 1, 4096, splits=2),
                  choose(64, 8, 1, 4096, batch_invariant=True)):
        assert "persistent" not in other


# --- The ops of graphs ------------------------------------------------------------------------------------------------

needs_ops = pytest.mark.skipif(not hasattr(torch.library, "custom_op"), reason="PyTorch has no torch.library.custom_op")


def sees_every_third(b, h, i, j):
    return (i - j) % 3 == 0


def is_shifted(s, b, h, i, j):
    return s - 0.25 * (i - j)


def serve(k_cache, v_cache, lengths, table, q, k, v):
    flashc.append_kv(k_cache, v_cache, k, v, table, lengths)
    return flashc.decode(q, k_cache, v_cache, lengths + q.shape[1], table, mask=sees_every_third, score=is_shifted,
                         return_lse=True)


@needs_ops
@pytest.mark.parametrize("page", [0, 8])
def test_a_step_is_one_graph(page):
    """Caches are written in place and then read. One graph serves all batches and lengths."""
    from torch._dynamo.testing import CompileCounterWithBackend
    torch.compiler.reset()
    backend = CompileCounterWithBackend("aot_eager")
    function = torch.compile(serve, backend=backend, fullgraph=True, dynamic=True)
    for batch, capacity in ((3, 40), (5, 24), (2, 56)):
        cache = decoding.Cache([20] * batch, 4, 16, 16, capacity, page)
        if page:  # gives every slot a page
            cache.table = torch.randperm(cache.k_cache.shape[0],
                                         dtype=torch.int32)[:batch * capacity // page].view(batch, -1)
        eager, graph = ([x.nan_to_num() for x in (cache.k_cache, cache.v_cache)] for _ in range(2))
        lengths = torch.randint(20, (batch,), dtype=torch.int32)
        new = lengths, cache.table, torch.randn(batch, 2, 8, 16), *(torch.randn(batch, 2, 4, 16) for _ in range(2))
        got, want = function(*graph, *new), serve(*eager, *new)
        assert all(torch.equal(x, y) for x, y in zip([*got, *graph], [*want, *eager]))
    assert backend.frame_count == 1


@needs_ops
def test_merge_states_in_a_graph():
    torch.compiler.reset()
    o, lse, sinks = torch.randn(3, 2, 4, 5, 8), torch.randn(3, 2, 4, 5), torch.randn(4)
    function = torch.compile(lambda o, lse, sinks: flashc.merge_states(o, lse, sinks=sinks), backend="aot_eager",
                             fullgraph=True)
    for given in (sinks, None):
        assert all(map(torch.equal, function(o, lse, given), flashc.merge_states(o, lse, sinks=given)))


@needs_ops
def test_fake_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode
    cache, q = make([12, 9], tokens=3, value_depth=24)
    real = q, *cache.arguments()
    for layout in ("bshd", "bhsd"):
        want = flashc.decode(*real, return_lse=True, layout=layout)
        with FakeTensorMode() as mode:
            got = flashc.decode(*map(mode.from_tensor, real), return_lse=True, layout=layout)
        assert [(x.shape, x.stride(), x.dtype) for x in got] == [(x.shape, x.stride(), x.dtype) for x in want]
        real = [x.transpose(1, 2) for x in real[:3]] + [real[3]]


@needs_ops
def test_ops_are_registered_as_pytorch_asks():
    import flashc.torch  # noqa: F401
    tests = "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"
    cache, q = make([12, 9], page=8, capacity=16)
    k_cache, v_cache, lengths, table = cache.arguments()
    k_cache, v_cache, table = k_cache.nan_to_num(), v_cache.nan_to_num(), table.clamp(max=3)
    for return_lse in (False, True):
        torch.library.opcheck(torch.ops.flashc.decode.default, (
            q, k_cache, v_cache, lengths, table, None, None, True, 5, 0, 0.5, None, return_lse, None, None, "bshd",
            None, False),
            test_utils=tests)
    new = torch.randn(2, 1, 2, 16)
    torch.library.opcheck(torch.ops.flashc.append_kv.default, (
        k_cache, v_cache, new, new, table, lengths, None, None, False, None), test_utils=tests)
    torch.library.opcheck(torch.ops.flashc.merge_states.default, (
        torch.randn(3, 2, 4, 5, 8), torch.randn(3, 2, 4, 5), None), test_utils=tests)


@needs_ops
def test_the_op_counts_its_writes():
    """PyTorch counts the writes to a tensor, but not to one that was made in inference mode."""
    import flashc.torch  # noqa: F401
    caches, new, positions = [torch.zeros(1, 8, 2, 16) for _ in range(2)], torch.randn(1, 1, 2, 16), torch.tensor([3])
    torch.ops.flashc.append_kv.default(*caches, new, new, None, positions.int(), None, None, False, None)
    assert [x._version for x in caches] == [1, 1] and torch.equal(caches[1][:, 3:4], new)
    with torch.inference_mode():
        cache = torch.zeros(1, 8, 2, 16)
        torch.ops.flashc.append_kv.default(cache, caches[0], new, new, None, positions.int(), None, None, False, None)
    assert torch.equal(cache[:, 3:4], new) and caches[0]._version == 2


@needs_ops
def test_ops_refuse_gradients_that_they_do_not_have():
    import flashc.torch  # noqa: F401
    cache, q = make([12, 9])
    trained = q.clone().requires_grad_()
    with pytest.raises(flashc.Error, match="expected q without gradients"):
        torch.ops.flashc.decode.default(trained, *cache.arguments(), *[None] * 3, True, *[None] * 4, False, None, None,
                                        "bshd", None, False)
    with pytest.raises(flashc.Error, match="expected o without gradients"):
        torch.ops.flashc.merge_states.default(torch.zeros(1, 2, 4, 1, 8, requires_grad=True), torch.zeros(1, 2, 4, 1),
                                              None)


@needs_ops
def test_what_graphs_refuse():
    from torch._dynamo.exc import Unsupported
    cache, q = make([12, 9])
    new = torch.randn(2, 1, 2, 16)

    def refuses(function, *arguments):
        torch.compiler.reset()
        with pytest.raises(Unsupported):
            torch.compile(function, backend="aot_eager", fullgraph=True)(*arguments)
    factor = torch.tensor(0.5)
    for keywords in ({"schedule": "warps=4"}, {"out": torch.empty_like(q)}, {"score": lambda s, b, h, i, j: s * factor
                                                                             }):
        refuses(lambda q: flashc.decode(q, *cache.arguments(), **keywords), q)
    trained = q.clone().requires_grad_()
    refuses(lambda q: flashc.decode(q * 2, *cache.arguments()), trained)
    refuses(lambda k: flashc.append_kv(cache.k_cache, cache.v_cache, k * 2, new, None, cache.lengths),
            new.clone().requires_grad_())
    refuses(lambda o: flashc.merge_states(o * 2, torch.zeros(1, 2, 4, 1)),
            torch.randn(1, 2, 4, 1, 8, requires_grad=True))
    with torch.no_grad():
        o = torch.compile(lambda q: flashc.decode(q, *cache.arguments()), backend="aot_eager", fullgraph=True)(trained)
    assert torch.equal(o, flashc.decode(q, *cache.arguments()))


def test_gradients_are_refused():
    cache, q = make([12, 9])
    with pytest.raises(flashc.Error, match="expected q without gradients"):
        flashc.decode(q.requires_grad_(), *cache.arguments())
    with pytest.raises(flashc.Error, match="expected sinks without gradients"):
        flashc.decode(q.detach(), *cache.arguments(), sinks=torch.zeros(4, requires_grad=True))


def test_a_call_touches_only_the_rows_that_queries_see():
    """The pages of a pool of 2 GiB that no query sees were never written, so the system has not given them memory. A
    call must not touch them."""
    pool = np.zeros((1 << 14, 2, 32, 2, 256), np.float32)
    k_cache, v_cache = pool[:, 0], pool[:, 1]
    table, lengths = np.array([[16000, 5, 9999]], np.int32), np.array([70], np.int32)
    k_cache[table[0]], v_cache[table[0]] = np.random.standard_normal((2, 3, 32, 2, 256))
    q, new = np.random.standard_normal((1, 1, 4, 256)).astype(np.float32), np.ones((1, 1, 2, 256), np.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    o = flashc.decode(q, k_cache, v_cache, lengths, table)
    flashc.append_kv(k_cache, v_cache, new, new, table, lengths)
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert kilobytes < 256 * 1024
    position = np.arange(71)
    k, v = (cache[table[0][position // 32], position % 32] for cache in (k_cache, v_cache))
    scores = np.einsum("hgd,jhd->hgj", q.reshape(2, 2, 256), k[:70]) / 16
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = np.einsum("hgj,jhd->hgd", weights / weights.sum(-1, keepdims=True), v[:70]).reshape(1, 1, 4, 256)
    assert np.abs(o - want).max() < 1e-5
    assert (k[70] == 1).all() and (v[70] == 1).all()
