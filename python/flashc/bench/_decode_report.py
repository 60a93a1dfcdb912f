"""The output of the decoding benchmark: a line for each cell, means of ratios, and CSV files, which can be read
again."""

import csv
import dataclasses
import math

from ._decode_grid import Cell
from ._report import FLASHC, VARIANT, geometric_mean, is_peer, read_lines

COLUMNS = [field.name for field in dataclasses.fields(Cell)] + ["system", "microseconds", "tb_per_s"]


@dataclasses.dataclass
class Row:
    """A cell, the microseconds of each system that ran it, and {system: reason} for the systems that did not."""
    cell: Cell
    microseconds: dict
    notes: dict = dataclasses.field(default_factory=dict)

    def rate(self, name):
        """Returns the TB/s of a system; NaN if it did not run."""
        return self.cell.bytes / self.microseconds[name] / 1e6 if name in self.microseconds else math.nan

    def best_peer(self):
        """Returns the name of the fastest peer; "" if no peer ran."""
        peers = {name: time for name, time in self.microseconds.items() if is_peer(name)}
        return min(peers, key=peers.get) if peers else ""

    def ratio(self, peer=None):
        """Returns the time of a peer, or of the best peer, divided by flashc's time. NaN if one of them did not run."""
        time = self.microseconds.get(peer or self.best_peer(), math.nan)
        return time / self.microseconds.get(FLASHC, math.nan)

    @property
    def failed(self):
        """Whether flashc or one of its variants did not run, or a system computed wrong numbers."""
        return FLASHC not in self.microseconds or any(
            not is_peer(name) or note.startswith("wrong") for name, note in self.notes.items())

    def line(self):
        text = f"{str(self.cell):48}"
        for name, time in self.microseconds.items():
            text += f" {name} {time:9.1f} us {self.rate(name):5.2f} TB/s"
        return text + ("" if math.isnan(self.ratio()) else f"  {self.ratio():5.2f}")


def summary(rows):
    """Returns lines with the geometric means, the worst cells and the notes."""
    names = list(dict.fromkeys(name for row in rows for name in row.microseconds))
    families = list(dict.fromkeys(row.cell.family for row in rows))
    what = "ratios to the best peer"
    lines = _best(what, rows)
    for family in families if len(families) > 1 else []:
        lines += _best(f"{what}, {family}", [row for row in rows if row.cell.family == family])
    for name in names:
        if is_peer(name):
            lines += _mean(f"ratios to {name}", [row.ratio(name) for row in rows])
        elif name.startswith(VARIANT):
            lines += _mean(f"ratios of flashc's time to that of {name}", [1 / row.ratio(name) for row in rows])
    return lines + [f"note: {row.cell}: {name}: {note}" for row in rows for name, note in row.notes.items()]


def _best(what, rows):
    """Returns the line of the mean of the ratios to the best peer, and that of the worst of several cells."""
    known = [row for row in rows if not math.isnan(row.ratio())]
    lines = _mean(what, [row.ratio() for row in known])
    if len(known) > 1:
        worst = min(known, key=Row.ratio)
        lines.append(f"  worst: {worst.ratio():.3f} of {worst.best_peer()}: {worst.cell}")
    return lines


def _mean(what, ratios):
    known = [ratio for ratio in ratios if not math.isnan(ratio)]
    return [f"geometric mean of {len(known)} {what}: {geometric_mean(known):.3f} ({min(known):.3f} to "
            f"{max(known):.2f})"] if known else []


def write_csv(file, rows, with_names=False):
    """Appends rows to an open file."""
    writer = csv.writer(file)
    if with_names:
        writer.writerow(COLUMNS)
    for row in rows:
        for name, time in row.microseconds.items():
            writer.writerow([*dataclasses.astuple(row.cell), name, f"{time:.2f}", f"{row.rate(name):.3f}"])
    file.flush()


def read_csv(paths):
    """Returns the rows of files that write_csv wrote. Raises ValueError for other files."""
    rows = {}

    def read(line):
        cell = Cell(**{field.name: field.type(line[field.name]) for field in dataclasses.fields(Cell)})
        row = rows.setdefault(cell, Row(cell, {}))
        row.microseconds[line["system"]] = float(line["microseconds"])
    read_lines(paths, COLUMNS, read)
    return list(rows.values())
