"""Rows of the schedule table: makes rows from times, and reads and writes the text that the compiler reads
(docs/schedules.md).

A row is a line `conditions: overrides`, and `#` begins a comment. The first row whose conditions all hold applies."""

import math
import os
import re
import tempfile
from typing import NamedTuple, Optional

from .._runtime.files import read_regular
from ._space import Key

NOISE = 0.02  # A schedule gets another row only if it is faster by more than this part.


class Row(NamedTuple):
    """The overrides for a key, for up to `queries` queries. None: for any number."""
    key: Key
    queries: Optional[int]
    overrides: str

    def __str__(self):
        dtype = f"dtype={self.key.dtype} " if self.key.dtype != "bf16" else ""
        queries = f" queries<={self.queries}" if self.queries is not None else ""
        return f"{dtype}d={self.key.d} dv={self.key.dv} mask={self.key.mask}{queries}: {self.overrides}"

    @property
    def place(self):
        """The place of the row in the order of rows. Rows of other types come before those of bf16, which have no
        condition on the type. Rows with a limit of queries come before the row without a limit."""
        return (self.key.d, self.key.dv, self.key.mask != "none", self.key.dtype == "bf16",
                math.inf if self.queries is None else self.queries)


def merge(times, noise=NOISE):
    """Returns [(number of queries or None, schedule)] from {number of queries: {schedule: time}}, which has the same
    schedules for each number. Chooses the fewest rows that give each number a schedule within `noise` of its best one,
    and among these the fastest."""
    lengths = sorted(times)
    # plans[i] is the best plan for the first i numbers of queries: how many rows it has, the sum of the logarithms of
    # its times, and its rows.
    plans = [(0, 0.0, [])]
    for end in range(1, len(lengths) + 1):
        options = []
        for start in range(end):
            members = [times[n] for n in lengths[start:end]]
            good = [name for name in times[lengths[0]]
                    if all(member[name] <= (1 + noise) * min(member.values()) for member in members)]
            for name in good:
                rows, total, plan = plans[start]
                options.append((rows + 1, total + sum(math.log(member[name]) for member in members),
                                plan + [(lengths[end - 1], name)]))
        plans.append(min(options, key=lambda option: option[:2]))
    rows = plans[-1][2]
    return rows[:-1] + [(None, rows[-1][1])]


_ROW = re.compile(r"(?:dtype=(\w+) )?d=(\d+) dv=(\d+) mask=(none|bounds)(?: queries<=(\d+))?: (\S+)")


def parse(text):
    """Returns the rows of a text, and its other lines, which a user wrote. Comments are dropped."""
    rows, others = [], []
    for line in text.splitlines():
        line = line.strip()
        match = _ROW.fullmatch(line)
        if match:
            dtype, d, dv, mask, queries, overrides = match.groups()
            rows.append(Row(Key(int(d), int(dv), mask, dtype or "bf16"), int(queries) if queries else None, overrides))
        elif line and not line.startswith("#"):
            others.append(line)
    return rows, others


def form(rows, others, device, date):
    """Returns the text of a table. Lines that a user wrote come first, so that they still apply."""
    return "\n".join([f"# python -m flashc.tune, {device}, {date}", *others,
                      *map(str, sorted(rows, key=lambda row: row.place))]) + "\n"


def replace_key(text, key, rows, device, date):
    """Returns the text of a table in which the rows of a key are replaced."""
    old, others = parse(text)
    return form([row for row in old if row.key != key] + rows, others, device, date)


def write(path, text):
    """Replaces a file atomically."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def read(path):
    """Returns the text of a file. Returns "" if there is no file."""
    try:
        return read_regular(path).decode("utf-8")
    except FileNotFoundError:
        return ""
