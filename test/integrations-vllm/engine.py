"""Tokens of a small random model from an engine of vLLM on the CPU, as JSON: engine.py MODEL [flashc]

With `flashc` the engine has flashc's backend, without it the CPU's own one. vLLM's platform for CPUs offers one backend
(CPU_ATTN), whose entry in the registry is overridden. Eight requests of different lengths run at once, with chunks of
prompts, and with so few pages that requests are preempted; eight more requests begin like one of the first."""
import json
import os
import sys
import tempfile

os.environ.update(VLLM_CPU_KVCACHE_SPACE="1", VLLM_ENABLE_V1_MULTIPROCESSING="0", HF_HUB_OFFLINE="1",
                  VLLM_NO_USAGE_STATS="1")
COMMON = dict(hidden_size=128, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
              head_dim=32, vocab_size=512, max_position_embeddings=512, rms_norm_eps=1e-5, bos_token_id=1,
              eos_token_id=2, tie_word_embeddings=False)
LAYERS = dict(sliding_window=64, layer_types=["sliding_attention", "full_attention"])
#: {name: (the model's configuration, the number of pages)}. Some pages are for layers with a window alone.
MODELS = {
    "llama": (dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu", rope_theta=10000.0), 13),
    # Soft caps, and a window in every second layer.
    "gemma2": (dict(LAYERS, architectures=["Gemma2ForCausalLM"], model_type="gemma2", query_pre_attn_scalar=32,
                    hidden_activation="gelu_pytorch_tanh", attn_logit_softcapping=5.0, final_logit_softcapping=30.0,
                    pad_token_id=0, tie_word_embeddings=True), 40),
    # Sinks, and a window in every second layer.
    "gpt-oss": (dict(LAYERS, architectures=["GptOssForCausalLM"], model_type="gpt_oss", num_local_experts=4,
                     num_experts_per_tok=2, hidden_act="silu", attention_bias=True, rope_theta=10000.0), 40),
}


def use_flashc(counts):
    """Overrides the entry of the CPU's backend. `counts` gets the number of calls of flashc's layers."""
    from flashc.integrations import _vllm_backend as door
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    class Impl(door.FlashcImpl):
        def forward(self, *arguments, **keywords):
            counts["calls"] += 1
            return super().forward(*arguments, **keywords)

    class CPUBackend(door.FlashcBackend):
        @staticmethod
        def get_name():
            return "CPU_ATTN"

        @staticmethod
        def get_impl_cls():
            return Impl

    sys.modules["__main__"].CPUBackend = CPUBackend
    register_backend(AttentionBackendEnum.CPU_ATTN, "__main__.CPUBackend")


def load_weights(self, model, model_config):
    """Fills a model with random numbers that make its tokens depend on the attention."""
    import torch
    generator = torch.Generator().manual_seed(1)
    is_gemma = model_config.hf_config.model_type == "gemma2"
    with torch.no_grad():
        for name, x in sorted(model.named_parameters()):
            numbers = torch.randn(x.shape, generator=generator)
            if "norm" in name:
                numbers = 0.1 * numbers + (not is_gemma)  # Gemma adds 1
            elif is_gemma and "embed" in name:
                numbers *= 0.02
            elif "sinks" not in name and "bias" not in name:
                numbers *= (2.5 if "qkv" in name else 1.5) * x.shape[-1]**-0.5
            x.copy_(numbers)


def main():
    name, counts = sys.argv[1], {"calls": 0, "preempted": 0}
    if sys.argv[2:] == ["flashc"]:
        use_flashc(counts)
    from vllm import LLM, SamplingParams
    from vllm.model_executor.model_loader.dummy_loader import DummyModelLoader
    from vllm.v1.core.sched.scheduler import Scheduler
    preempt = Scheduler._preempt_request

    def preempt_and_count(*arguments, **keywords):
        counts["preempted"] += 1
        return preempt(*arguments, **keywords)
    Scheduler._preempt_request = preempt_and_count
    DummyModelLoader.load_weights = load_weights
    config, pages = MODELS[name]
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/config.json", "w") as file:
            json.dump({**COMMON, **config}, file)
        llm = LLM(model=folder, load_format="dummy", skip_tokenizer_init=True, max_model_len=256, enforce_eager=True,
                  num_gpu_blocks_override=pages, block_size=32, dtype="float32", max_num_seqs=8,
                  max_num_batched_tokens=64, enable_chunked_prefill=True, enable_prefix_caching=True, seed=0)
    prompts = [[(i * 37 + j * 11 + 5) % 500 + 3 for j in range(5 + 23 * i)] for i in range(8)]
    prompts += [prompts[7][:100] + prompts[i] for i in range(4)] + [prompts[6][:64 + 8 * i] for i in range(4)]
    outputs = []
    for batch in (prompts[:8], prompts[8:]):
        outputs += llm.generate([{"prompt_token_ids": prompt} for prompt in batch],
                                SamplingParams(max_tokens=24, temperature=0, detokenize=False, ignore_eos=True))
    tokens = [list(output.outputs[0].token_ids) for output in outputs]
    print(json.dumps({"tokens": tokens, "cached": sum(output.num_cached_tokens for output in outputs[8:]), **counts}))


if __name__ == "__main__":
    main()
