"""Writes a function whose score applies every op of arith and math to scalars of each type, one after another."""
import itertools

PRECISE = "absf ceil floor round roundeven sqrt trunc".split()  # functions that f64 has too
UNARY = ("absf acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 floor log log10 log1p log2 "
         "round roundeven rsqrt sin sinh sqrt tan tanh trunc").split()
BINARY = "addf subf mulf divf remf maximumf minimumf maxnumf minnumf".split()
INTEGER = "addi subi muli andi ori xori shli shrsi shrui maxsi maxui minsi minui".split()
DIVISION = "divsi divui remsi remui ceildivsi ceildivui floordivsi".split()
numbers = itertools.count()


def emit(code, results=1):
    """Prints an op and returns the name of its last result."""
    names = [f"%x{next(numbers)}" for _ in range(results)]
    print(f"        {', '.join(names)} = {code}")
    return names[-1]


def use_floats(x, kind):
    for name in PRECISE if kind == "f64" else UNARY:
        x = emit(f"math.{name} {x} : {kind}")
    y = x
    for name in ["copysign"] if kind == "f64" else ["atan2", "powf", "copysign"]:
        x = emit(f"math.{name} {x}, {y} : {kind}")
    x = emit(f"math.fma {x}, {y}, {y} : {kind}")
    x = emit(f"math.clampf {x} to [{y}, {y}] : {kind}")
    if kind != "f64":
        x = emit(f"math.sincos {emit(f'math.fpowi {x}, %n : {kind}, i32')} : {kind}", results=2)
    for name in BINARY:
        x = emit(f"arith.{name} {x}, {y} : {kind}")
    for name in ("isnan", "isinf", "isfinite", "isnormal"):
        x = emit(f"arith.select {emit(f'math.{name} {x} : {kind}')}, {x}, {y} : {kind}")
    for integer in ("i8", "i16", "i32", "i64"):
        parts = [emit(f"arith.{name} {x} : {kind} to {integer}") for name in ("fptosi", "fptoui")]
        x = emit(f"arith.sitofp {emit(f'arith.addi {parts[0]}, {parts[1]} : {integer}')} : {integer} to {kind}")
    return x


def use_integers(kind):
    x, y = (emit(f"arith.index_cast {index} : index to {kind}") for index in ("%i", "%j"))
    three = emit(f"arith.constant 3 : {kind}")
    for name, other in [*((name, y) for name in INTEGER), *((name, three) for name in DIVISION)]:
        x = emit(f"arith.{name} {x}, {other} : {kind}")
    for name in ("absi", "ctlz", "cttz", "ctpop"):
        x = emit(f"math.{name} {x} : {kind}")
    x = emit(f"math.ipowi {x}, {y} : {kind}")
    for name in ("mulsi_extended", "mului_extended"):
        x = emit(f"arith.{name} {x}, {y} : {kind}", results=2)
    carry = emit(f"arith.addui_extended {x}, {y} : {kind}, i1", results=2)
    return emit(f"arith.select {carry}, {x}, {y} : {kind}")


print("""!t = tensor<1x1x64x8xbf16>
func.func @all_functions(%q: !t, %k: !t, %v: !t, %n: i32) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 1.250000e-01 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {""")
s = use_floats("%s", "f32")
for narrow in ("f16", "bf16"):
    s = emit(f"arith.extf {use_floats(emit(f'arith.truncf {s} : f32 to {narrow}'), narrow)} : {narrow} to f32")
s = emit(f"arith.truncf {use_floats(emit(f'arith.extf {s} : f32 to f64'), 'f64')} : f64 to f32")
for type_ in ("i8", "i16", "i32", "i64"):
    s = emit(f"arith.addf {s}, {emit(f'arith.uitofp {use_integers(type_)} : {type_} to f32')} : f32")
s = emit(f"arith.bitcast {emit(f'arith.bitcast {s} : f32 to i32')} : i32 to f32")
print(f"""        flash.yield {s} : f32
      }} -> !t, tensor<1x1x64xf32>
  return %o : !t
}}""")
