"""Masks and scores written in Python become code of MLIR.

`mask(b, h, i, j)` and `score(s, b, h, i, j)` are called once with values that note what is done to them: batch, query
head, query and key position as `index`, the scaled score as `f32`. What comes back is the text of a region of
`flash.attention`. Python numbers become constants, arrays that the functions refer to become captures.

The functions are traced at every call: what they refer to may have changed, and no key over closures, globals and
attributes is ever complete. The text that comes out is the key of the kernel. A mask of a few operations costs 10 to 20
microseconds; `flashc.compile` pays once.
"""
from __future__ import annotations

import functools
import linecache
import math
import os
import struct
import sys
import threading
import types
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from ._array import CPU, ArraySpec, Array, source_of
from ._library import ArgumentError, Error, UnsupportedTypeError

__all__ = ["TraceError", "Traced", "CapturedArray", "Code", "trace", "Trace"]


class TraceError(Error):
    """A mask or a score does what flashc cannot trace. The text names the line."""


# --- Where an error is ------------------------------------------------------------------------------------------------

_HERE = os.path.abspath(__file__)
_FOREIGN = tuple(os.sep + name + os.sep for name in ("numpy", "torch"))


def _error(what: str) -> TraceError:
    """The error with the line of the user's function that asked for it."""
    frame: Optional[types.FrameType] = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if os.path.abspath(path) != _HERE and not path.startswith("<") and \
                not any(part in path for part in _FOREIGN):
            line = linecache.getline(path, frame.f_lineno).strip()
            place = f"{path}:{frame.f_lineno}: in {frame.f_code.co_name}: "
            return TraceError(place + what + (f"\n    {line}" if line else ""))
        frame = frame.f_back
    return TraceError(what)


# --- Values -----------------------------------------------------------------------------------------------------------

Number = Union[int, float]
INDEX, F32, I1 = "index", "f32", "i1"
_INT_COMPARISONS = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
_FLOAT_COMPARISONS = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_BRANCH_HELP = ("a traced value has no truth value: the function is called once, for all positions. Write "
                "flashc.ops.where(condition, a, b) instead of `if`, `&`, `|` and `~` instead of `and`, `or` and `not`, "
                "flashc.ops.minimum and maximum instead of min and max, and (a <= x) & (x < b) instead of a <= x < b")


class Region:
    """The operations of one region, each once, in order."""
    __slots__ = ("lines", "known")

    def __init__(self) -> None:
        self.lines: List[str] = []
        self.known: Dict[str, str] = {}

    def emit(self, operation: str) -> str:
        """The name of the operation's result."""
        name = self.known.get(operation)
        if name is None:
            name = self.known[operation] = f"%t{len(self.lines)}"
            self.lines.append(f"{name} = {operation}")
        return name

    def index(self, value: int) -> str:
        # What an index has in a kernel.
        if not -2**31 <= value < 2**31:
            raise _error(f"expected an integer of 32 bits, got {value}")
        return self.emit(f"arith.constant {value} : index")

    def f32(self, value: Number) -> str:
        try:
            bits = struct.unpack("<I", struct.pack("<f", value))[0]
        except OverflowError:
            bits = 0x7F800000 if value > 0 else 0xFF800000
        rounded = struct.unpack("<f", struct.pack("<I", bits))[0]
        return self.emit(f"arith.constant {rounded:.9e} : f32" if math.isfinite(rounded) else
                         f"arith.constant 0x{bits:08X} : f32")

    def i1(self, value: bool) -> str:
        return self.emit(f"arith.constant {'true' if value else 'false'}")


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float))


class Traced:
    """A value of a mask or a score: an integer (`index`), a real number (`f32`) or a condition (`i1`).

    Operators mean what they mean for Python's numbers: `//` and `%` round towards minus infinity, `/` gives a real
    number, comparisons give conditions. Real numbers are of 32 bits. `x // 0` is `x`, and `x % 0` is 0.
    """
    __slots__ = ("_region", "_name", "_type", "_natural", "_limit")
    __hash__ = None  # type: ignore[assignment]
    # Sequence protocols that Python would try by itself.
    __iter__ = None  # type: ignore[assignment]

    def __init__(self, region: Region, name: str, type: str, natural: bool = False,
                 limit: Optional[Tuple[int, int]] = None) -> None:
        self._region, self._name, self._type = region, name, type
        #: An integer that is known to be at least 0.
        self._natural = natural
        #: (p, d): the integer is (position p of b, h, i, j) // d.
        self._limit = limit

    def __repr__(self) -> str:
        return f"<traced {self._type} {self._name}>"

    # Conversions to what cannot be known while tracing.
    def __bool__(self) -> bool:
        raise _error(_BRANCH_HELP)

    def __float__(self) -> float:
        raise _error("a traced value has no number yet: use flashc.ops (exp, tanh, ...) instead of `math` and float()")

    def __int__(self) -> int:
        raise _error("a traced value has no number yet: use flashc.ops instead of `math`, int() and range()")

    def __index__(self) -> int:
        raise _error("a traced value cannot index this object; arrays that the function refers to by name can be "
                     "indexed as they are, others through flashc.ops.array(x)[...]")

    def __len__(self) -> int:
        raise _error("a traced value has no length")

    def item(self) -> Any:
        """Refused: there is no number yet."""
        raise _error("a traced value has no number yet")

    # Arithmetic.
    def __add__(self, other: Any) -> Any:
        return _arithmetic(self, other, "arith.addi", "arith.addf")

    def __radd__(self, other: Any) -> Any:
        return _arithmetic(other, self, "arith.addi", "arith.addf")

    def __sub__(self, other: Any) -> Any:
        return _arithmetic(self, other, "arith.subi", "arith.subf")

    def __rsub__(self, other: Any) -> Any:
        return _arithmetic(other, self, "arith.subi", "arith.subf")

    def __mul__(self, other: Any) -> Any:
        return _arithmetic(self, other, "arith.muli", "arith.mulf")

    def __rmul__(self, other: Any) -> Any:
        return _arithmetic(other, self, "arith.muli", "arith.mulf")

    def __truediv__(self, other: Any) -> Any:
        return _true_divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _true_divide(other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _floor_divide(other, self)

    def __mod__(self, other: Any) -> Any:
        return _modulo(self, other)

    def __rmod__(self, other: Any) -> Any:
        return _modulo(other, self)

    def __divmod__(self, other: Any) -> Any:
        return _floor_divide(self, other), _modulo(self, other)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        return NotImplemented if modulus is not None else power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return power(other, self)

    def __neg__(self) -> Any:
        if self._type == F32:
            return _float(self._region, f"arith.negf {self._name} : f32")
        return 0 - self

    def __pos__(self) -> "Traced":
        return self

    def __abs__(self) -> "Traced":
        return absolute(self)

    # Comparisons.
    def __lt__(self, other: Any) -> Any:
        return _compare("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return _compare("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return _compare("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return _compare("ge", self, other)

    def __eq__(self, other: Any) -> Any:
        return _compare("eq", self, other)

    def __ne__(self, other: Any) -> Any:
        return _compare("ne", self, other)

    # Logic, and bits of integers.
    def __and__(self, other: Any) -> Any:
        return _bitwise("arith.andi", self, other)

    def __or__(self, other: Any) -> Any:
        return _bitwise("arith.ori", self, other)

    def __xor__(self, other: Any) -> Any:
        return _bitwise("arith.xori", self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Any:
        if self._type == F32:
            raise _error("expected a condition or an integer for `~`, got a real number")
        return _bitwise("arith.xori", self, True if self._type == I1 else -1)

    def __lshift__(self, other: Any) -> Any:
        return _shift("arith.shli", self, other)

    def __rshift__(self, other: Any) -> Any:
        return _shift("arith.shrsi", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return _shift("arith.shli", other, self)

    def __rrshift__(self, other: Any) -> Any:
        return _shift("arith.shrsi", other, self)

    # What people write on tensors.
    def float(self) -> Any:
        return to_float(self)

    def int(self) -> Any:
        return to_int(self)

    long = int

    def bool(self) -> Any:
        return self if self._type == I1 else self != 0

    def abs(self) -> Any:
        return absolute(self)

    def clamp(self, min: Any = None, max: Any = None) -> Any:
        return clip(self, min, max)

    clip = clamp

    def exp(self) -> Any:
        return exp(self)

    def exp2(self) -> Any:
        return exp2(self)

    def log(self) -> Any:
        return log(self)

    def log2(self) -> Any:
        return log2(self)

    def sqrt(self) -> Any:
        return sqrt(self)

    def rsqrt(self) -> Any:
        return rsqrt(self)

    def tanh(self) -> Any:
        return tanh(self)

    def sin(self) -> Any:
        return sin(self)

    def cos(self) -> Any:
        return cos(self)

    def sigmoid(self) -> Any:
        return sigmoid(self)

    def floor(self) -> Any:
        return floor(self)

    def ceil(self) -> Any:
        return ceil(self)

    # numpy.exp(x), numpy.where(...), torch.where(...), torch.tanh(x), ...
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        if method != "__call__":
            raise _error(f"expected a call of numpy.{ufunc.__name__}, got its method {method}")
        return _by_name("numpy", ufunc.__name__, inputs, keywords)

    def __array_function__(self, function: Any, kinds: Any, inputs: Any, keywords: Any) -> Any:
        return _by_name("numpy", function.__name__, inputs, keywords)

    @classmethod
    def __torch_function__(cls, function: Any, kinds: Any, inputs: Any = (), keywords: Any = None) -> Any:
        return _by_name("torch", getattr(function, "__name__", str(function)), inputs, keywords or {})


def _index(region: Region, operation: str, natural: bool = False) -> Traced:
    return Traced(region, region.emit(operation), INDEX, natural)


def _float(region: Region, operation: str) -> Traced:
    return Traced(region, region.emit(operation), F32)


def _region_of(*values: Any) -> Region:
    for value in values:
        if isinstance(value, Traced):
            return value._region
    raise _error("expected a traced value")


def _plain(x: Any) -> Any:
    """Numbers of NumPy as Python's; others unchanged."""
    if isinstance(x, (Traced, int, float)):
        return x
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, numpy.generic):
        return x.item()
    return x


def _check(x: Any) -> Any:
    """`x` as an operand: traced, or a number."""
    x = _plain(x)
    if isinstance(x, (Traced, int, float)):
        return x
    if isinstance(x, CapturedArray):
        raise _error(f"expected an element of an array, got the array: it has {x._rank_left()} dimensions to index")
    raise _error(f"expected a number or a traced value, got {type(x).__module__}.{type(x).__qualname__}")


def _is_real(x: Any) -> bool:
    return x._type == F32 if isinstance(x, Traced) else isinstance(x, float)


def _is_condition(x: Any) -> bool:
    return x._type == I1 if isinstance(x, Traced) else isinstance(x, bool)


def _is_natural(x: Any) -> bool:
    return x._natural if isinstance(x, Traced) else x >= 0


def _as_f32(region: Region, x: Any) -> str:
    if not isinstance(x, Traced):
        return region.f32(x)
    if x._type == F32:
        return x._name
    if x._type == I1:
        return region.emit(f"arith.uitofp {x._name} : i1 to f32")
    wide = region.emit(f"arith.index_cast {x._name} : index to i64")
    return region.emit(f"arith.sitofp {wide} : i64 to f32")


def _as_index(region: Region, x: Any) -> str:
    if not isinstance(x, Traced):
        return region.index(x)
    if x._type == INDEX:
        return x._name
    wide = region.emit(f"arith.extui {x._name} : i1 to i64")
    return region.emit(f"arith.index_cast {wide} : i64 to index")


def _as_i1(region: Region, x: Any) -> str:
    return x._name if isinstance(x, Traced) else region.i1(x)


def _arithmetic(x: Any, y: Any, on_integers: str, on_reals: str) -> Any:
    x, y = _check(x), _check(y)
    region = _region_of(x, y)
    if _is_real(x) or _is_real(y):
        return _float(region, f"{on_reals} {_as_f32(region, x)}, {_as_f32(region, y)} : f32")
    natural = on_integers != "arith.subi" and _is_natural(x) and _is_natural(y)
    return _index(region, f"{on_integers} {_as_index(region, x)}, {_as_index(region, y)} : index", natural)


def _true_divide(x: Any, y: Any) -> Any:
    x, y = _check(x), _check(y)
    region = _region_of(x, y)
    return _float(region, f"arith.divf {_as_f32(region, x)}, {_as_f32(region, y)} : f32")


def _divisor(region: Region, y: Any) -> str:
    """An integer to divide by: never 0 at run time, which would end the process."""
    if not isinstance(y, Traced):
        if y == 0:
            raise _error("expected a divisor other than 0")
        return region.index(y)
    name, one, zero = _as_index(region, y), region.index(1), region.index(0)
    is_zero = region.emit(f"arith.cmpi eq, {name}, {zero} : index")
    return region.emit(f"arith.select {is_zero}, {one}, {name} : index")


def _floor_divide(x: Any, y: Any) -> Any:
    x, y = _check(x), _check(y)
    if _is_real(x) or _is_real(y):
        return floor(_true_divide(x, y))
    region = _region_of(x, y)
    natural = _is_natural(x) and _is_natural(y)
    result = _index(region, f"arith.floordivsi {_as_index(region, x)}, {_divisor(region, y)} : index", natural)
    if isinstance(x, Traced) and x._limit is not None and isinstance(y, int) and y > 0:
        result._limit = (x._limit[0], x._limit[1] * y)
    return result


def _modulo(x: Any, y: Any) -> Any:
    x, y = _check(x), _check(y)
    if _is_real(x) or _is_real(y):
        return x - floor(_true_divide(x, y)) * y
    region = _region_of(x, y)
    dividend, divisor = _as_index(region, x), _divisor(region, y)
    if _is_natural(x) and _is_natural(y):
        # The remainder of truncation is that of Python where neither is negative.
        return _index(region, f"arith.remsi {dividend}, {divisor} : index", natural=True)
    quotient = region.emit(f"arith.floordivsi {dividend}, {divisor} : index")
    product = region.emit(f"arith.muli {quotient}, {divisor} : index")
    return _index(region, f"arith.subi {dividend}, {product} : index", _is_natural(y))


def _compare(kind: str, x: Any, y: Any) -> Any:
    x, y = _check(x), _check(y)
    region = _region_of(x, y)
    if _is_real(x) or _is_real(y):
        operation = f"arith.cmpf {_FLOAT_COMPARISONS[kind]}, {_as_f32(region, x)}, {_as_f32(region, y)} : f32"
    elif _is_condition(x) and _is_condition(y) and kind in ("eq", "ne"):
        operation = f"arith.cmpi {kind}, {_as_i1(region, x)}, {_as_i1(region, y)} : i1"
    else:
        operation = f"arith.cmpi {_INT_COMPARISONS[kind]}, {_as_index(region, x)}, {_as_index(region, y)} : index"
    return Traced(region, region.emit(operation), I1)


def _bitwise(operation: str, x: Any, y: Any) -> Any:
    x, y = _check(x), _check(y)
    region = _region_of(x, y)
    if _is_condition(x) and _is_condition(y):
        return Traced(region, region.emit(f"{operation} {_as_i1(region, x)}, {_as_i1(region, y)} : i1"), I1)
    if _is_real(x) or _is_real(y) or _is_condition(x) or _is_condition(y):
        raise _error("expected two conditions or two integers for `&`, `|`, `^`: comparisons bind weaker than these, "
                     "so write (a < b) & (c < d)")
    natural = _is_natural(x) and _is_natural(y)
    return _index(region, f"{operation} {_as_index(region, x)}, {_as_index(region, y)} : index", natural)


def _shift(operation: str, x: Any, y: Any) -> Any:
    x, y = _check(x), _check(y)
    if _is_real(x) or _is_real(y):
        raise _error("expected integers for `<<` and `>>`, got a real number")
    if isinstance(y, int) and not 0 <= y < 63:
        raise _error(f"expected a shift by 0 to 62 bits, got {y}")
    region = _region_of(x, y)
    return _index(region, f"{operation} {_as_index(region, x)}, {_as_index(region, y)} : index", _is_natural(x))


# --- Functions: what flashc.ops shows ---------------------------------------------------------------------------------

def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where the condition holds, else `y`. Both are computed."""
    condition, x, y = _check(condition), _check(x), _check(y)
    if not isinstance(condition, Traced):
        return x if condition else y
    if condition._type != I1:
        condition = condition != 0
    region = condition._region
    if _is_condition(x) and _is_condition(y):
        convert, type = _as_i1, I1
    elif _is_real(x) or _is_real(y):
        convert, type = _as_f32, F32
    else:
        convert, type = _as_index, INDEX
    name = region.emit(f"arith.select {condition._name}, {convert(region, x)}, {convert(region, y)} : {type}")
    return Traced(region, name, type, type == INDEX and _is_natural(x) and _is_natural(y))


def minimum(x: Any, y: Any) -> Any:
    """The smaller one; NaN if one is NaN."""
    x, y = _check(x), _check(y)
    if not isinstance(x, Traced) and not isinstance(y, Traced):
        return min(x, y)
    return _extremum(x, y, "min", _is_natural(x) and _is_natural(y))


def maximum(x: Any, y: Any) -> Any:
    """The larger one; NaN if one is NaN."""
    x, y = _check(x), _check(y)
    if not isinstance(x, Traced) and not isinstance(y, Traced):
        return max(x, y)
    return _extremum(x, y, "max", _is_natural(x) or _is_natural(y))


def _extremum(x: Any, y: Any, kind: str, natural: bool) -> Traced:
    region = _region_of(x, y)
    if _is_real(x) or _is_real(y):
        return _float(region, f"arith.{kind}imumf {_as_f32(region, x)}, {_as_f32(region, y)} : f32")
    return _index(region, f"arith.{kind}si {_as_index(region, x)}, {_as_index(region, y)} : index", natural)


def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """`x`, but at least `min` and at most `max`; None: no bound."""
    if min is not None:
        x = maximum(x, min)
    return x if max is None else minimum(x, max)


def absolute(x: Any) -> Any:
    """The value without its sign."""
    x = _check(x)
    if not isinstance(x, Traced):
        return abs(x)
    if x._type == F32:
        return _float(x._region, f"math.absf {x._name} : f32")
    return x if x._natural else maximum(x, 0 - x)


def to_float(x: Any) -> Any:
    """A real number of 32 bits."""
    x = _check(x)
    if not isinstance(x, Traced):
        return float(x)
    return x if x._type == F32 else Traced(x._region, _as_f32(x._region, x), F32)


def to_int(x: Any) -> Any:
    """An integer: a real number without its fraction (towards 0), 1 for a condition that holds."""
    x = _check(x)
    if not isinstance(x, Traced):
        return int(x)
    region = x._region
    if x._type == F32:
        wide = region.emit(f"arith.fptosi {x._name} : f32 to i64")
        return _index(region, f"arith.index_cast {wide} : i64 to index")
    return x if x._type == INDEX else Traced(region, _as_index(region, x), INDEX, True)


def _function(name: str, on_number: Callable[[float], float], doc: str) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        x = _check(x)
        if not isinstance(x, Traced):
            return on_number(x)
        return _float(x._region, f"math.{name} {_as_f32(x._region, x)} : f32")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


exp = _function("exp", math.exp, "e to the power of x.")
exp2 = _function("exp2", lambda x: 2.0 ** x, "2 to the power of x.")
log = _function("log", math.log, "The natural logarithm.")
log2 = _function("log2", math.log2, "The logarithm to base 2.")
sqrt = _function("sqrt", math.sqrt, "The square root.")
rsqrt = _function("rsqrt", lambda x: 1 / math.sqrt(x), "1 over the square root.")
tanh = _function("tanh", math.tanh, "The hyperbolic tangent.")
sin = _function("sin", math.sin, "The sine of x radians.")
cos = _function("cos", math.cos, "The cosine of x radians.")


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + exp(-_check(x)))


def floor(x: Any) -> Any:
    """The largest whole number that is not above x."""
    x = _check(x)
    if not isinstance(x, Traced):
        return math.floor(x)
    if x._type != F32:
        return x
    # No GPU instruction is behind math.floor here. From 2^23 on every number of 32 bits is whole, and NaN stays.
    whole = Traced(x._region, _as_f32(x._region, to_int(x)), F32)
    return where(absolute(x) < 8388608.0, where(whole > x, whole - 1.0, whole), x)


def ceil(x: Any) -> Any:
    """The smallest whole number that is not below x."""
    x = _check(x)
    if not isinstance(x, Traced):
        return math.ceil(x)
    return x if x._type != F32 else -floor(-x)


def power(x: Any, y: Any) -> Any:
    """x to the power of y. Whole exponents up to 64 are multiplications; others ask for x >= 0."""
    x, y = _check(x), _check(y)
    if not isinstance(y, Traced) and float(y).is_integer() and 0 <= abs(y) <= 64:
        exponent, result, factor = abs(int(y)), None, x
        while exponent:
            if exponent & 1:
                result = factor if result is None else result * factor
            exponent >>= 1
            if exponent:
                factor = factor * factor
        if result is None:
            return 1.0 if _is_real(x) or _is_real(y) else 1
        if y < 0:
            return 1.0 / result
        return to_float(result) if isinstance(y, float) else result
    region = _region_of(x, y)
    logarithm = log2(x) if isinstance(x, Traced) else math.log2(x)
    return _float(region, f"math.exp2 {_as_f32(region, y * logarithm)} : f32")


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
    return ~x if isinstance(x, Traced) else not x


def _condition(x: Any) -> Any:
    x = _check(x)
    return x if _is_condition(x) else x != 0


# What numpy and torch call these, and their operators.
_BY_NAME: Dict[str, Callable[..., Any]] = {
    "where": where, "minimum": minimum, "maximum": maximum, "fmin": minimum, "fmax": maximum, "min": minimum,
    "max": maximum, "clip": clip, "clamp": clip, "abs": absolute, "absolute": absolute, "fabs": absolute, "exp": exp,
    "exp2": exp2, "log": log, "log2": log2, "sqrt": sqrt, "rsqrt": rsqrt, "tanh": tanh, "sin": sin, "cos": cos,
    "sigmoid": sigmoid, "floor": floor, "ceil": ceil, "pow": power, "power": power, "float_power": power,
    "logical_and": logical_and, "logical_or": logical_or, "logical_xor": logical_xor, "logical_not": logical_not,
    "add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "sub": lambda x, y: x - y,
    "multiply": lambda x, y: x * y, "mul": lambda x, y: x * y, "divide": lambda x, y: x / y,
    "true_divide": lambda x, y: x / y, "div": lambda x, y: x / y, "floor_divide": lambda x, y: x // y,
    "remainder": lambda x, y: x % y, "mod": lambda x, y: x % y, "negative": lambda x: -x, "neg": lambda x: -x,
    "less": lambda x, y: x < y, "less_equal": lambda x, y: x <= y, "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y, "equal": lambda x, y: x == y, "not_equal": lambda x, y: x != y,
    "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y,
    "bitwise_and": lambda x, y: x & y, "bitwise_or": lambda x, y: x | y, "bitwise_xor": lambda x, y: x ^ y,
    "bitwise_not": lambda x: ~x, "invert": lambda x: ~x, "square": lambda x: x * x,
    "rsub": lambda x, y: y - x, "__rsub__": lambda x, y: y - x, "__rpow__": lambda x, y: power(y, x),
    "__rdiv__": lambda x, y: y / x, "__rtruediv__": lambda x, y: y / x, "__rfloordiv__": lambda x, y: y // x,
    "__rmod__": lambda x, y: y % x, "__and__": lambda x, y: x & y, "__or__": lambda x, y: x | y,
    "__xor__": lambda x, y: x ^ y,
}


def _by_name(package: str, name: str, inputs: Sequence[Any], keywords: Dict[str, Any]) -> Any:
    function = _BY_NAME.get(name)
    if function is None:
        raise _error(f"flashc cannot trace {package}.{name}; flashc.ops lists what it can")
    # An operand that the other framework made first: its number, where it is known.
    operands = [_plain(x) if isinstance(x, Traced) or _is_number(x) else _number_of(x) for x in inputs]
    try:
        return function(*operands, **keywords)
    except TypeError as error:
        raise _error(f"flashc cannot trace {package}.{name} with these arguments: {error}") from None


def _number_of(x: Any) -> Any:
    if isinstance(x, CapturedArray):
        return x
    if getattr(x, "shape", None) == () and hasattr(x, "item"):
        return x.item()
    return x


# --- Captures ---------------------------------------------------------------------------------------------------------

class Capture(NamedTuple):
    """An operand of the code: what the kernel is specialised on."""
    name: str
    dtype: str
    #: 1 or 0 (any); () for a scalar.
    shape: Tuple[int, ...]


class Bound(NamedTuple):
    """What a launch passes for a capture."""
    address: int
    extents: Tuple[int, ...]
    strides: Tuple[int, ...]
    scalar: int


_ELEMENTS = {"bf16": F32, "f16": F32, "f32": F32, "i1": I1, "i8": INDEX, "u8": INDEX, "i32": INDEX, "i64": INDEX}
_C_DTYPE = {"u8": "i8"}


class CapturedArray:
    """An array that a mask or a score refers to. `table[h]`, `bias[b, h, i, j]` or `bias[b][h][i][j]` is an element:
    a real number, an integer or a condition. An index that is a position must find an element for all positions;
    other indices that are computed are clamped to the array; negative numbers are refused."""
    __slots__ = ("_trace", "_name", "_array", "_view", "_prefix")

    def __init__(self, trace: "Trace", name: str, array: Array, view: "_View", prefix: Tuple[Any, ...] = ()) -> None:
        self._trace, self._name, self._array, self._view, self._prefix = trace, name, array, view, prefix

    def __repr__(self) -> str:
        return f"<captured {self._array.dtype} array {tuple(self._array.shape)} %{self._name}>"

    @property
    def shape(self) -> Tuple[int, ...]:
        """The extents of the dimensions that are still to be indexed: numbers, which the kernel is specialised on as
        soon as the function computes with them."""
        return tuple(self._array.shape)[len(self._prefix):]

    @property
    def ndim(self) -> int:
        return self._rank_left()

    def _rank_left(self) -> int:
        return len(self._array.shape) - len(self._prefix)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Any:
        raise _error("expected an index with one position per dimension; an array cannot be iterated over")

    def __bool__(self) -> bool:
        raise _error("an array has no truth value")

    def __array__(self, *arguments: Any) -> Any:
        raise _error("a captured array can be indexed, and nothing else; compute on arrays before the call")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _error(f"a captured array can be indexed, and nothing else; got its attribute {name}")

    def __getitem__(self, index: Any) -> Any:
        indices = self._prefix + (index if isinstance(index, tuple) else (index,))
        rank = len(self._array.shape)
        if len(indices) > rank:
            raise _error(f"expected at most {rank} indices into an array of shape {tuple(self._array.shape)}, got "
                         f"{len(indices)}")
        for position, value in enumerate(indices[len(self._prefix):], len(self._prefix)):
            value = _plain(value)
            if isinstance(value, bool) or not (isinstance(value, int) or
                                               isinstance(value, Traced) and value._type == INDEX):
                kind = {F32: "a real number", I1: "a condition"}[value._type] if isinstance(value, Traced) \
                    else repr(value)
                raise _error(f"expected integers as indices into an array, got {kind} as index {position}")
            if isinstance(value, int) and not 0 <= value < self._array.shape[position]:
                raise _error(f"expected index {position} from 0 to {self._array.shape[position] - 1}, got {value}")
        if len(indices) < rank:
            return CapturedArray(self._trace, self._name, self._array, self._view, indices)
        return self._trace.load(self, [_plain(value) for value in indices])


class _View(NamedTuple):
    """How an array is passed: without the dimensions that do not matter (one element, or stride 0), and with a last
    one of one element if the elements of the last one that is left are apart."""
    dims: Tuple[int, ...]
    pads: bool
    type: str

    @staticmethod
    def of(array: Array) -> "_View":
        dims = tuple(dim for dim, (extent, stride) in enumerate(zip(array.shape, array.strides))
                     if extent != 1 and stride != 0)
        pads = not dims or array.strides[dims[-1]] != 1
        extents = "?x" * len(dims) + ("1x" if pads else "")
        return _View(dims, pads, f"tensor<{extents}{_C_DTYPE.get(array.dtype, array.dtype)}>")

    def capture(self, name: str, dtype: str) -> Capture:
        return Capture(name, _C_DTYPE.get(dtype, dtype), (0,) * len(self.dims) + ((1,) if self.pads else ()))

    def bind(self, array: Array) -> Bound:
        extents = tuple(array.shape[dim] for dim in self.dims)
        strides = tuple(array.strides[dim] for dim in self.dims)
        return Bound(array.address, extents + ((1,) if self.pads else ()), strides + ((1,) if self.pads else ()), 0)


class Need(NamedTuple):
    """An array is indexed by a position: an extent must be at least ceil(extent of the position / divisor)."""
    position: int
    divisor: int
    array: Array
    dim: int


class Code(NamedTuple):
    """A traced mask and score. The first three specialise a kernel, the others go into a launch."""
    mask: Optional[str] = None
    score: Optional[str] = None
    captures: Tuple[Capture, ...] = ()
    bound: Tuple[Bound, ...] = ()
    arrays: Tuple[Array, ...] = ()
    needs: Tuple[Need, ...] = ()

    def check(self, extents: Sequence[int]) -> None:
        """Refuses arrays that are too short for an attention of these [B, Hq, Nq, Nk]."""
        for need in self.needs:
            last = (extents[need.position] - 1) // need.divisor
            if last >= need.array.shape[need.dim]:
                what = ("the batch", "the query head", "the query's position", "the key's position")[need.position]
                by = what + (f" // {need.divisor}" if need.divisor > 1 else "")
                raise ArgumentError(f"expected at least {last + 1} elements in dimension {need.dim} of a captured "
                                    f"array, which is indexed by {by}, got shape {tuple(need.array.shape)}")


class Trace:
    """The captures of one attention, which its mask and its score share."""

    def __init__(self, device: Optional[int] = None, stream: Optional[int] = None) -> None:
        self.device, self.stream = device, stream
        self.region = Region()
        self.captures: List[Capture] = []
        self.bound: List[Bound] = []
        self.arrays: List[Array] = []
        self.needs: List[Need] = []
        # By identity of the object, which is kept so that the identity stays its own.
        self._known: Dict[int, Tuple[Any, Any]] = {}

    def _fresh(self) -> str:
        return f"capture{len(self.captures)}"

    def capture(self, x: Any) -> Any:
        """An array or a scalar of a framework as a traced thing."""
        known = self._known.get(id(x))
        if known is None:
            known = self._known[id(x)] = (x, self._capture(x))
        thing = known[1]
        # A scalar is a value of the region at hand, so it is made anew there.
        return thing if isinstance(thing, CapturedArray) else self._scalar(*thing)

    def _capture(self, x: Any) -> Any:
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(x, numpy.generic):
            return self._capture_number(x.item())
        array = x if isinstance(x, Array) else source_of(x).describe(x, self.stream)
        if array.dtype not in _ELEMENTS:
            raise UnsupportedTypeError(f"expected a captured array of bf16, f16, f32, bool, int8, uint8, int32 or "
                                       f"int64, got {array.dtype}")
        if len(array.shape) == 0 and array.device == CPU and hasattr(x, "item"):
            return self._capture_number(x.item())
        if self.device is not None and array.device != self.device and not isinstance(x, ArraySpec):
            raise ArgumentError(f"expected the arrays that a mask or a score refers to on {device_name(self.device)}, "
                                f"where q is, got one of shape {tuple(array.shape)} on {device_name(array.device)}")
        if 0 in array.shape:
            raise ArgumentError(f"expected a captured array with elements, got shape {tuple(array.shape)}")
        if hasattr(x, "is_neg") and x.is_neg():
            return self._capture(x.resolve_neg())
        view, name = _View.of(array), self._fresh()
        self.captures.append(view.capture(name, array.dtype))
        self.bound.append(view.bind(array))
        self.arrays.append(array)
        captured = CapturedArray(self, name, array, view)
        return captured if len(array.shape) else (name, array)

    def _capture_number(self, value: Number) -> Tuple[str, Any]:
        name = self._fresh()
        if isinstance(value, bool):
            dtype, bits = "i1", int(value)
        elif isinstance(value, int):
            dtype, bits = "i64", value & (2**64 - 1)
        else:
            try:
                dtype, bits = "f32", struct.unpack("<I", struct.pack("<f", value))[0]
            except OverflowError:
                dtype, bits = "f32", 0x7F800000 if value > 0 else 0xFF800000
        self.captures.append(Capture(name, dtype, ()))
        self.bound.append(Bound(0, (), (), bits))
        return name, dtype

    def _scalar(self, name: str, kind: Any) -> Traced:
        if isinstance(kind, Array):
            # A scalar in the memory of the GPU.
            return self.element(name, kind.dtype, _View.of(kind).type, [self.region.index(0)])
        if kind == "i64":
            return _index(self.region, f"arith.index_cast %{name} : i64 to index")
        return Traced(self.region, "%" + name, {"f32": F32, "i1": I1}[kind])

    def load(self, captured: CapturedArray, indices: Sequence[Any]) -> Traced:
        """An element of an array, in the region at hand."""
        view, region, array = captured._view, self.region, captured._array
        names = [self._inside(captured, dim, place, indices[dim]) for place, dim in enumerate(view.dims)]
        for dim, value in enumerate(indices):
            # A dimension that is not passed has the same elements everywhere; a position must still exist in it.
            if dim not in view.dims and isinstance(value, Traced) and value._limit is not None:
                self.needs.append(Need(*value._limit, array, dim))
        if view.pads:
            names.append(region.index(0))
        return self.element(captured._name, captured._array.dtype, view.type, names)

    def _inside(self, captured: CapturedArray, dim: int, place: int, value: Any) -> str:
        """An index that is inside its dimension: because it was checked, because the launch checks it, or because the
        code clamps it. `place` is the number of the dimension in the operand."""
        region, limit = self.region, getattr(value, "_limit", None)
        if not isinstance(value, Traced):
            return region.index(value)
        if limit is not None:
            self.needs.append(Need(*limit, captured._array, dim))
            return value._name
        # Always clamped: the array of another call may be shorter, and its kernel is this one.
        number = region.index(place)
        extent = region.emit(f"tensor.dim %{captured._name}, {number} : {captured._view.type}")
        last = region.emit(f"arith.subi {extent}, {region.index(1)} : index")
        name = region.emit(f"arith.minsi {value._name}, {last} : index")
        return name if value._natural else region.emit(f"arith.maxsi {name}, {region.index(0)} : index")

    def element(self, name: str, dtype: str, type: str, indices: Sequence[str]) -> Traced:
        region = self.region
        value = region.emit(f"tensor.extract %{name}[{', '.join(indices)}] : {type}")
        if dtype in ("bf16", "f16"):
            value = region.emit(f"arith.extf {value} : {dtype} to f32")
        elif dtype in ("i8", "u8"):
            wide = region.emit(f"arith.ext{'s' if dtype == 'i8' else 'u'}i {value} : i8 to i64")
            value = region.emit(f"arith.index_cast {wide} : i64 to index")
        elif dtype in ("i32", "i64"):
            value = region.emit(f"arith.index_cast {value} : {dtype} to index")
        return Traced(region, value, _ELEMENTS[dtype], dtype == "u8")

    def positions(self) -> List[Traced]:
        """b, h, i, j of a new region."""
        self.region = region = Region()
        return [Traced(region, name, INDEX, True, (number, 1)) for number, name in enumerate(("%b", "%h", "%i", "%j"))]

    def code(self, result: str, type: str) -> str:
        """The text of the region, ending with its result."""
        return "\n".join(self.region.lines + [f"flash.yield {result} : {type}"])

    # Functions that refer to arrays.
    def bind(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, referring to captured arrays where it refers to arrays: in its closure, its defaults, the
        globals that it names, and in functions, tuples, lists and dictionaries that it reaches so."""
        if not _reaches_array(function, set()):
            return function
        return self._wrap(function, {})

    def _wrap(self, x: Any, done: Dict[int, Any]) -> Any:
        if isinstance(x, _PLAIN):
            return x
        if id(x) in done:
            return done[id(x)]
        if isinstance(x, types.FunctionType):
            return self._wrap_function(x, done)
        if isinstance(x, functools.partial):
            return functools.partial(self._wrap(x.func, done), *[self._wrap(value, done) for value in x.args],
                                     **{name: self._wrap(value, done) for name, value in x.keywords.items()})
        if isinstance(x, types.MethodType):
            return types.MethodType(self._wrap(x.__func__, done), x.__self__)
        if isinstance(x, (tuple, list)) and len(x) <= _MOST:
            values = [self._wrap(value, done) for value in x]
            return values if isinstance(x, list) else type(x)(*values) if hasattr(x, "_fields") else tuple(values)
        if isinstance(x, dict) and len(x) <= _MOST:
            return {name: self._wrap(value, done) for name, value in x.items()}
        return self.capture(x) if _is_array(x) else x

    def _wrap_function(self, function: types.FunctionType, done: Dict[int, Any]) -> types.FunctionType:
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        namespace = function.__globals__
        scope = dict(namespace)
        copy = types.FunctionType(function.__code__, scope, function.__name__, None, cells or None)
        done[id(function)] = copy
        for cell, old in zip(cells, function.__closure__ or ()):
            try:
                contents = old.cell_contents
            except ValueError:
                continue  # An empty cell stays empty.
            cell.cell_contents = self._wrap(contents, done)
        for name in _global_names(function.__code__):
            if name in namespace:
                scope[name] = self._wrap(namespace[name], done)
        if function.__defaults__:
            copy.__defaults__ = tuple(self._wrap(value, done) for value in function.__defaults__)
        if function.__kwdefaults__:
            copy.__kwdefaults__ = {name: self._wrap(value, done) for name, value in function.__kwdefaults__.items()}
        return copy


# Containers that are longer are not searched for arrays.
_MOST = 256
_PLAIN = (type(None), int, float, str, bytes, complex, type, types.ModuleType, types.BuiltinFunctionType, Traced,
          CapturedArray)


def _is_array(x: Any) -> bool:
    if isinstance(x, _PLAIN):
        return False
    if isinstance(x, (memoryview, ArraySpec)):
        return True
    kind = type(x)
    return hasattr(kind, "__dlpack__") or hasattr(kind, "__array_interface__") or \
        hasattr(kind, "__cuda_array_interface__") or hasattr(x, "__cuda_array_interface__") or \
        hasattr(x, "__array_interface__")


def _global_names(code: types.CodeType) -> Tuple[str, ...]:
    names = code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _global_names(constant)
    return names


def _reaches_array(x: Any, seen: set) -> bool:
    if isinstance(x, _PLAIN) or id(x) in seen:
        return False
    if isinstance(x, types.FunctionType):
        if x.__module__ and x.__module__.split(".")[0] in ("flashc", "torch", "numpy"):
            return False
        seen.add(id(x))
        for cell in x.__closure__ or ():
            try:
                contents = cell.cell_contents
            except ValueError:
                continue
            if _reaches_array(contents, seen):
                return True
        namespace = x.__globals__
        return any(_reaches_array(namespace[name], seen) for name in _global_names(x.__code__) if name in namespace) \
            or any(_reaches_array(value, seen) for value in x.__defaults__ or ()) \
            or any(_reaches_array(value, seen) for value in (x.__kwdefaults__ or {}).values())
    if isinstance(x, functools.partial):
        seen.add(id(x))
        return any(_reaches_array(value, seen) for value in (x.func, *x.args, *x.keywords.values()))
    if isinstance(x, types.MethodType):
        return _reaches_array(x.__func__, seen)
    if isinstance(x, (tuple, list, dict)):
        seen.add(id(x))
        return len(x) <= _MOST and any(_reaches_array(value, seen)
                                       for value in (x.values() if isinstance(x, dict) else x))
    return _is_array(x)


def device_name(device: int) -> str:
    """A device in words."""
    return "the CPU" if device == CPU else f"GPU {device}"


# The trace under way in this thread, for flashc.ops.array.
_current = threading.local()


def array(x: Any) -> Any:
    """An array that a mask or a score refers to in a way that flashc does not see, such as an attribute of an object:
    `flashc.ops.array(self.bias)[b, h, i, j]`."""
    under_way = getattr(_current, "trace", None)
    if under_way is None:
        raise _error("flashc.ops.array works while a mask or a score is traced only")
    return x if isinstance(x, (Traced, CapturedArray)) else under_way.capture(x)


# --- Tracing ----------------------------------------------------------------------------------------------------------

def _call(under_way: Trace, function: Callable[..., Any], what: str, arguments: Sequence[Any]) -> Any:
    if not callable(function):
        raise UnsupportedTypeError(f"expected {what} to be a function, got {type(function)!r}")
    outer = getattr(_current, "trace", None)
    _current.trace = under_way
    try:
        return _plain(under_way.bind(function)(*arguments))
    finally:
        _current.trace = outer


def _place(function: Any) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}: " if code is not None else ""


def _broadcast(array: Array, positions: Sequence[Traced]) -> Tuple[Any, ...]:
    return tuple(0 if extent == 1 else position for extent, position in zip(array.shape, positions))


def trace(mask: Optional[Callable[..., Any]], score: Optional[Callable[..., Any]], *, device: Optional[int] = None,
          stream: Optional[int] = None, mask_array: Any = None) -> Code:
    """The code of a mask `(b, h, i, j) -> condition` and a score `(s, b, h, i, j) -> real number`.

    Args:
        device: where captured arrays must be; None: anywhere.
        stream: where they will be read.
        mask_array: an array of 4 dimensions, each 1 or that of [B, Hq, Nq, Nk]. Conditions say which keys take part;
            real numbers are added to the score.
    """
    under_way = Trace(device, stream)
    mask_code = score_code = None
    keeps: Any = True
    adds = mask_array is not None and mask_array.dtype != "i1"
    if mask is not None or mask_array is not None and not adds:
        positions = under_way.positions()
        if mask is not None:
            keeps = _call(under_way, mask, "mask", positions)
            if not isinstance(keeps, bool) and not (isinstance(keeps, Traced) and keeps._type == I1):
                kind = {F32: "a real number", INDEX: "an integer"}[keeps._type] if isinstance(keeps, Traced) \
                    else repr(keeps)
                raise TraceError(f"{_place(mask)}expected the mask to return a condition, got {kind}")
        if mask_array is not None and not adds:
            keeps = under_way.capture(mask_array)[_broadcast(mask_array, positions)] & keeps
        if keeps is not True:
            mask_code = under_way.code(_as_i1(under_way.region, keeps), I1)
    if score is not None or adds:
        positions = under_way.positions()
        value: Any = Traced(under_way.region, "%s", F32)
        if score is not None:
            value = _call(under_way, score, "score", [value] + positions)
            if not isinstance(value, (int, float)) and not isinstance(value, Traced):
                raise TraceError(f"{_place(score)}expected the score to return a real number, got {value!r}")
        if adds:
            value = under_way.capture(mask_array)[_broadcast(mask_array, positions)] + value
        score_code = under_way.code(_as_f32(under_way.region, value), F32)
    return Code(mask_code, score_code, tuple(under_way.captures), tuple(under_way.bound), tuple(under_way.arrays),
                tuple(under_way.needs))
