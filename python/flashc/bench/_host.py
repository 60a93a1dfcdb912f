"""The host's time of whole calls: flashc's functions, its drop-ins for PyTorch, and the peers in the same process.

    python -m flashc.bench --latency      prints these times, after the time to compile and to launch
    python -m flashc.bench._host          prints these times alone

The problems are small, [1, 8, 512, 64] in bf16, so that the GPU waits for the host: a call is timed while the GPU's
queue is nearly empty.
"""
import contextlib

from ._report import latency_line
from ._timing import call_times

CALLS = 2000


class Problem:
    """The tensors of the calls. On the CPU, where tests run the calls once, they are smaller."""

    def __init__(self, device):
        import torch
        self.torch, self.is_gpu = torch, device == "cuda"
        heads, n, d = (8, 512, 64) if self.is_gpu else (2, 128, 16)

        def random(*shape):
            return torch.randn(*shape, device=device).bfloat16()

        def integers(x):
            return torch.as_tensor(x, dtype=torch.int32, device=device)
        self.q, self.k, self.v, self.do = (random(1, heads, n, d) for _ in range(4))
        self.trained = [x.clone().requires_grad_() for x in (self.q, self.k, self.v)]
        self.ids = integers([i // 50 for i in range(n)])
        self.token, self.pages = random(4, 1, heads, 2 * d), random(64, 64, 1, 2 * d)
        self.lengths, self.table = integers([300, 64, 1, 511]), integers(range(32)).view(4, 8)
        self.rows, self.offsets = random(n, heads, d), integers([0, n // 3, n])

    def sees(self, b, h, i, j):
        return (self.ids[i] == self.ids[j]) & (j <= i)

    def train(self, attend):
        """Returns a call of `attend(q, k, v)` and its gradients."""
        def call():
            with self.torch.enable_grad():
                self.torch.autograd.grad(attend(*self.trained), self.trained, self.do)
        return call


def flashc_calls(it):
    """Returns {name: call} of flashc's functions. `it`: a Problem."""
    import flashc
    import flashc.torch
    from flashc import masks
    q, k, v, ids = it.q, it.k, it.v, it.ids
    named = masks.causal() & masks.documents(ids)
    return {
        "flashc.attention, causal": lambda: flashc.attention(q, k, v, causal=True),
        "flashc.attention, mask": lambda: flashc.attention(q, k, v, mask=lambda b, h, i, j: j <= i),
        "flashc.attention, score": lambda: flashc.attention(q, k, v, score=lambda s, b, h, i, j: s - 0.5 * (i - j)),
        "flashc.attention, mask that reads an array": lambda: flashc.attention(
            q, k, v, mask=lambda b, h, i, j: ids[i] == ids[j]),
        "flashc.attention, mask by name": lambda: flashc.attention(q, k, v, mask=named),
        "flashc.decode, pages": lambda: flashc.decode(it.token, it.pages, it.pages, it.lengths, it.table),
        "flashc.varlen_attention, causal": lambda: flashc.varlen_attention(it.rows, it.rows, it.rows, it.offsets,
                                                                           causal=True),
        "flashc.torch.flex_attention, score_mod": lambda: flashc.torch.flex_attention(
            q, k, v, lambda s, b, h, i, j: s - 0.5 * (i - j)),
        "flashc.torch.scaled_dot_product_attention": lambda: flashc.torch.scaled_dot_product_attention(
            q, k, v, is_causal=True),
        "flashc.attention and its gradients": it.train(lambda *x: flashc.attention(*x, causal=True)),
        "flashc.attention and its gradients, mask, array": it.train(
            lambda *x: flashc.attention(*x, mask=lambda b, h, i, j: ids[i] == ids[j])),
    }


def peer_calls(it):
    """Returns {name: call} of what PyTorch has, and of flashc's functions that take PyTorch's objects. On the CPU this
    is attention alone."""
    import flashc
    import flashc.torch
    torch, q, k, v = it.torch, it.q, it.k, it.v
    sdpa = torch.nn.functional.scaled_dot_product_attention
    if not it.is_gpu:
        return {"torch scaled_dot_product_attention": lambda: sdpa(q, k, v)}
    from torch.nn.attention import SDPBackend
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    torch.compiler.reset()
    block_mask = create_block_mask(lambda b, h, i, j: it.sees(b, h, i, j), None, None, q.shape[2], k.shape[2],
                                   device=q.device)
    flex = torch.compile(flex_attention, fullgraph=True, dynamic=False)
    compiled = torch.compile(lambda *x: flashc.attention(*x, causal=True), fullgraph=True)
    return {
        "flashc.torch.flex_attention, BlockMask": lambda: flashc.torch.flex_attention(q, k, v, block_mask=block_mask),
        "flashc.attention in torch.compile": lambda: compiled(q, k, v),
        "torch SDPA, cuDNN": (SDPBackend.CUDNN_ATTENTION, lambda: sdpa(q, k, v, is_causal=True)),
        "torch SDPA, FlashAttention-2": (SDPBackend.FLASH_ATTENTION, lambda: sdpa(q, k, v, is_causal=True)),
        "torch flex_attention, compiled, BlockMask": lambda: flex(q, k, v, block_mask=block_mask),
        "torch SDPA, FlashAttention-2, and its gradients": (
            SDPBackend.FLASH_ATTENTION, it.train(lambda *x: sdpa(*x, is_causal=True))),
    }


def host_times(calls=CALLS):
    """Yields (name, microseconds of each call)."""
    import torch
    if not torch.cuda.is_available():
        raise ImportError("PyTorch sees no GPU")
    it = Problem("cuda")
    with torch.no_grad():
        for name, call in {**flashc_calls(it), **peer_calls(it)}.items():
            choice = contextlib.nullcontext()
            if isinstance(call, tuple):  # a backend of PyTorch, and the call
                from torch.nn.attention import sdpa_kernel
                choice, call = sdpa_kernel(call[0]), call[1]
            with choice:
                yield name, call_times(call, torch.cuda.synchronize, calls)


def main():
    try:
        for name, times in host_times():
            print(latency_line(f"whole call: {name}", times, "us"), flush=True)
    except ImportError as error:
        print(f"left out: whole calls of flashc's functions and PyTorch's: {error}")


if __name__ == "__main__":
    main()
