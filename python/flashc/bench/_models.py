"""Models of transformers with each of its attention implementations, and with flashc's: tokens per second.

    python -m flashc.bench --models

Three shapes, with a few layers and random weights in bf16: Llama 3 8B, Gemma 2 9B (windows and a soft cap) and GPT-OSS
20B (windows and sinks). A forward pass and a training step (without an optimizer) have one sequence of 8192 tokens. A
step of generation has one new token for each of 1 and 32 sequences of 4096, with a dynamic cache. All implementations
take turns in one process (`_timing.py`). `eager` is compared where a model does not take `sdpa`: transformers refuses
`sdpa` for Gemma 2, whose soft cap it would drop, and for GPT-OSS, whose sinks it does not have.

`flex_attention` is compiled by transformers itself, with `torch.compile`. Each task begins without compiled code, since
code for the shapes of other tasks would make it slower, and the limits on how often PyTorch compiles a function again
are raised. Where PyTorch reaches a limit in spite of that, an error takes the place of a run without compilation.
"""
import contextlib
import copy
import dataclasses
import statistics
import time
from typing import Any, Callable, Dict, List

from ._timing import time_interleaved

NAMES = "sdpa", "flash_attention_2", "flex_attention", "eager", "fcattn"
OURS = "fcattn"
_COMMON = dict(num_hidden_layers=4, vocab_size=8192, max_position_embeddings=16384, pad_token_id=0, eos_token_id=1,
               bos_token_id=2)
SHAPES = {
    "Llama 3 8B": ("Llama", dict(hidden_size=4096, intermediate_size=14336, num_attention_heads=32,
                                 num_key_value_heads=8, head_dim=128)),
    "Gemma 2 9B": ("Gemma2", dict(hidden_size=3584, intermediate_size=14336, num_attention_heads=16,
                                  num_key_value_heads=8, head_dim=256, sliding_window=4096)),
    "GPT-OSS 20B": ("GptOss", dict(hidden_size=2880, intermediate_size=2880, num_attention_heads=64,
                                   num_key_value_heads=8, head_dim=64, sliding_window=128, num_local_experts=32,
                                   num_experts_per_tok=4)),
}
#: What takes the place of the sizes in tests on the CPU.
TINY = dict(hidden_size=64, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
            sliding_window=8, num_local_experts=2, num_experts_per_tok=1, num_hidden_layers=2, vocab_size=100)


@dataclasses.dataclass
class Task:
    """What is timed: `prepare()` makes a state, and `step(state)` is timed. A step has `tokens` tokens."""
    name: str
    tokens: int
    prepare: Callable[[], Any]
    step: Callable[[Any], Any]
    #: Whether each step changes the state, as a step of generation does.
    changes: bool = False


@dataclasses.dataclass
class Line:
    """The tokens per second of each implementation in one task, and why others are left out."""
    shape: str
    task: str
    rates: Dict[str, float]
    left_out: Dict[str, str]

    def __str__(self):
        rates = "  ".join(f"{name} {rate:,.0f}" for name, rate in self.rates.items())
        ratios = [f"  {OURS} / {name} {self.rates[OURS] / rate:.2f}" for name, rate in self.rates.items()
                  if name != OURS and OURS in self.rates]
        return "\n".join([f"{self.shape}, {self.task}: {rates}{''.join(ratios)}",
                          *(f"  not compared: {name}: {why}" for name, why in self.left_out.items())])


@contextlib.contextmanager
def compiling():
    """Begins without compiled code. In the context, PyTorch compiles a function again for many shapes and masks, and
    raises an error in place of running the function without compilation."""
    import torch
    import torch._dynamo
    torch.compiler.reset()
    with torch._dynamo.config.patch(recompile_limit=64, accumulated_recompile_limit=1024,
                                    fail_on_recompile_limit_hit=True):
        yield


class Model:
    """A model of a shape, its tasks, and a clock."""

    def __init__(self, shape, is_tiny=False):
        import torch
        import transformers
        self.torch, self.transformers, self.is_tiny = torch, transformers, is_tiny
        family, sizes = SHAPES[shape]
        config = getattr(transformers, family + "Config")(**{**_COMMON, **sizes, **(TINY if is_tiny else {})})
        self.device, dtype = ("cpu", torch.float32) if is_tiny else ("cuda", torch.bfloat16)
        torch.manual_seed(0)
        with torch.device(self.device):
            self.model = getattr(transformers, family + "ForCausalLM")(config).to(dtype).eval()
        self.shape, self.count = shape, config.vocab_size

    def random(self, batch, length):
        return self.torch.randint(3, self.count, (batch, length), device=self.device)

    def tasks(self):
        """Yields the tasks. What a task needs is freed before the next one."""
        length, past = (24, 20) if self.is_tiny else (8192, 4096)
        tokens = self.random(1, length)
        yield Task(f"forward pass of {length} tokens", length, lambda: tokens, self.forward)
        yield Task(f"training step of {length} tokens", length, lambda: tokens, self.train)
        for batch in (1, 2 if self.is_tiny else 32):
            prompt = self.random(batch, past)
            cache = self.transformers.DynamicCache(config=self.model.config)
            with self.torch.no_grad():
                self.use(OURS)
                self.model(prompt, past_key_values=cache, logits_to_keep=1)
            mask = self.torch.ones((batch, past + 4096), dtype=self.torch.long, device=self.device)
            yield Task(f"generation for {batch} of {past} tokens", batch,
                       lambda: [copy.deepcopy(cache), past, prompt[:, -1:], mask], self.generate,  # noqa: B023
                       changes=True)
            del cache

    def forward(self, tokens):
        with self.torch.no_grad():
            self.model(tokens, use_cache=False)

    def train(self, tokens):
        self.model.zero_grad()
        self.model(tokens, labels=tokens, use_cache=False).loss.backward()

    def generate(self, state):
        cache, length, token, mask = state
        state[1] += 1
        with self.torch.no_grad():
            self.model(token, past_key_values=cache, attention_mask=mask[:, :length + 1], logits_to_keep=1)

    def use(self, name):
        if self.model.config._attn_implementation != name:
            self.model.set_attn_implementation(name)

    def time(self, name, task, calls):
        """Returns the milliseconds of `calls` steps of a task with an implementation."""
        self.use(name)
        state = task.prepare()
        self.wait()
        start = time.perf_counter_ns()
        for _ in range(calls):
            task.step(state)
        self.wait()
        return (time.perf_counter_ns() - start) / 1e6

    def wait(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def measure(self, task, names=NAMES, **how):
        """Times a task with all implementations of `names` that take it."""
        with compiling():
            return self._measure(task, names, **how)

    def _measure(self, task, names, **how):
        taken, left_out = {}, {}
        for name in names:
            if name == "eager" and "sdpa" in taken:
                continue
            try:
                # FlexAttention compiles again for the second length of a cache, and not for later ones.
                self.time(name, task, 4 if task.changes else 1)
                taken[name] = name
            except Exception as error:  # noqa: BLE001: whatever an implementation raises, the others are timed
                if name == OURS:
                    raise
                left_out[name] = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        found = time_interleaved(taken, lambda name, calls: self.time(name, task, calls), **how)
        rates = {name: 1e3 * task.tokens / statistics.median(timing.samples) for name, timing in found.items()}
        self.model.zero_grad(set_to_none=True)
        return Line(self.shape, task.name, rates, left_out)


def run(show: Callable[[str], Any] = print, shapes=tuple(SHAPES), is_tiny=False, **how) -> List[Line]:
    """Measures the shapes, and shows each line when it is known."""
    from ..integrations import transformers as door
    door.register()
    lines = []
    for shape in shapes:
        model = Model(shape, is_tiny)
        for task in model.tasks():
            lines.append(model.measure(task, **how))
            show(str(lines[-1]))
        del model
    return lines
