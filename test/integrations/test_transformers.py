"""Models of transformers with attn_implementation="fcattn": results and gradients in f32 beside those of "eager"."""
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import transformers_models as models  # noqa: E402
from flashc.integrations import transformers as door  # noqa: E402

NAME = door.register()
DECODERS = [name for name, family in models.FAMILIES.items() if family.kind == "decoder"]
ENCODERS = [name for name, family in models.FAMILIES.items() if family.kind == "encoder"]
#: In f32 the results of two implementations differ in the last bits.
CLOSE = 2e-5


def result_of(model, inputs):
    found = model(**inputs)
    return found.logits if hasattr(found, "logits") else found.last_hidden_state


def run(model, implementation, inputs, seen=None):
    """Returns the result, and the gradients of all parameters. `seen`: the rows that count."""
    model.set_attn_implementation(implementation)
    assert model.config._attn_implementation == implementation
    model.zero_grad()
    result = result_of(model, inputs)
    torch.manual_seed(1)
    weight = torch.randn(result.shape)
    ((result * weight) if seen is None else (result * weight)[seen]).sum().backward()
    return result.detach(), {name: x.grad.clone() for name, x in model.named_parameters() if x.grad is not None}


def check(name, inputs, seen=None):
    """Compares with eager: results relative to the largest one, and each gradient relative to its largest element, or
    to the largest of all gradients if it is 0 but for rounding, as that of the bias of keys."""
    model = models.make(name)
    want, want_gradients = run(model, "eager", inputs, seen)
    have, gradients = run(model, NAME, inputs, seen)
    assert have.shape == want.shape and not have.isnan().any()
    if seen is not None:
        have, want = have[seen], want[seen]
    assert (have - want).abs().max() <= CLOSE * want.abs().max()
    assert set(gradients) == set(want_gradients)
    largest = max(float(x.abs().max()) for x in want_gradients.values())
    for parameter, gradient in gradients.items():
        expected = want_gradients[parameter]
        off = float((gradient - expected).abs().max())
        assert off <= 2e-4 * float(expected.abs().max()) + 2e-6 * largest, parameter


@pytest.mark.parametrize("name", models.FAMILIES)
def test_results_and_gradients_are_those_of_eager(name):
    check(name, models.FAMILIES[name].inputs(2, 21))


@pytest.mark.parametrize("name", models.FAMILIES)
@pytest.mark.parametrize("batch, length", [(1, 5), (3, 34)])
def test_results_of_other_shapes_are_those_of_eager(name, batch, length):
    model, inputs = models.make(name), models.FAMILIES[name].inputs(batch, length)
    found = {}
    for implementation in ("eager", NAME):
        model.set_attn_implementation(implementation)
        with torch.no_grad():
            found[implementation] = result_of(model, inputs)
    want = found["eager"]
    assert (found[NAME] - want).abs().max() <= CLOSE * want.abs().max()


@pytest.mark.parametrize("name", DECODERS)
def test_one_token(name):
    check(name, models.FAMILIES[name].inputs(1, 1))


def padded(sides, length):
    """Returns an attention_mask with as much padding on each side as (left, right) of a sequence say."""
    columns = torch.arange(length)
    return torch.stack([(columns >= left) & (columns < length - right) for left, right in sides]).long()


@pytest.mark.parametrize("side", ["left", "right", "both"])
@pytest.mark.parametrize("name", DECODERS + ENCODERS)
def test_padding(name, side):
    """Rows of padding on the left see nothing. They may hold any finite numbers, and no other row reads them."""
    length = 23
    mask = padded({"left": [(9, 0), (0, 0)], "right": [(0, 7), (0, 0)], "both": [(3, 8), (2, 0)]}[side], length)
    inputs = dict(models.FAMILIES[name].inputs(2, length), attention_mask=mask)
    check(name, inputs, mask.bool())


@pytest.mark.parametrize("name", ["T5", "BART"])
def test_padding_of_sources_and_targets(name):
    """Self attention of both sides and cross attention have padding."""
    inputs = models.FAMILIES[name].inputs(2, 14)
    target = padded([(0, 4), (0, 0)], 14)
    inputs.update(attention_mask=padded([(0, 6), (0, 0)], 19), decoder_attention_mask=target)
    check(name, inputs, target.bool())


@pytest.mark.parametrize("name", ["Gemma3 with images", "PaliGemma", "Qwen2-VL"])
def test_padding_of_images_and_text(name):
    inputs = models.FAMILIES[name].inputs(2, 12)
    length = inputs["input_ids"].shape[1]
    inputs["attention_mask"] = padded([(0, 3), (0, 0)], length)  # The images are on the left.
    check(name, inputs, inputs["attention_mask"].bool())


PACKED = ["Llama", "Mistral", "Qwen3", "Gemma2", "Gemma3", "GPT-OSS", "Llama4", "Phi3", "Cohere2", "OLMo2"]


@pytest.mark.parametrize("name", PACKED)
def test_packed_sequences(name):
    """Sequences that position_ids pack into rows see only themselves; two rows have different sequences."""
    rows = [[9, 1, 13, 2], [25]]
    positions = torch.stack([torch.cat([torch.arange(length) for length in row]) for row in rows])
    check(name, dict(models.FAMILIES[name].inputs(2, 25), position_ids=positions))


@pytest.mark.parametrize("name", ["Llama", "Gemma2"])
@pytest.mark.parametrize("kind", ["bool", "numbers", "heads"])
def test_masks_of_users(name, kind):
    """An array of 4 dimensions is the mask, as for sdpa."""
    keep = torch.rand(2, 4 if kind == "heads" else 1, 19, 19, generator=torch.Generator().manual_seed(2)) < 0.5
    keep |= torch.eye(19, dtype=torch.bool)
    mask = keep if kind == "bool" else torch.where(keep, 0.0, torch.finfo(torch.float32).min)
    model, inputs = models.make(name), models.FAMILIES[name].inputs(2, 19)
    model.set_attn_implementation("eager")
    want = model(**inputs, attention_mask=torch.where(keep, 0.0, torch.finfo(torch.float32).min)).logits
    model.set_attn_implementation(NAME)
    have = model(**inputs, attention_mask=mask).logits
    assert (have - want).abs().max() <= CLOSE * want.abs().max()


def test_gradient_checkpointing():
    model, inputs = models.make("GPT-OSS").train(), models.FAMILIES["GPT-OSS"].inputs(2, 21)
    want = run(model, NAME, inputs)[1]
    model.gradient_checkpointing_enable(dict(use_reentrant=False))
    have = run(model, NAME, inputs)[1]
    assert all(torch.equal(have[name], want[name]) for name in want)


def test_dropout():
    """A rate of dropout changes the result in training alone, by PyTorch's generator, and keeps its mean."""
    model, inputs = models.make("Llama"), models.FAMILIES["Llama"].inputs(1, 17)
    layer = model.model.layers[0].self_attn
    q, k, v = (torch.randn(1, heads, 60, 16) for heads in (4, 2, 2))
    layer.train()
    want = door.attention(layer, q, k, v, None)[0]
    torch.manual_seed(5)
    found = torch.stack([door.attention(layer, q, k, v, None, dropout=0.25)[0] for _ in range(400)])
    assert not torch.equal(found[0], found[1])
    torch.manual_seed(5)
    assert torch.equal(door.attention(layer, q, k, v, None, dropout=0.25)[0], found[0])
    assert (found.mean(0) - want).abs().max() < 6 * float(found.std(0).max()) / 20
    model.eval().set_attn_implementation(NAME)
    for module in model.modules():
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.5
    once = result_of(model, inputs)
    assert torch.equal(result_of(model, inputs), once)
    model.train()
    assert not torch.equal(result_of(model, inputs), once)


def test_a_cap_a_sink_and_a_bias_together():
    """What no family joins: the cap comes before the bias, and the sink has neither."""
    generator = torch.Generator().manual_seed(4)
    q, k, v, bias = (torch.randn(*shape, generator=generator, requires_grad=True)
                     for shape in ((2, 4, 20, 16), (2, 2, 20, 16), (2, 2, 20, 16), (1, 4, 20, 20)))
    sinks = torch.randn(4, generator=generator, requires_grad=True)
    layer = torch.nn.Module()
    layer.is_causal = False
    have = door.attention(layer, q, k, v, None, scaling=1.5, softcap=3.0, s_aux=sinks, position_bias=bias)[0]
    scores = 1.5 * q @ k.repeat_interleave(2, 1).transpose(2, 3)
    scores = torch.cat([3 * torch.tanh(scores / 3) + bias, sinks[None, :, None, None].expand(2, -1, 20, 1)], 3)
    want = (scores.softmax(3)[..., :-1] @ v.repeat_interleave(2, 1)).transpose(1, 2)
    assert torch.allclose(have, want, atol=1e-5)
    given = (q, k, v, bias, sinks)
    weight = torch.randn(want.shape, generator=generator)
    for one, other in zip(torch.autograd.grad((have * weight).sum(), given),
                          torch.autograd.grad((want * weight).sum(), given)):
        assert torch.allclose(one, other, atol=1e-4)
