"""Checks flash-bound-loops against brute force, for masks that are programs.

    mask_property.py generate [dual|columns]   prints a function for each mask, tile shape and way to give the sizes;
                                         with `columns`, loops over queries are inside the loop over keys
    mask_property.py check [columns] < output  runs these functions after flash-bound-loops, for many sizes
    mask_property.py dual < output       evaluates the bounds of the loops over queries that flash-print-mask-bounds
                                         prints, for many sizes

FLASHC_DRAWS multiplies the number of random masks, and `seed=N` selects them. Both steps need the same values.

The functions compute the bounds at run time: this script evaluates the index arithmetic in front of the loops, and
looks at all pairs (i, j) of each tile of queries. It checks that the loops are
- sound: no tile with a kept pair is skipped, and a tile in a loop without a mask keeps every pair of a valid query;
- in order: the loops visit tiles of the original loop, in ascending order, none twice;
- moved, where an origin is printed: the tiles follow each other from any first key on. If the mask is tight, one query
  of the tile keeps that key. All other checks use these tiles. The script prints how many masks have them;
- tight, where the mask is reported to be exact: no tile without a kept pair is visited, and no tile is masked that
  keeps all pairs;
- mapped: if the tiles with a kept pair form few runs, no other tile is visited.
With `columns`, the same is checked for the loops over tiles of queries, for each tile of keys. With `dual`, it is
checked for the tiles of queries of each tile of keys, and for the class of the dual. If the runs of tiles are read from
a table (flash.tile_runs), the script evaluates the region of the table and compares the visited tiles with all pairs;
it prints how many masks have such a table. Named masks must have their expected class. For some named masks over
arrays, the keys of two queries need not be adjacent: the loops may visit tiles between these keys, but none before the
first kept pair or after the last one, and they must be tight where the keys are adjacent.
"""

import os
import random
import re
import sys

import numpy

from index_programs import compile_any, take_tables
from mask_programs import SortedRandom, Writer, evaluate, named, random_mask, sorted_masks
from printed_bounds import Int, PrintedBounds

SIZES = [(1, 1), (1, 40), (40, 1), (16, 16), (17, 33), (64, 64), (100, 100), (128, 40), (50, 200), (129, 257),
         (300, 300)]
# Small tiles, so that a mask has many of them, and tiles of the sizes that kernels have.
Q_TILES = [1, 8, 16, 32], [64, 128, 192]
KV_TILES = [8, 16, 32], [80, 112, 128]
SEED = 5
#: How many random masks are drawn: without arrays, and over sorted arrays.
RANDOM, RANDOM_SORTED = 90, 30
#: How many runs of tiles a row of a table (flash.tile_runs) has room for.
MOST_RUNS = 5


class Case:
    """One mask with a tile shape, and with sizes if these are constants of the program."""

    def __init__(self, name, mask, rng, sizes, expected=None, has_arrays=False, expected_dual=None):
        self.name, self.mask, self.sizes, self.expected, self.has_arrays = name, mask, sizes, expected, has_arrays
        self.q_tile, self.kv_tile = (rng.choice(rng.choice(tiles)) for tiles in (Q_TILES, KV_TILES))
        # A dilation that is larger than a tile leaves tiles without pairs. So with tiles of one query the class of the
        # dual is not known.
        self.expected_dual = expected_dual or (expected if self.q_tile > 1 else None)
        if sizes:
            self.symbols = [rng.randint(0, 200), rng.randint(0, 200)]

    def runs(self, rng):
        """Returns lists of (nq, nk, values of the captured symbols)."""
        if self.sizes:
            return [(*self.sizes, self.symbols)]
        arrays = lambda nq, nk: make_arrays(rng, nq, nk) if self.has_arrays else []
        return [(nq, nk, [rng.randint(0, nk + 20), rng.randint(0, nk + 20)] + arrays(nq, nk)) for nq, nk in SIZES]

    def write_mask(self, limit=None):
        """Returns the text of the mask region. `limit` is the operands of a comparison: `%i` or `%j`, and the end of
        its range."""
        writer = Writer()
        keep = writer.write(self.mask)
        if limit:
            inside = writer.emit(f"arith.cmpi slt, {limit} : index")
            keep = writer.emit(f"arith.andi {keep}, {inside} : i1")
        return "\n".join(writer.lines + [f"flash.yield {keep} : i1"])

    def write_sizes(self):
        """Returns the text of the sizes that are constants, and the text of the arguments for the others."""
        given = dict(zip(("nq", "nk", "s0", "s1"), (*self.sizes, *self.symbols))) if self.sizes else {}
        constants = "\n".join(f"%{key} = arith.constant {value} : index" for key, value in given.items())
        arguments = "".join(f", %{key}: index" for key in ("nq", "nk", "s0", "s1") if key not in given)
        if self.has_arrays:
            arguments += "".join(f", %a{n}: tensor<?xi32>" for n in range(4))
        return constants, arguments

    def columns_function(self, name):
        """Returns a function with loops over queries. The mask drops the queries past the end of the last tile."""
        q, kv = self.q_tile, self.kv_tile
        sums, row = f"tensor<1x1x{kv}xf32>", f"tensor<1x1x{q}xf32>"
        tile, valid = f"tensor<1x1x{q}x1xf32>", "tensor<1x1x?x1xf32>"
        keys = f"tensor<1x1x{kv}x1xf32>"
        constants, arguments = self.write_sizes()
        return f"""func.func @{name}(%q: {tile}, %k: {valid}, %c: {sums}, %l: {row}{arguments}) -> {sums} {{
{constants}
%zero = arith.constant 0 : index
%qstep = arith.constant {q} : index
%step = arith.constant {kv} : index
%f = arith.constant 0.0 : f32
%all = scf.for %j0 = %zero to %nk step %step iter_args(%state = %c) -> ({sums}) {{
%keys = affine.min affine_map<(d0)[s0] -> ({kv}, s0 - d0)>(%j0)[%nk]
%ks = tensor.extract_slice %k[0, 0, %j0, 0] [1, 1, %keys, 1] [1, 1, 1, 1] : {valid} to {valid}
%high = affine.apply affine_map<(d0) -> ({kv} - d0)>(%keys)
%kt = tensor.pad %ks low[0, 0, 0, 0] high[0, 0, %high, 0] {{
^bb0(%x0: index, %x1: index, %x2: index, %x3: index):
tensor.yield %f : f32
}} : {valid} to {keys}
%r = scf.for %pos = %zero to %nq step %qstep iter_args(%p = %state) -> ({sums}) {{
%t = flash.accumulate_column_sums ins(%q, %kt, %l : {tile}, {keys}, {row}) outs(%p : {sums})
  at(%zero, %zero, %pos, %j0) {{scale = 1.0 : f32}} mask (%b: index, %h: index, %i: index, %j: index) {{
{self.write_mask("%i, %nq" if not self.sizes or self.sizes[0] % q else None)}
}} -> {sums}
scf.yield %t : {sums}
}}
scf.yield %r : {sums}
}}
return %all : {sums}
}}
"""

    def function(self, name, is_dual):
        """Returns a function with loops over keys. The mask drops the keys past the end of the last tile, except for
        the dual, which takes the number of keys in that tile itself."""
        q, kv = self.q_tile, self.kv_tile
        acc, row = f"tensor<1x1x{q}x1xf32>", f"tensor<1x1x{q}xf32>"
        tile, valid = f"tensor<1x1x{kv}x1xf32>", "tensor<1x1x?x1xf32>"
        constants, arguments = self.write_sizes()
        sticks_out = not is_dual and (not self.sizes or self.sizes[1] % kv)
        return f"""func.func @{name}(%q: {valid}, %k: {tile}, %a: {acc}, %m: {row}{arguments}) -> {acc} {{
{constants}
%zero = arith.constant 0 : index
%qstep = arith.constant {q} : index
%step = arith.constant {kv} : index
%f = arith.constant 0.0 : f32
%all = scf.for %i0 = %zero to %nq step %qstep iter_args(%state = %a) -> ({acc}) {{
%rows = affine.min affine_map<(d0)[s0] -> ({q}, s0 - d0)>(%i0)[%nq]
%qs = tensor.extract_slice %q[0, 0, %i0, 0] [1, 1, %rows, 1] [1, 1, 1, 1] : {valid} to {valid}
%high = affine.apply affine_map<(d0) -> ({q} - d0)>(%rows)
%qt = tensor.pad %qs low[0, 0, 0, 0] high[0, 0, %high, 0] {{
^bb0(%x0: index, %x1: index, %x2: index, %x3: index):
tensor.yield %f : f32
}} : {valid} to {acc}
%r:3 = scf.for %pos = %zero to %nk step %step iter_args(%p0 = %state, %p1 = %m, %p2 = %m) -> ({acc}, {row}, {row}) {{
%t:3 = flash.online_attention ins(%qt, %k, %k : {acc}, {tile}, {tile}) outs(%p0, %p1, %p2 : {acc}, {row}, {row})
  at(%zero, %zero, %i0, %pos) {{normalize = #flash.normalize<deferred>, scale = 1.0 : f32}}
  mask (%b: index, %h: index, %i: index, %j: index) {{
{self.write_mask("%j, %nk" if sticks_out else None)}
}} -> {acc}, {row}, {row}
scf.yield %t#0, %t#1, %t#2 : {acc}, {row}, {row}
}}
scf.yield %r#0 : {acc}
}}
return %all : {acc}
}}
"""


def make_arrays(rng, nq, nk):
    """Returns document ids for queries and for keys, and sequence offsets in both."""
    longest, segments = max(nq, nk), rng.randint(1, 6)
    ids = [sorted(rng.randint(0, rng.choice([2, 9])) for _ in range(longest)) for _ in range(2)]
    offsets = [[0] + sorted(rng.randint(0, n) for _ in range(segments - 1)) + [n] for n in (longest, nk)]
    return [numpy.array(line) for line in ids + offsets]


def make_cases():
    seed = next((int(word.partition("=")[2]) for word in sys.argv if word.startswith("seed=")), SEED)
    draws = int(os.environ.get("FLASHC_DRAWS", 1))
    rng, cases = random.Random(seed), []
    masks = [(name, mask, "exact") for name, mask in named().items()]
    masks += [(f"random_{n}", random_mask(rng), None) for n in range(RANDOM * draws)]
    for name, mask, expected in masks:
        sizes = None, (rng.randint(1, 300), rng.randint(1, 300)), (128, 192)
        cases += [Case(name, mask, rng, one, expected) for one in (sizes if expected else rng.sample(sizes, 1))]
    for name, (mask, expected) in sorted_masks().items():
        # The dual of this mask (j < s, or the same document) is not exact. j < s may hold for some keys of a tile only,
        # and the documents of the keys are known only at the ends of the tile.
        expected_dual = "conservative" if name == "shared_prefix_documents" else expected
        cases += [Case(name, mask, rng, None, expected, has_arrays=True, expected_dual=expected_dual) for _ in range(2)]
    sorted_rng = SortedRandom(seed)
    cases += [Case(f"random_sorted_{n}", random_mask(sorted_rng), rng, None, has_arrays=True)
              for n in range(RANDOM_SORTED * draws)]
    return cases


class Program:
    """The part of a function that computes the bounds of its inner loops."""

    def __init__(self, header, body):
        self.arguments = re.findall(r"(%[\w-]+): (?:index|tensor<\?xi32>)", header)
        self.steps, body = take_tables(body)
        self.has_table, self.loops = bool(self.steps), []
        lines = body.split("\n")
        for n, line in enumerate(lines):
            depth = (len(line) - len(line.lstrip())) // 2
            if match := re.match(r"\s*%[\w-]+(?::\d+)? = scf\.for (%[\w-]+) = (%[\w-]+) to (%[\w-]+) step", line):
                if depth == 2:
                    self.i0 = match[1]
                else:
                    end = next(m for m in range(n, len(lines)) if lines[m].startswith("      }"))
                    is_masked = " mask (" in "\n".join(lines[n:end])
                    self.loops.append((match[2], match[3], is_masked))
            elif depth in (2, 3) and (step := compile_any(line.strip())):
                self.steps.append(step)

    def run(self, arguments, i0, kept=None):
        """Returns the inner loops for one tile of the outer loop, as (begin, end, is masked). `kept` has all pairs, for
        tables that run the mask."""
        values = {name: value if isinstance(value, numpy.ndarray) else Int(value)
                  for name, value in zip(self.arguments, arguments, strict=True)}
        values["kept"] = kept
        if hasattr(self, "i0"):
            values[self.i0] = Int(i0)
        else:
            assert i0 == 0
        for name, step in self.steps:
            try:
                values[name] = step(values)
            except KeyError:
                pass  # the operation uses a value that is no index
        return [(values[begin], values[end], is_masked) for begin, end, is_masked in self.loops]


def find_fault(size, loops, kept, nk, is_exact, is_hull, is_moved, is_mapped=False):
    """Returns what is wrong with the loops of one tile, or None. `kept` has a row for each query of the tile, and `nk`
    columns; a tile has `size` of them. `is_hull`: if the first query keeps a key, no tile before the first kept pair is
    visited, and if the last query keeps a key, no tile after the last kept pair. `is_moved`: tiles begin where the
    first loop begins."""
    origin = next((begin for begin, end, _ in loops if begin < end), nk) if is_moved else 0
    starts = range(origin, nk, size)
    if origin < 0 or kept[:, :origin].any():
        return f"unsound: tiles from {origin} on"
    if is_exact and is_moved and origin < nk and not kept[:, origin].any():
        return f"not tight: tiles from {origin} on"
    needed = [t for t in starts if kept[:, t:t + size].any()]
    whole = [t for t in starts if t + size <= nk and kept[:, t:t + size].all()]
    visited = [t for begin, end, _ in loops for t in range(begin, end, size)]
    unmasked = [t for begin, end, masked in loops for t in range(begin, end, size) if not masked]
    if visited != sorted(set(visited)) or not set(visited) <= set(starts):
        return f"out of order: visits {visited}"
    if not set(needed) <= set(visited):
        return f"unsound: needs {needed}, visits {visited}"
    if not set(unmasked) <= set(whole):
        return f"unsound: whole tiles {whole}, unmasked {unmasked}"
    if is_hull and (kept[0].any() and visited[:1] != needed[:1] or kept[-1].any() and visited[-1:] != needed[-1:]):
        return f"not the hull: needs {needed}, visits {visited}"
    runs = sum(t - size not in needed for t in needed)
    if is_mapped and runs <= MOST_RUNS and visited != needed:
        return f"not mapped: needs {needed}, visits {visited}"
    if is_exact and (visited != needed or unmasked != whole):
        return f"not tight: needs {needed}, visits {visited}; whole tiles {whole}, unmasked {unmasked}"
    return None


def check(case, program, kind, is_moved, rng):
    for nq, nk, symbols in case.runs(rng):
        kept = numpy.broadcast_to(evaluate(case.mask, numpy.arange(nq)[:, None], numpy.arange(nk)[None, :], symbols),
                                  (nq, nk))
        arguments = [] if case.sizes else [nq, nk, *symbols]
        for i0 in range(0, nq, case.q_tile * (7 if case.q_tile == 1 else 1)):
            tile = kept[i0:i0 + case.q_tile]
            seen, = tile.any(axis=0).nonzero()
            is_tight = kind == "exact" or (case.expected is not None and
                                           (len(seen) == 0 or seen[-1] - seen[0] < len(seen)))
            fault = find_fault(case.kv_tile, program.run(arguments, i0, kept), tile, nk, is_tight, is_hull=case.expected
                               is not None, is_moved=is_moved, is_mapped=kind == "mapped")
            if fault:
                return f"nq={nq} nk={nk} symbols={symbols} i0={i0} tiles={case.q_tile}x{case.kv_tile}: {fault}"
    return None


def check_columns(case, program, kind, is_moved, rng):
    for nq, nk, symbols in case.runs(rng):
        kept = numpy.broadcast_to(evaluate(case.mask, numpy.arange(nq)[:, None], numpy.arange(nk)[None, :], symbols),
                                  (nq, nk))
        arguments = [] if case.sizes else [nq, nk, *symbols]
        for j0 in range(0, nk, case.kv_tile * (7 if case.q_tile == 1 else 1)):
            tile = kept[:, j0:j0 + case.kv_tile].T
            fault = find_fault(case.q_tile, program.run(arguments, j0, kept), tile, nq, kind == "exact", is_hull=False,
                               is_moved=is_moved, is_mapped=kind == "mapped")
            if fault:
                return f"nq={nq} nk={nk} symbols={symbols} j0={j0} tiles={case.q_tile}x{case.kv_tile}: {fault}"
    return None


def find_dual_fault(case, intervals, kept, is_exact):
    """Returns what is wrong with `intervals`, or None. They cover the tiles that have a kept pair, and those that have
    a dropped pair. `kept` has a row for each query, and a column for each key of the tile."""
    starts = range(0, len(kept), case.q_tile)
    tiles = {t: kept[t:t + case.q_tile] for t in starts}
    for name, found, needed in zip(("kept", "cut"), intervals, ([t for t in starts if tiles[t].any()],
                                                                [t for t in starts if not tiles[t].all()])):
        covered = [t for t in starts if any(begin <= t < end for begin, end in found)]
        if not set(needed) <= set(covered):
            return f"unsound: {name} {needed}, found {covered}"
        if is_exact and covered != needed:
            return f"not tight: {name} {needed}, found {covered}"
    return None


def check_dual(case, bounds, rng):
    for nq, nk, symbols in case.runs(rng):
        kept = numpy.broadcast_to(evaluate(case.mask, numpy.arange(nq)[:, None], numpy.arange(nk)[None, :], symbols),
                                  (nq, nk))
        arguments = [] if case.sizes else [nq, nk, *symbols]
        values = {f"%arg{4 + n}": value for n, value in enumerate(arguments)}
        for j0 in range(0, nk, case.kv_tile):
            keys = min(case.kv_tile, nk - j0)
            values |= {"begin": 0, "end": nq, "j0": j0, "keys": keys}
            fault = find_dual_fault(case, bounds.evaluate(values, j0, j0 + keys - 1), kept[:, j0:j0 + keys],
                                    bounds.kind == "exact")
            if fault:
                return f"nq={nq} nk={nk} symbols={symbols} j0={j0} tiles={case.q_tile}x{case.kv_tile}: {fault}"
    return None


def check_duals(cases, text):
    printed = re.findall(r"dual of the mask in @case_(\d+):\n((?:.*\n)*?class .*\n)", text)
    assert [int(n) for n, _ in printed] == list(range(len(cases))), "expected every case once"
    failures, numbers = 0, {"exact": 0, "mapped": 0, "conservative": 0, "opaque": 0}
    for (n, body), case in zip(printed, cases):
        bounds = PrintedBounds(body, compile_any)
        numbers[bounds.kind] += 1
        fault = check_dual(case, bounds, random.Random(int(n)))
        if not fault and case.expected_dual and bounds.kind != case.expected_dual:
            fault = f"expected the class of the dual to be {case.expected_dual}, got {bounds.kind}"
        if fault:
            failures += 1
            print(f"dual of case_{n} {case.name}: {fault}")
    assert numbers["exact"] > 100 and numbers["mapped"] + numbers["conservative"] > 40, numbers
    print(f"{len(cases)} duals, {failures} failures")
    sys.exit(failures != 0)


def main():
    cases, is_columns = make_cases(), "columns" in sys.argv
    if sys.argv[1] == "generate":
        for n, case in enumerate(cases):
            print(case.columns_function(f"case_{n}") if is_columns else
                  case.function(f"case_{n}", is_dual="dual" in sys.argv))
        return
    text = sys.stdin.read()
    if sys.argv[1] == "dual":
        check_duals(cases, text)
    maps = dict(re.findall(r"^(#map\d*) = (affine_map<.*>)$", text, re.MULTILINE))
    text = re.sub(r"#map\d*\b", lambda match: maps[match[0]], text)
    printed = {int(n): body for n, body in re.findall(r"mask in @case_(\d+):\n((?:.*\n)*?class \w+)", text)}
    functions = re.findall(r"func\.func @case_(\d+)(\(.*)\n((?:.*\n)*?)  }\n", text)
    assert [int(n) for n, _, _ in functions] == list(range(len(cases))), "expected every case once"
    failures, tables, moved, numbers = 0, 0, 0, {"exact": 0, "mapped": 0, "conservative": 0, "opaque": 0}
    for (n, header, body), case in zip(functions, cases):
        kind, program = printed[int(n)].rsplit(maxsplit=1)[1], Program(header, body)
        is_moved = "\norigin " in printed[int(n)]
        numbers[kind] += 1
        tables += program.has_table
        moved += is_moved
        fault = (check_columns if is_columns else check)(case, program, kind, is_moved, random.Random(int(n)))
        expected = case.expected_dual if is_columns else case.expected
        if is_columns and program.has_table and expected == "conservative":
            expected = "mapped"
        if not fault and expected and kind != expected:
            fault = f"expected the class to be {expected}, got {kind}"
        if fault:
            failures += 1
            print(f"case_{n} {case.name}: {fault}")
    # The test is meaningful only if there are enough masks of each class.
    assert numbers["exact"] > 100 and numbers["mapped"] + numbers["conservative"] > 40, numbers
    print(f"{len(cases)} cases, {tables} of them with a table of runs, {moved} with moved tiles, {failures} failures")
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
