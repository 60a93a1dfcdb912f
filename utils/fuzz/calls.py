"""Helpers of cases that call the Python package: sizes, masks and scores as functions, and smaller cases.
"""

import numpy as np

import flashc
from evaluate import evaluate
from expressions import arrays_of, function_source, smaller
from regions import make_array, positions

#: The least value of a size, where it is not 1.
LEAST = {"d": 8, "dv": 8}


class Fault(Exception):
    """The fault of a case. The text begins with words that stay the same if the case becomes smaller."""


def length(rng, longest):
    """Draws a number of queries or keys: near a tile's size, or any."""
    near = rng.choice([1, 2, 63, 64, 65, 127, 128, 129, 192, 256])
    return max(1, min(longest, rng.choice([near, near + rng.randint(-3, 3), rng.randint(1, longest)])))


def make_arrays(case):
    return {name: make_array(name, case["sizes"], case["seed"]) for name in arrays_of(case["mask"], case["score"])}


def as_function(node, parameters, arrays):
    """Returns the tree as a function, as a user would write it."""
    if node is None:
        return None
    return eval(function_source(node, parameters), {"ops": flashc.ops, "flashc": flashc, **arrays})


def functions(case, arrays):
    """Returns the arguments mask, score, causal and window of flashc's functions."""
    keywords = {"mask": as_function(case["mask"], "bhij", arrays), "score": as_function(case["score"], "sbhij", arrays),
                "causal": case["causal"], "window": case["window"] and tuple(case["window"])}
    return {name: value for name, value in keywords.items() if value}


def dense_mask(case, arrays):
    """Returns the kept pairs, [B, Hq, Nq, Nk]."""
    sizes, names = case["sizes"], positions(case["sizes"])
    keeps = np.ones((sizes["b"], sizes["hq"], sizes["nq"], sizes["nk"]), bool)
    distance = names["j"] - names["i"] - (sizes["nk"] - sizes["nq"])
    if case["causal"]:
        keeps &= distance <= 0
    left, right = case["window"] or (-1, -1)
    if left >= 0:
        keeps &= distance >= -left
    if right >= 0 and not case["causal"]:
        keeps &= distance <= right
    if case["mask"]:
        keeps &= np.broadcast_to(evaluate(case["mask"], {**names, **arrays}).v.astype(bool), keeps.shape)
    return keeps


def call(function, *arguments, **keywords):
    """Returns the result of a call; an error is a fault, since generated cases are valid."""
    try:
        return function(*arguments, **keywords)
    except flashc.Error as error:
        raise Fault(f"refused: {type(error).__name__}: {error}") from None
    except Exception as error:  # noqa: BLE001: which it would be is the question
        raise Fault(f"exception: {type(error).__name__}: {error}") from None


def smaller_calls(case):
    """Returns cases that are a little smaller."""
    for name in ("score", "mask", "window"):
        if case[name] is not None:
            yield {**case, name: None}
    for name in ("causal", "sinks", "dropout"):
        if case.get(name):
            yield {**case, name: type(case[name])()}
    for name, extent in case["sizes"].items():
        for value in sorted({LEAST.get(name, 1), extent // 2 // 8 * 8 if name in LEAST else extent // 2,
                             extent - LEAST.get(name, 1)}):
            sizes = {**case["sizes"], name: value}
            if LEAST.get(name, 1) <= value < extent and sizes["hq"] % sizes["hk"] == 0:
                yield {**case, "sizes": sizes}
    for name in ("mask", "score"):
        if case[name] is not None:
            for tree in smaller(case[name]):
                yield {**case, name: tree}


def show_call(case):
    """Returns the source of the call, as a user would write it."""
    lines = [", ".join(f"{name}={value}" for name, value in case["sizes"].items())]
    for name, array in make_arrays(case).items():
        text = np.array2string(array, threshold=40, separator=", ").replace("\n", "\n" + " " * 4)
        lines.append(f"{name} = np.array({text}, np.{array.dtype})")
    for name, parameters in (("mask", "bhij"), ("score", "sbhij")):
        if case[name]:
            lines.append(f"{name} = {function_source(case[name], parameters)}")
    rest = {name: value for name, value in case.items() if name not in ("sizes", "mask", "score", "kind")}
    return "\n".join(lines + [", ".join(f"{name}={value!r}" for name, value in rest.items())])
