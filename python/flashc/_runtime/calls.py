"""Calls of operations beside attention: their arrays, their results, the launch."""
from __future__ import annotations

import copy
import sys
from typing import Any, Dict, List, Sequence, Tuple

from .._arrays.array import CPU, Array, spoken
from .._arrays.integers import narrowed
from .._arrays.overlap import find_shared
from .._arrays.source import source_of
from .._trace.trace import Code, device_name
from . import contexts, plans
from .launch import _WORDS, _Frame, _read_result, _signed, canonical, fail_launch, output_order, unit_strides, wait_for
from .library import ArgumentError, Error, UnsupportedTypeError
from .specialization import Extents, Specialization
from .vectors import as_floats

# Kernels that are loaded, by what they are specialised on and their device.
_kernels: Dict[Tuple[Specialization, int], Any] = {}
contexts.on_configure.append(_kernels.clear)

READ_BY_CODE = "an array that the mask or the score reads"


def refuse_gradient(name: str, x: Any) -> None:
    """Raises an Error for a tensor that requires one, while gradients are recorded: nothing records how to get it."""
    if getattr(x, "requires_grad", False):
        raise Error(f"expected {name} without gradients, since flashc records none: call within torch.no_grad(), or "
                    "pass what its detach() returns")


def refuse_gradients(**owners: Any) -> None:
    """Raises an Error if one of them requires a gradient, while gradients are recorded."""
    if records_gradients():
        for name, x in owners.items():
            refuse_gradient(name, x)


def records_gradients() -> bool:
    """Whether PyTorch does."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.is_grad_enabled()


def is_graph(x: Any) -> bool:
    """Whether PyTorch notes what is called on a tensor instead of computing: then the call must be that of an op."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(x, torch.Tensor) or not hasattr(torch.library, "custom_op"):
        return False  # The last one: PyTorch before 2.4.
    return torch.compiler.is_compiling() or not (type(x) is torch.Tensor or type(x) is torch.nn.Parameter)


class Inputs:
    """The arrays of one call by name, the first of which is on the device and the stream of the launch."""

    def __init__(self, **owners: Any) -> None:
        refuse_gradients(**owners)
        self.owners = owners
        first = next(iter(owners.values()))
        source = source_of(first)
        array = source.describe(first)
        self.device = array.device
        self.stream = None if self.device == CPU else source.current_stream(self.device, array)
        self.arrays = {name: array if x is first else self._describe(x) for name, x in owners.items()}

    def _describe(self, x: Any) -> Array:
        array = source_of(x).describe(x, self.stream)
        wait_for(array, self.stream)
        return array

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def without(self, name: str) -> "Inputs":
        """Those of another call, which reads all but one of them."""
        other = copy.copy(self)
        other.arrays = {key: array for key, array in self.arrays.items() if key != name}
        return other

    def narrow(self, *names: str) -> None:
        """Makes int32 of those of these inputs that are there and are other integers."""
        for name in names:
            if name in self.arrays:
                owner = narrowed(name, self.owners[name], self.arrays[name])
                if owner is not self.owners[name]:
                    self.owners[name], self.arrays[name] = owner, self._describe(owner)

    def widen(self, name: str, dtype: str) -> None:
        """Makes f32 or f64 of an input that is other floats."""
        owner = as_floats(self.owners[name], self.arrays[name], dtype)
        if owner is not self.owners[name]:
            self.owners[name], self.arrays[name] = owner, self._describe(owner)

    def check(self, name: str, like: str, dtype: str, order: str, shape: Sequence[int]) -> None:
        """Refuses an array that is not of this shape and element type, on the device of `like`."""
        x, device = self[name], self[like].device
        if tuple(x.shape) != tuple(shape):
            raise ArgumentError(f"expected {name} of shape {order} = {list(shape)}, got {tuple(x.shape)}")
        if x.dtype != dtype:
            raise UnsupportedTypeError(f"expected {name} of {spoken(dtype)}, got {spoken(x.dtype)}")
        if x.device != device:
            raise ArgumentError(f"expected {name} on {device_name(device)}, where {like} is, got one on "
                                f"{device_name(x.device)}")
        if 0 not in shape and x.strides[-1] != 1 and shape[-1] > 1:
            raise ArgumentError(f"expected the last dimension of {name} to be contiguous (stride 1), got stride "
                                f"{x.strides[-1]}; make a contiguous copy")

    def check_addresses(self) -> None:
        for name, x in self.arrays.items():
            if not x.address:
                raise ArgumentError(f"expected {name} with elements in memory, got an address of 0")

    def prepare_code(self, code: Code) -> None:
        """Waits for the arrays that the mask and the score read, which may not require gradients."""
        for array in code.arrays:
            if records_gradients():
                refuse_gradient(READ_BY_CODE, array.owner)
            wait_for(array, self.stream)


class Results:
    """What one call writes: the caller's arrays, checked, or new ones."""

    def __init__(self, inputs: Inputs, code: Code) -> None:
        self.inputs = inputs
        self.owners: List[Any] = []
        self.arrays: List[Array] = []
        self._others = [*inputs.arrays.items(), *((READ_BY_CODE, array) for array in code.arrays)]

    def add(self, name: str, out: Any, like: str, shape: Tuple[int, ...], dtype: str) -> None:
        """`like`: the input whose framework makes a new array, and whose device it is on."""
        if out is None:
            owner = self.inputs.owners[like]
            self._append(source_of(owner).empty(owner, shape, dtype))
            return
        array = _read_result(name, out, shape, dtype, self.inputs[like], self.inputs.stream)
        for other, x in self._others:
            if find_shared(array, None, [x]) is not None:
                raise ArgumentError(f"expected {name} to be apart from {other}, which is still in use while {name} is "
                                    "written, got arrays that share memory")
        self._others.append((name, array))
        self.owners.append(out)
        self.arrays.append(array)

    def add_like(self, name: str, out: Any, like: str, is_bshd: bool) -> None:
        """A result of an input's shape and element type; a new one lies in memory as the input does."""
        x, owner = self.inputs[like], self.inputs.owners[like]
        if out is not None:
            self.add(name, out, like, tuple(x.shape), x.dtype)
            return
        source = source_of(owner)
        shape, transposes = output_order(x, x.shape[3], is_bshd, source)
        made = source.empty(owner, shape, x.dtype)
        self._append(source.transpose(made) if transposes else made)

    def _append(self, made: Any) -> None:
        self.owners.append(made)
        self.arrays.append(source_of(made).describe(made, self.inputs.stream))

    def fill_with_zeros(self) -> None:
        for owner, array in zip(self.owners, self.arrays):
            if 0 not in array.shape:
                source_of(owner).fill(owner, 0.0)


def launch(specialization: Specialization, extents: Extents, inputs: Inputs, code: Code, results: Results,
           is_bshd: bool, writes_bshd: bool) -> None:
    """Arguments of 4 dimensions are in the caller's layout, those of 3 are [B, H, N]; results of 4 are only if
    `writes_bshd`."""
    inputs.check_addresses()
    if code.needs:
        code.check((extents.batch, extents.query_heads, extents.queries, extents.keys))
    key = specialization, inputs.device
    kernel = _kernels.get(key)
    if kernel is None:
        kernel = _kernels.setdefault(key, specialization.naming_lines(
            code, lambda it: it.compile().load(inputs.device)))
    frame = _Frame(specialization.ranks)
    read, written = list(inputs.arrays.values()), results.arrays
    bound = [n for one in code.bound for n in (*one.extents, *one.strides)]
    frame.set_numbers([*_numbers(read, is_bshd), *bound, *_numbers(written, writes_bshd)])
    values = [(x.address, 0) for x in read]
    values += [(one.address, _signed(one.scalar)) for one in code.bound] + [(x.address, 0) for x in written]
    for number, (address, scalar) in enumerate(values):
        frame.words[number * _WORDS], frame.words[number * _WORDS + 4] = address, scalar
    status = plans.launch(kernel, frame, inputs.stream or 0, code.plan)
    if status:
        fail_launch(status, frame, specialization, code, inputs.device)


def _numbers(arrays: Sequence[Array], is_bshd: bool) -> List[int]:
    """Extents and strides, in the order of the kernel's dimensions."""
    numbers: List[int] = []
    for x in arrays:
        for values in (x.shape, unit_strides(x)):
            numbers += canonical(values, is_bshd) if len(values) == 4 else values
    return numbers
