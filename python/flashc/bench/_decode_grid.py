"""The cells of the decoding benchmark, and the text of `--decode` that selects them."""

import dataclasses

MOST_BYTES = 100 << 30


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

    #: _peers reads whether the mask is causal. It is not: the only query sees all keys.
    causal = False

    @property
    def group(self):
        return self.query_heads // self.key_heads

    @property
    def bytes(self):
        """The number of bytes of keys and values, which a call reads once."""
        return self.batch * self.keys * self.key_heads * self.depth * 4

    @property
    def kind(self):
        """The text of all fields except the batch and the number of keys."""
        return self._heads + self._memory

    @property
    def _heads(self):
        return f"{self.query_heads}/{self.key_heads} d={self.depth}"

    @property
    def _memory(self):
        return (f" page={self.page}" if self.page else "") + (" nhd" if self.layout == "nhd" else "")

    def __str__(self):
        return f"{self._heads} B={self.batch} N={self.keys}{self._memory}"


def grid(heads=((32, 8), (64, 8), (32, 32)), depths=(128, 64), batches=(1, 4, 16, 64, 128),
         keys=(1024, 4096, 16384, 65536), pages=(0,), layouts=("hnd",)):
    """Returns the cells whose caches fit into the memory of the GPU several times."""
    cells = [Cell(b, n, hq, hk, d, page, layout) for hq, hk in heads for d in depths for b in batches for n in keys
             for layout in layouts for page in pages]
    return [cell for cell in cells if 2 * cell.bytes <= MOST_BYTES // 2]


def _read_number(key, text):
    if not text.isdecimal() or (int(text) == 0 and key != "page"):
        raise ValueError(f"{key}: expected a positive number, got '{text}'")
    return int(text)


def _read_heads(text):
    heads = tuple(_read_number("heads", part) for part in text.split("/"))
    if len(heads) != 2 or heads[0] % heads[1]:
        raise ValueError(f"heads: expected query heads / key heads, a multiple of them, got '{text}'")
    return heads


def _read_layout(text):
    if text not in ("hnd", "nhd"):
        raise ValueError(f"layout: expected hnd or nhd, got '{text}'")
    return text


def parse(texts):
    """Returns the cells of --decode's arguments, such as "heads=32/8,64/8", "b=1,4", "n=1024", "page=0,16"."""
    names = {"heads": "heads", "d": "depths", "b": "batches", "n": "keys", "page": "pages", "layout": "layouts"}
    axes = {}
    for text in texts:
        key, _, values = text.partition("=")
        if key not in names or not values:
            raise ValueError(f"expected heads=, d=, b=, n=, page= or layout=, got '{text}'")
        read = {"heads": _read_heads, "layout": _read_layout}.get(key, lambda value, key=key: _read_number(key, value))
        axes[names[key]] = list(map(read, values.split(",")))
    cells = grid(**axes)
    for cell in cells:
        if cell.page and cell.keys % cell.page:
            raise ValueError(f"expected n to be a multiple of page, got {cell.keys} and {cell.page}")
    return cells
