"""The types of arrays, for type checkers."""
from __future__ import annotations

from typing import Any, Mapping, Protocol, Sequence, Tuple, Union, runtime_checkable


@runtime_checkable
class SupportsDLPack(Protocol):
    """An array that is exchanged by DLPack: PyTorch's, NumPy's, CuPy's, JAX's."""

    def __dlpack__(self, *, stream: Any = ...) -> Any: ...

    def __dlpack_device__(self) -> Tuple[Any, int]: ...


@runtime_checkable
class SupportsCudaArrayInterface(Protocol):
    """An array on a GPU that is exchanged by `__cuda_array_interface__`: Numba's, PyTorch's, CuPy's."""

    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]: ...


@runtime_checkable
class SupportsArrayInterface(Protocol):
    """An array on the host that is exchanged by `__array_interface__`: NumPy's."""

    @property
    def __array_interface__(self) -> Mapping[str, Any]: ...


#: An array of a framework, or an object with Python's buffer protocol.
ArrayLike = Union[SupportsDLPack, SupportsCudaArrayInterface, SupportsArrayInterface, bytearray, memoryview]

#: Lengths, offsets and tables: an array of integers, a list, or a list of lists.
IntegersLike = Union[ArrayLike, Sequence[int], Sequence[Sequence[int]]]
