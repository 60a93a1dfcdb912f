"""Checks flash-bound-loops against brute force.

    bound_loops_property.py generate            prints one function per case, each with one key loop and constant sizes
    bound_loops_property.py check < output      reads the functions after flash-bound-loops

With constant sizes the pass folds every bound to a constant. For each case this script looks at all pairs (i, j) and
checks that the loops are
- sound: no tile with a kept pair is skipped, and a tile in a loop without a mask keeps every pair of a valid query;
- in order: the loops visit tiles of the original loop, in ascending order, none twice;
- tight, for a mask of one comparison: no tile without a kept pair is visited, and no tile is masked that keeps all
  pairs.
"""

import random
import re
import sys


class Conjunct:
    """One comparison: its MLIR text, in which %c stands for a constant, and the predicate that it computes."""

    def __init__(self, text, keeps, tight=True, opaque=False):
        self.text, self.keeps, self.tight, self.opaque = text, keeps, tight, opaque


def conjuncts(rng, nq, nk):
    c = rng.randint(-nq, nk + 8)
    w = rng.randint(1, nk)
    f = rng.randint(2, 4)
    cmp = lambda predicate, x, y: f"%p = arith.cmpi {predicate}, {x}, {y} : index"
    const = lambda name, value: f"{name} = arith.constant {value} : index\n"
    return rng.choice([
        Conjunct(const("%c", c) + "%x = arith.addi %i, %c : index\n" + cmp("sle", "%j", "%x"), lambda i, j: j <= i + c),
        Conjunct(const("%c", c) + "%x = arith.subi %j, %c : index\n" + cmp("slt", "%x", "%i"), lambda i, j: j - c < i),
        Conjunct(const("%c", w) + "%x = arith.subi %i, %j : index\n" + cmp("slt", "%x", "%c"), lambda i, j: i - j < w),
        Conjunct(const("%c", w) + "%x = arith.subi %i, %c : index\n" + cmp("sgt", "%j", "%x"), lambda i, j: j > i - w),
        Conjunct(const("%c", c) + "%x = arith.subi %c, %i : index\n" + cmp("sge", "%x", "%j"), lambda i, j: c - i >= j),
        Conjunct(const("%c", c) + cmp("slt", "%j", "%c"), lambda i, j: j < c),
        Conjunct(const("%c", c) + cmp("sge", "%j", "%c"), lambda i, j: j >= c),
        Conjunct(const("%c", c) + cmp("sge", "%i", "%c"), lambda i, j: i >= c),
        Conjunct(const("%c", c) + cmp("slt", "%i", "%c"), lambda i, j: i < c),
        Conjunct(const("%c", f) + "%x = arith.muli %i, %c : index\n" + cmp("sle", "%j", "%x"), lambda i, j: j <= f * i),
        Conjunct(
            const("%c", f) + "%x = arith.muli %c, %j : index\n" + const("%d", c) + "%y = arith.addi %i, %d : index\n"
            + cmp("sle", "%x", "%y"), lambda i, j: f * j <= i + c),
        Conjunct(
            const("%c", f) + "%x = arith.muli %c, %j : index\n" + const("%d", c) + "%y = arith.addi %i, %d : index\n"
            + cmp("sgt", "%x", "%y"), lambda i, j: f * j > i + c),
        Conjunct(
            "%i32 = arith.index_cast %i : index to i32\n%j32 = arith.index_cast %j : index to i32\n"
            f"%c = arith.constant {c} : i32\n%x = arith.addi %i32, %c : i32\n"
            "%p = arith.cmpi sge, %x, %j32 : i32", lambda i, j: i + c >= j),
        Conjunct(
            const("%c", c) + "%x = arith.addi %i, %c : index\n" + cmp("eq", "%j", "%x"), lambda i, j: j == i + c,
            tight=False),
        Conjunct(
            const("%c", w) + "%x = arith.subi %i, %j : index\n" + cmp("ult", "%x", "%c"), lambda i, j: 0 <= i - j < w,
            tight=False),
        Conjunct(const("%c", c) + cmp("ne", "%j", "%c"), lambda i, j: j != c, opaque=True),
        Conjunct(
            const("%c", c) + cmp("sle", "%j", "%i") + "\n%y = arith.cmpi slt, %j, %c : index\n"
            "%z = arith.ori %p, %y : i1", lambda i, j: j <= i or j < c, opaque=True),
    ])


class Case:
    def __init__(self, seed):
        rng = random.Random(seed)
        self.q_tile, self.kv_tile = rng.choice([4, 8, 16]), rng.choice([4, 8, 16])
        self.nq, self.nk = rng.randint(1, 40), rng.randint(1, 60)
        self.i0 = rng.randrange(0, self.nq, self.q_tile)
        self.rows = min(self.q_tile, self.nq - self.i0)
        self.parts = [conjuncts(rng, self.nq, self.nk) for _ in range(rng.choice([0, 1, 1, 1, 2, 3]))]
        if self.nk % self.kv_tile or not self.parts:
            nk = self.nk
            self.parts.append(Conjunct(f"%c = arith.constant {nk} : index\n%p = arith.cmpi slt, %j, %c : index",
                                       lambda i, j: j < nk))

    def mask(self):
        text, names = "", []
        for n, part in enumerate(self.parts):
            text += re.sub(r"%(?!i\b|j\b)(\w+)", rf"%\g<1>_{n}", part.text) + "\n"
            names.append(re.findall(r"(%\w+) = ", re.sub(r"%(?!i\b|j\b)(\w+)", rf"%\g<1>_{n}", part.text))[-1])
        while len(names) > 1:
            a, b = names.pop(0), names.pop(0)
            names.append(f"%and_{len(names)}_{a[1:]}")
            text += f"{names[-1]} = arith.andi {a}, {b} : i1\n"
        return text + f"flash.yield {names[0]} : i1"

    def function(self, name):
        q, kv, rows = self.q_tile, self.kv_tile, self.rows
        acc, row = f"tensor<1x1x{q}x1xf32>", f"tensor<1x1x{q}xf32>"
        tile, valid = f"tensor<1x1x{kv}x1xf32>", f"tensor<1x1x{rows}x1xf32>"
        return f"""func.func @{name}(%q: tensor<1x1x{self.nq}x1xf32>, %k: {tile}, %a: {acc}, %m: {row}) -> {acc} {{
%zero = arith.constant 0 : index
%i0 = arith.constant {self.i0} : index
%nk = arith.constant {self.nk} : index
%step = arith.constant {kv} : index
%f = arith.constant 0.0 : f32
%qs = tensor.extract_slice %q[0, 0, {self.i0}, 0] [1, 1, {rows}, 1] [1, 1, 1, 1] : tensor<1x1x{self.nq}x1xf32> to
{valid} %qt = tensor.pad %qs low[0, 0, 0, 0] high[0, 0, {q - rows}, 0] {{
^bb0(%x0: index, %x1: index, %x2: index, %x3: index):
tensor.yield %f : f32
}} : {valid} to {acc}
%r:3 = scf.for %pos = %zero to %nk step %step iter_args(%s0 = %a, %s1 = %m, %s2 = %m) -> ({acc}, {row}, {row}) {{
%t:3 = flash.online_attention ins(%qt, %k, %k : {acc}, {tile}, {tile}) outs(%s0, %s1, %s2 : {acc}, {row}, {row})
  at(%zero, %zero, %i0, %pos) {{normalize = #flash.normalize<deferred>, scale = 1.0 : f32}}
  mask (%b: index, %h: index, %i: index, %j: index) {{
{self.mask()}
}} -> {acc}, {row}, {row}
scf.yield %t#0, %t#1, %t#2 : {acc}, {row}, {row}
}}
return %r#0 : {acc}
}}
"""

    def check(self, loops):
        """Returns what is wrong, or None. `loops` lists (begin, end, masked) in order."""
        queries = range(self.i0, self.i0 + self.rows)
        kept = {t: [all(p.keeps(i, j) for p in self.parts) for i in queries for j in range(t, t + self.kv_tile)]
                for t in range(0, self.nk, self.kv_tile)}
        needed = [t for t in kept if any(kept[t])]
        whole = [t for t in kept if all(kept[t])]
        visited = [t for begin, end, _ in loops for t in range(begin, end, self.kv_tile)]
        unmasked = [t for begin, end, masked in loops for t in range(begin, end, self.kv_tile) if not masked]
        if any(begin > end
               for begin, end, _ in loops) or visited != sorted(set(visited)) or not set(visited) <= set(kept):
            return f"out of order: visits {visited}"
        if not set(needed) <= set(visited):
            return f"unsound: needs {needed}, visits {visited}"
        if not set(unmasked) <= set(whole):
            return f"unsound: whole tiles {whole}, unmasked {unmasked}"
        if len(self.parts) == 1 and self.parts[0].tight and not self.parts[0].opaque:
            if visited != needed or unmasked != whole:
                return f"not tight: needs {needed}, visits {visited}; whole tiles {whole}, unmasked {unmasked}"
        return None


def read_loops(text):
    constants = {name: int(value) for name, value in re.findall(r"(%\w+) = arith.constant (-?\d+) : index", text)}
    loops = re.findall(r"scf\.for %\w+ = (%\w+) to (%\w+) step.*\n((?:.*\n)*?.*flash\.online_attention.*)", text)
    # A mask that keeps nothing leaves one loop without iterations, whose end is not folded to a constant.
    return [(constants[begin], constants[end], " mask (" in op) for begin, end, op in loops
            if end in constants or len(loops) > 1]


def main():
    cases = [Case(seed) for seed in range(1500)]
    if sys.argv[1] == "generate":
        for n, case in enumerate(cases):
            print(case.function(f"case_{n}"))
        return
    functions = re.findall(r"func\.func @case_(\d+)\(.*\n((?:.*\n)*?)  }\n", sys.stdin.read())
    assert [int(n) for n, _ in functions] == list(range(len(cases))), "expected every case once"
    failures, tight, full, skipped = 0, 0, 0, 0
    for (n, text), case in zip(functions, cases):
        loops = read_loops(text)
        wrong = case.check(loops)
        if wrong:
            failures += 1
            print(f"case_{n}: {wrong}\n{case.function('case_' + n)}")
        tight += len(case.parts) == 1 and case.parts[0].tight
        full += any(not masked for _, _, masked in loops)
        skipped += sum(len(range(b, e, case.kv_tile)) for b, e, _ in loops) < len(range(0, case.nk, case.kv_tile))
    # The test is meaningful only if there are enough cases of each kind.
    assert tight > 100 and full > 100 and skipped > 100, (tight, full, skipped)
    print(f"{len(cases)} cases, {failures} failures")
    sys.exit(failures != 0)


main()
