"""The systems that the benchmark compares."""

import contextlib
import importlib.util
import warnings

import torch

import flashc

from ._report import FLASHC


class Refused(Exception):
    """The system has no kernel for the cell. The text is the reason."""


class Contender:
    """One system on one cell. `run(i)` launches the system on the i-th of `count` sets of inputs. `around()` returns a
    context for runs. `result(output)` converts the output to [batch, heads, n, dv], or to [total, heads, dv] if queries
    are packed."""

    def __init__(self, run, count, around=contextlib.nullcontext, result=lambda output: output):
        self.run, self.count, self.around, self.result = run, count, around, result


def elapsed(run, calls=1):
    """Returns the milliseconds that the GPU takes for the launches `run(i)`, with i from 0 to calls - 1."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for i in range(calls):
        run(i)
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"


class System:
    """An implementation of attention. `prepare(cell, sets)` returns a Contender or raises Refused. A system with
    `reads_cache` reads caches as servers do: `prepare` takes _decode.Inputs in place of sets, and `serves(cell)` says
    whether the system has a function for the cell."""
    name = ""
    reads_cache = False

    @staticmethod
    def begin():
        """Is called before each group of cells that are measured together."""

    @staticmethod
    def begin_backward():
        """Is called before a cell of the backward pass. A backward pass runs several times after one forward pass."""


class Flashc(System):
    """flashc.attention as a user calls it, with outputs allocated in every call."""

    def __init__(self, name=FLASHC, **keywords):
        """`keywords` are further arguments of each call, such as a schedule."""
        self.name, self.keywords = name, keywords

    def _call(self, cell, inputs, out=None):
        return flashc.attention(*inputs, causal=cell.causal, enable_gqa=cell.group != 1, out=out, **self.keywords)

    def prepare(self, cell, sets):
        return Contender(lambda i: self._call(cell, sets[i]), len(sets))

    def poisoned_run(self, cell, inputs):
        """Returns o, in an array that was filled with NaN."""
        q, _, v = inputs
        out = torch.full((*q.shape[:3], v.shape[3]), float("nan"), device=q.device, dtype=q.dtype)
        self._call(cell, inputs, out)
        return out


class SDPA(System):
    """torch.nn.functional.scaled_dot_product_attention, restricted to one backend."""
    backend = ""

    @classmethod
    def missing(cls):
        try:
            from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: F401
        except ImportError as error:
            return f"PyTorch {torch.__version__} has no torch.nn.attention: {error}"
        return None if hasattr(SDPBackend, cls.backend) else f"PyTorch {torch.__version__} has no {cls.backend}"

    @classmethod
    def prepare(cls, cell, sets):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        sdpa = torch.nn.functional.scaled_dot_product_attention
        keywords = {"enable_gqa": True} if cell.group != 1 else {}

        def around():
            return sdpa_kernel(getattr(SDPBackend, cls.backend))

        def run(i):
            return sdpa(*sets[i], is_causal=cell.causal, **keywords)

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                with around():
                    run(0)
            except RuntimeError as error:
                # Warnings contain the reasons why no backend accepts the cell.
                reasons = [str(warning.message).splitlines()[0] for warning in caught]
                raise Refused("; ".join(dict.fromkeys(reasons)) or first_line(error)) from None
        return Contender(run, len(sets), around)


class CuDNN(SDPA):
    """cuDNN's kernel through PyTorch."""
    name, backend = "cudnn", "CUDNN_ATTENTION"


class FlashAttention2(SDPA):
    """FlashAttention-2 inside PyTorch."""
    name, backend = "fa2", "FLASH_ATTENTION"


class FlexAttention(System):
    """FlexAttention under torch.compile. It is compiled for each cell with static shapes, which is fastest."""
    name, mode = "flex", None

    @staticmethod
    def missing():
        try:
            from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # noqa: F401
        except ImportError as error:
            return f"PyTorch {torch.__version__} has no FlexAttention: {error}"
        return None if importlib.util.find_spec("triton") else "Triton is not installed"

    @staticmethod
    def begin():
        # Drops earlier compilations, because after a number of them Dynamo runs functions eagerly.
        torch.compiler.reset()

    @staticmethod
    def begin_backward():
        # Without this, a compiled backward pass overwrites saved tensors, and refuses to run twice.
        from torch._functorch import config
        if hasattr(config, "donated_buffer"):
            config.donated_buffer = False

    @classmethod
    def prepare(cls, cell, sets):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        keywords = {"enable_gqa": True} if cell.group != 1 else {}
        if cell.causal:
            keywords["block_mask"] = create_block_mask(lambda b, h, i, j: i >= j, None, None, cell.n, cell.n,
                                                       device=sets[0][0].device)
        compiled = torch.compile(flex_attention, fullgraph=True, dynamic=False, mode=cls.mode)

        def run(i):
            return compiled(*sets[i], **keywords)

        try:
            run(0)
        except Exception as error:  # The compiler may raise anything. The peer has no kernel here.
            torch.cuda.synchronize()
            raise Refused(first_line(error)) from None
        return Contender(run, len(sets))


class FlexAttentionTuned(FlexAttention):
    """FlexAttention autotuned by Inductor, which takes minutes."""
    name, mode = "flex-tuned", "max-autotune-no-cudagraphs"


class FlashAttnPackage(System):
    """A package of the FlashAttention project. Its inputs have the layout [batch, n, heads, d]."""
    module = ""

    @classmethod
    def missing(cls):
        try:
            found = importlib.util.find_spec(cls.module)
        except (ImportError, ValueError) as error:
            return str(error)
        return None if found else f"no module {cls.module}"

    @classmethod
    def prepare(cls, cell, sets):
        try:
            function = importlib.import_module(cls.module).flash_attn_func
        except Exception as error:  # A package that was built for another PyTorch fails in many ways.
            raise Refused(f"cannot import {cls.module}: {first_line(error)}") from None
        own = [tuple(x.transpose(1, 2).contiguous() for x in inputs) for inputs in sets]

        def run(i):
            return function(*own[i], causal=cell.causal)

        def result(output):
            return (output[0] if isinstance(output, tuple) else output).transpose(1, 2)

        try:
            run(0)
        except (RuntimeError, ValueError, TypeError, AssertionError, NotImplementedError) as error:
            torch.cuda.synchronize()
            raise Refused(first_line(error)) from None
        return Contender(run, len(sets), result=result)


class FlashAttn2Package(FlashAttnPackage):
    """flash_attn, version 2."""
    name, module = "flash_attn2", "flash_attn"


class FlashAttn3Package(FlashAttnPackage):
    """flash_attn_interface: FlashAttention-3."""
    name, module = "flash_attn3", "flash_attn_interface"


PEERS = {peer.name: peer for peer in (CuDNN, FlashAttention2, FlexAttention, FlashAttn2Package, FlashAttn3Package,
                                      FlexAttentionTuned)}
NOT_BY_DEFAULT = {FlexAttentionTuned.name}


class PeerError(ValueError):
    """A peer that was asked for is unknown or is not installed."""


def choose_peers(text=None, known=PEERS, not_by_default=NOT_BY_DEFAULT):
    """Returns the peers of a list such as "cudnn,flex", or all that are installed; and {name: reason} for those left
    out."""
    if text is None:
        reasons = {name: peer.missing() for name, peer in known.items() if name not in not_by_default}
        return [known[name] for name, reason in reasons.items() if not reason], {
            name: reason for name, reason in reasons.items() if reason}
    chosen = []
    for name in filter(None, text.split(",")):
        if name not in known:
            raise PeerError(f"expected peers of {', '.join(known)}, got '{name}'")
        reason = known[name].missing()
        if reason:
            raise PeerError(f"peer {name} is not there: {reason}")
        chosen.append(known[name])
    return list(dict.fromkeys(chosen)), {}


def cublas_contender(device, dtype, size=8192):
    """Returns a Contender that multiplies two random matrices, and the FLOPs of the product."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.float32).to(dtype) for _ in range(2))
    c = torch.empty_like(a)
    return Contender(lambda i: torch.mm(a, b, out=c), 1), 2.0 * size ** 3
