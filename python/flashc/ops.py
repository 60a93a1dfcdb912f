"""Functions of positions and scores for masks and score functions, besides Python's operators.

They also work on plain numbers. `numpy.exp(s)`, `torch.where(j <= i, s, 0)` and the like are traced too.
"""
from __future__ import annotations

from ._trace import functions
from ._trace.functions import *  # noqa: F401, F403
from ._trace.functions import absolute as abs
from ._trace.trace import array, count_le, key_length, query_length

__all__ = ["abs", "array", "count_le", "key_length", "query_length"]
__all__ += functions.__all__
__all__.sort()
