"""run_order.py FUNCTION: runs the order kernel of FUNCTION, read from stdin, as its 1024 threads would, and checks its
list. The list must be a permutation of all items, with the most work first, and items with equal keys in order.

FUNCTION names the items: tiles, batches or heads. The work of an item is its element of the array %work, and at least
1. With `parts` the items are tiles whose keys are cut into at most four parts: an item without work has none. Every
memory access is checked: if two threads access one word, and one of them writes, a barrier or, within a warp,
bar.warp.sync must separate them."""

import re
import sys

import numpy as np

THREADS, LANES, MULTIPROCESSORS, PARTS = 1024, 32, 132, 4
BINARY = {
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply, "arith.andi": np.bitwise_and,
    "arith.divui": np.floor_divide, "arith.remui": np.remainder, "arith.ceildivui": lambda a, b: -(-a // b),
    "arith.shrui": np.right_shift, "arith.shli": np.left_shift, "arith.maxui": np.maximum, "arith.maxsi": np.maximum,
    "arith.minui": np.minimum, "arith.minsi": np.minimum, "arith.ori": np.bitwise_or, "arith.addf": np.add,
    "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide, "arith.maximumf": np.maximum,
    "ogt": np.greater, "oge": np.greater_equal, "ole": np.less_equal,
    "eq": np.equal, "ult": np.less, "uge": np.greater_equal}


def parse_block(lines):
    """Returns the operations up to the closing brace: (results, name, text, blocks)."""
    ops = []
    for line in lines:
        line = line.strip()
        if line.startswith("}"):
            return ops, line
        if line.startswith("^"):
            ops.append((None, "^", line, []))
            continue
        match = re.match(r"(?:(%[\w-]+)(?::\d+)? = )?([\w.]+)\s*(.*)$", line)
        result, name, text = match.groups()
        blocks = []
        if text.endswith("{"):
            block, end = parse_block(lines)
            blocks.append(block)
            if "else" in end or "do {" in end:
                blocks.append(parse_block(lines)[0])
        ops.append((result, name, text, blocks))
    return ops, ""


class Memory:
    """An array that records which threads accessed each word since the last barrier of all threads. For each word it
    has the thread that wrote it last, and the threads that read it, each with the number of warp barriers before. Of
    the readers, it keeps only the first and the last thread: once for all reads, and once for the reads since the last
    warp barrier."""

    def __init__(self, machine, size):
        self.machine, self.data = machine, np.full(size, -1, np.int64)
        self.epoch, self.is_written = -1, False

    def access(self, places, active, is_write):
        threads = np.flatnonzero(active)
        at, now = places[threads], self.machine.warp_barriers
        assert ((0 <= at) & (at < len(self.data))).all(), at
        if self.epoch != self.machine.barriers:
            self.epoch, size = self.machine.barriers, len(self.data)
            self.writer, self.written, self.read = np.full((3, size), -1)
            self.least, self.last_least = np.full((2, size), THREADS)
            self.greatest, self.last_greatest = np.full((2, size), -1)

        def check(least, greatest, when, last_least, last_greatest):
            is_one_warp = (least[at] // LANES == threads // LANES) & (greatest[at] // LANES == threads // LANES)
            is_last = (last_least[at] == threads) & (last_greatest[at] == threads)
            is_apart = (greatest[at] < 0) | is_one_warp & ((when[at] < now) | is_last)
            assert is_apart.all(), f"threads {threads[~is_apart]} race for words {at[~is_apart]}"
        check(self.writer, self.writer, self.written, self.writer, self.writer)
        if is_write:
            check(self.least, self.greatest, self.read, self.last_least, self.last_greatest)
            assert len(np.unique(at)) == len(at), "two threads write one word at once"
            self.writer[at], self.written[at], self.is_written = threads, now, True
        else:
            renewed = at[self.read[at] < now]
            self.read[renewed], self.last_least[renewed], self.last_greatest[renewed] = now, THREADS, -1
            for least, greatest in ((self.least, self.greatest), (self.last_least, self.last_greatest)):
                np.minimum.at(least, at, threads)
                np.maximum.at(greatest, at, threads)

    def load(self, places, active):
        self.access(places, active, False)
        return np.where(active, self.data[np.clip(places, 0, len(self.data) - 1)], 0)

    def store(self, values, places, active):
        self.access(places, active, True)
        self.data[places[active]] = values[active]


class Machine:
    """Runs threads in lockstep. Every value has an element for each thread; inactive threads keep theirs."""

    def __init__(self, values):
        self.values, self.barriers, self.warp_barriers = values, 0, 0
        self.touches_memory = False

    def get(self, name):
        return self.values[name]

    def by_warp(self, function):
        return np.concatenate([np.atleast_1d(function(slice(w, w + LANES))) for w in range(0, THREADS, LANES)])

    def run(self, ops, active):
        for result, name, text, blocks in ops:
            if name == "^":
                continue
            value = self.run_op(result, name, text, blocks, active)
            if name in ("scf.yield", "scf.condition"):
                return value
            if result and not isinstance(value, list):
                self.values[result] = value
            elif result:
                for index, part in enumerate(value):
                    self.values[result if len(value) == 1 else f"{result}#{index}"] = part
        return []

    def run_op(self, result, name, text, blocks, active):
        operands = [self.get(x) for x in re.findall(r"%[\w-]+(?:#\d+)?", text.split(" : ")[0])] \
            if not blocks and name not in ("memref.get_global", "memref.global") else []
        if name == "arith.constant":
            is_float = text.endswith("f32")
            return np.full(THREADS, np.float32(text.split()[0]) if is_float else int(text.split()[0]))
        if name in BINARY:
            return BINARY[name](*operands)
        if name in ("arith.cmpi", "arith.cmpf"):
            return BINARY[text.split(",")[0]](*operands)
        if name == "arith.select":
            return np.where(*operands)
        if name.startswith("arith.index_cast"):
            return operands[0]
        if name == "arith.uitofp":
            return operands[0].astype(np.float32)
        if name == "arith.fptoui":
            return operands[0].astype(np.int64)
        if name == "arith.bitcast":
            return operands[0].view(np.int32).astype(np.int64)
        if name == "math.ceil":
            return np.ceil(operands[0])
        if name == "nvvm.read.ptx.sreg.nsmid":
            return np.full(THREADS, MULTIPROCESSORS)
        if name == "math.ctlz":
            return np.array([32 - int(x).bit_length() for x in operands[0]])
        if name == "llvm.intr.ctpop":
            return np.array([int(x & 0xffffffff).bit_count() for x in operands[0]])
        if name == "gpu.thread_id":
            return np.arange(THREADS)
        if name == "memref.get_global":
            return Memory(self, int(re.search(r"memref<(\d+)x", text)[1]))
        self.touches_memory |= name in ("memref.load", "memref.store")
        if name == "memref.load":
            return operands[0].load(operands[1], active)
        if name == "memref.store":
            return operands[1].store(operands[0], operands[2], active)
        if name in ("scf.yield", "scf.condition"):
            return operands
        if name == "scf.while":
            return self.run_while(text, blocks, active)
        if name == "scf.if":
            return self.run_if(text, blocks, active)
        if name == "scf.for":
            return self.run_for(text, blocks[0], active)
        if name == "tile.repeat_if":  # comes after inner loops
            self.repeats = operands[0]
        if name in ("gpu.return", "tile.repeat_if"):
            return None
        warps = active.reshape(-1, LANES)
        assert (warps.all(axis=1) == warps.any(axis=1)).all(), f"{name} where threads of a warp are apart"
        if name == "nvvm.barrier0":
            assert active.all(), "a barrier that some threads do not reach"
            self.barriers += 1
            return None
        if name == "nvvm.griddepcontrol":
            assert not self.touches_memory, "memory in front of a wait for the kernel before"
            return None
        if name == "nvvm.bar.warp.sync":
            self.warp_barriers += 1
            return None
        if name == "nvvm.redux.sync":
            reduce = {"umax": np.max, "umin": np.min, "add": np.sum}[text.split()[0]]
            return self.by_warp(lambda lanes: np.full(LANES, reduce(operands[0][lanes])))
        if name == "nvvm.match.sync":
            bits = 1 << np.arange(LANES)
            key = operands[1]
            return self.by_warp(lambda lanes: np.array([int(bits[key[lanes] == x].sum()) for x in key[lanes]]))
        if name == "nvvm.shfl.sync":
            if text.startswith("idx"):
                return self.by_warp(lambda lanes: operands[1][lanes][operands[2][lanes]])
            distance = int(operands[2][0])
            return self.by_warp(lambda lanes: operands[1][lanes][np.maximum(np.arange(LANES) - distance, 0)])
        raise AssertionError(f"unknown operation {name}")

    def run_if(self, text, blocks, active):
        condition = self.get(text.split()[0])
        then = self.run(blocks[0], active & condition)
        if len(blocks) == 1:
            return []
        return [np.where(condition, x, y) for x, y in zip(then, self.run(blocks[1], active & ~condition))]

    def run_while(self, text, blocks, active):
        """The two regions have different names for the carried values."""
        pairs = [pair.split(" = ") for pair in re.match(r"\((.*?)\)", text)[1].split(", ")]
        carried = [self.get(init) for _, init in pairs]
        inside = re.findall(r"(%[\w-]+): ", blocks[1][0][2])
        now = active
        while True:
            self.values.update(zip((name for name, _ in pairs), carried))
            condition, *carried = self.run(blocks[0], now)
            now = now & condition
            if not now.any():
                return carried
            self.values.update(zip(inside, carried))
            carried = [np.where(now, new, old) for new, old in zip(self.run(blocks[1], now), carried)]

    def run_for(self, text, block, active):
        variable, begin, end, step = re.match(r"(%\w+) = (\S+) to (\S+) step (\S+)", text).groups()
        iter_args = re.search(r"iter_args\((.*?)\)", text)
        pairs = [pair.split(" = ") for pair in iter_args[1].split(", ")] if iter_args else []
        carried = [self.get(init) for _, init in pairs]
        at, end, step = self.get(begin), self.get(end), self.get(step)
        while (active & (at < end)).any():
            now = active & (at < end)
            self.values[variable] = at
            for (name, _), value in zip(pairs, carried):
                self.values[name] = value
            self.repeats = True
            carried = [np.where(now, new, old) for new, old in zip(self.run(block, now), carried)]
            at = at + step
            end = np.where(self.repeats, end, at)
            self.repeats = True
        return carried


def run(ops, parameters, grid, items, words, most):
    """Runs the kernel once on random work of up to `most`. Returns the machine, the work and the list of `words`."""
    machine = Machine({})
    work, result = Memory(machine, items), Memory(machine, words)
    work.data[:] = np.random.default_rng(items + most).integers(0, most + 1, items)
    extents = iter(grid)
    for name, kind in parameters:
        machine.values[name] = np.full(THREADS, next(extents)) if kind == "index" else work
    machine.values[parameters[-1][0]] = result
    machine.run(ops, np.ones(THREADS, bool))
    return machine, work, result


def estimate(work, size, sharers):
    """Returns the time in which CTAs compute all parts of up to `size` tiles, as the kernel estimates it."""
    number = np.ceil(work / size)
    merged = work.mean() / 8  # the test's items have as many rows as tiles of keys
    rounds = number.sum() * sharers / MULTIPROCESSORS
    longest = size + 1 + merged
    if rounds <= 1:
        return longest
    are_equal = work.sum() >= 0.9 * number.sum() * size
    uneven = np.ceil(rounds) - rounds if are_equal else 0.5 / rounds
    whole = work.sum() + number.sum() + number[number > 1].sum() * merged
    return max(whole * sharers / MULTIPROCESSORS + uneven * size, longest)


def check_parts(ops, parameters, tiles, sharers, most):
    """Runs the kernel once on random work, and checks that every item is cut into equal parts, which are in the list
    once each, the longest first; and that the launch ends nearly as early as with the best size."""
    words = PARTS * tiles * 2 * (1 + 2)
    machine, work, result = run(ops, parameters, (PARTS * tiles, sharers, 1), tiles, words + 2, most)
    assert machine.barriers == 6
    counter, number = result.data[-2:]
    entries = result.data[:3 * number].reshape(number, 3)
    item, part = np.divmod(entries[:, 0], PARTS)
    size = entries[:, 1]
    assert counter == 0 and (entries[:, 2] == work.data[item]).all()
    expected = [(x, p) for x in range(tiles) if work.data[x] for p in range(-(-work.data[x] // size[item == x][0]))]
    assert sorted(zip(item, part)) == expected, (tiles, most)
    # Sizes of an item are equal. They are in order but for the bits that the sort leaves out.
    assert all(len(set(size[item == x])) == 1 for x in set(item))
    assert (np.diff(size) <= max(size.max() >> 7, 0)).all(), (tiles, most)
    if number:
        sizes = np.maximum(2, -(-work.data.max() // np.arange(1, 33)))
        best = min(estimate(work.data, x, sharers) for x in sizes)
        limits = [x for x in sizes if (size <= np.maximum(x, -(-work.data[item] // PARTS))).all()]
        assert min(estimate(work.data, x, sharers) for x in limits) <= 1.01 * best, (tiles, most)


def check(ops, parameters, grid, items, numbers, most):
    """Runs the kernel once on random work of up to `most`."""
    machine, work, result = run(ops, parameters, grid, items, 2 * (1 + numbers) * items + 1, most)
    assert machine.barriers == 4
    expected = np.maximum(work.data, 1)
    entries, result = np.split(result.data, [(1 + numbers) * items])
    assert (result[:items] == expected).all() and result[-1] == 0  # no number has been drawn yet
    key = (expected.max() - expected) >> max(int(expected.max() - 1).bit_length() - 8, 0)
    entries = entries.reshape(items, 1 + numbers)
    assert (entries[:, 0] == np.argsort(key, kind="stable")).all(), (grid, most)
    # An entry has its item and then one or two numbers. The last is the bound of the loop. The first of two is minus
    # the work.
    for number, of_item in zip(range(numbers, 0, -1), (expected, -work.data)):
        assert (entries[:, number] == of_item[entries[:, 0]]).all(), (grid, most, number)


def main(function):
    text = sys.stdin.read()
    header, body = text[text.index(f"gpu.func @{function}_order("):].split("\n", 1)
    parameters = re.findall(r"(%\w+): (index|memref)", header)
    ops, _ = parse_block(iter(body.splitlines()))
    if function == "parts":
        for tiles, sharers in ((1, 1), (1, 8), (33, 3), (200, 8), (1025, 2)):
            for most in (1, 7, 257, 5000):
                check_parts(ops, parameters, tiles, sharers, most)
        return
    for nx, ny, nz in ((1, 1, 1), (33, 3, 2), (256, 1, 4), (1025, 2, 1)):
        grid = {"tiles": (nx,), "batches": (nx, nz), "heads": (nx, ny, nz)}[function]
        for most in (1, 256, 257, 5000):
            check(ops, parameters, grid, int(np.prod(grid)), 2 if function == "tiles" else 1, most)


if __name__ == "__main__":
    main(sys.argv[1])
