"""What a mask or a score can compute on positions and scores, besides Python's operators.

They also work on plain numbers. `numpy.exp(s)`, `torch.where(j <= i, s, 0)` and their like are understood too.
"""
from __future__ import annotations

from ._trace import array, count_le, key_length, query_length
from ._traced import absolute as abs
from ._traced import ceil, clip, cos, exp, exp2, floor, log, log2, logical_and, logical_not, logical_or, \
    logical_xor, maximum, minimum, power, rsqrt, sigmoid, sin, sqrt, tanh, to_float, to_int, where

__all__ = ["abs", "array", "ceil", "clip", "cos", "count_le", "exp", "exp2", "floor", "key_length", "log", "log2",
           "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "power", "query_length",
           "rsqrt", "sigmoid", "sin", "sqrt", "tanh", "to_float", "to_int", "where"]
