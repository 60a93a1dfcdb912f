"""Bars: ratios of another kernel to cuDNN, from a CSV file. They are compared with flashc's ratios of this run.

Rates of different sessions cannot be compared, because the clock of a GPU changes. Ratios to the same peer can be
compared."""

import csv
import dataclasses
import math
import pathlib
import statistics

from ._grid import GridError, parse_grid
from ._report import BAR_PEER, geometric_mean

BACKWARD = pathlib.Path(__file__).with_name("backward_bars.csv")
HAND_COLUMNS = ("trial_over_cudnn", "run2_trial_over_cudnn")
COLUMNS = ("d", "n", "causal", *HAND_COLUMNS, "fa3_over_cudnn")


@dataclasses.dataclass(frozen=True)
class Bar:
    """Ratios to cuDNN in one cell: that of a hand-made kernel, and that of FlashAttention-3."""
    hand: float
    fa3: float


def bars_of(cells, path=None):
    """Returns the bars of the file `path`. If there is no path, returns the bars of BACKWARD for the backward pass, and
    {} for the forward pass. Raises the errors of read_bars."""
    is_backward = any(cell.backward for cell in cells)
    if path is None and not is_backward:
        return {}
    return {dataclasses.replace(cell, backward=is_backward): bar for cell, bar in read_bars(path or BACKWARD).items()}


def read_bars(path):
    """Returns {Cell: Bar} from a file with the columns COLUMNS, in which "#" begins a comment. A line belongs to the
    cell of the default grid with the line's d, n and causal (bf16, 16384 tokens, hidden size 2048). Raises ValueError
    and OSError."""
    with open(path, newline="", encoding="utf-8") as file:
        lines = [(number, line) for number, line in enumerate(file, 1) if line.strip() and not line.startswith("#")]
    reader = csv.DictReader(line for _, line in lines)
    missing = [name for name in COLUMNS if name not in (reader.fieldnames or [])]
    if missing:
        raise ValueError(f"{path}: expected the columns {','.join(COLUMNS)}, got no {', '.join(missing)}")
    bars = {}
    for (number, _), line in zip(lines[1:], reader):
        try:
            cell, = parse_grid([f"{key}={line[key]}" for key in ("d", "n", "causal")])
            bars[cell] = Bar(statistics.mean(float(line[name]) for name in HAND_COLUMNS), float(line["fa3_over_cudnn"]))
        except (GridError, TypeError, ValueError) as error:
            raise ValueError(f"{path}:{number}: {error}") from None
    return bars


def report(rows, bars):
    """Returns the lines of a table with flashc's ratio to cuDNN, this ratio divided by each bar, and the geometric
    means."""
    found = [(row, row.ratio(BAR_PEER), bars[row.cell]) for row in rows
             if row.cell in bars and not math.isnan(row.ratio(BAR_PEER))]
    if not found:
        return [f"no cell has a bar, and numbers of flashc and {BAR_PEER}"]
    lines = ["|   d | causal |     n | flashc/cudnn |  hand | over hand |   fa3 | over fa3 |",
             "|----:|-------:|------:|-------------:|------:|----------:|------:|---------:|"]
    for row, ratio, bar in found:
        cell = row.cell
        lines.append(f"| {cell.d:3} | {'yes' if cell.causal else 'no':>6} | {cell.n:5} | {ratio:12.3f} | "
                     f"{bar.hand:5.3f} | {ratio / bar.hand:9.3f} | {bar.fa3:5.3f} | {ratio / bar.fa3:8.3f} |")
    for name, ratios in (("hand", [ratio / bar.hand for _, ratio, bar in found]),
                         ("fa3", [ratio / bar.fa3 for _, ratio, bar in found])):
        lines.append(f"geometric mean over {name}: {geometric_mean(ratios):.3f} ({len(ratios)} of {len(bars)} cells, "
                     f"{min(ratios):.3f} to {max(ratios):.3f})")
    return lines
