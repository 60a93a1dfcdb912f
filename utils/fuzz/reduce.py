"""Makes a failing case smaller while it still fails in the same way."""

import time


def reduce_list(items, fails, deadline):
    """Returns a smaller list for which `fails` holds. Leaves out runs of elements, long ones first (delta debugging,
    Zeller and Hildebrandt 2002). `fails(items)` must hold."""
    length = max(1, len(items) // 2)
    while length and items:
        begin, is_smaller = 0, False
        while begin < len(items) and time.monotonic() < deadline:
            fewer = items[:begin] + items[begin + length:]
            if fails(fewer):
                items, is_smaller = fewer, True
            else:
                begin += length
        if time.monotonic() >= deadline:
            break
        length = length if is_smaller and length == 1 else length // 2
    return items


def reduce_case(case, smaller, fails, deadline):
    """Replaces the case by the first smaller case that fails, until no smaller case does. `smaller(case)` yields
    smaller cases, those that leave out most first."""
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for other in smaller(case):
            if time.monotonic() >= deadline:
                return case
            if fails(other):
                case, is_smaller = other, True
                break
    return case
