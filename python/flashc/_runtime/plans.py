"""Plans of masks: the tiles that a mask keeps are found once for many calls, even if the mask reads arrays."""
from __future__ import annotations

import ctypes
import itertools
import weakref
from typing import Any, Callable, Optional, Set

from . import library
from .library import ArgumentError, UnsupportedTypeError
from .public import public

_numbers = itertools.count(1)
_launch = library.lib.flashcLoadedKernelLaunch
_launch_planned = library.lib.flashcLoadedKernelLaunchPlanned


class MaskPlan:
    """A mask whose arrays do not change, made by `plan_mask`. A call of it calls the mask."""
    _decides = ("mask",)

    def __init__(self, mask: Callable[..., Any], q_len: Optional[int] = None, k_len: Optional[int] = None) -> None:
        self.mask, self.q_len, self.k_len = mask, q_len, k_len
        self.number = next(_numbers)
        self._kernels: Set[Any] = set()
        weakref.finalize(self, _forget, self.number, self._kernels).atexit = False  # the process frees it

    def __call__(self, b: Any, h: Any, i: Any, j: Any) -> Any:
        return self.mask(b, h, i, j)

    def __repr__(self) -> str:
        is_for_any = self.q_len is None and self.k_len is None
        lengths = "" if is_for_any else f" for {self.q_len} queries and {self.k_len} keys"
        return f"<flashc.MaskPlan{lengths} of {self.mask!r}>"

    def check(self, queries: int, keys: int) -> None:
        for name, want, have in (("queries", self.q_len, queries), ("keys", self.k_len, keys)):
            if want is not None and want != have:
                raise ArgumentError(f"expected {want} {name}, for which the mask was planned, got {have}")


class TracedPlan:
    """A planned mask in one call, whose code is known: that of the mask alone, which reads PyTorch's tensors."""
    _decides = ("mask",)

    def __init__(self, plan: MaskPlan, code: Any) -> None:
        self.plan, self.code, self.mask = plan, code, plan.mask

    def __call__(self, b: Any, h: Any, i: Any, j: Any) -> Any:
        return self.mask(b, h, i, j)


@public
def plan_mask(mask: Callable[..., Any], q_len: Optional[int] = None, k_len: Optional[int] = None) -> MaskPlan:
    """Makes a plan of a mask for many calls: all layers that share it, forward and backward.

    flashc proves which tiles a mask keeps where it can; other masks are run on their tiles, before the attention. Masks
    of positions and scalars alone are run once for each kernel and its extents. A mask that reads arrays is run in
    every call, since the arrays may have changed; with a plan it is run in the first call only. A plan replaces
    FlexAttention's `create_block_mask`, which evaluates all pairs.

    Args:
        mask: (b, h, i, j) -> condition, as for `flashc.attention`. Arrays that it reads must not change while the plan
            is in use; after a change, make another plan.
        q_len, k_len: the lengths that calls must have; None: any.

    Returns:
        A `MaskPlan`, for `mask=` of every function of flashc. Its memory on the GPU is freed with it: keep the plan for
        as long as launches, or CUDA graphs that captured launches, use it.

    Raises:
        flashc.UnsupportedTypeError: `mask` is no function. A mask that is an array needs no plan.
    """
    if isinstance(mask, MaskPlan) or not callable(mask):
        raise UnsupportedTypeError(f"expected mask to be a function (b, h, i, j) -> condition, got {type(mask)!r}")
    for name, length in (("q_len", q_len), ("k_len", k_len)):
        if length is not None and (type(length) is not int or length < 0):
            raise ArgumentError(f"expected {name} to be a length or None, got {length!r}")
    return MaskPlan(mask, q_len, k_len)


def launch(loaded: Any, frame: Any, stream: int, plan: Optional[MaskPlan]) -> int:
    """Starts a loaded kernel on the arguments of a frame; returns the status."""
    if plan is None:
        return _launch(loaded.handle.ptr, frame.address, frame.count, stream, frame.message)
    plan._kernels.add(loaded)
    return _launch_planned(loaded.handle.ptr, frame.address, frame.count, plan.number, stream, frame.message)


def _forget(number: int, kernels: Set[Any]) -> None:
    for loaded in kernels:
        message = ctypes.c_void_p()
        # Memory that cannot be freed now is freed with the kernel.
        library.lib.flashcLoadedKernelForgetPlan(loaded.handle, number, ctypes.byref(message))
        if message:
            library.take_text(message)
