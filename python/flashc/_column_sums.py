"""flashc.column_sums: the weight that each key receives from all queries."""
from __future__ import annotations

from typing import Any, Callable, Optional, Union

from ._arrays.protocol import ArrayLike
from ._runtime import library
from ._runtime.calls import Inputs, Results, launch
from ._runtime.library import ArgumentError, described, encoded, parse_flag
from ._runtime.public import public
from ._runtime.specialization import Window, check_inputs, check_layout, make_code, specialize, sum_dtype, target_of

__all__ = ["column_sums"]

_PER = {"query_head": library.COLUMN_SUMS, "key_head": library.GROUP_COLUMN_SUMS}


@public
def column_sums(q: ArrayLike, k: ArrayLike, lse: ArrayLike, *, causal: bool = False, window: Window = None,
                scale: Optional[float] = None, mask: Union[ArrayLike, Callable[..., Any], None] = None,
                score: Optional[Callable[..., Any]] = None, enable_gqa: bool = False, per: str = "query_head",
                layout: str = "bhsd", out: Any = None, schedule: Optional[str] = None,
                static_shapes: bool = False) -> Any:
    """The weight that each key receives from all queries: c_j = sum over i of exp(S_ij - lse_i), which is the sum of
    column j of attention's softmax, without the matrix of scores in memory. Eviction of keys from a cache ranks keys by
    it (H2O; SnapKV, with the last queries as q).

        o, lse = flashc.attention(q, k, v, causal=True, return_lse=True)
        c = flashc.column_sums(q, k, lse, causal=True)              # [B, Hq, Nk]; a row adds up to Nq

    Args:
        q, k, causal, window, scale, mask, score, enable_gqa, layout, schedule, static_shapes: as for
            `flashc.attention`, and the same as in the call that gave `lse`.
        lse: the log-sum-exp of each query's scores, [B, Hq, Nq] in f32 in either layout. A query of -inf gives nothing.
        per: "query_head": a result for each query head. "key_head": those of the query heads that share a key head are
            added up.
        out: where the result goes, instead of a new array.

    Returns:
        c, [B, Hq, Nk], or [B, Hk, Nk] for key heads, in f32 in either layout, in an array of q's framework.

    Raises:
        as `flashc.attention`.
    """
    causal, enable_gqa = parse_flag("causal", causal), parse_flag("enable_gqa", enable_gqa)
    is_static = parse_flag("static_shapes", static_shapes)
    if not isinstance(per, str) or per not in _PER:
        raise ArgumentError(f"expected per to be 'query_head' or 'key_head', got {described(per)}")
    if schedule is not None:
        encoded("schedule", schedule)
    is_bshd = check_layout(layout)
    inputs = Inputs(q=q, k=k, lse=lse)
    extents = check_inputs(inputs["q"], inputs["k"], None, is_bshd, enable_gqa)
    inputs.check("lse", "q", sum_dtype(inputs["q"].dtype), "[B, Hq, Nq]", (extents.batch, extents.query_heads, extents.queries))
    code = make_code(mask, score, extents, inputs.device, inputs.stream)
    inputs.prepare_code(code)
    specialization = specialize(inputs["q"], extents, causal, window, scale, code, target_of(inputs.device), schedule,
                                is_static, False, _PER[per])
    results = Results(inputs, code)
    heads = extents.query_heads if per == "query_head" else extents.key_heads
    results.add("out", out, "q", (extents.batch, heads, extents.keys), sum_dtype(inputs["q"].dtype))
    if 0 in inputs["q"].shape or 0 in inputs["k"].shape:
        specialization.check_schedule()
        results.fill_with_zeros()
    else:
        launch(specialization, extents, inputs, code, results, is_bshd, is_bshd)
    return results.owners[0]
