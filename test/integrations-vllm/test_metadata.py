"""Numbers on the CPU through vLLM's classes: the metadata of batches that change from step to step, from
CommonAttentionMetadata, in caches that vLLM's own functions lay out, against the formula in f64."""
import types

import paged_server
import pytest
import torch
from flashc.integrations import _vllm_backend as door
from vllm.config import DeviceConfig, VllmConfig
from vllm.config.compilation import CUDAGraphMode
from vllm.v1.attention.backend import AttentionType, CommonAttentionMetadata
from vllm.v1.kv_cache_interface import EncoderOnlyAttentionSpec, FullAttentionSpec, KVCacheTensor, KVQuantMode, \
    compute_layout_strides, create_kv_cache_views
from vllm.v1.kv_cache_layout import KVCacheLayout

HEADS, KEY_HEADS, DEPTH, PAGES, LAYERS = 4, 2, 32, 96, 2
SPEC = dict(block_size=16, num_kv_heads=KEY_HEADS, head_size=DEPTH, dtype=torch.float32)


def configuration(**changes):
    config = VllmConfig(device_config=DeviceConfig(device="cpu"))
    for name, value in changes.items():
        setattr(config, name, value)
    return config


def server_of(seed, layout=KVCacheLayout.LBNHC, **options):
    """Returns a server whose cache is the last one of LAYERS caches that vLLM lays out."""
    server = paged_server.Server(seed, HEADS, KEY_HEADS, DEPTH, pages=PAGES, **options)
    spec = FullAttentionSpec(**{**SPEC, "dtype": server.cache.dtype})
    strides = compute_layout_strides(spec, PAGES, LAYERS, layout)
    size = LAYERS * PAGES * spec.page_size_bytes
    tensor = KVCacheTensor(size, ["a", "b"], strides[0], strides[1])
    views = create_kv_cache_views(torch.empty(size, dtype=torch.int8), spec, PAGES, layout, tensor)
    assert views[-1].shape == server.cache.shape
    server.cache = views[-1].fill_(torch.nan)
    return server


def metadata_of(batch, tokens=None, requests=None, **changes):
    """Returns vLLM's metadata of a batch, padded to `tokens` and `requests` as for a CUDA graph."""
    tokens, requests = tokens or batch.tokens, requests or len(batch.past)
    rest = requests - len(batch.past)
    offsets = torch.tensor(batch.offsets + batch.offsets[-1:] * rest, dtype=torch.int32)
    lengths = torch.cat([batch.lengths, torch.zeros(rest, dtype=torch.int32)])
    table = torch.cat([batch.table, torch.zeros(rest, batch.table.shape[1], dtype=torch.int32)])
    slots = torch.cat([batch.slots, torch.full((tokens - batch.tokens,), -1)])
    return CommonAttentionMetadata(**{**dict(
        query_start_loc=offsets, query_start_loc_cpu=offsets, seq_lens=lengths, num_reqs=requests,
        num_actual_tokens=tokens, max_query_len=int(offsets.diff().max()), max_seq_len=int(lengths.max()),
        block_table_tensor=table, slot_mapping=slots, seq_lens_cpu_upper_bound=lengths), **changes})


def builder_of(spec=None, config=None):
    return door.FlashcMetadataBuilder(spec or FullAttentionSpec(**SPEC), ["b"], config or configuration(),
                                      torch.device("cpu"))


def impl_of(**options):
    impl = door.FlashcImpl(HEADS, DEPTH, DEPTH**-0.5, KEY_HEADS, **options)
    impl.process_weights_after_loading(torch.float32)
    return impl


def check(server, batch, step, impl, layer=None, cache=None, **keywords):
    out = torch.full_like(batch.query, torch.nan)
    impl.forward(layer, batch.query, batch.key, batch.value, server.cache if cache is None else cache, step, out)
    if "sinks" in keywords:
        keywords["sinks"] = torch.tensor(keywords["sinks"])
    torch.testing.assert_close(out[:batch.tokens].double(), paged_server.right(batch, **keywords), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", paged_server.LAYERS)
def test_batches(monkeypatch, name):
    options, keywords = paged_server.LAYERS[name]
    names = {"window": "sliding_window", "soft_cap": "logits_soft_cap", "slopes": "alibi_slopes"}
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", str(int(options.get("batch_invariant", False))))
    options = {names.get(key, key): value for key, value in options.items() if key != "batch_invariant"}
    if "sinks" in options:
        options["sinks"] = torch.nn.Parameter(torch.tensor(options["sinks"], dtype=torch.bfloat16))
    server, builder, impl = server_of(len(name)), builder_of(), impl_of(**options)
    for queries in (None, 1, None, 1, None):
        batch = server.step(queries)
        step = builder.build(0, metadata_of(batch))
        if queries == 1 or name == "batch invariant":
            assert (step.calls is None) == (name == "batch invariant")
        check(server, batch, step, impl, **keywords)


@pytest.mark.parametrize("layout", KVCacheLayout)
def test_layouts(layout):
    server, builder, impl = server_of(1, layout), builder_of(), impl_of()
    for _ in range(2):
        batch = server.step()
        check(server, batch, builder.build(0, metadata_of(batch)), impl)


@pytest.mark.parametrize("mode", [CUDAGraphMode.FULL, CUDAGraphMode.FULL_AND_PIECEWISE])
@pytest.mark.parametrize("queries", [1, None])
def test_padding(mode, queries):
    """As in a CUDA graph, tokens and requests are padded. With mode FULL all batches are packed, since one graph serves
    all batches of a size."""
    config = configuration()
    config.compilation_config.cudagraph_mode = mode
    server, builder, impl = server_of(2), builder_of(config=config), impl_of()
    for _ in range(3):
        batch = server.step(queries, padding=16)
        step = builder.build(0, metadata_of(batch, batch.tokens + 16, len(batch.past) + 2))
        if queries == 1 or mode == CUDAGraphMode.FULL:
            assert (step.calls is None) == (mode == CUDAGraphMode.FULL)
        check(server, batch, step, impl)


def test_speculative_decoding():
    """A batch in which each request has its draft tokens is one call without packing."""
    config = configuration(speculative_config=types.SimpleNamespace(num_speculative_tokens=2))
    server, builder, impl = server_of(3), builder_of(config=config), impl_of()
    batch = server.step(3)
    step = builder.build(0, metadata_of(batch))
    assert [call[:3] for call in step.calls] == [(0, len(batch.past), 3)]
    check(server, batch, step, impl)


@pytest.mark.parametrize("scales", [([0.5], [0.25]), ([0.5, 1.0], [0.25, 2.0])])
def test_eight_bits(scales):
    spec = FullAttentionSpec(**{**SPEC, "dtype": torch.uint8, "kv_quant_mode": KVQuantMode.FP8_PER_TENSOR})
    server = paged_server.Server(4, HEADS, KEY_HEADS, DEPTH, grain=2.0, cache_dtype=torch.float8_e4m3fn)
    layer = types.SimpleNamespace(_k_scale=torch.tensor(scales[0]), _v_scale=torch.tensor(scales[1]))
    builder, impl = builder_of(spec), impl_of(kv_cache_dtype="fp8")
    assert builder.reorder_batch_threshold == 1
    for _ in range(3):
        batch = server.step()
        step = builder.build(0, metadata_of(batch))
        check(server, batch, step, impl, layer, server.cache.view(torch.uint8))
    with pytest.raises(NotImplementedError, match="expected causal to be one flag for all requests"):
        builder.build(0, metadata_of(batch, causal=torch.ones(len(batch.past), dtype=torch.int32)))


def test_not_causal():
    server, builder, impl = server_of(5), builder_of(), impl_of(sliding_window=30)
    batch = server.step()
    flags = torch.tensor([b % 2 for b in range(len(batch.past))], dtype=torch.int32)
    check(server, batch, builder.build(0, metadata_of(batch, causal=False)), impl,
          keep=lambda b, h, i, j: (i - j).abs() < 30)
    check(server, batch, builder.build(0, metadata_of(batch, causal=flags)), impl,
          keep=lambda b, h, i, j: ((i - j).abs() < 30) & ((j <= i) if b % 2 else (j >= 0)))


@pytest.mark.parametrize("clamps", [False, True])
def test_multimodal_ranges(clamps):
    """Tokens of an image see each other. The ranges are those of vLLM: first and last position, by request."""
    config = configuration()
    config.__dict__["model_config"] = types.SimpleNamespace(is_mm_prefix_lm=True)
    server, builder, impl = server_of(6), builder_of(config=config), impl_of(sliding_window=20)
    batch = server.step(40)
    ends = batch.lengths.tolist()
    ranges = {b: [(end - 30, end - 6)] for b, end in enumerate(ends) if b != 1}

    def keep(b, h, i, j):
        first, last = ranges.get(b, [(-1, -1)])[0]
        is_inside, is_near = (i >= first) & (i <= last) & (j >= first) & (j <= last), i - j < 20
        return (j <= i) & is_near | is_inside & (is_near if clamps else True)
    layer = types.SimpleNamespace(mm_prefix_clamp_sliding_window=clamps)
    step = builder.build(0, metadata_of(batch, mm_req_doc_ranges=ranges))
    check(server, batch, step, impl, layer, keep=keep)
    step.mm_prefix_query_range_tensor = None  # as Gemma 4 does for layers without ranges
    check(server, batch, step, impl, layer, keep=paged_server.window(20))
    # A batch that has no token of an image, and one in a model without ranges.
    assert builder.build(0, metadata_of(batch, mm_req_doc_ranges={0: []})).mm_prefix_query_range_tensor is None
    assert builder_of().build(0, metadata_of(batch, mm_req_doc_ranges=ranges)).mm_prefix_query_range_tensor is None


def test_encoder():
    builder = builder_of(EncoderOnlyAttentionSpec(**SPEC))
    server, impl = server_of(7), impl_of(attn_type=AttentionType.ENCODER_ONLY, sliding_window=9)
    batch = server.step()
    new = batch._replace(past=[rows[len(rows) - (end - begin):] for rows, begin, end in
                               zip(batch.past, batch.offsets, batch.offsets[1:])])
    check(server, new, builder.build(0, metadata_of(batch)), impl, keep=lambda b, h, i, j: (i - j).abs() < 9)


def test_shared_cache():
    """A layer that reads another layer's cache does not write."""
    server, builder, batch = server_of(8), builder_of(), None
    batch = server.step()
    step = builder.build(0, metadata_of(batch))
    check(server, batch, step, impl_of())
    wrong = batch._replace(key=batch.key + 1, value=batch.value + 1)
    check(server, wrong, step, impl_of(kv_sharing_target_layer_name="a"))


def test_memory_run():
    """Without metadata, vLLM measures memory. The output is 0."""
    out = torch.full((3, HEADS, DEPTH), torch.nan)
    assert impl_of().forward(None, out, out, out, None, None, out) is out and not out.any()


def test_refusals():
    batch, builder = server_of(9).step(), builder_of()
    with pytest.raises(NotImplementedError, match="expected no cascade attention, got a common prefix of 16 tokens"):
        builder.build(16, metadata_of(batch))
    with pytest.raises(NotImplementedError, match="expected no fused quantization of the output"):
        impl_of().forward(None, batch.query, batch.key, batch.value, None, None, batch.query, torch.ones(1))
    with pytest.raises(ValueError, match=r"expected a sink for each of 4 heads, got shape \(3,\)"):
        impl_of(sinks=torch.zeros(3))
