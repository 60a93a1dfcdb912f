"""Python's operators on traced values and numbers, and checks and conversions of operands."""
from __future__ import annotations

import sys
from typing import Any, Tuple

from .region import F32, I1, INDEX, Indexable, Region, Value, check_region, error, get_trace

_INT_COMPARISONS = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
_FLOAT_COMPARISONS = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}


# --- Operands ---------------------------------------------------------------------------------------------------------

def region_of(*values: Any) -> Region:
    """Returns the region of the first traced value."""
    for value in values:
        if isinstance(value, Value):
            return value._region
    raise error("expected a traced value")


def plain(x: Any) -> Any:
    """Converts numbers of NumPy, and arrays without dimensions, to Python's numbers; a tensor on a GPU, or one that
    requires a gradient, is captured instead. Other objects are returned unchanged."""
    if isinstance(x, (Value, int, float)):
        return x
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, numpy.generic):
        return x.item()
    if isinstance(x, Indexable) or getattr(x, "shape", None) != () or not hasattr(x, "item"):
        return x
    is_read = getattr(x, "is_cuda", False) or getattr(x, "requires_grad", False)
    return get_trace("array").capture(x) if is_read else x.item()


def check(x: Any) -> Any:
    """Returns `x` as an operand, a traced value or a number; refuses other objects."""
    x = plain(x)
    if isinstance(x, Value):
        check_region(x)
        return x
    if isinstance(x, (int, float)):
        return x
    if isinstance(x, Indexable):
        raise error(f"expected an element of an array, got the array: it has {x.ndim} dimensions to index; compute on "
                    "whole arrays before the call")
    hint = "; what the function makes itself is read through flashc.ops.array(x)[...]" if hasattr(x, "shape") else ""
    raise error(f"expected a number or a traced value, got {type(x).__module__}.{type(x).__qualname__}{hint}")


def is_real(x: Any) -> bool:
    return x._type == F32 if isinstance(x, Value) else isinstance(x, float)


def is_condition(x: Any) -> bool:
    return x._type == I1 if isinstance(x, Value) else isinstance(x, bool)


def is_natural(x: Any) -> bool:
    return x._natural if isinstance(x, Value) else x >= 0


def as_f32(region: Region, x: Any) -> str:
    """Returns the name of an operand as a real number; a constant or a conversion is emitted if needed."""
    if not isinstance(x, Value):
        return region.f32(x)
    if x._type == F32:
        return x._name
    if x._type == I1:
        return region.emit(f"arith.uitofp {x._name} : i1 to f32")
    wide = region.emit(f"arith.index_cast {x._name} : index to i64")
    return region.emit(f"arith.sitofp {wide} : i64 to f32")


def as_index(region: Region, x: Any) -> str:
    """Returns the name of an operand as an integer."""
    if not isinstance(x, Value):
        return region.index(x)
    if x._type == INDEX:
        return x._name
    wide = region.emit(f"arith.extui {x._name} : i1 to i64")
    return region.emit(f"arith.index_cast {wide} : i64 to index")


def as_i1(region: Region, x: Any) -> str:
    """Returns the name of an operand that is a condition."""
    return x._name if isinstance(x, Value) else region.i1(x)


# --- Operators --------------------------------------------------------------------------------------------------------

def arithmetic(x: Any, y: Any, how: Tuple[str, str]) -> Any:
    """Applies an operation. `how` has the name of the operation for integers, and its name for real numbers."""
    x, y, (on_integers, on_reals) = check(x), check(y), how
    region = region_of(x, y)
    natural = on_integers != "arith.subi" and is_natural(x) and is_natural(y)
    if is_real(x) or is_real(y):
        return region.value(F32, f"{on_reals} {as_f32(region, x)}, {as_f32(region, y)} : f32", natural)
    return region.value(INDEX, f"{on_integers} {as_index(region, x)}, {as_index(region, y)} : index", natural)


def true_divide(x: Any, y: Any) -> Any:
    x, y = check(x), check(y)
    region = region_of(x, y)
    return region.value(F32, f"arith.divf {as_f32(region, x)}, {as_f32(region, y)} : f32")


def _divisor(region: Region, y: Any) -> str:
    """Returns the name of an integer divisor. 0 becomes 1 at run time, since a division by 0 would end the process."""
    if not isinstance(y, Value):
        if y == 0:
            raise error("expected a divisor other than 0")
        return region.index(y)
    name, one, zero = as_index(region, y), region.index(1), region.index(0)
    is_zero = region.emit(f"arith.cmpi eq, {name}, {zero} : index")
    return region.emit(f"arith.select {is_zero}, {one}, {name} : index")


def _real_floor(x: Any) -> Any:
    return x._region.value(F32, f"math.floor {x._name} : f32")


def floor_divide(x: Any, y: Any) -> Any:
    x, y = check(x), check(y)
    if is_real(x) or is_real(y):
        return _real_floor(true_divide(x, y))
    region = region_of(x, y)
    natural = is_natural(x) and is_natural(y)
    result = region.value(INDEX, f"arith.floordivsi {as_index(region, x)}, {_divisor(region, y)} : index", natural)
    if isinstance(x, Value) and x._limit is not None and isinstance(y, int) and y > 0:
        result._limit = (x._limit[0], x._limit[1] * y)
    return result


def modulo(x: Any, y: Any) -> Any:
    x, y = check(x), check(y)
    if is_real(x) or is_real(y):
        return x - _real_floor(true_divide(x, y)) * y
    region = region_of(x, y)
    if not isinstance(y, Value) and y > 0 and y & (y - 1) == 0:
        # The remainder of a division by a power of two is the last bits, also of negative numbers: one operation
        # instead of six.
        return region.value(INDEX, f"arith.andi {as_index(region, x)}, {region.index(y - 1)} : index", natural=True)
    dividend, divisor = as_index(region, x), _divisor(region, y)
    if is_natural(x) and is_natural(y):
        # If no number is negative, the remainder of MLIR's truncating division equals that of Python's flooring
        # division.
        return region.value(INDEX, f"arith.remsi {dividend}, {divisor} : index", natural=True)
    quotient = region.emit(f"arith.floordivsi {dividend}, {divisor} : index")
    product = region.emit(f"arith.muli {quotient}, {divisor} : index")
    return region.value(INDEX, f"arith.subi {dividend}, {product} : index", is_natural(y))


def compare(x: Any, y: Any, kind: str) -> Any:
    x, y = check(x), check(y)
    region = region_of(x, y)
    if is_real(x) or is_real(y):
        operation = f"arith.cmpf {_FLOAT_COMPARISONS[kind]}, {as_f32(region, x)}, {as_f32(region, y)} : f32"
    elif is_condition(x) and is_condition(y) and kind in ("eq", "ne"):
        operation = f"arith.cmpi {kind}, {as_i1(region, x)}, {as_i1(region, y)} : i1"
    elif isinstance(x, Value) and isinstance(y, Value) and x._wide and y._wide:
        operation = f"arith.cmpi {_INT_COMPARISONS[kind]}, {x._wide}, {y._wide} : i64"
    else:
        operation = f"arith.cmpi {_INT_COMPARISONS[kind]}, {as_index(region, x)}, {as_index(region, y)} : index"
    return region.value(I1, operation)


def bitwise(x: Any, y: Any, operation: str) -> Any:
    x, y = check(x), check(y)
    region = region_of(x, y)
    if is_condition(x) and is_condition(y):
        return region.value(I1, f"{operation} {as_i1(region, x)}, {as_i1(region, y)} : i1")
    if is_real(x) or is_real(y) or is_condition(x) or is_condition(y):
        raise error("expected two conditions or two integers for `&`, `|`, `^`: comparisons bind weaker than these, "
                    "so write (a < b) & (c < d)")
    natural = is_natural(x) and is_natural(y)
    return region.value(INDEX, f"{operation} {as_index(region, x)}, {as_index(region, y)} : index", natural)


def shift(x: Any, y: Any, operation: str) -> Any:
    x, y = check(x), check(y)
    if is_real(x) or is_real(y):
        raise error("expected integers for `<<` and `>>`, got a real number")
    if isinstance(y, int) and not 0 <= y < 63:
        raise error(f"expected a shift by 0 to 62 bits, got {y}")
    region = region_of(x, y)
    return region.value(INDEX, f"{operation} {as_index(region, x)}, {as_index(region, y)} : index", is_natural(x))
