"""flashc.decode: attention of the last tokens of sequences to their caches."""
from __future__ import annotations

from typing import Any, Callable, ContextManager, Dict, NamedTuple, Optional, Tuple

from . import ops
from ._arrays.array import CPU, Array, check_contiguous, spoken
from ._arrays.cuda import capability_of, multiprocessors_of
from ._arrays.integers import array_of, check_elements, table_of
from ._arrays.protocol import ArrayLike, IntegersLike
from ._arrays.source import described_array
from ._cache_values import check_cache_values
from ._rotary import rotated
from ._runtime import contexts, library
from ._runtime.calls import Case, Inputs, attention_case, case_of, is_graph
from ._runtime.launch import attention_results, shape_of, split_out
from ._runtime.library import ArgumentError, UnsupportedTypeError, described
from ._runtime.options import Operands, Options, Window, check_layout
from ._runtime.public import public
from ._runtime.scales import EIGHT_BITS, read_scales
from ._runtime.specialization import NO_CODE, Extents, Specialization, check_inputs, make_code, specialize, sum_dtype, \
    target_of
from ._runtime.vectors import check_vectors
from ._trace.code import Code
from ._trace.region import get_trace
from ._trace.trace import Lengths, call_mask, call_score


@public
def decode(q: ArrayLike, k_cache: ArrayLike, v_cache: ArrayLike, lengths: IntegersLike,
           block_table: Optional[IntegersLike] = None, *, causal: bool = True, window: Window = None,
           scale: Optional[float] = None, mask: Optional[Callable[..., Any]] = None,
           score: Optional[Callable[..., Any]] = None, sinks: Optional[ArrayLike] = None, return_lse: bool = False,
           k_scale: Optional[ArrayLike] = None, v_scale: Optional[ArrayLike] = None, layout: str = "bshd",
           splits: Optional[int] = None, batch_invariant: bool = False, out: Any = None,
           schedule: Optional[str] = None, rotary: Optional[Tuple[ArrayLike, ArrayLike, bool]] = None,
           cache_batch_idx: Optional[IntegersLike] = None, leftpad: Optional[IntegersLike] = None,
           cu_seqlens_q: Optional[IntegersLike] = None) -> Any:
    """Attention of the last tokens of each sequence to its cached keys and values: the result of
    `flash_attn.flash_attn_with_kvcache(q, k_cache, v_cache, cache_seqlens=lengths, block_table=block_table)`, with the
    tokens of q already in the cache (`flashc.append_kv`). T is one token, a few, or thousands: prefill and chunked
    prefill are the same call. If the query heads of a group times T are more than 16, either a decoding kernel or the
    forward kernel reads the cache, by their estimated times (docs/decode.md). One forward kernel serves all such T.

    Query t of T has position lengths[b] - T + t in its sequence. In masks and scores, i and j are positions in the
    sequence, and `flashc.ops.key_length()` is lengths[b], so named masks need no alignment. Rows of the caches after a
    sequence's end, and pages of other sequences, are never used, whatever they hold. Rows before the first key that the
    window or the mask lets any query see are not used either: their pages may be free, and their entries in the table
    may be anything, such as -1.

    Args:
        q: [B, T, Hq, D]: the last T tokens of each sequence. bf16 or f16; on the CPU f32, too.
        k_cache, v_cache: [B, N, Hk, D] and [B, N, Hk, Dv], or with a block_table [pages, page_size, Hk, D] and
            [pages, page_size, Hk, Dv]. The last dimension must be contiguous, and other strides must be multiples of 16
            bytes: K and V may be interleaved. Pages of a multiple of 16 rows are the fastest; for prefill, of a
            multiple of 8. Caches may also be float8_e4m3fn or int8, with k_scale and v_scale; D and Dv are then
            multiples of 16.
        lengths: [B] in int32, or other integers, or a list: tokens of each sequence, those of q among them; from 0 to
            N, or page_size * M. A query whose position is negative sees nothing. (`cache_seqlens` of FlashAttention,
            after the new tokens.)
        block_table: [B, M] in int32, or other integers, or lists: the pages of each sequence, in order. Entries after
            a sequence's last page are not used.
        causal: query i sees key j when j <= i.
        window: (left, right), or left alone: query i sees key j when -left <= j - i <= right, as in `flashc.attention`.
        scale, mask, score, sinks, return_lse: as in `flashc.attention`; mask is a function.
        k_scale, v_scale: for caches of 8 bits, the factors by which their elements are multiplied, in float32: [] for
            one factor, [Hk] for one per key head, [pages, 1] or [pages, Hk] for each page (which has a multiple of 16
            rows on a GPU).
        layout: "bshd" as above, or "bhsd": q [B, Hq, T, D], caches [B, Hk, N, D] or [pages, Hk, page_size, D].
        splits: the number of parts that the keys of a sequence are cut into; parts run in parallel and are merged.
            None: a cost model chooses, from the shapes alone (docs/decode.md).
        batch_invariant: the bits of a row depend only on its own sequence and on T, and not on the rest of the batch.
            Parts then have 1024 keys, or there is one part. With cu_seqlens_q there is one part, and T does not matter.
        out: arrays for the result: o, or (o, lse).
        schedule: overrides of the schedule of decoding kernels, such as "warps=4,stages=3", or of forward ones.
        rotary: (cos, sin, interleaved), or None: another kernel first rotates q by its positions into a copy, as
            `flashc.append_kv` rotates keys.
        cache_batch_idx: [B] of integers, without a block_table: sequence b is the row cache_batch_idx[b] of caches that
            may have more rows than B. Kernels are then compiled for N.
        leftpad: [B] of integers: sequence b begins at row leftpad[b] of its cache. `lengths` still counts rows of the
            cache, but positions in masks, scores and rotation, and `flashc.ops.key_length()`, count from that row.
        cu_seqlens_q: [B + 1] of integers, for sequences with different numbers of queries: q is [total, Hq, D], and
            sequence b has its rows from cu_seqlens_q[b] to cu_seqlens_q[b + 1] - 1, from none up. The offsets begin
            with 0 and ascend; rows after the last one see nothing. Needs layout="bshd" and no rotary. On a GPU only the
            forward kernel reads caches with such queries: caches of q's type, and pages of a multiple of 8 rows.

    Returns:
        o, of q's shape with Dv for D; with `return_lse` (o, lse), lse in f32: [B, Hq, T] in either layout, or
        [Hq, total] with cu_seqlens_q. A query that sees nothing has o = 0 and lse = -inf, or its head's sink.

    No decision depends on the elements of arrays on a GPU: calls may be captured in CUDA graphs, and replayed with
    other lengths. Under torch.compile and torch.export a call is `torch.ops.flashc.decode`, without out and schedule.

    Raises:
        flashc.ArgumentError: as `flashc.attention`; elements of lengths, cache_batch_idx and leftpad on the CPU that
            are out of range; a cu_seqlens_q on the CPU that does not ascend from 0 to total at most; entries of a
            block_table on the CPU that are no pages although a query sees keys there (with a mask, such keys are NaN).
            The elements of arrays on a GPU are not checked.
        flashc.UnsupportedTypeError, flashc.TraceError, flashc.CompileError, flashc.GPUError: as `flashc.attention`.
    """
    if mask is not None and not callable(mask):
        raise UnsupportedTypeError(f"expected mask to be a function (b, h, i, j) of positions, got {mask!r}")
    lengths, block_table = array_of("lengths", lengths, q), array_of("block_table", block_table, q)
    if cu_seqlens_q is not None:
        cu_seqlens_q = array_of("cu_seqlens_q", cu_seqlens_q, q)
        if rotary is not None or not check_layout(layout):
            raise ArgumentError("expected layout=\"bshd\" and no rotary together with cu_seqlens_q")
    if cache_batch_idx is not None:
        block_table = table_of("cache_batch_idx", cache_batch_idx, block_table, q)
        if not is_graph(q):
            check_elements("cache_batch_idx", block_table[:, 0], described_array("k_cache", k_cache).shape[0])
    if leftpad is not None:
        leftpad = array_of("leftpad", leftpad, q)
        if not is_graph(q):
            check_elements("leftpad", leftpad)
        mask, score = _from_leftpad(leftpad, mask, score)
    if rotary is not None:
        is_bshd = check_layout(layout)
        for name, x in (("q", q), ("lengths", lengths)):
            if not hasattr(x, "shape"):
                described_array(name, x)  # This raises an error that says what x is.
        if len(q.shape) != 4:
            raise ArgumentError(f"expected q of 4 dimensions, got shape {tuple(q.shape)}")
        first = lengths - q.shape[1 if is_bshd else 2]
        q = rotated(q, first if leftpad is None else first - leftpad, rotary, is_bshd)
    operands = Operands(q, k_cache, v_cache, mask, score, sinks)
    cache = Cache(lengths, block_table, k_scale, v_scale, cu_seqlens_q)
    options = Options(causal, window, scale, 0.0, True, return_lse, layout, schedule, splits=splits,
                      batch_invariant=batch_invariant)
    if is_graph(q):
        if out is not None or schedule is not None:
            raise ArgumentError("expected no out or schedule while PyTorch traces a graph")
        from . import _torch_serving
        return _torch_serving.decode(operands, options, cache)
    return decode_now(operands, options, cache, out)


class Cache(NamedTuple):
    """The arrays that describe a cache, except its keys and values."""
    lengths: Any
    block_table: Any = None
    k_scale: Any = None
    v_scale: Any = None
    cu_seqlens_q: Any = None


def _from_leftpad(leftpad: Any, mask: Any, score: Any) -> Tuple[Any, Any]:
    """Returns the mask and the score as functions of rows of the caches. `leftpad` has the first row of each
    sequence."""
    def keep(b, h, i, j):
        begin = ops.array(leftpad)[b]
        is_inside = j >= begin
        if mask is None:
            return is_inside
        with _of_sequence_from(begin):
            return is_inside & call_mask(mask, b, h, i - begin, j - begin)

    def rescore(s, b, h, i, j):
        begin = ops.array(leftpad)[b]
        with _of_sequence_from(begin):
            return call_score(score, s, b, h, i - begin, j - begin)
    return keep, None if score is None else rescore


def _of_sequence_from(begin: Any) -> ContextManager[None]:
    """Returns a context in which `flashc.ops.key_length()` is the length of a sequence that begins at row `begin`."""
    trace = get_trace("leftpad")
    queries, keys, shift = trace.query_length(), trace.key_length(), trace.shift()
    return trace.of_sequence(Lengths(lambda: queries, lambda: keys - begin, lambda: shift))


def decode_now(operands: Operands, options: Options, cache: Cache, out: Any = None,
               records: Optional[bool] = None) -> Any:
    """Computes flashc.decode outside of graphs. The PyTorch op calls it too. `records`: as for Inputs.prepare_code."""
    options = options.checked()
    _check_choices(options.splits, options.batch_invariant)
    outs, return_lse = split_out(out) if out is not None else (), options.return_lse
    if outs and outs[1] is not None:
        options = options._replace(return_lse=True)
    lengths, block_table, k_scale, v_scale, cu_seqlens_q = cache
    inputs = Inputs({"q": operands.q, "k_cache": operands.k, "v_cache": operands.v, "lengths": lengths,
                     "block_table": block_table, "k_scale": k_scale, "v_scale": v_scale, "cu_seqlens_q": cu_seqlens_q,
                     "sinks": operands.sinks})
    inputs.narrow("lengths", "block_table", "cu_seqlens_q")
    if operands.sinks is not None:
        inputs.widen("sinks", sum_dtype(inputs["q"].dtype))
    case, code = case_of(_case, inputs, options), NO_CODE
    if operands.mask is not None or operands.score is not None:
        code = _code_of(operands.mask, operands.score, case, inputs)
        inputs.prepare_code(code, records)
    if inputs.device == CPU:
        check_cache_values(inputs, case, operands.mask is not None)
    results = case(inputs, code, outs)
    return tuple(results) if return_lse else results[0]


def _code_of(mask: Any, score: Any, case: Case, inputs: Inputs) -> Code:
    code = make_code(mask, score, case.extents, inputs.device, inputs.stream)
    # The tiles that a mask keeps also depend on the lengths, which a plan does not fix.
    return code if code.plan is None else code._replace(plan=None)


class SharedDecode:
    """Calls of flashc.decode that share lengths, options, mask and score, such as those of all layers of a model in one
    step of generation. The checks of these arguments, and the code of the mask and the score, are made once. Arrays
    that the mask or the score reads are read by every call. The result has no gradient."""
    __slots__ = ("_lengths", "_mask", "_score", "_options", "_cases", "_codes")

    def __init__(self, lengths: Any, options: Options, mask: Any = None, score: Any = None) -> None:
        """`lengths`: [B] in int32. `options`: those of a call with q in order [B, Hq, T, D], without a log-sum-exp."""
        self._lengths, self._mask, self._score, self._options = lengths, mask, score, options.checked()
        # The cases of calls whose strides kernels can read, keyed by what the case depends on.
        self._cases: Dict[Tuple[Any, ...], Case] = {}
        # The code on each device and stream, and whether each call waits for arrays that it reads or refuses them.
        self._codes: Dict[Tuple[Any, ...], Tuple[Code, bool]] = {}

    def __call__(self, q: Any, k_cache: Any, v_cache: Any, sinks: Any = None) -> Any:
        """Returns o, [B, T, Hq, Dv], for PyTorch's tensors q, k_cache and v_cache of order [B, H, N, D]. Other strides
        than those that kernels can read cost a copy."""
        if sinks is not None and sinks.is_floating_point() and sinks.element_size() > 1:
            sinks = sinks.double() if q.element_size() == 8 else sinks.float()  # Most often the same tensor.
        inputs = Inputs({"q": q, "k_cache": k_cache, "v_cache": v_cache, "lengths": self._lengths, "sinks": sinks})
        arrays, key = inputs.arrays, tuple(inputs.signature)
        case = self._cases.get(key)
        if case is None or (arrays["q"][0] | arrays["k_cache"][0] | arrays["v_cache"][0]) % 16:
            from ._torch_tensors import suitable
            read = suitable(q), suitable(k_cache), suitable(v_cache)
            if read[0] is not q or read[1] is not k_cache or read[2] is not v_cache:
                return self(*read, sinks)
            case = self._cases[key] = _case_of_rows(inputs, self._options)
        code = NO_CODE
        if self._mask is not None or self._score is not None:
            place = inputs.device, inputs.stream, arrays["q"].dtype
            found = self._codes.get(place)
            if found is None:
                code = _code_of(self._mask, self._score, case, inputs)
                waits = any([x.stream is not None or getattr(x.owner, "requires_grad", False) for x in code.arrays])
                found = self._codes[place] = code, waits
            code, waits = found
            if waits:
                inputs.prepare_code(code)
        if inputs.device == CPU:
            check_cache_values(inputs, case, self._mask is not None)
        return case(inputs, code)[0]


# Cases of SharedDecode, keyed by all that they depend on except the rows and the strides of the caches, and by the rows
# in steps of _ROWS.
_grown: Dict[Tuple[Any, ...], Case] = {}
_MOST_GROWN = 256
contexts.on_configure.append(_grown.clear)


def _case_of_rows(inputs: Inputs, options: Options) -> Case:
    """Returns the case of a call of SharedDecode. Caches that differ in their rows alone share most of a case, and the
    kernel, so that a cache that grows at each step costs few checks."""
    q, k, v = inputs["q"], inputs["k_cache"], inputs["v_cache"]
    if len(k.shape) != 4 or len(v.shape) != 4 or k.shape[2] != v.shape[2]:
        return _case(inputs, options, "bshd")  # It raises an error.
    rows = k.shape[2]
    others = [(name, inputs.sources[name], x[1:5]) for name, x in inputs.arrays.items() if not name.endswith("_cache")]
    key = (options, *others, inputs.sources["k_cache"], k.shape[:2], k.shape[3], k[3:5], v.shape[:2], v.shape[3],
           v[3:5], inputs.sources["v_cache"], _rounded(rows))
    case = _grown.get(key)
    if case is None:
        if len(_grown) >= _MOST_GROWN:
            _grown.clear()
        case = _grown[key] = _case(inputs, options, "bshd")
        return case
    check_contiguous("k_cache", k)
    check_contiguous("v_cache", v)
    shapes = {"k_cache": shape_of(k, False), "v_cache": shape_of(v, False)}
    return case.resized(case.extents._replace(keys=rows), shapes)


_ROWS = 64


def _rounded(rows: int) -> int:
    """Returns the rows for which a kernel is chosen. A cache that grows by a row at each step has a new choice after
    _ROWS steps."""
    return -(-rows // _ROWS) * _ROWS


def _case(inputs: Inputs, options: Options, layout: Optional[str] = None) -> Case:
    """`layout`: of the result; None: that of the options."""
    device, is_packed, shapes = inputs.device, "cu_seqlens_q" in inputs, None
    if is_packed:
        q = inputs["q"]
        if len(q.shape) != 3:
            raise ArgumentError(f"expected q of 3 dimensions [total, Hq, D] together with cu_seqlens_q, got shape "
                                f"{tuple(q.shape)}")
        shapes = f"got q {tuple(q.shape)} in order [total, Hq, D], k_cache {tuple(inputs['k_cache'].shape)} and " \
            f"v_cache {tuple(inputs['v_cache'].shape)}"
        inputs = inputs.with_batch("q")
    extents, page_size = _check(inputs, options.is_bshd, shapes)
    vectors = check_vectors(inputs, extents)
    cache_dtype, scales = _check_scales(inputs, extents, page_size)
    specialization = specialize(extents, options, _target_of(device), vectors)
    specialization = specialization._replace(page_size=page_size, cache_dtype=cache_dtype, scales=scales,
                                             is_packed=is_packed)
    results = attention_results(extents, options._replace(layout=layout or options.layout), is_packed=is_packed)
    case = attention_case(inputs, specialization, extents, results, options.is_bshd)
    case.window = options.mask()[1]
    case.aliases = {"k": "k_cache", "v": "v_cache"}
    batch = inputs["lengths"].shape[0]
    case.is_empty = case.is_empty or batch == 0 or 0 in inputs["k_cache"].shape
    if is_packed:
        # For arrays that masks and scores read. The number of a sequence's queries is not known here.
        case.extents = extents._replace(batch=batch, queries=1)

    def finish(it: Specialization) -> Specialization:
        is_forward = False
        if device != CPU:
            whole = extents._replace(batch=batch, keys=_rounded(extents.keys))
            kind, text = _choose(it, whole, device, options)
            is_forward = kind == library.FORWARD_KERNEL
            it = it._replace(options=it.options._replace(schedule=text or None))
        return it._replace(extents=(library.ANY, extents.key_heads, library.ANY if is_forward else extents.queries,
                                    library.ANY))
    case.finish = finish
    return case


def _check_choices(splits: Any, batch_invariant: bool) -> None:
    if splits is not None and (isinstance(splits, bool) or not isinstance(splits, int) or splits < 1):
        raise ArgumentError(f"expected splits to be a positive number or None, got {described(splits)}")
    if batch_invariant and splits is not None:
        raise ArgumentError("expected no splits together with batch_invariant, whose parts are of one size")


def _check(inputs: Inputs, is_bshd: bool, shapes: Optional[str]) -> Tuple[Extents, int]:
    """Checks the shapes. Returns the extents of the attention, and the number of rows of a page, or 0 without pages.
    `shapes`: the text of `check_inputs`."""
    q, k, v = inputs["q"], inputs["k_cache"], inputs["v_cache"]
    rows, heads = (1, 2) if is_bshd else (2, 1)
    for name in ("q", "k_cache", "v_cache"):
        if len(inputs[name].shape) != 4:
            raise ArgumentError(f"expected {name} of 4 dimensions, got shape {tuple(inputs[name].shape)}")
    is_packed, page_size, keys = "cu_seqlens_q" in inputs, 0, k.shape[rows]
    batch = _count_sequences(inputs) if is_packed else q.shape[0]
    if "block_table" in inputs:
        table = inputs["block_table"]
        if len(table.shape) != 2:
            raise ArgumentError(f"expected block_table of shape [B, M], got {tuple(table.shape)}")
        inputs.check("block_table", "q", "i32", "[B, M]", (batch, table.shape[1]))
        page_size, keys = k.shape[rows], table.shape[1] * k.shape[rows]
    inputs.check("lengths", "q", "i32", "[B]", (batch,))
    if is_packed:
        inputs.check("cu_seqlens_q", "q", "i32", "[B + 1]", (batch + 1,))
        if not page_size and k.shape[0] != batch:
            raise ArgumentError(f"expected caches of B = {batch} sequences, got shape {tuple(k.shape)}")

    def as_sequences(x: Array) -> Array:
        """Returns the cache as an array [B, N, Hk, D] of q's element type, for check_inputs."""
        shape = list(x.shape)
        if page_size or is_packed:
            shape[0], shape[rows] = q.shape[0], keys
        return x._replace(shape=tuple(shape), dtype=q.dtype if x.dtype in EIGHT_BITS else x.dtype)

    if k.dtype != v.dtype:
        raise UnsupportedTypeError(
            f"expected k_cache and v_cache of one element type, got {spoken(k.dtype)} and {spoken(v.dtype)}")
    if k.shape[0] != v.shape[0] or k.shape[rows] != v.shape[rows]:
        raise ArgumentError(f"expected k_cache and v_cache of as many rows, got {tuple(k.shape)} and {tuple(v.shape)}")
    extents = check_inputs(q, as_sequences(k), as_sequences(v), is_bshd, True, shapes)
    return extents, page_size


def _count_sequences(inputs: Inputs) -> int:
    """Returns the number of sequences that most of the arrays with an element for each sequence have. So a message
    about another number names the array that differs."""
    names = "lengths", "cu_seqlens_q", "block_table" if "block_table" in inputs else "k_cache"
    counts = [(*inputs[name].shape, 0)[0] - (name == "cu_seqlens_q") for name in names]
    return max(counts, key=counts.count)


def _check_scales(inputs: Inputs, extents: Extents, page_size: int) -> Tuple[Optional[str], Tuple[bool, bool]]:
    """Checks the scales, and reshapes them in `inputs` to [1 or pages, 1 or Hk]. Returns the element type of caches of
    8 bits, or None, and whether pages and key heads have separate scales."""
    dtype = inputs["k_cache"].dtype
    scales = read_scales(inputs, "q", dtype, inputs["k_cache"].shape[0] if page_size else 1, extents.key_heads)
    if dtype not in EIGHT_BITS:
        return None, (False, False)
    if extents.head_dim % 16 or extents.value_dim % 16:
        raise ArgumentError(f"expected head dimensions D and Dv of a multiple of 16 for caches of 8 bits, got "
                            f"{extents.head_dim} and {extents.value_dim}")
    if scales[0] and page_size % 16 and inputs.device != CPU:
        raise ArgumentError(f"expected pages of a multiple of 16 rows where each has a scale, got {page_size}")
    return dtype, scales


def _target_of(device: int) -> str:
    """Returns the target for a device. PTX for sm_90a runs only on Hopper; PTX for sm_80 runs on all later GPUs."""
    is_hopper = device == CPU or capability_of(device) == (9, 0)
    return target_of(device) if is_hopper else "sm_80"


# Kernels that were chosen, keyed by the values on which the choice depends.
_plans: Dict[Tuple[Any, ...], Tuple[int, str]] = {}


def _choose(specialization: Specialization, extents: Extents, device: int, options: Options) -> Tuple[int, str]:
    """Returns the kind of the kernel that reads the cache, and its schedule."""
    attention = specialization._replace(extents=(extents.batch, extents.key_heads, extents.queries, extents.keys))
    key = attention, device, options.splits, options.batch_invariant
    plan = _plans.get(key)
    if plan is None:
        launch = library.CacheLaunch(multiprocessors_of(device), options.splits or 0, options.batch_invariant)
        plan = contexts.context().choose_kernel(attention.describe(), launch, attention.target, options.schedule)
        _plans[key] = plan
    return plan
