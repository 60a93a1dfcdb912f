"""The door to SGLang on a GPU, in bf16, with SGLang's pools: batches of requests against the formula in f64, and CUDA
graphs that are replayed with other batches. Skipped where there is no GPU, or no SGLang."""
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)
pytest.importorskip("sglang")
pytest.importorskip("sgl_kernel")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integrations-sglang"))

import paged_server  # noqa: E402
from engine import Engine, check, keep  # noqa: E402
from flashc.integrations._sglang_backend import FlashcBackend  # noqa: E402
from sglang.srt.model_executor.forward_batch_info import ForwardMode  # noqa: E402

LIMIT, LAYERS = 2e-2, [{}, dict(sliding_window_size=25, logit_cap=2.0)]
HOW = dict(layer1=dict(keep=keep(25), rescore=paged_server.soft_cap(2.0)))


@pytest.fixture(autouse=True)
def configured():
    from sglang.srt.runtime_context import get_context
    published = get_context().override_server_args(device="cuda")
    published.install()
    yield
    published.restore()


def engine_of(seed, **options):
    return Engine(seed, LAYERS, depth=64, dtype=torch.bfloat16, device="cuda", **options)


@pytest.mark.parametrize("page", [16, 64])
@pytest.mark.parametrize("window_pool", [False, True])
def test_batches(window_pool, page):
    engine = engine_of(page, window_pool=window_pool, page=page)
    backend = FlashcBackend(engine.runner)
    for mode in [ForwardMode.EXTEND, ForwardMode.EXTEND, ForwardMode.DECODE, ForwardMode.MIXED] * 3:
        batch, found = engine.step(mode, 1 if mode == ForwardMode.DECODE else None)
        if batch is not None:
            backend.init_forward_metadata(batch)
            check(engine, backend, batch, found, LIMIT, **HOW)


@pytest.mark.parametrize("window_pool", [False, True])
def test_graphs(window_pool):
    """A graph of a decoding step is captured once for each number of requests."""
    engine, graphs = engine_of(1, window_pool=window_pool), {}
    backend, layers = FlashcBackend(engine.runner), engine.layers
    backend.init_cuda_graph_state(12, 12)
    for _ in range(2):
        batch, found = engine.step(ForwardMode.EXTEND)
        backend.init_forward_metadata(batch)
        check(engine, backend, batch, found, LIMIT, **HOW)
    for _ in range(12):
        batch, found = engine.step(ForwardMode.DECODE, 1)
        if batch is None:
            continue
        new = [engine.attention(number, found) for number in range(2)]
        backend.init_forward_metadata_out_graph(batch, in_capture=batch.batch_size not in graphs)
        if batch.batch_size not in graphs:
            inputs = batch, [[x.clone() for x in step[:3]] for step in new]

            def run(batch=batch, inputs=inputs):
                return [backend.forward(q.flatten(1), k, v, layer, batch) for layer, (q, k, v) in
                        zip(layers, inputs[1])]
            run()  # compiles and loads kernels
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                outs = run()
            graphs[batch.batch_size] = graph, inputs, outs
        graph, (first, tensors), outs = graphs[batch.batch_size]
        first.out_cache_loc.copy_(batch.out_cache_loc)
        for kept, step in zip(tensors, new):
            for x, y in zip(kept, step[:3]):
                x.copy_(y)
        graph.replay()
        for number, (out, step) in enumerate(zip(outs, new)):
            want = paged_server.right(step, **HOW.get(f"layer{number}", {}))
            torch.testing.assert_close(out.view_as(want).double(), want, rtol=10 * LIMIT, atol=LIMIT)
    assert len(graphs) > 1
