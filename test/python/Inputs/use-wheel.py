"""Runs attention from an installed wheel on the CPU: use-wheel.py buffers, or use-wheel.py numpy PYTHON.

With `numpy`, NumPy is imported from the installation of the interpreter PYTHON, because the environment of the wheel
has no packages.
"""

import array
import importlib.util
import math
import os
import subprocess
import sys

import flashc

SHAPE = (1, 2, 5, 8)


def run_on_buffers():
    """All scores are zero, so row i of causal attention is the mean of rows 0 to i of v."""
    count = math.prod(SHAPE)
    make = lambda values: memoryview(array.array("f", values)).cast("B").cast("f", SHAPE)
    zeros = make([0.0] * count)
    v = make([float(index // SHAPE[3] % SHAPE[2]) for index in range(count)])
    o = flashc.attention(zeros, zeros, v, causal=True)
    rows = [round(o[0, 1, row, 0], 4) for row in range(SHAPE[2])]
    print("buffers:", *rows)


def run_on_numpy(python):
    find = "import numpy, os; print(os.path.dirname(os.path.dirname(numpy.__file__)))"
    sys.path.append(subprocess.run([python, "-c", find], check=True, capture_output=True, text=True).stdout.strip())
    import numpy as np
    q, k, v = np.random.default_rng(0).standard_normal((3,) + SHAPE, dtype=np.float32)
    o = flashc.attention(q, k, v)
    scores = np.exp(q @ k.swapaxes(2, 3) / math.sqrt(SHAPE[3]))
    error = np.abs(o - scores / scores.sum(-1, keepdims=True) @ v).max()
    print("numpy:", type(o).__name__, "right" if error < 1e-5 else f"wrong by {error}")


def main():
    assert importlib.util.find_spec("numpy") is None, "expected an environment without NumPy"
    assert os.path.dirname(flashc.__file__).startswith(sys.prefix), flashc.__file__
    print("flashc", flashc.__version__)
    if sys.argv[1] == "buffers":
        run_on_buffers()
    else:
        run_on_numpy(sys.argv[2])


if __name__ == "__main__":
    main()
