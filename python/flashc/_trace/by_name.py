"""Functions of NumPy and PyTorch on traced values, by what these call them: `numpy.exp(s)`, `torch.where(c, s, 0)`."""
from __future__ import annotations

from typing import Any, Callable, Dict, Sequence

from .functions import absolute, acos, acosh, asin, asinh, atan, atan2, atanh, cbrt, ceil, clip, copysign, cos, cosh, \
    erf, erfc, exp, exp2, expm1, floor, gelu, isfinite, isinf, isnan, log, log1p, log2, log10, log_sigmoid, \
    logaddexp, logical_and, logical_not, logical_or, logical_xor, maximum, minimum, power, relu, round, rsqrt, \
    sigmoid, sign, silu, sin, sinh, softplus, sqrt, tan, tanh, trunc, where
from .of_tensors import NEEDS_DIMENSIONS, div, dot, fmod, isin, refuse_dimensions
from .operators import plain
from .region import Indexable, Value, error

#: Functions of arrays with one dimension left.
OF_ROWS = ("dot", "inner", "isin", "vdot")

#: Methods of tensors that are functions of the same name.
METHODS = ("absolute", "add", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
           "bitwise_xor", "clamp_max", "clamp_min", "div", "divide", "eq", "floor_divide", "fmod", "ge", "gt", "le",
           "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "masked_fill", "maximum", "minimum", "mul",
           "multiply", "ne", "neg", "negative", "pow", "reciprocal", "remainder", "square", "sub", "subtract",
           "true_divide")

_BY_NAME: Dict[str, Callable[..., Any]] = {
    "where": where, "minimum": minimum, "maximum": maximum, "fmin": minimum, "fmax": maximum, "min": minimum,
    "max": maximum, "clip": clip, "clamp": clip, "abs": absolute, "absolute": absolute, "fabs": absolute, "exp": exp,
    "exp2": exp2, "expm1": expm1, "log": log, "log2": log2, "log10": log10, "log1p": log1p, "sqrt": sqrt,
    "rsqrt": rsqrt, "cbrt": cbrt, "sin": sin, "cos": cos, "tan": tan, "asin": asin, "arcsin": asin, "acos": acos,
    "arccos": acos, "atan": atan, "arctan": atan, "atan2": atan2, "arctan2": atan2, "sinh": sinh, "cosh": cosh,
    "tanh": tanh, "asinh": asinh, "arcsinh": asinh, "acosh": acosh, "arccosh": acosh, "atanh": atanh,
    "arctanh": atanh, "erf": erf, "erfc": erfc, "copysign": copysign, "isnan": isnan, "isinf": isinf,
    "isfinite": isfinite, "sigmoid": sigmoid, "expit": sigmoid, "relu": relu, "silu": silu, "gelu": gelu,
    "softplus": softplus, "log_sigmoid": log_sigmoid, "logsigmoid": log_sigmoid, "logaddexp": logaddexp,
    "sign": sign, "floor": floor, "ceil": ceil, "trunc": trunc, "fix": trunc, "round": round, "rint": round,
    "reciprocal": lambda x: 1.0 / x, "pow": power, "power": power, "float_power": power,
    "logical_and": logical_and, "logical_or": logical_or, "logical_xor": logical_xor, "logical_not": logical_not,
    "add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "sub": lambda x, y: x - y,
    "multiply": lambda x, y: x * y, "mul": lambda x, y: x * y, "divide": lambda x, y: x / y,
    "true_divide": lambda x, y: x / y, "div": div, "floor_divide": lambda x, y: x // y,
    "remainder": lambda x, y: x % y, "mod": lambda x, y: x % y, "negative": lambda x: -x, "neg": lambda x: -x,
    "less": lambda x, y: x < y, "less_equal": lambda x, y: x <= y, "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y, "equal": lambda x, y: x == y, "not_equal": lambda x, y: x != y,
    "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y,
    "bitwise_and": lambda x, y: x & y, "bitwise_or": lambda x, y: x | y, "bitwise_xor": lambda x, y: x ^ y,
    "bitwise_not": lambda x: ~x, "invert": lambda x: ~x, "square": lambda x: x * x,
    "left_shift": lambda x, y: x << y, "bitwise_left_shift": lambda x, y: x << y,
    "right_shift": lambda x, y: x >> y, "bitwise_right_shift": lambda x, y: x >> y, "fmod": fmod, "dot": dot,
    "inner": dot, "vdot": dot, "isin": isin, "masked_fill": lambda x, mask, value: where(mask, value, x),
    "clamp_min": lambda x, min: clip(x, min), "clamp_max": lambda x, max: clip(x, None, max),
    "full_like": lambda x, fill_value, dtype=None, **rest: x.new_full((), fill_value, dtype),
    "ones_like": lambda x, dtype=None, **rest: x.new_ones((), dtype),
    "zeros_like": lambda x, dtype=None, **rest: x.new_zeros((), dtype),
    "rsub": lambda x, y: y - x, "__rsub__": lambda x, y: y - x, "__rpow__": lambda x, y: power(y, x),
    "__rdiv__": lambda x, y: y / x, "__rtruediv__": lambda x, y: y / x, "__rfloordiv__": lambda x, y: y // x,
    "__rmod__": lambda x, y: y % x, "__and__": lambda x, y: x & y, "__or__": lambda x, y: x | y,
    "__xor__": lambda x, y: x ^ y,
}


def by_name(package: str, name: str, inputs: Sequence[Any], keywords: Dict[str, Any]) -> Any:
    # torch.special.erf calls itself special_erf.
    function = _BY_NAME.get(name[8:] if name.startswith("special_") else name)
    if name in NEEDS_DIMENSIONS:
        raise refuse_dimensions(name)
    if function is None:
        raise error(f"flashc cannot trace {package}.{name}; flashc.ops lists what it can")
    # An operand that the other framework made first: its number, where it is known.
    operands = [plain(x) if isinstance(x, (Value, int, float)) else _number_of(x) for x in inputs]
    if keywords.get("inplace") is False:  # PyTorch passes it on though it is its default.
        keywords = {key: value for key, value in keywords.items() if key != "inplace"}
    try:
        return function(*operands, **keywords)
    except TypeError as problem:
        raise error(f"flashc cannot trace {package}.{name} with these arguments: {problem}") from None


def _number_of(x: Any) -> Any:
    if isinstance(x, Indexable):
        return x
    x = plain(x)
    if hasattr(x, "__array__") and not isinstance(x, Value):
        raise error(f"expected an element of an array, got an array of shape {tuple(x.shape)}")
    return x
