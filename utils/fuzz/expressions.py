"""Masks and scores as trees. A tree gives the Python source of a function that flashc traces, JSON for a file, and the
numbers that evaluate.py computes with NumPy. A tree can also be replaced by smaller ones.

A node is [op, type, argument, ...]. Arguments are nodes; only the leaves have numbers and names.
"""

import math

POSITIONS = ("b", "h", "i", "j")

#: Python code of each operation. Operations that are no operator of Python are functions of flashc.ops.
SOURCE = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "div": "({} / {})", "floordiv": "({} // {})",
    "mod": "({} % {})", "neg": "(-{})", "and": "({} & {})", "or": "({} | {})", "xor": "({} ^ {})", "not": "(~{})",
    "shr": "({} >> {})", "lt": "({} < {})", "le": "({} <= {})", "gt": "({} > {})", "ge": "({} >= {})",
    "eq": "({} == {})", "ne": "({} != {})", "maximum": "ops.maximum({}, {})", "minimum": "ops.minimum({}, {})",
    "abs": "ops.abs({})", "to_float": "ops.to_float({})", "to_int": "ops.to_int({})", "power": "({} ** {})",
    "where": "ops.where({}, {}, {})", "clip": "ops.clip({}, {}, {})", "count_le": "ops.count_le({}, {})",
}

#: Names in flashc.ops: functions of one real number, functions of two, tests of a real number, and functions of truth
#: values.
UNARY = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2",
         "expm1", "floor", "gelu", "log", "log10", "log1p", "log2", "log_sigmoid", "relu", "round", "rsqrt", "sigmoid",
         "sign", "silu", "sin", "sinh", "softplus", "sqrt", "tan", "tanh", "trunc")
BINARY = ("atan2", "copysign", "logaddexp")
TESTS = ("isfinite", "isinf", "isnan")
LOGICAL = ("logical_and", "logical_or", "logical_xor")


def leaf(kind, value):
    """Returns a constant ("const"), or the name of a position, the score or a length ("name")."""
    if kind == "const":
        return ["const", {bool: "bool", int: "int", float: "real"}[type(value)], value]
    return ["name", "real" if value == "s" else "int", value]


def arguments(node):
    """Returns the nodes among a node's arguments, each with its index."""
    return [(place, argument) for place, argument in enumerate(node) if place > 1 and isinstance(argument, list)]


def walk(node):
    yield node
    for _, argument in arguments(node):
        yield from walk(argument)


def size(node):
    return sum(1 for _ in walk(node))


def source(node):
    """Returns the node as Python source."""
    op = node[0]
    if op == "const":
        value = node[2]
        if isinstance(value, float) and not math.isfinite(value):
            return f"float('{value}')"
        return f"({value!r})" if not isinstance(value, bool) and value < 0 else repr(value)
    if op == "name":
        return {"Nq": "ops.query_length()", "Nk": "ops.key_length()"}.get(node[2], node[2])
    if op == "array":
        return node[2]
    if op == "sorted":
        return f"flashc.assume_sorted({node[2]})"
    texts = [source(argument) for _, argument in arguments(node)]
    if op == "element":
        return f"{texts[0]}[{', '.join(texts[1:])}]"
    if op in SOURCE:
        return SOURCE[op].format(*texts)
    return f"ops.{op}({', '.join(texts)})"


def function_source(node, parameters):
    return f"lambda {', '.join(parameters)}: {source(node)}"


def arrays_of(*nodes):
    """Returns the names of the arrays that trees refer to."""
    return sorted({node[2] for tree in nodes if tree for node in walk(tree) if node[0] in ("array", "sorted")})


#: The smallest nodes of each type, in order of preference.
_LEAST = {
    "int": [leaf("const", 0), leaf("const", 1), leaf("name", "i"), leaf("name", "j")],
    "bool": [leaf("const", True), leaf("const", False)],
    "real": [leaf("const", 0.0), leaf("const", 1.0), leaf("name", "s")],
}


def _smaller_constant(value):
    if isinstance(value, bool) or value == 0 or value != value:
        return []
    if isinstance(value, int):
        return [value // 2 if value > 0 else -(-value // 2), value - 1 if value > 0 else value + 1]
    if abs(value) > 1 and math.isfinite(value):
        return [float(int(value / 2))] if abs(value) < 1e6 else [math.copysign(1e6, value)]
    return []


def smaller(node):
    """Yields trees of the same type that are a little smaller: a part replaces the whole, or a leaf replaces a part."""
    if node[0] == "const":
        for value in _smaller_constant(node[2]):
            yield leaf("const", value)
    if node[0] in ("array", "sorted"):
        return
    if size(node) > 1:
        for least in _LEAST[node[1]]:
            yield least
        below = [part for part in walk(node) if part is not node and part[1] == node[1] and
                 part[0] not in ("array", "sorted")]  # arrays are read, and are no values
        yield from sorted(below, key=size)
    for place, argument in arguments(node):
        for part in smaller(argument):
            yield node[:place] + [part] + node[place + 1:]
