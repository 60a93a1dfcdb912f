"""Finds the Python blocks of a document, and runs them for its test.

The blocks of a page run from top to bottom in one namespace. HTML comments, which a reader does not see, prepare them.
`<!-- python ... -->` contains code to run, such as inputs. `<!-- needs: gpu, torch -->` before a block says that the
block runs only where there is a GPU, or a version of PyTorch that flashc.torch accepts; elsewhere the block is only
compiled.
"""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "python" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$|^<!-- python\n(.*?)^-->$|^<!-- needs: ([a-z, ]+) -->$|^#+ ([^\n]*)$|"
                   r"^```.*?^```$", re.DOTALL | re.MULTILINE)  # the last alternative matches blocks of other languages


def blocks_of(page):
    """Yields each block with the number of its first line, its needs, and the heading above it."""
    text, needs, heading = page.read_text(), frozenset(), ""
    for match in BLOCK.finditer(text):
        if match.group(3) is not None:
            needs = frozenset(re.split(", *", match.group(3)))
        elif match.group(4) is not None:
            heading = match.group(4)
        elif match.group(1) is not None or match.group(2) is not None:
            code = match.group(1) if match.group(1) is not None else match.group(2)
            yield text.count("\n", 0, match.start()) + 2, code, needs, heading
            needs = frozenset()


def run_block(page, line, code, namespace):
    """Runs a block with the line numbers that it has in the page, so that errors name the right line."""
    exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespace)
