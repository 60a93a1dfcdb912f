"""visit_work_tiles.py FUNCTION: runs the loop that tile-persist put into FUNCTION, for many grids and numbers of CTAs.
The function stores at [z, y, x] once for each point. Every point must be visited once. If point x takes nx - x, no CTA
may do more than its share of the work and one point.

visit_work_tiles.py FUNCTION --list=tiles: CTAs draw points from a list of tiles (or of batches, heads). A CTA draws its
next point when it begins a point. Every point must be visited once, and no CTA may do more than its share of the work
and twice the longest point.

visit_work_tiles.py FUNCTION --single, or --single=tiles, batches or heads: each CTA of the grid has one point, with or
without a list. Every point must be visited once, the first heads in the order of the grid. If 132 CTAs run at a time,
and each that ends is followed by the next, they must be done sooner than in the order of the grid.

visit_work_tiles.py FUNCTION --in-order: every point must be visited once, with x varying fastest. Single iterations are
also checked on grids that are as large as possible.

Every index must fit into 32 bits, as in a kernel, and every other number into 64."""

import heapq
import random
import re
import sys

OPERATIONS = {
    "arith.addi": lambda a, b: a + b, "arith.subi": lambda a, b: a - b, "arith.muli": lambda a, b: a * b,
    "arith.divui": lambda a, b: a // b, "arith.remui": lambda a, b: a % b, "arith.andi": lambda a, b: a & b,
    "arith.shrui": lambda a, b: a >> b, "arith.shli": lambda a, b: a << b, "arith.maxui": max, "arith.minui": min,
    "arith.index_castui": lambda a: a, "arith.index_cast": lambda a: a, "math.ctlz": lambda a: 64 - a.bit_length(),
    "arith.ceildivui": lambda a, b: -(-a // b),
    "arith.cmpi": {"eq": lambda a, b: a == b, "ult": lambda a, b: a < b,
                   "uge": lambda a, b: a >= b}, "arith.select": lambda c, a, b: a
    if c else b, "tile.uniform": lambda a: a
}

LIST = []  # the memory that memref.load reads


def parse(text, function):
    """Returns the names of nx, ny and nz, the operations before the loop, the loop, and the operations inside."""
    body = text[text.index("gpu.func @" + function):]
    body = body[:body.index("gpu.return")]
    names = re.findall(r"(%\w+): index", body)[:3]
    before, inside, loop = [], [], None
    for line in body.splitlines():
        match = re.match(r"\s*(?:%\w+(?::\d+)? = )?scf.for (%\w+) = (%\w+) to (%\w+) step (%\w+)", line)
        if match:
            loop = match.groups()
        match = re.match(r"\s*(%\w+) = ([\w.]+)\s+(.*?)( : .*)?$", line)
        if match:
            (inside if loop else before).append(match.groups())
        match = re.match(r"\s*memref.store %\w+, %\w+\[(%\w+), (%\w+), (%\w+)\]", line)
        if match:
            store = match.groups()
    return names, before, loop, inside, store


def run(operations, values, cta, ctas):
    for result, name, operands, kind in operations:
        if name == "arith.constant":
            if re.fullmatch(r"-?\d+", operands):
                values[result] = int(operands)
            continue
        if name in ("gpu.block_id", "gpu.grid_dim"):
            values[result] = ctas if name == "gpu.grid_dim" else cta if isinstance(cta,
                                                                                   int) else cta["xyz".index(operands)]
            continue
        if name == "nvvm.read.ptx.sreg.nsmid":
            values[result] = ctas
            continue
        if name == "memref.load":
            values[result] = LIST[values[re.search(r"\[(%\w+)\]", operands)[1]]]
            continue
        arguments = [x.strip() for x in operands.split(",")]
        operation = OPERATIONS[name]
        if isinstance(operation, dict):
            operation = operation[arguments.pop(0)]
        values[result] = operation(*[values[x] for x in arguments])
        bits = 64 if kind and kind.endswith("i64") else 32
        assert 0 <= values[result] < 1 << bits, (result, name, values[result])  # unsigned


def visit(program, grid, ctas):
    """Yields the points of each CTA, in order."""
    names, before, loop, inside, store = program
    for cta in range(ctas):
        values, points = dict(zip(names, grid)), []
        run(before, values, cta, ctas)
        for item in range(values[loop[1]], values[loop[2]], values[loop[3]]):
            values[loop[0]] = item
            run(inside, values, cta, ctas)
            points.append(tuple(values[name] for name in store))
        yield points


def parse_drawn(text, function):
    """Returns what `parse` returns, for a loop that carries a point and draws the next one. In place of the loop, it
    returns the iter_args with their initial values, and the draw: (the operand to which the number is added, its limit,
    the number, the operations, the results)."""
    names, before, _, _, _ = parse(text, function)
    body = text[text.index("gpu.func @" + function):]
    carried = re.search(r"scf.for .* iter_args\((.*?)\)", body)[1]
    draw = re.search(r"tile.draw %\w+\[%\w+\] from (%\w+) below (%\w+) .*\n\s*\^bb0\((%\w+): index\):\n((?:.*\n)*?)"
                     r"\s*tile.drawn (.*?) :", body)
    first, limit, number, lines, drawn = draw.groups()
    inside = [m.groups() for m in re.finditer(r"(%\w+) = ([\w.]+)\s+(.*?)( : .*)?\n", lines)]
    store = re.search(r"memref.store %\w+, %\w+\[(%\w+), (%\w+), (%\w+)\]", body).groups()
    return names, before, [pair.split(" = ") for pair in carried.split(", ")], (first, limit, number, inside,
                                                                                drawn.split(", ")), store


def visit_drawn(program, grid, ctas, get_time):
    """Returns the points of each CTA, in order. A CTA draws its next point when it begins a point."""
    names, before, carried, (first, limit, number, inside, drawn), store = program
    points, begun, counter, states = [[] for _ in range(ctas)], [], 0, []
    for cta in range(ctas):
        values = dict(zip(names, grid))
        run(before, values, cta, ctas)
        states.append({**values, **{name: values[init] for name, init in carried}})
        if cta < values[limit]:
            heapq.heappush(begun, (0, cta))
    while begun:
        time, cta = heapq.heappop(begun)
        values = states[cta]
        points[cta].append(tuple(values[name] for name in store))
        taken, counter = counter + values[first], counter + 1
        end = time + get_time(*points[cta][-1])
        if taken < values[limit]:
            values[number] = taken
            run(inside, values, cta, ctas)
            values.update(zip([name for name, _ in carried], [values[name] for name in drawn]))
            heapq.heappush(begun, (end, cta))
    return points


def check_in_order(program):
    """Checks quotients and remainders by 1, by powers of two and their neighbours, and by numbers near 2^31; and some
    whole grids."""
    for nx, ny, nz in ((1, 1, 1), (5, 3, 2), (4, 1, 3)):
        for ctas in (1, 3, 7):
            points = [(z, y, x) for z in range(nz) for y in range(ny) for x in range(nx)]
            assert list(visit(program, (nx, ny, nz), ctas)) == [points[cta::ctas] for cta in range(ctas)]
    names, before, loop, inside, store = program
    divisors = {d for k in range(32) for d in (2**k - 1, 2**k, 2**k + 1) if 0 < d < 2**31}
    divisors |= {3, 5, 7, 10, 641, 1000003, 6700417, 2**31 - 2, 2**31 - 3, 2**31 - 19}
    for d in sorted(divisors):
        multiples = {q * d for q in (0, 1, 2, 3, (2**31 - 1) // d // 2, (2**31 - 1) // d)}
        items = sorted({n + k for n in multiples for k in (-1, 0, 1, d - 1)} | {2**31 - 1, 2**31 - 2})
        for nx, ny in ((d, 1), (1, d), (d, 3), (3, d)):
            values = dict(zip(names, (nx, ny, 0)))  # the bound of the loop is not used
            run(before, values, 0, 1)
            for item in items:
                if 0 <= item < 2**31:
                    values[loop[0]] = item
                    run(inside, values, 0, 1)
                    point = tuple(values[name] for name in store)
                    assert point == (item // nx // ny, item // nx % ny, item % nx), (nx, ny, item, point)


def check_list(program, scope):
    """Checks sorted lists of random work. Points of one item share its work."""
    random.seed(1)
    for nx, ny, nz in ((1, 1, 1), (1, 3, 2), (8, 1, 1), (5, 3, 2), (16, 8, 3), (64, 2, 2), (3, 40, 1)):
        items = {"tiles": nx, "batches": nx * nz, "heads": nx * ny * nz}[scope]
        for ctas in {1, 2, 3, 7, nx * ny * nz // 2, nx * ny * nz} - {0}:
            for most in (1, 50):
                work = [random.randint(1, most) for _ in range(items)]
                entries = sorted(range(items), key=lambda item: -work[item])
                # In a list of batches, two numbers follow each item. The program uses the second one as x.
                LIST[:] = [n for item in entries for n in ((item, nx, item % nx) if scope == "batches" else (item,))]
                get = {"tiles": lambda z, y, x: work[x], "batches": lambda z, y, x: work[x + nx * z],
                       "heads": lambda z, y, x: work[x + nx * (y + ny * z)]}[scope]
                ctas_points = visit_drawn(program, (nx, ny, nz), ctas, get)
                visited = sorted(point for points in ctas_points for point in points)
                points = [(z, y, x) for z in range(nz) for y in range(ny) for x in range(nx)]
                assert visited == points, (nx, ny, nz, ctas)
                times = [sum(get(*point) for point in points) for points in ctas_points]
                assert max(times) <= sum(times) / ctas + 2 * max(work), (nx, ny, nz, ctas, times)


def get_makespan(times, ctas):
    """Returns when the last of `ctas` ends, if each takes the next point when it is done."""
    ends = [0] * ctas
    for time in times:
        heapq.heappush(ends, heapq.heappop(ends) + time)
    return max(ends)


def check_single(program, scope):
    """Checks work that falls with x. With a list, work is random, with few long points at the end."""
    random.seed(1)
    names, before, loop, _, store = program
    assert loop is None
    for nx, ny, nz in ((1, 1, 1), (1, 3, 2), (8, 1, 1), (5, 3, 2), (16, 8, 3), (64, 2, 8), (3, 40, 1)):
        items = {None: nx, "tiles": nx, "batches": nx * nz, "heads": nx * ny * nz}[scope]
        sharers = nx * ny * nz // items
        for ctas in {1, 2, 3, 7, 132, nx * ny * nz // 2, nx * ny * nz} - {0}:
            for most in (1, 50):
                work = [random.randint(1, most) for _ in range(items)] if scope else list(range(nx, 0, -1))
                if scope and most > 1 and items > 32:
                    work[-2:] = [100] * 2
                entries = sorted(range(items), key=lambda item: -work[item])
                # In a list of batches, two numbers follow each item. The program uses the second one as x.
                get_numbers = lambda item: (nx, item % nx) if scope == "batches" else ()
                LIST[:] = [n for item in entries for n in (item, *get_numbers(item))] + work
                LIST.extend(n for item in range(items) for n in get_numbers(item))
                get = {"batches": lambda z, y, x: work[x + nx*z], "heads": lambda z, y, x: work[x + nx * (y + ny*z)]}
                get_time = get.get(scope, lambda z, y, x: work[x])
                points = []
                for z in range(nz):
                    for y in range(ny):
                        for x in range(nx):
                            values = dict(zip(names, (nx, ny, nz)))
                            run(before, values, (x, y, z), ctas)
                            points.append(tuple(values[name] for name in store))
                grid = [(z, y, x) for z in range(nz) for y in range(ny) for x in range(nx)]
                assert sorted(points) == grid, (nx, ny, nz, ctas)
                alone = items * (sharers - min(sharers, -(-3 * ctas // items)))
                first = grid if scope != "batches" else sorted(grid, key=lambda point: (point[1], point[0], point[2]))
                assert points[:alone] == first[:alone], (nx, ny, nz, ctas)
                if (nx, ny, ctas) == (64, 2, 132):
                    makespan, of_grid = (get_makespan([get_time(*point) for point in order], ctas)
                                         for order in (points, grid))
                    assert makespan <= (0.92 if most > 1 else 1) * of_grid, (scope, most, makespan, of_grid)


text = sys.stdin.read()
single = [argument for argument in sys.argv if argument.startswith("--single")]
if single:
    check_single(parse(text, sys.argv[1]), single[0][len("--single="):] or None)
    sys.exit()
if len(sys.argv) > 2 and sys.argv[2].startswith("--list="):
    check_list(parse_drawn(text, sys.argv[1]), sys.argv[2][len("--list="):])
    sys.exit()
program = parse(text, sys.argv[1])
if "--in-order" in sys.argv:
    check_in_order(program)
    sys.exit()
checked = 0
for nx in (1, 2, 3, 5, 8):
    for ny in (1, 2, 3):
        for nz in (1, 2, 5):
            count = nx * ny * nz
            for ctas in {1, 2, 3, 7, count // 2, count - 1, count, count + 5} - {0}:
                ctas_points = list(visit(program, (nx, ny, nz), ctas))
                visited = sorted(point for points in ctas_points for point in points)
                assert visited == [(z, y, x)
                                   for z in range(nz)
                                   for y in range(ny)
                                   for x in range(nx)], (nx, ny, nz, ctas)
                times = [sum(nx - x for _, _, x in points) for points in ctas_points]
                if sys.argv[1] != "one_by_one":
                    assert max(times) <= sum(times) / ctas + nx, (nx, ny, nz, ctas, times)
                checked += 1
assert checked > 100
