"""flashc.column_sums: the sum of the weights that each key receives from all queries."""
from __future__ import annotations

from typing import Any, Callable, Optional, Union

from ._arrays.protocol import ArrayLike
from ._runtime import library
from ._runtime.calls import Case, Inputs, attention_case, case_of
from ._runtime.launch import Result
from ._runtime.library import ArgumentError, described
from ._runtime.options import Options, Window
from ._runtime.public import public
from ._runtime.specialization import check_inputs, make_code, specialize, sum_dtype, target_of

_PER = {"query_head": library.COLUMN_SUMS, "key_head": library.GROUP_COLUMN_SUMS}


@public
def column_sums(q: ArrayLike, k: ArrayLike, lse: ArrayLike, *, causal: bool = False, window: Window = None,
                scale: Optional[float] = None, mask: Union[ArrayLike, Callable[..., Any], None] = None,
                score: Optional[Callable[..., Any]] = None, enable_gqa: bool = False, per: str = "query_head",
                layout: str = "bhsd", out: Any = None, schedule: Optional[str] = None,
                static_shapes: bool = False) -> Any:
    """The sum of the weights that each key receives from all queries: c_j = sum over i of exp(S_ij - lse_i), the sum of
    column j of attention's softmax, without the matrix of scores in memory. Methods that evict keys from a cache rank
    keys by it (H2O; SnapKV, with the last queries as q).

        o, lse = flashc.attention(q, k, v, causal=True, return_lse=True)
        c = flashc.column_sums(q, k, lse, causal=True)              # [B, Hq, Nk]; a row adds up to Nq

    Args:
        q, k, causal, window, scale, mask, score, enable_gqa, layout, schedule, static_shapes: as for
            `flashc.attention`, and the same as in the call that gave `lse`.
        lse: the log-sum-exp of each query's scores, [B, Hq, Nq] in f32 in either layout. A query whose lse is -inf
            adds nothing.
        per: "query_head": a result for each query head. "key_head": a result for each key head, the sum over the query
            heads that share it.
        out: an array for the result, instead of a new one.

    Returns:
        c, [B, Hq, Nk], or [B, Hk, Nk] per key head, in f32 in either layout, in an array of q's framework.

    Raises:
        as `flashc.attention`.
    """
    if not isinstance(per, str) or per not in _PER:
        raise ArgumentError(f"expected per to be 'query_head' or 'key_head', got {described(per)}")
    options = Options(causal, window, scale, 0.0, enable_gqa, False, layout, schedule, static_shapes,
                      operation=_PER[per]).checked()
    inputs = Inputs(dict(q=q, k=k, lse=lse))
    case = case_of(_case, inputs, options)
    code = make_code(mask, score, case.extents, inputs.device, inputs.stream)
    inputs.prepare_code(code)
    return case(inputs, code, [out])[0]


def _case(inputs: Inputs, options: Options) -> Case:
    extents = check_inputs(inputs["q"], inputs["k"], None, options.is_bshd, options.enable_gqa)
    dtype = sum_dtype(extents.dtype)
    inputs.check("lse", "q", dtype, "[B, Hq, Nq]", (extents.batch, extents.query_heads, extents.queries))
    heads = extents.query_heads if options.operation == library.COLUMN_SUMS else extents.key_heads
    result = Result("c", "out", "q", (extents.batch, heads, extents.keys), dtype)
    return attention_case(inputs, specialize(extents, options, target_of(inputs.device)), extents, [result],
                          options.is_bshd)
