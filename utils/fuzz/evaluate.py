"""Evaluates trees of expressions.py with NumPy, operation by operation: integers exactly, real numbers in f32.

Two programs that both compute in f32 may differ in the last bits of exp or sin, and later operations may enlarge the
difference: a comparison of nearly equal numbers, floor, tan. So every value has a bound of its error. The bound is 0
where every program computes the same bits. Where it is infinite, nothing is known about the value.
"""

import math
from collections import namedtuple

import numpy as np

from expressions import arguments

#: v: the numbers; e: how much the numbers of another correct program may differ. For a condition, e is infinite where
#: another program may decide differently.
Value = namedtuple("Value", "v e")

LARGEST = float(np.finfo(np.float32).max)
#: By how much two implementations of a function may differ: relative to the result, and absolutely.
RELATIVE, ABSOLUTE = 4e-6, 2e-9


class OutOfRange(Exception):
    """An integer that does not fit into 32 bits, the type that kernels compute with."""


def real(v, e):
    """Returns a real number, rounded to f32. The error of the rounding counts unless every program rounds the same
    number."""
    v = np.asarray(v, np.float32)
    e = np.where(np.isnan(e), np.inf, e)
    wide = v.astype(np.float64)
    e = np.where((e > 0) & np.isfinite(wide), e + np.spacing(np.abs(v)).astype(np.float64), e)
    # A number near the largest f32 may overflow in another program.
    e = np.where((e > 0) & (np.isinf(wide) | (np.abs(wide) + e > LARGEST)), np.inf, e)
    return Value(v, e)


def integer(v, *operands):
    v = np.asarray(v)
    if v.dtype != bool and v.size and np.abs(v).max() > 2**31 - 1:
        raise OutOfRange
    unsure = sum((np.asarray(x.e > 0) for x in operands), np.False_)
    return Value(v, np.where(unsure, np.inf, 0.0))


def as_real(x):
    return x if x.v.dtype == np.float32 else Value(x.v.astype(np.float32), x.e)


def _both(x, y):
    return (as_real(x), as_real(y)) if np.float32 in (x.v.dtype, y.v.dtype) else (x, y)


def _of_function(f, x, relative=RELATIVE, absolute=ABSOLUTE):
    """Applies a function of a real number in f64. The error follows from the function's values at both ends of the
    operand's range."""
    x = as_real(x)
    wide = x.v.astype(np.float64)
    v = f(wide)
    near = np.maximum(np.abs(f(wide + x.e) - v), np.abs(f(wide - x.e) - v))
    e = np.where(x.e > 0, np.where(x.e > 0.1 * (1 + np.abs(wide)), np.inf, near), 0.0)
    computed = np.where(np.isfinite(v), relative * np.abs(v) + (absolute if relative else 0), 0.0)
    # A result near the largest f32 may overflow in another program.
    overflows = np.isfinite(v) & (np.abs(v) > LARGEST * (1 - 1e-4)) & (np.abs(v) < LARGEST * (1 + 1e-4))
    return real(v, np.where(overflows, np.inf, e + computed))


_ERF = np.vectorize(math.erf, otypes=[np.float64])
_ERFC = np.vectorize(math.erfc, otypes=[np.float64])


def _periodic(f):
    """Returns the function with an unknown result (infinity) far from 0, where the reduction of the argument decides
    all digits."""
    def function(x):
        return np.where(np.abs(x) < 1e4, f(np.where(np.abs(x) < 1e4, x, 0)), np.where(np.isfinite(x), np.inf, np.nan))
    return function


FUNCTIONS = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh, "cbrt": np.cbrt, "cos": _periodic(np.cos), "cosh": np.cosh, "erf": _ERF, "erfc": _ERFC,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log10": np.log10, "log1p": np.log1p,
    "log2": np.log2, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": _periodic(np.sin), "sinh": np.sinh,
    "tan": _periodic(np.tan), "tanh": np.tanh,
}
EXACT = {"ceil": np.ceil, "floor": np.floor, "round": np.rint, "trunc": np.trunc}


def constant(value):
    return Value(np.asarray(value, np.float32 if isinstance(value, float) else None), np.float64(0))


ZERO, ONE = constant(0.0), constant(1.0)


def add(x, y):
    x, y = _both(x, y)
    if x.v.dtype != np.float32:
        return integer(x.v + y.v, x, y)
    return real(x.v + y.v, x.e + y.e)


def neg(x):
    return Value(-x.v, x.e) if x.v.dtype == np.float32 else integer(-x.v, x)


def sub(x, y):
    x, y = _both(x, y)
    if x.v.dtype != np.float32:
        return integer(x.v - y.v, x, y)
    return real(x.v - y.v, x.e + y.e)


def mul(x, y):
    x, y = _both(x, y)
    if x.v.dtype != np.float32:
        return integer(x.v * y.v, x, y)
    part = lambda e, v: np.where(e == 0, 0.0, e * np.abs(v.astype(np.float64)))  # noqa: E731
    return real(x.v * y.v, part(x.e, y.v) + part(y.e, x.v) + np.where((x.e == 0) | (y.e == 0), 0.0, x.e * y.e))


def div(x, y):
    x, y = as_real(x), as_real(y)
    v = x.v / y.v
    least = np.abs(y.v.astype(np.float64)) - y.e
    moved = x.e + np.where(y.e == 0, 0.0, np.abs(v.astype(np.float64)) * y.e)
    return real(v, np.where(moved == 0, 0.0, np.where((y.e > 0) & ~(least > 0), np.inf, moved / least)))


def _floor(x):
    return _of_function(np.floor, x, 0)


def floordiv(x, y):
    x, y = _both(x, y)
    if x.v.dtype == np.float32:
        return _floor(div(x, y))
    return integer(x.v // np.where(y.v == 0, 1, y.v), x, y)


def mod(x, y):
    x, y = _both(x, y)
    if x.v.dtype == np.float32:
        return sub(x, mul(_floor(div(x, y)), y))
    return integer(x.v % np.where(y.v == 0, 1, y.v), x, y)


def _extremum(function):
    def extremum(x, y):
        x, y = _both(x, y)
        if x.v.dtype != np.float32:
            return integer(function(x.v, y.v), x, y)
        return Value(function(x.v, y.v), np.maximum(x.e, y.e))
    return extremum


minimum, maximum = _extremum(np.minimum), _extremum(np.maximum)


def absolute(x):
    return Value(np.abs(x.v), x.e) if x.v.dtype == np.float32 else integer(np.abs(x.v), x)


def _compare(function):
    def compare(x, y):
        x, y = _both(x, y)
        if x.v.dtype != np.float32:
            return integer(function(x.v, y.v), x, y)
        e = x.e + y.e
        unsure = (e > 0) & ~(np.abs(x.v.astype(np.float64) - y.v) > e)
        return Value(function(x.v, y.v), np.where(unsure, np.inf, 0.0))
    return compare


def where(condition, x, y):
    x, y = _both(x, y)
    return Value(np.where(condition.v, x.v, y.v), np.where(condition.e > 0, np.inf, np.where(condition.v, x.e, y.e)))


def power(x, y):
    """Computes a power with a whole exponent by multiplications."""
    x, exponent = as_real(x), float(y.v)
    if not exponent.is_integer():
        return _of_function(np.exp2, mul(constant(exponent), _of_function(np.log2, x)))
    bits, result = int(abs(exponent)), None
    while bits:
        if bits & 1:
            result = x if result is None else mul(result, x)
        bits >>= 1
        x = mul(x, x) if bits else x
    return ONE if result is None else div(ONE, result) if exponent < 0 else result


def exp(x):
    return _of_function(np.exp, x)


def softplus(x):
    x = as_real(x)
    return add(maximum(x, ZERO), _of_function(np.log1p, exp(neg(absolute(x)))))


def sigmoid(x):
    return div(ONE, add(ONE, exp(neg(as_real(x)))))


def gelu(x):
    x = as_real(x)
    return mul(mul(constant(0.5), x), _of_function(_ERFC, mul(x, constant(-math.sqrt(0.5)))))


def logaddexp(x, y):
    x, y = as_real(x), as_real(y)
    return add(maximum(x, y), _of_function(np.log1p, exp(neg(absolute(sub(x, y))))))


def atan2(y, x):
    y, x = as_real(y), as_real(x)
    v = np.arctan2(y.v.astype(np.float64), x.v.astype(np.float64))
    unsure = (x.e > 0) | (y.e > 0)
    return real(v, np.where(unsure, np.inf, RELATIVE * np.abs(v) + ABSOLUTE))


def copysign(x, y):
    """The sign of a NaN may be either, so the result is unknown."""
    x, y = as_real(x), as_real(y)
    unsure = np.isnan(y.v) | ((y.e > 0) & ~(np.abs(y.v) > y.e))
    return Value(np.copysign(x.v, y.v), np.where(unsure, np.inf, x.e))


def sign(x):
    positive, negative = OPERATIONS["gt"](x, constant(0)), OPERATIONS["lt"](x, constant(0))
    return where(positive, constant(1), where(negative, constant(-1), x if x.v.dtype == np.float32 else constant(0)))


def _test(function):
    return lambda x: Value(function(as_real(x).v), np.where(x.e > 0, np.where(np.isinf(x.e), np.inf, 0.0), 0.0))


def _bits(function):
    return lambda x, y: integer(function(x.v, y.v), x, y)


def element(array, *places):
    """Returns an element. Negative indices count from the end, and indices out of range are clamped."""
    index = tuple(np.clip(np.where(place.v < 0, place.v + extent, place.v), 0, extent - 1)
                  for place, extent in zip(places, array.v.shape))
    v = array.v[index]
    if v.dtype.kind == "f":
        return Value(v.astype(np.float32), integer(np.zeros((), int), *places).e)
    return integer(v if v.dtype == bool else v.astype(np.int64), *places)


OPERATIONS = {
    "add": add, "sub": sub, "mul": mul, "div": div, "floordiv": floordiv, "mod": mod, "neg": neg, "abs": absolute,
    "minimum": minimum, "maximum": maximum, "where": where, "to_float": as_real, "element": element,
    "clip": lambda x, low, high: minimum(maximum(x, low), high), "power": power,
    "to_int": lambda x: integer(x.v.astype(np.int64), x), "not": lambda x: integer(~x.v, x),
    "and": _bits(np.bitwise_and), "or": _bits(np.bitwise_or), "xor": _bits(np.bitwise_xor),
    "logical_and": _bits(np.logical_and), "logical_or": _bits(np.logical_or), "logical_xor": _bits(np.logical_xor),
    "logical_not": lambda x: integer(~x.v, x), "shr": _bits(np.right_shift),
    "count_le": lambda array, value: integer(np.searchsorted(array.v, value.v, side="right"), value),
    "lt": _compare(np.less), "le": _compare(np.less_equal), "gt": _compare(np.greater),
    "ge": _compare(np.greater_equal), "eq": _compare(np.equal), "ne": _compare(np.not_equal),
    "isnan": _test(np.isnan), "isinf": _test(np.isinf), "isfinite": _test(np.isfinite),
    "atan2": atan2, "copysign": copysign, "logaddexp": logaddexp, "softplus": softplus, "sigmoid": sigmoid,
    "gelu": gelu, "sign": sign, "relu": lambda x: maximum(as_real(x), ZERO),
    "silu": lambda x: mul(as_real(x), sigmoid(x)), "log_sigmoid": lambda x: neg(softplus(neg(as_real(x)))),
    "sqrt": lambda x: _of_function(np.sqrt, x, 0),
    **{name: lambda x, f=f: _of_function(f, x) for name, f in FUNCTIONS.items()},
    **{name: lambda x, f=f: _of_function(f, x, 0) for name, f in EXACT.items()},
}


def evaluate(node, names):
    """Returns the value of a tree; `names` has the positions, lengths, the score (f32) and the arrays."""
    with np.errstate(all="ignore"):
        return _evaluate(node, names)


def _evaluate(node, names):
    if node[0] == "const":
        return constant(node[2])
    if node[0] in ("name", "array", "sorted"):
        value = names[node[2]]
        return value if isinstance(value, Value) else Value(np.asarray(value), np.float64(0))
    return OPERATIONS[node[0]](*[_evaluate(argument, names) for _, argument in arguments(node)])
