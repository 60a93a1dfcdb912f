"""Generation with attn_implementation="fcattn": the tokens of "eager", with every kind of cache, and continuous
batching."""
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import transformers_models as models  # noqa: E402
from flashc._decode import SharedDecode  # noqa: E402
from flashc.integrations import _transformers_paged as paged  # noqa: E402
from flashc.integrations import transformers as door  # noqa: E402

NAME = door.register()
DECODERS = [name for name, family in models.FAMILIES.items() if family.kind == "decoder"]
STEPS = 64
WITH_MANY_STEPS = "Llama", "Mistral", "Qwen3", "Gemma2", "Gemma3", "GPT-OSS", "Llama4"
#: A model of random weights takes any token for the end, so there is none.
HOW = dict(do_sample=False, pad_token_id=0, eos_token_id=None, return_dict_in_generate=True, output_logits=True)


def generate(model, implementation, inputs, **how):
    """Returns the tokens, and the logits of each step, [steps, B, vocabulary]."""
    model.set_attn_implementation(implementation)
    found = model.generate(**inputs, **{**HOW, **how})
    return found.sequences, torch.stack(found.logits)


def check(model, inputs, caches=("dynamic",), steps=STEPS, **how):
    """Compares the tokens, and the logits of each step, with those of eager."""
    tokens, logits = generate(model, "eager", inputs, max_new_tokens=steps, **how)
    assert len(logits) == steps
    for cache in caches:
        have_tokens, have = generate(model, NAME, inputs, max_new_tokens=steps, cache_implementation=cache, **how)
        assert torch.equal(have_tokens, tokens)
        assert (have - logits).abs().max() <= 5e-5 * logits.abs().max()


@pytest.fixture
def steps(monkeypatch):
    """Counts calls of flashc.decode, and of SharedDecode."""
    found = []
    for owner, name in ((door, "flashc_decode"), (SharedDecode, "__call__")):
        monkeypatch.setattr(owner, name, lambda *given, run=getattr(owner, name), **named:  # noqa: B023
                            found.append(1) or run(*given, **named))
    return found


@pytest.mark.parametrize("name", DECODERS)
def test_tokens_are_those_of_eager(name, steps):
    """A prompt of 13 tokens and one of 5 with padding on the left; both pass the windows and chunks of 8."""
    inputs = {"input_ids": models.ids(2, 13), "attention_mask": torch.ones(2, 13, dtype=torch.long)}
    inputs["attention_mask"][1, :8] = 0
    count = STEPS if name in WITH_MANY_STEPS else 12
    check(models.make(name), inputs, ["dynamic", "static"], count)
    assert len(steps) == 2 * 2 * (count - 1)  # flashc.decode computes all steps but the prompt, in both layers.


@pytest.mark.parametrize("name", ["Llama", "Gemma2", "GPT-OSS", "Llama4"])
def test_a_batch_of_one_without_padding(name):
    check(models.make(name), {"input_ids": models.ids(1, 21)}, ["dynamic", "static"], 20)


@pytest.mark.parametrize("name", ["T5", "BART", "Whisper"])
def test_encoders_and_decoders(name):
    inputs = models.FAMILIES[name].inputs(2, 3)
    del inputs["decoder_input_ids"]
    if name != "Whisper":
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        inputs["attention_mask"][0, -3:] = 0
    check(models.make(name), inputs, ["dynamic", "static"], 16)


@pytest.mark.parametrize("name", ["PaliGemma", "Gemma3 with images", "Qwen2-VL"])
def test_images_and_text(name):
    inputs = models.FAMILIES[name].inputs(2, 6)
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    if name == "PaliGemma":
        inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
    check(models.make(name), inputs, steps=16)


@pytest.mark.parametrize("name", ["Llama", "Gemma3"])
def test_beams(name):
    """Beams reorder caches, and repeat the batch."""
    inputs = {"input_ids": models.ids(2, 9), "attention_mask": torch.ones(2, 9, dtype=torch.long)}
    inputs["attention_mask"][0, :4] = 0
    model = models.make(name)
    want = generate(model, "eager", inputs, num_beams=3, max_new_tokens=20)[0]
    assert torch.equal(generate(model, NAME, inputs, num_beams=3, max_new_tokens=20)[0], want)


@pytest.mark.parametrize("name", ["Llama", "Mistral", "Gemma3", "GPT-OSS", "Llama4"])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_prompts_in_parts(name, cache):
    """A cache is continued by several tokens at once: few, as of a draft, and more than flashc.decode takes."""
    model, tokens, found = models.make(name), models.ids(2, 55), {}
    for implementation in ("eager", NAME):
        model.set_attn_implementation(implementation)
        past = transformers.StaticCache(model.config, max_cache_len=64) if cache == "static" else \
            transformers.DynamicCache(config=model.config)
        parts = []
        with torch.no_grad():
            for part in tokens.split([7, 3, 1, 5, 20, 16, 3], 1):
                parts.append(model(part, cache=past).logits)
        found[implementation] = torch.cat(parts, 1)
    want = found["eager"]
    assert (found[NAME] - want).abs().max() <= 5e-5 * want.abs().max()


@pytest.mark.parametrize("name", ["Llama", "Gemma2"])
def test_gradients_through_a_cache(name):
    """A cache that requires gradients is no step of generation, whose kernels have none."""
    model, tokens, found = models.make(name), models.ids(2, 12), {}
    for implementation in ("eager", NAME):
        model.set_attn_implementation(implementation)
        model.zero_grad()
        past = transformers.DynamicCache(config=model.config)
        logits = torch.cat([model(part, cache=past).logits for part in tokens.split([9, 2, 1], 1)], 1)
        (logits * torch.linspace(-1, 1, logits.numel()).reshape(logits.shape)).sum().backward()
        found[implementation] = {key: x.grad.clone() for key, x in model.named_parameters()}
    for key, want in found["eager"].items():
        assert (found[NAME][key] - want).abs().max() <= 2e-4 * want.abs().max(), key


def test_a_draft_model():
    """Assisted generation takes tokens back from the cache."""
    model, draft = models.make("Llama"), models.make("Llama")
    for parameter in draft.parameters():
        parameter.data += 0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
    inputs = {"input_ids": models.ids(1, 9)}
    draft.set_attn_implementation(NAME)
    want = generate(model, "eager", inputs, max_new_tokens=30)[0]
    assert torch.equal(generate(model, NAME, inputs, max_new_tokens=30, assistant_model=draft)[0], want)


# --- Continuous batching ----------------------------------------------------------------------------------------------

def serve(model, implementation, **how):
    model.set_attn_implementation(implementation)
    config = transformers.ContinuousBatchingConfig(page_size=16, num_blocks=40, max_batch_tokens=24, **how)
    prompts = [models.ids(1, length, length)[0].tolist() for length in (5, 29, 1, 12, 16)]
    generation = transformers.GenerationConfig(max_new_tokens=20, do_sample=False, eos_token_id=-1, pad_token_id=0)
    found = model.generate_batch(inputs=prompts, generation_config=generation, continuous_batching_config=config,
                                 progress_bar=False)
    assert model.config._attn_implementation == implementation
    return [result.generated_tokens for result in found.values()]


@pytest.mark.parametrize("name, has_pages", [("Llama", True), ("Gemma2", False), ("Mistral", False), ("Qwen3", True),
                                             ("GPT-OSS", False)])
def test_continuous_batching(name, has_pages, monkeypatch):
    """Requests of different lengths at once, in batches of 24 tokens at most, so that prompts are cut. Layers with
    windows have no tables of pages."""
    calls = {"decode": 0, "varlen_attention": 0}
    for function in calls:
        def counted(*given, run=getattr(paged, function), called=function, **named):
            calls[called] += 1
            return run(*given, **named)
        monkeypatch.setattr(paged, function, counted)
    model = models.make(name)
    want = serve(model, "paged|eager")
    assert len(want) == 5 and all(len(tokens) == 20 for tokens in want)
    assert serve(model, NAME) == want
    assert calls["varlen_attention"] > 0 and (calls["decode"] > 0) == has_pages


def test_other_implementations_are_served_as_before():
    """The change to transformers' continuous batching is for this name alone."""
    model = models.make("Llama")
    assert serve(model, "sdpa", auto_switch_to_flash=False) == serve(model, "paged|eager")
    with pytest.raises(ValueError, match="not supported for continuous batching"):
        serve(model, "flex_attention", auto_switch_to_flash=False)
