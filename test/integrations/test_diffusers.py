"""Models of diffusers after `apply`: results and gradients in f32 compared with those of their own attention."""
import copy

import pytest

torch = pytest.importorskip("torch")
diffusers = pytest.importorskip("diffusers")

import diffusers_models as models  # noqa: E402
from diffusers.models import attention_processor as processors  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402

import flashc  # noqa: E402
from flashc.integrations import diffusers as door  # noqa: E402

#: In f32 the results of two implementations differ in the last bits.
CLOSE = 2e-5


class Seen(TorchFunctionMode):
    """Counts the calls of scaled_dot_product_attention that flashc does not take."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        self.calls += function is functional.scaled_dot_product_attention
        return function(*arguments, **(keywords or {}))


@pytest.fixture
def counted(monkeypatch):
    """A list with an element for each call that runs on flashc."""
    calls = []

    def attention(*arguments, **keywords):
        calls.append(None)
        return flashc.torch.scaled_dot_product_attention(*arguments, **keywords)
    monkeypatch.setattr(door, "scaled_dot_product_attention", attention)
    return calls


def run(model, inputs):
    """Returns the result, and the gradients of all parameters."""
    model.zero_grad()
    result = model(**inputs).sample
    weight = torch.randn(result.shape, generator=torch.Generator().manual_seed(1))
    (result * weight).sum().backward()
    return result.detach(), {name: x.grad.clone() for name, x in model.named_parameters() if x.grad is not None}


def compare(have, want):
    """Compares results relative to the largest one, and each gradient relative to its largest element, or to the
    largest of all gradients if it is 0 but for rounding, as that of the bias of keys."""
    (have, gradients), (want, want_gradients) = have, want
    assert have.shape == want.shape and not have.isnan().any()
    assert (have - want).abs().max() <= CLOSE * want.abs().max()
    assert set(gradients) == set(want_gradients)
    largest = max(float(x.abs().max()) for x in want_gradients.values())
    for name, expected in want_gradients.items():
        off = float((gradients[name] - expected).abs().max())
        assert off <= 5e-4 * float(expected.abs().max()) + 5e-6 * largest, name


@pytest.mark.parametrize("batch, side, texts", [(1, 2, 5), (2, 3, 7)])
@pytest.mark.parametrize("name", models.FAMILIES)
def test_results_and_gradients_are_those_of_the_model(name, batch, side, texts):
    model, inputs = models.make(name), models.inputs(name, batch, side, texts)
    with Seen() as own:
        want = run(model, inputs)
    layers = door.apply(model)
    with Seen() as left:
        compare(run(model, inputs), want)
    assert own.calls > left.calls == models.OUTSIDE.get(name, 0) and layers


@pytest.mark.parametrize("name", models.FAMILIES)
def test_restored_models_are_as_before(name):
    model, inputs = models.make(name), models.inputs(name, 1)
    layers = [x for x in model.modules() if callable(getattr(x, "processor", None))]
    before = [(type(x.processor), dict(vars(x.processor))) for x in layers], list(model.state_dict())
    with torch.no_grad():
        want = model(**inputs).sample
        names = door.apply(model)
        assert len(names) == len(layers) and all(model.get_submodule(x) in layers for x in names)
        assert not any(type(x.processor) in [kind for kind, _ in before[0]] for x in layers)
        assert door.restore(model) == names
        assert ([(type(x.processor), dict(vars(x.processor))) for x in layers], list(model.state_dict())) == before
        with Seen() as seen:
            assert torch.equal(model(**inputs).sample, want)
    assert seen.calls >= len(names)


@pytest.mark.parametrize("name", models.FAMILIES)
def test_bfloat16(name):
    """The error is about that of diffusers' own attention in bf16."""
    model, inputs = models.make(name), models.inputs(name, 2)
    with torch.no_grad():
        want = model(**inputs).sample
        model.to(torch.bfloat16)
        inputs = {key: x.bfloat16() if isinstance(x, torch.Tensor) and x.is_floating_point() and key != "timestep"
                  else x for key, x in inputs.items()}
        own = model(**inputs).sample.float()
        door.apply(model)
        have = model(**inputs).sample.float()
    assert (have - want).abs().mean() <= 1.5 * (own - want).abs().mean() + 1e-3 * want.abs().mean()


@pytest.mark.parametrize("name", ["QwenImage", "HunyuanVideo", "LTXVideo", "PixArt", "Mochi", "UNet"])
def test_padding_changes_nothing(name):
    model, inputs = models.make(name), models.inputs(name, 2)
    door.apply(model)
    mask = inputs.get("encoder_hidden_states_mask", inputs.get("encoder_attention_mask")).bool()
    assert not mask.all()
    with torch.no_grad():
        want = model(**inputs).sample
        inputs["encoder_hidden_states"][~mask] += 3
        assert (model(**inputs).sample - want).abs().max() <= CLOSE * want.abs().max()
        inputs["encoder_hidden_states"][mask] += 3
        assert (model(**inputs).sample - want).abs().max() > 1e-3 * want.abs().max()


@pytest.mark.parametrize("name", ["Flux", "SD3", "Wan", "HunyuanVideo"])
def test_checkpointed_layers_run_on_flashc_twice(name, counted):
    model, inputs = models.make(name).train(), models.inputs(name, 2)
    want = run(model, inputs)
    door.apply(model)
    with torch.no_grad():
        model(**inputs)
    once = len(counted)
    counted.clear()
    model.enable_gradient_checkpointing()
    with Seen() as seen:
        compare(run(model, inputs), want)
    assert once < len(counted) <= 2 * once and not seen.calls


@pytest.mark.parametrize("name", ["Flux", "SD3", "QwenImage", "Wan"])
def test_compiled_models_have_one_graph(name):
    model, inputs = models.make(name), models.inputs(name, 2)
    want = run(model, inputs)
    door.apply(model)
    torch._dynamo.reset()
    compare(run(torch.compile(model, fullgraph=True, backend="aot_eager"), inputs),
            (want[0], {f"_orig_mod.{key}": x for key, x in want[1].items()}))


@pytest.mark.parametrize("name", ["Flux", "SD3", "UNet"])
def test_autocast(name):
    model, inputs = models.make(name), models.inputs(name, 2)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        want = model(**inputs).sample.float()
        door.apply(model)
        have = model(**inputs).sample.float()
    assert (have - want).abs().mean() <= 0.02 * want.abs().mean()


def test_layers_of_a_pipeline_except_of_its_autoencoder():
    transformer = models.make("Flux", depth=16)
    vae = diffusers.AutoencoderKL(block_out_channels=(4,), latent_channels=2, norm_num_groups=2, shift_factor=0.0)
    pipe = diffusers.FluxPipeline(diffusers.FlowMatchEulerDiscreteScheduler(), vae, None, None, None, None, transformer)
    pipe.set_progress_bar_config(disable=True)

    def image():
        return pipe(prompt_embeds=prompt, pooled_prompt_embeds=pooled, height=48, width=48, num_inference_steps=2,
                    generator=torch.Generator().manual_seed(0), output_type="latent").images
    prompt, pooled = torch.randn(1, 5, 32), torch.randn(1, 32)
    want = image()
    names = door.apply(pipe)
    assert names == ["transformer.transformer_blocks.0.attn", "transformer.single_transformer_blocks.0.attn"]
    assert type(vae.decoder.mid_block.attentions[0].processor) is processors.AttnProcessor2_0
    with Seen() as seen:
        assert (image() - want).abs().max() <= CLOSE * want.abs().max()
    assert not seen.calls
    assert door.restore(pipe) == names and torch.equal(image(), want)


def test_one_layer(counted):
    model, inputs = models.make("SD3"), models.inputs("SD3", 1)
    assert door.apply(model.transformer_blocks[1].attn) == ["Attention"]
    with torch.no_grad(), Seen() as seen:
        model(**inputs)
    assert (len(counted), seen.calls) == (1, 2)
    assert door.restore(model) == ["transformer_blocks.1.attn"] and door.restore(model) == []


def test_applied_twice_and_copied(counted):
    model, inputs = models.make("Flux"), models.inputs("Flux", 1)
    kinds = [type(x.processor) for x in (model.transformer_blocks[0].attn, model.single_transformer_blocks[0].attn)]
    assert door.apply(model) == door.apply(model)
    copied = copy.deepcopy(model)
    assert len(door.restore(model)) == 2
    with torch.no_grad(), Seen() as seen:
        copied(**inputs)
    assert (len(counted), seen.calls) == (2, 0)
    assert len(door.restore(copied)) == 2
    for x in model, copied:
        assert [type(x.transformer_blocks[0].attn.processor), type(x.single_transformer_blocks[0].attn.processor)] \
            == kinds


def test_layers_that_share_a_processor():
    model, inputs = models.make("UNet"), models.inputs("UNet", 1)
    model.set_attn_processor(processors.AttnProcessor2_0())
    with torch.no_grad():
        want = model(**inputs).sample
        assert len(door.apply(model)) == 8
        with Seen() as seen:
            assert (model(**inputs).sample - want).abs().max() <= CLOSE * want.abs().max()
        assert not seen.calls and len(door.restore(model)) == 8
    assert type(model.mid_block.attentions[0].transformer_blocks[0].attn1.processor) is processors.AttnProcessor2_0


def test_a_backend_of_the_dispatcher_comes_back():
    model = models.make("Flux")
    first, second = model.transformer_blocks[0].attn, model.single_transformer_blocks[0].attn
    first.set_attention_backend("flex")
    door.apply(model)
    assert [x.processor._attention_backend.value for x in (first, second)] == ["native"] * 2
    door.restore(model)
    assert first.processor._attention_backend.value == "flex" and second.processor._attention_backend is None


def test_a_backend_that_was_set_after_apply_stays():
    model = models.make("Flux")
    door.apply(model)
    model.transformer_blocks[0].attn.set_attention_backend("flex")
    door.restore(model)
    assert model.transformer_blocks[0].attn.processor._attention_backend.value == "flex"
    assert not vars(model.single_transformer_blocks[0].attn.processor)


def test_a_backend_of_the_whole_program_does_not_count():
    model, inputs = models.make("Flux"), models.inputs("Flux", 1)
    door.apply(model)
    with torch.no_grad(), Seen() as seen, diffusers.attention_backend("flex"):
        model(**inputs)
    assert not seen.calls


def test_processors_with_weights_and_arguments():
    """An adapter for images keeps its weights, and gets the arguments that its signature names."""
    model, inputs = models.make("UNet"), models.inputs("UNet", 2)
    del inputs["encoder_attention_mask"]
    made = {}
    for name, former in model.attn_processors.items():
        width = model.get_submodule(name[:-len(".processor")]).to_q.in_features
        made[name] = processors.IPAdapterAttnProcessor2_0(width, 32, (4,), [0.7]) if ".attn2." in name else former
    model.set_attn_processor(made)
    model.encoder_hid_proj = None
    names = list(model.state_dict())
    assert any("to_k_ip" in name for name in names)

    def result():
        return model(inputs["sample"], inputs["timestep"], (inputs["encoder_hidden_states"], [images]),
                     cross_attention_kwargs={"ip_adapter_masks": [masks]}).sample
    images, masks = torch.randn(2, 1, 4, 32), (torch.rand(1, 1, 12, 12) > 0.5).float()
    with torch.no_grad():
        want = result()
        door.apply(model)
        assert list(model.state_dict()) == names
        with Seen() as seen:
            assert (result() - want).abs().max() <= CLOSE * want.abs().max()
        masks = 1 - masks
        assert (result() - want).abs().max() > 1e-3 * want.abs().max()
    assert not seen.calls


def test_skipped_layers(counted):
    """Hooks of diffusers that skip attention layers find the processors."""
    from diffusers.hooks import apply_layer_skip
    model, inputs = models.make("CogView4"), models.inputs("CogView4", 1)
    hooks = diffusers.LayerSkipConfig([0], fqn="transformer_blocks", skip_ff=False)
    other = copy.deepcopy(model)
    apply_layer_skip(other, hooks)
    door.apply(model)
    apply_layer_skip(model, hooks)
    with torch.no_grad():
        want = other(**inputs).sample
        assert (model(**inputs).sample - want).abs().max() <= CLOSE * want.abs().max()
    assert len(counted) == 1


# --- Refusals ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("model", [torch.nn.Linear(2, 2), 3, None], ids=str)
def test_models_without_layers_are_refused(model):
    with pytest.raises(flashc.ArgumentError, match="expected a model with attention processors of diffusers, got "):
        door.apply(model)
    assert door.restore(model) == []


def test_functions_as_processors_are_refused():
    model = models.make("UNet")
    former = type(model.down_blocks[1].attentions[0].transformer_blocks[0].attn1.processor)
    model.mid_block.attentions[0].transformer_blocks[0].attn2.processor = lambda *x, **y: x
    with pytest.raises(flashc.ArgumentError, match="expected the processor of mid_block.attentions.0.transformer_blocks"
                                                   ".0.attn2 to be an object whose class can change, got .*function"):
        door.apply(model)
    assert door.restore(model) == []  # The layers that came before it are as they were.
    assert type(model.down_blocks[1].attentions[0].transformer_blocks[0].attn1.processor) is former


def test_processors_that_compute_attention_by_products_are_refused():
    model, inputs = models.make("UNet"), models.inputs("UNet", 1)
    model.set_attn_processor(processors.AttnProcessor())
    door.apply(model)
    with pytest.raises(flashc.ArgumentError, match="expected AttnProcessor to call scaled_dot_product_attention, but it"
                                                   " computed attention in another way"):
        model(**inputs)
    door.restore(model)
    model(**inputs)


def test_linear_attention_is_refused_and_the_other_layers_run(counted):
    model = diffusers.SanaTransformer2DModel(
        in_channels=4, out_channels=4, num_attention_heads=2, attention_head_dim=16, num_layers=2,
        num_cross_attention_heads=2, cross_attention_head_dim=16, cross_attention_dim=32, caption_channels=32,
        sample_size=4)
    inputs = dict(hidden_states=torch.randn(2, 4, 4, 4), encoder_hidden_states=torch.randn(2, 7, 32),
                  timestep=torch.ones(2), encoder_attention_mask=models._text_mask(2, 7).float())
    with torch.no_grad():
        want = model(**inputs).sample
        door.apply(model)
        with pytest.raises(flashc.ArgumentError, match="expected SanaLinearAttnProcessor2_0 to call"):
            model(**inputs)
        for block in model.transformer_blocks:
            door.restore(block.attn1)
        counted.clear()
        assert (model(**inputs).sample - want).abs().max() <= CLOSE * want.abs().max()
    assert len(counted) == 2


def test_another_backend_after_apply_is_refused():
    model, inputs = models.make("Flux"), models.inputs("Flux", 1)
    door.apply(model)
    model.single_transformer_blocks[0].attn.set_attention_backend("flex")
    with torch.no_grad(), pytest.raises(flashc.ArgumentError, match="expected FluxAttnProcessor to call .* or by "
                                                                    "another backend"):
        model(**inputs)


def test_context_parallelism_is_refused():
    model, inputs = models.make("Flux"), models.inputs("Flux", 1)
    door.apply(model)
    model.transformer_blocks[0].attn.processor._parallel_config = object()
    with pytest.raises(flashc.ArgumentError, match="expected no context parallelism in FluxAttnProcessor, got a "
                                                   "_parallel_config"):
        model(**inputs)


def test_skipped_scores_are_refused():
    from diffusers.hooks import apply_layer_skip
    model, inputs = models.make("CogView4"), models.inputs("CogView4", 1)
    apply_layer_skip(model, diffusers.LayerSkipConfig([0], fqn="transformer_blocks", skip_attention=False,
                                                      skip_attention_scores=True, skip_ff=False))
    door.apply(model)
    with pytest.raises(flashc.ArgumentError, match="expected no layers whose attention scores are skipped"):
        model(**inputs)


class Layer(torch.nn.Module):
    """A layer whose processor calls scaled_dot_product_attention with what it is given."""

    class Processor:
        def __call__(self, layer, *tensors, **others):
            return functional.scaled_dot_product_attention(*tensors, **others)

    def __init__(self):
        super().__init__()
        self.processor = self.Processor()

    def forward(self, *tensors, **others):
        return self.processor(self, *tensors, **others)


def test_gradients_of_biases():
    layer, x, bias = Layer(), torch.randn(3, 2, 2, 5, 8), torch.randn(2, 2, 5, 5, requires_grad=True)
    want, = torch.autograd.grad(layer(*x, attn_mask=bias).square().sum(), bias)
    door.apply(layer)
    have, = torch.autograd.grad(layer(*x, attn_mask=bias).square().sum(), bias)
    assert (have - want).abs().max() <= CLOSE * want.abs().max()


@pytest.mark.parametrize("others, message", [
    (dict(attn_mask=torch.ones(5, 5, dtype=torch.bool), is_causal=True), "expected attn_mask or is_causal, got both"),
    (dict(attn_mask=torch.ones(4, 5, dtype=torch.bool)), "mask"),
    (dict(dropout_p=2.0), "dropout_p"),
])
def test_what_flashc_refuses(others, message):
    layer, x = Layer(), torch.randn(1, 2, 5, 8, requires_grad=True)
    door.apply(layer)
    with pytest.raises(flashc.Error, match=message):
        layer(x, x, x, **others)
