"""Where the documents are: in the package, or next to python/ in a checkout and in an unpacked `make dist`."""
from __future__ import annotations

import os
from typing import Optional


def documents() -> Optional[str]:
    """The folder of the documents, or None: a package that was copied has none."""
    package = os.path.dirname(os.path.abspath(__file__))
    for folder in (os.path.join(package, "docs"), os.path.join(package, os.pardir, os.pardir, "docs")):
        if os.path.isfile(os.path.join(folder, "api.md")):
            return os.path.normpath(folder)
    return None
