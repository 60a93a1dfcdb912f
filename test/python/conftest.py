"""What the tests of the package share: fresh inputs, attention in f64, and outputs that are NaN before a launch."""
import os
import sys

import numpy as np
import pytest

HERE = os.path.dirname(__file__)
sys.path.insert(0, HERE)

import flashc  # noqa: E402
from flashc._arrays import source  # noqa: E402


@pytest.fixture
def rng():
    """A generator with a fresh seed, which pytest shows when a test fails."""
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}")
    return np.random.default_rng(seed)


@pytest.fixture(autouse=True)
def poison(monkeypatch):
    """Whatever a kernel does not write is NaN."""
    def poisoned(kind):
        empty = kind.empty

        def full_of_nan(self, like, shape, dtype):
            x = empty(self, like, shape, dtype)
            self.fill(x, float("nan"))
            return x
        monkeypatch.setattr(kind, "empty", full_of_nan)
    poisoned(source.NumpySource)
    poisoned(source.TorchSource)


@pytest.fixture
def no_disk():
    """An empty context that keeps nothing on disk."""
    flashc.configure(disk_cache=False)
    yield
    flashc.configure(disk_cache=False)
