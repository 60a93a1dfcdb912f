"""The output of the benchmark: the table, its summary, and CSV files, which can be read again."""

import contextlib
import csv
import dataclasses
import math
import os
import statistics
from typing import Dict

from ._grid import Cell

GRADIENTS = ("dq", "dk", "dv")
_OF_CELL = {"dtype": str, "d": int, "dv": int, "causal": int, "backward": int, "n": int, "batch": int, "heads": int,
            "group": int}
COLUMNS = [
    "device", *_OF_CELL, "system", "ms", "spread", "tflops", "ratio", "error", "bound", "frobenius",
    *(f"{name}_error" for name in GRADIENTS), "sm_mhz", "note"
]
FLASHC, CUBLAS = "flashc", "cublas"
BAR_PEER = "cudnn"  # Bars (_bars) are ratios to this peer. Errors of gradients are compared with its errors.
VARIANT = f"{FLASHC}:"  # The prefix of the names of flashc's variants.


@dataclasses.dataclass
class Entry:
    """The results of a system in a cell. If `ms` is NaN, the system did not run or was wrong, and `note` has the
    reason. `gradients` has the relative Frobenius errors of dq, dk and dv by name."""
    ms: float = math.nan
    spread: float = math.nan
    tflops: float = math.nan
    error: float = math.nan
    bound: float = math.nan
    frobenius: float = math.nan
    note: str = ""
    gradients: Dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def counts(self):
        return self.tflops > 0


@dataclasses.dataclass
class Row:
    """A cell with the entry of each system."""
    device: str
    cell: Cell
    entries: Dict[str, Entry]
    sm_mhz: float = math.nan

    def rate(self, name):
        """Returns the TFLOP/s of a system; NaN if it did not run."""
        entry = self.entries.get(name)
        return entry.tflops if entry and entry.counts else math.nan

    def error(self, name, gradient):
        """Returns the relative Frobenius error of a gradient that a system computed. NaN if the system did not run."""
        entry = self.entries.get(name)
        return entry.gradients.get(gradient, math.nan) if entry and entry.counts else math.nan

    def error_ratio(self, gradient):
        """Returns flashc's error divided by BAR_PEER's error on the same inputs. NaN if one of them did not run."""
        return self.error(FLASHC, gradient) / (self.error(BAR_PEER, gradient) or math.nan)

    def best_peer(self):
        peers = {name: entry.tflops for name, entry in self.entries.items() if is_peer(name) and entry.counts}
        return max(peers, key=peers.get) if peers else ""

    def ratio(self, system=None):
        """Returns flashc's rate divided by the rate of a system, or of the best peer. NaN if one of them did
        not run."""
        return self.rate(FLASHC) / self.rate(system or self.best_peer())

    def own_ratio(self, name):
        """Returns the ratio that the CSV file and the summary have for a system. For a variant it is its rate divided
        by flashc's, for a peer flashc's rate divided by the peer's, and for flashc its rate divided by the best
        peer's."""
        if name.startswith(VARIANT):
            return self.rate(name) / self.rate(FLASHC)
        return self.ratio(None if name == FLASHC else name) if name != CUBLAS else math.nan


def is_peer(name):
    return name not in (FLASHC, CUBLAS) and not name.startswith(VARIANT)


def geometric_mean(values):
    """Returns the geometric mean of the positive values. NaN if there are none."""
    logs = [math.log(value) for value in values if value > 0]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan


def _cell_text(value, form):
    return "-" if math.isnan(value) else format(value, form)


class Table:
    """An aligned Markdown table whose rows are printed one by one."""

    def __init__(self, systems, cells, bars=None):
        """`cells` are the cells of all rows; a field that differs between them gets a column. `bars`, {cell: Bar} of
        _bars, add two columns: the ratios of flashc and of the hand-made kernel to BAR_PEER. Cells of the backward pass
        add three columns, for the errors of gradients."""
        self.systems, self.bars = list(systems), bars
        self.gradients = GRADIENTS if any(cell.backward for cell in cells) else ()
        self.extents = ["dims", "causal", "n"]
        for name in ("backward", "dtype", "group", "batch", "heads"):
            known = len({self._extents(cell) for cell in cells})
            self.extents.append(name)
            if len({self._extents(cell) for cell in cells}) == known:
                self.extents.pop()
        self.headings = ["d", *self.extents[1:], *self.systems, "SM MHz", "best peer", "ratio",
                         *([f"/{BAR_PEER}", "hand"] if bars else []), *(f"{name} 1e-3" for name in self.gradients)]
        rates = [11 if name.startswith(VARIANT) else 5 for name in self.systems]
        widths = [7] + [5] * (len(self.extents) - 1) + rates + [6, 9, 5] + ([6, 5] if bars else [])
        widths += [9] * len(self.gradients)
        self.widths = [max(width, len(heading)) for width, heading in zip(widths, self.headings)]

    def _extents(self, cell):
        values = [getattr(cell, name) for name in self.extents]
        return tuple(("yes" if value else "no") if isinstance(value, bool) else str(value) for value in values)

    def _line(self, texts):
        return "| " + " | ".join(text.rjust(width) for text, width in zip(texts, self.widths)) + " |"

    @staticmethod
    def _rate(row, name):
        """Returns the text of a rate. For a variant, its ratio to flashc follows."""
        relative = f" ({row.own_ratio(name):.3f})" if name.startswith(VARIANT) and row.rate(name) > 0 else ""
        return _cell_text(row.rate(name), ".0f") + relative

    def header(self):
        return self._line(self.headings) + "\n|" + "|".join("-" * (width + 1) + ":" for width in self.widths) + "|"

    def line(self, row):
        rates = [self._rate(row, name) for name in self.systems]
        return self._line([*self._extents(row.cell), *rates, _cell_text(row.sm_mhz, ".0f"),
                           row.best_peer() or "-", _cell_text(row.ratio(), ".2f"), *self._against_bars(row),
                           *(self._errors(row, name) for name in self.gradients)])

    def _against_bars(self, row):
        if not self.bars:
            return []
        hand = self.bars[row.cell].hand if row.cell in self.bars else math.nan
        return [_cell_text(row.ratio(BAR_PEER), ".2f"), _cell_text(hand, ".2f")]

    def _errors(self, row, gradient):
        """Returns flashc's relative Frobenius error in thousandths. If BAR_PEER is measured, "/" and its error
        follow."""
        systems = [FLASHC, BAR_PEER] if BAR_PEER in self.systems else [FLASHC]
        return "/".join(_cell_text(1e3 * row.error(name, gradient), ".2f") for name in systems)


def _mean(what, ratios, digits=2):
    """Returns a list with one line, the geometric mean of the ratios that are not NaN. Returns an empty list if all are
    NaN."""
    known = [ratio for ratio in ratios if not math.isnan(ratio)]
    if not known:
        return []
    cells = f"{len(known)} cell{'s' if len(known) > 1 else ''}"
    return [f"{what}: {geometric_mean(known):.3f} ({cells}, {min(known):.{digits}f} to {max(known):.{digits}f})"]


def summary(rows):
    """Returns lines with the geometric means."""
    if not rows:
        return ["no cells"]
    lines = []
    for name, chosen in (("all cells", rows), ("not causal", [row for row in rows if not row.cell.causal]),
                         ("causal", [row for row in rows if row.cell.causal])):
        lines += _mean(f"geometric mean of the ratios to the best peer, {name}", [row.ratio() for row in chosen])
    for peer in filter(is_peer, systems_of(rows)):
        lines += _mean(f"  to {peer}", [row.ratio(peer) for row in rows])
    lines = lines or ["no ratios: flashc or every peer is missing in every cell"]
    for name in systems_of(rows):
        if name.startswith(VARIANT):
            lines += _mean(f"{name} over flashc", [row.own_ratio(name) for row in rows], 3)
    return lines + _gradient_errors(rows) + _related(rows) + _over_cublas(rows)


def _gradient_errors(rows):
    """Returns lines with the largest error of each gradient, for flashc and BAR_PEER, and the means of their ratios."""
    lines = []
    for gradient in GRADIENTS:
        errors = {name: [row.error(name, gradient) for row in rows if row.error(name, gradient) >= 0]
                  for name in (FLASHC, BAR_PEER)}
        worst = [f"{name} {max(known):.2e}" for name, known in errors.items() if known]
        lines += [f"largest relative Frobenius error of {gradient}: {', '.join(worst)}"] if worst else []
        lines += _mean(f"  {gradient}'s error over {BAR_PEER}'s", [row.error_ratio(gradient) for row in rows])
    return lines


def _related(rows):
    """Returns lines with flashc's rate in each cell divided by its rate in related cells, and the mean for each
    relation."""
    by_cell = {(row.device, row.cell): row for row in rows}
    found = {}
    for row in rows:
        for what, cell in row.cell.relatives().items():
            other = by_cell.get((row.device, cell))
            ratio = row.rate(FLASHC) / other.rate(FLASHC) if other else math.nan
            if not math.isnan(ratio):
                found.setdefault(what, []).append((f"  {ratio:.3f}  {row.cell}", ratio))
    return [line for what, pairs in found.items()
            for line in [*_mean(what, [ratio for _, ratio in pairs], 3), *(text for text, _ in pairs)]]


def _over_cublas(rows):
    """Returns lines with flashc's rate over cuBLAS's. They are for cells so long that almost only the matrix products
    should take time."""
    return [f"flashc over cuBLAS: {row.ratio(CUBLAS):.3f}  {row.cell}" for row in rows
            if row.cell.dims in ("128", "256") and row.cell.n == 16384 and row.ratio(CUBLAS) > 0]


def problems(rows):
    """Returns a line for each entry that has a note."""
    return [f"{row.cell}: {name}: {entry.note}" for row in rows for name, entry in row.entries.items() if entry.note]


class CSVWriter:
    """Writes a line for each system of each cell. `write` returns when the lines are on disk."""

    def __init__(self, path):
        self.file = open(path, "w", newline="", encoding="utf-8")
        self.writer = csv.writer(self.file)
        self.writer.writerow(COLUMNS)
        self._flush()

    def _flush(self):
        self.file.flush()
        with contextlib.suppress(OSError):  # fails for a pipe
            os.fsync(self.file.fileno())

    def write(self, row):
        def number(value, form=".6g"):
            return "" if math.isnan(value) else format(value, form)

        for name, entry in row.entries.items():
            self.writer.writerow([
                row.device, *(kind(getattr(row.cell, column)) for column, kind in _OF_CELL.items()), name,
                number(entry.ms), number(entry.spread, ".3g"),
                number(entry.tflops, ".5g"), number(row.own_ratio(name), ".4f"), number(entry.error),
                number(entry.bound), number(entry.frobenius),
                *(number(entry.gradients.get(name, math.nan)) for name in GRADIENTS),
                number(row.sm_mhz, ".0f"), entry.note])
        self._flush()

    def close(self):
        self.file.close()


def read_lines(paths, columns, read):
    """Calls `read` with each line of CSV files. Raises ValueError if the columns differ, or if `read` raises TypeError
    or ValueError."""
    for path in paths:
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if reader.fieldnames != columns:
                raise ValueError(f"{path}: expected the columns {','.join(columns)}, got "
                                 f"{','.join(reader.fieldnames or ['nothing'])}")
            for line in reader:
                try:
                    read(line)
                except (TypeError, ValueError) as error:
                    raise ValueError(f"{path}:{reader.line_num}: {error}") from None


def read_csv(paths):
    """Returns the rows of files that CSVWriter wrote. Raises ValueError for other files."""
    rows = {}

    def read(line):
        extents = {column: kind(line[column]) for column, kind in _OF_CELL.items()}
        cell = Cell(**{**extents, "causal": extents["causal"] != 0, "backward": extents["backward"] != 0})
        values = {name: float(line[name]) if line[name] else math.nan
                  for name in ("ms", "spread", "tflops", "error", "bound", "frobenius", "sm_mhz")}
        sm_mhz = values.pop("sm_mhz")
        gradients = {name: float(line[f"{name}_error"]) for name in GRADIENTS if line[f"{name}_error"]}
        row = rows.setdefault((line["device"], cell), Row(line["device"], cell, {}, sm_mhz))
        # If a cell was measured again, the later entries replace the earlier ones, system by system.
        row.entries[line["system"]] = Entry(note=line["note"], gradients=gradients, **values)
    read_lines(paths, COLUMNS, read)
    return list(rows.values())


def systems_of(rows):
    """Returns the systems of the rows: flashc, its variants, the peers, cuBLAS."""
    def place(name):
        return (CUBLAS == name, is_peer(name), name.startswith(VARIANT))

    return sorted(dict.fromkeys(name for row in rows for name in row.entries), key=place)


def latency_line(what, times, unit, target=None, note=""):
    """Returns a line of `--latency`: the median, the range of the middle 90%, the target, and whether the target was
    met."""
    ordered = sorted(times)
    low, high = ordered[len(ordered) // 20], ordered[-1 - len(ordered) // 20]
    median = statistics.median(ordered)
    verdict = "" if target is None else f"  target < {target:g} {unit}: {'met' if median < target else 'MISSED'}"
    return f"{what:<58} {median:9.2f} {unit}  ({low:.2f} to {high:.2f}, {len(ordered)} runs){verdict}" + (
        f"  [{note}]" if note else "")
