"""The parts of utils/gpu_worker.py that need no GPU."""
import os
import sys

import pytest


@pytest.fixture
def count_different(monkeypatch):
    """Returns the function count_different, which needs PyTorch."""
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(os.path.join(os.path.dirname(__file__), "..", "..", "utils"))
    import gpu_worker
    return gpu_worker.count_different


def test_launches_that_differ_are_counted(count_different):
    torch = sys.modules["torch"]
    o, lse = torch.zeros(2, 3, dtype=torch.bfloat16).T, torch.full((3,), -torch.inf)
    launches = []

    def launch():
        assert all(torch.isnan(output).all() for output in (o, lse))
        launches.append(None)
        o.fill_(-0.0 if len(launches) == 4 else 0.0)
        lse.fill_(-torch.inf)
        if len(launches) in (7, 9):
            lse[2] = torch.nan

    assert count_different(launch, [o, lse], 10) == 3
    assert len(launches) == 10


def test_outputs_that_are_not_written_differ(count_different):
    assert count_different(lambda: None, [sys.modules["torch"].zeros(4)], 5) == 5
