"""The options of a call, which inner functions pass on, and that a kernel does not depend on anything else."""
import ast
import json
import os
import pathlib

import numpy as np
import pytest

import flashc
from flashc._runtime import library
from flashc._runtime.calls import Inputs, case_of
from flashc._runtime.options import VECTORS, Operands, Options
from flashc._runtime.specialization import Specialization

PACKAGE = pathlib.Path(flashc.__file__).parent


def test_options_are_checked_once():
    options = Options(True, scale=0.5)
    assert options.checked() is options
    given = Options(1, (None, np.int64(3)), np.float32(0.5), 0.1, np.True_, layout=str(b"bshd", "ascii"))
    checked = given.checked(philox=object())
    assert checked == Options(True, (-1, 3), 0.5, 26 / 256, True, layout="bshd") and checked.checked(1) == checked
    assert type(checked.causal) is type(checked.enable_gqa) is bool and type(checked.scale) is float
    assert hash(checked) == hash(checked._replace())


@pytest.mark.parametrize("given, words", [
    (Options(causal="yes"), "causal to be True or False"), (Options(window=(1, 2, 3)), r"window to be \(left, right\)"),
    (Options(window=(True, 0)), "left side of window"), (Options(scale="1"), "scale to be a number"),
    (Options(layout="bsd"), "layout 'bhsd'"), (Options(dropout_p=2), "dropout_p to be 0"),
    (Options(schedule=3), "schedule to be text"), (Options(deterministic=3), "deterministic to be True or False")])
def test_options_that_are_none(given, words):
    with pytest.raises(flashc.Error, match=f"expected (the )?{words}"):
        given.checked()


def test_windows_of_kernels():
    for options, mask in ((Options(), (library.MASK_NONE, (-1, -1))), (Options(True), (library.MASK_CAUSAL, (-1, 0))),
                          (Options(window=(-1, 0)), (library.MASK_CAUSAL, (-1, 0))),
                          (Options(True, (5, 7)), (library.MASK_WINDOW, (5, 0)))):
        assert options.mask() == mask


def test_vectors_are_the_last_operands():
    assert Operands._fields[5:] == tuple(VECTORS)
    assert list(Operands(1, 2, 3, philox=4).arrays()) == ["q", "k", "v", "philox"]


def test_options_reach_the_compiler_by_their_names():
    options = Options(dropout_p=0.25, deterministic=True, operation=library.ATTENTION_BACKWARD).of_kernel(64)
    described = Specialization("bf16", 64, 64, options=options, vectors=("sinks", "philox")).describe()
    assert described.options == b"sinks,dropout_p=0.25,deterministic"


def test_the_manifest_names_the_arguments_of_a_cache():
    """Tests both targets, since GPU kernels and CPU programs find the arguments in different ways."""
    for target in ("sm_90a", "cpu"):
        kernel = Specialization("bf16", 64, 64, 2,
                                Options(return_lse=True).of_kernel(64), target, page_size=16, cache_dtype="i8",
                                scales=(False, True), vectors=("sinks",), extents=(0, 2, 1, 0)).compile()
        names = [argument["name"] for argument in json.loads(kernel.manifest())["arguments"]]
        assert names == ["q", "k", "v", "lengths", "block_table", "k_scale", "v_scale", "sinks", "o", "lse"]


def test_calls_of_equal_shapes_are_checked_once():
    cases, made, x = {}, [], np.zeros((2, 3), np.float32)

    def make(inputs, options):
        made.append(options)
        return len(made)
    for array, options, number in ((x, 1, 1), (x + 1, 1, 1), (x, 2, 2), (x.astype(np.float64), 1, 3), (x[:1], 1, 4),
                                   (np.zeros((4, 3), np.float32)[::2], 1, 5), (x, 1, 1)):
        assert case_of(make, Inputs({"x": array}), options, cases) == number
    # A converted array is as one that had the type before.
    inputs = Inputs({"x": x.astype(np.float64)})
    inputs.widen("x", "f32")
    assert case_of(make, inputs, 1, cases) == 1 and inputs["x"].dtype == "f32"


def test_functions_have_few_parameters():
    """Functions that users do not call have at most eight parameters: the options of a call are passed as Options.
    Frameworks decide the parameters of integrations."""
    for folder, _, names in os.walk(PACKAGE):
        for name in (name for name in names if name.endswith(".py") and not folder.endswith("integrations")):
            for node in ast.walk(ast.parse(pathlib.Path(folder, name).read_text())):
                if isinstance(node, ast.FunctionDef) and not any(
                        getattr(x, "id", "") == "public" for x in node.decorator_list):
                    named = [x.arg for x in (*node.args.args, *node.args.kwonlyargs) if x.arg not in ("self", "cls")]
                    assert len(named) <= 8, f"{name}:{node.lineno}: {node.name} has {len(named)} parameters"
