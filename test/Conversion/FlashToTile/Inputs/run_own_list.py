"""run_own_list.py [NAME...] < IR: runs the kernels that make work lists, as their threads would. From the entries of a
list, the script computes which key tiles the consumers of each tile of queries visit (tile.own_visits). It compares
these with the rule of the mask for every element, for many sequences and documents: of any length, some of them empty,
and with tokens after the last offset.

The tiles of queries must cover each query once. Each consumer must make all visits that keep a pair of its rows, and at
least one. A visit that drops a pair must be masked. The script prints the number of visits that the consumers make,
that keep something, that are masked and that keep and drop pairs, and the number that they would make if every consumer
made all visits of its CTA."""

import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from run_own_visits import ROWS, parse, run
from run_tables import evaluate, launch, make_memory, prepare


def in_sequences(i, j, starts, key_starts):
    """Returns whether i and j belong to one sequence, and the distance of j from i if the ends of the sequence's
    queries and keys are aligned."""
    number = np.searchsorted(starts, i, "right")
    ends, key_ends = (np.append(array, 1 << 29) for array in (starts, key_starts))
    distance = (j - key_ends[number]) - (i - ends[number])
    return (key_starts[number - 1] <= j) & (j < key_ends[number]), distance


def packed(i, j, offsets):
    return in_sequences(i, j, offsets, offsets)[0]


def packed_causal(i, j, offsets):
    return packed(i, j, offsets) & (j <= i)


def packed_window(i, j, offsets):
    return packed(i, j, offsets) & (j <= i) & (i - j <= 255)


def packed_apart(i, j, offsets, key_offsets):
    inside, distance = in_sequences(i, j, offsets, key_offsets)
    return inside & (distance <= 100) & (distance >= -255)


def documents(i, j, ids):
    return ids[i] == ids[j]


def documents_causal(i, j, ids):
    return documents(i, j, ids) & (j <= i)


def padded_causal(i, j, lengths):
    return (j < lengths[0]) & (j <= i)


def cut(rng, length, count):
    """Returns offsets of `count` sequences, some of them empty."""
    cuts = np.sort(rng.integers(0, length + 1, count - 1))
    cuts[::3] = cuts[::3] // 64 * 64
    return np.concatenate([[0], np.sort(cuts), [length]]).astype(np.int32)


def make_calls(rng, name):
    """Yields numbers of queries and keys, and the arrays that the mask reads."""
    for queries, keys, count in ((1, 1, 3), (193, 193, 1), (300, 300, 9), (1100, 1100, 3), (1000, 1000, 30)):
        if name == "packed_apart":
            keys = keys * 3 // 2
            yield queries, keys, [cut(rng, queries, count), cut(rng, keys, count)]
            yield queries, queries // 2 + 1, [cut(rng, queries, count), cut(rng, queries // 2 + 1, count)]
        elif name.startswith("packed"):
            yield queries, keys, [cut(rng, queries, count)]
            if queries > 99:  # the tokens after the last offset form one more sequence
                yield queries, keys, [cut(rng, queries - 50, count)]
        elif name.startswith("documents"):
            yield queries, keys, [np.sort(rng.integers(-count, count, queries)).astype(np.int32)]
        else:
            yield queries, keys, [np.array([rng.integers(0, keys + 1)], np.int32)]


class Kernel:
    def __init__(self, text, name):
        self.text, self.name = text, name
        self.fill, body, _ = prepare(text, name, [], None)
        before, program = body.split("tile.program", 1)
        begin, end, *self.own = re.search(
            r"(%\w+), (%\w+) = tile.own_visits (%\w+) to (%\w+) of (%\w+) listed", program).groups()
        program, loop = re.split(rf"\n.*scf\.for (?=%\w+ = {begin} to {end} )", program, maxsplit=1)
        self.consumers, self.numbers, self.own_numbers = (
            int(number) for number in re.match(r" (\d+) .*numbers (\d+) own (\d+)", program).groups())
        self.tile = int(re.search(r"tile.alloc_ring : <\d+, (\d+), \d+, \w+>", before)[1])  # all rings share it
        self.x = re.search(r"(%\w+) = gpu.block_id\s+x", program)
        self.warpgroup = re.search(r"\^bb0\((%\w+): index\)", program)[1]
        self.listed = re.findall(r"(%\w+) = tile.list_number (\d+)", program)
        self.before = parse(line for line in (before + program).splitlines() if not line.startswith(" " * 10))
        self.visit = loop.split()[0]
        self.in_loop = parse(loop.split("tile.load")[0].splitlines()[1:-1])
        self.key = re.search(r"tile.load \S+\[.*, (%\w+)\]", loop)[1]
        self.full = re.search(r"tile.outside \S+ of\[(%\w+), (%\w+)\)", loop).groups()
        self.row = re.search(r"at\((%\w+), (%\w+)\)", loop)[1]
        self.limit = re.search(r"tile.store\w* .* limit (%[\w#]+)", loop)

    def read_list(self, inputs, size):
        """Returns the entries of the list. Each has `size` words: the item and its numbers."""
        workspace = make_memory(self.text[self.text.index(f"@{self.name}("):].split("\n", 1)[0], inputs)
        for before in ("rows", "order"):
            if f"@{self.name}_{before}(" in self.text:
                launch(self.text, f"{self.name}_{before}", inputs, workspace)
        offset, = re.findall(r'kernel = "%s_order", parameters = \[.*?(?:offset = "([^"]*)")?}\]' % self.name,
                             self.text)
        words = workspace["workspace"][evaluate(offset or "0", inputs):].view(np.int32)
        return words[:len(words) // (2 * size) * size].reshape(-1, size)

    def check(self, rule, queries, keys, arrays, counts):
        q, k = (np.zeros((1, 1, extent, 64)) for extent in (queries, keys))
        inputs = [q, k, k, *arrays, q]
        entries = self.read_list(inputs, 1 + self.numbers + self.consumers * self.own_numbers)
        machine, _ = prepare(self.text, self.name, inputs,
                             dict.fromkeys(("workspace", "mask_map"), np.zeros(1 << 20, np.uint8)))[0](0)
        parameters = {name: int(value[0]) for name, value in machine.values.items() if isinstance(value, np.ndarray)}
        covered = np.zeros(queries, int)
        for item, *numbers in entries.tolist():
            for warpgroup in range(self.consumers):
                values = dict(parameters, **{self.warpgroup: warpgroup})
                if self.x:
                    values[self.x[1]] = item
                for name, number in self.listed:
                    number = int(number)
                    own = number >= self.numbers
                    values[name] = numbers[number + own * warpgroup * self.own_numbers]
                self.check_consumer(run(self.before, values), rule, queries, keys, arrays, covered, counts)
        assert (covered == 1).all(), covered

    def check_consumer(self, values, rule, queries, keys, arrays, covered, counts):
        begin, end, total = (int(values[name]) for name in self.own)
        assert 0 <= begin < end <= total, (begin, end, total)
        tiles = [int(run(self.in_loop, {**values, self.visit: visit})[self.key]) for visit in range(total)]
        assert all(first - last == self.tile for first, last in zip(tiles, tiles[1:])), tiles
        first, limit = int(values[self.row]), int(values[self.limit[1]]) if self.limit else queries
        rows = np.arange(first, min(first + ROWS, limit))
        covered[rows] += 1
        counts["all"] = counts.get("all", 0) + total
        counts["visits"] = counts.get("visits", 0) + end - begin
        full = range(*(int(values[name]) for name in self.full))
        for visit, key in enumerate(tiles):
            columns = np.arange(key, key + self.tile)
            exists = (columns >= 0) & (columns < keys)
            keep = np.zeros((0, 1))
            if len(rows):
                keep = exists & rule(rows[:, None], np.where(exists, columns, 0)[None], *arrays)
            is_own, is_full = begin <= visit < end, visit in full
            assert is_own or not keep.any(), (self.name, queries, keys, arrays, first, key)
            assert not (is_own and is_full) or keep.all(), (self.name, queries, keys, arrays, first, key)
            for name, holds in (("kept", keep.any()), ("masked", is_own and not is_full),
                                ("cut", keep.any() and not keep.all())):
                counts[name] = counts.get(name, 0) + int(holds)
        seen = np.concatenate([np.arange(key, key + self.tile) for key in tiles])
        columns = np.setdiff1d(np.arange(keys), seen)
        assert not len(rows) or not rule(rows[:, None], columns[None], *arrays).any(), (self.name, first)


def main():
    text, rng = sys.stdin.read(), np.random.default_rng(0)
    for name in re.findall(r"gpu.func @(\w+)\(.*flashc.launch", text):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        kernel, counts = Kernel(text, name), {}
        for queries, keys, arrays in make_calls(rng, name):
            kernel.check(globals()[name], queries, keys, arrays, counts)
        print(name, *(f"{what} {counts[what]}" for what in ("visits", "kept", "masked", "cut", "all")))


main()
