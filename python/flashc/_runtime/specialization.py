"""What a kernel is compiled for: the arguments of flashc.attention, checked, as the compiler takes them."""
from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from .._arrays.array import CPU, Array, spoken
from .._arrays.source import source_of
from .._trace.captured import Capture, View
from .._trace.trace import Code, device_name, trace
from . import contexts, library
from .library import ArgumentError, CompileError, UnsupportedTypeError, described
from .plans import MaskPlan

GPU_TARGET, CPU_TARGET = "sm_90a", "cpu"
_NO_CODE = Code()
_GPU_DTYPES = "bf16", "f16"


class Specialization(NamedTuple):
    """All that a kernel depends on."""
    dtype: str
    head_dim: int
    value_dim: int
    group_size: int
    scale: float
    mask: int
    window: Tuple[int, int]
    mask_code: Optional[str]
    score_code: Optional[str]
    captures: Tuple[Capture, ...]
    #: B, Hk, Nq, Nk; ANY: given at launch.
    extents: Tuple[int, int, int, int]
    target: str
    schedule: Optional[str]
    #: Whether the log-sum-exp is an output; of the backward pass, whether its gradient is an input.
    has_lse: bool
    #: ATTENTION, COLUMN_SUMS, GROUP_COLUMN_SUMS, ATTENTION_BACKWARD or CAPTURED_GRADIENT.
    operation: int = library.ATTENTION
    #: Of the backward pass: every sum has one order.
    deterministic: bool = False
    #: Of attention and the backward pass: softmax has a column more, of the head's sink.
    has_sinks: bool = False
    #: Of attention and the backward pass: the rate; 0: no dropout.
    dropout_p: float = 0.0
    #: Of CAPTURED_GRADIENT: the number of the capture.
    captured: int = 0
    #: Of attention: k and v are caches, in pages of so many rows, or 0: without pages. None: they are no caches.
    page_size: Optional[int] = None
    #: Of caches of 8 bits: "f8e4m3" or "i8", and whether pages and key heads have scales of their own.
    cache_dtype: Optional[str] = None
    scales: Tuple[bool, bool] = (False, False)

    @property
    def ranks(self) -> List[int]:
        """Those of the kernel's arguments: inputs, captures, outputs (FlashcAttention in flashc.h)."""
        lse, sinks = [3] if self.has_lse else [], [1] if self.has_sinks else []
        vectors = [*sinks, *([1] if self.dropout_p else [])]
        if self.operation == library.ATTENTION:
            cache = [] if self.page_size is None else [1, 2] if self.page_size else [1]
            cache += [] if self.cache_dtype is None else [2, 2]
            inputs, outputs = [4, 4, 4, *cache, *vectors], [4, *lse]
        elif self.operation == library.ATTENTION_BACKWARD:
            inputs, outputs = [4, 4, 4, 4, 3, 4, *lse, *vectors], [4, 4, 4, *sinks]
        elif self.operation == library.CAPTURED_GRADIENT:
            inputs, outputs = [4, 4, 4, 4, 3, 4, *lse, *vectors], [len(self.captures[self.captured].shape)]
        else:
            inputs, outputs = [4, 4, 3], [3]
        return [*inputs, *(len(capture.shape) for capture in self.captures), *outputs]

    def describe(self) -> library.Attention:
        """The attention as the C API takes it."""
        if self.target != CPU_TARGET and self.dtype not in _GPU_DTYPES:
            raise UnsupportedTypeError(f"expected q, k and v of bf16 or f16 on a GPU, got {self.dtype}: Tensor Cores "
                                       "multiply 16-bit numbers; convert the arrays, or use arrays on the CPU")
        least, step = (8, 8) if self.dtype in _GPU_DTYPES else (1, 1)
        if any(dim < least or dim > 256 or dim % step for dim in (self.head_dim, self.value_dim)):
            what = "at most 256" if least == 1 else "multiples of 8 from 8 to 256"
            raise ArgumentError(f"expected head dimensions D and Dv that are {what}, got {self.head_dim} and "
                                f"{self.value_dim}; zeros may fill them up")
        return library.make_attention(
            dtype=self.dtype, head_dim=self.head_dim, value_dim=self.value_dim, group_size=self.group_size,
            scale=self.scale, mask=self.mask, window=self.window, mask_code=self.mask_code,
            score_code=self.score_code, captures=self.captures, extents=self.extents, has_lse=self.has_lse,
            operation=self.operation, deterministic=self.deterministic, has_sinks=self.has_sinks,
            dropout_p=self.dropout_p, captured=self.captured, page_size=self.page_size,
            cache_dtype=self.cache_dtype, scales=self.scales)

    def check_schedule(self) -> None:
        """Refuses a schedule that no kernel has, where nothing is launched."""
        if self.schedule is not None:
            self._replace(target=CPU_TARGET).compile()

    def compile(self, context: Optional[contexts.Context] = None, code: Code = _NO_CODE) -> contexts.CompiledKernel:
        """The kernel, from memory, from disk or compiled. `context`: None: that of this process. `code` is where a
        refusal finds the user's lines."""
        compiler = context or contexts.context()
        return self.naming_lines(code, lambda it: compiler.compile_attention(it.describe(), it.target, it.schedule))

    def naming_lines(self, code: Code, make: Callable[["Specialization"], Any]) -> Any:
        """What `make` makes of it. Where the compiler refuses that, it is asked again with the user's lines, to name
        them."""
        try:
            return make(self)
        except CompileError:
            if self.located(code) == self:
                raise
        return make(self.located(code))

    def located(self, code: Code) -> "Specialization":
        """The same with the user's lines in its code, which it has of `code`."""
        code = code.located()
        return self._replace(mask_code=code.mask, score_code=code.score) if code.mask or code.score else self


def sum_dtype(dtype: str) -> str:
    """That of the log-sum-exp and of column sums, where `dtype` is that of q."""
    return "f64" if dtype == "f64" else "f32"


# --- Options ----------------------------------------------------------------------------------------------------------

Window = Union[None, int, Sequence[Optional[int]]]


def parse_mask(causal: bool, window: Window) -> Tuple[int, Tuple[int, int]]:
    """FlashcMask and its window (left, right), of which a negative number is no bound."""
    if window is None:
        return (library.MASK_CAUSAL, (-1, 0)) if causal else (library.MASK_NONE, (-1, -1))
    if isinstance(window, (tuple, list)):
        if len(window) != 2:
            raise ArgumentError(f"expected window to be (left, right), got {window!r}")
        left, right = window
    else:
        left, right = window, 0
    bounds = []
    for side, value in (("left", left), ("right", right)):
        if value is not None and (isinstance(value, bool) or not hasattr(value, "__index__")):
            raise UnsupportedTypeError(f"expected the {side} side of window to be an integer or None, got {value!r}")
        try:
            value = -1 if value is None else value.__index__()
        except TypeError:  # An array has the method, but several numbers.
            raise UnsupportedTypeError(f"expected the {side} side of window to be an integer or None, got {value!r}") \
                from None
        # As far as any key can be.
        bounds.append(-1 if value < 0 or value >= 2**30 else value)
    if causal:
        bounds[1] = 0
    if bounds == [-1, -1]:
        return library.MASK_NONE, (-1, -1)
    if bounds == [-1, 0]:
        return library.MASK_CAUSAL, (-1, 0)
    return library.MASK_WINDOW, (bounds[0], bounds[1])


def parse_scale(scale: Any, head_dim: int) -> float:
    """The scale as a number of 32 bits: 1 / sqrt(head_dim) for None."""
    if scale is None:
        if head_dim == 0:
            raise ArgumentError("expected a head dimension of at least 1, got 0")
        return 1.0 / math.sqrt(head_dim)
    try:
        value = None if isinstance(scale, (str, bytes, bool)) else float(scale)
    except OverflowError:
        value = math.inf
    except (TypeError, ValueError):
        value = None
    if value is None:
        raise UnsupportedTypeError(f"expected scale to be a number or None, got {described(scale)}")
    if not math.isfinite(value) or abs(value) > 3.4028234663852886e38:
        raise ArgumentError(f"expected a finite scale of 32 bits, got {value}")
    return value


def check_layout(layout: str) -> bool:
    """Whether the layout is "bshd"."""
    if not isinstance(layout, str) or layout not in ("bhsd", "bshd"):
        raise ArgumentError(f"expected layout 'bhsd' ([B, H, N, D]) or 'bshd' ([B, N, H, D]), got {described(layout)}")
    return layout == "bshd"


# --- Checks -----------------------------------------------------------------------------------------------------------

class Extents(NamedTuple):
    """The extents of one attention."""
    batch: int
    query_heads: int
    key_heads: int
    queries: int
    keys: int
    head_dim: int
    value_dim: int
    #: The element type of q.
    dtype: str = ""


def check_inputs(q: Array, k: Array, v: Optional[Array], is_bshd: bool, enable_gqa: bool) -> Extents:
    """The extents, after all that can be said about q, k and v alone; or about q and k, where there is no v."""
    order = "[B, N, H, D]" if is_bshd else "[B, H, N, D]"
    others = [("k", k)] if v is None else [("k", k), ("v", v)]
    arrays = [("q", q), *others]
    names, keys = ("q and k", "k") if v is None else ("q, k and v", "k and v")
    for name, x in arrays:
        if len(x.shape) != 4:
            raise ArgumentError(f"expected {name} of 4 dimensions {order}, got shape {tuple(x.shape)}")
    for name, x in others:
        if x.dtype != q.dtype:
            raise UnsupportedTypeError(f"expected {names} of one element type, got q of {spoken(q.dtype)} and {name} of "
                                       f"{spoken(x.dtype)}")
        if x.device != q.device:
            raise ArgumentError(f"expected {names} on one device, got q on {device_name(q.device)} and {name} on "
                                f"{device_name(x.device)}")
    if q.dtype not in _GPU_DTYPES and q.dtype not in ("f32", "f64"):
        raise UnsupportedTypeError(f"expected {names} of bf16, f16 or, on the CPU, f32 or f64; got {spoken(q.dtype)}")
    if q.device != CPU and q.dtype not in _GPU_DTYPES:
        raise UnsupportedTypeError(f"expected {names} of bf16 or f16 on a GPU, got {spoken(q.dtype)}: Tensor Cores multiply "
                                   "16-bit numbers; convert the arrays, or use arrays on the CPU")
    heads, length = (2, 1) if is_bshd else (1, 2)
    shapes = "got " + ", ".join(f"{name} {tuple(x.shape)}" for name, x in arrays) + f" in order {order}"
    for dim, what in ((0, "batch B"), (heads, "number of heads Hk"), (length, "length Nk")):
        if v is not None and k.shape[dim] != v.shape[dim]:
            raise ArgumentError(f"expected k and v of one {what}, {shapes}")
    if q.shape[0] != k.shape[0]:
        raise ArgumentError(f"expected q and k of one batch B, {shapes}")
    if q.shape[3] != k.shape[3]:
        raise ArgumentError(f"expected q and k of one head dimension D, {shapes}")
    if any(x.shape[3] == 0 for _, x in arrays):
        raise ArgumentError(f"expected head dimensions of at least 1, {shapes}")
    query_heads, key_heads = q.shape[heads], k.shape[heads]
    if query_heads != key_heads:
        if not enable_gqa:
            raise ArgumentError(f"expected as many heads in {keys} as in q, unless enable_gqa=True, {shapes}")
        if key_heads == 0 or query_heads % key_heads:
            what = "that of k" if v is None else "those of k and v"
            raise ArgumentError(f"expected the heads of q to be a multiple of {what}, {shapes}")
    for name, x in arrays:
        if x.strides[3] != 1 and x.shape[3] != 1 and 0 not in x.shape:
            raise ArgumentError(f"expected the last dimension of {name} to be contiguous (stride 1), got stride "
                                f"{x.strides[3]}; make a contiguous copy")
    return Extents(q.shape[0], query_heads, key_heads, q.shape[length], k.shape[length], q.shape[3],
                   q.shape[3] if v is None else v.shape[3], q.dtype)


def target_of(device: int) -> str:
    """The target of kernels for arrays on a device."""
    return CPU_TARGET if device == CPU else GPU_TARGET


def specialize(q: Array, extents: Extents, causal: bool, window: Window, scale: Any, code: Code, target: str,
               schedule: Optional[str], is_static: bool, has_lse: bool,
               operation: int = library.ATTENTION, deterministic: bool = False,
               has_sinks: bool = False, dropout_p: float = 0.0) -> Specialization:
    """What the kernel of a call is compiled for. `is_static`: for these extents alone."""
    kind, bounds = parse_mask(causal, window)
    group = extents.query_heads // max(extents.key_heads, 1) or 1
    fixed = (extents.batch, extents.key_heads, extents.queries, extents.keys) if is_static else (library.ANY,) * 4
    return Specialization(q.dtype, extents.head_dim, extents.value_dim, group, parse_scale(scale, extents.head_dim),
                          kind, bounds, code.mask, code.score, code.captures, fixed, target, schedule, has_lse,
                          operation, deterministic, has_sinks, dropout_p)


def read_mask(mask: Any, extents: Extents, device: Optional[int], stream: Optional[int]) -> Array:
    """A boolean or real array as one of 4 dimensions, each 1 or that of [B, Hq, Nq, Nk]."""
    if hasattr(mask, "is_neg") and mask.is_neg():
        mask = mask.resolve_neg()
    array = source_of(mask).describe(mask, stream)
    if array.dtype not in ("i1", "bf16", "f16", "f32", "f64"):
        raise UnsupportedTypeError(f"expected a mask of bool (true: takes part) or of bf16, f16, f32 or f64 (added to the "
                                   f"score), got {spoken(array.dtype)}")
    if device is not None and array.device != device:
        raise ArgumentError(f"expected the mask on {device_name(device)}, where q is, got one on "
                            f"{device_name(array.device)}")
    whole = (extents.batch, extents.query_heads, extents.queries, extents.keys)
    if device is not None and array.address == 0 and 0 not in array.shape:
        raise ArgumentError("expected a mask with elements in memory, got an address of 0; ArraySpec is for "
                            "flashc.compile")
    missing = 4 - len(array.shape)
    shape = (1,) * missing + tuple(array.shape)
    if missing < 0 or any(have not in (1, want) for have, want in zip(shape, whole)):
        raise ArgumentError(f"expected a mask that broadcasts to [B, Hq, Nq, Nk] = {list(whole)}, got shape "
                            f"{tuple(array.shape)}")
    return array._replace(shape=shape, strides=(0,) * missing + tuple(array.strides))


# The code of a mask array alone, by the way the array is passed.
_mask_codes: Dict[Any, Code] = {}


def make_code(mask: Any, score: Any, extents: Extents, device: Optional[int], stream: Optional[int]) -> Code:
    """The code of the mask and the score, and what a launch passes for the arrays in it."""
    if mask is None and score is None:
        return _NO_CODE
    if isinstance(mask, MaskPlan):
        mask.check(extents.queries, extents.keys)
        return trace(mask.mask, score, device=device, stream=stream, is_double=extents.dtype == "f64")._replace(plan=mask)
    if mask is None or callable(mask):
        return trace(mask, score, device=device, stream=stream, is_double=extents.dtype == "f64")
    array = read_mask(mask, extents, device, stream)
    if score is not None:
        return trace(None, score, device=device, stream=stream, mask_array=array, is_double=extents.dtype == "f64")
    view = View.of(array)
    code = _mask_codes.get((view, array.dtype, extents.dtype == "f64"))
    if code is None:
        code = trace(None, None, mask_array=array, is_double=extents.dtype == "f64")._replace(
            bound=(), arrays=(), needs=(), trace_lines=None)
        _mask_codes[view, array.dtype, extents.dtype == "f64"] = code
    return code._replace(bound=(view.bind(array),), arrays=(array,))
