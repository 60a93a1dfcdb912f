"""`Specialization`, the key of a kernel, in the form that the compiler takes; and checks of attention's arrays."""
from __future__ import annotations

import ctypes
import functools
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from .._arrays.array import CPU, Array, check_contiguous, check_device, check_memory, device_name, spoken
from .._arrays.source import described_array
from .._trace.captured import Capture, View
from .._trace.repeated import code_of
from .._trace.code import Code
from .._trace.trace import trace
from . import contexts, library
from .library import ArgumentError, CompileError, UnsupportedTypeError
from .options import VECTORS, Options
from .plans import MaskPlan, TracedPlan

GPU_TARGET, CPU_TARGET = "sm_90a", "cpu"
NO_CODE = Code()
_GPU_DTYPES = "bf16", "f16"


class Specialization(NamedTuple):
    """All values that a kernel depends on."""
    dtype: str
    head_dim: int
    value_dim: int
    group_size: int = 1
    #: The options on which the kernel depends (`Options.of_kernel`).
    options: Options = Options()
    target: str = GPU_TARGET
    mask_code: Optional[str] = None
    score_code: Optional[str] = None
    captures: Tuple[Capture, ...] = ()
    #: B, Hk, Nq, Nk; ANY: given at launch.
    extents: Tuple[int, int, int, int] = (library.ANY,) * 4
    #: Which operands of VECTORS are given.
    vectors: Tuple[str, ...] = ()
    #: The number of the capture whose gradient is computed, for CAPTURED_GRADIENT.
    captured: int = 0
    #: The rows of a page, if k and v are caches with pages; 0 for caches without pages. None: k and v are no caches.
    page_size: Optional[int] = None
    #: `cache_dtype`: the element type of caches of 8 bits, "f8e4m3" or "i8". `scales`: whether each page has a scale of
    #: its own, and whether each key head has.
    cache_dtype: Optional[str] = None
    scales: Tuple[bool, bool] = (False, False)
    #: Whether the sequences of a cache have queries of different numbers, by offsets.
    is_packed: bool = False

    def describe(self) -> library.Attention:
        """Returns the structure for the C API, which keeps the memory that it points to."""
        self._check()
        kind, (left, right) = self.options.mask()
        batch, key_heads, queries, keys = self.extents
        captures = (library.Capture * max(len(self.captures), 1))()
        for slot, (name, element, shape) in zip(captures, self.captures):
            slot.name, slot.dtype, slot.rank = name.encode(), library.DTYPES[element], len(shape)
            slot.extents = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        named = [*(VECTORS[name].option for name in self.vectors), "packed_queries" if self.is_packed else None]
        return library.Attention(
            dtype=library.DTYPES[self.dtype], head_dim=self.head_dim, value_dim=self.value_dim,
            group_size=self.group_size, scale=self.options.scale, mask=kind, window_left=left, window_right=right,
            mask_code=None if self.mask_code is None else self.mask_code.encode(),
            score_code=None if self.score_code is None else self.score_code.encode(), captures=captures,
            num_captures=len(self.captures), batch=batch, key_heads=key_heads, queries=queries, keys=keys,
            omit_lse=not self.options.return_lse, operation=self.options.operation, captured=self.captured,
            cache=self.page_size is not None, page_size=self.page_size or 0,
            cache_type=library.CACHE_TYPES[self.cache_dtype], page_scales=self.scales[0], head_scales=self.scales[1],
            options=",".join([*filter(None, named), *self.options.named()]).encode())

    def _check(self) -> None:
        if self.target != CPU_TARGET and self.dtype not in _GPU_DTYPES:
            raise UnsupportedTypeError(f"expected q, k and v of bf16 or f16 on a GPU, got {self.dtype}: Tensor Cores "
                                       "multiply 16-bit numbers; convert the arrays, or use arrays on the CPU")
        least, step = (8, 8) if self.dtype in _GPU_DTYPES else (1, 1)
        if any(dim < least or dim > 256 or dim % step for dim in (self.head_dim, self.value_dim)):
            what = "at most 256" if least == 1 else "multiples of 8 from 8 to 256"
            raise ArgumentError(f"expected head dimensions D and Dv that are {what}, got {self.head_dim} and "
                                f"{self.value_dim}; zeros may fill them up")

    def check_schedule(self) -> None:
        """Refuses a schedule that no kernel has, in a call without a launch."""
        if self.options.schedule is not None:
            self._replace(target=CPU_TARGET).compile()

    def compile(self, context: Optional[contexts.Context] = None, code: Code = NO_CODE) -> contexts.CompiledKernel:
        """Returns the kernel, from memory, from disk or compiled. `context`: None: that of this process. `code` has the
        user's lines, for the compiler's diagnostics."""
        compiler = context or contexts.context()
        return naming_lines(self, code, lambda it: compiler.compile_attention(it.describe(), it.target,
                                                                              it.options.schedule))

    def of(self, code: Code) -> "Specialization":
        """Returns the specialization for a mask and a score."""
        return self._replace(mask_code=code.mask, score_code=code.score, captures=code.captures)

    def located(self, code: Code) -> "Specialization":
        """Returns the specialization with the user's lines in its code, traced again from `code`."""
        code = code.located()
        return self._replace(mask_code=code.mask, score_code=code.score) if code.mask or code.score else self


def naming_lines(it: Any, code: Code, make: Callable[[Any], Any]) -> Any:
    """Returns make(it), where `it` is a specialization. If the compiler refuses the code, calls `make` again for code
    with the user's lines, so that the compiler's diagnostics name these lines."""
    try:
        return make(it)
    except CompileError:
        located = it.located(code) if code.mask or code.score else it
        if located == it:
            raise
    return make(located)


def sum_dtype(dtype: str) -> str:
    """Returns the element type of log-sum-exps and column sums, for q of `dtype`."""
    return "f64" if dtype == "f64" else "f32"


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


def check_inputs(q: Array, k: Array, v: Optional[Array], is_bshd: bool, enable_gqa: bool,
                 shapes: Optional[str] = None) -> Extents:
    """Checks q, k and v, or q and k if v is None, and returns the extents. `shapes`: the text of messages about the
    shapes that the caller gave, if these are not the shapes of q, k and v."""
    order = "[B, N, H, D]" if is_bshd else "[B, H, N, D]"
    others = [("k", k)] if v is None else [("k", k), ("v", v)]
    arrays = [("q", q), *others]
    names, keys = ("q and k", "k") if v is None else ("q, k and v", "k and v")
    for name, x in arrays:
        if len(x.shape) != 4:
            raise ArgumentError(f"expected {name} of 4 dimensions {order}, got shape {tuple(x.shape)}")
    for name, x in others:
        if x.dtype != q.dtype:
            raise UnsupportedTypeError(
                f"expected {names} of one element type, got q of {spoken(q.dtype)} and {name} of "
                f"{spoken(x.dtype)}")
        if x.device != q.device:
            raise ArgumentError(f"expected {names} on one device, got q on {device_name(q.device)} and {name} on "
                                f"{device_name(x.device)}")
    if q.dtype not in _GPU_DTYPES and q.dtype not in ("f32", "f64"):
        raise UnsupportedTypeError(f"expected {names} of bf16, f16 or, on the CPU, f32 or f64; got {spoken(q.dtype)}")
    if q.device != CPU and q.dtype not in _GPU_DTYPES:
        raise UnsupportedTypeError(
            f"expected {names} of bf16 or f16 on a GPU, got {spoken(q.dtype)}: Tensor Cores multiply "
            "16-bit numbers; convert the arrays, or use arrays on the CPU")
    heads, length = (2, 1) if is_bshd else (1, 2)
    if shapes is None:
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
        check_contiguous(name, x)
    return Extents(q.shape[0], query_heads, key_heads, q.shape[length], k.shape[length], q.shape[3],
                   q.shape[3] if v is None else v.shape[3], q.dtype)


def target_of(device: int) -> str:
    """Returns the target of kernels for arrays on a device."""
    return CPU_TARGET if device == CPU else GPU_TARGET


def specialize(extents: Extents, options: Options, target: str, vectors: Tuple[str, ...] = ()) -> Specialization:
    """Returns the specialization of a call, still without its mask and score."""
    group = extents.query_heads // max(extents.key_heads, 1) or 1
    fixed = (extents.batch, extents.key_heads, extents.queries, extents.keys) if options.static_shapes else _ANY
    return _specialization(extents.dtype, (extents.head_dim, extents.value_dim), group, options, target, fixed, vectors)


_ANY = (library.ANY,) * 4


@functools.lru_cache(maxsize=1024)
def _specialization(dtype: str, depths: Tuple[int, int], group: int, options: Options, target: str,
                    extents: Tuple[int, int, int, int], vectors: Tuple[str, ...]) -> Specialization:
    """Returns the same object for equal arguments, since most calls have new shapes and an old specialization."""
    return Specialization(dtype, *depths, group, options.of_kernel(depths[0]), target, extents=extents, vectors=vectors)


def read_mask(mask: Any, extents: Extents, device: Optional[int], stream: Optional[int]) -> Array:
    """Describes a mask array of booleans or real numbers with 4 dimensions, each 1 or that of [B, Hq, Nq, Nk]."""
    if hasattr(mask, "is_neg") and mask.is_neg():
        mask = mask.resolve_neg()
    array = described_array("mask", mask, stream)
    if array.dtype not in ("i1", "bf16", "f16", "f32", "f64"):
        raise UnsupportedTypeError(
            f"expected a mask of bool (true: takes part) or of bf16, f16, f32 or f64 (added to the "
            f"score), got {spoken(array.dtype)}")
    if device is not None:
        check_device("the mask", array, device)
        check_memory("a mask", array)
    whole = (extents.batch, extents.query_heads, extents.queries, extents.keys)
    missing = 4 - len(array.shape)
    shape = (1,) * missing + tuple(array.shape)
    if missing < 0 or any(have not in (1, want) for have, want in zip(shape, whole)):
        raise ArgumentError(f"expected a mask that broadcasts to [B, Hq, Nq, Nk] = {list(whole)}, got shape "
                            f"{tuple(array.shape)}")
    return array._replace(shape=shape, strides=(0,) * missing + tuple(array.strides))


# The code of a mask array without a score, keyed by the array's view and element type, and by whether the call is in
# f64.
_mask_codes: Dict[Any, Code] = {}


def make_code(mask: Any, score: Any, extents: Extents, device: Optional[int], stream: Optional[int]) -> Code:
    """Returns the code of the mask and the score. It has the arguments of a launch for the arrays that they read."""
    if mask is None and score is None:
        return NO_CODE
    if isinstance(mask, TracedPlan):
        if score is None:
            return Code(*mask.code[:6], mask.plan, *mask.code[7:])
        mask = mask.plan
    if isinstance(mask, MaskPlan):
        mask.check(extents.queries, extents.keys)
        return code_of(mask.mask, score, device=device, stream=stream,
                       is_double=extents.dtype == "f64")._replace(plan=mask)
    if mask is None or callable(mask):
        return code_of(mask, score, device=device, stream=stream, is_double=extents.dtype == "f64")
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
