"""Tests of the door to SGLang, with SGLang (`make test-sglang`). They need no GPU."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))


@pytest.fixture
def configured():
    """Returns a function that publishes SGLang's configuration, with changes, until the test ends."""
    from sglang.srt.runtime_context import get_context
    published = []

    def publish(**changes):
        while published:
            published.pop().restore()
        published.append(get_context().override_server_args(device="cpu", **changes))
        published[-1].install()
    publish()
    yield publish
    published.pop().restore()
