"""Rotary embeddings of queries, for `rotary=` of flashc.decode and of flashc.append_kv."""
from __future__ import annotations

from typing import Any, Tuple

from ._arrays.array import ITEM_SIZE, spoken
from ._arrays.source import source_of
from ._runtime.calls import Case, Inputs, case_of, is_graph
from ._runtime.library import ArgumentError, UnsupportedTypeError, described, parse_flag
from ._runtime.plain import Append
from ._runtime.specialization import target_of


def angles_of(rotary: Any) -> Tuple[Any, Any]:
    """Returns cos and sin of (cos, sin, interleaved), or (None, None) for None."""
    if rotary is None:
        return None, None
    if not isinstance(rotary, (tuple, list)) or len(rotary) != 3:
        raise ArgumentError(f"expected rotary to be (cos, sin, interleaved), got {described(rotary)}")
    return rotary[0], rotary[1]


def check_angles(inputs: Inputs, like: str) -> None:
    """Refuses cos and sin whose shape or element type does not match the rows of the input `like`."""
    if "cos" not in inputs:
        return
    cos, rows = inputs["cos"], inputs[like]
    if len(cos.shape) != 2 or not 0 < 2 * cos.shape[1] <= rows.shape[-1]:
        raise ArgumentError(f"expected cos of shape [positions, R / 2] with R from 2 to D = {rows.shape[-1]}, got "
                            f"{tuple(cos.shape)}")
    if cos.dtype not in ("f32", rows.dtype):
        raise UnsupportedTypeError(f"expected cos of f32 or, as {like}, of {rows.dtype}, got {spoken(cos.dtype)}")
    inputs.check("cos", like, cos.dtype, "[positions, R / 2]", cos.shape)
    inputs.check("sin", like, cos.dtype, "[positions, R / 2]", cos.shape)


def rotated(q: Any, first: Any, rotary: Any, is_bshd: bool = True) -> Any:
    """Returns a new array. Row t of q is rotated by row first[b] + t of cos and sin, or copied if that row does not
    exist.

    Args:
        q: [B, T, Hq, D], or [B, Hq, T, D].
        first: [B] in int32: the position of the first query of each sequence, counted from where the sequence begins.
    """
    if is_graph(q):
        from . import _torch_serving
        return _torch_serving.rotate(q, first, *rotary, is_bshd)
    return rotated_now(q, first, rotary, is_bshd)


def rotated_now(q: Any, first: Any, rotary: Any, is_bshd: bool) -> Any:
    """Computes `rotated` outside of graphs. The PyTorch op calls it too.

    The kernel of append_kv does the rotation, with the new array as its cache. Token t goes to row t of a sequence that
    begins at row -first[b], so it is rotated by the angle of position first[b] + t. The values that the kernel appends
    are not used."""
    cos, sin = angles_of(rotary)
    inputs = Inputs(dict(q=q, first=first, cos=cos, sin=sin))
    inputs.narrow("first")
    first, rows = inputs.owners["first"], inputs["q"]
    if len(rows.shape) != 4 or rows.dtype not in ("bf16", "f16", "f32"):
        raise ArgumentError(f"expected q of 4 dimensions and of bf16, f16 or f32 for rotary, got shape "
                            f"{tuple(rows.shape)} and {spoken(rows.dtype)}")
    inputs.check("first", "q", "i32", "[B]", rows.shape[:1])
    check_angles(inputs, "q")
    source, shape = source_of(q), tuple(rows.shape)
    out = source.empty(q, shape, rows.dtype)
    out[...] = q
    if 0 in shape or 0 in inputs["cos"].shape:
        return out
    width = 1 << (min(shape[3], 16 // ITEM_SIZE[rows.dtype]).bit_length() - 1)
    rest = source.empty(q, (*shape[:3], width), rows.dtype)
    inputs = Inputs(dict(k=q, v=q[..., :width], positions=first - first, leftpad=-first, cos=cos, sin=sin, k_cache=out,
                         v_cache=rest))
    case_of(_case, inputs, (parse_flag("interleaved", rotary[2]), is_bshd))(inputs)
    return out


def _case(inputs: Inputs, options: Tuple[bool, bool]) -> Case:
    is_interleaved, is_bshd = options
    rows, cos = inputs["k"], inputs["cos"]
    kernel = Append(target_of(inputs.device), rows.dtype, rows.shape[-1], inputs["v"].shape[3],
                    rotary_dim=2 * cos.shape[1], rotary_dtype=cos.dtype, is_interleaved=is_interleaved,
                    has_leftpad=True)
    return Case(inputs, kernel, [], is_bshd=not is_bshd)  # The kernel's order is B, T, H, D.
