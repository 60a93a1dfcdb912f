"""Mutations of MLIR text, which make programs that may be wrong."""

import re

#: Integers, and numbers in general, that often cause faults.
INTEGERS = ("0", "1", "-1", "2", "3", "7", "127", "128", "256", "65535", "2147483647", "2147483648", "-2147483648",
            "4294967296", "9223372036854775807", "-9223372036854775807", "18446744073709551616", "1000000007")
REALS = ("0.0", "-0.0", "1.0", "-1.0", "3.4e38", "-3.4e38", "1.0e-45", "0x7F800000", "0xFF800000", "0x7FC00000")
TYPES = ("f16", "bf16", "f32", "f64", "i1", "i8", "i32", "i64", "index", "f8E4M3FN", "vector<4xf32>", "none",
         "tensor<*xf32>", "tensor<f32>", "memref<?xf32>", "complex<f32>", "tuple<>")
EXTENTS = ("?", "0", "1", "2", "7", "8", "63", "256", "257", "1024", "2147483648", "9223372036854775807")

TOKEN = re.compile(r'"[^"\n]*"|//[^\n]*|[%@#^!][\w$.-]+(?:[:#]\d+)?|[\w$.]+|->|::|\s+|.', re.DOTALL)
TYPE = re.compile(r"\b(?:f16|bf16|f32|f64|i1|i8|i32|i64|index)\b")
ATTRIBUTE = re.compile(r"(\w+ = )((?:-?[\d.]+(?:e[-+]?\d+)?|true|false|\"[^\"]*\"|#[\w.]+<[^<>]*>))")


def tokens(text):
    return TOKEN.findall(text)


def words(text):
    """Returns the tokens, each with the space after it, so that the text stays readable if some tokens are removed."""
    parts = []
    for token in tokens(text):
        if parts and token.isspace():
            parts[-1] += token
        else:
            parts.append(token)
    return parts


def _replace(rng, text, pattern, choose):
    """Replaces one match by another text."""
    matches = list(re.finditer(pattern, text))
    if not matches:
        return text
    match = rng.choice(matches)
    return text[:match.start()] + choose(match) + text[match.end():]


def change_constant(rng, text):
    """Replaces an integer or a real number that is not an extent of a type."""
    if rng.random() < 0.2:
        return _replace(rng, text, r"-?\b\d+\.\d+(?:e[-+]?\d+)?\b", lambda match: rng.choice(REALS))
    return _replace(rng, text, r"(?<![\w%#@.x])-?\d+\b(?![.x])", lambda match: rng.choice(INTEGERS))


def change_extent(rng, text):
    return _replace(rng, text, r"(?<=[<x])(?:\?|\d+)(?=x)", lambda match: rng.choice(EXTENTS))


def change_rank(rng, text):
    return _replace(rng, text, r"(?<=[<x])(?:\?|\d+)x", lambda match: rng.choice(["", match[0] * 2, "1x1x" + match[0]]))


def change_type(rng, text):
    """Replaces one type, or all equal types. Replacing all of them leaves more programs that verify."""
    old = rng.choice(TYPE.findall(text) or ["f32"])
    new = rng.choice(TYPES)
    if rng.random() < 0.5:
        return re.sub(rf"(?<![\w%]){old}\b", new, text)
    return _replace(rng, text, rf"(?<![\w%]){old}\b", lambda match: new)


def change_attribute(rng, text):
    others = ("true", "false", "[]", "{}", '""', "unit", "dense<0> : tensor<1xi32>", "affine_map<(d0) -> (d0)>", "f32")
    values = [match[2] for match in ATTRIBUTE.finditer(text)] + list(others)
    return _replace(rng, text, ATTRIBUTE, lambda match: match[1] + rng.choice(values + [rng.choice(INTEGERS)]))


def change_operand(rng, text):
    """Replaces a value by another."""
    names = re.findall(r"%[\w$.-]+", text)
    return _replace(rng, text, r"%[\w$.-]+", lambda match: rng.choice(names))


def change_operation(rng, text):
    """Replaces an operation by another operation of the same dialect that occurs in the file, or by a similar
    arithmetic one."""
    siblings = ("addi subi muli divsi divui remsi remui floordivsi ceildivsi ceildivui andi ori xori shli shrsi shrui "
                "maxsi minsi maxui minui addf subf mulf divf remf maximumf minimumf maxnumf minnumf negf").split()
    operations = re.findall(r"\b[a-z_]+\.[a-z_0-9]+\b", text)

    def choose(match):
        if match[0].startswith("arith.") and rng.random() < 0.7:
            return "arith." + rng.choice(siblings)
        same = [name for name in operations if name.split(".")[0] == match[0].split(".")[0]]
        return rng.choice(same or operations)
    return _replace(rng, text, r"\b[a-z_]+\.[a-z_0-9]+\b", choose)


def change_predicate(rng, text):
    predicates = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
    return _replace(rng, text, r"(?<=cmpi )\w+", lambda match: rng.choice(predicates))


def _lines(edit):
    def mutate(rng, text):
        lines = text.split("\n")
        edit(rng, lines)
        return "\n".join(lines)
    return mutate


def _drop(rng, items):
    begin = rng.randrange(len(items))
    del items[begin:begin + rng.choice([1, 1, 1, 2, 4])]


def _repeat(rng, items):
    begin = rng.randrange(len(items))
    items.insert(rng.randint(0, len(items)), items[begin])


def _swap(rng, items):
    x, y = rng.randrange(len(items)), rng.randrange(len(items))
    if rng.random() < 0.6:  # neighbours
        y = min(x + 1, len(items) - 1)
    items[x], items[y] = items[y], items[x]


def _tokens(edit):
    def mutate(rng, text):
        parts = tokens(text)
        edit(rng, parts)
        return "".join(parts)
    return mutate


def cut_off(rng, text):
    return text[:rng.randrange(len(text) + 1)]


#: The mutations and their weights. Mutations that leave programs that parse have larger weights.
MUTATIONS = ((change_constant, 8), (change_extent, 5), (change_operand, 6), (change_operation, 5),
             (change_predicate, 2), (change_attribute, 4), (change_type, 4), (change_rank, 2), (_lines(_drop), 4),
             (_lines(_repeat), 1), (_lines(_swap), 2), (_tokens(_drop), 3), (_tokens(_repeat), 2), (_tokens(_swap),
                                                                                                    3), (cut_off, 1))


#: Mutations that leave most programs valid, so that passes run on them.
GENTLE = ((change_constant, 4), (change_predicate, 2), (change_operation, 1), (change_extent, 1))


def mutate(rng, text):
    """Returns the text with one to four mutations; every third program has one gentle mutation."""
    is_gentle = rng.random() < 0.35
    mutations, weights = zip(*(GENTLE if is_gentle else MUTATIONS))
    for mutation in rng.choices(mutations, weights, k=1 if is_gentle else rng.choice([1, 1, 1, 2, 2, 4])):
        if text:
            text = mutation(rng, text)
    return text
