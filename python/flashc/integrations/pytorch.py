"""PyTorch's flash attention on flashc's kernels: an implementation for `torch.nn.attention`'s registry (PyTorch 2.11).

    import flashc.integrations.pytorch  # registers "flashc"
    torch.nn.attention.activate_flash_attention_impl("flashc")

Importing this module activates nothing. After the activation, the flash operators of PyTorch's dispatcher run flashc's
kernels on CUDA devices; `torch.nn.attention.restore_flash_attention_impl()` brings PyTorch's own kernels back. PyTorch
chooses among its backends for each call of scaled_dot_product_attention. On Hopper it prefers cuDNN, so that the
activation moves the flash operators to the first place of PyTorch's order; restoring puts the former order back.
"""
from __future__ import annotations

import contextlib
import functools
import warnings
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor
from torch.nn import attention as registry

from .. import ops, scores
from .._attention import attention_now
from .._attention_backward import backward_of
from .._decode import Cache, decode_now
from .._packed import Packed
from .._runtime.library import ArgumentError, Error
from .._runtime.options import Operands, Options
from .._runtime.vectors import with_philox
from .._torch_tensors import suitable

if not hasattr(registry, "register_flash_attention_impl"):
    raise ImportError(f"flashc.integrations.pytorch needs PyTorch 2.11 or newer, got {torch.__version__}; flashc.torch "
                      "has replacements for the functions of older versions")

NAME = "flashc"


# --- Options and results ----------------------------------------------------------------------------------------------

@functools.lru_cache(maxsize=1024)
def _options(causal: bool, scale: Optional[float], dropout_p: float, left: Optional[int] = None,
             right: Optional[int] = None, layout: str = "bhsd", deterministic: Optional[bool] = None) -> Options:
    """Returns the checked options of a call. None, or a negative number, for `left` or `right` is no bound."""
    left, right = (-1 if side is None else side for side in (left, right))
    window = None if left < 0 and right < 0 else (left, right)
    return Options(causal, window, scale, dropout_p, True, True, layout, deterministic=deterministic).checked()


#: The orders of dimensions of tensors: those of scaled_dot_product_attention, those of _flash_attention_forward, and
#: those of packed sequences [total, H, D].
_BHSD, _BSHD, _PACKED = "bhsd", "bshd", "packed"


@functools.lru_cache(maxsize=4096)
def _strides(shape: Tuple[int, ...], strides: Tuple[int, ...], columns: int, order: str) -> Optional[Sequence[int]]:
    """Returns the strides that PyTorch's operators give to a result like a tensor of this shape and these strides, with
    `columns` in the last dimension, or None if a new result of flashc has them too."""
    memory = list(range(len(shape)))
    if order is not _PACKED:  # As flashc._runtime.launch.lies_exchanged decides.
        heads, rows = (1, 2) if order is _BHSD else (2, 1)
        is_exchanged = shape[1] > 1 and shape[2] > 1 and strides[heads] < strides[rows]
        memory[1:3] = (rows, heads) if is_exchanged else (heads, rows)
    result = (*shape[:-1], columns)
    if result == shape:
        wanted = torch.empty_like(torch.empty_strided(shape, strides, device="meta")).stride()
    else:
        inward = sorted(range(len(shape)), key=lambda dim: strides[dim] or float("inf"))
        wanted = _strides_in(inward[::-1], result)
    is_same = all(a == b for a, b, extent in zip(wanted, _strides_in(memory, result), result) if extent != 1)
    return None if is_same or 0 in result else wanted


def _strides_in(order: Sequence[int], shape: Sequence[int]) -> Sequence[int]:
    """Returns the strides of a tensor without gaps whose dimensions lie in memory in this order, the innermost last."""
    strides, stride = [0] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = stride
        stride *= shape[dim]
    return tuple(strides)


def _like(x: Tensor, columns: int, order: str) -> Optional[Tensor]:
    """Returns a new result that lies in memory as PyTorch's operators return it, or None if flashc makes it so."""
    if x.is_contiguous():
        return None
    strides = _strides(x.shape, x.stride(), columns, order)
    return None if strides is None else x.new_empty_strided((*x.shape[:-1], columns), strides)


#: Tensors without memory whose properties the last results of the forward operators have, by device and element type.
_states: Dict[Any, Sequence[Tensor]] = {}


def _states_of(query: Tensor, philox: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
    """Returns the last three results of a forward operator: seed and offset [2] in uint64, an unused number, and a mask
    without elements. Without dropout the first one is not initialized. Results with memory are new, since a graph may
    own them."""
    key = query.device, query.dtype
    states = _states.get(key)
    if states is None:
        numbers = [torch.empty(shape, dtype=torch.uint64, device=query.device) for shape in ((2,), ())]
        for x in numbers:
            x.untyped_storage().resize_(0)
        states = _states[key] = (*numbers, torch.empty(0, dtype=query.dtype, device=query.device))
    seed, unused, mask = states
    return (torch.empty_like(seed) if philox is None else philox.view(torch.uint64)), torch.empty_like(unused), mask


# --- Calls of flashc --------------------------------------------------------------------------------------------------

def _readable(tensors: Sequence[Tensor]) -> Optional[List[Tensor]]:
    """Returns the tensors, with copies of those whose strides or addresses kernels cannot read; None if kernels can
    read all of them, or if a last dimension is not contiguous, which PyTorch's operators refuse too."""
    if any([x.stride(-1) != 1 and x.shape[-1] > 1 for x in tensors]):
        return None
    copies = [suitable(x) for x in tensors]
    return None if all([x is y for x, y in zip(tensors, copies)]) else copies


def _attend(operands: Operands, options: Options, out: Any = None) -> Tuple[Tensor, Tensor]:
    """Returns o and the log-sum-exp."""
    try:
        return attention_now(operands, options, out)
    except Error:
        copies = _readable(operands[:3])
        if copies is None:
            raise
    return attention_now(Operands(*copies, *operands[3:]), options, out)


def _differentiate(operands: Operands, options: Options, given: Sequence[Tensor],
                   out: Sequence[Optional[Tensor]]) -> Tuple[Tensor, ...]:
    """Returns dq, dk and dv. `given`: o, the log-sum-exp and the gradient of o, which may have any strides."""
    if torch.is_grad_enabled():  # The caller asks for gradients of gradients, which PyTorch refuses by itself.
        with torch.no_grad():
            return _differentiate(operands, options, given, out)
    o, lse, do = given
    if not do.is_contiguous():
        do = suitable(do)
    try:
        return backward_of(operands, options, (o, lse, do, None), out=out)
    except Error:
        copies = _readable([*operands[:3], o, do])
        if copies is None:
            raise
    q, k, v, o, do = copies
    return backward_of(Operands(q, k, v, *operands[3:]), options, (o, lse.contiguous(), do, None), out=out)


def _out(o: Optional[Tensor]) -> Any:
    return None if o is None else (o, None)


# --- The operators of scaled_dot_product_attention --------------------------------------------------------------------

def sdpa_forward(query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False,
                 return_debug_mask: bool = False, *, scale: Optional[float] = None) -> Tuple[Any, ...]:
    """aten::_scaled_dot_product_flash_attention: query [B, Hq, Nq, D], key [B, Hk, Nk, D], value [B, Hk, Nk, Dv].

    `is_causal` aligns the last query with the last key, as PyTorch's operator does. scaled_dot_product_attention, whose
    `is_causal` aligns the first ones, calls the operator with it only where Nq = Nk.
    """
    if return_debug_mask:
        _refuse_debug_mask()
    operands, options = Operands(query, key, value), _options(is_causal, scale, dropout_p)
    if dropout_p:
        operands = with_philox(operands, options)
    o, lse = _attend(operands, options, _out(_like(query, value.shape[-1], _BHSD)))
    return (o, lse, None, None, query.shape[2], key.shape[2], *_states_of(query, operands.philox))


def sdpa_backward(grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
                  cum_seq_q: Optional[Tensor], cum_seq_k: Optional[Tensor], max_q: int, max_k: int, dropout_p: float,
                  is_causal: bool, philox_seed: Tensor, philox_offset: Tensor, *,
                  scale: Optional[float] = None) -> Tuple[Optional[Tensor], ...]:
    """aten::_scaled_dot_product_flash_attention_backward: the gradients of query, key and value. `philox_seed` holds
    the seed and the offset of the forward pass."""
    if grad_out is None:
        return None, None, None
    options = _options(is_causal, scale, dropout_p, deterministic=torch.are_deterministic_algorithms_enabled())
    operands = Operands(query, key, value, philox=philox_seed.view(torch.int64) if dropout_p else None)
    return _differentiate(operands, options, (out, logsumexp, grad_out),
                          [_like(x, x.shape[-1], _BHSD) for x in (query, key, value)])


def _refuse_debug_mask() -> None:
    raise ArgumentError("expected return_debug_mask=False, got True: flashc does not store the probabilities; "
                        "flashc.dropout_mask computes which ones dropout keeps")


# --- The operators of packed sequences, and of dense tensors [B, N, H, D] ---------------------------------------------

def flash_forward(query: Tensor, key: Tensor, value: Tensor, cum_seq_q: Optional[Tensor], cum_seq_k: Optional[Tensor],
                  max_q: int, max_k: int, dropout_p: float, is_causal: bool, return_debug_mask: bool, *,
                  scale: Optional[float] = None, window_size_left: Optional[int] = None,
                  window_size_right: Optional[int] = None, seqused_k: Optional[Tensor] = None,
                  alibi_slopes: Optional[Tensor] = None, block_table: Optional[Tensor] = None,
                  num_splits: Optional[int] = None) -> Tuple[Tensor, ...]:
    """aten::_flash_attention_forward: query [B, Nq, Hq, D], or packed sequences [total_q, Hq, D] with offsets."""
    o, lse, philox = _flash(None, _Flash(query, key, value, cum_seq_q, cum_seq_k, dropout_p, is_causal,
                                         return_debug_mask, scale, window_size_left, window_size_right, seqused_k,
                                         alibi_slopes, block_table, num_splits))
    return (o, lse, *_states_of(query, philox))


def flash_forward_inplace(out: Tensor, query: Tensor, key: Tensor, value: Tensor, cum_seq_q: Optional[Tensor],
                          cum_seq_k: Optional[Tensor], max_q: int, max_k: int, dropout_p: float, is_causal: bool,
                          return_debug_mask: bool, *, scale: Optional[float] = None,
                          window_size_left: Optional[int] = None, window_size_right: Optional[int] = None,
                          seqused_k: Optional[Tensor] = None, alibi_slopes: Optional[Tensor] = None,
                          block_table: Optional[Tensor] = None, num_splits: Optional[int] = None) -> Tensor:
    """aten::_flash_attention_forward_no_dropout_inplace: writes the result to `out`, returns the log-sum-exp."""
    if dropout_p:
        raise ArgumentError(f"expected dropout_p=0 together with out, got {dropout_p}")
    return _flash(out, _Flash(query, key, value, cum_seq_q, cum_seq_k, dropout_p, is_causal, return_debug_mask, scale,
                              window_size_left, window_size_right, seqused_k, alibi_slopes, block_table,
                              num_splits))[1]


class _Flash(NamedTuple):
    """The arguments of _flash_attention_forward that flashc reads."""
    query: Tensor
    key: Tensor
    value: Tensor
    cum_seq_q: Optional[Tensor]
    cum_seq_k: Optional[Tensor]
    dropout_p: float
    is_causal: bool
    return_debug_mask: bool
    scale: Optional[float]
    left: Optional[int]
    right: Optional[int]
    seqused_k: Optional[Tensor]
    alibi_slopes: Optional[Tensor]
    block_table: Optional[Tensor]
    num_splits: Optional[int]


def _flash(out: Optional[Tensor], call: _Flash) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
    """Returns o, the log-sum-exp, and the seed and the offset of dropout or None. `out`: where o goes, or None."""
    query, key, value, cum_seq_q, cum_seq_k, dropout_p, is_causal, returns_mask, scale, left, right, seqused_k, \
        alibi_slopes, block_table, num_splits = call
    if returns_mask:
        _refuse_debug_mask()
    for name, x in (("seqused_k", seqused_k), ("alibi_slopes", alibi_slopes), ("block_table", block_table)):
        if x is not None:
            _refuse_gradients(name, query, key, value)
    if num_splits is not None and num_splits > 1 and block_table is None:
        raise ArgumentError(f"expected num_splits of at most 1 without block_table, got {num_splits}: the kernel does "
                            "not split the keys of a sequence")
    score = None if alibi_slopes is None else _alibi(alibi_slopes, query.shape[-2], seqused_k, block_table)
    if block_table is not None:
        options = _options(is_causal, scale, 0.0, left, right, "bshd")._replace(splits=num_splits or None)
        return (*_paged(out, Operands(query, key, value, None, score), cum_seq_q, dropout_p, options,
                        Cache(seqused_k, block_table)), None)
    if cum_seq_q is None or cum_seq_k is None:
        for name, x in (("cum_seq_q", cum_seq_q), ("cum_seq_k", cum_seq_k), ("seqused_k", seqused_k)):
            if x is not None:
                raise ArgumentError(f"expected cum_seq_q and cum_seq_k together with {name}, or neither")
        options = _options(is_causal, scale, dropout_p, left, right)
        q, k, v = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
        operands = with_philox(Operands(q, k, v, None, score), options)
        out = _like(query, value.shape[-1], _BSHD) if out is None else out
        o, lse = _attend(operands, options, None if out is None else (out.transpose(1, 2), None))
        return o.transpose(1, 2), lse, operands.philox
    mask = None
    if seqused_k is not None:
        mask, is_causal, left, right = _used(seqused_k, *_options(is_causal, scale, 0.0, left, right).mask()[1]), \
            False, None, None
    options = _options(is_causal, scale, dropout_p, left, right, "bshd")
    operands = with_philox(_packed(query, key, value, cum_seq_q, cum_seq_k, mask, score), options)
    o, lse = _attend(operands, options, _out(_like(query, value.shape[-1], _PACKED) if out is None else out))
    return o, lse, operands.philox


def flash_backward(grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
                   cum_seq_q: Optional[Tensor], cum_seq_k: Optional[Tensor], max_q: int, max_k: int, dropout_p: float,
                   is_causal: bool, rng_state: Tensor, unused: Tensor, *, scale: Optional[float] = None,
                   window_size_left: Optional[int] = None,
                   window_size_right: Optional[int] = None) -> Tuple[Tensor, ...]:
    """aten::_flash_attention_backward: the gradients of query, key and value, in the layouts of `flash_forward`."""
    deterministic = torch.are_deterministic_algorithms_enabled()
    philox = rng_state.view(torch.int64) if dropout_p else None
    if cum_seq_q is None:
        options = _options(is_causal, scale, dropout_p, window_size_left, window_size_right,
                           deterministic=deterministic)
        outs = [_like(x, x.shape[-1], _BSHD) for x in (query, key, value)]
        q, k, v, o, do = [x.transpose(1, 2) for x in (query, key, value, out, grad_out)]
        found = _differentiate(Operands(q, k, v, philox=philox), options, (o, logsumexp, do),
                               [None if x is None else x.transpose(1, 2) for x in outs])
        return tuple([x.transpose(1, 2) for x in found])
    options = _options(is_causal, scale, dropout_p, window_size_left, window_size_right, "bshd", deterministic)
    operands = _packed(query, key, value, cum_seq_q, cum_seq_k)._replace(philox=philox)
    return _differentiate(operands, options, (out, logsumexp, grad_out),
                          [_like(x, x.shape[-1], _PACKED) for x in (query, key, value)])


def _packed(q: Tensor, k: Tensor, v: Tensor, cum_seq_q: Tensor, cum_seq_k: Tensor,
            mask: Optional[Callable[..., Any]] = None, score: Optional[Callable[..., Any]] = None) -> Operands:
    """Returns the operands of packed sequences, [total, H, D]."""
    for name, x in (("query", q), ("key", k), ("value", v)):
        if x.dim() != 3:
            raise ArgumentError(f"expected {name} of 3 dimensions [total, H, D] together with cum_seq_q, got shape "
                                f"{tuple(x.shape)}")
    key_offsets = None if cum_seq_k is cum_seq_q else cum_seq_k
    return Operands(q, k, v, Packed(cum_seq_q, key_offsets, mask, score))


def _paged(out: Optional[Tensor], operands: Operands, cum_seq_q: Optional[Tensor], dropout_p: float, options: Options,
           cache: Cache) -> Tuple[Tensor, Tensor]:
    """Returns o and the log-sum-exp of packed queries whose keys and values are in the pages of a cache."""
    if dropout_p:
        raise ArgumentError(f"expected dropout_p=0 together with block_table, got {dropout_p}")
    for name, x in (("seqused_k", cache.lengths), ("cum_seq_q", cum_seq_q)):
        if x is None:
            raise ArgumentError(f"expected {name} together with block_table, got None")
    with torch.no_grad():
        return decode_now(operands, options, cache._replace(cu_seqlens_q=cum_seq_q), _out(out))


def _refuse_gradients(name: str, *tensors: Tensor) -> None:
    if torch.is_grad_enabled() and any([x.requires_grad for x in tensors]):
        raise ArgumentError(f"expected no {name} while gradients are recorded, since PyTorch's backward operator does "
                            "not take it")


def _alibi(slopes: Tensor, heads: int, seqused_k: Optional[Tensor], block_table: Optional[Tensor]) -> Any:
    """Returns the score of ALiBi's biases -slope |j - i - shift|, where the last query is at the last key."""
    if tuple(slopes.shape) != (heads,):
        raise ArgumentError(f"expected alibi_slopes of shape [Hq] = [{heads}], got {tuple(slopes.shape)}")
    if seqused_k is None or block_table is not None:
        return scores.alibi(slopes, symmetric=True)

    def rescore(s, b, h, i, j):
        shift = ops.array(seqused_k)[b] - ops.query_length()
        return s - ops.array(slopes)[h] * abs(j - i - shift)
    return rescore


def _used(seqused_k: Tensor, left: int, right: int) -> Callable[..., Any]:
    """Returns the mask of sequences whose first seqused_k[b] keys are in use; the last query is at the last of them."""
    def keep(b, h, i, j):
        used = ops.array(seqused_k)[b]
        position, kept = i + (used - ops.query_length()), j < used
        if left >= 0:
            kept = kept & (j >= position - left)
        return kept & (j <= position + right) if right >= 0 else kept
    return keep


# --- The registry -----------------------------------------------------------------------------------------------------

#: The functions of the operators of ATen. An operator that this version of PyTorch lacks is left out.
OPERATORS: Dict[str, Callable[..., Any]] = {
    "_scaled_dot_product_flash_attention": sdpa_forward,
    "_scaled_dot_product_flash_attention_backward": sdpa_backward,
    "_flash_attention_forward": flash_forward,
    "_flash_attention_forward_no_dropout_inplace": flash_forward_inplace,
    "_flash_attention_backward": flash_backward,
}


def implement(dispatch_key: str = "CUDA") -> torch.library.Library:
    """Registers the operators with PyTorch's dispatcher. They stay registered until the library is destroyed."""
    library = torch.library.Library("aten", "IMPL", dispatch_key)
    with warnings.catch_warnings():  # PyTorch warns that a kernel is replaced, which is what the caller asks for.
        warnings.filterwarnings("ignore", "Warning only once for all operators", UserWarning)
        for name, function in OPERATORS.items():
            if hasattr(torch.ops.aten, name):
                library.impl(name, function, dispatch_key)
    return library


class _Handle:
    """What the registry keeps of an activation."""

    def __init__(self) -> None:
        self.library: Optional[torch.library.Library] = implement()
        self.former: Optional[List[int]] = None
        if torch.cuda.is_initialized():
            self._prefer_flash()
        else:  # The order must not decide when, and on which device, the program initializes CUDA.
            torch.cuda._lazy_call(self._prefer_flash)

    def _prefer_flash(self) -> None:
        """Moves flash attention to the first place in PyTorch's order of backends."""
        if self.library is None or self.former is not None:
            return
        _settle_order()
        self.former = torch._C._get_sdp_priority_order()
        torch._C._set_sdp_priority_order(_flash_first(self.former))

    def remove(self) -> None:
        """Brings PyTorch's own operators and order back; an order that the program has set meanwhile stays."""
        if self.library is not None:
            self.library._destroy()
            self.library = None
        if self.former is not None and torch._C._get_sdp_priority_order() == _flash_first(self.former):
            torch._C._set_sdp_priority_order(self.former)
        self.former = None


def _settle_order() -> None:
    """Makes PyTorch choose a backend on a GPU. The first choice of a process sets PyTorch's own order, and would undo
    an order that was set before. Nothing is launched, and which backend would run does not matter: inside of
    `sdpa_kernel` there may be none."""
    x = torch.empty((1, 1, 0, 8), dtype=torch.float16, device="cuda")
    with warnings.catch_warnings(), contextlib.suppress(RuntimeError):
        warnings.simplefilter("ignore")
        torch._fused_sdp_choice(x, x, x)


def _flash_first(order: Sequence[int]) -> List[int]:
    flash = int(torch.nn.attention.SDPBackend.FLASH_ATTENTION.value)
    return [flash, *[backend for backend in order if backend != flash]]


registry.register_flash_attention_impl(NAME, register_fn=_Handle)
