"""visit_points.py FUNCTION: runs the loop that tile-persist put into FUNCTION, which stores at [z, y, x] once per point,
for many grids and numbers of CTAs. Every point must be visited once; pairs must take equally long, if point x takes
nx - x, and no CTA may do more than its share of them."""

import re
import sys

OPERATIONS = {
    "arith.addi": lambda a, b: a + b, "arith.subi": lambda a, b: a - b, "arith.muli": lambda a, b: a * b,
    "arith.divui": lambda a, b: a // b, "arith.remui": lambda a, b: a % b, "arith.andi": lambda a, b: a & b,
    "arith.shrui": lambda a, b: a >> b, "arith.shli": lambda a, b: a << b, "arith.maxui": max, "arith.minui": min,
    "arith.index_castui": lambda a: a, "math.ctlz": lambda a: 64 - a.bit_length(), "arith.ceildivui": lambda a, b: -(-a // b),
    "arith.cmpi": {"eq": lambda a, b: a == b, "ult": lambda a, b: a < b, "uge": lambda a, b: a >= b}, "arith.select": lambda c, a, b: a if c else b,
    "tile.uniform": lambda a: a}


def parse(text, function):
    """The names of nx, ny, nz, the operations before the loop, the loop and its operations."""
    body = text[text.index("gpu.func @" + function):]
    body = body[:body.index("gpu.return")]
    names = re.findall(r"(%\w+): index", body)[:3]
    before, inside, loop = [], [], None
    for line in body.splitlines():
        match = re.match(r"\s*scf.for (%\w+) = (%\w+) to (%\w+) step (%\w+)", line)
        if match:
            loop = match.groups()
        match = re.match(r"\s*(%\w+) = ([\w.]+)\s+(.*?)( : .*)?$", line)
        if match:
            (inside if loop else before).append(match.groups()[:3])
        match = re.match(r"\s*memref.store %\w+, %\w+\[(%\w+), (%\w+), (%\w+)\]", line)
        if match:
            store = match.groups()
    return names, before, loop, inside, store


def run(operations, values, cta, ctas):
    for result, name, operands in operations:
        if name == "arith.constant":
            if re.fullmatch(r"-?\d+", operands):
                values[result] = int(operands)
            continue
        if name in ("gpu.block_id", "gpu.grid_dim"):
            values[result] = cta if name == "gpu.block_id" else ctas
            continue
        arguments = [x.strip() for x in operands.split(",")]
        operation = OPERATIONS[name]
        if isinstance(operation, dict):
            operation = operation[arguments.pop(0)]
        values[result] = operation(*[values[x] for x in arguments])
        assert values[result] >= 0, (result, name, values[result])  # unsigned


def visit(program, grid, ctas):
    """The points of each CTA, in order."""
    names, before, loop, inside, store = program
    for cta in range(ctas):
        values, points = dict(zip(names, grid)), []
        run(before, values, cta, ctas)
        for item in range(values[loop[1]], values[loop[2]], values[loop[3]]):
            values[loop[0]] = item
            run(inside, values, cta, ctas)
            points.append(tuple(values[name] for name in store))
        yield points


program = parse(sys.stdin.read(), sys.argv[1])
checked = 0
for nx in (1, 2, 3, 5, 8):
    for ny in (1, 2, 3):
        for nz in (1, 2, 5):
            count = nx * ny * nz
            for ctas in {1, 2, 3, 7, count // 2, count - 1, count} & set(range(1, count + 1)):
                ctas_points = list(visit(program, (nx, ny, nz), ctas))
                visited = sorted(point for points in ctas_points for point in points)
                assert visited == [(z, y, x) for z in range(nz) for y in range(ny) for x in range(nx)], (nx, ny, nz, ctas)
                times = [sum(nx - x for _, _, x in points) for points in ctas_points]
                if len(sys.argv) > 1 and sys.argv[1] == "paired":
                    assert max(times) <= sum(times) / ctas + nx, (nx, ny, nz, ctas, times)
                checked += 1
assert checked > 100
