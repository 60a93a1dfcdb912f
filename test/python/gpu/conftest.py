"""What the tests on a GPU share."""
import pytest


@pytest.fixture(autouse=True)
def seed(poison):
    """Fresh numbers, whose seed pytest shows when a test fails, and outputs that are NaN before a launch (`poison`)."""
    import torch
    number = torch.seed() % (1 << 31)
    torch.manual_seed(number)
    print("seed", number)
