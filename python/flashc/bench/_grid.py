"""The cells that the benchmark measures, and the text that selects them."""

import dataclasses
import itertools

DTYPES = ("bf16", "f16")
_KEYS = {
    "dtype": "of q, k, v: bf16, f16 or both",
    "d": "head dimension; 192x128: of queries and keys, and of values",
    "n": "sequence length, of the queries and of the keys",
    "causal": "0, 1 or 0,1",
    "tokens": "batch * n",
    "hidden": "heads * head dimension of values",
    "batch": "instead of tokens",
    "heads": "instead of hidden",
    "group": "query heads per key head",
    "kv-heads": "key heads, instead of group",
}
DEFAULTS = {"dtype": ["bf16"], "d": [(d, d) for d in (64, 128, 256)], "n": [512, 1024, 2048, 4096, 8192, 16384],
            "causal": [0, 1], "tokens": [16384], "hidden": [2048], "group": [1]}

HELP = ("cells to measure: KEY=VALUES ..., e.g. d=64,192x128 n=512..4096 causal=0; VALUES are separated by commas, "
        "a..b doubles from a to b; keys: " + ", ".join(f"{key} ({what})" for key, what in _KEYS.items()))

# Lists of cells, by name. Each list joins the cells of several grids.
PRESETS = {
    # Cells that must be as fast as other cells. f16 must be as fast as bf16 everywhere. One key head for 8 query heads,
    # and keys that are wider than values, must be as fast as d = 128 with the same FLOPs.
    "related": [["dtype=bf16,f16"],
                ["d=128", "n=4096,16384", "group=8"],
                ["d=128", "n=4096,16384", "heads=20"],
                ["d=192x128", "n=4096,16384", "heads=16"]],
}


class GridError(ValueError):
    """The text of a grid is wrong, or selects an impossible cell."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One attention: q [batch, heads, n, d], k [batch, heads / group, n, d], v [batch, heads / group, n, dv]. Either
    its forward pass or its backward pass is measured."""
    d: int
    causal: bool
    n: int
    batch: int
    heads: int
    group: int = 1
    dv: int = 0
    dtype: str = "bf16"
    backward: bool = False

    def __post_init__(self):
        if not self.dv:
            object.__setattr__(self, "dv", self.d)

    @property
    def key_heads(self):
        return self.heads // self.group

    @property
    def dims(self):
        return str(self.d) if self.d == self.dv else f"{self.d}x{self.dv}"

    @property
    def flops(self):
        """The FLOPs, 2 B H Nq Nk (D + Dv): two products, with an addition and a multiplication per term. A causal mask
        halves them. The backward pass counts as 2.5 times the forward pass, since it has five products."""
        forward = 2 * self.batch * self.heads * self.n * self.n * (self.d + self.dv) / (2 if self.causal else 1)
        return 2.5 * forward if self.backward else forward

    def input_bytes(self, element_bytes=2):
        return (self.heads * self.d + self.key_heads * (self.d + self.dv)) * self.batch * self.n * element_bytes

    def relatives(self):
        """Returns {label: cell} for the cells with the same FLOPs with which this cell is compared."""
        found = {}
        if self.dtype != "bf16":
            found[f"{self.dtype} over bf16"] = dataclasses.replace(self, dtype="bf16")
        if self.group != 1:
            found["grouped over as many key heads as query heads"] = dataclasses.replace(self, group=1)
        heads, rest = divmod(self.heads * (self.d + self.dv), 256)
        if self.d != self.dv and not rest and heads % self.group == 0:
            found[f"d = {self.dims} over d = 128"] = dataclasses.replace(self, d=128, dv=128, heads=heads)
        return found

    def __str__(self):
        dtype = "" if self.dtype == "bf16" else f"{self.dtype} "
        group = f" group={self.group}" if self.group != 1 else ""
        direction = "backward " if self.backward else ""
        return (f"{direction}{dtype}d={self.dims} causal={int(self.causal)} n={self.n} batch={self.batch} "
                f"heads={self.heads}{group}")


def related(cells):
    """Groups the cells into lists that are measured together. A list has a cell and the cells with which it is
    compared."""
    def root(cell):
        for relative in cell.relatives().values():
            return root(relative)
        return cell

    found = {}
    for cell in cells:
        found.setdefault(root(cell), []).append(cell)
    return list(found.values())


def _number(key, text):
    try:
        value = int(text)
    except ValueError:
        raise GridError(f"{key}: expected a number, got '{text}'") from None
    if value <= 0 and key != "causal":
        raise GridError(f"{key}: expected a positive number, got {value}")
    if key == "causal" and value not in (0, 1):
        raise GridError(f"causal: expected 0 or 1, got {value}")
    return value


def _value(key, text):
    """Returns a value for a key: a number, a pair for d, or a name for dtype."""
    if key == "dtype":
        if text not in DTYPES:
            raise GridError(f"dtype: expected {' or '.join(DTYPES)}, got '{text}'")
        return text
    if key == "d":
        d, x, dv = text.partition("x")
        return _number(key, d), _number(key, dv if x else d)
    return _number(key, text)


def _values(key, text):
    values = []
    for part in text.split(","):
        first, dots, last = part.partition("..")
        if not dots:
            values.append(_value(key, part))
            continue
        if key in ("causal", "dtype"):
            raise GridError(f"{key}: expected values separated by commas, got '{part}'")
        low, high = _number(key, first), _number(key, last)
        if low > high:
            raise GridError(f"{key}: expected a..b with a <= b, got '{part}'")
        while low <= high:
            values.append(_value(key, str(low)))
            low *= 2
    return list(dict.fromkeys(values))


def _divide(total, what, part, name):
    if total % part:
        raise GridError(f"expected {what} to be a multiple of {name}, got {total} and {part}")
    return total // part


def parse_grid(items=()):
    """Returns the cells of `items` such as ["d=64,128", "n=512..4096"], in the order of the table. Keys that are not
    given have the values of DEFAULTS. Raises GridError."""
    chosen = {}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals or key not in _KEYS:
            raise GridError(f"expected KEY=VALUES with a key of {', '.join(_KEYS)}, got '{item}'")
        if key in chosen:
            raise GridError(f"{key} is given twice")
        chosen[key] = _values(key, text)
    for one, other in (("batch", "tokens"), ("heads", "hidden"), ("group", "kv-heads")):
        if one in chosen and other in chosen:
            raise GridError(f"expected {one} or {other}, got both")
    grid = {**DEFAULTS, **chosen}

    def either(one, other):
        """Chooses one of two keys, the one that is given. Returns pairs of this key and each of its values."""
        name = one if one in chosen or other not in grid else other
        return [(name, value) for value in grid[name]]

    cells = []
    for (d, dv), causal, width, heads_per, length, n, dtype in itertools.product(
            grid["d"], grid["causal"], either("heads", "hidden"), either("kv-heads", "group"),
            either("batch", "tokens"), grid["n"], grid["dtype"]):
        heads = width[1] if width[0] == "heads" else _divide(width[1], "hidden", dv, "dv")
        count = length[1] if length[0] == "batch" else _divide(length[1], "tokens", n, "n")
        group = heads_per[1] if heads_per[0] == "group" else _divide(heads, "heads", heads_per[1], "kv-heads")
        _divide(heads, "heads", group, "group")
        cells.append(Cell(d=d, causal=bool(causal), n=n, batch=count, heads=heads, group=group, dv=dv, dtype=dtype))
    return list(dict.fromkeys(cells))


def preset(name):
    """Returns the cells of one of PRESETS."""
    return list(dict.fromkeys(cell for items in PRESETS[name] for cell in parse_grid(items)))
