"""Evaluates the bounds that flash-print-mask-bounds prints."""

import re


class Int(int):
    """An integer whose `@` is division rounded up. It replaces affine's ceildiv, since `@` has the precedence
    of `*`."""


for _name in ("add", "sub", "mul", "floordiv", "mod", "neg", "radd", "rsub", "rmul"):
    def _wrapped(self, *other, _method=getattr(int, f"__{_name}__")):
        return Int(_method(self, *other))
    setattr(Int, f"__{_name}__", _wrapped)
Int.__matmul__ = lambda x, y: Int(-(-int(x) // int(y)))
Int.__rmatmul__ = lambda y, x: Int(-(-int(x) // int(y)))


def to_python(text):
    """Translates an affine expression to Python. Numbers become Ints, since `ceildiv` may follow them."""
    text = text.replace("floordiv", "//").replace("ceildiv", "@").replace("mod", "%")
    return re.sub(r"(?<![ds\d])(\d+)", r"Int(\1)", text)


class Interval:
    """The interval [begin, end) of named symbols, which is empty unless 0 <= condition."""

    def __init__(self, text):
        bounds, _, condition = text.strip().partition(") if 0 <= ")
        bounds = bounds.strip()[1:].removesuffix(")" if not condition else "")
        self.symbols = {}
        self.bounds = eval(f"lambda s: ({self.translate(bounds)},)", {"Int": Int})
        self.condition = eval(f"lambda s: {self.translate(condition or '0')}", {"Int": Int})

    def translate(self, text):
        """Replaces each name by s[n]. `%x[first]` is one name."""
        parts = re.split(r"(%[\w-]+(?:\[(?:first|last)\])?|\b(?:begin|end|i0|rows|j0|keys)\b)", text)
        for n in range(1, len(parts), 2):
            parts[n] = f"s[{self.symbols.setdefault(parts[n], len(self.symbols))}]"
        return "".join(parts[n] if n % 2 else to_python(parts[n]) for n in range(len(parts)))

    def get(self, values):
        symbols = [Int(values[name]) for name in self.symbols]
        begin, end = self.bounds(symbols)
        return (begin, end) if self.condition(symbols) >= 0 else (0, 0)


class PrintedBounds:
    """The bounds that are printed for one mask. `compile_line` compiles the operations of `where` lines."""

    def __init__(self, text, compile_line):
        lines = text.strip().split("\n")
        find = lambda start: next(line.removeprefix(start) for line in lines if line.startswith(start))
        self.kept, self.cut = ([] if text == "nothing" else [Interval(part) for part in text.split(" or ")]
                               for text in (find("kept "), find("cut ")))
        self.kind = find("class ").split(":")[0]
        self.steps = [compile_line(line.removeprefix("where ")) for line in lines if line.startswith("where ")]
        used = {name for line in lines if line.startswith("where ") for name in re.findall(r"%[\w-]+", line)}
        self.constants = {name: Int(match[1]) for name in used if (match := re.match(r"%c(-?\d+)(_\d+)?$", name))}
        self.positions = {name for name in used if name.startswith("%arg")}

    def evaluate(self, values, first, last):
        """Returns the tiles between the bounds, as two lists (kept, cut) of (begin, end)."""
        names = dict(values)
        for place, position in (("first", first), ("last", last)):
            at = {name: Int(position) for name in self.positions} | self.constants | values
            for name, step in self.steps:
                at[name] = step(at)
            for name, _ in self.steps:
                names[f"{name}[{place}]"] = names[name] = at[name]
        return [[interval.get(names) for interval in intervals] for intervals in (self.kept, self.cut)]
