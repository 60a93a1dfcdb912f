"""Fixtures that the tests on a GPU share, and the option --shard, which runs a part of the tests.

    PYTHONPATH=python FLASHC_LIBRARY=build/lib/libflashc.so python3 -m pytest test/python/gpu/test_masks.py
"""
import argparse
import re

import pytest


def parse_shard(text):
    """Returns I and N of "I/N". The shard runs the tests whose number, counted from 0, is I modulo N."""
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
    """For tests that measure the whole GPU: skips them if --shard says that other processes use the GPU too."""
    if request.config.getoption("--shard")[1] > 1:
        pytest.skip("looks at the whole GPU, which other shards use")


@pytest.fixture(autouse=True)
def fresh_cases(monkeypatch):
    """Clears the table of checked calls. Calls of equal shapes share their checks and schedules there, and a test may
    change how these are made."""
    monkeypatch.setattr("flashc._runtime.calls._cases", {})


@pytest.fixture(autouse=True)
def seed(poison):
    """Seeds PyTorch with a fresh number, which pytest prints when a test fails. By `poison`, outputs are NaN before a
    launch."""
    import torch
    number = torch.seed() % (1 << 31)
    torch.manual_seed(number)
    print("seed", number)
