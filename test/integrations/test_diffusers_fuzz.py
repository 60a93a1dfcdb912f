"""Random configurations and shapes of models of diffusers after `apply`, compared with their own attention in f32.

FLASHC_DOOR_RUNS=300 runs as many; a failed run is repeated by its seed.
"""
import os
import random

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")

import diffusers_models as models  # noqa: E402
from flashc.integrations import diffusers as door  # noqa: E402
from test_diffusers import CLOSE, Seen, compare, run  # noqa: E402

RUNS = int(os.environ.get("FLASHC_DOOR_RUNS", 12))

#: The multiples that head dimensions have: rotary embeddings of several axes need them.
STEPS = {"Flux2": 8, "Lumina2": 12, "CogView4": 8, "Wan": 12, "CogVideoX": 16, "UNet": 4, "UNet with added keys": 4}


def _masked(inputs, rng):
    """Puts another padding mask into the arguments: random tokens, of which one is kept."""
    for name in "encoder_hidden_states_mask", "encoder_attention_mask":
        if name in inputs:
            batch, texts = inputs[name].shape
            mask = torch.rand(batch, texts) < rng.choice([0.2, 0.7, 1.0])
            mask[:, 0] = True
            inputs[name] = mask.to(inputs[name].dtype)
    return inputs


@pytest.mark.parametrize("seed", range(RUNS))
def test_random_models(seed):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    name = rng.choice(list(models.FAMILIES))
    heads, depth = rng.choice([1, 2, 3, 4]), STEPS.get(name, 8) * rng.choice([1, 2, 3])
    settings = dict(heads=heads, depth=depth)
    if name == "Lumina2":
        settings["key_heads"] = rng.choice([x for x in (1, 2, 3, 4) if heads % x == 0])
    batch, side, texts = rng.choice([1, 2, 3]), rng.choice([2, 3, 4, 5]), rng.choice([1, 2, 9, 15])
    print(name, settings, batch, side, texts)
    model, inputs = models.make(name, **settings), models.inputs(name, batch, side, texts)
    # These expect the masks of text encoders, in which padding follows the tokens.
    inputs = inputs if name in ("HunyuanVideo", "Lumina2", "Mochi", "QwenImage") else _masked(inputs, rng)
    with torch.set_grad_enabled(rng.random() < 0.5):
        if torch.is_grad_enabled():
            want = run(model, inputs)
            door.apply(model)
            with Seen() as seen:
                compare(run(model, inputs), want)
        else:
            want = model(**inputs).sample
            door.apply(model)
            with Seen() as seen:
                have = model(**inputs).sample
            assert (have - want).abs().max() <= CLOSE * want.abs().max()
    assert seen.calls == models.OUTSIDE.get(name, 0)
