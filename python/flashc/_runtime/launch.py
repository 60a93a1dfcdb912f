"""How arrays get to a kernel: outputs, the structures that C reads, the call; and what needs no kernel."""
from __future__ import annotations

import ctypes
import math
from typing import Any, List, Optional, Sequence, Tuple

from .._arrays.array import CPU, ITEM_SIZE, Array, contiguous_strides, spoken
from .._arrays.cuda import Scratch, synchronize
from .._arrays.overlap import find_shared, overlaps_itself
from .._arrays.source import Source, plain_stream, source_of
from .._trace.trace import Code, device_name
from . import contexts, library, plans
from .library import ArgumentError, UnsupportedTypeError
from .specialization import Extents, Specialization, check_inputs, sum_dtype

_WORDS = ctypes.sizeof(library.Argument) // 8


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

    def take_message(self) -> ctypes.c_void_p:
        """That of a launch that failed, whose owner the caller becomes."""
        message = ctypes.c_void_p(self.words[len(self.words) - 1] & (2**64 - 1))
        self.words[len(self.words) - 1] = 0
        return message

    def fail(self, status: int) -> None:
        library.fail(status, self.take_message())


def fail_launch(status: int, frame: _Frame, specialization: Specialization, code: Code, device: int) -> None:
    """Raises what the status of a launch stands for. On the CPU, where it may be about an index of the mask or the
    score, the program runs once more with the user's lines in it, which it says."""
    located = specialization.located(code)
    if device == CPU and located != specialization:
        library.take_text(frame.take_message())
        status = plans.launch(located.compile().load(device), frame, 0, None) or status
    frame.fail(status)


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


class Launcher:
    """A kernel on one device, for arrays of one layout."""
    __slots__ = ("kernel", "loaded", "is_bshd", "frames", "specialization", "ranks", "has_lse", "device")

    def __init__(self, kernel: contexts.CompiledKernel, specialization: Specialization, device: int,
                 is_bshd: bool, code: Code) -> None:
        self.kernel = kernel
        self.loaded = specialization.naming_lines(
            code, lambda it: (kernel if it is specialization else it.compile()).load(device))
        self.device = device
        self.is_bshd = is_bshd
        self.specialization = specialization
        self.ranks = specialization.ranks
        self.has_lse = specialization.has_lse
        # Frames that no call uses. A call takes one and puts it back, so threads never share one.
        self.frames: List[_Frame] = []

    def __call__(self, source: Source, like: Any, q: Array, k: Array, v: Array, enable_gqa: bool, code: Code,
                 stream: int, out: Any, return_lse: bool) -> Any:
        """Launches on arrays that have elements; returns o, or (o, lse), which takes a kernel that has lse."""
        bound = code.bound
        if out is None and not bound:
            signature = (source, q.shape, q.strides, k.shape, k.strides, v.shape, v.strides, enable_gqa)
            results = None
        else:
            results = None if out is None else read_out(out, self.has_lse, return_lse, source, like, q, k, v,
                                                        self.is_bshd, stream, code.arrays)
            signature = (source, q.shape, q.strides, k.shape, k.strides, v.shape, v.strides, enable_gqa,
                         tuple([one[1:3] for one in bound]),
                         None if results is None else [x.strides for x in results[1::2] if x is not None])
        try:
            frame = self.frames.pop()
        except IndexError:
            frame = _Frame(self.ranks)
        if frame.signature != signature:
            frame.signature = None
            self._prepare(frame, q, k, v, enable_gqa, bound, results, source)
            frame.signature = signature
        if results is None:
            o, lse, lse_address = source.empty(like, frame.o_shape, q.dtype), None, 0
            o_address = source.address(o)
            if self.has_lse:
                lse = source.empty(like, frame.lse_shape, sum_dtype(q.dtype))
                lse_address = source.address(lse)
            if frame.transposes:
                o = source.transpose(o)
        else:
            o, o_array, lse, lse_array = results
            o_address, lse_address = o_array.address, 0 if lse_array is None else lse_array.address
        if code.needs:
            code.check(_positions(q, k, self.is_bshd))
        words = frame.words
        words[0], words[_WORDS], words[2 * _WORDS] = q.address, k.address, v.address
        slot = 3 * _WORDS
        for one in bound:
            words[slot], words[slot + 4] = one.address, _signed(one.scalar)
            slot += _WORDS
        words[slot] = o_address
        if self.has_lse:
            words[slot + _WORDS] = lse_address
        status = plans.launch(self.loaded, frame, stream, code.plan)
        if status:
            fail_launch(status, frame, self.specialization, code, self.device)
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
        frame.o_shape, frame.transposes = output_order(q, dim, self.is_bshd, source)
        if results is None:
            strides = contiguous_strides(frame.o_shape)
            # In memory [B, N, H, Dv]: because the layout says so, or because q is so under its strides.
            numbers += canonical(strides, self.is_bshd or frame.transposes)
        else:
            numbers += canonical(unit_strides(results[1]), self.is_bshd)
        if self.has_lse:
            numbers += frame.lse_shape
            numbers += contiguous_strides(frame.lse_shape) if results is None else unit_strides(results[3])
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


def output_order(x: Array, depth: int, is_bshd: bool, source: Source) -> Tuple[Tuple[int, ...], bool]:
    """The shape to allocate a result of as many rows as `x` with, each of `depth` elements, and whether its dimensions 1
    and 2 are exchanged then: it lies in memory as `x`."""
    a, b, c, _ = x.shape
    if not is_bshd and b > 1 and c > 1 and x.strides[1] < x.strides[2] and source.can_transpose:
        return (a, c, b, depth), True
    return (a, b, c, depth), False


def gives_lse(out: Any) -> bool:
    """Whether `out` has a place for the log-sum-exp, which asks for it as return_lse=True does."""
    if not isinstance(out, (tuple, list)):
        return False
    if len(out) != 2:
        raise ArgumentError(f"expected out to be o or (o, lse), got {len(out)} arrays")
    return out[1] is not None


def read_out(out: Any, has_lse: bool, return_lse: bool, source: Source, like: Any, q: Array, k: Array, v: Array,
             is_bshd: bool, stream: Optional[int],
             captured: Sequence[Array] = ()) -> Tuple[Any, Array, Any, Optional[Array]]:
    """The caller's arrays for o and lse, checked. With `has_lse`, lse is allocated if it is not given; without, there
    is none. `captured`: the arrays that the mask and the score read."""
    o, lse = out if isinstance(out, (tuple, list)) else (out, None)
    extents = Extents(*_positions(q, k, is_bshd)[:2], 0, *_positions(q, k, is_bshd)[2:], q.shape[3], v.shape[3])
    batch, heads, length = extents.batch, extents.query_heads, extents.queries
    shape = (batch, length, heads, extents.value_dim) if is_bshd else (batch, heads, length, extents.value_dim)
    o_array = _read_result("out", o, shape, q.dtype, q, stream)
    inputs = (q, k, v, *captured)
    if not has_lse or lse is None:
        _check_apart(o_array, None, inputs)
        if not has_lse:
            return o, o_array, None, None
        return (o, o_array, *_allocate_lse(o, source, like, (batch, heads, length), q, return_lse, stream))
    lse_array = _read_result("out[1] (lse)", lse, (batch, heads, length), sum_dtype(q.dtype), q, stream)
    _check_apart(o_array, lse_array, inputs)
    return o, o_array, lse, lse_array


def _check_apart(o: Array, lse: Optional[Array], inputs: Sequence[Array]) -> None:
    """`inputs`: q, k, v, and what the mask and the score read."""
    shared = find_shared(o, lse, inputs)
    if shared is not None:
        number, place = shared
        name = ("out", "out[1] (lse)")[number]
        what = "out[0]" if place >= len(inputs) else ("q", "k", "v")[place] if place < 3 else \
            "an array that the mask or the score reads"
        raise ArgumentError(f"expected {name} to be apart from {what}, which is still in use while {name} is written, "
                            "got arrays that share memory")


def _allocate_lse(o: Any, source: Source, like: Any, shape: Tuple[int, ...], q: Array, return_lse: bool,
                  stream: Optional[int]) -> Tuple[Any, Array]:
    """An array for lse from the framework of o, or else of q. One that nobody will see may also be plain memory."""
    dtype, device = sum_dtype(q.dtype), q.device
    for owner, x in ((source_of(o), o), (source, like)):
        try:
            lse = owner.empty(x, shape, dtype)
        except ArgumentError:
            continue
        return lse, owner.describe(lse, stream)
    if return_lse:
        raise ArgumentError(f"expected out=(o, lse): neither the framework of out nor that of q can allocate, got "
                            f"{Source.describe_type(o)} and {Source.describe_type(like)}")
    size = ITEM_SIZE[dtype] * math.prod(shape)
    memory: Any = None
    if size:
        memory = ctypes.create_string_buffer(size) if device == CPU else Scratch(device, size, stream or 0)
    address = 0 if memory is None else ctypes.addressof(memory) if device == CPU else memory.address
    return None, Array(address, shape, contiguous_strides(shape), dtype, device, memory)


def _read_result(name: str, x: Any, shape: Tuple[int, ...], dtype: str, q: Array, stream: Optional[int]) -> Array:
    array = source_of(x).describe(x, stream)
    if tuple(array.shape) != shape:
        raise ArgumentError(f"expected {name} of shape {shape}, got {tuple(array.shape)}")
    if array.dtype != dtype:
        raise UnsupportedTypeError(f"expected {name} of {spoken(dtype)}, got {spoken(array.dtype)}")
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
    if overlaps_itself(array.shape, array.strides):
        raise ArgumentError(f"expected {name} with elements of its own everywhere, got strides {tuple(array.strides)}")
    wait_for(array, stream)
    return array


def wait_for(array: Array, stream: Optional[int]) -> None:
    """Waits for what writes the array, if that is on another stream than the launch."""
    if array.stream is not None and stream is not None and plain_stream(array.stream) != stream:
        synchronize(plain_stream(array.stream))


def no_elements(source: Source, like: Any, q: Array, k: Array, v: Array, is_bshd: bool, enable_gqa: bool, out: Any,
                return_lse: bool, stream: Optional[int], sinks: Any = None) -> Any:
    """The attention of arrays of which one has no elements. With queries but no keys o is 0 and lse is -inf, or the
    head's sink."""
    extents = check_inputs(q, k, v, is_bshd, enable_gqa)
    if out is None:
        shape, transposes = output_order(q, extents.value_dim, is_bshd, source)
        o = source.empty(like, shape, q.dtype)
        lse_shape = extents.batch, extents.query_heads, extents.queries
        lse = source.empty(like, lse_shape, sum_dtype(q.dtype)) if return_lse else None
        if transposes:
            o = source.transpose(o)
        owner = source
    else:
        o, _, lse, _ = read_out(out, gives_lse(out) or return_lse, return_lse, source, like, q, k, v, is_bshd, stream)
        owner = source_of(o)
    if extents.batch and extents.query_heads and extents.queries:
        owner.fill(o, 0.0)
        if sinks is not None and tuple(sinks.shape) != (extents.query_heads,):
            raise ArgumentError(f"expected sinks of shape [Hq] = [{extents.query_heads}], got {tuple(sinks.shape)}")
        if lse is not None and sinks is not None:
            lse[...] = sinks[None, :, None]
        elif lse is not None:
            source_of(lse).fill(lse, -math.inf)
    return (o, lse) if return_lse else o
