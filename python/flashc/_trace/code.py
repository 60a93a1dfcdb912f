"""The code of a mask and a score, which tracing (`trace.py`) makes: what it is, and what it needs at a launch."""
from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional, Sequence, Tuple

from .._arrays.array import Array
from .captured import Bound, Capture, Need
from .._runtime.library import ArgumentError


class Code(NamedTuple):
    """A traced mask and score. The first three fields specialise a kernel, the others are for its launches."""
    mask: Optional[str] = None
    score: Optional[str] = None
    captures: Tuple[Capture, ...] = ()
    bound: Tuple[Bound, ...] = ()
    arrays: Tuple[Array, ...] = ()
    needs: Tuple[Need, ...] = ()
    #: The mask, if it is a MaskPlan.
    plan: Any = None
    #: The names of the captures in the user's functions, "" if unknown.
    labels: Tuple[str, ...] = ()
    #: Traces again, with the user's line in each operation, for the messages of errors. Kernels are compiled from code
    #: without lines.
    trace_lines: Optional[Callable[[], "Code"]] = None

    def located(self) -> "Code":
        """Returns the code with the user's lines in it, for the compiler's diagnostics."""
        located = self if self.trace_lines is None else self.trace_lines()
        return self._replace(mask=located.mask, score=located.score)

    def check(self, extents: Sequence[int]) -> None:
        """Refuses arrays that are too short for an attention with extents [B, Hq, Nq, Nk]."""
        for need in self.needs:
            last = (extents[need.position] - 1) // need.divisor
            array = self.arrays[need.array]
            if last >= array.shape[need.dim]:
                what = ("the batch", "the query head", "the query's position", "the key's position")[need.position]
                by = what + (f" // {need.divisor}" if need.divisor > 1 else "")
                line, name = self._find_read(need)
                raise ArgumentError(f"{line}expected at least {last + 1} elements in dimension {need.dim} of {name}, "
                                    f"which is indexed by {by}, got shape {tuple(array.shape)}")

    def _find_read(self, need: Need) -> Tuple[str, str]:
        """Returns the user's line that reads an array, and the array's name there, as texts of a message."""
        code, address = self if self.trace_lines is None else self.trace_lines(), self.arrays[need.array].address
        names = [name for capture, name in zip(code.captures, code.labels) if capture.shape]
        name = next((name for name, array in zip(names, code.arrays) if name and array.address == address),
                    "a captured array")
        return next((it.line for it in code.needs if it[:2] == need[:2] and it.dim == need.dim and
                     code.arrays[it.array].address == address), ""), name
