"""Python in the documents: the blocks of a page, as its test runs them.

A page is run from top to bottom, in one namespace. Comments of HTML, which a reader does not see, say what a page has
before: `<!-- python ... -->` is code to run, such as inputs. `<!-- needs: gpu, torch -->` before a block says that it
runs where there is a GPU, or a PyTorch that flashc.torch takes; elsewhere it is compiled only.
"""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "python" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$|^<!-- python\n(.*?)^-->$|^<!-- needs: ([a-z, ]+) -->$|^#+ ([^\n]*)$|"
                   r"^```.*?^```$", re.DOTALL | re.MULTILINE)  # the last one: blocks of other languages


def blocks_of(page):
    """Each block with the number of its first line, what it needs, and the heading that it stands under."""
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
    """Runs a block as if it were at its place in the page, so that errors name the line."""
    exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespace)
