"""The keys that are tuned, and the schedules that are tried."""

import itertools
from typing import NamedTuple


class Key(NamedTuple):
    """The conditions of a row of the table: an element type, head dimensions, and a class of masks."""
    d: int
    dv: int
    mask: str
    dtype: str

    def __str__(self):
        return f"{self.dtype} d={self.d} dv={self.dv} mask={self.mask}"


def key_of(cell):
    """Returns the key of a cell. A causal mask represents all masks that become loop bounds."""
    return Key(cell.d, cell.dv, "bounds" if cell.causal else "none", cell.dtype)


def by_key(cells):
    """Returns {Key: cells of the key, in order of n}. Raises ValueError if two cells of a key have the same n."""
    found = {}
    for cell in cells:
        found.setdefault(key_of(cell), []).append(cell)
    for key, members in found.items():
        members.sort(key=lambda cell: cell.n)
        if len({cell.n for cell in members}) < len(members):
            raise ValueError(f"expected one cell for each n of {key}, got several")
    return found


# The fields of a schedule whose values are searched. Other fields come from the table, or follow from these.
SPACE = {
    "consumers": ["2", "3", "4"],
    "kv-tile": ["64", "80", "96", "112", "128", "144", "160", "176"],
    "stages": ["2", "3", "4"],
    "q-stages": ["1", "2"],
    "tensor-sums": ["true", "false"],
    "wait-after": ["0", "6", "12"],
    "store": ["registers", "q-slot", "own-slot"],
    "epilogue": ["plain", "product", "softmax"],
}


def parse_space(items):
    """Returns SPACE with the values of items such as ["stages=2,3", "persistent=true,false"]. An item may add a field.
    Raises ValueError."""
    space = dict(SPACE)
    for item in items:
        key, equals, text = item.partition("=")
        values = list(dict.fromkeys(text.split(",")))
        if not equals or not key or not all(values):
            raise ValueError(f"expected CHOICE=VALUES such as stages=2,3, got '{item}'")
        space[key] = values
    return space


def schedules(space):
    """Returns all combinations of values as overrides, which are texts."""
    return [",".join(f"{key}={value}" for key, value in zip(space, values))
            for values in itertools.product(*space.values())]
