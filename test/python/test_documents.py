"""Runs every Python block of README.md and docs/, and checks that docs/api.md agrees with the docstrings."""
import contextlib
import importlib
import io
import re
import subprocess
import sys

import pytest

import flashc
from flashc._runtime import library
from flashc._runtime.options import Options
from flashc._runtime.specialization import Extents, specialize
from documents import PAGES, ROOT, blocks_of, run_block


def what_there_is():
    found = set()
    if flashc.devices():
        found.add("gpu")
    with contextlib.suppress(ImportError):
        importlib.import_module("flashc.torch")
        found.add("torch")
    return found


# Without recipes.md: test_recipes.py runs its blocks and checks their numbers.
WITH_PYTHON = [page for page in PAGES if any(blocks_of(page)) and page.name != "recipes.md"]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    namespace, found = {"flashc": flashc}, what_there_is()
    for line, code, needs, _ in blocks_of(page):
        assert needs <= {"gpu", "torch"}, f"{page.name}:{line}: expected needs of gpu or torch, got {set(needs)}"
        if needs <= found:
            with contextlib.redirect_stdout(io.StringIO()):
                run_block(page, line, code, namespace)
        else:
            compile(code, f"{page}:{line}", "exec")
    flashc.configure()


def test_a_block_that_fails_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n<!-- python\nx = 1\n-->\n\n```python\nassert x == 1\nassert x == 2\n```\n")
    (_, setup, _, _), (line, code, _, heading) = blocks_of(page)
    assert (setup, line, heading) == ("x = 1\n", 8, "A page")
    with pytest.raises(AssertionError) as caught:
        run_block(page, line, code, {"x": 1})
    assert caught.traceback[-1].lineno + 1 == 9


def test_needs_are_of_the_next_block(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- needs: gpu, torch -->\n```python\nx\n```\n```python\ny\n```\n")
    assert [needs for _, _, needs, _ in blocks_of(page)] == [{"gpu", "torch"}, set()]


def test_reference_is_up_to_date():
    done = subprocess.run([sys.executable, ROOT / "utils" / "api_page.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def attention_for(target, dtype, dim, rows=512, cache_dtype=None, **cache):
    """Compiles the kernel that a call would use for `target`, which need not be the GPU of this machine."""
    plain = specialize(Extents(2, 8, 2, rows, 4096, dim, dim, dtype), Options(causal=True), target)
    if cache:
        cache["extents"] = (library.ANY, 2, rows, library.ANY)
    return plain._replace(cache_dtype=cache_dtype, **cache).compile()


def test_first_page_says_what_compiles():
    """Checks the rows of README.md's first table that name types and head dimensions."""
    text = (ROOT / "README.md").read_text()
    paged = dict(page_size=16, scales=(False, False))
    for dtype, dim in (("bf16", 8), ("f16", 256)):
        attention_for("sm_90a", dtype, dim)
        attention_for("sm_80", dtype, dim, rows=1, page_size=0)
    attention_for("sm_80", "bf16", 128, rows=100, **paged)
    for cache_dtype in ("f8e4m3", "i8"):
        attention_for("sm_90a", "bf16", 128, rows=1, cache_dtype=cache_dtype, **paged)
    attention_for("sm_80", "bf16", 128, rows=1, cache_dtype="i8", **paged)
    with pytest.raises(flashc.CompileError, match="sm_80, which has no float8"):
        attention_for("sm_80", "bf16", 128, rows=1, cache_dtype="f8e4m3", **paged)
    with pytest.raises(flashc.CompileError, match="expected a decoding kernel .* on sm_80"):
        attention_for("sm_80", "bf16", 128)
    with pytest.raises(flashc.ArgumentError, match="multiples of 8 from 8 to 256"):
        attention_for("sm_90a", "bf16", 264)
    for words in ("`sm_90a`", "float8 is refused", "multiples of 8 up to 256", "the kernel is for sm_90a, the GPU"):
        assert words in text.replace("\n", " ")


def test_links_between_documents_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
