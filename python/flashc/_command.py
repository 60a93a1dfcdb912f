"""The `flashc` program as a console entry: the compiler's command line, run by the library."""
from __future__ import annotations

import sys

from . import _library


def main() -> int:
    """Runs `flashc` with this process's arguments; returns its exit status."""
    return _library.main(["flashc"] + sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
