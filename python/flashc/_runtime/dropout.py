"""Dropout of an attention: its rate, and the seed and the offset that say what is dropped."""
from __future__ import annotations

import math
import sys
from typing import Any, Optional

from .._arrays.array import Array
from .library import ArgumentError, UnsupportedTypeError
from .vectors import check_vector, read_vector

__all__ = ["check_philox", "parse_dropout", "philox_of", "read_philox"]

_SHAPE = "[2], a seed and an offset"


def parse_dropout(dropout_p: Any, philox: Any = None) -> float:
    """The rate as kernels have it, a multiple of 1/256; 0.0: no dropout."""
    try:
        p = float(dropout_p)
    except (TypeError, ValueError):
        raise UnsupportedTypeError(f"expected dropout_p to be a number, got {dropout_p!r}") from None
    if p == 0.0:
        if philox is not None:
            raise ArgumentError("expected dropout_p beside philox, got 0")
        return 0.0
    rate = math.floor(p * 256 + 0.5) / 256 if 0.0 <= p <= 1.0 else -1.0
    if not 0.0 < rate < 1.0:
        raise ArgumentError(f"expected dropout_p to be 0, or nearest to one of 1/256 to 255/256, got {p}")
    return rate


def philox_of(q: Any, philox: Any) -> Any:
    """The seed and the offset of a call with dropout. Those of PyTorch's tensors are drawn if none are given, from the
    generator of q's device: a CUDA graph draws new ones in each replay."""
    if isinstance(philox, (tuple, list)):
        raise UnsupportedTypeError("expected philox to be an array [2] of int64 on the device of q, got a "
                                   f"{type(philox).__name__}")
    if philox is not None:
        return philox
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(q, torch.Tensor):
        raise ArgumentError("expected philox beside dropout_p: an array [2] of int64 with a seed and an offset; only "
                            "PyTorch's generators give it by themselves")
    return torch.randint(-2**63, 2**63 - 1, (2,), dtype=torch.int64, device=q.device)


def check_philox(array: Array, q: Array) -> None:
    """Refuses what is no seed and no offset on q's device."""
    check_vector("philox", array, 2, _SHAPE, "i64", q)


def read_philox(philox: Any, q: Array, stream: Optional[int]) -> Array:
    """The array, after checks against q."""
    return read_vector("philox", philox, 2, _SHAPE, "i64", q, stream)
