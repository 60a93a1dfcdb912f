"""`Traced`, the values with which masks and scores are traced, with the operations of Python, NumPy and PyTorch."""
from __future__ import annotations

from typing import Any, Callable, Tuple

from . import functions
from .appearance import Convertible, dtype_of, kind_of
from .by_name import METHODS, by_name
from .functions import absolute, clip, power, to_kind, where
from .of_tensors import NEEDS_DIMENSIONS
from .operators import arithmetic, bitwise, check, compare, floor_divide, modulo, shift, true_divide
from .region import F32, I1, Region, Value, current, error, get_trace

_BRANCH_HELP = ("a traced value has no truth value: the function is called once, for all positions. Write "
                "flashc.ops.where(condition, a, b) instead of `if`, `&`, `|` and `~` instead of `and`, `or` and `not`, "
                "flashc.ops.minimum and maximum instead of min and max, and (a <= x) & (x < b) instead of a <= x < b")


def _binary(compute: Callable[..., Any], how: Any) -> Tuple[Callable[..., Any], Callable[..., Any]]:
    """Returns an operator, and the operator with its operands exchanged."""
    return lambda self, other: compute(self, other, how), lambda self, other: compute(other, self, how)


class Traced(Convertible, Value):
    """A value of a mask or a score: an integer (`index`), a real number (`f32`) or a condition (`i1`).

    Operators mean what they mean for Python's numbers: `//` and `%` round towards minus infinity, `/` gives a real
    number, comparisons give conditions. Real numbers are of 32 bits. `x // 0` is `x`, and `x % 0` is 0.
    """
    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]
    # None, so that Python does not iterate over indices.
    __iter__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<traced {self._type} {self._name}>"

    # Conversions to numbers, which are not known while tracing.
    def __bool__(self) -> bool:
        raise error(_BRANCH_HELP)

    def __float__(self) -> float:
        raise error("a traced value has no number yet: use flashc.ops (exp, tanh, ...) instead of `math` and float()")

    def __int__(self) -> int:
        raise error("a traced value has no number yet: use flashc.ops instead of `math`, int() and range()")

    def __index__(self) -> int:
        problem = error("a traced value cannot index this object; arrays, and lists and tuples of at most 64 numbers, "
                        "that the function refers to by name can be indexed as they are, others through "
                        "flashc.ops.array(x)[...]")
        current.refused_index = problem  # Kept, since NumPy replaces it by an IndexError.
        raise problem

    def __len__(self) -> int:
        raise error("a traced value has no length")

    def item(self) -> Any:
        """Refused, since there is no number yet."""
        raise error("a traced value has no number yet: leave out item(), and compute with the value itself")

    # Arithmetic.
    __add__, __radd__ = _binary(arithmetic, ("arith.addi", "arith.addf"))
    __sub__, __rsub__ = _binary(arithmetic, ("arith.subi", "arith.subf"))
    __mul__, __rmul__ = _binary(arithmetic, ("arith.muli", "arith.mulf"))
    __truediv__, __rtruediv__ = true_divide, lambda self, other: true_divide(other, self)
    __floordiv__, __rfloordiv__ = floor_divide, lambda self, other: floor_divide(other, self)
    __mod__, __rmod__ = modulo, lambda self, other: modulo(other, self)

    def __divmod__(self, other: Any) -> Any:
        return floor_divide(self, other), modulo(self, other)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        return NotImplemented if modulus is not None else power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return power(other, self)

    def __neg__(self) -> Any:
        if self._type == F32:
            return self._region.value(F32, f"arith.negf {self._name} : f32")
        return 0 - self

    def __pos__(self) -> "Traced":
        return self

    def __abs__(self) -> "Traced":
        return absolute(self)

    # Comparisons have no reflected operators: Python calls `>` in place of `<`.
    __lt__, __le__, __gt__, __ge__, __eq__, __ne__ = (  # type: ignore[assignment]
        _binary(compare, kind)[0] for kind in ("lt", "le", "gt", "ge", "eq", "ne"))

    # Logic, and bits of integers.
    __and__, __or__, __xor__ = (_binary(bitwise, f"arith.{name}i")[0] for name in ("and", "or", "xor"))
    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__
    __lshift__, __rlshift__ = _binary(shift, "arith.shli")
    __rshift__, __rrshift__ = _binary(shift, "arith.shrsi")

    def __invert__(self) -> Any:
        if self._type == F32:
            raise error("expected a condition or an integer for `~`, got a real number")
        return bitwise(self, True if self._type == I1 else -1, "arith.xori")

    # Methods of tensors.
    def _as(self, kind: str) -> Any:
        return to_kind(self, kind)

    @property
    def dtype(self) -> Any:
        """float32, int64 or bool of PyTorch or NumPy, for `torch.finfo(x.dtype)` and `other.to(x.dtype)`."""
        return dtype_of(self._type)

    def new_ones(self, size: Any, dtype: Any = None, **keywords: Any) -> Any:
        """1, or a true condition, which a mask that keeps everything returns."""
        return self.new_full(size, 1, dtype)

    def new_zeros(self, size: Any, dtype: Any = None, **keywords: Any) -> Any:
        """0, or a false condition."""
        return self.new_full(size, 0, dtype)

    def new_full(self, size: Any, fill_value: Any, dtype: Any = None, **keywords: Any) -> Any:
        """A number of the type of this value, or of `dtype`."""
        if tuple(size) != ():
            raise error(f"expected a value without dimensions, got size {size!r}")
        return to_kind(fill_value, self._type if dtype is None else kind_of(dtype), self._region)

    def new_tensor(self, data: Any, dtype: Any = None, **keywords: Any) -> Any:
        """A number of the type of `data`, or of `dtype`."""
        return check(data) if dtype is None else to_kind(data, kind_of(dtype), self._region)

    def abs(self) -> Any:
        return absolute(self)

    def clamp(self, min: Any = None, max: Any = None) -> Any:
        return clip(self, min, max)

    clip = clamp

    def where(self, condition: Any, other: Any) -> Any:
        return where(condition, self, other)

    # numpy.exp(x), numpy.where(...), torch.where(...), torch.tanh(x), ...
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        if method != "__call__":
            raise error(f"expected a call of numpy.{ufunc.__name__}, got its method {method}")
        return by_name("numpy", ufunc.__name__, inputs, keywords)

    def __array_function__(self, function: Any, kinds: Any, inputs: Any, keywords: Any) -> Any:
        return by_name("numpy", function.__name__, inputs, keywords)

    @classmethod
    def __torch_function__(cls, function: Any, kinds: Any, inputs: Any = (), keywords: Any = None) -> Any:
        name = getattr(function, "__name__", str(function))
        if name == "__getitem__":  # A traced value indexes a tensor.
            return get_trace("array").capture(inputs[0])[inputs[1]]
        return by_name("torch", name, inputs, keywords or {})


# Methods of tensors that are functions of flashc.ops: s.exp(), s.tanh(), ...
for _name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin",
              "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "isnan", "isinf",
              "isfinite", "sigmoid", "relu", "sign", "floor", "ceil", "trunc", "round"):
    setattr(Traced, _name, getattr(functions, _name))


def _by_method(name: str) -> Any:
    def method(self: Traced, *arguments: Any, **keywords: Any) -> Any:
        return by_name("Tensor", name, (self, *arguments), keywords)
    method.__name__ = name
    return method


for _name in METHODS + NEEDS_DIMENSIONS:
    setattr(Traced, _name, _by_method(_name))

Region.kind = Traced
