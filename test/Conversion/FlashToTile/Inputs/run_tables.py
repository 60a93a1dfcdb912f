"""run_tables.py: runs the kernels that compute tables of tiles and their work list, as their threads would, and the
producer of the attention kernel, which reads its visits from the tables. The program on stdin is `documents` of
tile-tables.mlir. Its mask keeps keys with keep[b, j] that are in the query's document, and not after the query.

The script compares with every pair: exactly the tiles with a kept pair are visited, each once, and a tile that is
visited without the mask keeps all its pairs."""

import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../Launch/Inputs"))
import run_order

LANES, CTAS, Q_TILE, KV_TILE = 32, 3, 64, 32
U32, U64 = 0xffffffff, 0xffffffffffffffff
run_order.BINARY.update({
    "arith.ori": np.bitwise_or, "arith.minsi": np.minimum, "ne": np.not_equal, "slt": np.less, "sle": np.less_equal,
    "sgt": np.greater, "sge": np.greater_equal, "ult": lambda a, b: (a & U32) < (b & U32),
    "ugt": lambda a, b: (a & U32) > (b & U32), "arith.xori": np.bitwise_xor,
    "arith.shrsi": np.right_shift,
    "arith.divsi": lambda a, b: np.sign(a) * np.sign(b) * (np.abs(a) // np.maximum(np.abs(b), 1))})


class Array(run_order.Memory):
    """An array of any rank."""

    def __init__(self, machine, data):
        super().__init__(machine, data.size)
        self.data, self.shape = data.reshape(-1).astype(np.int64), data.shape

    def at(self, indices):
        return np.ravel_multi_index([np.clip(index, 0, extent - 1) for index, extent in zip(indices, self.shape)],
                                    self.shape)


class Machine(run_order.Machine):
    """Runs one CTA. If lanes of a warp exchange data in a step, either all threads of the warp take part in it, or
    none."""
    taken = 0  # the count of numbers that CTAs have drawn

    def __init__(self, values, block):
        super().__init__(values)
        self.block, self.grid, self.copies = block, CTAS, []

    def exchange(self, active, function):
        for first in range(0, run_order.THREADS, LANES):
            lanes = active[first:first + LANES]
            assert lanes.all() or not lanes.any(), "lanes of a warp are apart"
        return self.by_warp(function)

    def run_op(self, result, name, text, blocks, active):
        if blocks or name == "arith.constant" and text.split()[0] in ("true", "false"):
            if name == "arith.constant":
                return np.full(run_order.THREADS, text.startswith("true"))
            return super().run_op(result, name, text, blocks, active)
        operands = [self.get(x) for x in re.findall(r"%[\w-]+(?:#\d+)?", text.split(" : ")[0])]
        if name in ("gpu.block_id", "gpu.grid_dim"):
            return np.full(run_order.THREADS, self.block if name == "gpu.block_id" else self.grid)
        if name == "math.ctlz" and text.endswith("i64"):
            return np.array([64 - int(x).bit_length() for x in operands[0]])
        if name == "tile.copy_async":
            self.copies.append((text.split("[")[0], *(int(x[0]) for x in operands[1:4])))
        if name == "tile.consume":
            Machine.taken += 1
            return np.full(run_order.THREADS, Machine.taken - 1)
        if name in ("tile.copy_async", "tile.acquire", "tile.publish"):
            return None
        if name == "memref.load":
            return operands[0].load(operands[0].at(operands[1:]) if len(operands) > 2 else operands[1], active)
        if name in ("arith.divui", "arith.remui"):
            return run_order.BINARY[name](operands[0], np.maximum(operands[1], 1))
        if name == "arith.trunci":
            bits = int(text.rsplit("i", 1)[1])
            value = operands[0] & ((1 << bits) - 1)
            return value.astype(bool) if bits == 1 else np.where(value >> (bits - 1) & 1, value - (1 << bits), value)
        if name in ("arith.extui", "arith.index_castui"):
            bits = 1 if " : i1 " in text else 32
            return operands[0].astype(np.int64) & ((1 << bits) - 1)
        if name in ("arith.extsi", "arith.index_cast"):
            return operands[0]
        if name == "arith.shrui":
            bits = U64 if text.endswith("i64") else U32
            return ((operands[0].astype(object) & bits) >> operands[1].astype(object)).astype(np.uint64).astype(
                np.int64)
        if name == "math.cttz":
            return np.array(
                [32 if not x & U32 else (int(x & U32) & -int(x & U32)).bit_length() - 1 for x in operands[0]])
        if name == "nvvm.vote.sync":
            bits = 1 << np.arange(LANES)
            return self.exchange(active, lambda lanes: np.full(LANES, int(bits[operands[1][lanes].astype(bool)].sum())))
        if name == "nvvm.barrier":
            assert active.all(), "threads miss a barrier"
            return np.full(run_order.THREADS, int(operands[0].any()))
        if name == "nvvm.redux.sync" and text.split()[0] in ("min", "max", "umin", "umax"):
            reduce, is_unsigned = (np.min if "min" in text.split()[0] else np.max), text.startswith("u")
            values = operands[0] & U32 if is_unsigned else operands[0]
            wrap = lambda x: x - (1 << 32) if x >> 31 & 1 and is_unsigned else x
            return self.exchange(active, lambda lanes: np.full(LANES, wrap(int(reduce(values[lanes])))))
        if name == "nvvm.shfl.sync" and text.startswith("bfly"):
            distance = int(operands[2][0])
            return self.exchange(active, lambda lanes: operands[1][lanes][np.arange(LANES) ^ distance])
        return super().run_op(result, name, text, blocks, active)


def evaluate(formula, inputs):
    """Evaluates a formula of the manifest."""
    text = re.sub(r"arg(\d+)\.dim(\d+)", lambda m: str(inputs[int(m[1])].shape[int(m[2])]), formula)
    mul, add = lambda x, y: x * y, lambda x, y: x + y
    return eval(text, {"mul": mul, "mul64": mul, "add": add, "add64": add, "ceildiv": lambda x, y: -(-x // y)})


def make_memory(text, inputs):
    """Returns the memory that the kernels of the first launch in the text share: its workspace and its mask map, if it
    has them."""
    formulas = {kind: re.search(rf'\b{kind} = "(.*?)"', text) for kind in ("workspace", "mask_map")}
    return {
        kind: np.full(evaluate(formula[1], inputs), 0x99, np.uint8)
        for kind, formula in formulas.items()
        if formula
    }


def prepare(text, kernel, inputs, workspace):
    """Returns a function that makes the parameters of a CTA, the kernel's body, and the grid. From now on, CTAs have
    the kernel's number of threads."""
    threads, grid, parameters = re.search(
        r'block = \[(\d+), 1, 1\], cluster = \[1, 1, 1\], dynamic_shared_memory = \d+ : i64, '
        r'grid = \["([^"]*)", "1", "1"\], kernel = "%s", (?:mask_map = "[^"]*", )?(?:overlap = true, )?'
        r'parameters = \[({.*?})\]'
        % kernel, text).groups()
    run_order.THREADS = int(threads)
    parameters = [{key: word or number for key, word, number in re.findall(r'(\w+) = (?:"([^"]*)"|([^",}]+))', one)}
                  for one in re.findall(r"{(.*?)}", parameters)]
    parameters = [one for one in parameters if one["kind"] != "stride"]
    header, body = text[text.index(f"gpu.func @{kernel}("):].split("\n", 1)
    names = re.findall(r"(%arg\d+): (index|memref<[^ ]*[fi]\d+[>,]|!tile)", header)
    assert len(names) == len(parameters), (names, parameters)

    def fill(block):
        machine, views = Machine({}, block), []
        for (name, kind), one in zip(names, parameters):
            array = inputs[int(one["argument"].split()[0])] if "argument" in one else None
            if one["kind"] == "extent":
                machine.values[name] = np.full(run_order.THREADS, array.shape[int(one["dim"].split()[0])])
            elif one["kind"] == "pointer":
                machine.values[name] = Array(machine, array)
            elif one["kind"] == "tensor_map":
                machine.values[name] = int(one["argument"].split()[0])
            else:
                view = workspace[one["kind"]][evaluate(one.get("offset", "0"), inputs):]
                size, dtype = (8, np.int64) if "i64" in kind else (4, np.int32)
                view = view[:len(view) // size * size].view(dtype)
                machine.values[name] = Array(machine, view)
                views.append((view, machine.values[name]))
        return machine, views
    return fill, body, grid


def launch(text, kernel, inputs, workspace):
    """Runs a kernel that precedes the main kernel (`before`)."""
    fill, body, grid = prepare(text, kernel, inputs, workspace)
    ops, _ = run_order.parse_block(iter(body.splitlines()))
    for block in range(evaluate(grid, inputs)):
        machine, views = fill(block)
        machine.grid = evaluate(grid, inputs)
        machine.run(ops, np.ones(run_order.THREADS, bool))
        for view, array in views:
            if array.is_written:  # a view that was not written may overlap one that was
                view[:] = array.data


def check_producer(text, inputs, workspace, table):
    """Checks that the producer of every CTA copies the tiles of K and of V that the table lists, in the order of the
    visits. The list says how many visits there are."""
    launch(text, "documents_order", inputs, workspace)
    fill, body, _ = prepare(text, "documents", inputs, workspace)
    batches, tiles, _ = table.shape
    before, producer = body.split("} consumer {")[0].split("tile.warp_specialize", 1)
    skipped = re.compile(r"tile.alloc|dense|f32|^\s*$")
    constants = "\n".join(line for line in before.splitlines() if not skipped.search(line))
    ops, _ = run_order.parse_block(iter((constants + "\n" + producer.split("\n", 1)[1].rstrip()).splitlines()))
    seen = set()
    Machine.taken = 0
    for block in range(CTAS):
        machine, _ = fill(block)
        for ring in re.findall(r"(%\d+) = tile.alloc", before):
            machine.values[ring] = None
        machine.run(ops, np.ones(run_order.THREADS, bool))
        q, k, v = ([copy[1:] for copy in machine.copies if machine.values[copy[0]] == number] for number in range(3))
        for batch, head, row in q:
            keys = sum(look_up(table[batch, row // Q_TILE]), []) or [0]
            wanted = [(batch, head // 2, key) for key in keys]
            assert k[:len(keys)] == wanted and v[:len(keys)] == wanted, (k[:len(keys)], v[:len(keys)], wanted)
            k, v = k[len(keys):], v[len(keys):]
            seen.add((batch, head, row))
        assert not k and not v
    assert len(seen) == batches * tiles * 4


def look_up(row):
    """Returns the keys of the masked visits and of the full visits of a row (VisitsRow)."""
    masked, total = row[:2]
    keys = [int(key) for key in row[2:2 + max(total, 1)]]
    if total == 0:
        assert keys == [0]
        return [], []
    return keys[:masked], keys[masked:]


def check_row(row, doc, keep, i0, nq, nk):
    """Checks the row of one tile of queries of one batch. Returns the number of tiles that it visits."""
    masked, full = look_up(row)
    visited = masked + full
    assert len(set(visited)) == len(visited) and all(0 <= key < nk and key % KV_TILE == 0 for key in visited), visited
    i = np.arange(i0, min(i0 + Q_TILE, nq))[:, None]
    needed = []
    for j0 in range(0, nk, KV_TILE):
        j = np.arange(j0, min(j0 + KV_TILE, nk))[None, :]
        kept = (doc[i] == doc[j]) & keep[j] & (j <= i)
        assert j0 in visited or not kept.any(), (i0, j0)
        assert j0 not in full or (kept.all() and j0 + KV_TILE <= nk), (i0, j0)
        if kept.any():
            needed.append(j0)
    assert sorted(visited) == needed and masked == sorted(masked) and full == sorted(full), (i0, visited, needed)
    return len(visited)


def check(text, rng, batches, nq, nk, kind):
    n = max(nq, nk)
    ids = np.sort(rng.integers(0, 6, (batches, n)), -1).astype(np.int64) - 3
    if kind == "blocks":
        ids = (rng.permutation(6)[ids + 3] - 3) * (1 << 31)  # two ids share each upper half
    elif kind == "shuffled":
        ids = rng.permutation(ids, axis=1)
    keep = np.repeat(rng.random((batches, -(-nk // KV_TILE))) < 0.7, KV_TILE, axis=1)[:, :nk]
    q, k = (np.zeros((batches, 4, extent, 64)) for extent in (nq, nk))
    inputs = [q, k, k, ids, keep, q]
    workspace = make_memory(text, inputs)
    for table in ("classes", "runs"):
        launch(text, "documents_" + table, inputs, workspace)
    first = evaluate(re.search(r'kernel = "documents_runs".*?offset = "([^"]*)"', text)[1], inputs)
    size, tiles = 3 + -(-nk // KV_TILE), -(-nq // Q_TILE)
    table = workspace["mask_map"][first:first + 4 * size * batches * tiles].view(np.int32).reshape(batches, tiles, size)
    if kind == "blocks":
        check_producer(text, inputs, workspace, table)
    return sum(
        check_row(table[b, x], ids[b], keep[b], x * Q_TILE, nq, nk) for b in range(batches) for x in range(tiles))


def main():
    text = sys.stdin.read()
    rng = np.random.default_rng(0)
    for kind in ("sorted", "blocks", "shuffled"):
        visits = sum(check(text, rng, *shape, kind) for shape in
                     ((1, 1, 1), (2, 65, 65), (1, 300, 1500), (2, 700, 700), (1, 1030, 40), (3, 64, 2100)))
        print(kind, "visits", visits, "tiles, those with a kept pair")


if __name__ == "__main__":
    main()
