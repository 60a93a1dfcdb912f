"""flashc.column_sums: the weight that each key receives from all queries."""
from __future__ import annotations

import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ._arrays.array import CPU, Array
from ._arrays.overlap import find_shared
from ._arrays.source import Source, source_of
from ._attention import refuse_gradient
from ._runtime import contexts, library
from ._runtime.launch import _WORDS, _Frame, _launch, _read_result, _signed, canonical, unit_strides, wait_for
from ._runtime.library import ANY, ArgumentError, UnsupportedTypeError, encoded, parse_flag
from ._runtime.specialization import CPU_TARGET, GPU_TARGET, Extents, Specialization, Window, check_inputs, \
    check_layout, make_code, parse_mask, parse_scale
from ._trace.trace import Code, device_name

__all__ = ["column_sums"]

# Kernels that are loaded, by what they are specialised on and their device.
_kernels: Dict[Tuple[Specialization, int], Any] = {}
contexts.on_configure.append(_kernels.clear)

_PER = {"query_head": library.COLUMN_SUMS, "key_head": library.GROUP_COLUMN_SUMS}


def column_sums(q: Any, k: Any, lse: Any, *, causal: bool = False, window: Window = None,
                scale: Optional[float] = None, mask: Any = None, score: Optional[Callable[..., Any]] = None,
                enable_gqa: bool = False, per: str = "query_head", layout: str = "bhsd", out: Any = None,
                schedule: Optional[str] = None, static_shapes: bool = False) -> Any:
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
    if per not in _PER:
        raise ArgumentError(f"expected per to be 'query_head' or 'key_head', got {per!r}")
    if schedule is not None:
        encoded("schedule", schedule)
    torch = sys.modules.get("torch")
    if torch is not None and torch.is_grad_enabled():
        for name, x in (("q", q), ("k", k), ("lse", lse)):
            refuse_gradient(name, x)
    source, is_bshd = source_of(q), check_layout(layout)
    q_array = source.describe(q)
    stream = source.current_stream(q_array.device, q_array) if q_array.device != CPU else None
    k_array, lse_array = source_of(k).describe(k, stream), source_of(lse).describe(lse, stream)
    extents = check_inputs(q_array, k_array, None, is_bshd, enable_gqa)
    _check_lse(lse_array, extents, q_array)
    code = make_code(mask, score, extents, q_array.device, stream)
    for array in (k_array, lse_array, *code.arrays):
        wait_for(array, stream)
    heads = extents.query_heads if per == "query_head" else extents.key_heads
    c, c_array = _make_result(out, source, q, q_array, (extents.batch, heads, extents.keys),
                              (q_array, k_array, lse_array, *code.arrays), stream)
    kind, bounds = parse_mask(causal, window)
    factor = parse_scale(scale, extents.head_dim)
    if 0 in q_array.shape or 0 in k_array.shape:
        source_of(c).fill(c, 0.0)
        return c
    for name, x in (("q", q_array), ("k", k_array), ("lse", lse_array)):
        if not x.address:
            raise ArgumentError(f"expected {name} with elements in memory, got an address of 0")
    specialization = Specialization(
        q_array.dtype, extents.head_dim, extents.head_dim, extents.query_heads // extents.key_heads, factor, kind,
        bounds, code.mask, code.score, code.captures,
        (extents.batch, extents.key_heads, extents.queries, extents.keys) if is_static else (ANY,) * 4,
        CPU_TARGET if q_array.device == CPU else GPU_TARGET, schedule, False, _PER[per])
    if code.needs:
        code.check((extents.batch, extents.query_heads, extents.queries, extents.keys))
    _run(specialization, (q_array, k_array), lse_array, code, c_array, is_bshd, stream or 0)
    return c


def _check_lse(lse: Array, extents: Extents, q: Array) -> None:
    shape = (extents.batch, extents.query_heads, extents.queries)
    if tuple(lse.shape) != shape:
        raise ArgumentError(f"expected lse of shape [B, Hq, Nq] = {list(shape)}, got {tuple(lse.shape)}")
    if lse.dtype != "f32":
        raise UnsupportedTypeError(f"expected lse of f32, got {lse.dtype}")
    if lse.device != q.device:
        raise ArgumentError(f"expected lse on {device_name(q.device)}, where q is, got one on "
                            f"{device_name(lse.device)}")
    if lse.strides[2] != 1 and shape[2] > 1:
        raise ArgumentError(f"expected the last dimension of lse to be contiguous (stride 1), got stride "
                            f"{lse.strides[2]}; make a contiguous copy")


def _make_result(out: Any, source: Source, like: Any, q: Array, shape: Tuple[int, int, int],
                 inputs: Sequence[Array], stream: Optional[int]) -> Tuple[Any, Array]:
    """The caller's array, checked, or a new one."""
    if out is None:
        out = source.empty(like, shape, "f32")
        return out, source.describe(out, stream)
    array = _read_result("out", out, shape, "f32", q, stream)
    if find_shared(array, None, inputs) is not None:
        raise ArgumentError("expected out to be apart from what is read while it is written, got arrays that share "
                            "memory")
    return out, array


def _run(specialization: Specialization, factors: Sequence[Array], lse: Array, code: Code, c: Array,
         is_bshd: bool, stream: int) -> None:
    key = specialization, c.device
    kernel = _kernels.get(key)
    if kernel is None:
        kernel = _kernels.setdefault(key, specialization.compile().load(c.device))
    frame = _Frame(specialization.ranks)
    numbers: List[int] = []
    for x in factors:
        numbers += (*canonical(x.shape, is_bshd), *canonical(unit_strides(x), is_bshd))
    numbers += (*lse.shape, *unit_strides(lse))
    for one in code.bound:
        numbers += (*one.extents, *one.strides)
    numbers += (*c.shape, *unit_strides(c))
    frame.set_numbers(numbers)
    addresses = [(x.address, 0) for x in (*factors, lse)]
    addresses += [(one.address, _signed(one.scalar)) for one in code.bound] + [(c.address, 0)]
    for number, (address, scalar) in enumerate(addresses):
        frame.words[number * _WORDS], frame.words[number * _WORDS + 4] = address, scalar
    status = _launch(kernel.handle.ptr, frame.address, frame.count, stream, frame.message)
    if status:
        frame.fail(status)
