"""Fixtures of the tests of integrations: those of test/python, and a seed for PyTorch."""
import importlib.util
import pathlib

import pytest

_spec = importlib.util.spec_from_file_location(
    "python_conftest", pathlib.Path(__file__).resolve().parent.parent / "python" / "conftest.py")
_shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_shared)
no_disk, poison, rng = _shared.no_disk, _shared.poison, _shared.rng  # poison fills new outputs with NaN


@pytest.fixture(autouse=True)
def seed(poison):
    """Seeds PyTorch with a fresh number, which pytest prints when a test fails."""
    import torch
    number = torch.seed() % (1 << 31)
    torch.manual_seed(number)
    print("seed", number)
