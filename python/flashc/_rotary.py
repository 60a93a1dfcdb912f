"""Rotary embeddings of queries: what `rotary=` of flashc.decode and of flashc.append_kv does with q."""
from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ._arrays.array import ITEM_SIZE, Array, spoken
from ._arrays.protocol import ArrayLike
from ._arrays.source import source_of
from ._runtime import plain
from ._runtime.calls import Inputs, is_graph
from ._runtime.library import ArgumentError, UnsupportedTypeError, described, parse_flag

__all__ = ["Rotary", "check_angles", "parts_of", "rotated"]

#: (cos, sin, interleaved).
Rotary = Optional[Tuple[ArrayLike, ArrayLike, bool]]


def parts_of(rotary: Any) -> Dict[str, Any]:
    """cos and sin by name."""
    if rotary is None:
        return {}
    if not isinstance(rotary, (tuple, list)) or len(rotary) != 3:
        raise ArgumentError(f"expected rotary to be (cos, sin, interleaved), got {described(rotary)}")
    return dict(cos=rotary[0], sin=rotary[1])


def check_angles(inputs: Inputs, like: str) -> None:
    """Refuses cos and sin that do not fit the rows of `like`."""
    if "cos" not in inputs.arrays:
        return
    cos, rows = inputs["cos"], inputs[like]
    if len(cos.shape) != 2 or not 0 < 2 * cos.shape[1] <= rows.shape[3]:
        raise ArgumentError(f"expected cos of shape [positions, R / 2] with R from 2 to D = {rows.shape[3]}, got "
                            f"{tuple(cos.shape)}")
    if cos.dtype not in ("f32", rows.dtype):
        raise UnsupportedTypeError(f"expected cos of f32 or, as {like}, of {rows.dtype}, got {spoken(cos.dtype)}")
    inputs.check("cos", like, cos.dtype, "[positions, R / 2]", cos.shape)
    inputs.check("sin", like, cos.dtype, "[positions, R / 2]", cos.shape)


def rotated(q: Any, first: Any, rotary: Any, is_bshd: bool = True) -> Any:
    """q with each row rotated by the row first[b] + t of cos and sin, in a new array; a row that has none is copied.

    Args:
        q: [B, T, Hq, D], or [B, Hq, T, D].
        first: [B] in int32: the position of the first query of each sequence, counted from where the sequence begins.
    """
    if is_graph(q):
        from . import _torch_serving
        return _torch_serving.rotate(q, first, *rotary, is_bshd)
    return rotated_now(q, first, rotary, is_bshd)


def rotated_now(q: Any, first: Any, rotary: Any, is_bshd: bool) -> Any:
    """`rotated`, for the op.

    It is the kernel of append_kv, whose cache is the new array: token t goes to row t, and is rotated as one that is
    -first[b] rows after the beginning of its sequence. What is appended in place of values is thrown away."""
    inputs = Inputs(q=q, first=first, **parts_of(rotary))
    inputs.narrow("first")
    first = inputs.owners["first"]
    rows = _as_bshd(inputs["q"], is_bshd)
    if len(rows.shape) != 4 or rows.dtype not in ("bf16", "f16", "f32"):
        raise ArgumentError(f"expected q of 4 dimensions and of bf16, f16 or f32 for rotary, got shape "
                            f"{tuple(rows.shape)} and {spoken(rows.dtype)}")
    inputs.check("first", "q", "i32", "[B]", rows.shape[:1])
    check_angles(inputs, "q")
    source, (batch, tokens, heads, depth) = source_of(q), rows.shape
    out = source.empty(q, tuple(q.shape), rows.dtype)
    out[...] = q
    if 0 in rows.shape or 0 in inputs["cos"].shape:
        return out
    width = 1 << (min(depth, 16 // ITEM_SIZE[rows.dtype]).bit_length() - 1)
    rest = source.empty(q, (batch, tokens, heads, width), rows.dtype)
    zeros, begin = first - first, -first
    arrays = [rows, rows._replace(shape=(batch, tokens, heads, width)), *map(source.describe, (zeros, begin)),
              inputs["cos"], inputs["sin"], _as_bshd(source.describe(out), is_bshd), source.describe(rest)]
    kernel = plain.Append(rows.dtype, depth, width, False, False, 2 * inputs["cos"].shape[1], inputs["cos"].dtype,
                          parse_flag("interleaved", rotary[2]), has_leftpad=True)
    plain.launch(kernel, arrays, inputs.device, inputs.stream)
    return out


def _as_bshd(x: Array, is_bshd: bool) -> Array:
    """An array of 4 dimensions in the order [B, T, Hq, D]."""
    if is_bshd or len(x.shape) != 4:
        return x
    order = (0, 2, 1, 3)
    return x._replace(shape=tuple(x.shape[n] for n in order), strides=tuple(x.strides[n] for n in order))
