"""Runs the index arithmetic that flashc emits, from its text. Each operation becomes a step, which is a function of the
values computed before."""

import functools
import re

from mask_programs import ARITH, EVALUATE, FAR
from printed_bounds import Int

# Functions of single integers, for which Python's own operators are much faster than NumPy. Dividends of divui are not
# negative.
COMPUTE = {name: {"min": min, "max": max}.get(op, EVALUATE[op]) for op, name in ARITH.items()} | {
    "divui": EVALUATE["floordiv"], "divsi": lambda x, y: x // y if x >= 0 else -(-x // y),
    "remsi": lambda x, y: x % y if x >= 0 else -(-x % y)}


def element(array, place):
    return array[min(max(place, 0), len(array) - 1)]


LOOK_UP = {"extract": element,
           "nth": lambda n, a: -FAR if n < 0 else FAR if n >= len(a) else a[n],
           "count_le": lambda value, a: a.searchsorted(value, side="right"),
           "count_lt": lambda value, a: a.searchsorted(value, side="left")}


def compile_array_line(line):
    """Compiles an operation that reads arrays or tables, as compile_line does."""
    if match := re.match(r"(%[\w-]+) = flash.assume_sorted (%[\w-]+) :", line):
        return match[1], lambda values: values[match[2]]
    if match := re.match(r"(%[\w-]+) = tensor.extract (%[\w-]+)\[(%[\w-]+)\] :", line):
        return match[1], lambda values: int(LOOK_UP["extract"](values[match[2]], values[match[3]]))
    if match := re.match(r"(%[\w-]+) = tensor.extract (%[\w-]+)\[(%.*, %.*)\] :", line):
        indices = match[3].split(", ")
        return match[1], lambda values: int(values[match[2]][tuple(values[index] for index in indices)])
    if match := re.match(r"(%[\w-]+) = flash.(count_le|nth) (%[\w-]+) in (%[\w-]+)( {strict})? :", line):
        function = LOOK_UP["count_lt" if match[5] else match[2]]
        return match[1], lambda values: int(function(values[match[3]], values[match[4]]))
    if match := re.match(r"(%[\w-]+) = arith.(?:index_cast|extsi) (%[\w-]+) : \w+ to (?:index|i32|i64)", line):
        return match[1], lambda values: values[match[2]]
    return None


@functools.cache
def compile_results(names, results):
    """Returns a function that computes the results of an affine map from their text. Int makes the divisor of
    `ceildiv`, and nothing else, round up."""
    text = re.sub(r"ceildiv (\w+|\()", lambda match: "@ Int(" + match[1].strip("(") + ")" * (match[1] != "("),
                  results.replace("floordiv", "//").replace("mod", "%"))
    return eval(f"lambda {names}: ({text},)", {"Int": Int})


def compile_line(line):
    """Returns the name of an operation's result, and a function that computes it from the values before; or None."""
    if match := re.match(r"(%[\w-]+) = arith.constant (-?\d+) : (?:index|i32|i64)", line):
        value = int(match[2])
        return match[1], lambda values: value
    if match := re.match(r"(%[\w-]+) = affine\.(apply|min|max) affine_map<(.*) -> \((.*)\)>(\(.*)$", line):
        names = re.findall(r"[ds]\d+", match[3])
        operands = re.findall(r"%[\w-]+", match[5])
        function = compile_results(", ".join(names), match[4])
        reduce = {"apply": lambda x: x[0], "min": min, "max": max}[match[2]]
        return match[1], lambda values: reduce(function(*[values[operand] for operand in operands]))
    if match := re.match(r"(%[\w-]+) = arith.cmpi (\w+), (%[\w-]+), (%[\w-]+) : (?:index|i64|i1)", line):
        return match[1], lambda values: bool(EVALUATE[match[2]](values[match[3]], values[match[4]]))
    if match := re.match(r"(%[\w-]+) = arith.constant (true|false)", line):
        return match[1], lambda values: match[2] == "true"
    if match := re.match(r"(%[\w-]+) = arith.index_castui (%[\w-]+) : i1 to index", line):
        return match[1], lambda values: int(values[match[2]])
    if match := re.match(r"(%[\w-]+) = arith.(\w+) (%[\w-]+), (%[\w-]+) : (index|i32|i64|i1)", line):
        to = bool if match[5] == "i1" else int
        return match[1], lambda values: to(COMPUTE[match[2]](values[match[3]], values[match[4]]))
    if match := re.match(r"(%[\w-]+) = arith.select (%[\w-]+), (%[\w-]+), (%[\w-]+) : (?:index|i1|i32|i64)", line):
        return match[1], lambda values: values[match[3]] if values[match[2]] else values[match[4]]
    return None


def compile_any(line):
    return compile_line(line) or compile_array_line(line)


# --- Tables of tiles --------------------------------------------------------------------------------------------------

SKIPPED, OPEN, FULL = 0, 1, 2
CLASSES = re.compile(
    r"^ *(%[\w-]+) = flash\.tile_classes()\((.*)\) tiles\((\d+), (\d+)\) {\n *\^bb0\((.*)\):\n((?:.*\n)*?)"
    r" *flash.yield (%[\w-]+) : i32\n *} keeps {\n(?:.*\n)*?"
    r" *flash.yield %[\w-]+ : i1\n *} : tensor<\?x\?x\?x\?xi32>\n", re.MULTILINE)
RUNS = re.compile(
    r"^ *(%[\w-]+) = flash\.tile_runs(?: (dual))?\((.*)\) tiles\((\d+), (\d+)\) {\n *\^bb0\((.*)\):\n((?:.*\n)*?)"
    r" *flash.yield (%[\w-]+) : i32\n *} : tensor<\?x\?x\?x(\d+)x4xi32>\n", re.MULTILINE)

RANGE = re.compile(
    r"^ *(%[\w-]+), (%[\w-]+) = flash\.tile_range\((.*) below (%[\w-]+)\) tile (\d+) {\n *\^bb0\((.*)\):\n"
    r"((?:.*\n)*?) *flash.yield (%[\w-]+) : \w+\n *}", re.MULTILINE)


def compile_range(match):
    """Returns the steps for a flash.tile_range: one for the pair of numbers, and one for each number."""
    least, greatest, *_ = match.groups()
    batch, head, first = match[3].split(", ")
    arguments = re.findall(r"(%[\w-]+): index", match[6])
    steps = [compile_any(line.strip()) for line in match[7].splitlines()]
    assert all(steps), f"unknown operation in {match[0]}"

    def run(values):
        begin, found = values[first], []
        for position in range(begin, min(begin + int(match[5]), values[match[4]])):
            inside = values | dict(zip(arguments, (values[batch], values[head], int(position))))
            for name, step in steps:
                inside[name] = step(inside)
            found.append(inside[match[8]])
        return int(min(found)), int(max(found))
    pair = least + greatest
    return [(pair, run), (least, lambda values: values[pair][0]), (greatest, lambda values: values[pair][1])]


def compile_region(text):
    """Yields (text, steps) for each operation of a region."""
    while match := RANGE.search(text):
        for line in text[:match.start()].splitlines():
            yield line, [compile_any(line.strip())]
        yield match[0], compile_range(match)
        text = text[match.end() + 1:]
    for line in text.splitlines():
        yield line, [compile_any(line.strip())]


def take_tables(body):
    """Returns the steps for all flash.tile_classes and flash.tile_runs, and the text without these ops. A table
    computes a row of tiles when the row is read, so its step may come before the values that its region uses."""
    steps = []
    for match in CLASSES.finditer(body):
        region = TilesRegion(match)
        steps.append((match[1], lambda values, region=region: ClassesTable(region, values)))
    body = CLASSES.sub("", body)
    for match in RUNS.finditer(body):
        region = TilesRegion(match)
        region.limit = int(match[9])
        steps.append((match[1], lambda values, region=region: RunsTable(region, values)))
    return steps, RUNS.sub("", body)


class TilesRegion:
    """The compiled region of an op that computes a property of each tile."""

    def __init__(self, match):
        self.is_dual, self.extents, self.result = match[2] == "dual", match[3].split(", "), match[8]
        self.q_tile, self.kv_tile = int(match[4]), int(match[5])
        self.arguments = re.findall(r"(%[\w-]+): index", match[6])
        # The dimension along which a row's tiles lie, and the dimension along which rows follow each other.
        self.streamed, self.resident = (2, 3) if self.is_dual else (3, 2)
        self.of_row, self.of_tile, depends = [], [], {self.arguments[self.streamed]}
        for text, steps in compile_region(match[7]):
            assert all(steps), f"unknown operation {text}"
            is_of_tile = not depends.isdisjoint(re.findall(r"%[\w-]+", text))
            depends |= {name for name, _ in steps} if is_of_tile else set()
            (self.of_tile if is_of_tile else self.of_row).extend(steps)

    def get_size(self, dim):
        return self.q_tile if dim == 2 else self.kv_tile

    def prepare(self, values, place):
        """Computes the values that all tiles of a row share: those of one resident tile."""
        batch, head, row = place
        extents = [values[extent] for extent in self.extents]
        first = row * self.get_size(self.resident)
        assert batch in range(extents[0]) and head in range(extents[1]) and first in range(
            extents[self.resident]), place
        values = values | {self.arguments[0]: batch, self.arguments[1]: head, self.arguments[self.resident]: int(first)}
        for name, step in self.of_row:
            values[name] = step(values)
        return values

    def classify(self, values, number):
        """Returns the class of a streamed tile. `values` come from `prepare`."""
        values[self.arguments[self.streamed]] = int(number * self.get_size(self.streamed))
        for name, step in self.of_tile:
            values[name] = step(values)
        return values[self.result]

    def classify_row(self, values, place):
        """Returns the class of each streamed tile of one resident tile."""
        prepared, extent = self.prepare(values, place), values[self.extents[self.streamed]]
        return [self.classify(prepared, number) for number in range(-(-extent // self.get_size(self.streamed)))]


class ClassesTable:
    """The result of a flash.tile_classes. values["kept"], the kept pairs, gives the class that running the mask finds.
    For some tiles the table also checks that the class which is known without running the mask agrees."""

    def __init__(self, region, values):
        self.region, self.values, self.rows = region, values, {}

    def __getitem__(self, indices):
        *place, column = indices
        exact = self.run(place[2], column)
        if (place[2] + column) % 5 == 0:  # checks some tiles
            if tuple(place) not in self.rows:
                self.rows[tuple(place)] = self.region.prepare(self.values, place)
            known = self.region.classify(self.rows[tuple(place)], column)
            assert known in (OPEN, exact), (known, exact, indices)
        return exact

    def run(self, row, column):
        rows, columns = self.region.q_tile, self.region.kv_tile
        tile = self.values["kept"][row * rows:(row + 1) * rows, column * columns:(column + 1) * columns]
        is_whole = tile.shape[1] == columns and tile.all()
        return SKIPPED if not tile.any() else FULL if is_whole else OPEN


class RunsTable:
    """The result of a flash.tile_runs."""

    def __init__(self, region, values):
        self.region, self.values, self.rows = region, values, {}

    def __getitem__(self, indices):
        *place, run, field = indices
        if tuple(place) not in self.rows:
            self.rows[tuple(place)] = find_runs(self.region.classify_row(self.values, place), self.region.limit)
        return self.rows[tuple(place)][run][field] * self.region.get_size(self.region.streamed)


def find_runs(classes, limit):
    """Returns (begin, begin of the longest sequence of full tiles, its end, end) for each run, in tiles."""
    visited = [n for n, kind in enumerate(classes) if kind != SKIPPED]
    gaps = [n for n in range(1, len(visited)) if visited[n] > visited[n - 1] + 1]
    cuts = sorted(sorted(gaps, key=lambda n: visited[n - 1] - visited[n])[:limit - 1])  # the widest gaps
    runs = []
    for begin, end in zip([0, *cuts], [*cuts, len(visited)]) if visited else []:
        first, last = visited[begin], visited[end - 1] + 1
        row = longest = (first, first)
        for n in range(first, last):
            row = (row[0] if row[1] == n else n, n + 1) if classes[n] == FULL else row
            longest = row if row[1] - row[0] > longest[1] - longest[0] else longest
        runs.append((first, *longest, last))
    return runs + [(0, 0, 0, 0)] * (limit - len(runs))
