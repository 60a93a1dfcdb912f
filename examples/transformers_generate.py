#!/usr/bin/env python3
"""A language model of transformers with flashc as its attention: a training step, and generation.

    PYTHONPATH=python python3 examples/transformers_generate.py [model]

`model` is a name or a folder for `from_pretrained`. Without it, a small model with random weights shows that the tokens
are those of transformers' own attention. Without a GPU the model runs on the CPU, in float32.
"""
import sys

import torch
import transformers

from flashc.integrations import transformers as door

device, dtype = ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)
name = door.register()  # "fcattn"


def load(path):
    return transformers.AutoModelForCausalLM.from_pretrained(path, attn_implementation=name, dtype=dtype).to(device)


def make():
    """Gemma 3's layers: three with a window of 16 keys, then one that sees all earlier keys."""
    torch.manual_seed(0)
    config = transformers.Gemma3TextConfig(
        hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
        head_dim=32, vocab_size=1000, sliding_window=16, layer_types=["sliding_attention"] * 3 + ["full_attention"],
        initializer_range=0.1, pad_token_id=0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=name)
    return model.to(device, dtype)


def main():
    model = load(sys.argv[1]) if len(sys.argv) > 1 else make()
    count = model.config.get_text_config().vocab_size
    tokens = torch.randint(3, count, (2, 50), device=device)
    mask = torch.ones_like(tokens)
    mask[1, :20] = 0  # The second prompt is shorter: padding on the left.

    loss = model(tokens, attention_mask=mask, labels=tokens.where(mask.bool(), -100)).loss
    loss.backward()
    print(f"loss {float(loss.detach()):.3f}")

    how = dict(attention_mask=mask, max_new_tokens=32, do_sample=False, pad_token_id=0)
    found = model.eval().generate(tokens, **how)
    print(found[:, tokens.shape[1]:].tolist())
    if device == "cpu":
        model.set_attn_implementation("eager")
        same = torch.equal(found, model.generate(tokens, **how))
        print("the tokens of eager" if same else "other tokens than eager's")
        return 0 if same else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
