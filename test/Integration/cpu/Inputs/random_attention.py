#!/usr/bin/env python3
"""Writes random attention functions, runs them through flashc --check, and prints those that fail, so that they can be
run again by hand.

    random_attention.py FLASHC FOLDER COUNT [SEED]
"""
import os
import random
import subprocess
import sys

# Mask regions over i and j; %a and %b2 are random constants, %shift aligns the last query with the last key.
MASKS = {
    "none": None,
    "causal": "%keep = arith.cmpi sle, %j, %i : index",
    "causal-bottom-right": "%t = arith.addi %i, %shift : index\n    %keep = arith.cmpi sle, %j, %t : index",
    "offset": "%t = arith.addi %i, %a : index\n    %keep = arith.cmpi sge, %t, %j : index",
    "after": "%t = arith.subi %j, %i : index\n    %keep = arith.cmpi sgt, %t, %a : index",
    "diagonal": "%t = arith.addi %i, %a : index\n    %keep = arith.cmpi eq, %j, %t : index",
    "length": "%keep = arith.cmpi slt, %j, %b2 : index",
    "by-head": "%t = arith.addi %h, %i : index\n    %keep = arith.cmpi sle, %j, %t : index",
    "window": "%t = arith.subi %i, %a : index\n    %u = arith.addi %i, %b2 : index\n"
              "    %x = arith.cmpi sge, %j, %t : index\n    %y = arith.cmpi slt, %j, %u : index\n"
              "    %keep = arith.andi %x, %y : i1",
}
SCORE = """score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
    %d = arith.subi %j, %i : index
    %n = arith.index_cast %d : index to i32
    %f = arith.sitofp %n : i32 to f32
    %slope = arith.constant 3.000000e-02 : f32
    %m = arith.mulf %f, %slope : f32
    %t = arith.addf %s, %m : f32
    flash.yield %t : f32
  }"""
LENGTHS = [1, 2, 7, 15, 16, 17, 31, 33, 40, 64]
TILES = [1, 4, 8, 16, 32, 64]


def make_function(rng, extents):
    """Returns the text of one function @attention. `extents` are (B, Nq, Nk); each is written as dynamic half of the
    time."""
    dtype = rng.choice(["bf16", "f16", "f32"])
    d, dv = rng.choice([8, 16, 24]), rng.choice([8, 16, 24])
    if dtype == "f32":
        d, dv = rng.choice([1, 2, 5, 8]), rng.choice([1, 3, 8])
    hk = rng.choice([1, 2])
    hq = hk * rng.choice([1, 2, 3])
    b, nq, nk = (rng.choice(["?", str(extent)]) for extent in extents)
    kind = rng.choice(["tensor", "tensor", "memref"])
    q, k, v = (f"{kind}<{b}x{h}x{n}x{e}x{dtype}>" for h, n, e in ((hq, nq, d), (hk, nk, d), (hk, nk, dv)))
    o, lse = f"{kind}<{b}x{hq}x{nq}x{dv}x{rng.choice([dtype, 'f32'])}>", f"{kind}<{b}x{hq}x{nq}xf32>"
    mask = MASKS[rng.choice(sorted(MASKS))]
    regions = SCORE if rng.random() < 0.3 else ""
    if mask:
        regions += "\n  mask (%b: index, %h: index, %i: index, %j: index) {\n"
        regions += f"    {mask}\n    flash.yield %keep : i1\n  }}"
    body = f"""  %a = arith.constant {rng.randint(-20, 20)} : index
  %b2 = arith.constant {rng.randint(-20, 20)} : index
  %c2 = arith.constant 2 : index
  %nq = {kind}.dim %q, %c2 : {q}
  %nk = {kind}.dim %k, %c2 : {k}
  %shift = arith.subi %nk, %nq : index
"""
    operands = f"ins(%q, %k, %v : {q}, {k}, {v})"
    scale = "{scale = 3.500000e-01 : f32}"
    arguments = f"%q: {q}, %k: {k}, %v: {v}"
    if kind == "memref":
        return (f"func.func @attention({arguments}, %o: {o}, %lse: {lse}) {{\n{body}"
                f"  flash.attention {operands} outs(%o, %lse : {o}, {lse}) {scale}\n  {regions}\n  return\n}}\n")
    return (f"func.func @attention({arguments}) -> ({o}, {lse}) {{\n{body}"
            f"  %o, %lse = flash.attention {operands} {scale}\n  {regions} -> {o}, {lse}\n"
            f"  return %o, %lse : {o}, {lse}\n}}\n")


def main():
    flashc, folder, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    os.makedirs(folder, exist_ok=True)
    failures = 0
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        extents = rng.choice([1, 1, 2]), rng.choice(LENGTHS), rng.choice(LENGTHS)
        path = os.path.join(folder, f"{seed}-{number}.mlir")
        with open(path, "w", encoding="ascii") as file:
            file.write(make_function(rng, extents))
        command = [flashc, path, "--check", "--dims=B={},Nq={},Nk={}".format(*extents), f"--seed={number}",
                   f"--algorithm={rng.choice(['fa1', 'fa2', 'fa2', 'fa2'])}", f"--q-tile={rng.choice(TILES)}",
                   f"--kv-tile={rng.choice(TILES)}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0 or result.stdout.count("PASS") != 2:
            failures += 1
            print("FAIL", " ".join(command), result.stdout, result.stderr, sep="\n")
    print(f"{count - failures} of {count} passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
