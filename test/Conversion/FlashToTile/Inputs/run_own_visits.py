"""run_own_visits.py [QUERIESxKEYS ...] < IR: computes which key tiles the consumers of each kernel visit
(tile.own_visits), for many numbers of queries and keys. The script compares the visits with the elements that the
kernel's mask, a tile.map, keeps.

All consumers of a CTA must agree on the list of visits, which has no visit twice. Each consumer must make all visits
that keep a pair of its rows, and at least one. If its rows lie after the last query, it must make exactly one. A visit
that drops a pair must be masked. The script prints the number of visits that the consumers make, that keep something,
that are masked and that keep and drop pairs, and the number that they would make if every consumer made all visits of
its CTA."""

import re
import sys

import numpy as np

ROWS = 64
EXTENTS = [  # used if no others are given
    (1, 1), (1, 700), (63, 65), (65, 1), (193, 193), (257, 331), (700, 63), (1000, 1000), (2049, 2049),
    (2500, 1100)]


def divide(a, b):
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


OPERATIONS = {
    "arith.addi": lambda a, b: a + b, "arith.subi": lambda a, b: a - b, "arith.muli": lambda a, b: a * b,
    "arith.divsi": divide, "arith.divui": lambda a, b: a // b, "arith.ceildivui": lambda a, b: -(-a // b),
    "arith.shrsi": lambda a, b: a >> b, "arith.maxsi": np.maximum, "arith.minsi": np.minimum,
    "arith.andi": lambda a, b: a & b, "arith.ori": lambda a, b: a | b, "arith.select": np.where,
    "tile.uniform": lambda a: a}
COMPARISONS = {"slt": np.less, "sle": np.less_equal, "sgt": np.greater, "sge": np.greater_equal, "eq": np.equal}


def parse(lines):
    """Returns the scalar operations: result, name, operands."""
    matches = (re.match(r"\s*(%[\w-]+) = ([\w.]+)\s+(.*?)(?: overflow<\w+>)?(?: : .*)?$", line) for line in lines)
    return [match.groups() for match in matches if match]


def run(operations, values):
    for result, name, operands in operations:
        arguments = [argument.strip() for argument in operands.split(",")]
        if name == "arith.constant" and re.fullmatch(r"-?\d+", operands):
            values[result] = int(operands)
        elif name == "arith.cmpi":
            values[result] = COMPARISONS[arguments[0]](values[arguments[1]], values[arguments[2]])
        elif name in OPERATIONS and all(argument in values for argument in arguments):
            arguments = [values[argument] for argument in arguments]
            assert name not in ("arith.divui", "arith.ceildivui") or arguments[0] >= 0, (result, arguments)
            values[result] = OPERATIONS[name](*arguments)
            assert isinstance(values[result], np.ndarray) or abs(values[result]) < 1 << 31, (result, values[result])
    return values


class Kernel:
    def __init__(self, text):
        head, body = text.split("tile.program", 1)
        self.consumers = int(body.split()[0])
        self.tile = int(re.search(r"tile.alloc_ring : <\d+, (\d+), \d+, \w+>", head)[1])  # all rings share it
        self.extents = re.findall(r"(%\w+): index", head.split("workgroup")[0])[:2]
        self.x = re.search(r"(%\w+) = gpu.block_id\s+x", body)[1]
        self.warpgroup = re.search(r"\^bb0\((%\w+): index\)", body)[1]
        before, loop = re.split(r"\n.*scf\.for ", body, maxsplit=1)
        self.own = re.search(r"tile.own_visits (%\w+) to (%\w+) of (%\w+)", before).groups()
        self.before = parse((head + before).splitlines())
        self.visit = loop.split()[0]
        until_load = loop.split("tile.load")[0]
        self.in_loop = parse(until_load.splitlines()[1:-1])
        self.key = re.search(r"tile.load \S+\[.*, (%\w+)\]", loop)[1]
        full = re.search(r"tile.outside \S+ of\[(%\w+), (%\w+)\)", loop)
        self.full = full.groups() if full else None
        region = loop[loop.index("tile.map"):]
        self.position = re.search(r"at\((%\w+), (%\w+)\)", region)[1]
        self.i, self.j = re.search(r"\^bb0\(%\w+: f32, (%\w+): index, (%\w+): index\)", region).groups()
        region = region[:region.index("tile.yield")]
        self.in_mask = parse(region.splitlines()[2:])
        self.keep = re.findall(r"arith.select (%\w+), ", region)[-1]

    def check(self, queries, keys, counts):
        # The heaviest tile comes first: the first CTA has the last tile of queries.
        rows = ROWS * self.consumers
        for x in range(-(-queries // rows)):
            sequences = set()
            for warpgroup in range(self.consumers):
                values = dict(zip(self.extents, (queries, keys)), **{self.x: x, self.warpgroup: warpgroup})
                run(self.before, values)
                sequences.add(self.check_consumer(values, queries, keys, counts))
            assert len(sequences) == 1, sequences

    def check_consumer(self, values, queries, keys, counts):
        begin, end, total = (int(values[name]) for name in self.own)
        assert 0 <= begin < end <= total, (begin, end, total)
        tiles = [int(run(self.in_loop, {**values, self.visit: visit})[self.key]) for visit in range(total)]
        assert len(set(tiles)) == total, tiles
        first = int(values[self.position])
        i = np.arange(first, min(first + ROWS, queries))[:, None]
        extent = -(-keys // self.tile) * self.tile
        keep = run(self.in_mask, {**values, self.i: i, self.j: np.arange(extent)[None]})[self.keep]
        keep = np.broadcast_to(keep, (len(i), extent)).reshape(len(i), extent // self.tile, self.tile)
        kept = {int(tile) * self.tile for tile in np.flatnonzero(keep.any((0, 2)))}
        cut = {int(tile) * self.tile for tile in np.flatnonzero(~keep.all((0, 2)))}
        full = range(*(int(values[name]) for name in self.full)) if self.full else ()
        masked = {tiles[visit] for visit in range(begin, end) if visit not in full}
        own = set(tiles[begin:end])
        assert kept <= own, (queries, keys, first, kept - own)
        assert not (own - masked) & cut, (queries, keys, first, (own - masked) & cut)
        assert len(i) or end - begin == 1, (queries, keys, first, begin, end)
        if len(i) == ROWS:
            for name, count in (("visits", len(own)), ("kept", len(kept)), ("masked", len(masked)),
                                ("cut", len(kept & cut)), ("all", total)):
                counts[name] = counts.get(name, 0) + count
        return tuple(tiles)


def main():
    extents = [tuple(map(int, argument.split("x"))) for argument in sys.argv[1:]] or EXTENTS
    for text in sys.stdin.read().split("gpu.func ")[1:]:
        kernel, counts = Kernel(text), {}
        for queries, keys in extents:
            kernel.check(queries, keys, counts)
        print(re.match(r"@\w+", text)[0], *(f"{name} {count}" for name, count in counts.items()))


if __name__ == "__main__":
    main()
