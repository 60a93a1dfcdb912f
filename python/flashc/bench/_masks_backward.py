"""`python -m flashc.bench --backward --masks`: the cost of masks and scores in the backward pass."""

from typing import Any, Callable, List, Optional

import torch

import flashc
from flashc import masks

from . import _check
from ._masks import DENSE, DOCUMENTS, HIDDEN, SCORES, TOKENS, WINDOW, Line, MaskBench, _offsets, lengths_of

TILE = 64, 128  # Queries and keys of a tile: 64 queries, and 64 keys for each of two consumer warpgroups.
CHECKED = 4096  # The length of the arrays that are checked against float32.


def computed(mask: Callable[..., Any], n: int, device: torch.device) -> float:
    """Returns which part of all tiles of n queries and keys has a pair that the mask keeps."""
    rows, columns = TILE
    zero, j = torch.zeros((), dtype=torch.long, device=device), torch.arange(n, device=device)
    visited = 0
    for first in range(0, n, 1024):
        i = torch.arange(first, min(first + 1024, n), device=device)[:, None]
        kept = mask(zero, zero, i, j[None, :]).expand(len(i), n)
        visited += int(kept.reshape(-1, rows, n // columns, columns).any(3).any(1).sum())
    return visited / (n // rows * (n // columns))


class BackwardMaskBench(MaskBench):
    """Measures lines of a window, of packed documents and of scores. Costs are relative to kernels without mask and
    score."""
    score_bar = 1.25
    arrays = 4  # q, k, v and the gradient of o.

    def groups(self) -> Any:
        return self.window, self.packed, self.scores

    def _contender(self, sets: List[Any], function: Callable[..., Any] = flashc.attention_backward,
                   **keywords: Any) -> Any:
        saved = [(q, k, v, *flashc.attention(q, k, v, return_lse=True, **keywords), do) for q, k, v, do in sets]
        return super()._contender(saved, function, **keywords)

    def _is_wrong(self, inputs: Any, mask: Optional[Callable[..., Any]], score: Optional[Callable[..., Any]]) -> str:
        """Returns the problem of the gradients of two heads and CHECKED positions, or ""."""
        q, k, v, do = (x[:1, :2, :CHECKED].contiguous() for x in inputs)
        o, lse = flashc.attention(q, k, v, mask=mask, score=score, return_lse=True)
        out = tuple(torch.full_like(x, float("nan")) for x in (q, k, v))
        flashc.attention_backward(q, k, v, o, lse, do, mask=mask, score=score, out=out)
        b, h, i, j = torch.meshgrid(*(torch.arange(extent, device=self.device)
                                      for extent in (1, 2, CHECKED, CHECKED)), indexing="ij")
        keep = None if mask is None else mask(b, h, i, j)
        rescore = None if score is None else lambda s: score(s, b, h, i, j)
        return _check.GradientReference(q, k, v, do, keep, rescore).compare(out).problem

    def _masked(self, d: int, case: str, mask: Callable[..., Any], note: str = "") -> Line:
        """Returns a line of a mask. The cost is the time per computed tile divided by that of the kernels without a
        mask."""
        sets = self._inputs(1, HIDDEN // d, TOKENS, d)
        line = Line(d, TOKENS, case, bar=1.20, visited=computed(mask, TOKENS, self.device), note=note)
        wrong = self._is_wrong(sets[0], mask, None)
        if wrong:
            line.note = f"wrong: {wrong}"
            return line
        times = self._time({case: self._contender(sets, mask=mask), DENSE: self._contender(sets)})
        line.ms = times[case]
        line.cost = line.ms / times[DENSE] / line.visited
        return line

    def window(self, d: int) -> Any:
        yield self._masked(d, f"window of {WINDOW}", masks.sliding_window(WINDOW - 1, align="top-left"))

    def packed(self, d: int) -> Any:
        lengths = lengths_of(TOKENS, DOCUMENTS, self.generator)
        offsets = flashc.assume_sorted(_offsets(lengths, self.device))
        yield self._masked(d, f"{DOCUMENTS} documents, causal", masks.packed(offsets, causal=True),
                           f"lengths {min(lengths)} to {max(lengths)}")

    def scores(self, d: int) -> Any:
        wrong = {name: self._is_wrong(self._inputs(1, 2, CHECKED, d)[0], None, score) for name, score in SCORES.items()}
        for line in super().scores(d):
            found = wrong[line.case.partition(",")[0]]
            line.note = f"wrong: {found}" if found else line.note
            yield line
