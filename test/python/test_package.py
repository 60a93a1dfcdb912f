"""The texts of the package about itself: `python -m flashc`, `help(flashc)`, the annotations of arrays."""
import inspect
import os
import subprocess
import sys

import numpy as np
import pytest

import flashc
from flashc import __main__ as program
from flashc._documents import documents


def run(*arguments):
    done = subprocess.run([sys.executable, "-m", "flashc", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_program_says_what_there_is():
    text = run()
    for word in (flashc.__version__, os.environ["FLASHC_LIBRARY"], documents(), "not installed", "neighborhood",
                 "python -m flashc.bench", "python -m flashc.tune", "attention_backward", "relative_bias",
                 "functions for masks and scores", "scaled_dot_product_attention and flex_attention"):
        assert word in text, text
    assert set(program._SOME_OPS) <= set(flashc.ops.__all__)
    assert run("--docs").strip() == documents()
    done = subprocess.run([sys.executable, "-m", "flashc", "--prefix"], capture_output=True, text=True)
    assert done.returncode == 2 and "expected CMake's files next to the library, found none" in done.stderr


@pytest.mark.parametrize("capabilities, words", [
    ([], "none found: no CUDA driver"), ([(9, 0)], "0: Some GPU, sm_90: all functions"),
    ([(9, 0), (8, 0)], "1: Some GPU, sm_80: decode alone"), ([(10, 0)], "sm_100: decode alone"),
    ([(7, 5)], "sm_75: no function")])
def test_program_says_what_a_gpu_takes(monkeypatch, capabilities, words):
    monkeypatch.setattr(flashc, "devices", lambda: len(capabilities))
    monkeypatch.setattr(program, "capability_of", capabilities.__getitem__)
    monkeypatch.setattr(program, "gpu_name", lambda device: "Some GPU")
    assert words in program.report()


def test_program_says_why_there_is_no_gpu(monkeypatch):
    def fail():
        raise flashc.GPUError("the driver is too old")
    monkeypatch.setattr(flashc, "devices", fail)
    assert "none usable: the driver is too old" in program.report()


def test_help_leads_to_the_documents():
    folder = documents()
    assert folder in flashc.__doc__
    for name in ("README.md", "api.md", "recipes.md"):
        assert name in flashc.__doc__ and os.path.isfile(os.path.join(folder, name))


ARRAYS = {"q", "k", "v", "o", "lse", "do", "sinks", "lengths", "block_table", "k_cache", "v_cache", "cu_seqlens_q",
          "cu_seqlens_k", "philox", "counts", "positions", "k_scale", "v_scale", "dlse"}


def test_arrays_are_typed_as_arrays():
    """The annotation of every array parameter says that it is an array, and whether it may be None."""
    functions = [getattr(flashc, name) for name in flashc.__all__ if inspect.isfunction(getattr(flashc, name))]
    functions.remove(flashc.dropout_mask)  # it runs on the host and takes two numbers
    found = {(function.__name__, name): str(parameter.annotation) for function in functions
             for name, parameter in inspect.signature(function).parameters.items() if name in ARRAYS}
    assert len(found) > 30
    assert {place: text for place, text in found.items() if "Array" not in text and "IntegersLike" not in text} == {}
    for function in functions:
        for name, parameter in inspect.signature(function).parameters.items():
            assert name not in ("mask", "score", "captured", "array") or parameter.annotation != "Any", (function, name)
    for (function, name), text in found.items():
        default = inspect.signature(getattr(flashc, function)).parameters[name].default
        assert ("Optional" in text or "None" in text) == (default is None), (function, name)


def test_frameworks_have_such_arrays():
    from flashc._arrays import protocol
    assert isinstance(np.zeros(3), protocol.SupportsArrayInterface)
    torch = pytest.importorskip("torch")
    assert isinstance(torch.zeros(3), protocol.SupportsDLPack)
    assert not isinstance([1, 2], (protocol.SupportsDLPack, protocol.SupportsArrayInterface,
                                   protocol.SupportsCudaArrayInterface))
