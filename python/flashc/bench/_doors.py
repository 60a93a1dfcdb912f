"""PyTorch's scaled_dot_product_attention on flashc's kernels (flashc.integrations.pytorch), on PyTorch's own, and
flashc.attention: the host's time of small calls, and the GPU's time of large ones.

    python -m flashc.bench._doors
"""
import contextlib
import statistics

from ._host import CALLS, Problem
from ._report import latency_line
from ._timing import call_times, time_interleaved

#: The most microseconds that a call on flashc's kernels may take longer on the host than on PyTorch's own.
MOST_US = 3
#: The most time of a call, over that of flashc.attention.
MOST_RATIO = 1.03
#: B, H, N, D of the large calls.
SHAPE = 4, 16, 4096, 128

FLASHC, OURS, OWN = "flashc.attention", "torch SDPA, flashc", "torch SDPA, FlashAttention-2"


@contextlib.contextmanager
def activated(is_active):
    """A context in which PyTorch's flash attention runs, and, if `is_active`, runs flashc's kernels."""
    from torch.nn import attention
    import flashc.integrations.pytorch  # noqa: F401
    if is_active:
        attention.activate_flash_attention_impl("flashc")
    try:
        with attention.sdpa_kernel(attention.SDPBackend.FLASH_ATTENTION):
            yield
    finally:
        if is_active:
            attention.restore_flash_attention_impl()


def attentions():
    """Returns {name: (function of q, k and v, whether flashc is activated)}; all are causal."""
    import torch
    import flashc
    sdpa = torch.nn.functional.scaled_dot_product_attention
    return {FLASHC: (lambda *x: flashc.attention(*x, causal=True), False),
            OURS: (lambda *x: sdpa(*x, is_causal=True), True),
            OWN: (lambda *x: sdpa(*x, is_causal=True), False)}


def host_times(it, calls=CALLS):
    """Yields (what, {name: microseconds of each call}) for calls without and with gradients. `it`: a Problem."""
    torch = it.torch
    wait = torch.cuda.synchronize if it.is_gpu else lambda: None
    for what, make in (("forward", lambda attend: lambda: attend(it.q, it.k, it.v)), ("with gradients", it.train)):
        found = {}
        for name, (attend, is_active) in attentions().items():
            with torch.no_grad(), activated(is_active):
                found[name] = call_times(make(attend), wait, calls)
        yield what, found


def gpu_times(measure, device="cuda", shape=SHAPE, **how):
    """Yields (what, {name: milliseconds}) for the forward pass and for it together with the backward pass. `measure`:
    a function of a function of a number, and of how often it is called, that returns milliseconds."""
    import torch
    q, k, v, do = (torch.randn(shape, device=device).bfloat16() for _ in range(4))
    trained = [x.clone().requires_grad_() for x in (q, k, v)]

    def timed(contender, calls):
        run, is_active = contender
        with activated(is_active):
            return measure(run, calls)

    for what in ("forward", "forward and backward"):
        contenders = {}
        for name, (attend, is_active) in attentions().items():
            def run(i, attend=attend):
                return attend(q, k, v) if what == "forward" else \
                    torch.autograd.grad(attend(*trained), trained, do)
            contenders[name] = run, is_active
        with torch.set_grad_enabled(what != "forward"):
            yield what, {name: x.median for name, x in time_interleaved(contenders, timed, **how).items()}


def main():
    import torch
    if not torch.cuda.is_available():
        print("left out: PyTorch's attention on flashc's kernels: PyTorch sees no GPU")
        return
    from ._peers import elapsed
    for what, found in host_times(Problem("cuda")):
        for name, times in found.items():
            print(latency_line(f"whole call: {name}, {what}", times, "us"), flush=True)
        more = statistics.median(found[OURS]) - statistics.median(found[OWN])
        print(f"host's time on flashc's kernels, {what}: {more:+.2f} us, target at most {MOST_US:+} us", flush=True)
    for what, found in gpu_times(elapsed):
        for name, time in found.items():
            print(f"{list(SHAPE)} causal, {what}: {name:<30} {time:8.3f} ms", flush=True)
        ratio = found[OURS] / found[FLASHC]
        print(f"{OURS} over {FLASHC}, {what}: {ratio:.3f}, target at most {MOST_RATIO}", flush=True)


if __name__ == "__main__":
    main()
