"""A step of a server as calls of flashc: the attention of a batch whose sequences have different numbers of new tokens
to a paged cache. This module needs PyTorch, and no server: `_vllm_step.py` and `_sglang_backend.py` use it."""
from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

import flashc
from flashc import ops, scores

#: A sequence with many new tokens and a cache of 8 bits is computed in pieces of this number of tokens. The number is
#: fixed, since a decoding kernel is compiled for each number of queries.
PIECE = 64


class Call(NamedTuple):
    """The part of a step that one call without packed queries computes: `count` sequences, or parts of sequences, with
    `queries` rows each, from row `begin` of q on."""
    begin: int
    count: int
    queries: int
    lengths: Tensor  # [count] in int32
    table: Tensor  # [count, M] in int32


@dataclasses.dataclass
class Step:
    """The batch of one step.

    Attributes:
        tokens: the number of rows of q, of which the last ones may be padding.
        offsets: [B + 1] in int32: sequence b has the rows offsets[b] to offsets[b + 1] - 1.
        lengths: [B] in int32: the tokens of each sequence, the new ones among them.
        table: [B, M] in int32: the pages of each sequence.
        places: for layers that write a cache (`_vllm_step.py`): the places of the new tokens, or None without a cache.
        causal: whether query i sees only keys j <= i; or [B] in int32, for each sequence.
        calls: the calls that compute the step, or None: one call with packed queries.
        mm_prefix_query_range_tensor: [rows, 2] in int32, or None: a query also sees the keys from its first to its
            second number. Some of vLLM's models set this attribute to None for layers without such ranges.
    """
    tokens: int
    offsets: Tensor
    lengths: Tensor
    table: Tensor
    places: Optional[Any] = None
    causal: Union[bool, Tensor] = True
    calls: Optional[List[Call]] = None
    mm_prefix_query_range_tensor: Optional[Tensor] = None


def uniform_call(offsets: Sequence[int], lengths: Tensor, table: Tensor, sizes: Sequence[int]) -> Optional[List[Call]]:
    """Returns the call of a batch whose sequences all have one of `sizes` queries, or None for other batches. Sequences
    without queries after the last one are padding.

    Args:
        offsets: the offsets of the queries, on the host.
    """
    runs = _runs(offsets)
    if len(runs) != 1 or runs[0][0] != 0 or runs[0][2] not in sizes:
        return None
    _, count, queries = runs[0]
    return [Call(0, count, queries, lengths[:count], table[:count])]


def piecewise_calls(offsets: Sequence[int], lengths: Tensor, table: Tensor, sizes: Sequence[int]) -> List[Call]:
    """Returns calls without packed queries that compute any batch. Their numbers of queries are `sizes`, PIECE and 1,
    so a server compiles no kernel for the length of a prompt.

    Args:
        offsets: the offsets of the queries, on the host.
    """
    calls = []
    for first, count, queries in _runs(offsets):
        begin = offsets[first]
        if queries in sizes:
            sequences = slice(first, first + count)
            calls.append(Call(begin, count, queries, lengths[sequences], table[sequences]))
            continue
        for b in range(first, first + count):
            past = lengths[b] - queries
            done = 0
            for size in (PIECE, 1):
                pieces = (queries - done) // size
                if pieces:
                    ends = torch.arange(1, pieces + 1, dtype=torch.int32, device=lengths.device) * size + done
                    tables = table[b].expand(pieces, -1).contiguous()
                    calls.append(Call(begin + done, pieces, size, past + ends, tables))
                done += pieces * size
            begin += queries
    return calls


def _runs(offsets: Sequence[int]) -> List[Tuple[int, int, int]]:
    """Returns (first sequence, number of sequences, queries of each) for neighboring sequences with equal numbers of
    queries. Sequences without queries are left out."""
    runs: List[Tuple[int, int, int]] = []
    for b, (begin, end) in enumerate(zip(offsets, offsets[1:])):
        if end == begin:
            continue
        first, count, queries = runs[-1] if runs else (0, 0, 0)
        if end - begin == queries and first + count == b:
            runs[-1] = first, count + 1, queries
        else:
            runs.append((b, 1, end - begin))
    return runs


class Layer:
    """The attention of one layer.

    Args:
        scale: the factor of scores.
        slopes: the slopes of ALiBi, one for each query head, or None.
        window: the number of keys that a query sees, with its own one, or None for all.
        soft_cap: the bound of scores (`flashc.scores.soft_cap`), or None. ALiBi's biases are added to bounded scores.
        sinks: [Hq], or None.
        batch_invariant: the bits of a row depend only on its own sequence.
        clamps_ranges: of its step's range a query sees no key outside of the window.
    """

    def __init__(self, scale: float, *, slopes: Optional[Sequence[float]] = None,
                 window: Optional[int] = None, soft_cap: Optional[float] = None, sinks: Optional[Tensor] = None,
                 batch_invariant: bool = False, clamps_ranges: bool = False) -> None:
        self.scale, self.window, self.batch_invariant = scale, window, batch_invariant
        self.sinks, self.clamps_ranges = sinks, clamps_ranges
        self._slopes, self._soft_cap = slopes, soft_cap
        #: The score for causal attention and for other attention, made in the first call.
        self._scores: Dict[bool, Any] = {}

    def attend(self, step: Step, query: Tensor, k: Tensor, v: Tensor, out: Tensor, k_scale: Any = None,
               v_scale: Any = None) -> None:
        """Computes the attention of a step's queries to a cache, in place of `out`'s elements.

        Args:
            query: [tokens, Hq, D], of which rows after the step's tokens are padding.
            k, v: [pages, page, Hk, D] and [pages, page, Hk, Dv], with any strides that are multiples of 16 bytes.
            out: [tokens, Hq, Dv]. Rows after the step's tokens are not written. Padding within the step's tokens
                becomes 0, or keeps its values if there are calls without packing.
            k_scale, v_scale: for caches of 8 bits, [] or [Hk] in f32.
        """
        scales = {"k_scale": k_scale, "v_scale": v_scale}
        options = self._options(step, query.device)
        if step.calls is None:
            flashc.decode(query[:step.tokens], k, v, step.lengths, step.table, cu_seqlens_q=step.offsets,
                          out=out[:step.tokens], **scales, **options)
            return
        if "mask" in options:
            raise flashc.ArgumentError("expected a step with packed queries for masks by sequence")
        for begin, count, queries, lengths, table in step.calls:
            q, o = (x[begin:begin + count * queries].unflatten(0, (count, queries)) for x in (query, out))
            flashc.decode(q, k, v, lengths, table, out=o, **scales, **options)

    def encode(self, step: Step, query: Tensor, key: Tensor, value: Tensor, out: Tensor) -> None:
        """Computes attention within each sequence of a step, on both sides and without a cache. All arrays are [tokens,
        heads, D]."""
        tokens, side = step.tokens, None if self.window is None else self.window - 1
        flashc.varlen_attention(query[:tokens], key[:tokens], value[:tokens], step.offsets, enable_gqa=True,
                                scale=self.scale, window=None if side is None else (side, side),
                                score=self._score(False, query.device), sinks=self.sinks, out=out[:tokens])

    def _options(self, step: Step, device: torch.device) -> Dict[str, Any]:
        """Returns the keywords of flashc.decode, without the scales."""
        is_causal = step.causal is True
        options = {"causal": is_causal, "scale": self.scale, "sinks": self.sinks,
                   "score": self._score(is_causal, device), "batch_invariant": self.batch_invariant}
        if step.mm_prefix_query_range_tensor is not None:
            options.update(causal=False, mask=_seen_or_in_range(step, self.window, self.clamps_ranges))
            return options
        if self.window is not None:
            options["window"] = (self.window - 1, 0 if is_causal else self.window - 1)
        if isinstance(step.causal, Tensor):
            options["mask"] = _causal_where(step.causal)
        return options

    def _score(self, is_causal: bool, device: torch.device) -> Optional[Callable[..., Any]]:
        if is_causal not in self._scores:
            score: Any = scores.soft_cap(self._soft_cap) if self._soft_cap else None
            if self._slopes is not None:
                slopes = torch.tensor(self._slopes, dtype=torch.float32, device=device)
                alibi = scores.alibi(slopes, symmetric=not is_causal)
                score = alibi if score is None else score >> alibi
            self._scores[is_causal] = score
        return self._scores[is_causal]


def _causal_where(flags: Tensor) -> Callable[..., Any]:
    """Returns the mask of sequences of which some see later keys."""
    def keep(b, h, i, j):
        return (j <= i) | (flags[b] == 0)
    return keep


def _seen_or_in_range(step: Step, window: Optional[int], is_clamped: bool) -> Callable[..., Any]:
    """Returns the mask of a step with ranges: a causal mask or window, and the keys of the query's range."""
    offsets, ranges = step.offsets, step.mm_prefix_query_range_tensor

    def keep(b, h, i, j):
        row = offsets[b] + i - (ops.key_length() - ops.query_length())
        is_in_range = (j >= ranges[row, 0]) & (j <= ranges[row, 1])
        if window is None:
            return (j <= i) | is_in_range
        is_near = i - j < window
        return ((j <= i) | is_in_range) & is_near if is_clamped else (j <= i) & is_near | is_in_range
    return keep
