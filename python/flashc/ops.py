"""What a mask or a score can compute on positions and scores, besides Python's operators.

They also work on plain numbers. `numpy.exp(s)`, `torch.where(j <= i, s, 0)` and their like are understood too.
"""
from __future__ import annotations

from ._trace.functions import absolute as abs
from ._trace.functions import acos, acosh, asin, asinh, atan, atan2, atanh, cbrt, ceil, clip, copysign, cos, cosh, \
    erf, erfc, exp, exp2, expm1, floor, gelu, isfinite, isinf, isnan, log, log1p, log2, log10, log_sigmoid, \
    logaddexp, logical_and, logical_not, logical_or, logical_xor, maximum, minimum, power, relu, round, rsqrt, \
    sigmoid, sign, silu, sin, sinh, softplus, sqrt, tan, tanh, to_float, to_int, trunc, where
from ._trace.trace import array, count_le, key_length, query_length

__all__ = ["abs", "acos", "acosh", "array", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "clip",
           "copysign", "cos", "cosh", "count_le", "erf", "erfc", "exp", "exp2", "expm1", "floor", "gelu", "isfinite",
           "isinf", "isnan", "key_length", "log", "log10", "log1p", "log2", "log_sigmoid", "logaddexp", "logical_and",
           "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "power", "query_length", "relu", "round",
           "rsqrt", "sigmoid", "sign", "silu", "sin", "sinh", "softplus", "sqrt", "tan", "tanh", "to_float", "to_int",
           "trunc", "where"]
