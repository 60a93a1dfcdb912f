"""flashc.merge_states: merges results of attention over parts of the keys."""
from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple, Union

from ._arrays.array import spoken
from ._arrays.protocol import ArrayLike
from ._arrays.source import described_array, named, source_of
from ._runtime.calls import Case, Inputs, case_of, is_graph
from ._runtime.launch import Result, read_outs
from ._runtime.library import ArgumentError, UnsupportedTypeError
from ._runtime.plain import Merge
from ._runtime.public import public
from ._runtime.specialization import target_of

_DTYPES = "bf16", "f16", "f32"


@public
def merge_states(o: Union[ArrayLike, Sequence[ArrayLike]], lse: Union[ArrayLike, Sequence[ArrayLike]], *,
                 sinks: Optional[ArrayLike] = None, out: Optional[Tuple[Any, Any]] = None) -> Tuple[Any, Any]:
    """Merges attentions of the same queries over parts of the keys into the attention over all keys: the last step of
    cascades with a shared prefix, of split keys and of context parallelism.

        o1, lse1 = flashc.attention(q, k[:, :, :n], v[:, :, :n], return_lse=True)
        o2, lse2 = flashc.attention(q, k[:, :, n:], v[:, :, n:], return_lse=True)
        o, lse = flashc.merge_states([o1, o2], [lse1, lse2])

    Args:
        o: the outputs of the parts, [S, B, H, N, D] in bf16, f16 or f32, or a list of S arrays, which costs a copy.
        lse: their log-sum-exps, [S, B, H, N] in f32, or a list. A part with lse = -inf adds nothing, whatever its o
            holds.
        sinks: [H] in f32, or None: a score without a value that is added once to every softmax of its head. The parts
            must be computed without sinks then.
        out: arrays (o, lse) for the result, instead of new ones; this o may have any of the three types.

    Returns:
        (o, lse), [B, H, N, D] in the type of the parts and [B, H, N] in f32, in arrays of the framework of o. A row
        whose parts are all -inf has o = 0 and lse = -inf, or its head's sink. Equal arguments give equal bits.

    Under torch.compile and torch.export the call is `torch.ops.flashc.merge_states`, without out.

    Raises:
        as `flashc.attention`.
    """
    o, lse = _stacked("o", o), _stacked("lse", lse)
    if is_graph(o):
        if out is not None:
            raise ArgumentError("expected no out while PyTorch traces a graph")
        from . import _torch_serving
        return _torch_serving.merge_states(o, lse, sinks)
    return merge_now(o, lse, sinks, out)


def _stacked(name: str, parts: Any) -> Any:
    """Joins a list of parts along a new first dimension; an array is returned as it is."""
    if not isinstance(parts, (list, tuple)):
        return parts
    if not parts:
        raise ArgumentError(f"expected {name} of one part at least, got an empty list")
    try:
        source, *_ = [source_of(part) for part in parts]
    except UnsupportedTypeError as problem:
        raise named(name, problem) from None
    shapes = [tuple(getattr(part, "shape", ())) for part in parts]
    for shape in shapes:
        if shape != shapes[0]:
            raise ArgumentError(f"expected parts of one shape in {name}, got {shapes[0]} and {shape}")
    return source.stack(parts)


def merge_now(o: Any, lse: Any, sinks: Any = None, out: Optional[Tuple[Any, Any]] = None) -> Tuple[Any, Any]:
    """Computes flashc.merge_states outside of graphs. The PyTorch op calls it too."""
    inputs = Inputs(dict(o=o, lse=lse, sinks=sinks))
    outs = read_outs(out, ("o", "lse"))
    merged, whole = case_of(_case, inputs, _dtype_of(outs[0], inputs))(inputs, outs=outs)
    return merged, whole


def _case(inputs: Inputs, dtype: str) -> Case:
    parts = inputs["o"]
    if len(parts.shape) != 5 or parts.shape[4] == 0:
        raise ArgumentError(f"expected o of 5 dimensions [S, B, H, N, D], with D of at least 1, got shape "
                            f"{tuple(parts.shape)}")
    if parts.dtype not in _DTYPES:
        raise UnsupportedTypeError(f"expected o of bf16, f16 or f32, got {spoken(parts.dtype)}")
    shape = tuple(parts.shape)
    inputs.check("o", "o", parts.dtype, "[S, B, H, N, D]", shape)
    inputs.check("lse", "o", "f32", "[S, B, H, N]", shape[:4])
    if "sinks" in inputs:
        inputs.check("sinks", "o", "f32", "[H]", shape[2:3])
    kernel = Merge(target_of(inputs.device), parts.dtype, dtype, shape[4], "sinks" in inputs)
    case = Case(inputs, kernel,
                [Result("o", "out[0]", "o", shape[1:], dtype),
                 Result("lse", "out[1]", "o", shape[1:4], "f32")])
    case.is_empty, case.aliases = 0 in shape, {"o_parts": "o", "lse_parts": "lse"}
    return case


def _dtype_of(out: Any, inputs: Inputs) -> str:
    """Returns the element type of the result: that of the caller's array, or else that of the parts."""
    if out is None:
        return inputs["o"].dtype
    given = described_array("out[0]", out, inputs.stream).dtype
    if given not in _DTYPES:
        raise UnsupportedTypeError(f"expected out[0] of bf16, f16 or f32, got {spoken(given)}")
    return given
