"""An engine of SGLang on the CPU, on flashc and on SGLang's own backend for PyTorch: 16 requests, 8 at once, with
chunks of prompts, mixed batches and shared prefixes. SGLang finds flashc by the entry points of installed metadata."""
import json
import os
import pathlib
import subprocess
import sys
import tomllib

import pytest

pytest.importorskip("sglang")

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@pytest.fixture
def installed(tmp_path):
    """Returns a folder with the metadata that a wheel of flashc has."""
    folder = tmp_path / "installed" / "flashc-0.dist-info"
    folder.mkdir(parents=True)
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in functions.items())
             for group, functions in groups.items()]
    (folder / "entry_points.txt").write_text("\n".join(lines))
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: flashc\nVersion: 0\n")
    return folder.parent


def serve(model, backend, *paths):
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(
        [*map(str, paths), str(HERE / "stubs"), os.environ.get("PYTHONPATH", "")])}
    found = subprocess.run([sys.executable, HERE / "serve.py", model, backend], env=environment, capture_output=True,
                           text=True, timeout=400)
    lines = [line for line in found.stdout.splitlines() if line.startswith("TOKENS ")]
    return json.loads(lines[0][len("TOKENS "):]) if lines else None, found.stdout + found.stderr


def test_tokens_are_those_of_sglangs_own_backend(tmp_path, installed):
    (have, log), (want, other) = (serve(tmp_path / "model", name, installed) for name in ("flashc", "torch_native"))
    assert have is not None and want is not None, (log + other)[-4000:]
    assert len({tuple(tokens) for tokens in want}) == 16
    assert have == want


def test_engines_without_the_plugin_know_no_such_backend(tmp_path):
    found, log = serve(tmp_path / "model", "flashc")
    assert found is None and "Invalid attention backend: flashc" in log, log[-4000:]
