"""flashc.append_kv: writes new tokens into a cache of keys and values, in place."""
from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple

from ._arrays.array import spoken
from ._arrays.integers import array_of, table_of
from ._arrays.overlap import find_shared
from ._arrays.protocol import ArrayLike, IntegersLike
from ._rotary import angles_of, check_angles, rotated
from ._runtime.calls import Case, Inputs, case_of, is_graph
from ._runtime.launch import Result, read_result
from ._runtime.library import ArgumentError, UnsupportedTypeError, parse_flag
from ._runtime.plain import Append
from ._runtime.public import public
from ._runtime.scales import EIGHT_BITS, read_scales
from ._runtime.specialization import target_of

_DTYPES = "bf16", "f16", "f32"


@public
def append_kv(k_cache: ArrayLike, v_cache: ArrayLike, k: ArrayLike, v: ArrayLike,
              block_table: Optional[IntegersLike] = None, positions: Optional[IntegersLike] = None, *,
              rotary: Optional[Tuple[ArrayLike, ArrayLike, bool]] = None, counts: Optional[IntegersLike] = None,
              k_scale: Optional[ArrayLike] = None, v_scale: Optional[ArrayLike] = None,
              cache_batch_idx: Optional[IntegersLike] = None, leftpad: Optional[IntegersLike] = None,
              q: Optional[ArrayLike] = None, cu_seqlens: Optional[IntegersLike] = None) -> Any:
    """Writes new tokens into a cache of keys and values, in place.

        flashc.append_kv(k_cache, v_cache, k, v, block_table, lengths)      # token t of b goes to lengths[b] + t

    Args:
        k_cache, v_cache: with a block table, pages: [pages, page, Hk, D] and [pages, page, Hk, Dv]. Without one, a row
            of tokens for each sequence: [B, N, Hk, D] and [B, N, Hk, Dv]. The last stride must be 1, others may be any:
            pass `cache.transpose(1, 2)` for a cache of [pages, Hk, page, D], and `cache[:, 0]` and `cache[:, 1]` for a
            cache that holds both.
        k, v: the new tokens, [B, T, Hk, D] and [B, T, Hk, Dv], of the caches' type: bf16, f16 or f32.
        block_table: [B, M] in int32, or None: the pages of each sequence, in order. block_table, positions and counts
            may also have other integer types, or be lists.
        positions: [B] in int32: where the first new token of each sequence goes.
        rotary: (cos, sin, interleaved), or None: keys are rotated by the row of their position. cos and sin are
            [positions, R / 2] in f32 or the caches' type, and the first R columns of a key are rotated: columns 2 c and
            2 c + 1 are a pair if `interleaved` (GPT-J), and c and c + R / 2 otherwise (Llama, GPT-NeoX).
        counts: [B] in int32, or None: how many of the T tokens each sequence has; the others are not written.
        k_scale, v_scale: the scales of caches of float8_e4m3fn or int8, as for `flashc.decode`: each number is divided
            by its scale, rounded to the nearest, saturated, and stored.
        cache_batch_idx: [B] of integers, without a block_table: sequence b is the row cache_batch_idx[b] of caches that
            may have more rows than B.
        leftpad: [B] of integers: sequence b begins at row leftpad[b] of its cache. `positions` still counts rows of the
            cache, but rotation counts positions from the beginning of the sequence.
        q: [B, T, Hq, D], or None: queries of the new tokens, to be rotated by the same positions into a new array. q
            requires rotary.

        cu_seqlens: [B + 1] in int32, ascending from 0 to total, or None: k and v are packed, [total, Hk, D] and [total,
            Hk, Dv], and sequence b has rows cu_seqlens[b] to cu_seqlens[b + 1] - 1, as for `flashc.decode`. Rows from
            cu_seqlens[B] on are not written. Not together with counts and q.

    Returns:
        The rotated queries where q is given; otherwise None.

    A token is not written if its position is negative or has no place: no page in the table, no row in the cache, or no
    row in cos. It is not written either if its entry in the table is no page. Positions, counts and the table are only
    read on the device, so the call can be captured in a CUDA graph. Under torch.compile and torch.export the call is
    `torch.ops.flashc.append_kv`.

    Raises:
        as `flashc.attention`.
    """
    if positions is None:
        raise ArgumentError("expected positions, [B] in int32, got None")
    positions, counts = array_of("positions", positions, k), array_of("counts", counts, k)
    block_table = array_of("block_table", block_table, k)
    if cache_batch_idx is not None:
        block_table = table_of("cache_batch_idx", cache_batch_idx, block_table, k)
    cu_seqlens = array_of("cu_seqlens", cu_seqlens, k)
    if cu_seqlens is not None and (counts is not None or q is not None):
        raise ArgumentError("expected no counts and no q together with cu_seqlens, which gives each sequence its rows")
    if q is not None and rotary is None:
        raise ArgumentError("expected rotary together with q, which is rotated, got None")
    # Only rotation depends on where sequences begin.
    leftpad = None if rotary is None else array_of("leftpad", leftpad, k)
    arrays = Tokens(k, v, positions, counts, block_table, leftpad, *angles_of(rotary), k_scale, v_scale,
                    cu_seqlens)
    is_interleaved = rotary is not None and parse_flag("interleaved", rotary[2])
    if is_graph(k):
        from . import _torch_serving
        _torch_serving.append_kv(k_cache, v_cache, arrays, is_interleaved)
    else:
        append_now(k_cache, v_cache, arrays, is_interleaved)
    return None if q is None else rotated(q, positions if leftpad is None else positions - leftpad, rotary)


class Tokens(NamedTuple):
    """The arrays of a call besides the caches, by their names in the manifest."""
    k: Any
    v: Any
    positions: Any
    counts: Any = None
    block_table: Any = None
    leftpad: Any = None
    cos: Any = None
    sin: Any = None
    k_scale: Any = None
    v_scale: Any = None
    cu_seqlens: Any = None


def append_now(k_cache: Any, v_cache: Any, tokens: Tokens, is_interleaved: bool) -> None:
    """flashc.append_kv outside of graphs; the PyTorch op calls it."""
    inputs = Inputs(dict(tokens._asdict(), k_cache=k_cache, v_cache=v_cache))
    inputs.narrow("positions", "counts", "block_table", "leftpad", "cu_seqlens")
    case = case_of(append_case, inputs, is_interleaved)
    _check_caches(inputs)
    if not case.is_empty:  # Without tokens, or without rows for them, nothing is written.
        case(inputs)


def append_case(inputs: Inputs, is_interleaved: bool) -> Case:
    new, value = inputs["k"], inputs["v"]
    is_packed = "cu_seqlens" in inputs
    if len(new.shape) != 4 - is_packed or len(value.shape) != 4 - is_packed:
        order = "3 dimensions [total, Hk, D] together with cu_seqlens" if is_packed else "4 dimensions [B, T, Hk, D]"
        raise ArgumentError(f"expected k and v of {order}, got shapes {tuple(new.shape)} and {tuple(value.shape)}")
    if new.dtype not in _DTYPES:
        raise UnsupportedTypeError(f"expected k of bf16, f16 or f32, got {spoken(new.dtype)}")
    _check(inputs)
    cache = inputs["k_cache"]
    pages = cache.shape[0] if "block_table" in inputs and cache.shape else 1
    scales = read_scales(inputs, "k", cache.dtype, pages, new.shape[-2])
    cache_dtype = cache.dtype if cache.dtype in EIGHT_BITS else None
    for name, like in (("k_cache", "k"), ("v_cache", "v")):
        _check_cache(name, inputs, like, cache_dtype or new.dtype)
    if tuple(cache.shape[:3]) != tuple(inputs["v_cache"].shape[:3]):
        raise ArgumentError(f"expected k_cache and v_cache of one shape but for D, got {tuple(cache.shape)} and "
                            f"{tuple(inputs['v_cache'].shape)}")
    angles = inputs.arrays.get("cos")
    kernel = Append(target_of(inputs.device), new.dtype, new.shape[-1], value.shape[-1], "block_table" in inputs,
                    "counts" in inputs, 0 if angles is None else 2 * angles.shape[1],
                    new.dtype if angles is None else angles.dtype, is_interleaved, "leftpad" in inputs, cache_dtype,
                    scales, is_packed)
    case = Case(inputs, kernel, [])
    case.aliases = {"table": "block_table", "offsets": "cu_seqlens"}
    case.is_empty = any(0 in inputs[name].shape for name in ("k", "k_cache", "v_cache", "block_table", "cos")
                        if name in inputs)
    return case


def _check(inputs: Inputs) -> None:
    """Refuses inputs whose shapes or element types do not match k."""
    new, positions = inputs["k"], inputs["positions"].shape
    is_packed = "cu_seqlens" in inputs
    batch = new.shape[0] if not is_packed else positions[0] if len(positions) == 1 else -1
    order = "[total, Hk" if is_packed else "[B, T, Hk"
    inputs.check("k", "k", new.dtype, f"{order}, D]", new.shape)
    inputs.check("v", "k", new.dtype, f"{order}, Dv]", (*new.shape[:-1], inputs["v"].shape[-1]))
    for name in ("positions", "counts", "leftpad"):
        if name in inputs:
            inputs.check(name, "k", "i32", "[B]", (batch,))
    if is_packed:
        inputs.check("cu_seqlens", "k", "i32", "[B + 1]", (batch + 1,))
    if "block_table" in inputs:
        table = inputs["block_table"].shape
        inputs.check("block_table", "k", "i32", "[B, M]", (batch, table[1] if len(table) == 2 else -1))
    check_angles(inputs, "k")


def _check_cache(name: str, inputs: Inputs, like: str, dtype: str) -> None:
    """Refuses a cache whose shape or element type does not match `like`."""
    array, new = inputs[name], inputs[like]
    order = "[pages, page, Hk, D]" if "block_table" in inputs else "[B, N, Hk, D]"
    first = inputs["positions"].shape[0] if "block_table" not in inputs else array.shape[0] if array.shape else 0
    if len(array.shape) != 4 or array.shape[0] != first or tuple(array.shape[2:]) != tuple(new.shape[-2:]):
        raise ArgumentError(f"expected {name} of shape {order} for {like} of shape {tuple(new.shape)}, got "
                            f"{tuple(array.shape)}")
    read_result(Result(name, name, "k", tuple(array.shape), dtype), inputs.owners[name], inputs.device, inputs.stream)


def _check_caches(inputs: Inputs) -> None:
    """Refuses caches that are read-only, or share memory with each other or with another input."""
    for name, others in (("k_cache", list(inputs.arrays)), ("v_cache", list(inputs.arrays)[:-2])):
        cache = inputs[name]
        if cache.readonly:
            raise ArgumentError(f"expected {name} to be an array that can be written")
        others = [other for other in others if other != name]
        shared = find_shared(cache, [inputs[other] for other in others])
        if shared is not None:
            raise ArgumentError(f"expected {name} to be apart from {others[shared]}, got arrays that share memory")
