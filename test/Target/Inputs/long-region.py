"""Prints an attention whose mask or score has many additions: `long-region.py mask|score|doubled <additions>`."""
import sys

TYPE = "tensor<1x4x?x64xbf16>"


def mask(additions):
    """Yields a mask: a sum of (j and n) for many n must be less than a number."""
    yield "mask (%b: index, %h: index, %i: index, %j: index) {"
    yield "  %x0 = arith.addi %i, %j : index"
    for number in range(additions):
        yield f"  %c{number} = arith.constant {number + 1} : index"
        yield f"  %y{number} = arith.andi %j, %c{number} : index"
        yield f"  %x{number + 1} = arith.addi %x{number}, %y{number} : index"
    yield "  %limit = arith.constant 60000 : index"
    yield f"  %keep = arith.cmpi slt, %x{additions}, %limit : index"
    yield "  flash.yield %keep : i1"


def score(additions):
    """Yields a score: the sum of the score and of (j and n) / 2^20 for many n."""
    yield "score (%s: f32, %b: index, %h: index, %i: index, %j: index) {"
    yield "  %scale = arith.constant 9.5367431640625e-07 : f32"
    yield "  %x0 = arith.addf %s, %s : f32"
    for number in range(additions):
        yield f"  %c{number} = arith.constant {number + 1} : index"
        yield f"  %y{number} = arith.andi %j, %c{number} : index"
        yield f"  %i{number} = arith.index_cast %y{number} : index to i32"
        yield f"  %f{number} = arith.sitofp %i{number} : i32 to f32"
        yield f"  %z{number} = arith.mulf %f{number}, %scale : f32"
        yield f"  %x{number + 1} = arith.addf %x{number}, %z{number} : f32"
    yield f"  flash.yield %x{additions} : f32"


def doubled(additions):
    """Yields sums, minima and selections of a value with itself. If the last expression were written out, it would have
    2^n terms."""
    yield "score (%s: f32, %b: index, %h: index, %i: index, %j: index) {"
    yield "  %x0 = arith.addf %s, %s : f32"
    for number in range(additions):
        yield f"  %x{number + 1} = arith.addf %x{number}, %x{number} : f32"
    yield f"  flash.yield %x{additions} : f32"
    yield "}"
    yield "mask (%b: index, %h: index, %i: index, %j: index) {"
    yield "  %c7 = arith.constant 7 : index"
    yield "  %m0 = arith.addi %i, %j : index"
    for number in range(additions):
        yield f"  %p{number} = arith.minsi %m{number}, %c7 : index"
        yield f"  %q{number} = arith.subi %c7, %m{number} : index"
        yield f"  %r{number} = arith.cmpi slt, %m{number}, %q{number} : index"
        yield f"  %t{number} = arith.select %r{number}, %p{number}, %q{number} : index"
        yield f"  %m{number + 1} = arith.addi %t{number}, %t{number} : index"
    yield f"  %keep = arith.cmpi slt, %m{additions}, %c7 : index"
    yield "  flash.yield %keep : i1"


region = {"mask": mask, "score": score, "doubled": doubled}[sys.argv[1]]
print(f"func.func @long(%q: {TYPE}, %k: {TYPE}, %v: {TYPE}) -> {TYPE} {{")
print(f"  %o, %l = flash.attention ins(%q, %k, %v : {TYPE}, {TYPE}, {TYPE}) {{scale = 0.125 : f32}}")
print("\n".join(region(int(sys.argv[2]))))
print(f"  }} -> {TYPE}, tensor<1x4x?xf32>")
print(f"  return %o : {TYPE}\n}}")
