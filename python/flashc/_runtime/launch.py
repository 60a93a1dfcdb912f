"""Launches: the memory of arguments that C reads, their order in the manifest, and arrays for results."""
from __future__ import annotations

import ctypes
import json
import struct
from itertools import chain
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from .._arrays.array import CPU, Array, check_contiguous, check_device, check_memory, contiguous_strides, spoken
from .._arrays.cuda import synchronize
from .._arrays.overlap import overlaps_itself
from .._arrays.source import Source, described_array, plain_stream
from .._trace.code import Code
from . import contexts, library, plans
from .library import ArgumentError, UnsupportedTypeError
from .options import Options
from .specialization import Extents, naming_lines, sum_dtype

WORDS = ctypes.sizeof(library.Argument) // 8

Shape = Tuple[Sequence[int], Sequence[int]]  # Extents and strides.


class Frame:
    """The memory of a launch's arguments that C reads: first the structures, then extents and strides, then the
    message.

    A frame serves one call at a time. Each call writes all addresses."""
    __slots__ = ("memory", "words", "keep", "address", "message", "count", "numbers", "owner", "strides")

    def __init__(self, arguments: Sequence[Shape]) -> None:
        self.count = len(arguments)
        numbers = 2 * sum(len(extents) for extents, _ in arguments)
        self.numbers = f"{numbers}q"
        size = self.count * WORDS + numbers + 1
        self.memory = bytearray(size * 8)
        self.words = memoryview(self.memory).cast("q")
        self.keep = (ctypes.c_char * (size * 8)).from_buffer(self.memory)
        self.address = ctypes.addressof(self.keep)
        self.message = self.address + (size - 1) * 8
        #: `owner`: the arguments whose extents and strides the frame holds. `strides`: those of the result arrays that
        #: the caller passed, or None.
        self.owner: Any = None
        self.strides: Any = None
        offset = self.count * WORDS
        for base, (extents, _) in zip(range(0, offset, WORDS), arguments):
            self.words[base + 1] = len(extents)
            self.words[base + 2] = self.address + offset * 8
            offset += len(extents)
            self.words[base + 3] = self.address + offset * 8
            offset += len(extents)
        self.set_numbers(arguments)

    def set_numbers(self, arguments: Sequence[Shape]) -> None:
        """Writes the extents and strides of all arguments in order."""
        struct.pack_into(self.numbers, self.memory, 8 * WORDS * self.count,
                         *chain.from_iterable(chain.from_iterable(arguments)))

    def take_message(self) -> ctypes.c_void_p:
        """Returns the message of a failed launch, which the caller must free."""
        message = ctypes.c_void_p(self.words[len(self.words) - 1] & (2**64 - 1))
        self.words[len(self.words) - 1] = 0
        return message


class Launcher:
    """A kernel on one device, and the order of its arguments in its manifest. `frames` has the frames that are not in
    use. A call takes a frame and puts it back, so threads never share one."""
    __slots__ = ("loaded", "specialization", "device", "frames", "keys", "inputs", "captures", "outputs")

    def __init__(self, case: Any, specialization: Any, code: Code) -> None:
        """`case` is a Case of calls.py that the kernel serves."""
        def load(it: Any) -> contexts.LoadedKernel:
            kernel = case.compiled if case.compiled is not None and it is specialization else it.compile()
            self._order(json.loads(kernel.manifest())["arguments"], case, code)
            return kernel.load(case.device)
        self.specialization, self.device = specialization, case.device
        self.frames: List[Frame] = []
        self.loaded = naming_lines(specialization, code, load)

    def _order(self, arguments: Sequence[Any], case: Any, code: Code) -> None:
        """Finds each argument among the results, captures and inputs, and computes its place in a frame."""
        results = {result.name: result.key for result in case.results}
        self.keys = [results[it["name"]] if it["role"] == "output" and it["name"] in results else
                     case.aliases.get(it["name"], it["name"]) for it in arguments]
        places = {key: number * WORDS for number, key in enumerate(self.keys)}
        self.outputs = [places.pop(key) for key in results.values()]
        self.captures = [places.pop(capture.name) for capture in code.captures]
        self.inputs = list(places.items())

    def fail(self, status: int, frame: Frame, code: Code) -> None:
        """Raises the error of a status. On the CPU an index of the mask or the score may be out of range. In this case
        the program runs once more, compiled with the lines of the user's code, so that the error names the line."""
        located = self.specialization.located(code) if code.mask or code.score else self.specialization
        if self.device == CPU and located != self.specialization:
            library.take_text(frame.take_message())
            status = plans.launch(located.compile().load(self.device), frame, 0, None) or status
        library.fail(status, frame.take_message())


def canonical(x: Sequence[int], is_bshd: bool) -> Sequence[int]:
    """Returns extents or strides of 4 dimensions in the order B, H, N, D. Others are returned unchanged."""
    if not is_bshd or len(x) != 4:
        return x
    a, b, c, d = x
    return a, c, b, d


def shape_of(x: Array, is_bshd: bool) -> Shape:
    """Returns the extents and strides that a kernel gets. If the last dimension has one element, its stride has no
    meaning and becomes 1."""
    strides = x.strides if x.shape[-1] != 1 else (*x.strides[:-1], 1)
    return canonical(x.shape, is_bshd), canonical(strides, is_bshd)


def with_batch(x: Array) -> Array:
    """Returns an array without a batch as one with a batch of 1."""
    return x._replace(shape=(1, *x.shape), strides=(x.shape[0] * x.strides[0], *x.strides))


class Result(NamedTuple):
    """An array that a call writes."""
    #: `name` is used in the manifest, and `label` in messages.
    name: str
    label: str
    #: The input that decides the framework and the device of a new array.
    like: str
    shape: Tuple[int, ...]
    dtype: str
    #: Whether an array of four dimensions has the order B, N, H, D.
    is_bshd: bool = False
    #: Whether a new array is allocated with dimensions 1 and 2 exchanged, and returned as a transposed view.
    transposes: bool = False
    #: Whether the array has no batch. The kernel takes it with a batch of 1.
    is_packed: bool = False

    @property
    def key(self) -> str:
        """The key of the result among all arguments. It differs from the name, because an input may have the same
        name."""
        return f"={self.name}"

    @property
    def memory(self) -> Tuple[int, ...]:
        """The shape with which a new array is allocated."""
        if not self.transposes:
            return self.shape
        a, b, c, d = self.shape
        return a, c, b, d

    def new_shape(self) -> Shape:
        shape, memory = ((1, *x) if self.is_packed else x for x in (self.shape, self.memory))
        return canonical(shape, self.is_bshd), canonical(contiguous_strides(memory), self.is_bshd or self.transposes)

    def shape_of(self, x: Array) -> Shape:
        """Returns the extents and strides of the caller's array for the result."""
        return shape_of(with_batch(x) if self.is_packed else x, self.is_bshd)


def lies_exchanged(x: Array, is_bshd: bool, source: Source) -> bool:
    """Whether dimensions 1 and 2 of `x` are exchanged in memory. Then a result like it has them exchanged too."""
    _, b, c, _ = x.shape
    return not is_bshd and b > 1 and c > 1 and x.strides[1] < x.strides[2] and source.can_transpose


def attention_results(extents: Extents, options: Options, transposes: bool = False,
                      is_packed: bool = False) -> List[Result]:
    """Returns the results: o, and lse if `options` ask for it. `is_packed`: they have no batch."""
    heads, length, batch = extents.query_heads, extents.queries, () if is_packed else (extents.batch,)
    rows = (length, heads) if options.is_bshd else (heads, length)
    o = Result("o", "out", "q", (*batch, *rows, extents.value_dim), extents.dtype, options.is_bshd, transposes,
               is_packed)
    lse = Result("lse", "out[1] (lse)", "q", (*batch, heads, length), sum_dtype(extents.dtype), is_packed=is_packed)
    return [o, lse] if options.return_lse else [o]


def check_array(name: str, x: Array, shape: Sequence[int], dtype: str, order: str = "") -> None:
    """Refuses an array of another shape or element type. `order` names the dimensions in the message."""
    if tuple(x.shape) != tuple(shape):
        wanted = f"{order} = {list(shape)}" if order else str(tuple(shape))
        raise ArgumentError(f"expected {name} of shape {wanted}, got {tuple(x.shape)}")
    if x.dtype != dtype:
        raise UnsupportedTypeError(f"expected {name} of {spoken(dtype)}, got {spoken(x.dtype)}")


def read_result(result: Result, x: Any, device: int, stream: Optional[int]) -> Array:
    """Checks the caller's array for a result, waits for work that writes to it, and describes it."""
    name, array = result.label, described_array(result.label, x, stream)
    check_array(name, array, result.shape, result.dtype)
    check_device(name, array, device, result.like)
    if array.readonly:
        raise ArgumentError(f"expected {name} to be an array that can be written")
    check_memory(name, array)
    check_contiguous(name, array)
    if 0 not in array.shape:
        if overlaps_itself(array.shape, array.strides):
            raise ArgumentError(
                f"expected {name} with elements of its own everywhere, got strides {tuple(array.strides)}")
        wait_for(array, stream)
    return array


def wait_for(array: Array, stream: Optional[int]) -> None:
    """Waits for work that writes to the array, if that work is on another stream than the launch."""
    if array.stream is not None and stream is not None and plain_stream(array.stream) != stream:
        synchronize(plain_stream(array.stream))


def read_outs(out: Any, names: Sequence[str]) -> Sequence[Any]:
    """Returns the caller's arrays for results with these names; None stands for a new array."""
    if out is None:
        return (None,) * len(names)
    if not isinstance(out, (tuple, list)) or len(out) != len(names):
        raise ArgumentError(f"expected out to be ({', '.join(names)}), got " +
                            (f"{len(out)} arrays" if isinstance(out, (tuple, list)) else f"{type(out)!r}"))
    return out


def split_out(out: Any) -> List[Any]:
    """Returns the caller's arrays for o and lse; None stands for a new array."""
    if not isinstance(out, (tuple, list)):
        return [out, None]
    if len(out) != 2:
        raise ArgumentError(f"expected out to be o or (o, lse), got {len(out)} arrays")
    return list(out)
