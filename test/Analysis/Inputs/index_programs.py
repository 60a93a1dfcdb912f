"""Runs the index arithmetic that flashc emits, from its text: a step for each operation, a function of the values so
far."""

import re

import numpy

from mask_programs import ARITH, EVALUATE
from printed_bounds import Int, to_python

# What divui divides is not negative.
COMPUTE = {name: EVALUATE[op] for op, name in ARITH.items()} | {"divui": EVALUATE["floordiv"]}


def compile_array_line(line):
    """The same as compile_line, for what looks into arrays and tables."""
    if match := re.match(r"(%[\w-]+) = flash.assume_sorted (%[\w-]+) :", line):
        return match[1], lambda values: values[match[2]]
    if match := re.match(r"(%[\w-]+) = tensor.extract (%[\w-]+)\[(%[\w-]+)\] :", line):
        return match[1], lambda values: Int(EVALUATE["extract"](values[match[2]], values[match[3]]))
    if match := re.match(r"(%[\w-]+) = tensor.extract (%[\w-]+)\[(%.*, %.*)\] :", line):
        indices = match[3].split(", ")
        return match[1], lambda values: Int(values[match[2]][tuple(values[index] for index in indices)])
    if match := re.match(r"(%[\w-]+) = flash.tile_minmax (%[\w-]+) along 0 tiles (\d+) : tensor<\?x", line):
        return match[1], lambda values: make_minmax(values[match[2]], int(match[3]))
    if match := re.match(r"(%[\w-]+) = flash.(count_le|nth) (%[\w-]+) in (%[\w-]+)( {strict})? :", line):
        function = EVALUATE["count_lt" if match[5] else match[2]]
        return match[1], lambda values: Int(function(values[match[3]], values[match[4]]))
    if match := re.match(r"(%[\w-]+) = arith.(?:index_cast|extsi) (%[\w-]+) : \w+ to (?:index|i64)", line):
        return match[1], lambda values: values[match[2]]
    return None


def compile_line(line):
    """A function of the values so far that gives the result of one operation, and the result's name; or None."""
    if match := re.match(r"(%[\w-]+) = arith.constant (-?\d+) : (?:index|i32|i64)", line):
        value = Int(match[2])
        return match[1], lambda values: value
    if match := re.match(r"(%[\w-]+) = affine\.(apply|min|max) affine_map<(.*) -> \((.*)\)>(\(.*)$", line):
        names = re.findall(r"[ds]\d+", match[3])
        operands = re.findall(r"%[\w-]+", match[5])
        function = eval(f"lambda {', '.join(names)}: ({to_python(match[4])},)", {"Int": Int})
        reduce = {"apply": lambda x: x[0], "min": min, "max": max}[match[2]]
        return match[1], lambda values: reduce(function(*[values[operand] for operand in operands]))
    if match := re.match(r"(%[\w-]+) = arith.cmpi (\w+), (%[\w-]+), (%[\w-]+) : (?:index|i64|i1)", line):
        return match[1], lambda values: bool(EVALUATE[match[2]](values[match[3]], values[match[4]]))
    if match := re.match(r"(%[\w-]+) = arith.constant (true|false)", line):
        return match[1], lambda values: match[2] == "true"
    if match := re.match(r"(%[\w-]+) = arith.index_castui (%[\w-]+) : i1 to index", line):
        return match[1], lambda values: Int(values[match[2]])
    if match := re.match(r"(%[\w-]+) = arith.(\w+) (%[\w-]+), (%[\w-]+) : (index|i64|i1)", line):
        to = bool if match[5] == "i1" else Int
        return match[1], lambda values: to(COMPUTE[match[2]](values[match[3]], values[match[4]]))
    if match := re.match(r"(%[\w-]+) = arith.select (%[\w-]+), (%[\w-]+), (%[\w-]+) : (?:index|i1|i32|i64)", line):
        return match[1], lambda values: values[match[3]] if values[match[2]] else values[match[4]]
    return None


def compile_any(line):
    return compile_line(line) or compile_array_line(line)


# --- Tables of tiles --------------------------------------------------------------------------------------------------

SKIPPED, OPEN, FULL = 0, 1, 2
CLASSES = re.compile(r"^ *(%[\w-]+) = flash\.tile_classes\((.*)\) tiles\((\d+), (\d+)\) {\n *\^bb0\((.*)\):\n((?:.*\n)*?)"
                     r" *flash.yield (%[\w-]+) : i32\n *} keeps {\n(?:.*\n)*?"
                     r" *flash.yield %[\w-]+ : i1\n *} : tensor<\?x\?x\?x\?xi32>\n", re.MULTILINE)
RUNS = re.compile(r"^ *(%[\w-]+) = flash\.tile_runs\((.*)\) tiles\((\d+), (\d+)\) {\n *\^bb0\((.*)\):\n((?:.*\n)*?)"
                  r" *flash.yield (%[\w-]+) : i32\n *} : tensor<\?x\?x\?x(\d+)x4xi32>\n", re.MULTILINE)


def make_minmax(array, tile):
    """flash.tile_minmax of an array of one dimension."""
    starts = range(0, len(array), tile)
    return numpy.stack([numpy.minimum.reduceat(array, starts), numpy.maximum.reduceat(array, starts)], axis=-1)


def take_tables(body):
    """The steps for what is a flash.tile_classes or a flash.tile_runs, and the text without them. They compute a tile of
    queries when it is asked for, so they may stand in front of what their regions use."""
    steps = []
    for match in CLASSES.finditer(body):
        region = TilesRegion(match)
        steps.append((match[1], lambda values, region=region: ClassesTable(region, values)))
    body = CLASSES.sub("", body)
    for match in RUNS.finditer(body):
        region = TilesRegion(match)
        region.limit = int(match[8])
        steps.append((match[1], lambda values, region=region: RunsTable(region, values)))
    return steps, RUNS.sub("", body)


class TilesRegion:
    """The text of a region that says something of each tile, compiled."""

    def __init__(self, match):
        self.extents, self.result = match[2].split(", "), match[7]
        self.q_tile, self.kv_tile = int(match[3]), int(match[4])
        self.arguments = re.findall(r"(%[\w-]+): index", match[5])
        self.of_queries, self.of_keys, depends = [], [], {self.arguments[3]}
        for line in match[6].splitlines():
            step = compile_any(line.strip())
            assert step, f"unknown operation {line}"
            is_of_key = not depends.isdisjoint(re.findall(r"%[\w-]+", line))
            depends |= {step[0]} if is_of_key else set()
            (self.of_keys if is_of_key else self.of_queries).append(step)

    def classify(self, values, place):
        """The class of each tile of keys, for one tile of queries."""
        batch, head, row = place
        batches, heads, queries, keys = (values[extent] for extent in self.extents)
        assert batch in range(batches) and head in range(heads) and row * self.q_tile in range(queries), place
        values = values | dict(zip(self.arguments, (batch, head, row * self.q_tile)))
        for name, step in self.of_queries:
            values[name] = step(values)
        classes = []
        for key in range(0, keys, self.kv_tile):
            values[self.arguments[3]] = Int(key)
            for name, step in self.of_keys:
                values[name] = step(values)
            classes.append(values[self.result])
        return classes


class ClassesTable:
    """The result of a flash.tile_classes. What running the mask gives is read off values["kept"], the pairs that are
    kept; what is known without that has to agree."""

    def __init__(self, region, values):
        self.region, self.values, self.rows = region, values, {}

    def __getitem__(self, indices):
        *place, column = indices
        if tuple(place) not in self.rows:
            known = self.region.classify(self.values, place)
            self.rows[tuple(place)] = [self.check(kind, place[2], n) for n, kind in enumerate(known)]
        return self.rows[tuple(place)][column]

    def check(self, known, row, column):
        rows, columns = self.region.q_tile, self.region.kv_tile
        tile = self.values["kept"][row * rows:(row + 1) * rows, column * columns:(column + 1) * columns]
        is_whole = tile.shape[1] == columns and tile.all()
        exact = SKIPPED if not tile.any() else FULL if is_whole else OPEN
        assert known in (OPEN, exact), (known, exact, row, column)
        return exact


class RunsTable:
    """The result of a flash.tile_runs."""

    def __init__(self, region, values):
        self.region, self.values, self.rows = region, values, {}

    def __getitem__(self, indices):
        *place, run, field = indices
        if tuple(place) not in self.rows:
            self.rows[tuple(place)] = find_runs(self.region.classify(self.values, place), self.region.limit)
        return self.rows[tuple(place)][run][field] * self.region.kv_tile


def find_runs(classes, limit):
    """(begin, begin of the longest row of full tiles, its end, end) for each run, counted in tiles."""
    visited = [n for n, kind in enumerate(classes) if kind != SKIPPED]
    gaps = [n for n in range(1, len(visited)) if visited[n] > visited[n - 1] + 1]
    cuts = sorted(sorted(gaps, key=lambda n: visited[n - 1] - visited[n])[:limit - 1])  # the widest ones
    runs = []
    for begin, end in zip([0, *cuts], [*cuts, len(visited)]) if visited else []:
        first, last = visited[begin], visited[end - 1] + 1
        rows = [(n, m) for n in range(first, last) for m in range(n, last + 1) if set(classes[n:m]) <= {FULL}]
        runs.append((first, *max(rows, key=lambda row: row[1] - row[0]), last))
    return runs + [(0, 0, 0, 0)] * (limit - len(runs))
