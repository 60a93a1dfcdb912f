"""Finds the folder of the documents: in the package, or next to python/ in a checkout and in an unpacked `make
dist`."""
from __future__ import annotations

import os
from typing import Optional


def documents() -> Optional[str]:
    """Returns the folder of the documents, or None if there is none, as for a copied package."""
    package = os.path.dirname(os.path.abspath(__file__))
    for folder in (os.path.join(package, "docs"), os.path.join(package, os.pardir, os.pardir, "docs")):
        if os.path.isfile(os.path.join(folder, "api.md")):
            return os.path.normpath(folder)
    return None
