"""run_maps.py BEFORE [COLS [NAME]] < AFTER: compares two programs, before and after the lowering of tile.map. Their
functions call @visit(i, j, value) for every element; the script runs the functions and compares the values. The
arguments of a function are two limits, and the first row and column of the tile. A function @..._near is not run with
far tiles, and a function @..._of_key not with negative keys. An index has 32 bits and wraps around. Values are computed
when they are needed, so both programs need unique SSA names (--mlir-print-unique-ssa-ids)."""

import functools
import itertools
import math
import re
import sys

FAR = 2**30  # half of the largest index; also with the other sign
ROWS, COLS = 64, int(sys.argv[2]) if len(sys.argv) > 2 else 16


@functools.lru_cache(None)
def get_bits(kind):
    return {"index": 32, "i1": 1}.get(kind) or int(kind[1:])


def wrap(value, kind):
    bits = get_bits(kind)
    value &= (1 << bits) - 1
    return value if bits == 1 or value < 1 << bits - 1 else value - (1 << bits)


COMPARE = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "slt": lambda a, b: a < b, "sle": lambda a, b: a <= b,
           "sgt": lambda a, b: a > b, "sge": lambda a, b: a >= b}
INTEGER = {"arith.addi": lambda a, b: a + b, "arith.subi": lambda a, b: a - b, "arith.muli": lambda a, b: a * b,
           "arith.andi": lambda a, b: a & b, "arith.ori": lambda a, b: a | b, "arith.maxsi": max, "arith.minsi": min,
           "arith.shrui": lambda a, b: (a & 0xFFFFFFFF) >> b, "arith.index_cast": lambda a: a,
           "arith.xori": lambda a, b: a ^ b, "arith.extsi": lambda a: -int(a), "arith.fptosi": int, "math.absi": abs,
           "arith.floordivsi": lambda a, b: a // b, "arith.remsi": lambda a, b: int(math.fmod(a, b))}
ASSEMBLY = {"and.pred": lambda a, b: a & b, "or.pred": lambda a, b: a | b,
            "redux": lambda a: a,  # over the warpgroup, whose lanes all have the same value
            "bmsk.clamp": lambda first, bits: ((1 << min(bits, 32)) - 1 << min(first, 32)) & 0xFFFFFFFF,
            "setp.ne": lambda word, bit: word & bit != 0}

FLOAT = {"arith.sitofp": float, "arith.addf": lambda a, b: a + b, "math.absf": abs}


def prepare(operation, rest):
    """Returns an operation as a function of its Function and of the known values. The text is read only once."""
    if operation == "arith.constant":
        text = re.match(r"(?:dense<)?(-?[\d.]+(?:e[+-]\d+)?|true|false)", rest)[1]
        number = text == "true" if text in ("true", "false") else float(text) if "." in text else int(text)
        return lambda function, values: number
    if operation == "nvvm.read.ptx.sreg.tid.x":
        return lambda function, values: values["thread"]
    kind, operands = re.search(r"(\w+)$", rest)[1], re.findall(r"%[\w-]+", rest)
    apply = find_arithmetic(operation, rest)
    if operation in INTEGER or operation == "llvm.inline_asm":
        return lambda function, values: wrap(apply(*[function.get(name, values) for name in operands]), kind)
    return lambda function, values: apply(*[function.get(name, values) for name in operands])


def find_arithmetic(operation, rest):
    """Returns the function that an operation applies to its operands."""
    if operation == "arith.cmpi":
        return COMPARE[rest.split(",")[0]]
    if operation == "arith.select":
        return lambda condition, x, y: x if condition else y
    if operation == "llvm.inline_asm":
        assembly, = (ASSEMBLY[name] for name in ASSEMBLY if name in rest)
        return assembly
    return FLOAT[operation] if operation in FLOAT else INTEGER[operation]


class Function:
    """The arguments, maps and visits of a function, and its operations by their results."""

    def __init__(self, text):
        self.arguments = re.findall(r"(%\w+): index", text[:text.index("{")])
        self.operations, self.prepared, self.maps, self.visits = {}, {}, {}, []
        for line in text.splitlines():
            if match := re.match(r"\s*(%\w+) = tile.map (%\w+) at", line):
                self.maps[match[1]] = current = [match[2], None, None]
            elif "^bb0" in line and self.maps and not current[1]:
                current[1] = re.findall(r"%\w+", line)
            elif match := re.match(r"\s*tile.yield (%\w+)", line):
                current[2] = match[1]
            elif match := re.match(r"\s*func.call @visit\((.*?)\)", line):
                self.visits.append(match[1].split(", "))
            elif match := re.match(r"\s*(%[\w-]+) = ([\w.]+) ?(.*)", line):
                self.operations[match[1]] = match[2], match[3]

    def get(self, name, values):
        """Returns the value of `name`. `values` has the known values; computed ones are added to it."""
        if name not in values:
            if name not in self.prepared:
                self.prepared[name] = prepare(*self.operations[name])
            values[name] = self.prepared[name](self, values)
        return values[name]

    def run_thread(self, arguments, thread):
        """Returns {(i, j): value} for a thread of the lowered program."""
        values = {**dict(zip(self.arguments, arguments)), "thread": thread}
        return {(self.get(i, values), self.get(j, values)): self.get(value, values) for i, j, value in self.visits}

    def run_map(self, name, arguments, i, j):
        """Returns the element (i, j) of a map, or a constant if `name` is one."""
        values = dict(zip(self.arguments, arguments))
        if name not in self.maps:
            return self.get(name, values)
        source, block, result = self.maps[name]
        values.update(zip(block, (self.run_map(source, arguments, i, j), i, j)))
        return self.get(result, values)


def parse(text):
    return {part[:part.index("(")]: Function(part) for part in re.split(r"gpu\.func @", text)[1:]}


before, after = parse(open(sys.argv[1]).read()), parse(sys.stdin.read())
assert before and set(before) == set(after)
compared, kept = 0, 0
for name, function in before.items():
    if name not in (sys.argv[3:] or before):
        continue
    last = list(function.maps)[-1]
    for row, col in ((0, 0), (64, 48), (FAR, FAR + 16), (0, -64)):
        if name.endswith("_near") and row == FAR or name.endswith("_of_key") and col < 0:
            continue
        near = [col - 1, col, col + 6, col + 15, col + 16, row + 20]
        limits = [-FAR, -FAR - 1, FAR, FAR + 17, *near]
        pairs = [(col + 3, 2**31 - 2), (col + 3, 2 - 2**31), *itertools.product(limits, (-FAR, col + 3, FAR)),
                 *itertools.product((-FAR, col + 3, FAR), limits)]
        for n, m in pairs:
            arguments, everywhere = (n, m, row, col), (n, m) == (col + 3, col + 3)
            visited = {}
            for thread in range(128, 256) if everywhere else (128, 133, 254):
                visited.update(after[name].run_thread(arguments, thread))
            if everywhere:
                assert set(visited) == set(itertools.product(range(row, row + ROWS), range(col, col + COLS))), name
            for (i, j), value in visited.items():
                expected = function.run_map(last, arguments, i, j)
                assert value == expected, (name, arguments, i, j, value, expected)
                compared, kept = compared + 1, kept + (value != -1)
assert compared > 20000 and 0.1 < kept / compared < 0.9, (compared, kept)
