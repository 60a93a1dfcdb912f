"""Tests the parts of utils/fuzz: mutations, reduction, evaluation, and the comparison of tiles and of numbers."""
import random

import numpy as np
import pytest

import mutations
import numbers_on_cpu
import programs
import tile_maps
from evaluate import OutOfRange, Value, evaluate
from expressions import function_source, leaf, size, smaller, walk
from reduce import reduce_case, reduce_list
from regions import Regions, make_array
from worker import key_of

FOREVER = float("inf")
SIZES = {"b": 1, "hq": 2, "hk": 1, "nq": 5, "nk": 9, "d": 8, "dv": 8}
PROGRAM = """func.func @f(%q: tensor<1x2x?x64xf16>, %n: index) -> index {
  %c = arith.constant 5 : index
  %x = arith.addi %n, %c {note = "text"} : index
  %p = arith.cmpi slt, %x, %n : index
  return %x : index
}
"""


# --- Mutations --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("mutation", [mutation for mutation, _ in mutations.MUTATIONS])
def test_every_mutation_changes_programs(mutation):
    texts = {mutation(random.Random(seed), PROGRAM) for seed in range(40)} - {PROGRAM}
    assert len(texts) > 3


def test_mutations_follow_from_the_seed():
    assert all(mutations.mutate(random.Random(seed), PROGRAM) == mutations.mutate(random.Random(seed), PROGRAM)
               for seed in range(20))


def test_constants_and_extents_are_told_apart():
    for seed in range(40):
        changed = mutations.change_constant(random.Random(seed), PROGRAM)
        assert "tensor<1x2x?x64xf16>" in changed and "constant" in changed
        changed = mutations.change_extent(random.Random(seed), PROGRAM)
        assert "arith.constant 5 : index" in changed and changed.count("x") == PROGRAM.count("x")


def test_tokens_are_the_text():
    assert "".join(mutations.tokens(PROGRAM)) == PROGRAM
    assert {"%q", "arith.addi", '"text"', "->"} <= set(mutations.tokens(PROGRAM))
    assert mutations.tokens("%s#12 : i1")[0] == "%s#12" and mutations.words("%x  = 1") == ["%x  ", "= ", "1"]


# --- Reduction --------------------------------------------------------------------------------------------------------

def test_lists_are_reduced_to_what_fails():
    assert reduce_list(list(range(100)), lambda items: {3, 71} <= set(items), FOREVER) == [3, 71]
    assert reduce_list([1, 2, 3], lambda items: True, FOREVER) == []
    assert reduce_list([1], lambda items: 1 in items, FOREVER) == [1]


def test_reduction_ends_at_its_deadline():
    assert reduce_list(list(range(10)), lambda items: pytest.fail("asked"), 0) == list(range(10))
    assert reduce_case(7, lambda case: [case - 1], lambda case: pytest.fail("asked"), 0) == 7


def test_trees_are_reduced_to_what_fails():
    regions = Regions(random.Random(0), SIZES)
    tree = next(tree for tree in iter(regions.mask, None)
                if size(tree) > 15 and any(node[0] == "floordiv" for node in walk(tree)))
    fails = lambda tree: any(node[0] == "floordiv" for node in walk(tree))  # noqa: E731
    reduced = reduce_case(tree, smaller, fails, FOREVER)
    assert fails(reduced) and size(reduced) <= 5 and reduced[1] == "bool"


def test_faults_of_one_cause_look_alike():
    assert key_of("numbers: row (0, 1): expected") == key_of("numbers: row (12, 0): got")
    assert key_of("crash: signal 11") != key_of("hang: more than 20 s") and key_of(None) is None


# --- Evaluation -------------------------------------------------------------------------------------------------------

def value(op, *operands):
    names = {f"x{n}": x if isinstance(x, Value) else np.asarray(x) for n, x in enumerate(operands)}
    return evaluate([op, "", *(["name", "", name] for name in names)], names)


def test_real_numbers_are_rounded_after_each_operation():
    assert value("add", np.float32(1e8), 1).v == np.float32(1e8) and value("add", np.float32(1e8), 1).e == 0
    assert value("div", 1, 3).v == np.float32(1) / np.float32(3)
    assert value("mul", np.float32(3e38), np.float32(2)).v == np.inf
    assert np.isnan(value("maximum", np.float32(np.nan), np.float32(1)).v)


def test_functions_have_errors_and_jumps_none():
    x = value("exp", np.float32(1.5))
    assert 0 < x.e < 1e-4
    assert value("floor", np.float32(1.5)).e == 0
    near = Value(np.float32(2), np.float64(1e-6))
    assert value("floor", near).e == np.inf or value("floor", near).e >= 1
    assert value("lt", near, np.float32(2)).e == np.inf and value("lt", near, np.float32(3)).e == 0
    assert value("exp", Value(np.float32(88.7), np.float64(1))).e == np.inf
    assert value("where", value("lt", near, np.float32(2)), np.float32(1), np.float32(2)).e == np.inf


def test_integers_are_those_of_flashc():
    assert value("floordiv", -7, 0).v == -7 and value("mod", -7, 0).v == 0
    assert value("floordiv", -7, 2).v == -4 and value("mod", -7, 3).v == 2
    assert value("element", np.arange(3), 9).v == 2 and value("element", np.arange(3), -9).v == 0
    assert value("element", np.arange(3), -1).v == 2 and value("element", np.arange(3), -3).v == 0
    with pytest.raises(OutOfRange):
        value("mul", 1 << 20, 1 << 20)


@pytest.mark.parametrize("seed", range(30))
def test_sources_mean_what_trees_do(seed):
    """Compares with Python's own operators on NumPy arrays, for masks that do not need flashc."""
    regions = Regions(random.Random(seed), SIZES)
    tree = next(tree for tree in iter(regions.mask, None)
                if not {"array", "sorted"} & {node[0] for node in walk(tree)} and "ops." not in
                function_source(tree, "bhij") and "floordiv" not in str(tree) and "mod" not in str(tree))
    i, j = np.ogrid[:5, :9]
    names = {"b": np.asarray(0), "h": np.asarray(1), "i": i, "j": j}
    got = eval(function_source(tree, "bhij"))(**names)
    assert np.array_equal(np.broadcast_to(got, (5, 9)), np.broadcast_to(evaluate(tree, names).v, (5, 9)))


def test_arrays_follow_from_their_names():
    assert make_array("a1_real_hj", SIZES, 0).shape == (2, 9)
    offsets = make_array("s1_offsets", SIZES, 0)
    assert offsets[0] == 0 and offsets[-1] == 9 and np.all(np.diff(offsets) >= 0)
    below = ["lt", "bool", leaf("name", "j"), leaf("const", -1)]
    assert function_source(below, "bhij") == "lambda b, h, i, j: (j < (-1))"


# --- Comparisons ------------------------------------------------------------------------------------------------------

def test_tiles_that_are_wrong_are_found():
    keeps = np.tril(np.ones((8, 8), bool))
    rows = tile_maps.rows_of(8, 4, None)

    def fault(got, is_exact=True):
        return tile_maps.find_fault(np.array(got), keeps, rows, 4, is_exact, False)
    assert fault([[1, 0], [2, 1]]) is None
    assert "skipped" in fault([[1, 0], [0, 1]]) and "is full" in fault([[2, 0], [2, 1]])
    assert "not tight" in fault([[1, 1], [2, 1]]) and fault([[1, 1], [2, 1]], False) is None
    assert "rows" in tile_maps.find_fault(np.zeros((1, 2)), keeps, rows, 4, True, False)


def test_moved_tiles_have_one_place():
    keeps = np.zeros((4, 16), bool)
    keeps[:, 6:14] = True
    got = np.array([[0, 2, 2, 0]])
    assert tile_maps.find_fault(got, keeps, [(0, 4)], 4, True, True) is None
    assert tile_maps.find_fault(got, keeps, [(0, 4)], 4, True, False)
    keeps[:, 3] = True
    assert "unsound" in tile_maps.find_fault(got, keeps, [(0, 4)], 4, False, True)


def test_rows_that_are_wrong_are_found():
    o, lse = np.ones((1, 1, 2, 8)), np.zeros((1, 1, 2))
    moved = np.zeros((1, 1, 2))
    compare = lambda o, lse: numbers_on_cpu.compare((o, lse), want, moved, 1.0, "float32")  # noqa: E731
    want = o, lse
    assert compare(o, lse) is None and compare(o * 1.01, lse) == (0, 0, 0)
    assert compare(o, lse + np.array([0, 0.01])) == (0, 0, 1)
    assert compare(np.where(np.arange(8) == 3, np.nan, o), lse) == (0, 0, 0)
    want = o * np.nan, lse * np.nan
    assert compare(want[0], want[1]) is None and compare(o, lse) == (0, 0, 0)
    want = o * 0, lse - np.inf
    assert compare(*want) is None and compare(o * 0, lse) == (0, 0, 0)
    moved[:] = 1  # nothing is known about these rows
    assert compare(o, lse) is None


def test_ends_of_programs_are_judged():
    assert programs.judge(0, "") is None and programs.judge(1, "error: expected\n") is None
    assert programs.judge(-11, "").startswith("crash: signal 11") and programs.judge(134, "").endswith("6")
    assert "LLVM ERROR: out" in programs.judge(-6, "LLVM ERROR: out of memory\n")
    assert programs.judge(-24, "").startswith("hang") and programs.judge(1, "\n").startswith("silent")
