"""The cells that the benchmark measures, and the text that selects them."""

import dataclasses
import itertools

_KEYS = {
    "d": "head dimension",
    "n": "sequence length, of the queries and of the keys",
    "causal": "0, 1 or 0,1",
    "tokens": "batch * n",
    "hidden": "heads * d",
    "batch": "instead of tokens",
    "heads": "instead of hidden",
    "group": "query heads per key head",
}
DEFAULTS = {"d": [64, 128, 256], "n": [512, 1024, 2048, 4096, 8192, 16384], "causal": [0, 1], "tokens": [16384],
            "hidden": [2048], "group": [1]}

HELP = ("cells to measure: KEY=VALUES ..., e.g. d=64,128 n=512..4096 causal=0; VALUES are separated by commas, a..b "
        "doubles from a to b; keys: " + ", ".join(f"{key} ({what})" for key, what in _KEYS.items()))


class GridError(ValueError):
    """The text of a grid is wrong, or selects something impossible."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One attention: q [batch, heads, n, d]; k and v [batch, heads / group, n, d]."""
    d: int
    causal: bool
    n: int
    batch: int
    heads: int
    group: int = 1

    @property
    def key_heads(self):
        return self.heads // self.group

    @property
    def flops(self):
        """4 B H Nq Nk D, half of it if causal: two products, an addition and a multiplication a term."""
        return 4 * self.batch * self.heads * self.n * self.n * self.d / (2 if self.causal else 1)

    def input_bytes(self, element_bytes=2):
        return (self.heads + 2 * self.key_heads) * self.batch * self.n * self.d * element_bytes

    def __str__(self):
        group = f" group={self.group}" if self.group != 1 else ""
        return f"d={self.d} causal={int(self.causal)} n={self.n} batch={self.batch} heads={self.heads}{group}"


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


def _values(key, text):
    values = []
    for part in text.split(","):
        first, dots, last = part.partition("..")
        if not dots:
            values.append(_number(key, part))
            continue
        if key == "causal":
            raise GridError(f"causal: expected 0, 1 or 0,1, got '{part}'")
        low, high = _number(key, first), _number(key, last)
        if low > high:
            raise GridError(f"{key}: expected a..b with a <= b, got '{part}'")
        while low <= high:
            values.append(low)
            low *= 2
    return list(dict.fromkeys(values))


def _divide(total, what, part, name):
    if total % part:
        raise GridError(f"expected {what} to be a multiple of {name}, got {total} and {part}")
    return total // part


def parse_grid(items=()):
    """The cells of `items` such as ["d=64,128", "n=512..4096"], in the order of the table. What no item
    says is as in DEFAULTS. Raises GridError."""
    chosen = {}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals or key not in _KEYS:
            raise GridError(f"expected KEY=VALUES with a key of {', '.join(_KEYS)}, got '{item}'")
        if key in chosen:
            raise GridError(f"{key} is given twice")
        chosen[key] = _values(key, text)
    for one, other in (("batch", "tokens"), ("heads", "hidden")):
        if one in chosen and other in chosen:
            raise GridError(f"expected {one} or {other}, got both")
    grid = {**DEFAULTS, **chosen}
    batches = [("batch", value) for value in chosen["batch"]] if "batch" in chosen else [
        ("tokens", value) for value in grid["tokens"]]
    widths = [("heads", value) for value in chosen["heads"]] if "heads" in chosen else [
        ("hidden", value) for value in grid["hidden"]]
    cells = []
    for d, causal, width, group, batch, n in itertools.product(grid["d"], grid["causal"], widths, grid["group"],
                                                               batches, grid["n"]):
        heads = width[1] if width[0] == "heads" else _divide(width[1], "hidden", d, "d")
        count = batch[1] if batch[0] == "batch" else _divide(batch[1], "tokens", n, "n")
        _divide(heads, "heads", group, "group")
        cells.append(Cell(d=d, causal=bool(causal), n=n, batch=count, heads=heads, group=group))
    return list(dict.fromkeys(cells))
