"""Random masks and scores, and the arrays that they refer to."""

import numpy as np

from expressions import BINARY, LOGICAL, POSITIONS, TESTS, UNARY, leaf

#: Types of arrays. The name of an array says how it is made: "a0_real_hj" has an element for each query head and key.
#: An array with "t" is a table with TABLE elements, and is read at computed indices.
KINDS = ("real", "half", "int", "bool")
TABLE = 33
#: Constants that real programs use, and extremes of f32.
USUAL = (0.0, 0.5, 1.0, -1.0, 2.0, -2.5, 0.125, 20.0, 100.0)
EXTREME = (1e30, -1e30, 3e38, -3e38, 3.4028234663852886e38, -3.4028234663852886e38, 1e-40, -1e-40, 1e-45, 1.2e-38,
           float("inf"), float("-inf"), float("nan"), -1e4, 1e20, -1e20, -1.2676506002282294e30)


class Regions:
    """Draws random trees. Constants are near `sizes`, the sizes of the case."""

    def __init__(self, rng, sizes, extremes=0.0):
        self.rng, self.sizes, self.extremes, self.arrays = rng, sizes, extremes, 0
        self.has_score = False

    def mask(self):
        self.has_score = False
        return self.condition(self.rng.choice([0, 1, 1, 2, 3]))

    def score(self):
        self.has_score = True
        tree = self.real(self.rng.choice([1, 2, 2, 3]))
        kind = self.rng.random()
        if kind < 0.5:  # most trees change the score by arithmetic
            return [self.rng.choice(["add", "sub", "mul"]), "real", leaf("name", "s"), tree]
        if kind < 0.75 and self.extremes:  # or replace it in some places
            condition = self.rng.choice([["eq", "bool", self.position(), self.constant()], self.condition(1)])
            return ["where", "real", condition, leaf("const", self.rng.choice(EXTREME)), leaf("name", "s")]
        return tree

    # --- Leaves -------------------------------------------------------------------------------------------------------

    def array(self, kind, dims):
        self.arrays += 1
        return ["array", kind, f"a{self.arrays}_{kind}_{dims}"]

    def position(self):
        return leaf("name", self.rng.choice("ijijijijbh"))

    def constant(self):
        rng = self.rng
        near = rng.choice([1, 2, 4, 8, 16, 64, 128, self.sizes["nq"], self.sizes["nk"]])
        return leaf("const", rng.choice([near, near - 1, near + 1, -near, rng.randint(-20, 20), near // 2]))

    def element(self, type):
        kind = self.rng.choice({"int": ["int"], "bool": ["bool"], "real": ["real", "half"]}[type])
        if self.rng.random() < 0.3:
            index = self.integer(1)
            # On the CPU, an index past the end is an error, and a negative index counts from the end.
            least = -TABLE if index[0] in ("add", "sub", "mul") else 0
            index = ["clip", "int", index, leaf("const", least), leaf("const", TABLE - 1)]
            return ["element", type, self.array(kind, "t"), index]
        dims = self.rng.choice(["h", "i", "j", "bj", "hi", "bh", "ij", "hij", "bhij"])
        return ["element", type, self.array(kind, dims), *(leaf("name", dim) for dim in dims)]

    def ordered(self):
        """Returns an element of a sorted array, or the number of a sequence."""
        position = leaf("name", self.rng.choice("ij"))
        kind = self.rng.choice(["ids", "offsets"])
        array = ["sorted", "int", f"s{self.rng.randint(1, 2)}_{kind}"]
        if kind == "ids":
            return ["element", "int", array, position]
        return ["count_le", "int", array, position]

    # --- Trees --------------------------------------------------------------------------------------------------------

    def integer(self, depth):
        rng = self.rng
        if depth <= 0:
            kind = rng.random()
            if kind < 0.6:
                return self.position()
            if kind < 0.9:
                return self.constant()
            return leaf("name", rng.choice(["Nq", "Nk"])) if kind < 0.94 else self.element("int")
        sub = lambda: self.integer(depth - 1 - rng.randint(0, 1))  # noqa: E731
        op = rng.choice(["add", "add", "sub", "sub", "mul", "floordiv", "mod", "minimum", "maximum", "abs", "neg",
                         "shr", "and", "or", "xor", "to_int", "where", "ordered", "element", "leaf", "divide", "clip"])
        if op in ("add", "sub", "minimum", "maximum", "and", "or", "xor"):
            return [op, "int", self.traced(sub), sub()]
        if op in ("abs", "neg"):
            return [op, "int", self.traced(sub)]
        if op in ("mul", "floordiv", "mod", "shr"):
            divisors = [1, 2, 3, 7, 16, 30, 64, 128] if op != "mul" else [2, 3, -1, -2, 5]
            choices = [1, 3, 5] if op == "shr" else divisors + ([-3, -16] if op in ("floordiv", "mod") else [])
            return [op, "int", self.traced(sub), leaf("const", rng.choice(choices))]
        if op == "divide":
            return [rng.choice(["floordiv", "mod"]), "int", self.traced(sub), self.traced(sub)]
        if op == "clip":
            return [op, "int", self.traced(sub), leaf("const", rng.randint(-5, 5)), self.constant()]
        if op == "to_int":
            return [op, "int", self.condition(depth - 1)]
        if op == "where":
            return [op, "int", self.condition(depth - 1), sub(), sub()]
        if op == "ordered":
            return self.ordered()
        return self.element("int") if op == "element" else self.integer(0)

    def traced(self, make):
        """Draws an operand that is not a constant. Python would compute a result of constants itself."""
        tree = make()
        while tree[0] == "const":
            tree = self.position()
        return tree

    def condition(self, depth):
        rng = self.rng
        if depth <= 0:
            return self.comparison()
        sub = lambda: self.condition(depth - 1)  # noqa: E731
        op = rng.choice(["and", "and", "and", "or", "or", "xor", "not", "where", "element", "logical", "compare",
                         "documents"] + ["real", "test"] * self.has_score)
        if op in ("and", "or", "xor"):
            return [op, "bool", sub(), sub()]
        if op == "logical":
            return [rng.choice(LOGICAL), "bool", sub(), sub()]
        if op == "not":
            return [rng.choice([op, "logical_not"]), "bool", sub()]
        if op == "where":
            return [op, "bool", sub(), sub(), sub()]
        if op == "real":
            compare = rng.choice(["lt", "le", "gt", "ge", "eq", "ne"])
            return [compare, "bool", self.traced_real(depth - 1), self.real(depth - 1)]
        if op == "test":
            return [rng.choice(TESTS), "bool", self.traced_real(depth - 1)]
        if op == "documents":
            left = self.ordered()
            right = [leaf("name", "j" if part == ["name", "int", "i"] else "i") if part[0] == "name" else part
                     for part in left[2:]]
            return [rng.choice(["eq", "eq", "eq", "le", "ge", "ne"]), "bool", left, left[:2] + right]
        return self.element("bool") if op == "element" and rng.random() < 0.4 else self.comparison()

    def comparison(self):
        depth = self.rng.choice([0, 0, 1, 1, 2])
        op = self.rng.choice(["lt", "le", "gt", "ge", "lt", "le", "gt", "ge", "eq", "ne"])
        return [op, "bool", self.traced(lambda: self.integer(depth)), self.integer(depth)]

    def number(self):
        values = EXTREME if self.rng.random() < self.extremes else USUAL
        return leaf("const", self.rng.choice(values))

    def traced_real(self, depth):
        tree = self.real(depth)
        return leaf("name", "s") if tree[0] == "const" else tree

    def real(self, depth):
        rng = self.rng
        if depth <= 0:
            kind = rng.random()
            if kind < 0.4 and self.has_score:
                return leaf("name", "s")
            if kind < 0.6:
                return self.number()
            return self.element("real") if kind < 0.75 else ["to_float", "real", self.traced(lambda: self.integer(1))]
        sub = lambda: self.real(depth - 1 - rng.randint(0, 1))  # noqa: E731
        left = lambda: self.traced_real(depth - 1)  # noqa: E731
        op = rng.choice(["add", "sub", "mul", "div", "minimum", "maximum", "neg", "abs", "where", "unary", "unary",
                         "unary", "binary", "floordiv", "mod", "power", "clip", "leaf"])
        if op in ("add", "sub", "mul", "div", "minimum", "maximum", "floordiv", "mod"):
            return [op, "real", left(), sub()]
        if op in ("neg", "abs"):
            return [op, "real", left()]
        if op == "where":
            return [op, "real", self.condition(depth - 1), sub(), left()]
        if op == "unary":
            return [rng.choice(UNARY), "real", left()]
        if op == "binary":
            return [rng.choice(BINARY), "real", left(), sub()]
        if op == "power":
            return [op, "real", left(), leaf("const", rng.choice([2, 3, -1, 0.5, 1.5, -2]))]
        if op == "clip":
            low, high = sorted([rng.choice(USUAL), rng.choice(USUAL)])
            return [op, "real", left(), leaf("const", low), leaf("const", high)]
        return self.real(0)


# --- Arrays -----------------------------------------------------------------------------------------------------------

def make_array(name, sizes, seed):
    """Returns the array that `name` describes, for the sizes of a case."""
    rng = np.random.default_rng([seed, sum(map(ord, name))])
    kind, longest = name.split("_")[1], max(sizes["nq"], sizes["nk"])
    if kind == "ids":
        return np.sort(rng.integers(0, rng.integers(1, 12), longest)).astype(np.int32)
    if kind == "offsets":
        cuts = np.sort(rng.integers(0, longest + 1, rng.integers(0, 6)))
        return np.concatenate([[0], cuts, [longest]]).astype(np.int32)
    extents = {"b": sizes["b"], "h": sizes["hq"], "i": sizes["nq"], "j": sizes["nk"], "t": TABLE}
    shape = tuple(extents[dim] for dim in name.split("_")[2])
    if kind == "int":
        return rng.integers(-3, max(4, longest), shape).astype(rng.choice([np.int32, np.int64]))
    if kind == "bool":
        return rng.random(shape) < rng.choice([0.1, 0.5, 0.9])
    # Multiples of 1/8 have few digits, so that their sums and products are exact.
    return (rng.integers(-32, 33, shape) / 8).astype(np.float16 if kind == "half" else np.float32)


def positions(sizes):
    """Returns the grids of positions and the lengths, by name."""
    extents = (sizes["b"], sizes["hq"], sizes["nq"], sizes["nk"])
    grids = np.ogrid[tuple(slice(extent) for extent in extents)]
    return {**dict(zip(POSITIONS, grids)), "Nq": np.asarray(sizes["nq"]), "Nk": np.asarray(sizes["nk"])}
