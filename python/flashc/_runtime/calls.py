"""Calls: their inputs, the cases that calls with equal shapes share, results, and the launch."""
from __future__ import annotations

import copy
import ctypes
import math
import operator
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .._arrays.array import CPU, ITEM_SIZE, Array, check_contiguous, check_device, check_memory, contiguous_strides
from .._arrays.cuda import Scratch
from .._arrays.integers import narrowed
from .._arrays.overlap import find_shared
from .._arrays.source import Source, described_array, known_sources, named, source_of
from .._trace.code import Code
from . import contexts
from .launch import WORDS, Frame, Launcher, Result, Shape, check_array, read_result, shape_of, wait_for, with_batch
from .library import ArgumentError, Error, UnsupportedTypeError
from .plans import launch
from .specialization import NO_CODE, Extents, Specialization
from .vectors import as_floats

_shape_and_strides = operator.itemgetter(slice(1, 3))

READ_BY_CODE = "an array that the mask or the score reads"


def refuse_gradient(name: str, x: Any) -> None:
    """Raises an Error if `x` requires a gradient, which flashc would not compute."""
    if getattr(x, "requires_grad", False):
        raise Error(f"expected {name} without gradients, since flashc records none: call within torch.no_grad(), or "
                    "pass what its detach() returns")


def refuse_gradients(**owners: Any) -> None:
    """Raises an Error if PyTorch records gradients and one of `owners` requires one."""
    if records_gradients():
        for name, x in owners.items():
            refuse_gradient(name, x)


def records_gradients() -> bool:
    """Whether PyTorch records gradients."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.is_grad_enabled()


def is_graph(x: Any) -> bool:
    """Whether `x` is a tensor of a graph that PyTorch traces. Then the call must become the call of an op."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor) and is_noted(torch, x)


def is_noted(torch: Any, *tensors: Any) -> bool:
    """Computes is_graph for tensors. Returns False for PyTorch before 2.4, which has no custom ops."""
    if not hasattr(torch.library, "custom_op"):
        return False
    for x in tensors:
        if type(x) is not torch.Tensor and type(x) is not torch.nn.Parameter:
            return True
    return torch.compiler.is_compiling()


class Inputs:
    """The arrays of one call by name. The first array decides the device and the stream of the launch."""
    __slots__ = ("owners", "arrays", "sources", "device", "stream", "signature", "trained")

    def __init__(self, owners: Dict[str, Any], refuses: bool = True) -> None:
        """`refuses`: arrays that require a gradient are refused if PyTorch records gradients, and entries of `owners`
        that are None are left out. Otherwise None is no array, as any other object."""
        given: Dict[str, Any] = {}
        arrays: Dict[str, Array] = {}
        sources: Dict[str, Source] = {}
        device, stream, signature = None, None, []
        trained: Sequence[str] = ()
        for name, x in owners.items():
            if x is None and refuses:
                continue
            if getattr(x, "requires_grad", False):
                if refuses and records_gradients():
                    refuse_gradient(name, x)
                trained = (*trained, name)
            given[name] = x
            try:
                source = sources[name] = known_sources.get(type(x)) or source_of(x)
                array = arrays[name] = source.describe(x, stream)
            except Error as problem:
                raise named(name, problem) from None
            signature += (name, source, array[1:5])
            if device is None:
                device = array.device
                stream = None if device == CPU else source.current_stream(device, array)
            elif array.stream is not None:
                wait_for(array, stream)
        self.owners, self.arrays, self.sources, self.device, self.stream = given, arrays, sources, device, stream
        #: The names of arrays that require a gradient.
        self.trained = trained
        #: What the arrays add to the key of the call's case: all their properties except addresses.
        self.signature: List[Any] = signature

    def __getitem__(self, name: str) -> Array:
        try:
            return self.arrays[name]
        except KeyError:
            raise UnsupportedTypeError(f"expected {name} to be an array, got None") from None

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def with_batch(self, *names: str) -> "Inputs":
        """Returns the inputs, in which the arrays with these names have a batch of 1 instead of none."""
        other = copy.copy(self)
        other.arrays = {name: with_batch(x) if name in names else x for name, x in self.arrays.items()}
        return other

    def without(self, name: str) -> "Inputs":
        """Returns the inputs without the one called `name`."""
        other = copy.copy(self)
        for part in ("owners", "arrays", "sources"):
            setattr(other, part, {key: x for key, x in getattr(self, part).items() if key != name})
        other._sign()
        return other

    def _sign(self) -> None:
        """Computes the signature after an input was converted or removed."""
        self.signature = [it for name, x in self.arrays.items() for it in (name, self.sources[name], x[1:5])]

    def _convert(self, name: str, owner: Any) -> None:
        if owner is not self.owners[name]:
            self.owners[name], self.arrays[name] = owner, described_array(name, owner, self.stream)
            wait_for(self.arrays[name], self.stream)
            self._sign()

    def narrow(self, *names: str) -> None:
        """Converts the inputs with these names to int32, if they are given and have another integer type."""
        for name in names:
            if name in self.arrays and self.arrays[name].dtype != "i32":
                self._convert(name, narrowed(name, self.owners[name], self.arrays[name]))

    def widen(self, name: str, dtype: str) -> None:
        """Converts an input to `dtype`, f32 or f64, if it is given and has another float type."""
        if name in self.arrays:
            self._convert(name, as_floats(self.owners[name], self.arrays[name], dtype))

    def check(self, name: str, like: str, dtype: str, order: str, shape: Sequence[int]) -> None:
        """Refuses an array that does not have this shape and element type, or is not on the device of `like`."""
        check_array(name, self[name], shape, dtype, order)
        check_device(name, self[name], self[like].device, like)
        check_contiguous(name, self[name])

    def prepare_code(self, code: Code, records: Optional[bool] = None) -> None:
        """Waits for the arrays that the mask and the score read. If PyTorch records gradients, these arrays may not
        require one. `records` says whether PyTorch does; None asks PyTorch."""
        if records is None:
            records = bool(code.arrays) and records_gradients()
        for array in code.arrays:
            if records and getattr(array.owner, "requires_grad", False):
                refuse_gradient(READ_BY_CODE, array.owner)
            if array.stream is not None:
                wait_for(array, self.stream)

    def refuse_trained(self) -> None:
        """Refuses arrays that require a gradient."""
        for name in self.trained:
            refuse_gradient(name, self.owners[name])


class Case:
    """The results of the checks of a call. All calls with equal options, extents, strides and element types share
    them."""
    #: The extents, if the case is of an attention.
    extents: Any = None
    #: Whether an extent is 0. Then nothing is launched, and the results are those of attention without keys.
    is_empty = False
    #: The window (left, right) of the options, if the case is of a decoding.
    window: Tuple[int, int] = (-1, -1)
    #: {name in the manifest: name of the input}, where they differ.
    aliases: Dict[str, str] = {}
    #: The code of packed sequences without functions, and the names of the inputs that it reads, after the first call.
    packed: Optional[Tuple[Code, Sequence[str]]] = None
    #: The case of the same call with the log-sum-exp as a result, once it was asked for.
    with_lse: Optional["Case"] = None
    #: A function that completes the specialization when the mask and the score are known. None: it is complete.
    finish: Optional[Callable[[Specialization], Specialization]] = None
    #: The kernel, if it is compiled already.
    compiled: Optional[contexts.CompiledKernel] = None

    def __init__(self, inputs: Inputs, specialization: Any, results: Sequence[Result], is_bshd: bool = False) -> None:
        """`is_bshd` says that inputs of 4 dimensions are in the order B, N, H, D, while the kernel takes B, H, N, D."""
        self.specialization, self.results, self.device = specialization, results, inputs.device
        self.shapes = {name: shape_of(x, is_bshd) for name, x in inputs.arrays.items()}
        for result in results:
            self.shapes[result.key] = result.new_shape()
        self.launchers = _launchers
        # The kernel and the shapes of its arguments, keyed by the code of the mask and the score, and its arrays.
        self._ready: Dict[Any, Tuple[Launcher, List[Shape]]] = {}
        # The kernels, keyed by the code of the mask and the score. `resized` cases share them.
        self._kernels: Dict[Any, Launcher] = {}
        self._new = [(result.like, result.memory, result.dtype, result.transposes) for result in results]

    def prepare(self, code: Code) -> Tuple[Launcher, List[Shape]]:
        """Returns the loaded kernel for a mask and a score, and the shapes of its arguments. The kernel is compiled if
        no context and no cache has it."""
        launcher = self._kernels.get(code[:3])
        if launcher is None:
            launcher = self._kernels[code[:3]] = self._load(code)
        shapes = self.shapes
        if code.bound:
            shapes = {**shapes, **{it.name: one[1:3] for it, one in zip(code.captures, code.bound)}}
        return launcher, [shapes[key] for key in launcher.keys]

    def _load(self, code: Code) -> Launcher:
        specialization = self.specialization
        if self.finish is not None:
            specialization = self.finish(specialization.of(code))
        key = (specialization, *code[:3], self.device)
        launcher = self.launchers.get(key)
        if launcher is None:
            specialization = specialization if code is NO_CODE else specialization.of(code)
            # Several threads may get here together. The library compiles only once for them, and one of their launchers
            # is kept.
            launcher = self.launchers.setdefault(key, Launcher(self, specialization, code))
        return launcher

    def resized(self, extents: Extents, shapes: Dict[str, Shape]) -> "Case":
        """Returns the case of the same call with other extents, and with other shapes of the inputs named in `shapes`.
        The kernels, the results and everything else must be the same."""
        other = object.__new__(Case)
        other.__dict__.update(self.__dict__)  # copy.copy takes much longer.
        other.extents, other.shapes, other._ready = extents, {**self.shapes, **shapes}, {}
        return other

    def __call__(self, inputs: Inputs, code: Code = NO_CODE, outs: Sequence[Any] = (),
                 unseen: Sequence[str] = ()) -> List[Any]:
        """Launches the kernel. Returns the arrays that it writes, in the order of `results`. `outs` has the caller's
        arrays, or None for new ones. `unseen` has the names of results that the caller does not want."""
        has_outs = False
        for out in outs:
            has_outs = has_outs or out is not None
        if self.is_empty:
            owners = self._read_outs(inputs, code, outs, unseen)[0] if has_outs else \
                self._make(inputs.owners, inputs.sources)[0]
            self._fill(inputs, owners)
            return owners
        # Arrays of these shapes and strides have been checked, and are passed with the same extents and strides.
        key = None if code is NO_CODE else (code.mask, code.score, code.captures, *map(_shape_and_strides, code.arrays))
        ready = self._ready.get(key)
        if ready is None:
            if code.needs:
                code.check([self.extents[place] for place in (0, 1, 3, 4)])  # B, Hq, Nq, Nk
            if len(self._ready) >= _MOST_CASES:  # Every call may read arrays of other lengths.
                self._ready.clear()
            ready = self._ready[key] = self.prepare(code)
        launcher, arguments = ready
        try:
            frame = launcher.frames.pop()
        except IndexError:
            frame = Frame(arguments)
        arrays, words = inputs.arrays, frame.words
        for name, place in launcher.inputs:
            words[place] = address = arrays[name][0]
            if not address:
                check_memory(name, arrays[name])
        for one, place in zip(code.bound, launcher.captures):
            words[place], words[place + 4] = one.address, one.scalar
        if has_outs:
            owners, written = self._read_outs(inputs, code, outs, unseen)
            self._set_results(launcher, arguments, frame, written)
            addresses = [x.address for x in written]
        else:
            owners, addresses = self._make(inputs.owners, inputs.sources)
            if frame.owner is not arguments or frame.strides is not None:
                frame.set_numbers(arguments)
                frame.owner, frame.strides = arguments, None
        for address, place in zip(addresses, launcher.outputs):
            words[place] = address
        status = launch(launcher.loaded, frame, inputs.stream or 0, code.plan)
        if status:
            launcher.fail(status, frame, code)
        launcher.frames.append(frame)
        return owners

    def _make(self, given: Dict[str, Any], sources: Dict[str, Source]) -> Tuple[List[Any], List[int]]:
        """Returns new arrays for all results, and their addresses."""
        owners, addresses = [], []
        for like, memory, dtype, transposes in self._new:
            source = sources[like]
            made = source.empty(given[like], memory, dtype)
            addresses.append(source.address(made))
            owners.append(source.transpose(made) if transposes else made)
        return owners, addresses

    def _set_results(self, launcher: Launcher, arguments: List[Shape], frame: Frame, written: Sequence[Array]) -> None:
        """Writes the strides of the caller's arrays into the frame."""
        strides = [x.strides for x in written]
        if frame.owner is not arguments or frame.strides != strides:
            numbers = list(arguments)
            for result, place, x in zip(self.results, launcher.outputs, written):
                numbers[place // WORDS] = result.shape_of(x)
            frame.set_numbers(numbers)
            frame.owner, frame.strides = arguments, strides

    def _read_outs(self, inputs: Inputs, code: Code, outs: Sequence[Any],
                   unseen: Sequence[str]) -> Tuple[List[Any], List[Array]]:
        """Returns the caller's arrays, after checking them, and new arrays in place of None. Refuses arrays that share
        memory with each other or with an array that the call reads."""
        owners: List[Any] = []
        arrays: List[Array] = []
        written: List[str] = []
        others = [*inputs.arrays.values(), *code.arrays]
        for result, out in zip(self.results, outs):
            if out is None:
                owner, array = self._allocate(result, inputs, outs[0], result.name in unseen)
            else:
                owner, array = out, read_result(result, out, inputs.device, inputs.stream)
                shared = find_shared(array, others)
                if shared is not None:
                    names = [*inputs.arrays, *[READ_BY_CODE] * len(code.arrays),
                             *["out[0]" if x == "out" else x for x in written]]
                    raise ArgumentError(
                        f"expected {result.label} to be apart from {names[shared]}, which is still in "
                        f"use while {result.label} is written, got arrays that share memory")
                written.append(result.label)
                others.append(array)
            owners.append(owner)
            arrays.append(array)
        return owners, arrays

    @staticmethod
    def _allocate(result: Result, inputs: Inputs, out: Any, is_unseen: bool) -> Tuple[Any, Array]:
        """Returns a new array for a result for which the caller gave none. `out` is the caller's array for the first
        result, or None. The framework of the new array is that of the result's input; for lse it is that of `out`, if
        that can allocate. If no framework can allocate, a result that the caller does not want is plain memory."""
        like, source = inputs.owners[result.like], inputs.sources[result.like]
        makers = [(source_of(out), out)] if result.name == "lse" and out is not None else []
        for maker, x in (*makers, (source, like)):
            try:
                made = maker.empty(x, result.memory, result.dtype)
            except ArgumentError:
                if not makers:
                    raise
                continue
            made = maker.transpose(made) if result.transposes else made
            return made, maker.describe(made, inputs.stream)
        if not is_unseen:
            raise ArgumentError(f"expected out=(o, lse): neither the framework of out nor that of q can allocate, got "
                                f"{Source.describe_type(out)} and {Source.describe_type(like)}")
        size, device = ITEM_SIZE[result.dtype] * math.prod(result.shape), inputs.device
        memory: Any = None
        if size:
            memory = ctypes.create_string_buffer(size) if device == CPU else Scratch(device, size, inputs.stream or 0)
        address = 0 if memory is None else ctypes.addressof(memory) if device == CPU else memory.address
        return None, Array(address, result.shape, contiguous_strides(result.shape), result.dtype, device, memory)

    def _fill(self, inputs: Inputs, owners: Sequence[Any]) -> None:
        """Fills the results of attention without keys: zeros, and for the log-sum-exp -inf or the head's sink."""
        sinks = inputs.owners.get("sinks")
        for result, owner in zip(self.results, owners):
            if owner is None or 0 in result.shape:
                continue
            if result.name == "lse" and sinks is not None:
                owner[...] = sinks[:, None]
            else:
                source_of(owner).fill(owner, -math.inf if result.name == "lse" else 0.0)


def attention_case(inputs: Inputs, specialization: Specialization, extents: Extents, results: Sequence[Result],
                   is_bshd: bool) -> Case:
    """Returns the case of an attention with these extents, or of its gradients or column sums."""
    case = Case(inputs, specialization, results, is_bshd)
    case.extents, case.is_empty = extents, 0 in extents[:5]
    if case.is_empty:
        specialization.check_schedule()
    return case


# Loaded kernels, keyed by specialization and device.
_launchers: Dict[Tuple[Any, ...], Launcher] = {}
# The cases of earlier calls. The table is cleared when it has _MOST_CASES entries, since every call may have new
# shapes.
_cases: Dict[Tuple[Any, ...], Case] = {}
_MOST_CASES = 1024
contexts.on_configure += [_launchers.clear, _cases.clear]


def case_of(make: Callable[[Inputs, Any], Case], inputs: Inputs, options: Any,
            cases: Optional[Dict[Tuple[Any, ...], Case]] = None) -> Case:
    """Returns the case of a call. If there is none yet, `make(inputs, options)` checks the call and makes the case."""
    cases = _cases if cases is None else cases
    key = (make, options, *inputs.signature)
    case = cases.get(key)
    if case is None:
        if len(cases) >= _MOST_CASES:
            cases.clear()
        case = cases[key] = make(inputs, options)
    return case
