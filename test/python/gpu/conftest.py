"""What the tests on a GPU share, and --shard, which runs a part of them."""
import argparse
import re

import pytest


def parse_shard(text):
    """The numbers of "I/N": of every N tests the one at I, counted from 0."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    shard, count = map(int, match.groups()) if match else (0, 0)
    if shard >= count:
        raise argparse.ArgumentTypeError(f"expected I/N with 0 <= I < N, got '{text}'")
    return shard, count


def pytest_addoption(parser):
    parser.addoption("--shard", metavar="I/N", type=parse_shard, default=(0, 1),
                     help="of every N tests only the one at I, from 0: for N processes at once")


def pytest_collection_modifyitems(config, items):
    shard, count = config.getoption("--shard")
    config.hook.pytest_deselected(items=[item for place, item in enumerate(items) if place % count != shard])
    items[:] = items[shard::count]


@pytest.fixture
def alone(request):
    """For what is measured of the whole GPU: skips where --shard says that other processes use it, too."""
    if request.config.getoption("--shard")[1] > 1:
        pytest.skip("looks at the whole GPU, which other shards use")


@pytest.fixture(autouse=True)
def fresh_cases(monkeypatch):
    """Checks that are done once for equal shapes, and schedules with them, are done in each test, which may change
    how."""
    monkeypatch.setattr("flashc._runtime.calls._cases", {})


@pytest.fixture(autouse=True)
def seed(poison):
    """Fresh numbers, whose seed pytest shows when a test fails, and outputs that are NaN before a launch (`poison`)."""
    import torch
    number = torch.seed() % (1 << 31)
    torch.manual_seed(number)
    print("seed", number)
