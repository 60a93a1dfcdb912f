"""The values with which masks and scores are traced, and the functions of them that flashc.ops shows.

A region is a list of operations of MLIR in text form; a traced value is the name of a result and its type.
"""
from __future__ import annotations

import linecache
import math
import os
import struct
import sys
import types
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from ._array import dtype_name
from ._library import Error, UnsupportedTypeError


class TraceError(Error):
    """A mask or a score does what flashc cannot trace. The text names the line."""


# --- Where an error is ------------------------------------------------------------------------------------------------

_HERE = os.path.dirname(os.path.abspath(__file__))
_FOREIGN = tuple(os.sep + name + os.sep for name in ("numpy", "torch"))


def error(what: str) -> TraceError:
    """The error with the line of the user's function that asked for it."""
    frame: Optional[types.FrameType] = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if os.path.dirname(os.path.abspath(path)) != _HERE and not path.startswith("<") and \
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
            raise error(f"expected an integer of 32 bits, got {value}")
        # True and members of enumerations are integers too, but print otherwise.
        return self.emit(f"arith.constant {int(value)} : index")

    def f32(self, value: Number) -> str:
        try:
            bits = struct.unpack("<I", struct.pack("<f", float(value)))[0]
        except OverflowError:
            bits = 0x7F800000 if value > 0 else 0xFF800000
        rounded = struct.unpack("<f", struct.pack("<I", bits))[0]
        return self.emit(f"arith.constant {rounded:.9e} : f32" if math.isfinite(rounded) else
                         f"arith.constant 0x{bits:08X} : f32")

    def i1(self, value: bool) -> str:
        return self.emit(f"arith.constant {'true' if value else 'false'}")


class Indexable:
    """What is not a value itself, but whose elements are."""
    __slots__ = ()

    @property
    def ndim(self) -> int:
        """Dimensions that are still to be indexed."""
        raise NotImplementedError


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
        raise error(_BRANCH_HELP)

    def __float__(self) -> float:
        raise error("a traced value has no number yet: use flashc.ops (exp, tanh, ...) instead of `math` and float()")

    def __int__(self) -> int:
        raise error("a traced value has no number yet: use flashc.ops instead of `math`, int() and range()")

    def __index__(self) -> int:
        raise error("a traced value cannot index this object; arrays that the function refers to by name can be "
                     "indexed as they are, others through flashc.ops.array(x)[...]")

    def __len__(self) -> int:
        raise error("a traced value has no length")

    def item(self) -> Any:
        """Refused: there is no number yet."""
        raise error("a traced value has no number yet")

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
            raise error("expected a condition or an integer for `~`, got a real number")
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

    def to(self, dtype: Any, *rest: Any, **keywords: Any) -> Any:
        """A real number, an integer or a condition, as `dtype` is. Real numbers are of 32 bits, whatever is asked."""
        try:
            kind = dtype_name(dtype)
        except UnsupportedTypeError:
            raise error(f"expected a type of numbers, integers or conditions, got {dtype!r}") from None
        return self.bool() if kind == I1 else to_float(self) if "f" in kind else to_int(self)

    type = to

    def new_ones(self, size: Any, dtype: Any = None, **keywords: Any) -> Any:
        """1, or a condition that holds: a mask that keeps everything returns it."""
        return self._new(1, size, dtype)

    def new_zeros(self, size: Any, dtype: Any = None, **keywords: Any) -> Any:
        """0, or a condition that does not hold."""
        return self._new(0, size, dtype)

    def _new(self, value: int, size: Any, dtype: Any) -> Any:
        if tuple(size) != ():
            raise error(f"expected a value without dimensions, got size {size!r}")
        one = make_index(self._region, f"arith.constant {value} : index", True)
        return one if dtype is None and self._type == INDEX else one.to(dtype or self._type)

    def abs(self) -> Any:
        return absolute(self)

    def clamp(self, min: Any = None, max: Any = None) -> Any:
        return clip(self, min, max)

    clip = clamp

    # numpy.exp(x), numpy.where(...), torch.where(...), torch.tanh(x), ...
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        if method != "__call__":
            raise error(f"expected a call of numpy.{ufunc.__name__}, got its method {method}")
        return _by_name("numpy", ufunc.__name__, inputs, keywords)

    def __array_function__(self, function: Any, kinds: Any, inputs: Any, keywords: Any) -> Any:
        return _by_name("numpy", function.__name__, inputs, keywords)

    @classmethod
    def __torch_function__(cls, function: Any, kinds: Any, inputs: Any = (), keywords: Any = None) -> Any:
        name = getattr(function, "__name__", str(function))
        if name == "__getitem__":  # of a tensor that is no Traced itself
            from ._trace import array
            return array(inputs[0])[inputs[1]]
        return _by_name("torch", name, inputs, keywords or {})


def make_index(region: Region, operation: str, natural: bool = False) -> Traced:
    return Traced(region, region.emit(operation), INDEX, natural)


def _float(region: Region, operation: str) -> Traced:
    return Traced(region, region.emit(operation), F32)


def _region_of(*values: Any) -> Region:
    for value in values:
        if isinstance(value, Traced):
            return value._region
    raise error("expected a traced value")


def plain(x: Any) -> Any:
    """Numbers of NumPy as Python's; others unchanged."""
    if isinstance(x, (Traced, int, float)):
        return x
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, numpy.generic):
        return x.item()
    return x


def _check(x: Any) -> Any:
    """`x` as an operand: traced, or a number."""
    x = plain(x)
    if isinstance(x, (Traced, int, float)):
        return x
    if isinstance(x, Indexable):
        raise error(f"expected an element of an array, got the array: it has {x.ndim} dimensions to index")
    raise error(f"expected a number or a traced value, got {type(x).__module__}.{type(x).__qualname__}")


def _is_real(x: Any) -> bool:
    return x._type == F32 if isinstance(x, Traced) else isinstance(x, float)


def _is_condition(x: Any) -> bool:
    return x._type == I1 if isinstance(x, Traced) else isinstance(x, bool)


def _is_natural(x: Any) -> bool:
    return x._natural if isinstance(x, Traced) else x >= 0


def as_f32(region: Region, x: Any) -> str:
    if not isinstance(x, Traced):
        return region.f32(x)
    if x._type == F32:
        return x._name
    if x._type == I1:
        return region.emit(f"arith.uitofp {x._name} : i1 to f32")
    wide = region.emit(f"arith.index_cast {x._name} : index to i64")
    return region.emit(f"arith.sitofp {wide} : i64 to f32")


def as_index(region: Region, x: Any) -> str:
    if not isinstance(x, Traced):
        return region.index(x)
    if x._type == INDEX:
        return x._name
    wide = region.emit(f"arith.extui {x._name} : i1 to i64")
    return region.emit(f"arith.index_cast {wide} : i64 to index")


def as_i1(region: Region, x: Any) -> str:
    return x._name if isinstance(x, Traced) else region.i1(x)


def _arithmetic(x: Any, y: Any, on_integers: str, on_reals: str) -> Any:
    x, y = _check(x), _check(y)
    region = _region_of(x, y)
    if _is_real(x) or _is_real(y):
        return _float(region, f"{on_reals} {as_f32(region, x)}, {as_f32(region, y)} : f32")
    natural = on_integers != "arith.subi" and _is_natural(x) and _is_natural(y)
    return make_index(region, f"{on_integers} {as_index(region, x)}, {as_index(region, y)} : index", natural)


def _true_divide(x: Any, y: Any) -> Any:
    x, y = _check(x), _check(y)
    region = _region_of(x, y)
    return _float(region, f"arith.divf {as_f32(region, x)}, {as_f32(region, y)} : f32")


def _divisor(region: Region, y: Any) -> str:
    """An integer to divide by: never 0 at run time, which would end the process."""
    if not isinstance(y, Traced):
        if y == 0:
            raise error("expected a divisor other than 0")
        return region.index(y)
    name, one, zero = as_index(region, y), region.index(1), region.index(0)
    is_zero = region.emit(f"arith.cmpi eq, {name}, {zero} : index")
    return region.emit(f"arith.select {is_zero}, {one}, {name} : index")


def _floor_divide(x: Any, y: Any) -> Any:
    x, y = _check(x), _check(y)
    if _is_real(x) or _is_real(y):
        return floor(_true_divide(x, y))
    region = _region_of(x, y)
    natural = _is_natural(x) and _is_natural(y)
    result = make_index(region, f"arith.floordivsi {as_index(region, x)}, {_divisor(region, y)} : index", natural)
    if isinstance(x, Traced) and x._limit is not None and isinstance(y, int) and y > 0:
        result._limit = (x._limit[0], x._limit[1] * y)
    return result


def _modulo(x: Any, y: Any) -> Any:
    x, y = _check(x), _check(y)
    if _is_real(x) or _is_real(y):
        return x - floor(_true_divide(x, y)) * y
    region = _region_of(x, y)
    if not isinstance(y, Traced) and y > 0 and y & (y - 1) == 0:
        # The remainder towards minus infinity is the last bits, also of what is negative: one operation instead of six.
        return make_index(region, f"arith.andi {as_index(region, x)}, {region.index(y - 1)} : index", natural=True)
    dividend, divisor = as_index(region, x), _divisor(region, y)
    if _is_natural(x) and _is_natural(y):
        # The remainder of truncation is that of Python where neither is negative.
        return make_index(region, f"arith.remsi {dividend}, {divisor} : index", natural=True)
    quotient = region.emit(f"arith.floordivsi {dividend}, {divisor} : index")
    product = region.emit(f"arith.muli {quotient}, {divisor} : index")
    return make_index(region, f"arith.subi {dividend}, {product} : index", _is_natural(y))


def _compare(kind: str, x: Any, y: Any) -> Any:
    x, y = _check(x), _check(y)
    region = _region_of(x, y)
    if _is_real(x) or _is_real(y):
        operation = f"arith.cmpf {_FLOAT_COMPARISONS[kind]}, {as_f32(region, x)}, {as_f32(region, y)} : f32"
    elif _is_condition(x) and _is_condition(y) and kind in ("eq", "ne"):
        operation = f"arith.cmpi {kind}, {as_i1(region, x)}, {as_i1(region, y)} : i1"
    else:
        operation = f"arith.cmpi {_INT_COMPARISONS[kind]}, {as_index(region, x)}, {as_index(region, y)} : index"
    return Traced(region, region.emit(operation), I1)


def _bitwise(operation: str, x: Any, y: Any) -> Any:
    x, y = _check(x), _check(y)
    region = _region_of(x, y)
    if _is_condition(x) and _is_condition(y):
        return Traced(region, region.emit(f"{operation} {as_i1(region, x)}, {as_i1(region, y)} : i1"), I1)
    if _is_real(x) or _is_real(y) or _is_condition(x) or _is_condition(y):
        raise error("expected two conditions or two integers for `&`, `|`, `^`: comparisons bind weaker than these, "
                     "so write (a < b) & (c < d)")
    natural = _is_natural(x) and _is_natural(y)
    return make_index(region, f"{operation} {as_index(region, x)}, {as_index(region, y)} : index", natural)


def _shift(operation: str, x: Any, y: Any) -> Any:
    x, y = _check(x), _check(y)
    if _is_real(x) or _is_real(y):
        raise error("expected integers for `<<` and `>>`, got a real number")
    if isinstance(y, int) and not 0 <= y < 63:
        raise error(f"expected a shift by 0 to 62 bits, got {y}")
    region = _region_of(x, y)
    return make_index(region, f"{operation} {as_index(region, x)}, {as_index(region, y)} : index", _is_natural(x))


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
        convert, type = as_i1, I1
    elif _is_real(x) or _is_real(y):
        convert, type = as_f32, F32
    else:
        convert, type = as_index, INDEX
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
        return _float(region, f"arith.{kind}imumf {as_f32(region, x)}, {as_f32(region, y)} : f32")
    return make_index(region, f"arith.{kind}si {as_index(region, x)}, {as_index(region, y)} : index", natural)


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
    return x if x._type == F32 else Traced(x._region, as_f32(x._region, x), F32)


def to_int(x: Any) -> Any:
    """An integer: a real number without its fraction (towards 0), 1 for a condition that holds."""
    x = _check(x)
    if not isinstance(x, Traced):
        return int(x)
    region = x._region
    if x._type == F32:
        wide = region.emit(f"arith.fptosi {x._name} : f32 to i64")
        return make_index(region, f"arith.index_cast {wide} : i64 to index")
    return x if x._type == INDEX else Traced(region, as_index(region, x), INDEX, True)


def _of_number(name: str, on_number: Callable[[float], float], x: float) -> float:
    try:
        return on_number(x)
    except (ArithmeticError, ValueError) as problem:
        raise error(f"expected a number of which Python has {name}, got {x!r}: {problem}") from None


def _function(name: str, on_number: Callable[[float], float], doc: str) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        x = _check(x)
        if not isinstance(x, Traced):
            return _of_number(name, on_number, x)
        return _float(x._region, f"math.{name} {as_f32(x._region, x)} : f32")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _of_pair(name: str, on_numbers: Callable[[float, float], float], doc: str) -> Callable[[Any, Any], Any]:
    def function(x: Any, y: Any) -> Any:
        x, y = _check(x), _check(y)
        if not isinstance(x, Traced) and not isinstance(y, Traced):
            return on_numbers(x, y)
        region = _region_of(x, y)
        return _float(region, f"math.{name} {as_f32(region, x)}, {as_f32(region, y)} : f32")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _test(name: str, on_number: Callable[[float], bool], doc: str) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        x = _check(x)
        if not isinstance(x, Traced):
            return on_number(x)
        return Traced(x._region, x._region.emit(f"math.{name} {as_f32(x._region, x)} : f32"), I1)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


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
asin = _function("asin", math.asin, "The angle in radians of which x is the sine.")
acos = _function("acos", math.acos, "The angle in radians of which x is the cosine.")
atan = _function("atan", math.atan, "The angle in radians of which x is the tangent.")
atan2 = _of_pair("atan2", math.atan2, "The angle in radians of a point; its height comes first.")
sinh = _function("sinh", math.sinh, "The hyperbolic sine.")
cosh = _function("cosh", math.cosh, "The hyperbolic cosine.")
tanh = _function("tanh", math.tanh, "The hyperbolic tangent.")
asinh = _function("asinh", math.asinh, "The inverse of the hyperbolic sine.")
acosh = _function("acosh", math.acosh, "The inverse of the hyperbolic cosine.")
atanh = _function("atanh", math.atanh, "The inverse of the hyperbolic tangent.")
erf = _function("erf", math.erf, "The error function.")
erfc = _function("erfc", math.erfc, "1 - erf(x), also where that is near 0.")
copysign = _of_pair("copysign", math.copysign, "The magnitude of x with the sign of y.")
isnan = _test("isnan", math.isnan, "Whether x is no number.")
isinf = _test("isinf", math.isinf, "Whether x is an infinity.")
isfinite = _test("isfinite", math.isfinite, "Whether x is neither an infinity nor NaN.")


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + exp(-_check(x)))


def relu(x: Any) -> Any:
    """x, but at least 0."""
    return maximum(x, 0)


def silu(x: Any) -> Any:
    """x sigmoid(x)."""
    return x * sigmoid(x)


def gelu(x: Any, approximate: str = "none") -> Any:
    """x times the probability that a normal variable is below x; with "tanh" by the usual approximation."""
    if approximate == "tanh":
        return 0.5 * x * (1.0 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * erfc(x * -math.sqrt(0.5))


def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    return maximum(to_float(x), 0.0) + log1p(exp(-absolute(to_float(x))))


def log_sigmoid(x: Any) -> Any:
    """The logarithm of sigmoid(x)."""
    return -softplus(-_check(x))


def logaddexp(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)) of finite numbers."""
    return maximum(to_float(x), to_float(y)) + log1p(exp(-absolute(to_float(x) - to_float(y))))


def sign(x: Any) -> Any:
    """-1, 0 or 1."""
    x = _check(x)
    return where(x > 0, 1, where(x < 0, -1, x if _is_real(x) else 0))


def _rounding(name: str, on_number: Callable[[float], float], doc: str) -> Callable[[Any], Any]:
    of_real = _function(name, on_number, doc)

    def function(x: Any) -> Any:
        x = _check(x)
        return of_real(x) if _is_real(x) else x
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


floor = _rounding("floor", math.floor, "The largest whole number that is not above x.")
ceil = _rounding("ceil", math.ceil, "The smallest whole number that is not below x.")
trunc = _rounding("trunc", math.trunc, "The whole part of x.")
round = _rounding("roundeven", round, "The whole number next to x; the even one of two.")


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
    logarithm = log2(x)
    return _float(region, f"math.exp2 {as_f32(region, y * logarithm)} : f32")


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


# s.exp(), s.tanh(), ... as on tensors.
for _unary in (exp, exp2, expm1, log, log2, log10, log1p, sqrt, rsqrt, sin, cos, tan, asin, acos, atan, sinh, cosh, tanh,
               asinh, acosh, atanh, erf, erfc, isnan, isinf, isfinite, sigmoid, relu, sign, floor, ceil, trunc):
    setattr(Traced, _unary.__name__, lambda self, _unary=_unary: _unary(self))
Traced.round = lambda self: round(self)  # type: ignore[attr-defined]


# What numpy and torch call these, and their operators.
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
    # torch.special.erf calls itself special_erf.
    function = _BY_NAME.get(name[8:] if name.startswith("special_") else name)
    if function is None:
        raise error(f"flashc cannot trace {package}.{name}; flashc.ops lists what it can")
    # An operand that the other framework made first: its number, where it is known.
    operands = [plain(x) if isinstance(x, Traced) or _is_number(x) else _number_of(x) for x in inputs]
    if keywords.get("inplace") is False:  # PyTorch passes it on though it is its default.
        keywords = {key: value for key, value in keywords.items() if key != "inplace"}
    try:
        return function(*operands, **keywords)
    except TypeError as problem:
        raise error(f"flashc cannot trace {package}.{name} with these arguments: {problem}") from None


def _number_of(x: Any) -> Any:
    if isinstance(x, Indexable):
        return x
    if getattr(x, "shape", None) == () and hasattr(x, "item"):
        return x.item()
    if hasattr(x, "__array__") and not isinstance(x, Traced):
        raise error(f"expected an element of an array, got an array of shape {tuple(x.shape)}")
    return x
