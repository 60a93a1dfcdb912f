"""Runs an engine of SGLang on the CPU, and prints the tokens of 16 requests as JSON: serve.py FOLDER BACKEND. Makes the
model in FOLDER, with random weights, if there is none. SGLang ends this process if one of its processes fails."""
import json
import pathlib
import random
import sys

import sglang
import torch
import transformers

SIZES = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=128, max_position_embeddings=512, initializer_range=0.3)


def requests(rng):
    """Returns prompts, half of which begin as the one before does, and the number of tokens that are asked for."""
    prompts = []
    for _ in range(16):
        shared = prompts[-1][:rng.randint(0, len(prompts[-1]))] if prompts and rng.random() < 0.5 else []
        prompts.append(shared + [rng.randint(3, 127) for _ in range(rng.randint(1, 60))])
    return prompts, [rng.randint(1, 40) for _ in prompts]


def main():
    folder, backend = pathlib.Path(sys.argv[1]), sys.argv[2]
    if not (folder / "config.json").exists():
        torch.manual_seed(0)
        transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)).save_pretrained(folder)
    engine = sglang.Engine(
        model_path=str(folder), attention_backend=backend, device="cpu", dtype="float32", page_size=16,
        max_total_tokens=1024, max_running_requests=8, chunked_prefill_size=48, enable_mixed_chunk=True,
        disable_cuda_graph=True, disable_overlap_schedule=True, skip_tokenizer_init=True, sampling_backend="pytorch",
        log_level="error")
    prompts, counts = requests(random.Random(0))
    found = engine.generate(input_ids=prompts, sampling_params=[
        {"temperature": 0, "max_new_tokens": count, "ignore_eos": True} for count in counts])
    print("TOKENS", json.dumps([x["output_ids"] for x in found]), flush=True)
    engine.shutdown()


if __name__ == "__main__":
    main()
