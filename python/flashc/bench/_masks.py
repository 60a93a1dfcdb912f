"""`python -m flashc.bench --masks`: the cost of masks and scores. Contenders are timed in turns in one process."""

import dataclasses
import math
from typing import Any, Callable, Dict, List, Optional

import torch

import flashc
from flashc import masks

from . import _check, _measure, _peers
from ._timing import input_sets, time_interleaved

DENSE = "dense"
HIDDEN, TOKENS = 2048, 16384
WINDOW, WINDOW_LENGTH = 1024, 32768
DOCUMENTS = 8

HEADER = f"{'d':>4} {'N':>6}  {'case':<24}{'ms':>9}{'tiles':>9}{'cost':>8}{'like':>8}{'bar':>7}{'flex':>8}  note"


@dataclasses.dataclass
class Line:
    """One row of the table. `cost` is the time divided by that of the compared kernel, and `bar` is the largest cost
    allowed. `like`, for a mask, is the time per tile divided by that of an attention without a mask that has as many
    tiles in each row."""
    d: int
    n: int
    case: str
    ms: float = math.nan
    visited: float = math.nan  # The visited part of all tiles.
    cost: float = math.nan
    like: float = math.nan
    bar: float = math.nan
    flex: float = math.nan  # FlexAttention's time divided by flashc's.
    note: str = ""

    @property
    def failed(self) -> bool:
        return self.note.startswith(("wrong", "refused")) or self.cost > self.bar

    def __str__(self) -> str:
        def number(x: float, form: str) -> str:
            return "-" if math.isnan(x) else format(x, form)
        return (
            f"{self.d:>4} {self.n:>6}  {self.case:<24}{number(self.ms, '.3f'):>9}{number(self.visited, '.1%'):>9}"
            f"{number(self.cost, '.3f'):>8}{number(self.like, '.3f'):>8}{number(self.bar, '.2f'):>7}"
            f"{number(self.flex, '.2f'):>8}  "
            f"{'over the bar; ' if self.cost > self.bar else ''}{self.note}").rstrip()


def lengths_of(total: int, count: int, generator: torch.Generator) -> List[int]:
    """Returns `count` random lengths whose sum is `total`. They are about 0.5 to 1.5 times their mean."""
    weights = torch.rand(count, generator=generator, device=generator.device) + 0.5
    ends = (weights.cumsum(0) / weights.sum() * total).round().long().tolist()
    ends[-1] = total
    return [end - begin for begin, end in zip([0] + ends[:-1], ends)]


def _offsets(lengths: List[int], device: torch.device) -> torch.Tensor:
    return torch.tensor([0] + lengths, device=device).cumsum(0).int()


def named_masks(n: int, batch: int, generator: torch.Generator) -> Dict[str, Callable[..., Any]]:
    """Returns masks of usual sizes for n queries and keys, whose loop bounds must be exact."""
    device, align = generator.device, "top-left"  # PyTorch's alignment
    lengths = torch.randint(n // 2, n + 1, (batch,), generator=generator, device=device, dtype=torch.int32)
    offsets = _offsets(lengths_of(n, DOCUMENTS, generator), device)
    ids = torch.repeat_interleave(torch.arange(DOCUMENTS, device=device), offsets.diff().long()).int()
    return {
        "causal": masks.causal(align), "sliding window": masks.sliding_window(WINDOW - 1, 0, align),
        "two-sided window": masks.sliding_window(WINDOW // 2, WINDOW // 2, align),
        "prefix LM": masks.prefix_lm(n // 4 + 5, align), "chunked": masks.chunked(n // 8, align),
        "block causal": masks.block_causal(256, align), "sinks and window": masks.sink_window(4, WINDOW - 1, align),
        "dilated window": masks.dilated_window(4 * WINDOW, 4, 0, align), "key padding": masks.key_padding(lengths),
        "shared prefix": masks.shared_prefix(n // 4, n // 8, align),
        "documents": masks.documents(ids, sorted=True), "packed causal": masks.packed(offsets, causal=True),
        "block diffusion": masks.block_diffusion(n // 2, 256),
    }


SCORES = {
    "ALiBi": lambda s, b, h, i, j: s - (i - j) * torch.exp2(-8.0 / 16 * (h + 1)),
    "soft cap": lambda s, b, h, i, j: 30.0 * torch.tanh(s / 30.0),
}


class MaskBench:
    """Measures groups of lines. Each line is printed as soon as it is measured."""

    def __init__(self, seed: int, has_flex: bool, show: Callable[[Line], None]) -> None:
        self.device = torch.device("cuda")
        self.generator = torch.Generator(device=self.device)
        self.generator.manual_seed(seed)
        self.has_flex, self.show = has_flex, show
        self.cache_bytes = _measure.cache_bytes(self.device)

    score_bar = 1.15
    arrays = 3  # a set of inputs has q, k and v

    def groups(self) -> Any:
        """Returns functions of the head dimension. Each yields lines."""
        return self.masks, self.window, self.packed, self.scores

    def run(self) -> List[Line]:
        lines: List[Line] = []
        with torch.no_grad():
            for d in (64, 128):
                for group in self.groups():
                    for line in group(d):
                        self.show(line)
                        lines.append(line)
        return lines

    def _inputs(self, batch: int, heads: int, n: int, d: int) -> List[Any]:
        count = input_sets(self.arrays * 2 * batch * heads * n * d, self.cache_bytes)
        return [tuple(torch.randn(batch, heads, n, d, device=self.device, dtype=torch.bfloat16,
                                  generator=self.generator) for _ in range(self.arrays)) for _ in range(count)]

    def _contender(self, sets: List[Any], function: Callable[..., Any] = flashc.attention, **keywords: Any) -> Any:
        function(*sets[0], **keywords)
        return _peers.Contender(lambda i: function(*sets[i], **keywords), len(sets))

    def _time(self, contenders: Dict[Any, Any]) -> Dict[Any, float]:
        return {name: timing.median for name, timing in time_interleaved(contenders, _measure.burst).items()}

    def _is_wrong(self, inputs: Any, mask: Optional[Callable[..., Any]], score: Optional[Callable[..., Any]]) -> str:
        """Returns the problem of flashc's output, or ""."""
        q, k, _ = inputs
        out = torch.full_like(q, float("nan"))
        flashc.attention(*inputs, mask=mask, score=score, out=out)
        nq, nk = q.shape[2], k.shape[2]
        b, h, i, j = torch.meshgrid(*(torch.arange(extent, device=self.device)
                                      for extent in (q.shape[0], 1, nq, nk)), indexing="ij")
        keep = None if mask is None else mask(b, h, i, j)
        return _check.Reference(*inputs, keep=keep).compare(out).problem

    def _flex(self, sets: List[Any], mask: Callable[..., Any]) -> Any:
        """Returns a Contender, the milliseconds that making its block mask takes, and the bytes of the block mask."""
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        q, k, _ = sets[0]
        torch.compiler.reset()
        make = torch.compile(create_block_mask)
        arguments = (mask, None, None, q.shape[2], k.shape[2])
        make(*arguments, device=self.device)
        made: List[Any] = []
        milliseconds = _peers.elapsed(lambda _: made.append(make(*arguments, device=self.device)))
        block_mask, = made
        size = sum(x.nbytes for x in block_mask.as_tuple(flatten=True) if isinstance(x, torch.Tensor))
        flex = torch.compile(flex_attention, fullgraph=True, dynamic=False)
        return self._contender(sets, flex, block_mask=block_mask), milliseconds, size

    def masks(self, d: int) -> Any:
        """Yields lines of masks. The cost is the time per visited tile divided by that of the dense kernel."""
        n, heads = TOKENS // 2, HIDDEN // d
        sets = self._inputs(TOKENS // n, heads, n, d)
        contenders, lines, areas, likes = {DENSE: self._contender(sets)}, {}, {}, {}
        positions = sets[0][0].shape[0] * heads * n
        for name, mask in named_masks(n, TOKENS // n, self.generator).items():
            line = lines[name] = Line(d, n, name, bar=1.10)
            try:
                wrong = self._is_wrong(sets[0], mask, None)
                tiles = flashc.explain(*sets[0], mask=mask)
            except flashc.Error as error:
                line.note = f"refused: {str(error).splitlines()[0]}"
                continue
            visited, total = tiles.full + tiles.partial, tiles.full + tiles.partial + tiles.skipped
            line.visited, areas[name] = visited / total, visited * math.prod(tiles.tile)
            line.note = f"wrong: {wrong}" if wrong else f"{tiles.mask_class}, {tiles.partial / visited:.1%} partial"
            contenders[name] = self._contender(sets, mask=mask)
            # The number of keys is rounded to tiles of 128 keys, so that several masks are compared with one unmasked
            # contender.
            likes[name] = keys = min(n, max(1, round(areas[name] / positions / 128)) * 128)
            contenders[keys] = contenders.get(keys) or self._contender(
                [(q, k[:, :, :keys], v[:, :, :keys]) for q, k, v in sets])
        times = self._time(contenders)
        dense = times[DENSE] / (positions * n)
        yield Line(d, n, DENSE, times[DENSE], 1.0)
        for name, line in lines.items():
            if name in times:
                line.ms = times[name]
                line.cost = line.ms / areas[name] / dense
                line.like = line.ms / areas[name] / (times[likes[name]] / (positions * likes[name]))
            yield line

    def window(self, d: int) -> Any:
        """Yields a line of a window in a long sequence, compared with FlexAttention."""
        mask, n = masks.sliding_window(WINDOW - 1, align="top-left"), WINDOW_LENGTH
        sets = self._inputs(1, HIDDEN // d, n, d)
        line = Line(d, n, f"window of {WINDOW}", bar=1 / 1.3)
        contenders = {line.case: self._contender(sets, mask=mask)}
        if self.has_flex:
            contenders["flex"], make, size = self._flex(sets, mask)
            line.note = f"flex's block mask: {make:.2f} ms, {size} bytes"
        times = self._time(contenders)
        line.ms = times[line.case]
        if self.has_flex:
            line.flex = times["flex"] / line.ms
            line.cost = 1 / line.flex
        yield line

    def packed(self, d: int) -> Any:
        """Yields a line of packed causal documents. The cost is the time per FLOP divided by that of dense documents
        with the mean length."""
        total, heads = WINDOW_LENGTH, HIDDEN // d
        mean = total // DOCUMENTS
        lengths = lengths_of(total, DOCUMENTS, self.generator)
        offsets = _offsets(lengths, self.device)
        rows = [tuple(x[0].transpose(0, 1).contiguous() for x in inputs) for inputs in self._inputs(1, heads, total, d)]
        dense = self._inputs(DOCUMENTS, heads, mean, d)
        line = Line(d, total, f"{DOCUMENTS} documents, causal", bar=1.05,
                    note=f"lengths {min(lengths)} to {max(lengths)}")
        packed = self._contender(rows, flashc.varlen_attention, cu_seqlens_q=offsets, cu_seqlens_k=offsets, causal=True)
        times = self._time({line.case: packed, DENSE: self._contender(dense, causal=True)})
        line.ms = times[line.case]
        work = sum(length * length for length in lengths) / (DOCUMENTS * mean * mean)
        line.cost = line.ms / times[DENSE] / work
        yield line

    def scores(self, d: int) -> Any:
        """Yields lines of scores. The cost is the time divided by that of attention without a score."""
        for n in (4096, TOKENS):
            for is_causal in (False, True):
                sets = self._inputs(TOKENS // n, HIDDEN // d, n, d)
                mask = masks.causal("top-left") if is_causal else None
                contenders = {DENSE: self._contender(sets, mask=mask)}
                for name, score in SCORES.items():
                    contenders[name] = self._contender(sets, mask=mask, score=score)
                times = self._time(contenders)
                for name in SCORES:
                    yield Line(d, n, name + (", causal" if is_causal else ""), times[name],
                               cost=times[name] / times[DENSE], bar=self.score_bar)
