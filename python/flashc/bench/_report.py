"""What the benchmark writes: the table, its summary, the CSV; and the way back from CSVs to rows."""

import csv
import dataclasses
import math
import os
import statistics
from typing import Dict

from ._grid import Cell

COLUMNS = ["device", "dtype", "d", "causal", "n", "batch", "heads", "group", "system", "ms", "spread", "tflops",
           "ratio", "error", "bound", "frobenius", "sm_mhz", "note"]
FLASHC, CUBLAS = "flashc", "cublas"


@dataclasses.dataclass
class Entry:
    """What one system did in one cell. Without `ms` it did not run, or was wrong, and `note` is why."""
    ms: float = math.nan
    spread: float = math.nan
    tflops: float = math.nan
    error: float = math.nan
    bound: float = math.nan
    frobenius: float = math.nan
    note: str = ""

    @property
    def counts(self):
        return self.tflops > 0


@dataclasses.dataclass
class Row:
    """A cell with the entry of each system."""
    device: str
    dtype: str
    cell: Cell
    entries: Dict[str, Entry]
    sm_mhz: float = math.nan

    def ratio(self, peer=None):
        """flashc's rate over the peer's, or over the best peer's; NaN if one of them has none."""
        names = [peer] if peer else [name for name in self.entries if name not in (FLASHC, CUBLAS)]
        rates = [self.entries[name].tflops for name in names if name in self.entries and self.entries[name].counts]
        mine = self.entries.get(FLASHC, Entry())
        return mine.tflops / max(rates) if rates and mine.counts else math.nan

    def best_peer(self):
        peers = {name: entry.tflops for name, entry in self.entries.items()
                 if name not in (FLASHC, CUBLAS) and entry.counts}
        return max(peers, key=peers.get) if peers else ""


def geometric_mean(values):
    """Of the values that are numbers; NaN if none is."""
    logs = [math.log(value) for value in values if value > 0]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan


def _cell_text(value, form):
    return "-" if value is None or math.isnan(value) else format(value, form)


class Table:
    """A Markdown table, aligned, whose rows are printed as they come."""

    def __init__(self, systems, cells):
        """`cells`: those of all rows; what tells them apart has a column."""
        self.systems = list(systems)
        self.extents = ["d", "causal", "n"]
        for name in ("group", "batch", "heads"):
            known = len({self._extents(cell) for cell in cells})
            self.extents.append(name)
            if len({self._extents(cell) for cell in cells}) == known:
                self.extents.pop()
        self.headings = self.extents + self.systems + ["SM MHz", "best peer", "ratio"]
        widths = [5] * len(self.extents) + [max(5, len(name)) for name in self.systems] + [6, 9, 5]
        self.widths = [max(width, len(heading)) for width, heading in zip(widths, self.headings)]

    def _extents(self, cell):
        values = [getattr(cell, name) for name in self.extents]
        return tuple(("yes" if value else "no") if isinstance(value, bool) else str(value) for value in values)

    def _line(self, texts):
        return "| " + " | ".join(text.rjust(width) for text, width in zip(texts, self.widths)) + " |"

    def header(self):
        return self._line(self.headings) + "\n|" + "|".join("-" * (width + 1) + ":" for width in self.widths) + "|"

    def line(self, row):
        rates = [_cell_text(row.entries[name].tflops if name in row.entries else None, ".0f") for name in self.systems]
        return self._line([*self._extents(row.cell), *rates, _cell_text(row.sm_mhz, ".0f"),
                           row.best_peer() or "-", _cell_text(row.ratio(), ".2f")])


def summary(rows):
    """The geometric means, as lines."""
    if not rows:
        return ["no cells"]
    lines = []
    for name, chosen in (("all cells", rows), ("not causal", [row for row in rows if not row.cell.causal]),
                         ("causal", [row for row in rows if row.cell.causal])):
        ratios = [ratio for ratio in (row.ratio() for row in chosen) if not math.isnan(ratio)]
        if ratios:
            cells = f"{len(ratios)} cell{'s' if len(ratios) > 1 else ''}"
            lines.append(f"geometric mean of the ratios to the best peer, {name}: {geometric_mean(ratios):.3f} "
                         f"({cells}, {min(ratios):.2f} to {max(ratios):.2f})")
    for peer in dict.fromkeys(name for row in rows for name in row.entries):
        ratios = [ratio for ratio in (row.ratio(peer) for row in rows) if not math.isnan(ratio)]
        if ratios and peer not in (FLASHC, CUBLAS):
            lines.append(f"  to {peer}: {geometric_mean(ratios):.3f} ({len(ratios)} of {len(rows)} cells)")
    return lines or ["no ratios: flashc or every peer is missing in every cell"]


def problems(rows):
    """A line for each entry that has a note."""
    return [f"{row.cell}: {name}: {entry.note}" for row in rows for name, entry in row.entries.items() if entry.note]


class CSVWriter:
    """A line for each system of each cell; a cell's lines are on disk before the next cell starts."""

    def __init__(self, path):
        self.file = open(path, "w", newline="", encoding="utf-8")
        self.writer = csv.writer(self.file)
        self.writer.writerow(COLUMNS)
        self._flush()

    def _flush(self):
        self.file.flush()
        try:
            os.fsync(self.file.fileno())
        except OSError:  # A pipe.
            pass

    def write(self, row):
        def number(value, form=".6g"):
            return "" if math.isnan(value) else format(value, form)

        cell = row.cell
        for name, entry in row.entries.items():
            ratio = math.nan if name == CUBLAS else row.ratio() if name == FLASHC else row.ratio(name)
            self.writer.writerow([
                row.device, row.dtype, cell.d, int(cell.causal), cell.n, cell.batch, cell.heads, cell.group, name,
                number(entry.ms), number(entry.spread, ".3g"), number(entry.tflops, ".5g"), number(ratio, ".4f"),
                number(entry.error), number(entry.bound), number(entry.frobenius), number(row.sm_mhz, ".0f"),
                entry.note])
        self._flush()

    def close(self):
        self.file.close()


def read_csv(paths):
    """The rows of files that CSVWriter wrote. Raises ValueError for anything else."""
    rows = {}
    for path in paths:
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if reader.fieldnames != COLUMNS:
                raise ValueError(f"{path}: expected the columns {','.join(COLUMNS)}, got "
                                 f"{','.join(reader.fieldnames or ['nothing'])}")
            for line in reader:
                try:
                    cell = Cell(d=int(line["d"]), causal=bool(int(line["causal"])), n=int(line["n"]),
                                batch=int(line["batch"]), heads=int(line["heads"]), group=int(line["group"]))
                    values = {name: float(line[name]) if line[name] else math.nan
                              for name in ("ms", "spread", "tflops", "error", "bound", "frobenius", "sm_mhz")}
                except (TypeError, ValueError) as error:
                    raise ValueError(f"{path}:{reader.line_num}: {error}") from None
                sm_mhz = values.pop("sm_mhz")
                key = (line["device"], line["dtype"], cell)
                row = rows.setdefault(key, Row(line["device"], line["dtype"], cell, {}, sm_mhz))
                # A cell that was measured again replaces the first measurement, system by system.
                row.entries[line["system"]] = Entry(note=line["note"], **values)
    return list(rows.values())


def systems_of(rows):
    """The systems of the rows: flashc first, cuBLAS last."""
    names = list(dict.fromkeys(name for row in rows for name in row.entries))
    return ([FLASHC] if FLASHC in names else []) + [name for name in names if name not in (FLASHC, CUBLAS)] + (
        [CUBLAS] if CUBLAS in names else [])


def latency_line(what, times, unit, target=None, note=""):
    """A line of `--latency`: the median, the range of the middle 90%, the target and whether it was met."""
    ordered = sorted(times)
    low, high = ordered[len(ordered) // 20], ordered[-1 - len(ordered) // 20]
    median = statistics.median(ordered)
    verdict = "" if target is None else f"  target < {target:g} {unit}: {'met' if median < target else 'MISSED'}"
    return f"{what:<58} {median:9.2f} {unit}  ({low:.2f} to {high:.2f}, {len(ordered)} runs){verdict}" + (
        f"  [{note}]" if note else "")
