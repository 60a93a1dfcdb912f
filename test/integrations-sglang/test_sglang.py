"""Numbers on the CPU through SGLang's classes: batches of requests in SGLang's pools, against the formula in f64, and
against SGLang's own backend for PyTorch."""
import argparse
import os
import pathlib
import random
import tomllib
import types

import pytest

pytest.importorskip("sglang")

import flashc  # noqa: E402
import paged_server  # noqa: E402
import torch  # noqa: E402
from engine import Engine, check, keep, runner_of  # noqa: E402
from flashc.integrations import sglang as entry  # noqa: E402
from flashc.integrations._sglang_backend import FlashcBackend  # noqa: E402
from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend  # noqa: E402
from sglang.srt.layers.radix_attention import AttentionType  # noqa: E402
from sglang.srt.model_executor.forward_batch_info import ForwardMode  # noqa: E402
from sglang.srt.server_args import ServerArgs  # noqa: E402

DECODE, EXTEND, MIXED, VERIFY = (ForwardMode.DECODE, ForwardMode.EXTEND, ForwardMode.MIXED, ForwardMode.TARGET_VERIFY)
LIMIT = 2e-5
SINKS = torch.tensor([0.5, -1.0, 2.0, 0.0])

#: {name: (keywords of RadixAttention, keywords of the formula)}.
LAYERS = {
    "causal": ({}, {}),
    "window": (dict(sliding_window_size=39), dict(keep=keep(39))),
    "window of two keys": (dict(sliding_window_size=1), dict(keep=keep(1))),
    "soft cap": (dict(logit_cap=2.0), dict(rescore=paged_server.soft_cap(2.0))),
    "sinks": ({}, dict(sinks=SINKS)),
    "sinks and window": (dict(sliding_window_size=20), dict(keep=keep(20), sinks=SINKS)),
    "both sides": (dict(attn_type=AttentionType.ENCODER_ONLY), dict(keep=keep(None, False))),
    "both sides, window": (dict(attn_type=AttentionType.DECODER_BIDIRECTIONAL, sliding_window_size=9),
                           dict(keep=keep(9, False))),
}


def run(engine, backend, steps, limit=LIMIT, modes=(DECODE, EXTEND, MIXED), **keywords):
    done = 0
    while done < steps:
        mode = engine.random.choice(modes)
        batch, found = engine.step(mode, 1 if mode == DECODE else None)
        if batch is None:
            batch, found = engine.step(EXTEND)
        backend.init_forward_metadata(batch)
        check(engine, backend, batch, found, limit, **keywords)
        done += 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", LAYERS)
def test_layers(configured, name, seed):
    options, how = LAYERS[name]
    engine = Engine(seed, [options])
    modes = (EXTEND, MIXED) if "both" in name else (DECODE, EXTEND, MIXED)
    run(engine, FlashcBackend(engine.runner), 8, modes=modes, layer0=how)


@pytest.mark.parametrize("page, heads, key_heads, depth", [(16, 4, 4, 64), (32, 8, 1, 16), (48, 6, 2, 72),
                                                           (64, 4, 2, 128)])
def test_shapes(configured, page, heads, key_heads, depth):
    engine = Engine(page, [{}, {}], heads=heads, key_heads=key_heads, depth=depth, page=page)
    run(engine, FlashcBackend(engine.runner), 6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_types(configured, dtype):
    engine = Engine(0, [dict(sliding_window_size=30)], dtype=dtype)
    run(engine, FlashcBackend(engine.runner), 4, 2e-2, layer0=dict(keep=keep(30)))


@pytest.mark.parametrize("seed", range(4))
def test_a_pool_for_windows(configured, seed):
    engine = Engine(seed, [{}, dict(sliding_window_size=25), dict(sliding_window_size=25), {}], window_pool=True)
    how = dict(keep=keep(25))
    run(engine, FlashcBackend(engine.runner), 10, layer1=how, layer2=how)


def test_pages_with_heads_before_tokens(configured, monkeypatch):
    monkeypatch.setenv("SGLANG_USE_HND_KVCACHE", "1")
    engine = Engine(5)
    assert engine.pool.kv_cache_layout == "hnd"
    run(engine, FlashcBackend(engine.runner), 6)


@pytest.mark.parametrize("seed", range(3))
def test_results_of_sglangs_own_backend(configured, seed):
    """Both backends run the same batches, each with a pool of its own."""
    engines = [Engine(seed, [{}, dict(sliding_window_size=39)]) for _ in range(2)]
    ours, own = FlashcBackend(engines[0].runner), TorchNativeAttnBackend(engines[1].runner)
    for mode in [EXTEND, EXTEND, DECODE, EXTEND, DECODE, DECODE]:
        steps = [engine.step(mode, 1 if mode == DECODE else None) for engine in engines]
        if steps[0][0] is None:
            continue
        for (batch, _), backend in zip(steps, (ours, own)):
            backend.init_forward_metadata(batch)
        for number in range(2):
            outs = []
            for engine, (batch, found), backend in zip(engines, steps, (ours, own)):
                torch.manual_seed(number)
                x = engine.attention(number, found)
                outs.append(backend.forward(x.query.flatten(1), x.key, x.value, engine.layers[number], batch))
            torch.testing.assert_close(*outs, rtol=1e-4, atol=LIMIT)


@pytest.mark.parametrize("queries", [2, 5])
def test_chains_of_drafts(configured, queries):
    configured(speculative_num_draft_tokens=queries, speculative_eagle_topk=1)
    engine = Engine(queries, [{}, dict(sliding_window_size=20)])
    backend = FlashcBackend(engine.runner)
    run(engine, backend, 2, modes=(EXTEND,), layer1=dict(keep=keep(20)))
    for _ in range(6):
        batch, found = engine.step(VERIFY, queries)
        if batch is None:
            run(engine, backend, 1, modes=(EXTEND,), layer1=dict(keep=keep(20)))
            continue
        backend.init_forward_metadata(batch)
        check(engine, backend, batch, found, LIMIT, layer1=dict(keep=keep(20)))


def eight_bits(step, k_scale, v_scale):
    """Returns a step whose past keys and values have the rounding of a cache of 8 bits."""
    def rounded(x, scale):
        return (x / scale).to(torch.float8_e4m3fn).to(x.dtype) * scale
    past = []
    for rows in step.past:
        key, value = rows.chunk(2, -1)
        past.append(torch.cat([rounded(key, k_scale), rounded(value, v_scale)], -1))
    return step._replace(past=past)


@pytest.mark.parametrize("scales", [None, (0.5, 0.25)])
@pytest.mark.parametrize("seed", range(3))
def test_caches_of_8_bits(configured, seed, scales):
    engine = Engine(seed, dtype=torch.bfloat16, cache_dtype=torch.float8_e4m3fn)
    backend, layer = FlashcBackend(engine.runner), engine.layers[0]
    if scales is not None:
        layer.k_scale, layer.v_scale = (torch.tensor(x) for x in scales)
    for mode in [EXTEND, EXTEND, DECODE, MIXED, DECODE]:
        batch, found = engine.step(mode, 1 if mode == DECODE else None)
        if batch is None:
            continue
        backend.init_forward_metadata(batch)
        step = engine.attention(0, found)
        out = backend.forward(step.query.flatten(1), step.key.clone(), step.value.clone(), layer, batch)
        want = paged_server.right(eight_bits(step, *(scales or (1.0, 1.0))))
        torch.testing.assert_close(out.view_as(want).double(), want, rtol=5e-2, atol=2e-2)


def test_deterministic_inference(configured):
    """The bits of a request do not depend on the other requests of its batch."""
    configured(enable_deterministic_inference=True)
    engine = Engine(1)
    backend = FlashcBackend(engine.runner)
    run(engine, backend, 4)
    batch, found = engine.step(DECODE, 1)
    backend.init_forward_metadata(batch)
    assert backend.forward_metadata.step.calls is None
    step = engine.attention(0, found)
    out = backend.forward(step.query.flatten(1), step.key, step.value, engine.layers[0], batch)
    for b in range(batch.batch_size):
        one = types.SimpleNamespace(
            forward_mode=DECODE, batch_size=1, spec_info=None, seq_lens=batch.seq_lens[b:b + 1],
            req_pool_indices=batch.req_pool_indices[b:b + 1], out_cache_loc=batch.out_cache_loc[b:b + 1])
        backend.init_forward_metadata(one)
        alone = backend.forward_decode(step.query[b:b + 1].flatten(1), None, None, engine.layers[0], one)
        assert torch.equal(alone, out[b:b + 1])


@pytest.mark.parametrize("seed", range(int(os.environ.get("FLASHC_DOOR_RUNS", 10))))
def test_random_engines(configured, seed):
    """FLASHC_DOOR_RUNS=300 runs as many."""
    rng = random.Random(seed)
    configured(enable_deterministic_inference=rng.random() < 0.2)
    key_heads, window_pool = rng.choice([1, 2, 3]), rng.random() < 0.4
    heads, window = key_heads * rng.choice([1, 2, 5]), rng.choice([1, 7, 16, 40, 200])
    layers, how = [], {}
    for number in range(rng.choice([2, 3])):
        has_window = number == 1 or rng.random() < 0.5
        cap, sinks = rng.choice([0.0, 1.5]), torch.randn(heads) if rng.random() < 0.4 else None
        layers.append(dict(sliding_window_size=window if has_window else -1, logit_cap=cap))
        how[f"layer{number}"] = dict(keep=keep(window) if has_window else None, sinks=sinks,
                                     rescore=paged_server.soft_cap(cap) if cap else None)
    engine = Engine(seed, layers, heads=heads, key_heads=key_heads, depth=rng.choice([8, 16, 40, 64]),
                    page=rng.choice([16, 32, 48]), window_pool=window_pool)
    backend = FlashcBackend(engine.runner)
    backend.init_cuda_graph_state(12, 512)
    if rng.random() < 0.5:
        backend.init_forward_metadata = backend.init_forward_metadata_out_graph
    run(engine, backend, 6, 1e-4, **how)


# --- CUDA graphs ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("window_pool", [False, True])
def test_arrays_of_graphs_stay_where_they_are(configured, window_pool):
    """What a graph of a number of requests reads does not move, and holds the batch that is replayed: a layer that is
    called with the metadata of the capture computes the present batch."""
    layers = [{}, dict(sliding_window_size=25)]
    engine, how = Engine(3, layers, window_pool=window_pool), dict(keep=keep(25))
    backend = FlashcBackend(engine.runner)
    backend.init_cuda_graph_state(8, 64)
    run(engine, backend, 3, modes=(EXTEND,), layer1=how)
    captured = {}
    for _ in range(12):
        batch, found = engine.step(DECODE, 1)
        if batch is None:
            run(engine, backend, 1, modes=(EXTEND,), layer1=how)
            continue
        count = batch.batch_size
        if count not in captured:
            dummy = types.SimpleNamespace(
                forward_mode=DECODE, batch_size=count, spec_info=None, out_cache_loc=torch.zeros(count).long(),
                seq_lens=torch.full((count,), backend.get_cuda_graph_seq_len_fill_value()),
                req_pool_indices=torch.zeros(count).long())
            backend.init_forward_metadata_out_graph(dummy, in_capture=True)
            backend.init_forward_metadata_in_graph(dummy)
            captured[count] = backend.forward_metadata
        backend.init_forward_metadata_out_graph(batch)
        backend.forward_metadata = captured[count]
        check(engine, backend, batch, found, LIMIT, layer1=how)
    assert len(captured) > 1


def test_padded_batches_of_graphs(configured):
    """A graph serves fewer requests than it was captured for. The others have length 1 and row 0."""
    engine = Engine(4)
    backend = FlashcBackend(engine.runner)
    backend.init_cuda_graph_state(12, 64)
    run(engine, backend, 3, modes=(EXTEND,))
    batch, found = engine.step(DECODE, 1)
    step, count = engine.attention(0, found), batch.batch_size
    engine.pool.k_buffer[0][0] = engine.pool.v_buffer[0][0] = 0.0
    engine.table.req_to_token[0] = 0
    rest = 12 - count

    def pad(x, value=0):
        return torch.nn.functional.pad(x, (0,) * (2 * x.dim() - 1) + (rest,), value=value)
    padded = types.SimpleNamespace(
        forward_mode=DECODE, batch_size=12, spec_info=None, out_cache_loc=pad(batch.out_cache_loc),
        seq_lens=pad(batch.seq_lens, 1), req_pool_indices=pad(batch.req_pool_indices), encoder_out_cache_loc=None,
        out_cache_loc_is_physical=False)
    backend.init_forward_metadata_out_graph(padded)
    out = backend.forward_decode(pad(step.query).flatten(1), pad(step.key), pad(step.value), engine.layers[0], padded)
    want = paged_server.right(step)
    torch.testing.assert_close(out[:count].view_as(want).double(), want, rtol=1e-4, atol=LIMIT)
    assert not out.isnan().any()


def test_padding_after_the_batch_becomes_0(configured, monkeypatch):
    engine = Engine(7)
    backend = FlashcBackend(engine.runner)
    run(engine, backend, 2, modes=(EXTEND,))
    batch, found = engine.step(DECODE, 1)
    step, count = engine.attention(0, found), batch.batch_size
    backend.init_forward_metadata(batch)
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda x, *shape: x.new_full(shape, torch.nan))
    query = torch.nn.functional.pad(step.query.flatten(1), (0, 0, 0, 3))
    out = backend.forward_decode(query, step.key, step.value, engine.layers[0], batch)
    torch.testing.assert_close(out[:count].view_as(step.query).double(), paged_server.right(step), rtol=1e-4, atol=1e-5)
    assert (out[count:] == 0).all() and out.shape[0] == count + 3


def test_graphs_of_prompts(configured):
    engine = Engine(6)
    backend = FlashcBackend(engine.runner)
    backend.init_cuda_graph_state(8, 512)
    for _ in range(3):
        batch, found = engine.step(EXTEND)
        backend.init_forward_metadata_out_graph(batch)
        assert backend.forward_metadata.step.offsets.data_ptr() == backend._graph.offsets.data_ptr()
        check(engine, backend, batch, found, LIMIT)


# --- The door ---------------------------------------------------------------------------------------------------------

def test_registration(configured):
    from sglang.srt.arg_groups import choices
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
    entry.register()
    entry.register()
    engine = Engine(0)
    assert type(ATTENTION_BACKENDS["flashc"](engine.runner)) is FlashcBackend
    for names in (choices.ATTENTION_BACKEND_CHOICES, choices.DETERMINISTIC_ATTENTION_BACKEND_CHOICES,
                  choices.RADIX_SUPPORTED_DETERMINISTIC_ATTENTION_BACKEND):
        assert names.count("flashc") == 1
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    found = parser.parse_args(["--model-path", "dummy", "--attention-backend", "flashc", "--page-size", "16"])
    assert found.attention_backend == "flashc"


def test_the_plugin_of_the_wheel():
    """The group of entry points that SGLang reads is the one that pyproject.toml names."""
    from sglang.srt.plugins import GENERAL_PLUGINS_GROUP
    text = (pathlib.Path(__file__).resolve().parents[2] / "pyproject.toml").read_text()
    assert tomllib.loads(text)["project"]["entry-points"][GENERAL_PLUGINS_GROUP] == {
        "flashc": "flashc.integrations.sglang:register"}


def test_idle_batches(configured):
    engine = Engine(0)
    backend = FlashcBackend(engine.runner)
    empty = torch.zeros(0, dtype=torch.int64)
    batch = types.SimpleNamespace(forward_mode=ForwardMode.IDLE, batch_size=0, spec_info=object(), seq_lens=empty,
                                  req_pool_indices=empty, out_cache_loc=empty)
    backend.init_forward_metadata(batch)
    assert backend.forward(torch.zeros(0, 128), None, None, engine.layers[0], batch).shape == (0, 128)


# --- Refusals ---------------------------------------------------------------------------------------------------------

def model(**changes):
    return types.SimpleNamespace(**{**vars(runner_of().model_config), **changes})


@pytest.mark.parametrize("changes, message", [
    (dict(page_size=1), "expected pages of a multiple of 16 tokens, got 1: start SGLang with --page-size 16"),
    (dict(page_size=24), "got 24"),
    (dict(use_mla_backend=True), "expected a model without multi-head latent attention"),
    (dict(is_draft_worker=True), "--speculative-draft-attention-backend triton"),
    (dict(kv_index_translator=types.SimpleNamespace(is_translating=True)), "without --enable-unified-memory"),
    (dict(model_config=model(is_encoder_decoder=True)), "expected a model without cross-attention"),
    (dict(model_config=model(is_local_attention_model=True)), "expected a model without chunks of attention"),
    (dict(prefill_aware_swa=True), "expected no windows that depend on the prompt"),
    (dict(kv_cache_dtype=torch.float8_e5m2, kv_cache_dtype_str="fp8_e5m2"),
     r"got torch.float8_e5m2 \(fp8_e5m2\): start SGLang with --kv-cache-dtype auto or fp8_e4m3"),
    (dict(kv_cache_dtype=torch.bfloat16, kv_cache_dtype_str="bf16"), "expected a kv cache of the model's type"),
    (dict(kv_cache_dtype=torch.float8_e4m3fn, kv_cache_dtype_str="mxfp8"), r"got .* \(mxfp8\)"),
    (dict(device="cuda"), "expected a model in float16 or bfloat16, got torch.float32"),
], ids=lambda x: "" if isinstance(x, dict) else x[:40])
def test_runners_that_are_refused(configured, changes, message):
    runner = Engine(0).runner
    for name, value in changes.items():
        setattr(runner, name, value)
    with pytest.raises(flashc.ArgumentError, match=message):
        FlashcBackend(runner)


def test_trees_are_refused(configured):
    configured(speculative_eagle_topk=4, speculative_num_draft_tokens=8)
    with pytest.raises(flashc.ArgumentError, match="--speculative-eagle-topk 1, got 4"):
        FlashcBackend(Engine(0).runner)


def test_parallel_contexts_are_refused(configured):
    from sglang.srt.runtime_context import get_parallel
    runner = Engine(0).runner
    for values, message in ((dict(attn_cp_size=2, tp_size=2, moe_tp_size=2), "got attn_cp_size=2"),
                            (dict(dcp_enabled=True), "context parallelism of decoding")):
        with get_parallel().override(**values), pytest.raises(flashc.ArgumentError, match=message):
            FlashcBackend(runner)


def test_deterministic_inference_with_8_bits_is_refused(configured):
    configured(enable_deterministic_inference=True)
    runner = Engine(0, dtype=torch.bfloat16, cache_dtype=torch.float8_e4m3fn).runner
    with pytest.raises(flashc.ArgumentError, match="expected a 16-bit kv cache together with --enable-deterministic"):
        FlashcBackend(runner)


@pytest.mark.parametrize("options, changes, message", [
    (dict(is_cross_attention=True), {}, "expected no cross-attention, got layer 0"),
    (dict(logit_cap=3.0, logit_capping_method="sigmoid"), {}, "expected logit_capping_method \"tanh\", got 'sigmoid'"),
    (dict(pos_encoding_mode="ALIBI"), {}, "expected pos_encoding_mode \"NONE\", got 'ALIBI'"),
    ({}, dict(xai_temperature_len=1024), "got xai_temperature_len=1024"),
])
def test_layers_that_are_refused(configured, options, changes, message):
    engine = Engine(0, [options])
    for name, value in changes.items():
        setattr(engine.layers[0], name, value)
    with pytest.raises(flashc.ArgumentError, match=message):
        run(engine, FlashcBackend(engine.runner), 1, modes=(EXTEND,))


@pytest.mark.parametrize("others, message", [
    (dict(return_lse=True), "expected no return_lse, got one"),
    (dict(k_rope=torch.zeros(1)), "expected no k_rope, got one"),
    (dict(something=1), "expected arguments that flashc knows, got something"),
])
def test_arguments_that_are_refused(configured, others, message):
    engine = Engine(0)
    backend, (batch, found) = FlashcBackend(engine.runner), engine.step(EXTEND)
    x = engine.attention(0, found)
    with pytest.raises(flashc.ArgumentError, match="expected init_forward_metadata before"):
        backend.forward(x.query, x.key, x.value, engine.layers[0], batch)
    backend.init_forward_metadata(batch)
    with pytest.raises(flashc.ArgumentError, match=message):
        backend.forward(x.query, x.key, x.value, engine.layers[0], batch, **others)
    backend.forward(x.query, x.key, x.value, engine.layers[0], batch, return_lse=False, q_rope=None)


@pytest.mark.parametrize("changes, message", [
    (dict(forward_mode=ForwardMode.DLLM_EXTEND), "DLLM_EXTEND"),
    (dict(multi_item_delimiter_indices=[torch.zeros(1)]), "expected no multi-item scoring"),
    (dict(forward_mode=DECODE, spec_info=object()), "expected no draft tokens of a draft model"),
    (dict(forward_mode=VERIFY, spec_info=types.SimpleNamespace(ragged_verify_layout=1)), "got ragged_verify_layout"),
])
def test_batches_that_are_refused(configured, changes, message):
    engine = Engine(0)
    backend, (batch, _) = FlashcBackend(engine.runner), engine.step(EXTEND)
    for name, value in changes.items():
        setattr(batch, name, value)
    with pytest.raises(NotImplementedError, match=message):
        backend.init_forward_metadata(batch)


def test_graphs_that_are_refused(configured):
    engine = Engine(0, dtype=torch.bfloat16, cache_dtype=torch.float8_e4m3fn)
    backend, (batch, _) = FlashcBackend(engine.runner), engine.step(EXTEND)
    with pytest.raises(flashc.ArgumentError, match="expected init_cuda_graph_state before"):
        backend.init_forward_metadata_out_graph(batch)
    backend.init_cuda_graph_state(8, 512)
    with pytest.raises(NotImplementedError, match="expected no CUDA graph of prompts together with an 8-bit kv cache"):
        backend.init_forward_metadata_out_graph(batch)


def test_both_sides_with_8_bits_are_refused(configured):
    engine = Engine(0, [dict(attn_type=AttentionType.ENCODER_ONLY)], dtype=torch.bfloat16,
                    cache_dtype=torch.float8_e4m3fn)
    with pytest.raises(flashc.ArgumentError, match="expected causal attention together with an 8-bit kv cache"):
        run(engine, FlashcBackend(engine.runner), 1, modes=(EXTEND,))
