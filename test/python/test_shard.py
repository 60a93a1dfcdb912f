"""The option --shard of the tests on a GPU: each test is in one shard, and wrong shards are refused."""
import os
import re
import subprocess
import sys

import pytest

CONFTEST = os.path.join(os.path.dirname(__file__), "gpu", "conftest.py")
TESTS = """
import pytest
@pytest.fixture
def poison():
    pass
@pytest.mark.parametrize("number", range(7))
def test_number(number):
    pass
"""


@pytest.fixture
def collect(tmp_path):
    """Returns a function that runs pytest on seven tests with that conftest.py. The function returns pytest's result,
    and the tests that pytest would run."""
    (tmp_path / "conftest.py").write_text(open(CONFTEST).read())
    (tmp_path / "test_numbers.py").write_text(TESTS)

    def run(*arguments):
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only",
                               *arguments, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done, [int(number) for number in re.findall(r"test_number\[(\d+)\]", done.stdout)]
    return run


def test_all_tests_without_it(collect):
    assert collect()[1] == list(range(7))


@pytest.mark.parametrize("count, shards", [(1, [range(7)]), (3, [[0, 3, 6], [1, 4], [2, 5]])])
def test_each_test_is_in_one_shard(collect, count, shards):
    for number, want in enumerate(shards):
        done, got = collect("--shard", f"{number}/{count}")
        assert got == list(want) and done.returncode == 0
        assert count == 1 or f"{7 - len(got)} deselected" in done.stdout


@pytest.mark.parametrize("text", ["3/3", "0/0", "1", "-1/2", "1/2/3", "a/b"])
def test_what_is_no_shard_is_refused(collect, text):
    done, _ = collect(f"--shard={text}")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"expected I/N with 0 <= I < N, got '{text}'" in done.stdout
