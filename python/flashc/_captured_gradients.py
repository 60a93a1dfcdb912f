"""The gradients of arrays that a score reads. Each gradient has its own kernel, which runs after the kernel of dq, dk
and dv."""
from __future__ import annotations

from typing import Any, List, Sequence

from ._arrays.array import Array, spoken
from ._arrays.source import source_of
from ._runtime.calls import Case, Inputs
from ._runtime.launch import Result
from ._runtime.library import CAPTURED_GRADIENT, ArgumentError, UnsupportedTypeError
from ._runtime.specialization import sum_dtype
from ._trace.captured import View
from ._trace.code import Code


def captured_gradients(captured: Sequence[Any], backward: Case, inputs: Inputs, code: Code, is_bshd: bool) -> List[Any]:
    """Returns the gradient of each array of `captured`, in f32 (f64 for f64) and in the array's shape. `inputs` and
    `code` are those of the backward pass. If elements share memory (stride 0), the first of them has their whole
    gradient, and the gradient of the others is 0."""
    inputs = inputs.without("sinks")  # The log-sum-exp includes the sinks.
    return [_gradient_of(number, x, backward, inputs, code, is_bshd) for number, x in enumerate(captured)]


def _gradient_of(number: int, x: Any, backward: Case, inputs: Inputs, code: Code, is_bshd: bool) -> Any:
    places = [place for place, capture in enumerate(code.captures) if capture.shape]  # The other captures are scalars.
    found = [(place, array) for place, array in zip(places, code.arrays) if array.owner is x]
    if not found:
        raise ArgumentError(f"expected captured[{number}] to be an array that the score reads, got another one: the "
                            "same object, of one dimension at least if it is no tensor that requires a gradient")
    # If both the mask and the score read an array, the kernel has two operands for it.
    gradients = []
    for place, array in found:
        if array.dtype not in ("bf16", "f16", "f32", "f64"):
            raise UnsupportedTypeError(
                f"expected captured[{number}] of bf16, f16, f32 or f64, got {spoken(array.dtype)}")
        shape = View.of(array).bind(array).extents
        result = Result("gradient", f"captured[{number}]", "q", shape, sum_dtype(inputs["q"].dtype))
        made, = _case(backward, inputs, result, place, is_bshd)(inputs, code)
        gradients.append(_in_shape(made, array))
    return gradients[0] if len(gradients) == 1 else sum(gradients[1:], gradients[0])


def _case(backward: Case, inputs: Inputs, result: Result, place: int, is_bshd: bool) -> Case:
    """Returns the case that computes the gradient of the capture numbered `place`."""
    it = backward.specialization
    options = it.options._replace(operation=CAPTURED_GRADIENT, deterministic=True, schedule=None)
    case = Case(inputs, it._replace(options=options, vectors=tuple(name for name in it.vectors if name in inputs),
                                    captured=place), [result], is_bshd)
    case.extents, case.is_empty = backward.extents, backward.is_empty
    return case


def _in_shape(gradient: Any, array: Array) -> Any:
    """Returns the gradient in the shape of the array. `gradient` has one element for each element in memory."""
    shared = [extent != 1 and stride == 0 for extent, stride in zip(array.shape, array.strides)]
    gradient = gradient.reshape(tuple(1 if is_shared else extent for extent, is_shared in zip(array.shape, shared)))
    if any(shared):
        source = source_of(gradient)
        whole = source.empty(gradient, tuple(array.shape), source.describe(gradient).dtype)
        source.fill(whole, 0.0)
        whole[tuple(slice(1) if is_shared else slice(None) for is_shared in shared)] = gradient
        gradient = whole
    owner = array.owner
    return gradient.reshape(tuple(owner.shape)) if len(owner.shape) != len(array.shape) else gradient
