"""Kernels: what one is compiled for, how it is compiled and loaded, and how arrays get to it."""
from __future__ import annotations

import ctypes
import json
import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _library
from ._array import CPU, Array, ArraySpec, Scratch, Source, _plain_stream, contiguous_strides, source_of, synchronize
from ._library import ANY, ArgumentError, UnsupportedTypeError
from ._trace import Capture, Code, Need, _View, device_name, trace

__all__ = ["Kernel", "Cost", "compile", "Specialization", "Launcher"]

GPU_TARGET, CPU_TARGET = "sm_90a", "cpu"
_NO_CODE = Code()


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

    def compile(self) -> _library.CompiledKernel:
        """The kernel, from memory, from disk or compiled."""
        if self.target != CPU_TARGET and self.dtype not in ("bf16", "f16"):
            raise UnsupportedTypeError(f"expected q, k and v of bf16 or f16 on a GPU, got {self.dtype}: Tensor Cores "
                                       "multiply 16-bit numbers; convert the arrays, or use arrays on the CPU")
        if self.dtype not in ("bf16", "f16", "f32"):
            raise UnsupportedTypeError(f"expected q, k and v of bf16, f16 or f32, got {self.dtype}")
        least, step = (1, 1) if self.dtype == "f32" else (8, 8)
        if any(dim < least or dim > 256 or dim % step for dim in (self.head_dim, self.value_dim)):
            what = "at most 256" if self.dtype == "f32" else "multiples of 8 from 8 to 256"
            raise ArgumentError(f"expected head dimensions D and Dv that are {what}, got {self.head_dim} and "
                                f"{self.value_dim}; zeros may fill them up")
        attention = _library.make_attention(
            dtype=self.dtype, head_dim=self.head_dim, value_dim=self.value_dim, group_size=self.group_size,
            scale=self.scale, mask=self.mask, window=self.window, mask_code=self.mask_code,
            score_code=self.score_code, captures=self.captures, extents=self.extents)
        return _library.context().compile_attention(attention, self.target, self.schedule)


# --- Options ----------------------------------------------------------------------------------------------------------

Window = Union[None, int, Sequence[Optional[int]]]


def parse_mask(causal: bool, window: Window) -> Tuple[int, Tuple[int, int]]:
    """FlashcMask and its window (left, right), of which a negative number is no bound."""
    if window is None:
        return (_library.MASK_CAUSAL, (-1, 0)) if causal else (_library.MASK_NONE, (-1, -1))
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
        value = -1 if value is None else value.__index__()
        # As far as any key can be.
        bounds.append(-1 if value < 0 or value >= 2**30 else value)
    if causal:
        bounds[1] = 0
    if bounds == [-1, -1]:
        return _library.MASK_NONE, (-1, -1)
    if bounds == [-1, 0]:
        return _library.MASK_CAUSAL, (-1, 0)
    return _library.MASK_WINDOW, (bounds[0], bounds[1])


def parse_scale(scale: Any, head_dim: int) -> float:
    """The scale as a number of 32 bits: 1 / sqrt(head_dim) for None."""
    if scale is None:
        if head_dim == 0:
            raise ArgumentError("expected a head dimension of at least 1, got 0")
        return 1.0 / math.sqrt(head_dim)
    try:
        value = float(scale)
    except (TypeError, ValueError):
        raise UnsupportedTypeError(f"expected scale to be a number or None, got {scale!r}") from None
    if not math.isfinite(value) or abs(value) > 3.4028234663852886e38:
        raise ArgumentError(f"expected a finite scale of 32 bits, got {value}")
    return value


def check_layout(layout: str) -> bool:
    """Whether the layout is "bshd"."""
    if layout not in ("bhsd", "bshd"):
        raise ArgumentError(f"expected layout 'bhsd' ([B, H, N, D]) or 'bshd' ([B, N, H, D]), got {layout!r}")
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


def check_inputs(q: Array, k: Array, v: Array, is_bshd: bool, enable_gqa: bool) -> Extents:
    """The extents, after all that can be said about q, k and v alone."""
    order = "[B, N, H, D]" if is_bshd else "[B, H, N, D]"
    for name, x in (("q", q), ("k", k), ("v", v)):
        if len(x.shape) != 4:
            raise ArgumentError(f"expected {name} of 4 dimensions {order}, got shape {tuple(x.shape)}")
    for name, x in (("k", k), ("v", v)):
        if x.dtype != q.dtype:
            raise UnsupportedTypeError(f"expected q, k and v of one element type, got q of {q.dtype} and {name} of "
                                       f"{x.dtype}")
        if x.device != q.device:
            raise ArgumentError(f"expected q, k and v on one device, got q on {device_name(q.device)} and {name} on "
                                f"{device_name(x.device)}")
    if q.dtype not in ("bf16", "f16", "f32"):
        raise UnsupportedTypeError(f"expected q, k and v of bf16, f16 or, on the CPU, f32; got {q.dtype}")
    if q.device != CPU and q.dtype == "f32":
        raise UnsupportedTypeError("expected q, k and v of bf16 or f16 on a GPU, got f32: Tensor Cores multiply 16-bit "
                                   "numbers; convert the arrays, or use arrays on the CPU")
    heads, length = (2, 1) if is_bshd else (1, 2)
    shapes = f"got q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)} in order {order}"
    for dim, what in ((0, "batch B"), (heads, "number of heads Hk"), (length, "length Nk")):
        if k.shape[dim] != v.shape[dim]:
            raise ArgumentError(f"expected k and v of one {what}, {shapes}")
    if q.shape[0] != k.shape[0]:
        raise ArgumentError(f"expected q and k of one batch B, {shapes}")
    if q.shape[3] != k.shape[3]:
        raise ArgumentError(f"expected q and k of one head dimension D, {shapes}")
    if q.shape[3] == 0 or v.shape[3] == 0:
        raise ArgumentError(f"expected head dimensions of at least 1, {shapes}")
    query_heads, key_heads = q.shape[heads], k.shape[heads]
    if query_heads != key_heads:
        if not enable_gqa:
            raise ArgumentError(f"expected as many heads in k and v as in q, unless enable_gqa=True, {shapes}")
        if key_heads == 0 or query_heads % key_heads:
            raise ArgumentError(f"expected the heads of q to be a multiple of those of k and v, {shapes}")
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.strides[3] != 1 and x.shape[3] != 1 and 0 not in x.shape:
            raise ArgumentError(f"expected the last dimension of {name} to be contiguous (stride 1), got stride "
                                f"{x.strides[3]}; make a contiguous copy")
    return Extents(q.shape[0], query_heads, key_heads, q.shape[length], k.shape[length], q.shape[3], v.shape[3])


def read_mask(mask: Any, extents: Extents, device: Optional[int], stream: Optional[int]) -> Array:
    """A boolean or real array as one of 4 dimensions, each 1 or that of [B, Hq, Nq, Nk]."""
    if hasattr(mask, "is_neg") and mask.is_neg():
        mask = mask.resolve_neg()
    array = source_of(mask).describe(mask, stream)
    if array.dtype not in ("i1", "bf16", "f16", "f32"):
        raise UnsupportedTypeError(f"expected a mask of bool (true: takes part) or of bf16, f16 or f32 (added to the "
                                   f"score), got {array.dtype}")
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
    if mask is None or callable(mask):
        return trace(mask, score, device=device, stream=stream)
    array = read_mask(mask, extents, device, stream)
    if score is not None:
        return trace(None, score, device=device, stream=stream, mask_array=array)
    view = _View.of(array)
    code = _mask_codes.get((view, array.dtype))
    if code is None:
        code = trace(None, None, mask_array=array)._replace(bound=(), arrays=(), needs=())
        _mask_codes[view, array.dtype] = code
    return code._replace(bound=(view.bind(array),), arrays=(array,))


# --- Launching --------------------------------------------------------------------------------------------------------

_WORDS = ctypes.sizeof(_library.Argument) // 8
_launch = _library.lib.flashcLoadedKernelLaunch


class _Frame:
    """The arguments of one launch, in the memory that C reads: structures, then extents and strides, then the message.

    A frame serves one call at a time. Its extents and strides are those of `signature`; addresses are always fresh.
    """
    __slots__ = ("memory", "words", "keep", "address", "message", "count", "signature", "o_shape", "lse_shape",
                 "transposes")

    def __init__(self, ranks: Sequence[int]) -> None:
        self.count = len(ranks)
        size = self.count * _WORDS + 2 * sum(ranks) + 1
        self.memory = bytearray(size * 8)
        self.words = memoryview(self.memory).cast("q")
        self.keep = (ctypes.c_char * (size * 8)).from_buffer(self.memory)
        self.address = ctypes.addressof(self.keep)
        self.message = self.address + (size - 1) * 8
        self.signature: Any = None
        offset = self.count * _WORDS
        for number, rank in enumerate(ranks):
            base = number * _WORDS
            self.words[base + 1] = rank
            self.words[base + 2] = self.address + offset * 8
            self.words[base + 3] = self.address + (offset + rank) * 8
            offset += 2 * rank

    def set_numbers(self, numbers: Sequence[int]) -> None:
        """Extents and strides of all arguments, in order."""
        start = self.count * _WORDS
        self.words[start:start + len(numbers)] = memoryview((ctypes.c_int64 * len(numbers))(*numbers)).cast("B") \
            .cast("q")

    def fail(self, status: int) -> None:
        message = ctypes.c_void_p(self.words[len(self.words) - 1] & (2**64 - 1))
        self.words[len(self.words) - 1] = 0
        _library.fail(status, message)


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


class Launcher:
    """A kernel on one device, for arrays of one layout."""
    __slots__ = ("kernel", "loaded", "pointer", "is_bshd", "frames", "captures", "ranks", "device")

    def __init__(self, kernel: _library.CompiledKernel, captures: Sequence[Capture], device: int,
                 is_bshd: bool) -> None:
        self.kernel = kernel
        self.loaded = kernel.load(device)
        self.pointer = self.loaded.handle.ptr
        self.device = device
        self.is_bshd = is_bshd
        self.captures = len(captures)
        self.ranks = [4, 4, 4] + [len(capture.shape) for capture in captures] + [4, 3]
        # Frames that no call uses. A call takes one and puts it back, so threads never share one.
        self.frames: List[_Frame] = []

    def __call__(self, source: Source, like: Any, q: Array, k: Array, v: Array, enable_gqa: bool, code: Code,
                 stream: int, out: Any, return_lse: bool) -> Any:
        """Launches on arrays that have elements; returns o, or (o, lse)."""
        bound = code.bound
        if out is None and not bound:
            signature = (source, q.shape, q.strides, k.shape, k.strides, v.shape, v.strides, enable_gqa)
            results = None
        else:
            results = None if out is None else read_out(out, return_lse, source, like, q, k, v, self.is_bshd, stream)
            signature = (source, q.shape, q.strides, k.shape, k.strides, v.shape, v.strides, enable_gqa,
                         tuple([one[1:3] for one in bound]),
                         None if results is None else (results[1].strides, results[3].strides))
        try:
            frame = self.frames.pop()
        except IndexError:
            frame = _Frame(self.ranks)
        if frame.signature != signature:
            frame.signature = None
            self._prepare(frame, q, k, v, enable_gqa, bound, results, source)
            frame.signature = signature
        if results is None:
            o = source.empty(like, frame.o_shape, q.dtype)
            lse = source.empty(like, frame.lse_shape, "f32")
            o_address, lse_address = source.address(o), source.address(lse)
            if frame.transposes:
                o = source.transpose(o)
        else:
            o, o_array, lse, lse_array = results
            o_address, lse_address = o_array.address, lse_array.address
        if code.needs:
            code.check(_positions(q, k, self.is_bshd))
        words = frame.words
        words[0], words[_WORDS], words[2 * _WORDS] = q.address, k.address, v.address
        slot = 3 * _WORDS
        for one in bound:
            words[slot], words[slot + 4] = one.address, _signed(one.scalar)
            slot += _WORDS
        words[slot], words[slot + _WORDS] = o_address, lse_address
        status = _launch(self.pointer, frame.address, frame.count, stream, frame.message)
        if status:
            frame.fail(status)
        self.frames.append(frame)
        return (o, lse) if return_lse else o

    def _prepare(self, frame: _Frame, q: Array, k: Array, v: Array, enable_gqa: bool, bound: Sequence[Any],
                 results: Any, source: Source) -> None:
        extents = check_inputs(q, k, v, self.is_bshd, enable_gqa)
        numbers: List[int] = []
        for x in (q, k, v):
            numbers += canonical(x.shape, self.is_bshd)
            numbers += canonical(unit_strides(x), self.is_bshd)
        for one in bound:
            numbers += one.extents
            numbers += one.strides
        batch, heads, length, dim = extents.batch, extents.query_heads, extents.queries, extents.value_dim
        numbers += (batch, heads, length, dim)
        frame.lse_shape = (batch, heads, length)
        frame.o_shape, frame.transposes = output_order(q, extents, self.is_bshd, source)
        if results is None:
            strides = contiguous_strides(frame.o_shape)
            # In memory [B, N, H, Dv]: because the layout says so, or because q is so under its strides.
            numbers += canonical(strides, self.is_bshd or frame.transposes)
            numbers += (batch, heads, length) + contiguous_strides(frame.lse_shape)
        else:
            numbers += canonical(unit_strides(results[1]), self.is_bshd)
            numbers += (batch, heads, length) + tuple(unit_strides(results[3]))
        frame.set_numbers(numbers)


def canonical(x: Sequence[int], is_bshd: bool) -> Tuple[int, int, int, int]:
    """Extents or strides in the order B, H, N, D."""
    a, b, c, d = x
    return (a, c, b, d) if is_bshd else (a, b, c, d)


def unit_strides(x: Array) -> Tuple[int, ...]:
    """The strides, with 1 for a last dimension of one element, whose stride means nothing."""
    return tuple(x.strides[:-1]) + (1 if x.shape[-1] == 1 else x.strides[-1],)


def _positions(q: Array, k: Array, is_bshd: bool) -> Tuple[int, int, int, int]:
    heads, length = (2, 1) if is_bshd else (1, 2)
    return q.shape[0], q.shape[heads], q.shape[length], k.shape[length]


def output_order(q: Array, extents: Extents, is_bshd: bool, source: Source) -> Tuple[Tuple[int, ...], bool]:
    """The shape to allocate o with, and whether its dimensions 1 and 2 are exchanged then: o lies in memory as q."""
    batch, heads, length, dim = extents.batch, extents.query_heads, extents.queries, extents.value_dim
    if is_bshd:
        return (batch, length, heads, dim), False
    if heads > 1 and length > 1 and q.strides[1] < q.strides[2] and source.can_transpose:
        return (batch, length, heads, dim), True
    return (batch, heads, length, dim), False


def read_out(out: Any, return_lse: bool, source: Source, like: Any, q: Array, k: Array, v: Array, is_bshd: bool,
             stream: Optional[int]) -> Tuple[Any, Array, Any, Array]:
    """The caller's arrays for o and lse, checked; lse is allocated if it is not given."""
    o, lse = out if isinstance(out, (tuple, list)) else (out, None)
    extents = Extents(*_positions(q, k, is_bshd)[:2], 0, *_positions(q, k, is_bshd)[2:], q.shape[3], v.shape[3])
    batch, heads, length = extents.batch, extents.query_heads, extents.queries
    shape = (batch, length, heads, extents.value_dim) if is_bshd else (batch, heads, length, extents.value_dim)
    o_array = _read_result("out", o, shape, q.dtype, q, stream)
    for name, x in (("q", q), ("k", k), ("v", v)):
        if o_array.address == x.address and 0 not in shape:
            raise ArgumentError(f"expected out to be apart from {name}, which is still read while out is written")
    if lse is None:
        return (o, o_array, *_allocate_lse(o, source, like, (batch, heads, length), q.device, return_lse, stream))
    return o, o_array, lse, _read_result("out[1] (lse)", lse, (batch, heads, length), "f32", q, stream)


def _allocate_lse(o: Any, source: Source, like: Any, shape: Tuple[int, ...], device: int, return_lse: bool,
                  stream: Optional[int]) -> Tuple[Any, Array]:
    """An array for lse from the framework of o, or else of q. One that nobody will see may also be plain memory."""
    for owner, x in ((source_of(o), o), (source, like)):
        try:
            lse = owner.empty(x, shape, "f32")
        except ArgumentError:
            continue
        return lse, owner.describe(lse, stream)
    if return_lse:
        raise ArgumentError(f"expected out=(o, lse): neither the framework of out nor that of q can allocate, got "
                            f"{Source.describe_type(o)} and {Source.describe_type(like)}")
    size = 4 * math.prod(shape)
    memory: Any = None
    if size:
        memory = ctypes.create_string_buffer(size) if device == CPU else Scratch(device, size, stream or 0)
    address = 0 if memory is None else ctypes.addressof(memory) if device == CPU else memory.address
    return None, Array(address, shape, contiguous_strides(shape), "f32", device, memory)


def _read_result(name: str, x: Any, shape: Tuple[int, ...], dtype: str, q: Array, stream: Optional[int]) -> Array:
    array = source_of(x).describe(x, stream)
    if tuple(array.shape) != shape:
        raise ArgumentError(f"expected {name} of shape {shape}, got {tuple(array.shape)}")
    if array.dtype != dtype:
        raise UnsupportedTypeError(f"expected {name} of {dtype}, got {array.dtype}")
    if array.device != q.device:
        raise ArgumentError(f"expected {name} on {device_name(q.device)}, where q is, got one on "
                            f"{device_name(array.device)}")
    if array.readonly:
        raise ArgumentError(f"expected {name} to be an array that can be written")
    if 0 in shape:
        return array
    if array.address == 0:
        raise ArgumentError(f"expected {name} with elements in memory, got an address of 0")
    if array.strides[-1] != 1 and shape[-1] > 1:
        raise ArgumentError(f"expected the last dimension of {name} to be contiguous (stride 1), got stride "
                            f"{array.strides[-1]}")
    if any(stride == 0 and extent > 1 for stride, extent in zip(array.strides, shape)):
        raise ArgumentError(f"expected {name} with elements of its own everywhere, got strides {tuple(array.strides)}")
    wait_for(array, stream)
    return array


def wait_for(array: Array, stream: Optional[int]) -> None:
    """Waits for what writes the array, if that is on another stream than the launch."""
    if array.stream is not None and stream is not None and _plain_stream(array.stream) != stream:
        synchronize(_plain_stream(array.stream))


def no_elements(source: Source, like: Any, q: Array, k: Array, v: Array, is_bshd: bool, enable_gqa: bool, out: Any,
                return_lse: bool, stream: Optional[int]) -> Any:
    """The attention of arrays of which one has no elements. With queries but no keys o is 0 and lse is -inf."""
    extents = check_inputs(q, k, v, is_bshd, enable_gqa)
    if out is None:
        shape, transposes = output_order(q, extents, is_bshd, source)
        o = source.empty(like, shape, q.dtype)
        lse = source.empty(like, (extents.batch, extents.query_heads, extents.queries), "f32")
        if transposes:
            o = source.transpose(o)
        owner = source
    else:
        o, _, lse, _ = read_out(out, return_lse, source, like, q, k, v, is_bshd, stream)
        owner = source_of(o)
    if extents.batch and extents.query_heads and extents.queries:
        owner.fill(o, 0.0)
        if lse is not None:
            source_of(lse).fill(lse, -math.inf)
    return (o, lse) if return_lse else o


# --- Kernel objects ---------------------------------------------------------------------------------------------------

class Cost:
    """Totals over one call, counted from the loops: tiles that a mask rules out cost nothing.

    Attributes:
        matmul_flops: of the two products; an addition or a multiplication each counts 1.
        other_flops: of everything else.
        bytes_read, bytes_written: between the device's memory and the chip.
    """
    __slots__ = ("matmul_flops", "other_flops", "bytes_read", "bytes_written")

    def __init__(self, matmul_flops: int, other_flops: int, bytes_read: int, bytes_written: int) -> None:
        self.matmul_flops, self.other_flops = matmul_flops, other_flops
        self.bytes_read, self.bytes_written = bytes_read, bytes_written

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cost) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Cost(" + ", ".join(f"{name}={getattr(self, name)}" for name in self.__slots__) + ")"


class Kernel:
    """A compiled attention. `flashc.compile` makes it; calling it launches it."""

    def __init__(self, specialization: Specialization, layout: str, code: Code, arrays: Sequence[Array],
                 enable_gqa: bool, can_launch: bool) -> None:
        self._specialization, self._layout, self._code = specialization, layout, code
        self._arrays, self._enable_gqa, self._can_launch = tuple(arrays), enable_gqa, can_launch
        self._compiled = specialization.compile()
        self._launchers: Dict[int, Launcher] = {}

    def __repr__(self) -> str:
        it = self._specialization
        return (f"<flashc.Kernel {it.dtype} D={it.head_dim} Dv={it.value_dim} group={it.group_size} for {it.target}"
                + (f", schedule {self.schedule}>" if self.schedule else ">"))

    @property
    def target(self) -> str:
        """The GPU architecture, such as "sm_90a", or "cpu"."""
        return self._specialization.target

    @property
    def ptx(self) -> str:
        """The kernel in PTX; empty for the CPU."""
        return self._compiled.ptx()

    @property
    def manifest(self) -> Dict[str, Any]:
        """How to launch the kernel (docs/manifest.md); a new dictionary at each access."""
        return json.loads(self._compiled.manifest() or "{}")

    @property
    def schedule(self) -> str:
        """The schedule, in the form that `schedule=` takes; empty for the CPU."""
        return self._compiled.schedule()

    @property
    def cost(self) -> Cost:
        """The cost of a call with the shapes that were given to `flashc.compile`."""
        q, k, v = self._arrays
        is_bshd = self._layout == "bshd"
        frame = _Frame([4, 4, 4] + [len(capture.shape) for capture in self._specialization.captures] + [4, 3])
        numbers: List[int] = []
        for x in (q, k, v):
            numbers += canonical(x.shape, is_bshd)
            numbers += canonical(contiguous_strides(x.shape), is_bshd)
        for one in self._code.bound:
            numbers += one.extents
            numbers += one.strides
        batch, heads, length, _ = _positions(q, k, is_bshd)
        for shape in ((batch, heads, length, v.shape[3]), (batch, heads, length)):
            numbers += shape
            numbers += contiguous_strides(shape)
        frame.set_numbers(numbers)
        cost = self._compiled.cost(ctypes.cast(frame.address, ctypes.POINTER(_library.Argument)), frame.count)
        return Cost(cost.matmul_flops, cost.other_flops, cost.bytes_read, cost.bytes_written)

    def ir(self, level: str) -> str:
        """The program at a level: "flash", "loops", and for a GPU "tile", "nvvm" or "llvm".

        Raises:
            flashc.Error: there is no such level, or not for this target.
        """
        return self._compiled.ir(level)

    def __call__(self, q: Any, k: Any, v: Any, *, return_lse: bool = False, out: Any = None) -> Any:
        """The attention of other arrays than those the kernel was compiled with; they may differ in batch, heads,
        lengths and strides unless it was compiled with `static_shapes=True`. The mask and the score read the arrays
        that they referred to at compilation.

        Args:
            q, k, v, return_lse, out: as for `flashc.attention`.
        """
        if not self._can_launch:
            raise ArgumentError("expected a kernel whose mask and score refer to arrays with elements, got one that "
                                "was compiled with ArraySpec for them")
        source = source_of(q)
        q_array = source.describe(q)
        stream = None if q_array.device == CPU else source.current_stream(q_array.device, q_array)
        k_array, v_array = source_of(k).describe(k, stream), source_of(v).describe(v, stream)
        is_bshd, it = self._layout == "bshd", self._specialization
        extents = check_inputs(q_array, k_array, v_array, is_bshd, self._enable_gqa)
        if (q_array.device == CPU) != (it.target == CPU_TARGET):
            raise ArgumentError(f"expected arrays for a kernel for {it.target}, got them on "
                                f"{device_name(q_array.device)}")
        for array in self._code.arrays:
            if array.device != q_array.device:
                raise ArgumentError(f"expected q on {device_name(array.device)}, where the arrays of the mask and the "
                                    f"score are, got it on {device_name(q_array.device)}")
        for what, have, want in (("element type", q_array.dtype, it.dtype), ("D", extents.head_dim, it.head_dim),
                                 ("Dv", extents.value_dim, it.value_dim)):
            if have != want:
                raise ArgumentError(f"expected arrays for a kernel of {what} {want}, got {have}")
        if 0 in q_array.shape or 0 in k_array.shape:
            return no_elements(source, q, q_array, k_array, v_array, is_bshd, self._enable_gqa, out, return_lse, stream)
        if not (q_array.address and k_array.address and v_array.address):
            raise ArgumentError("expected q, k and v with elements in memory, got an address of 0")
        if extents.query_heads != extents.key_heads * it.group_size:
            raise ArgumentError(f"expected arrays for a kernel of {it.group_size} query heads per key head, got "
                                f"{extents.query_heads} over {extents.key_heads}")
        for array in (k_array, v_array, *self._code.arrays):
            wait_for(array, stream)
        launcher = self._launchers.get(q_array.device)
        if launcher is None:
            launcher = self._launchers.setdefault(q_array.device,
                                                  Launcher(self._compiled, it.captures, q_array.device, is_bshd))
        return launcher(source, q, q_array, k_array, v_array, self._enable_gqa, self._code, stream or 0, out,
                        return_lse)


def compile(q: Any, k: Any, v: Any, *, causal: bool = False, window: Window = None, scale: Optional[float] = None,
            mask: Any = None, score: Any = None, enable_gqa: bool = False, layout: str = "bhsd",
            target: Optional[str] = None, schedule: Optional[str] = None, static_shapes: bool = False) -> Kernel:
    """Compiles an attention without running it; no GPU is needed.

    Args:
        q, k, v: arrays, or `flashc.ArraySpec(shape, dtype)`; of arrays with elements, the shapes and the element type
            matter. The kernel takes any batch, heads (in the same ratio), lengths and strides afterwards.
        causal, window, scale, mask, score, enable_gqa, layout, schedule, static_shapes: as for `flashc.attention`. A
            mask array may be an ArraySpec; then the kernel can be looked at, not called.
        target: "sm_90a", or "cpu" for this machine's processor. None: what suits the arrays; "sm_90a" for ArraySpec.

    Returns:
        A `flashc.Kernel`.

    Raises:
        flashc.CompileError: the compiler refuses, in its own words.
        flashc.ArgumentError, flashc.UnsupportedTypeError, flashc.TraceError: as for `flashc.attention`.
    """
    is_bshd = check_layout(layout)
    arrays = [source_of(x).describe(x) for x in (q, k, v)]
    specs = [isinstance(x, ArraySpec) for x in (q, k, v)]
    devices = {array.device for array, is_spec in zip(arrays, specs) if not is_spec}
    if len(devices) > 1:
        raise ArgumentError(f"expected q, k and v on one device, got {', '.join(map(device_name, sorted(devices)))}")
    device = devices.pop() if devices else None
    if target is None:
        target = CPU_TARGET if device == CPU else GPU_TARGET
    if device is None:
        device = CPU if target == CPU_TARGET else None
    # ArraySpec has no device, and a kernel for another device may be compiled from any arrays: it is not asked here.
    extents = check_inputs(*(array._replace(device=CPU) for array in arrays), is_bshd, enable_gqa)
    if extents.key_heads == 0:
        raise ArgumentError("expected at least one head, got none")
    code = make_code(mask, score, extents, None, None)
    if mask is not None and not callable(mask) and score is None:
        # The kernel may be called with other extents, which the mask's must reach.
        code = code._replace(needs=tuple(Need(dim, 1, array, dim) for array in code.arrays
                                         for dim, extent in enumerate(array.shape) if extent != 1))
    code.check((extents.batch, extents.query_heads, extents.queries, extents.keys))
    if static_shapes and 0 in extents:
        raise ArgumentError(f"expected extents of at least 1 for static_shapes=True, got {extents}")
    kind, bounds = parse_mask(causal, window)
    specialization = Specialization(
        arrays[0].dtype, extents.head_dim, extents.value_dim, extents.query_heads // extents.key_heads or 1,
        parse_scale(scale, extents.head_dim), kind, bounds, code.mask, code.score, code.captures,
        (extents.batch, extents.key_heads, extents.queries, extents.keys) if static_shapes else (ANY,) * 4, target,
        schedule)
    can_launch = all(array.address or not isinstance(array.owner, ArraySpec) for array in code.arrays)
    return Kernel(specialization, layout, code, arrays, enable_gqa, can_launch)
