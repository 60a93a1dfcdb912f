"""Masks as programs. A tree gives the MLIR text of a mask region, and computes on NumPy arrays of i and j which pairs
the mask keeps."""

import random

import numpy


class Node:
    """Applies `op` to nodes or constants. `type` is index or i1."""

    def __init__(self, op, *args, type="index"):
        self.op, self.args, self.type = op, args, type

    def __add__(self, other): return Node("add", self, wrap(other))
    def __sub__(self, other): return Node("sub", self, wrap(other))
    def __rsub__(self, other): return Node("sub", wrap(other), self)
    def __mul__(self, other): return Node("mul", self, wrap(other))
    def __floordiv__(self, other): return Node("floordiv", self, wrap(other))
    def __mod__(self, other): return Node("mod", self, wrap(other))
    def __and__(self, other): return Node("and", self, wrap(other), type=self.type)
    def __or__(self, other): return Node("or", self, wrap(other), type=self.type)
    def __xor__(self, other): return Node("xor", self, wrap(other), type=self.type)
    def __invert__(self): return Node("xor", self, Node("true", type="i1"), type="i1")
    def __rshift__(self, other): return Node("shrsi", self, wrap(other))
    def __le__(self, other): return Node("sle", self, wrap(other), type="i1")
    def __lt__(self, other): return Node("slt", self, wrap(other), type="i1")
    def __ge__(self, other): return Node("sge", self, wrap(other), type="i1")
    def __gt__(self, other): return Node("sgt", self, wrap(other), type="i1")
    def eq(self, other): return Node("eq", self, wrap(other), type="i1")
    def ne(self, other): return Node("ne", self, wrap(other), type="i1")


I, J = Node("i"), Node("j")


def wrap(x):
    return x if isinstance(x, Node) else Node("const", int(x))


def symbol(n):
    """Returns the node of a captured value."""
    return Node("symbol", n)


def array(n):
    """Returns the node of a captured array that is declared sorted."""
    return Node("array", n, type="array")


def at(a, position): return Node("extract", a, wrap(position))
def count_le(value, a): return Node("count_le", wrap(value), a)
def count_lt(value, a): return Node("count_lt", wrap(value), a)
def nth(position, a): return Node("nth", wrap(position), a)


def where(condition, x, y):
    x, y = wrap(x), wrap(y)
    return Node("select", condition, x, y, type=x.type)


def minimum(x, y): return Node("min", wrap(x), wrap(y))
def maximum(x, y): return Node("max", wrap(x), wrap(y))
def truncdiv(x, y): return Node("divsi", wrap(x), wrap(y))
def truncmod(x, y): return Node("remsi", wrap(x), wrap(y))
def ceildiv(x, y): return Node("ceildiv", wrap(x), wrap(y))
def is_below(x, y): return Node("ult", wrap(x), wrap(y), type="i1")
def opaque(): return Node("opaque", type="i1")


ARITH = {
    "add": "addi", "sub": "subi", "mul": "muli", "floordiv": "floordivsi", "ceildiv": "ceildivsi", "divsi": "divsi",
    "remsi": "remsi", "and": "andi", "or": "ori", "xor": "xori", "min": "minsi", "max": "maxsi", "shrsi": "shrsi"
}


class Writer:
    """Writes the operations of a mask region. `%s0`, `%s1`, ... are the captured values."""

    def __init__(self):
        self.lines, self.known = [], {}

    def emit(self, text):
        if text not in self.known:
            self.known[text] = f"%t{len(self.lines)}"
            self.lines.append(f"{self.known[text]} = {text}")
        return self.known[text]

    def write(self, node):
        if node.op in ("i", "j"):
            return "%" + node.op
        if node.op == "symbol":
            return f"%s{node.args[0]}"
        if node.op == "array":
            return self.emit(f"flash.assume_sorted %a{node.args[0]} : tensor<?xi32>")
        if node.op == "const":
            return self.emit(f"arith.constant {node.args[0]} : index")
        if node.op == "true":
            return self.emit("arith.constant true")
        if node.op == "opaque":  # whether i * j is even
            product = self.emit("arith.muli %i, %j : index")
            two, zero = self.emit("arith.constant 2 : index"), self.emit("arith.constant 0 : index")
            return self.emit(f"arith.cmpi eq, {self.emit(f'arith.remsi {product}, {two} : index')}, {zero} : index")
        args = [self.write(arg) for arg in node.args]
        if node.op == "mod":  # as the tracer writes it
            quotient = self.emit(f"arith.floordivsi {args[0]}, {args[1]} : index")
            product = self.emit(f"arith.muli {quotient}, {args[1]} : index")
            return self.emit(f"arith.subi {args[0]}, {product} : index")
        if node.op == "extract":
            element = self.emit(f"tensor.extract {args[0]}[{args[1]}] : tensor<?xi32>")
            return self.emit(f"arith.index_cast {element} : i32 to index")
        if node.op == "nth":
            return self.emit(f"flash.nth {args[0]} in {args[1]} : tensor<?xi32>")
        if node.op in ("count_le", "count_lt"):
            strict = " {strict}" if node.op == "count_lt" else ""
            return self.emit(f"flash.count_le {args[0]} in {args[1]}{strict} : index, tensor<?xi32>")
        if node.op == "select":
            return self.emit(f"arith.select {args[0]}, {args[1]}, {args[2]} : {node.type}")
        if node.op in ARITH:
            return self.emit(f"arith.{ARITH[node.op]} {args[0]}, {args[1]} : {node.type}")
        return self.emit(f"arith.cmpi {node.op}, {args[0]}, {args[1]} : {node.args[0].type}")


FAR = 1 << 29  # beyond a sorted array

EVALUATE = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "floordiv": lambda x, y: x // y,
    "mod": lambda x, y: x % y, "ceildiv": lambda x, y: -(-x // y), "and": lambda x, y: x & y, "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y, "min": numpy.minimum, "max": numpy.maximum, "shrsi": lambda x, y: x >> y,
    "divsi": lambda x, y: numpy.where(x >= 0, x // y, -(-x // y)),
    "remsi": lambda x, y: numpy.where(x >= 0, x % y, -(-x % y)), "select": numpy.where,
    "sle": lambda x, y: x <= y, "slt": lambda x, y: x < y, "sge": lambda x, y: x >= y, "sgt": lambda x, y: x > y,
    "count_le": lambda value, a: numpy.searchsorted(a, value, side="right"),
    "count_lt": lambda value, a: numpy.searchsorted(a, value, side="left"),
    "extract": lambda a, position: a[numpy.clip(position, 0, len(a) - 1)],  # clipped only where nothing is kept
    "nth": lambda n, a: numpy.where(n < 0, -FAR, numpy.where(n >= len(a), FAR, a[numpy.clip(n, 0, len(a) - 1)])),
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "ult": lambda x, y: (x >= 0) & (x < y),
}


def evaluate(node, i, j, symbols):
    if node.op in ("i", "j"):
        return i if node.op == "i" else j
    if node.op == "symbol":
        return numpy.int64(symbols[node.args[0]])
    if node.op == "array":
        return symbols[2 + node.args[0]]
    if node.op in ("const", "true"):
        return numpy.int64(node.args[0]) if node.args else numpy.bool_(True)
    if node.op == "opaque":
        return i * j % 2 == 0
    return EVALUATE[node.op](*[evaluate(arg, i, j, symbols) for arg in node.args])


def named():
    """Returns the masks for which flashc promises exact bounds. Symbols 0 and 1 are lengths."""
    s, n = symbol(0), symbol(1)
    causal = J <= I
    block = lambda x: where(x >= n, (x - n) // 16, x // 16)
    clean_q, clean_k = I >= n, J >= n
    size, any_sign = (where(x.eq(0), 1, x) for x in (s, s - 40))  # guarded, as the tracer does
    return {
        "none": J >= 0,
        "causal": causal,
        "causal_bottom_right": J <= I + (s - n),
        "window_left": causal & (J > I - 37),
        "window_right": (J >= I) & (J < I + 23),
        "window_both": (J >= I - 20) & (J <= I + 9),
        "window_symbolic": causal & (J > I - s),
        "prefix_lm": causal | (J < s),
        "prefix_lm_constant": causal | (J < 50),
        "chunked": (I // 24).eq(J // 24),
        "chunked_causal": (I // 24).eq(J // 24) & causal,
        "block_causal": J // 24 <= I // 24,
        "sink_window": causal & ((J < 5) | (J > I - 40)),
        "sink_window_symbolic": causal & ((J < s) | (J > I - n)),
        "dilated_window": causal & (J > I - 64) & ((I - J) % 4).eq(0),
        "dilated_window_truncated": causal & (I - J < 64) & truncmod(I - J, 2).eq(0),
        "key_padding": J < s,
        "key_padding_causal": (J < s) & causal,
        "padding_both": (J < s) & (I < n),
        "padding_left": (J >= s) & (J < n),
        "shared_prefix": (J < s) | ((J >= n) & (J <= I + n)),
        "block_diffusion": ((block(I).eq(block(J)) & (clean_q ^ clean_k ^ Node("true", type="i1"))) |
                            ((block(I) > block(J)) & clean_k & ~clean_q) |
                            ((block(I) >= block(J)) & clean_k & clean_q)),
        "block_diffusion_traced": ((I < n) & ((J < n) & (J // 48).eq(I // 48) | (J >= n) & ((J - n) // 48 < I // 48)) |
                                   (I >= n) & (J >= n) & ((J - n) // 48 <= (I - n) // 48)),
        "continuations": causal & ((J < s) | ((I - s) // 20).eq((J - s) // 20)),
        "chunked_captured": (I // size).eq(J // size),
        "chunked_captured_causal": (I // size).eq(J // size) & causal,
        "chunked_captured_shifted": ((I - n) // size).eq((J - n) // size),
        "chunked_any_sign": (I // any_sign).eq(J // any_sign),
        "other_chunks_captured": (I // any_sign).ne(J // any_sign),
        "block_causal_captured": J // size <= I // size,
        "block_causal_any_sign": J // any_sign <= I // any_sign,
        "earlier_blocks_captured": J // any_sign < I // any_sign,
        "later_blocks_captured": J // any_sign + 1 > I // any_sign,
        "few_blocks_captured": J // any_sign < 2,
        "not_causal": ~causal,
        "but_one": J.ne(I),
        "clamped_window": (J <= minimum(I, s)) & (J >= maximum(I - 30, n - 60)),
        "two_windows": (J > I - 16) & causal | (J > I - 96) & (J <= I - 80),
    }


def sorted_masks():
    """Returns masks over arrays that are declared sorted, each with the class that it must have. Arrays 0 and 1 are
    document ids of queries and of keys. Arrays 2 and 3 are sequence offsets."""
    s = symbol(0)
    ids_q, ids_k, cu_q, cu_k = (array(n) for n in range(4))
    causal, same_id = J <= I, at(ids_q, I).eq(at(ids_q, J))
    n, m = count_le(I, cu_q), count_le(J, cu_q)
    begin_q, end_q, begin_k, end_k = at(cu_q, n - 1), at(cu_q, n), at(cu_k, n - 1), at(cu_k, n)
    packed, both = n.eq(m), (n - 1).eq(count_le(J, cu_k) - 1)
    bottom_right = J - begin_k <= I - begin_q + ((end_k - begin_k) - (end_q - begin_q))
    exact = {
        "documents": same_id,
        "documents_causal": same_id & causal,
        "documents_window": same_id & causal & (J > I - 37),
        "documents_before": at(ids_q, J) < at(ids_q, I),
        "documents_block_causal": at(ids_q, J) <= at(ids_q, I),
        "other_documents": at(ids_q, I).ne(at(ids_q, J)),
        "shared_prefix_documents": (J < s) | (same_id & causal),
        "packed": packed,
        "packed_causal": packed & causal,
        "packed_window": packed & (J <= I) & (J >= I - 20),
        "packed_by_elements": (J >= begin_q) & (J < end_q) & causal,
        "packed_block_causal": m <= n,
        "not_packed": n.ne(m),
        "first_segments": m <= 2,
    }
    conservative = {
        "documents_of_two": at(ids_q, I).eq(at(ids_k, J)),
        "packed_two": both,
        "packed_two_bottom_right": both & bottom_right,
        "packed_two_top_left": both & (J - begin_k <= I - begin_q),
        "packed_two_window": both & bottom_right & (J >= I + (end_k - end_q) - 11),
    }
    return {name: (mask, "exact") for name, mask in exact.items()} | {
        name: (mask, "conservative") for name, mask in conservative.items()}


class SortedRandom(random.Random):
    """A random generator for masks that read sorted arrays."""


def random_element(rng, position):
    """Returns the id at a position, the number, begin or end of the position's segment, or an element that is the same
    for all positions."""
    ids, offsets = array(rng.randrange(2)), array(2 + rng.randrange(2))
    shifted = position + rng.choice([0, 0, 0, 1, -3])
    number = count_le(shifted, offsets)
    return rng.choice([at(ids, position), number, nth(number + rng.choice([-1, 0, 1]), array(2 + rng.randrange(2))),
                       nth(rng.randint(-1, 4), offsets),
                       rng.choice([count_le, count_lt])(at(ids, position) - rng.randint(0, 1), ids)])


def random_int(rng, depth):
    if isinstance(rng, SortedRandom) and rng.randrange(2):
        return random_element(rng, rng.choice([I, J]))
    kind = rng.randrange(12 if depth > 0 else 4)
    sub = lambda: random_int(rng, depth - 1)
    if kind < 2:
        return I if kind == 0 else J
    if kind == 2:
        return wrap(rng.randint(-20, 150))
    if kind == 3:
        return symbol(rng.randrange(2))
    if kind == 4:
        return sub() + sub()
    if kind == 5:
        return sub() - sub()
    if kind == 6:
        return sub() * rng.choice([2, 3, -1])
    if kind == 7:
        return rng.choice([lambda x, c: x // c, truncdiv, ceildiv])(sub(), rng.choice([2, 3, 7, 16, 30]))
    if kind == 8:
        return rng.choice([lambda x, c: x % c, truncmod])(sub(), rng.choice([2, 3, 16, 30]))
    if kind == 9:
        return rng.choice([minimum, maximum])(sub(), sub())
    if kind == 10:
        return rng.choice([lambda x: x >> 3, lambda x: x & 15])(sub())
    return where(random_compare(rng, depth - 1), sub(), sub())


def random_compare(rng, depth):
    x, y = random_int(rng, depth), random_int(rng, depth)
    if isinstance(rng, SortedRandom) and rng.randrange(8):  # most compare a query with a key
        x, y = (rng.choice([position, random_element(rng, position)]) for position in rng.sample([I, J], 2))
    kind = rng.randrange(16)
    if kind == 0:
        return opaque()
    if kind == 1:
        return is_below(x, rng.randint(0, 60))
    if kind < 4:
        return Node("eq" if kind == 2 else "ne", x, y, type="i1")
    return Node(rng.choice(["sle", "slt", "sge", "sgt"]), x, y, type="i1")


def random_mask(rng, depth=3):
    """Returns a random program of and, or, xor, not and select over comparisons."""
    kind = rng.randrange(8) if depth > 0 else 7
    sub = lambda: random_mask(rng, depth - 1)
    if kind < 3:
        return sub() & sub()
    if kind < 5:
        return sub() | sub()
    if kind == 5:
        return rng.choice([lambda: ~sub(), lambda: sub() ^ sub()])()
    if kind == 6:
        return where(sub(), sub(), sub())
    return random_compare(rng, rng.choice([0, 1, 1, 2]))
