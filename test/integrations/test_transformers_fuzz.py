"""Random configurations and shapes of models with attn_implementation="fcattn", beside "eager" in f32.

FLASHC_DOOR_RUNS=300 runs as many; a failed run is repeated by its seed.
"""
import os
import random

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import transformers_models as models  # noqa: E402
from flashc.integrations import transformers as door  # noqa: E402

NAME = door.register()
RUNS = int(os.environ.get("FLASHC_DOOR_RUNS", 8))


def configuration(rng):
    """Returns a model, and whether it generates."""
    heads = rng.choice([1, 2, 4, 6])
    group = rng.choice([x for x in (1, 2, 3, 4, 6) if heads % x == 0])
    width = rng.choice([4, 8, 16, 20, 32])
    sizes = {**models.SIZES, "hidden_size": heads * width, "num_attention_heads": heads,
             "num_key_value_heads": heads // group, "head_dim": width, "max_position_embeddings": 256}
    # transformers' dynamic cache keeps all keys for a window of 1, whose mask then has another length, in eager too.
    window, kind = rng.choice([2, 3, 5, 16, 100]), rng.choice(
        ["Llama", "Mistral", "Gemma2", "Gemma3", "GptOss", "Llama4", "Cohere2", "Qwen3", "BERT", "ModernBERT"])
    layers = rng.choice([["sliding_attention", "full_attention"], ["full_attention"] * 2, ["sliding_attention"] * 2])
    if kind == "BERT":
        config = transformers.BertConfig(**{**sizes, **models._NO_DROPOUT})
        return transformers.BertModel(config), False
    if kind == "ModernBERT":
        config = transformers.ModernBertConfig(**sizes, local_attention=2 * window, global_attn_every_n_layers=2,
                                               attention_dropout=0.0, cls_token_id=1, sep_token_id=2, eos_token_id=2,
                                               bos_token_id=1)
        return transformers.ModernBertModel(config), False
    more = {
        "Mistral": dict(sliding_window=window),
        "Gemma2": dict(sliding_window=window, layer_types=layers, query_pre_attn_scalar=rng.choice([2, 16]),
                       attn_logit_softcapping=rng.choice([None, 1.0, 30.0])),
        "Gemma3": dict(sliding_window=window, layer_types=layers, query_pre_attn_scalar=rng.choice([2, 16])),
        "GptOss": dict(sliding_window=window, layer_types=layers, num_local_experts=2, num_experts_per_tok=1),
        "Llama4": dict(attention_chunk_size=window, intermediate_size_mlp=96, **models.EXPERTS,
                       layer_types=["chunked_attention", "full_attention"], no_rope_layers=[1, 0]),
        "Cohere2": dict(sliding_window=window, layer_types=layers),
    }.get(kind, {})
    names = {"Gemma3": "Gemma3Text", "Llama4": "Llama4Text"}
    config = getattr(transformers, names.get(kind, kind) + "Config")(**{**sizes, **more})
    return getattr(transformers, kind + "ForCausalLM")(config), True


def inputs_of(rng, is_decoder):
    """Returns the arguments of a call, and the rows that count."""
    batch, length = rng.randint(1, 4), rng.choice([1, 2, 7, 16, 17, rng.randint(18, 90)])
    found, seen = {"input_ids": models.ids(batch, length, rng.randint(0, 99))}, torch.ones(batch, length).bool()
    kind = rng.choice(["none", "ones", "left", "right", "packed", "array"])
    if kind == "ones" or kind in ("packed", "array") and not is_decoder:
        found["attention_mask"] = seen.long()
    elif kind in ("left", "right"):
        for b in range(batch):
            size = rng.randint(0, length - 1)
            seen[b, slice(0, size) if kind == "left" else slice(length - size, length)] = False
        found["attention_mask"] = seen.long()
    elif kind == "packed":
        rows = []
        for _ in range(batch):
            row = []
            while len(row) < length:
                row += range(rng.randint(1, 30))
            rows.append(row[:length])
        found["position_ids"] = torch.tensor(rows)
    elif kind == "array":
        keep = torch.rand(batch, 1, length, length) < 0.6
        keep |= torch.eye(length, dtype=torch.bool)
        found["attention_mask"] = torch.where(keep, 0.0, torch.finfo(torch.float32).min)
    return found, seen, kind


def gradients(model, result, seen, weight):
    model.zero_grad()
    (result * weight)[seen].sum().backward()
    return {name: x.grad.clone() for name, x in model.named_parameters() if x.grad is not None}


@pytest.mark.parametrize("seed", range(RUNS))
def test_random_models(seed):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    model, is_decoder = configuration(rng)
    model.eval()
    inputs, seen, kind = inputs_of(rng, is_decoder)
    about = f"seed {seed}: {type(model).__name__}, {kind}, {tuple(seen.shape)}, {model.config}"
    found = {}
    for implementation in ("eager", NAME):
        model.set_attn_implementation(implementation)
        result = model(**inputs)
        result = result.logits if is_decoder else result.last_hidden_state
        torch.manual_seed(seed)
        found[implementation] = result.detach(), gradients(model, result, seen, torch.randn(result.shape))
    (want, expected), (have, given) = found["eager"], found[NAME]
    assert not have.isnan().any(), about
    assert (have - want)[seen].abs().max() <= 5e-5 * want[seen].abs().max(), about
    largest = max(float(x.abs().max()) for x in expected.values())
    for name, gradient in given.items():
        bound = 5e-4 * float(expected[name].abs().max()) + 5e-6 * largest
        assert (gradient - expected[name]).abs().max() <= bound, f"{name} {about}"
    if is_decoder and kind in ("none", "ones", "left"):
        tokens = {}
        for implementation, cache in (("eager", "dynamic"), (NAME, rng.choice(["dynamic", "static"]))):
            model.set_attn_implementation(implementation)
            tokens[implementation] = model.generate(**inputs, max_new_tokens=6, do_sample=False, pad_token_id=0,
                                                    eos_token_id=None, cache_implementation=cache)
        assert torch.equal(tokens[NAME], tokens["eager"]), about
