"""A step of vLLM as calls of flashc: writes to vLLM's cache, and attention to it. This module needs PyTorch, but not
vLLM: `_vllm_backend.py` translates vLLM's classes into the classes of this module."""
from __future__ import annotations

from typing import Any, NamedTuple, Tuple

import torch
from torch import Tensor

import flashc

from . import _paged_step
from ._paged_step import PIECE, Call, Step, piecewise_calls, uniform_call

__all__ = ["EIGHT_BITS", "PIECE", "Call", "Layer", "NewTokens", "Places", "Step", "piecewise_calls", "uniform_call"]

#: The element types of caches whose elements have scales, and the types by which flashc knows them. vLLM keeps such
#: caches as bytes.
EIGHT_BITS = {"fp8": torch.float8_e4m3fn, "fp8_e4m3": torch.float8_e4m3fn}


class NewTokens(NamedTuple):
    """The places of new tokens in a cache. As `flashc.append_kv` sees it, each token is a sequence with one page."""
    page_size: int
    pages: Tensor  # [tokens, 1] in int32; -1: the token is not written
    rows: Tensor  # [tokens] in int32: the row in the page


class Places:
    """The arrays of `NewTokens` of all steps. Their memory never moves, so that CUDA graphs can read it."""

    def __init__(self, capacity: int, page_size: int, device: Any) -> None:
        self._page_size = page_size
        self._pages = torch.full((capacity,), -1, dtype=torch.int32, device=device)
        self._rows = torch.zeros(capacity, dtype=torch.int32, device=device)
        #: The number of elements that the last steps may have set. Elements after a step's tokens become -1: a graph
        #: that was captured for more tokens reads them.
        self._used = 0

    def find(self, slots: Tensor, tokens: int) -> NewTokens:
        """Returns the places of new tokens.

        Args:
            slots: at most [tokens] of integers: page times page size plus row of each token, or -1. Tokens without an
                element are not written.
            tokens: the number of rows of the keys, at most the capacity.
        """
        slots = slots[:tokens]
        count, capacity = slots.shape[0], self._pages.shape[0]
        if tokens > capacity:
            raise flashc.ArgumentError(f"expected at most {capacity} tokens in a step, got {tokens}")
        torch.div(slots, self._page_size, rounding_mode="floor", out=self._pages[:count])
        torch.remainder(slots, self._page_size, out=self._rows[:count])
        if count < self._used:
            self._pages[count:self._used].fill_(-1)
        self._used = count
        return NewTokens(self._page_size, self._pages[:tokens, None], self._rows[:tokens])


class Layer(_paged_step.Layer):
    """The attention of one layer to vLLM's cache.

    Args:
        depth: the head dimension of keys and values.
        scale, options: as for `_paged_step.Layer`.
    """

    def __init__(self, depth: int, scale: float, **options: Any) -> None:
        super().__init__(scale, **options)
        self.depth = depth

    def halves(self, cache: Tensor) -> Tuple[Tensor, Tensor]:
        """Returns views of the keys and the values, [pages, page, Hk, D], of a cache [pages, Hk, page, 2 D]."""
        if cache.dtype == torch.uint8:
            cache = cache.view(torch.float8_e4m3fn)
        rows = cache.transpose(1, 2)
        return rows[..., :self.depth], rows[..., self.depth:]

    def write(self, step: Step, key: Tensor, value: Tensor, cache: Tensor, k_scale: Any = None,
              v_scale: Any = None) -> None:
        """Writes the new tokens of a step into the cache.

        Args:
            key, value: [tokens, Hk, D], of which rows after the step's tokens are padding.
            cache: [pages, Hk, page, 2 D], a key before its value, with any strides that are multiples of 16 bytes.
            k_scale, v_scale: for caches of 8 bits, [] or [Hk] in f32.
        """
        places = step.places
        if places is None or cache.shape[2] != places.page_size:
            found = None if places is None else places.page_size
            raise flashc.ArgumentError(f"expected a step with pages of {cache.shape[2]} rows, got {found}")
        k, v = self.halves(cache)
        flashc.append_kv(k, v, key[:step.tokens, None], value[:step.tokens, None], places.pages, places.rows,
                         k_scale=k_scale, v_scale=v_scale)

    def attend_cache(self, step: Step, query: Tensor, cache: Tensor, out: Tensor, k_scale: Any = None,
                     v_scale: Any = None) -> None:
        """Computes the attention of a step's queries to the cache, as `attend` does.

        Args:
            query, out: [tokens, Hq, D].
            cache, k_scale, v_scale: as for `write`.
        """
        self.attend(step, query, *self.halves(cache), out, k_scale, v_scale)
