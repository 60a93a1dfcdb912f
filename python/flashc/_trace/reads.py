"""The objects that decide the code of a mask or a score: numbers, functions, and arrays that the function refers to.

`Reads` collects these objects for one call, as the key under which `repeated.py` keeps the traced code. The bytecode of
a function, which is read once, says what the function refers to. `Unknown` is raised if the code may depend on anything
that a key cannot have: if the function writes to an object, draws a random number, or hands an object of an unknown
type around. Such a function has no key, and is traced at every call.
"""
from __future__ import annotations

import builtins
import dis
import functools
import math
import operator
import sys
import types
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from .._arrays.array import CPU, Array, ArraySpec
from .._arrays.source import known_sources, source_of
from .._runtime.library import Error
from .binding import MOST, is_array_type
from .by_name import TRACED_NAMES
from .captured import ELEMENTS, passed
from .declared import Listed, Sorted


class Unknown(Exception):
    """The code may depend on something that a key cannot have."""


class Read(NamedTuple):
    """An object that a function refers to: a variable, and the names of attributes that are read from it."""
    #: Where the function finds the object: "cell" (`place` is the cell's index), "global" or "self".
    kind: str
    name: str
    place: int
    attributes: Tuple[str, ...]


# The beginnings of the names of instructions that only compute with a function's own values. LOAD_ATTR reads either an
# attribute that a `Read` lists, or an attribute of a traced value.
_PURE = ("BINARY_", "BUILD_", "CACHE", "CALL", "COMPARE_OP", "CONTAINS_OP", "COPY", "DUP_", "END_FOR", "EXTENDED_ARG",
         "FOR_ITER", "GET_ITER", "IS_OP", "JUMP_", "KW_NAMES", "LIST_", "LOAD_ATTR", "LOAD_CONST", "LOAD_FAST",
         "LOAD_METHOD", "LOAD_SMALL_INT", "NOP", "NOT_TAKEN", "POP_", "PRECALL", "PUSH_NULL", "RESUME", "RETURN_",
         "INPLACE_", "LOAD_ASSERTION_ERROR", "RAISE_VARARGS", "ROT_", "STORE_FAST", "SWAP", "TO_BOOL", "UNARY_",
         "UNPACK_SEQUENCE")
_IMPURE = "CALL_INTRINSIC", "BUILD_TEMPLATE", "POP_BLOCK", "POP_EXCEPT", "RETURN_GENERATOR"


def _loads(instruction: dis.Instruction) -> Tuple[str, ...]:
    """Returns the local variables that an instruction reads or writes, in order. Newer versions of Python have
    instructions for two variables."""
    names = instruction.argval
    return names if isinstance(names, tuple) else (names,)


class _Function:
    """What a function's code refers to; `reads` is None if the result may depend on anything else. In a key this object
    stands for the code, because hashing the code takes long."""
    __slots__ = ("code", "reads")

    def __init__(self, code: types.CodeType, is_method: bool) -> None:
        self.code, self.reads = code, _find_reads(code, is_method)


_functions: Dict[Tuple[int, bool], _Function] = {}
_MOST_FUNCTIONS = 4096


def _function_of(code: types.CodeType, is_method: bool) -> _Function:
    known = _functions.get((id(code), is_method))
    if known is None:
        if len(_functions) >= _MOST_FUNCTIONS:  # A program may compile functions without end.
            _functions.clear()
        known = _functions[id(code), is_method] = _Function(code, is_method)
    return known


def _find_reads(code: types.CodeType, is_method: bool) -> Optional[Tuple[Read, ...]]:
    """Returns what a function's code refers to. None if the result may depend on anything else. `is_method`: the first
    argument is an object whose attributes the code reads."""
    if code.co_flags & (0x20 | 0x80 | 0x200) or code.co_cellvars:  # generators, coroutines; functions inside of it
        return None
    own = code.co_varnames[0] if is_method and code.co_argcount else None
    instructions = [it for it in dis.get_instructions(code) if it.opname not in ("CACHE", "EXTENDED_ARG", "PUSH_NULL")]
    found: Dict[Read, None] = {}
    for number, it in enumerate(instructions):
        name, root = it.opname, None
        if name == "LOAD_GLOBAL":
            root = Read("global", it.argval, 0, ())
        elif name in ("LOAD_DEREF", "LOAD_CLOSURE"):
            root = Read("cell", it.argval, code.co_freevars.index(it.argval), ())
        elif "FAST" in name and own in _loads(it):
            if name.startswith("STORE") or _loads(it)[-1] != own or _loads(it).count(own) > 1:
                return None
            root = Read("self", own or "", 0, ())
        elif name == "COPY_FREE_VARS":
            continue
        elif not name.startswith(_PURE) or name.startswith(_IMPURE):
            return None
        if root is not None:
            found[root._replace(attributes=_chain(instructions[number + 1:]))] = None
    return tuple(found)


def _chain(following: List[dis.Instruction]) -> Tuple[str, ...]:
    """Returns the names of the attributes that the next instructions read from a value."""
    names = []
    for it in following:
        if it.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            break
        names.append(it.argval)
    return tuple(names)


class _Constant(NamedTuple):
    """What an object of flashc refers to, if that never changes. Only the contents of its arrays may change."""
    #: Stands in a key for all of the object except its arrays. Objects that differ only in their arrays have the same
    #: token.
    token: Any
    arrays: Tuple[Any, ...]


# The tokens, by the keys that they replace.
_tokens: Dict[Tuple[Any, ...], Any] = {}


#: Types whose values a key has as they are.
_VALUES = frozenset((int, bool, str, type(None)))


class Reads:
    """What the mask and the score of a call refer to."""

    def __init__(self, device: Optional[int], stream: Optional[int]) -> None:
        self.device, self.stream = device, stream
        #: While `_find_constant` reads an object: the arrays of the object. None at other times.
        self.parts: Optional[List[Any]] = None
        self.key: List[Any] = []
        #: For each object, by its number: the description of an array, the value of a framework's scalar, or None. A
        #: reader sets the value of its object before it reads other objects.
        self.values: List[Any] = []
        # The numbers of the objects that were read before, keyed by their id(). The objects are kept, so that no other
        # object gets their id.
        self._numbers: Dict[int, int] = {}
        self._objects: List[Any] = []

    def read(self, x: Any) -> None:
        """Adds an object to the key. Raises Unknown if the code may depend on more than a key can have."""
        kind = type(x)
        if kind in _VALUES:
            self.key += kind, x
            return
        number = self._numbers.get(id(x))
        if number is not None:
            self.key += _SEEN, number
            return
        self._numbers[id(x)] = len(self.values)
        self._objects.append(x)
        self.values.append(None)
        (_readers.get(kind) or _reader_of(kind))(self, x)

    def place_of(self, x: Any) -> Optional[int]:
        """Returns the number of an object that was read, or None."""
        return self._numbers.get(id(x))

    def _read_number(self, x: Any) -> None:
        self.key += type(x), x

    def _read_real(self, x: Any) -> None:
        self.key += type(x), repr(x)  # as text, since 0.0 and -0.0 are equal numbers

    def _read_entries(self, x: Any) -> None:
        if self.parts is not None and not isinstance(x, tuple):
            raise Unknown
        entries = [part for pair in x.items() for part in pair] if type(x) is dict else x
        if len(entries) > MOST:
            raise Unknown
        self.key += type(x), len(entries)
        for entry in entries:
            if type(entry) in _VALUES:
                self.key += type(entry), entry
            else:
                self.read(entry)

    def _read_partial(self, x: functools.partial) -> None:
        if self.parts is not None:
            raise Unknown
        self.key.append(functools.partial)
        for part in (x.func, x.args, x.keywords):
            self.read(part)

    def _read_own(self, x: Any) -> None:
        """Reads an object of flashc."""
        constant = getattr(x, "_constant", None)
        if constant is False:  # `_find_constant` has not read the object yet.
            constant = x._constant = _find_constant(x)
        if constant is None:
            self.key.append(type(x))
            for name in x._decides:
                self.read(getattr(x, name))
        else:
            self.key.append(constant.token)
            for array in constant.arrays:
                self.read(array)

    def _read_method(self, x: types.MethodType) -> None:
        if type(x.__func__) is not types.FunctionType:
            raise Unknown
        self._read_function(x.__func__, x.__self__)

    def _read_function(self, x: types.FunctionType, owner: Any = None) -> None:
        """Reads a function, or the method of `owner`."""
        function = _functions.get((id(x.__code__), owner is not None)) or _function_of(x.__code__, owner is not None)
        package = x.__globals__.get("__name__", "").partition(".")[0]  # functools.wraps changes __module__
        if owner is None and package in ("numpy", "torch"):
            self._read_pure(x)
            return
        if owner is None and package == "flashc":
            # What a function of flashc's own returns follows from its code, its defaults and its closure.
            self.key.append(function)
            self.read(x.__defaults__)
            for cell in x.__closure__ or ():
                self.read(cell.cell_contents)
            return
        if function.reads is None or self.parts is not None:
            raise Unknown
        self.key.append(function)
        for defaults in (x.__defaults__, x.__kwdefaults__):
            if defaults is None:
                self.key.append(None)
            else:
                self.read(defaults)
        for kind, name, place, attributes in function.reads:
            if kind == "cell":
                try:
                    value = x.__closure__[place].cell_contents  # type: ignore[index]
                except ValueError:
                    raise Unknown from None
            elif kind == "self":
                value = owner
            elif name in x.__globals__:
                value = x.__globals__[name]
            else:
                value = getattr(builtins, name, Unknown)
            for attribute in attributes:
                reader = _readers.get(type(value)) or _reader_of(type(value))
                if reader is Reads._read_array:
                    break  # In a trace the attributes are those of the array's capture.
                if reader is Reads._read_function:
                    raise Unknown
                try:
                    value = getattr(value, attribute)
                except Exception:
                    raise Unknown from None
            if type(value) in _VALUES:
                self.key += type(value), value
            else:
                self.read(value)

    def _read_array(self, x: Any) -> None:
        """Reads an array as Trace.capture does."""
        if self.parts is not None:
            self.parts.append(x)
            return
        is_sorted, array = isinstance(x, Sorted), x.array if isinstance(x, Sorted) else x
        array = array.on(self.device) if isinstance(array, Listed) else array
        if hasattr(array, "is_neg") and array.is_neg():
            raise Unknown
        try:
            described = array if isinstance(array, Array) else \
                (known_sources.get(type(array)) or source_of(array)).describe(array, self.stream)
        except Error:
            raise Unknown from None  # The trace says what is wrong.
        is_trained = self.device is not None and getattr(array, "requires_grad", False)
        if not described.shape and described.device == CPU and hasattr(array, "item") and not is_trained:
            self._add_scalar(array.item())
            return
        if described.dtype not in ELEMENTS or 0 in described.shape or \
                self.device is not None and (described.address == 0 or described.device != self.device):
            raise Unknown
        self.values[-1], (view, *_) = described, passed(tuple(described.shape), tuple(described.strides),
                                                        described.dtype, is_sorted)
        self.key += view, described.dtype, len(described.shape), is_trained

    def _read_scalar(self, x: Any) -> None:
        if self.parts is not None:
            self.parts.append(x)
        else:
            self._add_scalar(x.item())

    def _add_scalar(self, value: Any) -> None:
        self.values[-1] = value
        self.key += _SCALAR, type(value)

    def _read_pure(self, x: Any) -> None:
        if not _is_pure(x):
            raise Unknown
        self.key.append(x)


def _find_constant(x: Any) -> Optional[_Constant]:
    """Returns what an object of flashc refers to. None if that may change, as it may if the object refers to a user's
    function."""
    reads = Reads(None, None)
    reads.parts = []
    reads.key.append(type(x))
    try:
        for name in x._decides:
            reads.read(getattr(x, name))
    except Unknown:
        return None
    if len(_tokens) >= _MOST_FUNCTIONS:
        _tokens.clear()
    return _Constant(_tokens.setdefault(tuple(reads.key), object()), tuple(reads.parts))


_SEEN, _SCALAR = "seen", "scalar"
# The method that reads an object, by the object's type. The table grows with the types that a program uses.
_readers: Dict[type, Callable[[Reads, Any], None]] = {
    **{kind: Reads._read_number for kind in (bytes, type(Ellipsis))},
    **{kind: Reads._read_real for kind in (float, complex)},
    **{kind: Reads._read_entries for kind in (tuple, list, dict)},
    types.FunctionType: Reads._read_function, types.MethodType: Reads._read_method,
    functools.partial: Reads._read_partial,
}


def _is_plain_tuple(kind: type) -> bool:
    """Whether a subclass of tuple has the operators of tuple, and objects that cannot be called."""
    own = [name for base in kind.__mro__ if base not in (tuple, object) for name, x in vars(base).items()
           if name.startswith("__") and isinstance(x, types.FunctionType)]
    return set(own) <= {"__new__", "__repr__", "__getnewargs__", "__replace__"}


def _reader_of(kind: type) -> Callable[[Reads, Any], None]:
    """Returns the method that reads objects of a type, and adds it to the table."""
    _readers[kind] = _find_reader(kind)
    return _readers[kind]


def _find_reader(kind: type) -> Callable[[Reads, Any], None]:
    numpy = sys.modules.get("numpy")
    if issubclass(kind, tuple) and (kind.__module__.startswith("flashc.") or _is_plain_tuple(kind)):
        return Reads._read_entries
    if numpy is not None and issubclass(kind, numpy.generic):
        return Reads._read_scalar
    if issubclass(kind, (Sorted, Listed, ArraySpec, memoryview)) or is_array_type(kind):
        return Reads._read_array
    if hasattr(kind, "_decides") and kind.__module__.startswith("flashc."):
        return Reads._read_own
    return Reads._read_pure


# --- Functions that return the same for equal arguments ---------------------------------------------------------------

# Functions and classes of Python that return the same for equal arguments.
_BUILTINS = frozenset(getattr(builtins, name) for name in (
    "abs", "all", "any", "bool", "callable", "complex", "divmod", "enumerate", "float", "hasattr", "int", "isinstance",
    "len", "list", "map", "max", "min", "pow", "range", "reversed", "round", "slice", "sorted", "str", "sum", "tuple",
    "type", "zip"))
_MODULES = math.__name__, operator.add.__module__
# `_traced` has the functions that a trace knows by name, keyed by their id(). `_traced_modules` has the modules torch
# and numpy from which these were taken.
_traced: Dict[int, Any] = {}
_traced_modules: List[Any] = []


def _is_pure(x: Any) -> bool:
    """Whether `x` is a function or a class that returns the same for equal arguments, or a type of elements."""
    if isinstance(x, types.BuiltinFunctionType) and x.__module__ in _MODULES:
        return True
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(x, (torch.dtype, torch.device)):
        return True
    if numpy is not None and (isinstance(x, numpy.dtype) or isinstance(x, type) and issubclass(x, numpy.generic)):
        return True
    if not _traced_modules or _traced_modules[0] is not torch or _traced_modules[1] is not numpy:
        _find_traced(torch, numpy)
    return id(x) in _traced


def _find_traced(torch: Any, numpy: Any) -> None:
    """Fills the table of functions of flashc.ops, PyTorch and NumPy that a trace knows."""
    from .. import ops
    _traced_modules[:] = torch, numpy
    functions = list(_BUILTINS) + [getattr(ops, name) for name in ops.__all__]
    for module in (torch, getattr(torch, "special", None), getattr(getattr(torch, "nn", None), "functional", None),
                   numpy):
        functions += [getattr(module, name) for name in TRACED_NAMES if hasattr(module, name)]
    _traced.update({id(function): function for function in functions})
