"""One-dimensional arrays that a call takes in addition to q, k and v (`options.VECTORS`), and conversions of element
types."""
from __future__ import annotations

import sys
from typing import Any, Tuple

from .._arrays.array import Array
from .library import ArgumentError, UnsupportedTypeError
from .options import VECTORS, Operands, Options
from .specialization import Extents, sum_dtype


def check_vectors(inputs: Any, extents: Extents, is_launched: bool = True) -> Tuple[str, ...]:
    """Checks the vectors among the inputs, and returns their names. A vector must be contiguous, have its length and
    type, and be on q's device. If nothing is launched, its device does not matter."""
    names = tuple([name for name in VECTORS if name in inputs.arrays])
    for name in names:
        vector = VECTORS[name]
        length = extents.query_heads if vector.length is None else vector.length
        inputs.check(name, "q" if is_launched else name, vector.dtype or sum_dtype(inputs["q"].dtype), vector.shape,
                     (length,))
    return names


def with_philox(operands: Operands, options: Options) -> Operands:
    """Returns the operands. If there is dropout but no philox, PyTorch's generator for q's device draws one; a CUDA
    graph draws a new one in each replay."""
    q, philox = operands.q, operands.philox
    if not options.dropout_p:
        return operands
    if isinstance(philox, (tuple, list)):
        raise UnsupportedTypeError("expected philox to be an array [2] of int64 on the device of q, got a "
                                   f"{type(philox).__name__}")
    if philox is not None:
        return operands
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(q, torch.Tensor):
        raise ArgumentError("expected philox together with dropout_p: an array [2] of int64 with a seed and an offset; "
                            "only PyTorch's generators give it by themselves")
    return operands._replace(philox=torch.randint(-2**63, 2**63 - 1, (2,), dtype=torch.int64, device=q.device))


_FLOATS = {"f32": "float32", "f64": "float64"}


def as_floats(x: Any, array: Array, dtype: str) -> Any:
    """Converts `x`, which `array` describes, to `dtype`, f32 or f64, if it has another float type."""
    if array.dtype == dtype or array.dtype not in ("bf16", "f16", "f32", "f64"):
        return x
    if hasattr(x, "to") and hasattr(x, "double"):
        return x.double() if dtype == "f64" else x.float()
    return x.astype(_FLOATS[dtype]) if hasattr(x, "astype") else x


def as_type_of(x: Any, like: Any) -> Any:
    """Converts `x` to the element type of `like`, an array of the same framework."""
    if x.dtype == like.dtype:
        return x
    return x.to(like.dtype) if hasattr(x, "to") else x.astype(like.dtype)
