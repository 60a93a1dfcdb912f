"""Functions of NumPy and PyTorch on traced values, by their names: `numpy.exp(s)`, `torch.where(c, s, 0)`."""
from __future__ import annotations

import operator
from typing import Any, Callable, Dict, Sequence

from . import functions
from .functions import absolute, clip, power, where
from .of_tensors import NEEDS_DIMENSIONS, div, dot, fmod, isin, refuse_dimensions
from .operators import plain
from .region import Indexable, Value, error

#: Functions of rows. A row is an array with one dimension that is not indexed yet.
OF_ROWS = ("dot", "inner", "isin", "vdot")

#: Methods of tensors that are also functions of the framework, with the same name.
METHODS = ("absolute", "add", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
           "bitwise_xor", "clamp_max", "clamp_min", "div", "divide", "eq", "floor_divide", "fmod", "ge", "gt", "le",
           "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "masked_fill", "maximum", "minimum", "mul",
           "multiply", "ne", "neg", "negative", "pow", "reciprocal", "remainder", "square", "sub", "subtract",
           "true_divide")

#: Other names that frameworks give to functions of flashc.ops.
_ALSO = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2",
    "atanh": "arctanh", "clip": "clamp", "log_sigmoid": "logsigmoid", "maximum": "fmax max", "minimum": "fmin min",
    "power": "pow float_power", "round": "rint", "sigmoid": "expit", "trunc": "fix"
}

#: The names that frameworks give to Python's operators, by the operators' names in the module `operator`.
_OPERATORS = {
    "add": "add", "sub": "sub subtract", "mul": "mul multiply", "truediv": "divide true_divide",
    "floordiv": "floor_divide", "mod": "mod remainder", "neg": "neg negative", "lt": "lt less", "le": "le less_equal",
    "gt": "gt greater", "ge": "ge greater_equal", "eq": "eq equal", "ne": "ne not_equal", "and_": "bitwise_and __and__",
    "or_": "bitwise_or __or__", "xor": "bitwise_xor __xor__", "invert": "bitwise_not invert",
    "lshift": "left_shift bitwise_left_shift", "rshift": "right_shift bitwise_right_shift"
}

_BY_NAME: Dict[str, Callable[..., Any]] = {
    **{name: getattr(functions, name) for name in functions.__all__},
    **{name: getattr(functions, of) for of, names in _ALSO.items() for name in names.split()},
    **{name: getattr(operator, of) for of, names in _OPERATORS.items() for name in names.split()},
    "abs": absolute, "absolute": absolute, "fabs": absolute, "reciprocal": lambda x: 1.0 / x, "square": lambda x: x * x,
    "div": div, "fmod": fmod, "dot": dot, "inner": dot, "vdot": dot, "isin": isin,
    "masked_fill": lambda x, mask, value: where(mask, value, x),
    "clamp_min": lambda x, min: clip(x, min), "clamp_max": lambda x, max: clip(x, None, max),
    "full_like": lambda x, fill_value, dtype=None, **rest: x.new_full((), fill_value, dtype),
    "ones_like": lambda x, dtype=None, **rest: x.new_ones((), dtype),
    "zeros_like": lambda x, dtype=None, **rest: x.new_zeros((), dtype),
    "rsub": lambda x, y: y - x, "__rsub__": lambda x, y: y - x, "__rpow__": lambda x, y: power(y, x),
    "__rdiv__": lambda x, y: y / x, "__rtruediv__": lambda x, y: y / x, "__rfloordiv__": lambda x, y: y // x,
    "__rmod__": lambda x, y: y % x,
}


#: The names of functions that can be traced.
TRACED_NAMES = frozenset(_BY_NAME)


def by_name(package: str, name: str, inputs: Sequence[Any], keywords: Dict[str, Any]) -> Any:
    # The __name__ of torch.special.erf is special_erf.
    function = _BY_NAME.get(name[8:] if name.startswith("special_") else name)
    if name in NEEDS_DIMENSIONS:
        raise refuse_dimensions(name)
    if function is None:
        raise error(f"flashc cannot trace {package}.{name}; flashc.ops lists what it can")
    # If a framework has wrapped a number in an object of its own, the operand is the number.
    operands = [plain(x) if isinstance(x, (Value, int, float)) else _number_of(x) for x in inputs]
    if keywords.get("inplace") is False:  # PyTorch passes on this default.
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
