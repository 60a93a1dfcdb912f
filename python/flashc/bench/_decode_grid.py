"""The cells of the decoding benchmark, and the text of `--decode` that selects them."""

import dataclasses
import itertools
import random
import re

MOST_BYTES = 100 << 30

#: The distributions of lengths: the number of keys of a sequence, for the cell's N and a random u from 0 to 1.
LENGTHS = {
    "equal": lambda n, u: n,
    "even": lambda n, u: n // 8 + int(u * (n - n // 8)),
    "tail": lambda n, u: int(n * u**4) + 64,  # a heavy tail: half of the sequences have less than n / 16 + 64 keys
}


@dataclasses.dataclass(frozen=True)
class Cell:
    batch: int
    keys: int
    query_heads: int = 32
    key_heads: int = 8
    depth: int = 128
    #: The number of rows of a page. 0: no pages.
    page: int = 0
    #: "hnd": the tokens of a head are contiguous, in the cache or in a page. "nhd": the heads of a token are
    #: contiguous.
    layout: str = "hnd"
    #: The number of queries of each sequence; or the kinds of sequences of a step, whose queries are packed.
    #: "32x1+4x64" is 32 sequences with one query, then 4 sequences with 64.
    queries: str = "1"
    #: The distribution of the lengths, a name of LENGTHS. No sequence has more than `keys` keys.
    lengths: str = "equal"

    #: _peers reads whether the mask is causal. Its peers run cells of one query, which sees all keys. With several
    #: queries the mask is causal, and ends at the last key.
    causal = False

    @property
    def group(self):
        return self.query_heads // self.key_heads

    @property
    def is_packed(self):
        return "x" in self.queries

    @property
    def is_plain(self):
        """Whether each sequence has one query and all keys."""
        return self.queries == "1" and self.lengths == "equal"

    @property
    def kinds(self):
        """Returns [(sequences, queries of each)]."""
        if not self.is_packed:
            return [(self.batch, int(self.queries))]
        return [tuple(map(int, part.split("x"))) for part in self.queries.split("+")]

    @property
    def query_counts(self):
        """The number of queries of each sequence."""
        return [queries for count, queries in self.kinds for _ in range(count)]

    @property
    def key_counts(self):
        """The number of keys of each sequence. They do not depend on heads, the head dimension and pages."""
        rng = random.Random(f"{self.batch} {self.keys} {self.lengths}")
        return [max(queries, min(self.keys, LENGTHS[self.lengths](self.keys, rng.random())))
                for queries in self.query_counts]

    @property
    def bytes(self):
        """The number of bytes of keys and values, which a call reads once."""
        return sum(self.key_counts) * self.key_heads * self.depth * 4

    @property
    def cache_bytes(self):
        """The number of bytes of a cache in which each sequence has room for `keys` keys."""
        return self.batch * self.keys * self.key_heads * self.depth * 4

    @property
    def kind(self):
        """The text of all fields except the batch and the number of keys."""
        return self._heads + self._rest

    @property
    def family(self):
        """The name of the cells of which the summary has a mean."""
        if len(self.kinds) > 1:
            return "mixed steps"
        if self.lengths != "equal":
            return f"lengths={self.lengths}"
        return "one query" if self.kinds[0][1] == 1 else "several queries"

    @property
    def _heads(self):
        return f"{self.query_heads}/{self.key_heads} d={self.depth}"

    @property
    def _rest(self):
        return "".join([f" queries={self.queries}" if self.queries != "1" else "",
                        f" page={self.page}" if self.page else "", " nhd" if self.layout == "nhd" else "",
                        f" lengths={self.lengths}" if self.lengths != "equal" else ""])

    def __str__(self):
        return f"{self._heads} B={self.batch} N={self.keys}{self._rest}"


def grid(heads=((32, 8), (64, 8), (32, 32)), depths=(128, 64), batches=(1, 4, 16, 64, 128),
         keys=(1024, 4096, 16384, 65536), pages=(0,), layouts=("hnd",), queries=("1",), lengths=("equal",)):
    """Returns the cells whose caches fit into the memory of the GPU several times. Packed queries say the batch."""
    cells = []
    for (hq, hk), d, count in itertools.product(heads, depths, queries):
        step = Cell(0, 0, queries=count)
        chosen = [len(step.query_counts)] if step.is_packed else batches
        cells += [Cell(b, n, hq, hk, d, page, layout, count, length) for b, n, layout, page, length in
                  itertools.product(chosen, keys, layouts, pages, lengths)]
    return [cell for cell in cells if 2 * cell.cache_bytes <= MOST_BYTES // 2]


# --- Named sets of cells ----------------------------------------------------------------------------------------------

HEADS = ((32, 8), (64, 8), (32, 32))
SERVING = {"pages": (16,), "layouts": ("nhd",)}  # the pages of vLLM
MIXED = "32x1+4x512+4x64"


def _of(heads, batch, keys, *queries, lengths="equal"):
    return grid((heads,), (128,), (batch,), keys, queries=[str(count) for count in queries], lengths=(lengths,),
                **SERVING)


def _step():
    """The cells in which flashc was measured together with FlashAttention-3 and FlashInfer before tiles had the rows of
    a group."""
    grouped, wide, cells = (32, 8), (64, 8), []
    for heads in (grouped, wide):
        for batch in (1, 8, 64, 128):
            cells += _of(heads, batch, (1024, 4096, 16384, 65536) if batch < 64 else (1024, 4096, 16384), 1)
    for batch, keys in ((4, (8192, 32768)), (16, (4096, 8192, 16384, 32768)), (32, (8192, 32768)),
                        (64, (4096, 16384)), (128, (8192,))):
        cells += _of(grouped, batch, keys, 1, lengths="even")
    for batch, keys, most in ((8, 4096, 256), (1, 16384, 256), (32, 2048, 256), (64, 8192, 128)):
        cells += _of(grouped, batch, (keys,), *_doubling(2, most))
    cells += _of(grouped, 1, (8192,), 512) + _of(grouped, 4, (8192,), 512) + _of(grouped, 16, (4096,), 4)
    return cells + _of(grouped, 1, (32768,), 2048) + _of(wide, 8, (4096,), 4, 16, 64)


def _doubling(first, last):
    return [first << i for i in range((last // first).bit_length())]


def _drawn(count, seed):
    """Draws different cells whose caches have at most 16 GB."""
    axes = HEADS, (64, 128), _doubling(1, 2048), (1, 8, 64), _doubling(1024, 65536)
    rng, cells = random.Random(seed), {}
    while len(cells) < count:
        (hq, hk), d, queries, batch, keys = map(rng.choice, axes)
        cell = Cell(batch, keys, hq, hk, d, 16, "nhd", str(queries))
        if queries <= keys and cell.cache_bytes <= 16 << 30:
            cells[cell] = None
    return list(cells)


def _lengths():
    return grid(((32, 8),), (128,), (16, 64), (8192, 32768), queries=("1", "4", "16"), lengths=("even", "tail"),
                **SERVING)


def _mixed():
    cells = grid(HEADS, (128, 64), (), (4096, 16384), queries=(MIXED,), **SERVING)
    return cells + grid(HEADS, (128, 64), (), (8192,), queries=(MIXED,), lengths=("even", "tail"), **SERVING)


SETS = {"step": _step, "drawn": _drawn, "lengths": _lengths, "mixed": _mixed}


# --- The text of --decode ---------------------------------------------------------------------------------------------

def _read_number(key, text):
    if not text.isdecimal() or (int(text) == 0 and key not in ("page", "seed")):
        raise ValueError(f"{key}: expected a positive number, got '{text}'")
    return int(text)


def _read_heads(text):
    heads = tuple(_read_number("heads", part) for part in text.split("/"))
    if len(heads) != 2 or heads[0] % heads[1]:
        raise ValueError(f"heads: expected query heads / key heads, a multiple of them, got '{text}'")
    return heads


def _read_queries(text):
    kind = "[1-9][0-9]*x[1-9][0-9]*"
    if not re.fullmatch(rf"[1-9][0-9]*|{kind}(\+{kind})*", text):
        raise ValueError(f"queries: expected a number, or kinds of sequences such as {MIXED}, got '{text}'")
    return text


def _read_name(key, names):
    def read(text):
        if text not in names:
            raise ValueError(f"{key}: expected {', '.join(names[:-1])} or {names[-1]}, got '{text}'")
        return text
    return read


_READ = {"heads": _read_heads, "queries": _read_queries,
         **{key: _read_name(key, names) for key, names in (("layout", ["hnd", "nhd"]), ("lengths", list(LENGTHS)),
                                                           ("cells", list(SETS)))}}
_AXES = {"heads": "heads", "d": "depths", "b": "batches", "n": "keys", "page": "pages", "layout": "layouts",
         "queries": "queries", "lengths": "lengths"}
_OF_SETS = "cells", "count", "seed"


def parse(texts):
    """Returns the cells of --decode's arguments, such as "heads=32/8,64/8", "b=1,4", "n=1024", "page=0,16"; or the sets
    of "cells=step,drawn"."""
    found = {}
    for text in texts:
        key, _, values = text.partition("=")
        if (key not in _AXES and key not in _OF_SETS) or not values:
            raise ValueError(f"expected {'=, '.join(_AXES)}= or cells=, got '{text}'")
        read = _READ.get(key, lambda value, key=key: _read_number(key, value))
        found[key] = list(map(read, values.split(",")))
    if any(key in found for key in _OF_SETS):
        return _choose(found)
    cells = grid(**{_AXES[key]: values for key, values in found.items()})
    for cell in cells:
        if cell.page and cell.keys % cell.page:
            raise ValueError(f"expected n to be a multiple of page, got {cell.keys} and {cell.page}")
        if max(cell.query_counts) > cell.keys:
            raise ValueError(f"expected at most n queries, got {cell.queries} and {cell.keys}")
    return cells


def _choose(found):
    """Returns the cells of named sets, each cell once."""
    if any(key not in _OF_SETS for key in found) or "cells" not in found:
        raise ValueError(f"expected cells= alone or with count= and seed=, got {'=, '.join(found)}=")
    count, seed = (found.get(key, default)[0] for key, default in (("count", [60]), ("seed", [42])))
    return list(dict.fromkeys(cell for name in found["cells"]
                              for cell in (_drawn(count, seed) if name == "drawn" else SETS[name]())))
