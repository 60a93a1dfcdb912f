"""An engine of vLLM 0.32 on the CPU gives the same tokens with flashc's backend and with the CPU's own one: for several
requests at once, chunks of prompts, shared prefixes, and requests that are preempted."""
import json
import pathlib
import subprocess
import sys

import pytest
import vllm

ENGINE = pathlib.Path(__file__).with_name("engine.py")


def run(*arguments):
    process = subprocess.run([sys.executable, str(ENGINE), *arguments], capture_output=True, text=True, timeout=600)
    assert process.returncode == 0, process.stderr[-4000:] + process.stdout[-2000:]
    return json.loads(process.stdout.strip().splitlines()[-1])


def test_version():
    assert vllm.__version__.startswith("0.32.0")


@pytest.mark.parametrize("model", ["llama", "gemma2", "gpt-oss"])
def test_tokens(model):
    own, ours = run(model), run(model, "flashc")
    assert own["calls"] == 0 and ours["calls"] > 0
    assert ours["preempted"] > 0 and ours["cached"] > 0
    assert len({tuple(tokens) for tokens in own["tokens"]}) > 8  # tokens depend on the prompts
    assert ours["tokens"] == own["tokens"]
