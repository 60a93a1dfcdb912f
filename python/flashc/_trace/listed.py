"""Lists and tuples that a mask or a score refers to, which a traced value may index: `windows[h]`.

Python's own lists would ask the traced value for a number. These copies behave like them, and select an entry for a
traced index. The entries are constants of the kernel, like all numbers that a function refers to.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable, Sequence, Union

from .functions import where
from .operators import as_index, is_real
from .region import INDEX, Value, check_region, error, wrap_index

# The most numbers of an indexed list. Each costs a comparison and a select for every pair of a query and a key.
_MOST_NUMBERS = 64


def holds_numbers(x: Union[list, tuple]) -> bool:
    """Whether a list or a tuple has numbers, so that a traced value may index it."""
    return any(isinstance(entry, (int, float)) for entry in x)


def _select(entries: Sequence[Any], index: Value) -> Any:
    """Returns the entry at a traced index from 0 on. If the entries are lists of one length, each column is selected by
    itself."""
    if isinstance(entries[0], (list, tuple)):
        length = len(entries[0])
        if any(not isinstance(entry, (list, tuple)) or len(entry) != length for entry in entries):
            raise error("expected lists of one length in a list that is indexed by a traced value")
        kind = ListedList if isinstance(entries[0], list) else ListedTuple
        return kind([_select(column, index) for column in zip(*entries)])
    result = entries[-1]
    for place in range(len(entries) - 2, -1, -1):
        result = where(index <= place, entries[place], result)
    return result


def _count(entries: Sequence[Any]) -> int:
    return sum(_count(entry) if isinstance(entry, (list, tuple)) else 1 for entry in entries)


def _entry(entries: Sequence[Any], index: Value) -> Any:
    check_region(index)
    if is_real(index):
        raise error("expected an integer as index into a list, got a real number")
    if not entries:
        raise error("expected a list with entries, got an empty one that is indexed by a traced value")
    count = _count(entries)
    if count > _MOST_NUMBERS:
        raise error(f"expected at most {_MOST_NUMBERS} numbers in a list that is indexed by a traced value, got "
                    f"{count}: make it an array on the device of q before the call, which is read where it is")
    if index._type != INDEX:  # A condition is 0 or 1, as for a list of Python.
        index = index._region.kind(index._region, as_index(index._region, index), INDEX, True)
    region = index._region
    place = wrap_index(index, region.index(len(entries)), f"a {type(entries).__mro__[1].__name__} of {len(entries)}")
    return _select(entries, region.kind(region, place, INDEX, True))


class ListedTuple(tuple):
    """A tuple that a traced value can index."""
    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, Value):
            return _entry(self, index)
        result = tuple.__getitem__(self, index)
        return ListedTuple(result) if isinstance(index, slice) else result


class ListedList(list):
    """A list that a traced value can index. Changes to it are made to `original`, too."""
    __slots__ = ("original",)

    def __init__(self, entries: Sequence[Any] = (), original: Any = None) -> None:
        super().__init__(entries)
        self.original = original

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, Value):
            return _entry(self, index)
        result = list.__getitem__(self, index)
        return ListedList(result) if isinstance(index, slice) else result


def _on_both(name: str) -> Callable[..., Any]:
    of_list = getattr(list, name)

    def method(self: ListedList, *arguments: Any, **keywords: Any) -> Any:
        arguments = tuple(list(x) if isinstance(x, Iterator) else x for x in arguments)
        if self.original is not None:
            of_list(self.original, *arguments, **keywords)
        return of_list(self, *arguments, **keywords)
    method.__name__ = name
    return method


for _name in ("__setitem__", "__delitem__", "__iadd__", "__imul__", "append", "clear", "extend", "insert", "pop",
              "remove", "reverse", "sort"):
    setattr(ListedList, _name, _on_both(_name))
