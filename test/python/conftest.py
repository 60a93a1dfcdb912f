"""Fixtures that the tests of the package share: fresh random numbers, outputs full of NaN before a launch, no disk
cache."""
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
    """A generator with a fresh seed, which pytest prints when a test fails."""
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}")
    return np.random.default_rng(seed)


@pytest.fixture(autouse=True)
def poison(monkeypatch):
    """Fills each new output with NaN, so that elements that a kernel does not write stay NaN."""
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
    """Turns the disk cache off, and starts and ends with an empty context."""
    flashc.configure(disk_cache=False)
    yield
    flashc.configure(disk_cache=False)
