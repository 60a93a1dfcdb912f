"""flashc.append_kv: new tokens go into a cache of keys and values, in place."""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

from ._arrays.array import Array, spoken
from ._arrays.integers import array_of, table_of
from ._arrays.overlap import find_shared
from ._arrays.protocol import ArrayLike, IntegersLike
from ._arrays.source import source_of
from ._rotary import Rotary, check_angles, parts_of, rotated
from ._runtime import plain
from ._runtime.calls import Inputs, is_graph
from ._runtime.launch import _read_result
from ._runtime.library import ArgumentError, UnsupportedTypeError, parse_flag
from ._runtime.public import public
from ._runtime.scales import EIGHT_BITS, read_scales
from ._trace.trace import device_name

__all__ = ["append_kv"]

_DTYPES = "bf16", "f16", "f32"


@public
def append_kv(k_cache: ArrayLike, v_cache: ArrayLike, k: ArrayLike, v: ArrayLike,
              block_table: Optional[IntegersLike] = None, positions: Optional[IntegersLike] = None, *,
              rotary: Optional[Tuple[ArrayLike, ArrayLike, bool]] = None, counts: Optional[IntegersLike] = None,
              k_scale: Optional[ArrayLike] = None, v_scale: Optional[ArrayLike] = None,
              cache_batch_idx: Optional[IntegersLike] = None, leftpad: Optional[IntegersLike] = None,
              q: Optional[ArrayLike] = None) -> Any:
    """Writes new tokens into a cache of keys and values, in place.

        flashc.append_kv(k_cache, v_cache, k, v, block_table, lengths)      # token t of b goes to lengths[b] + t

    Args:
        k_cache, v_cache: with a block table pages, [pages, page, Hk, D] and [pages, page, Hk, Dv]; without one a row of
            tokens for each sequence, [B, N, Hk, D] and [B, N, Hk, Dv]. Any strides do whose last is 1: pass
            `cache.transpose(1, 2)` for one of [pages, Hk, page, D], and `cache[:, 0]` and `cache[:, 1]` for one that has
            both.
        k, v: the new tokens, [B, T, Hk, D] and [B, T, Hk, Dv], of the caches' type: bf16, f16 or f32.
        block_table: [B, M] in int32, or None: the pages of each sequence, in order. It, positions and counts may be of
            other integers, or lists, too.
        positions: [B] in int32: where the first new token of each sequence goes.
        rotary: (cos, sin, interleaved), or None: keys are rotated by the row of their position. cos and sin are
            [positions, R / 2] in f32 or the caches' type, and the first R columns of a key are rotated: columns 2 c and
            2 c + 1 are a pair if `interleaved` (GPT-J), and c and c + R / 2 otherwise (Llama, GPT-NeoX).
        counts: [B] in int32, or None: how many of the T tokens each sequence has; the others are not written.
        k_scale, v_scale: of caches of float8_e4m3fn or int8, as for `flashc.decode`: what is stored is the number over
            its scale, rounded to the nearest and saturated.
        cache_batch_idx: [B] of integers, without a block_table: sequence b is the row cache_batch_idx[b] of caches that
            may have more rows than B.
        leftpad: [B] of integers: sequence b begins at row leftpad[b] of its cache, which positions count in. Rotation
            counts from there.
        q: [B, T, Hq, D], or None: queries of the new tokens, to be rotated by the same positions into a new array. It
            needs rotary.

    Returns:
        The rotated queries where q is given; otherwise None.

    A token whose position is negative, or has no page or row in the table, the cache or cos, is not written, and neither
    is one whose entry in the table is no page. Positions, counts and the table are read on the device only, so that the
    call can be captured in a CUDA graph. Under torch.compile and torch.export it is `torch.ops.flashc.append_kv`.

    Raises:
        as `flashc.attention`.
    """
    if positions is None:
        raise ArgumentError("expected positions, [B] in int32, got None")
    positions, counts = array_of("positions", positions, k), array_of("counts", counts, k)
    block_table = array_of("block_table", block_table, k)
    if cache_batch_idx is not None:
        block_table = table_of("cache_batch_idx", cache_batch_idx, block_table, k)
    if q is not None and rotary is None:
        raise ArgumentError("expected rotary together with q, which is rotated, got None")
    # Rotation alone depends on where sequences begin.
    leftpad = None if rotary is None else array_of("leftpad", leftpad, k)
    parts_of(rotary)
    if is_graph(k):
        from . import _torch_serving
        append: Callable[..., None] = _torch_serving.append_kv
    else:
        append = append_now
    append(k_cache, v_cache, k, v, block_table, positions, rotary=rotary, counts=counts, k_scale=k_scale,
           v_scale=v_scale, leftpad=leftpad)
    return None if q is None else rotated(q, positions if leftpad is None else positions - leftpad, rotary)


def append_now(k_cache: Any, v_cache: Any, k: Any, v: Any, block_table: Any, positions: Any,
               rotary: Rotary = None, counts: Any = None, k_scale: Any = None, v_scale: Any = None,
               leftpad: Any = None) -> None:
    """flashc.append_kv without a look at graphs under construction: for the op."""
    given = dict(k=k, v=v, positions=positions, counts=counts, block_table=block_table, leftpad=leftpad,
                 **parts_of(rotary), k_scale=k_scale, v_scale=v_scale)
    inputs = Inputs(**{name: x for name, x in given.items() if x is not None or name in ("k", "v")})
    inputs.narrow("positions", "counts", "block_table", "leftpad")
    new = inputs["k"]
    if len(new.shape) != 4 or len(inputs["v"].shape) != 4:
        raise ArgumentError(f"expected k and v of 4 dimensions [B, T, Hk, D], got shapes {tuple(new.shape)} and "
                            f"{tuple(inputs['v'].shape)}")
    if new.dtype not in _DTYPES:
        raise UnsupportedTypeError(f"expected k of bf16, f16 or f32, got {spoken(new.dtype)}")
    _check(inputs)
    cache_dtype, scales = _read_scales(k_cache, inputs)
    caches = [_read_cache(name, x, inputs, like, cache_dtype or new.dtype)
              for name, x, like in (("k_cache", k_cache, "k"), ("v_cache", v_cache, "v"))]
    _check_caches(caches, inputs)
    if 0 in new.shape or any(0 in x.shape for x in caches) or 0 in _get(inputs, "block_table") + _get(inputs, "cos"):
        return  # without a place nothing is written
    inputs.check_addresses()
    angles = inputs.arrays.get("cos", new)
    kernel = plain.Append(new.dtype, new.shape[3], inputs["v"].shape[3], block_table is not None, counts is not None,
                          0 if rotary is None else 2 * angles.shape[1], angles.dtype,
                          rotary is not None and parse_flag("interleaved", rotary[2]), leftpad is not None, cache_dtype,
                          scales)
    plain.launch(kernel, [*inputs.arrays.values(), *caches], inputs.device, inputs.stream)


def _read_scales(k_cache: Any, inputs: Inputs) -> Tuple[Optional[str], Tuple[bool, bool]]:
    """The element type of caches of 8 bits, or None, and whether pages and key heads have scales of their own."""
    array = source_of(k_cache).describe(k_cache, inputs.stream)
    pages = array.shape[0] if "block_table" in inputs.arrays and array.shape else 1
    scales = read_scales(inputs, "k", array.dtype, pages, inputs["k"].shape[2])
    return (array.dtype if array.dtype in EIGHT_BITS else None), scales


def _get(inputs: Inputs, name: str) -> Tuple[int, ...]:
    """The extents of an input; none if it is not given."""
    return tuple(inputs[name].shape) if name in inputs.arrays else ()


def _check(inputs: Inputs) -> None:
    """What can be said about the inputs alone."""
    new = inputs["k"]
    batch, tokens, heads, _ = new.shape
    inputs.check("k", "k", new.dtype, "[B, T, Hk, D]", new.shape)
    inputs.check("v", "k", new.dtype, "[B, T, Hk, Dv]", (batch, tokens, heads, inputs["v"].shape[3]))
    for name in ("positions", "counts", "leftpad"):
        if name in inputs.arrays:
            inputs.check(name, "k", "i32", "[B]", (batch,))
    if "block_table" in inputs.arrays:
        table = _get(inputs, "block_table")
        inputs.check("block_table", "k", "i32", "[B, M]", (batch, table[1] if len(table) == 2 else -1))
    check_angles(inputs, "k")


def _read_cache(name: str, x: Any, inputs: Inputs, like: str, dtype: str) -> Array:
    """A cache, checked, as far as one cache can be."""
    array, new = source_of(x).describe(x, inputs.stream), inputs[like]
    order = "[pages, page, Hk, D]" if "block_table" in inputs.arrays else "[B, N, Hk, D]"
    first = new.shape[0] if "block_table" not in inputs.arrays else array.shape[0] if array.shape else 0
    if len(array.shape) != 4 or array.shape[0] != first or tuple(array.shape[2:]) != tuple(new.shape[2:]):
        raise ArgumentError(f"expected {name} of shape {order} for {like} of shape {tuple(new.shape)}, got "
                            f"{tuple(array.shape)}")
    if array.device != new.device:
        raise ArgumentError(f"expected {name} on {device_name(new.device)}, where k is, got one on "
                            f"{device_name(array.device)}")
    return _read_result(name, x, tuple(array.shape), dtype, new, inputs.stream)


def _check_caches(caches: List[Array], inputs: Inputs) -> None:
    k_cache, v_cache = caches
    if tuple(k_cache.shape[:3]) != tuple(v_cache.shape[:3]):
        raise ArgumentError(f"expected k_cache and v_cache of one shape but for D, got {tuple(k_cache.shape)} and "
                            f"{tuple(v_cache.shape)}")
    others = [*inputs.arrays.items(), ("v_cache", v_cache)]
    for name, cache in (("k_cache", k_cache), ("v_cache", v_cache)):
        for other, x in others:
            if x is not cache and find_shared(cache, None, [x]) is not None:
                raise ArgumentError(f"expected {name} to be apart from {other}, got arrays that share memory")
