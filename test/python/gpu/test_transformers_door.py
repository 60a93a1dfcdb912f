"""transformers' models with attn_implementation="fcattn" on a GPU, in bf16, beside "eager" in f32 with the same
weights. Skipped where there is no GPU, or no transformers whose masks flashc reads."""
import inspect

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)
transformers = pytest.importorskip("transformers")
masking_utils = pytest.importorskip("transformers.masking_utils")
if "q_offset" not in inspect.signature(masking_utils.sdpa_mask).parameters:
    pytest.skip(f"expected masks with q_offset, as in transformers 5.24, got {transformers.__version__}",
                allow_module_level=True)

import flashc  # noqa: E402
from flashc.integrations import transformers as door  # noqa: E402

NAME, BF16 = door.register(), torch.bfloat16
SIZES = dict(hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=1000, max_position_embeddings=4096, initializer_range=0.05, pad_token_id=0)
WINDOWS = dict(head_dim=64, sliding_window=100, layer_types=["sliding_attention", "full_attention"])
FAMILIES = {
    "Llama": SIZES, "Mistral": {**SIZES, "sliding_window": 100},
    "Gemma2": {**SIZES, **WINDOWS, "head_dim": 128, "query_pre_attn_scalar": 16},
    "Gemma3": {**SIZES, **WINDOWS, "query_pre_attn_scalar": 64},
    "GptOss": {**SIZES, **WINDOWS, "num_local_experts": 2, "num_experts_per_tok": 2},
    "Cohere2": {**SIZES, **WINDOWS}, "Qwen3": {**SIZES, "head_dim": 64},
    "Llama4": {**SIZES, "head_dim": 64, "attention_chunk_size": 128, "intermediate_size_mlp": 512,
               "layer_types": ["chunked_attention", "full_attention"], "no_rope_layers": [1, 0],
               "num_local_experts": 1, "num_experts_per_tok": 1},
}


def make(name):
    """Returns a model whose parameters are numbers of bf16."""
    names = {"Gemma3": "Gemma3TextConfig", "Llama4": "Llama4TextConfig"}
    config = getattr(transformers, names.get(name, f"{name}Config"))(**FAMILIES[name])
    model = getattr(transformers, f"{name}ForCausalLM")(config).to("cuda").eval()
    for x in model.parameters():
        x.data = x.data.to(BF16).float()
    return model


def inputs_of(kind, batch=2, length=333):
    found, seen = {"input_ids": torch.randint(3, 1000, (batch, length), device="cuda")}, None
    columns = torch.arange(length, device="cuda")
    if kind in ("left", "right"):
        size = torch.tensor([[97], [0]], device="cuda")
        seen = columns >= size if kind == "left" else columns < length - size
        found["attention_mask"] = seen.long()
    elif kind == "packed":
        found["position_ids"] = torch.cat([torch.arange(100), torch.arange(1), torch.arange(length - 101)])[None].cuda()
    return found, torch.ones(batch, length, dtype=torch.bool, device="cuda") if seen is None else seen


def run(model, implementation, dtype, inputs, seen, weight):
    """Returns the result and the gradients of the projections of q, k and v, in f32."""
    model.set_attn_implementation(implementation)
    model.to(dtype).zero_grad()
    result = model(**inputs).logits.float()
    ((result * weight)[seen]).sum().backward()
    names = ("q_proj.weight", "k_proj.weight", "v_proj.weight", "sinks")
    return result.detach()[seen], {name: x.grad.float() for name, x in model.named_parameters() if name.endswith(names)}


def off(x, y):
    return float((x - y).norm() / y.norm())


@pytest.mark.parametrize("kind", ["none", "left", "right", "packed"])
@pytest.mark.parametrize("name", FAMILIES)
def test_results_and_gradients(name, kind):
    """fcattn in bf16 is at most 1.5 times as far from eager in f32 as eager in bf16 is."""
    model, (inputs, seen) = make(name), inputs_of(kind)
    weight = torch.randn(*seen.shape, 1000, device="cuda") / 100
    want, expected = run(model, "eager", torch.float32, inputs, seen, weight)
    usual, usual_gradients = run(model, "eager", BF16, inputs, seen, weight)
    have, gradients = run(model, NAME, BF16, inputs, seen, weight)
    assert not have.isnan().any() and off(have, want) <= 1.5 * off(usual, want) + 1e-3
    assert gradients.keys() == expected.keys() and len(gradients) >= 6
    for parameter, gradient in gradients.items():
        # The gradient of sinks has one number for each of 4 heads, so that its error varies.
        most = 3 if parameter.endswith("sinks") else 1.5
        bound = most * off(usual_gradients[parameter], expected[parameter]) + 5e-3
        assert off(gradient, expected[parameter]) <= bound, parameter


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", FAMILIES)
def test_logits_of_generation(name, cache):
    """The logits of each step are close to those of the whole sequence at once, in f32. Tokens may differ from those of
    another implementation where two have almost equal logits, so tokens are not compared."""
    model, (inputs, _) = make(name), inputs_of("left", length=150)
    model.set_attn_implementation(NAME)
    model.to(BF16)
    compile_config = transformers.CompileConfig(fullgraph=False)
    found = model.generate(**inputs, max_new_tokens=40, do_sample=False, pad_token_id=0, eos_token_id=None,
                           cache_implementation=cache, return_dict_in_generate=True, output_logits=True,
                           compile_config=compile_config)
    have = torch.stack(found.logits, 1).float()
    mask = torch.nn.functional.pad(inputs["attention_mask"], (0, 39), value=1)
    outside = {}
    for implementation, dtype in (("eager", torch.float32), ("eager", BF16)):
        model.set_attn_implementation(implementation)
        with torch.no_grad():
            outside[dtype] = model.to(dtype)(found.sequences[:, :-1], attention_mask=mask).logits[:, 149:].float()
    want = outside[torch.float32]
    assert have.shape == want.shape and off(have, want) <= 1.5 * off(outside[BF16], want) + 2e-3


def test_no_other_shape_compiles():
    model = make("Gemma3").to(BF16)
    model.set_attn_implementation(NAME)

    def step(batch, length):
        mask = torch.ones(batch, length, dtype=torch.long, device="cuda")
        mask[0, :length // 3] = 0
        tokens = torch.randint(3, 1000, (batch, length), device="cuda")
        model(tokens, attention_mask=mask).logits.float().sum().backward()
        for cache in ("dynamic", "static"):
            model.generate(tokens, attention_mask=mask, max_new_tokens=4, do_sample=False, pad_token_id=0,
                           eos_token_id=None, cache_implementation=cache, disable_compile=True)
    step(2, 300)
    before = flashc.statistics().compilations
    for batch, length in ((3, 411), (2, 129), (4, 640)):
        step(batch, length)
    assert flashc.statistics().compilations - before <= 2  # flashc.decode may choose another number of parts.


def test_continuous_batching():
    """Pages that transformers owns, with tokens of requests of different lengths."""
    model = make("Qwen3").to(BF16)
    prompts = [torch.randint(3, 1000, (length,)).tolist() for length in (5, 129, 1, 64, 300)]
    generation = transformers.GenerationConfig(max_new_tokens=30, do_sample=False, eos_token_id=-1, pad_token_id=0)
    config = transformers.ContinuousBatchingConfig(page_size=32, num_blocks=64, max_batch_tokens=256)
    model.set_attn_implementation(NAME)
    found = model.generate_batch(inputs=prompts, generation_config=generation, continuous_batching_config=config,
                                 progress_bar=False)
    model.float().set_attn_implementation("eager")
    right = total = 0
    for prompt, result in zip(prompts, found.values()):
        tokens = result.generated_tokens
        assert len(tokens) == 30
        with torch.no_grad():
            logits = model(torch.tensor([prompt + tokens[:-1]], device="cuda")).logits[0, len(prompt) - 1:]
        # A token is right if no other one is clearly better in f32.
        best, chosen = logits.max(1).values, logits.gather(1, torch.tensor(tokens, device="cuda")[:, None])[:, 0]
        right += int((best - chosen <= 0.05 * best.abs()).sum())
        total += 30
    assert right >= 0.98 * total


def test_a_static_cache_in_a_cuda_graph():
    """The offset of the queries is read on the GPU, so one graph serves every step."""
    model, tokens = make("Llama").to(BF16), torch.randint(3, 1000, (2, 40), device="cuda")
    model.set_attn_implementation(NAME)
    past = transformers.StaticCache(model.config, max_cache_len=64)
    with torch.no_grad():
        model(tokens[:, :20], past_key_values=past)
        token = tokens[:, 20:21].clone()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            model(token, past_key_values=past)  # Compiles what the graph captures.
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        position = torch.full((1, 1), 21, device="cuda")
        token.copy_(tokens[:, 21:22])
        with torch.cuda.graph(graph):
            logits = model(token, past_key_values=past, position_ids=position).logits
        found = []
        for place in range(21, 40):
            token.copy_(tokens[:, place:place + 1])
            position.fill_(place)
            graph.replay()
            found.append(logits.clone())
        want = model(tokens).logits[:, 21:40]
    assert off(torch.cat(found, 1).float(), want.float()) < 0.03
