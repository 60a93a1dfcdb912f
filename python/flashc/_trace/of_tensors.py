"""Functions of PyTorch and NumPy on traced values: dot products and searches of rows, division with a rounding mode,
and the refusal of functions that need dimensions, which a traced value does not have."""
from __future__ import annotations

import builtins
from typing import Any, List, Optional

from .functions import absolute, trunc, where
from .operators import check, is_real
from .region import Indexable, Value, error

# The most elements of a row in dot or isin. Each element costs a read and some operations for every pair of a query and
# a key.
_MOST_ELEMENTS = 64

#: Functions and methods of tensors that add dimensions, remove them or run over them.
NEEDS_DIMENSIONS = ("all", "amax", "amin", "any", "expand", "expand_as", "flatten", "mean", "permute", "prod", "repeat",
                    "reshape", "squeeze", "sum", "transpose", "unsqueeze", "view")


def refuse_dimensions(name: str) -> Any:
    return error(f"a traced value is of one query and one key and has no dimensions: leave out {name}; what it is in a "
                 "row is torch.isin(x, row), and what else runs over a row is a loop, such as "
                 "hit = hit | (row[n] == x) for n in range(len(row))")


def _elements(row: Any, instead: str) -> List[Any]:
    """Returns the elements of a row: of a list, a tuple, or an array with one dimension that is not indexed yet."""
    if isinstance(row, Indexable):
        if row.ndim != 1:
            raise error(f"expected a row, got an array with {row.ndim} dimensions to index")
    elif not isinstance(row, (list, tuple)):
        raise error(f"expected a row, got {type(row).__module__}.{type(row).__qualname__}")
    return elements_of(row, instead)


def elements_of(row: Any, instead: str) -> List[Any]:
    """Returns the entries of a list or an array along its first dimension; refuses more than _MOST_ELEMENTS."""
    count = len(row)
    if count > _MOST_ELEMENTS:
        raise error(f"expected a row of at most {_MOST_ELEMENTS} elements, got {count}: {instead}")
    return [row[place] for place in range(count)]  # type: ignore[index]


def dot(x: Any, y: Any) -> Any:
    """The sum of the products of two rows' elements, in f32."""
    instead = ("concatenate the rows to those of q and k before the call, since their product is a part of the score, "
               "as torch.cat([q, x * factor], -1)")
    pairs = list(zip(_elements(x, instead), _elements(y, instead)))
    if len(x) != len(y):
        raise error(f"expected rows of one length, got {len(x)} and {len(y)}")
    return builtins.sum(a * b for a, b in pairs)


def isin(x: Any, row: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    """Whether x is an element of a row."""
    x, found = check(x), False
    for element in _elements(row, "make an array of conditions before the call, as torch.isin(torch.arange(n), row), "
                                  "and index it"):
        found = (x == element) | found
    return ~found if invert and isinstance(found, Value) else found != invert


def div(x: Any, y: Any, *, rounding_mode: Optional[str] = None) -> Any:
    """x / y, rounded as `rounding_mode` says: None (not rounded), "floor" or "trunc"."""
    if rounding_mode is None:
        return x / y
    if rounding_mode == "floor":
        return x // y
    if rounding_mode != "trunc":
        raise error(f"expected rounding_mode to be None, 'floor' or 'trunc', got {rounding_mode!r}")
    x, y = check(x), check(y)
    if is_real(x) or is_real(y):
        return trunc(x / y)
    quotient = absolute(x) // absolute(y)
    return where((x < 0) == (y < 0), quotient, 0 - quotient)


def fmod(x: Any, y: Any) -> Any:
    """The remainder of a division that rounds towards 0; it has the sign of x."""
    x = check(x)
    rest = absolute(x) % absolute(y)
    return where(x < 0, -rest, rest)
