"""The functions of traced values and numbers in flashc.ops."""
from __future__ import annotations

import math
from typing import Any, Callable

from .operators import as_f32, as_i1, as_index, check, is_condition, is_natural, is_real, region_of
from .region import F32, I1, INDEX, Value, error

#: The functions that flashc.ops has under the same name.
__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "clip", "copysign", "cos", "cosh",
    "erf", "erfc", "exp", "exp2", "expm1", "floor", "gelu", "isfinite", "isinf", "isnan", "log", "log10", "log1p",
    "log2", "log_sigmoid", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum",
    "power", "relu", "round", "rsqrt", "sigmoid", "sign", "silu", "sin", "sinh", "softplus", "sqrt", "tan", "tanh",
    "to_float", "to_int", "trunc", "where"
]


def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where the condition holds, else `y`. Both are computed."""
    condition, x, y = check(condition), check(x), check(y)
    if not isinstance(condition, Value):
        return x if condition else y
    if condition._type != I1:
        condition = condition != 0
    region = condition._region
    if is_condition(x) and is_condition(y):
        convert, type = as_i1, I1
    elif is_real(x) or is_real(y):
        convert, type = as_f32, F32
    else:
        convert, type = as_index, INDEX
    return region.value(type, f"arith.select {condition._name}, {convert(region, x)}, {convert(region, y)} : {type}",
                        type != I1 and is_natural(x) and is_natural(y))


def minimum(x: Any, y: Any) -> Any:
    """The smaller one; NaN if one is NaN."""
    x, y = check(x), check(y)
    if not isinstance(x, Value) and not isinstance(y, Value):
        return min(x, y)
    return _extremum(x, y, "min", is_natural(x) and is_natural(y))


def maximum(x: Any, y: Any) -> Any:
    """The larger one; NaN if one is NaN."""
    x, y = check(x), check(y)
    if not isinstance(x, Value) and not isinstance(y, Value):
        return max(x, y)
    return _extremum(x, y, "max", is_natural(x) or is_natural(y))


def _extremum(x: Any, y: Any, kind: str, natural: bool) -> Any:
    region = region_of(x, y)
    if is_real(x) or is_real(y):
        return region.value(F32, f"arith.{kind}imumf {as_f32(region, x)}, {as_f32(region, y)} : f32", natural)
    return region.value(INDEX, f"arith.{kind}si {as_index(region, x)}, {as_index(region, y)} : index", natural)


def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """`x`, but at least `min` and at most `max`; None: no bound."""
    if min is not None:
        x = maximum(x, min)
    return x if max is None else minimum(x, max)


def absolute(x: Any) -> Any:
    """The value without its sign."""
    x = check(x)
    if not isinstance(x, Value):
        return abs(x)
    if x._type == F32:
        return x._region.value(F32, f"math.absf {x._name} : f32", natural=True)
    if not x._natural:
        x = maximum(x, 0 - x)
        x._natural = True
    return x


def to_float(x: Any) -> Any:
    """A real number of 32 bits."""
    x = check(x)
    if not isinstance(x, Value):
        return float(x)
    return x if x._type == F32 else x._region.kind(x._region, as_f32(x._region, x), F32)


def to_int(x: Any) -> Any:
    """An integer: a real number without its fraction (towards 0), 1 for a condition that holds."""
    x = check(x)
    if not isinstance(x, Value):
        return int(x)
    region = x._region
    if x._type == F32:
        wide = region.emit(f"arith.fptosi {x._name} : f32 to i64")
        number = region.value(INDEX, f"arith.index_cast {wide} : i64 to index")
        return maximum(number, 0) if x._natural else number  # NaN may become any integer.
    return x if x._type == INDEX else region.kind(region, as_index(region, x), INDEX, True)


def to_kind(x: Any, kind: str, region: Any = None) -> Any:
    """Converts to a real number (F32), an integer (INDEX) or a condition (I1). A number becomes a value of `region`, if
    there is one."""
    x = check(x)
    if not isinstance(x, Value):
        x = float(x) if kind == F32 else int(x) if kind == INDEX else bool(x)
        make = {F32: as_f32, INDEX: as_index, I1: as_i1}[kind]
        return x if region is None else region.kind(region, make(region, x), kind, kind == INDEX and x >= 0)
    return to_float(x) if kind == F32 else to_int(x) if kind == INDEX else x if x._type == I1 else x != 0


def _named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _of_number(name: str, on_number: Callable[[float], float], x: float) -> float:
    try:
        return on_number(x)
    except (ArithmeticError, ValueError) as problem:
        raise error(f"expected a number of which Python has {name}, got {x!r}: {problem}") from None


def _function(name: str, on_number: Callable[[float], Any], doc: str, kind: str = F32) -> Callable[[Any], Any]:
    """Makes a function of a real number with results of type `kind`."""
    def function(x: Any) -> Any:
        x = check(x)
        if not isinstance(x, Value):
            return _of_number(name, on_number, x)
        return x._region.value(kind, f"math.{name} {as_f32(x._region, x)} : f32")
    return _named(function, name, doc)


def _of_pair(name: str, on_numbers: Callable[[float, float], float], doc: str) -> Callable[[Any, Any], Any]:
    def function(x: Any, y: Any) -> Any:
        x, y = check(x), check(y)
        if not isinstance(x, Value) and not isinstance(y, Value):
            return on_numbers(x, y)
        region = region_of(x, y)
        return region.value(F32, f"math.{name} {as_f32(region, x)}, {as_f32(region, y)} : f32")
    return _named(function, name, doc)


exp = _function("exp", math.exp, "e to the power of x.")
exp2 = _function("exp2", lambda x: 2.0 ** x, "2 to the power of x.")
expm1 = _function("expm1", math.expm1, "exp(x) - 1, also where x is near 0.")
log = _function("log", math.log, "The natural logarithm.")
log2 = _function("log2", math.log2, "The logarithm to base 2.")
log10 = _function("log10", math.log10, "The logarithm to base 10.")
log1p = _function("log1p", math.log1p, "log(1 + x), also where x is near 0.")
sqrt = _function("sqrt", math.sqrt, "The square root.")
rsqrt = _function("rsqrt", lambda x: 1 / math.sqrt(x), "1 over the square root.")
cbrt = _function("cbrt", lambda x: math.copysign(abs(x) ** (1 / 3), x), "The cube root.")
sin = _function("sin", math.sin, "The sine of x radians.")
cos = _function("cos", math.cos, "The cosine of x radians.")
tan = _function("tan", math.tan, "The tangent of x radians.")
asin = _function("asin", math.asin, "The angle in radians whose sine is x.")
acos = _function("acos", math.acos, "The angle in radians whose cosine is x.")
atan = _function("atan", math.atan, "The angle in radians whose tangent is x.")
atan2 = _of_pair("atan2", math.atan2, "The angle in radians of the point (y, x), as atan2(y, x).")
sinh = _function("sinh", math.sinh, "The hyperbolic sine.")
cosh = _function("cosh", math.cosh, "The hyperbolic cosine.")
tanh = _function("tanh", math.tanh, "The hyperbolic tangent.")
asinh = _function("asinh", math.asinh, "The inverse of the hyperbolic sine.")
acosh = _function("acosh", math.acosh, "The inverse of the hyperbolic cosine.")
atanh = _function("atanh", math.atanh, "The inverse of the hyperbolic tangent.")
erf = _function("erf", math.erf, "The error function.")
erfc = _function("erfc", math.erfc, "1 - erf(x), also where the result is near 0.")
copysign = _of_pair("copysign", math.copysign, "The magnitude of x with the sign of y.")
isnan = _function("isnan", math.isnan, "Whether x is no number.", I1)
isinf = _function("isinf", math.isinf, "Whether x is an infinity.", I1)
isfinite = _function("isfinite", math.isfinite, "Whether x is neither an infinity nor NaN.", I1)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + exp(-check(x)))


def relu(x: Any) -> Any:
    """x, but at least 0."""
    return maximum(x, 0)


def silu(x: Any) -> Any:
    """x sigmoid(x)."""
    return x * sigmoid(x)


def gelu(x: Any, approximate: str = "none") -> Any:
    """x times the probability that a normal variable is below x; approximate="tanh": by the usual approximation."""
    if approximate == "tanh":
        return 0.5 * x * (1.0 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1.0 + erf(x * math.sqrt(0.5)))  # PyTorch's formula


def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    return maximum(to_float(x), 0.0) + log1p(exp(-absolute(to_float(x))))


def log_sigmoid(x: Any) -> Any:
    """The logarithm of sigmoid(x)."""
    return -softplus(-check(x))


def logaddexp(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)) of finite numbers."""
    return maximum(to_float(x), to_float(y)) + log1p(exp(-absolute(to_float(x) - to_float(y))))


def sign(x: Any) -> Any:
    """-1, 0 or 1."""
    x = check(x)
    return where(x > 0, 1, where(x < 0, -1, x * 0.0 if is_real(x) else 0))  # NaN for NaN


def _rounding(name: str, on_number: Callable[[float], float], doc: str) -> Callable[[Any], Any]:
    of_real = _function(name, on_number, doc)

    def function(x: Any) -> Any:
        x = check(x)
        return of_real(x) if is_real(x) else x
    return _named(function, name, doc)


floor = _rounding("floor", math.floor, "The largest whole number that is not above x.")
ceil = _rounding("ceil", math.ceil, "The smallest whole number that is not below x.")
trunc = _rounding("trunc", math.trunc, "The whole part of x.")
round = _rounding("roundeven", round, "The whole number nearest to x; the even one of two.")


def power(x: Any, y: Any) -> Any:
    """x to the power of y. Whole exponents up to 64 are multiplications; other exponents need x >= 0."""
    x, y = check(x), check(y)
    if not isinstance(y, Value) and float(y).is_integer() and 0 <= abs(y) <= 64:
        exponent, result, factor = abs(int(y)), None, x
        while exponent:
            if exponent & 1:
                result = factor if result is None else result * factor
            exponent >>= 1
            if exponent:
                factor = factor * factor
        if result is None:
            return 1.0 if is_real(x) or is_real(y) else 1
        if y < 0:
            return 1.0 / result
        return to_float(result) if isinstance(y, float) else result
    region = region_of(x, y)
    logarithm = log2(x)
    return region.value(F32, f"math.exp2 {as_f32(region, y * logarithm)} : f32")


def logical_and(x: Any, y: Any) -> Any:
    """Both conditions."""
    return _condition(x) & _condition(y)


def logical_or(x: Any, y: Any) -> Any:
    """One of the conditions, or both."""
    return _condition(x) | _condition(y)


def logical_xor(x: Any, y: Any) -> Any:
    """One of the conditions, not both."""
    return _condition(x) ^ _condition(y)


def logical_not(x: Any) -> Any:
    """The opposite condition."""
    x = _condition(x)
    return ~x if isinstance(x, Value) else not x


def _condition(x: Any) -> Any:
    x = check(x)
    return x if is_condition(x) else x != 0
