"""What a mask or a score can compute on positions and scores, besides Python's operators.

They also work on plain numbers. `numpy.exp(s)`, `torch.where(j <= i, s, 0)` and their like are understood too.
"""
from __future__ import annotations

from ._trace import functions
from ._trace.functions import *  # noqa: F401, F403
from ._trace.functions import absolute as abs
from ._trace.trace import array, count_le, key_length, query_length

__all__ = ["abs", "array", "count_le", "key_length", "query_length"]
__all__ += functions.__all__
__all__.sort()
