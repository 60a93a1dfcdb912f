#!/usr/bin/env python3
"""Runs lit and ends with one plain line that scripts can read: `N passed, N failed, N skipped`.

The counts come from lit's own JSON report. Expected failures count as passed; whatever is neither passed nor skipped
(failed, unexpectedly passed, unresolved, timed out) counts as failed. The exit status is lit's.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

PASSED = {"PASS", "FLAKYPASS", "XFAIL"}
SKIPPED = {"UNSUPPORTED", "SKIPPED", "EXCLUDED"}


def count(report):
    """Returns (passed, failed, skipped) of a lit JSON report."""
    codes = [test["code"] for test in report["tests"]]
    passed = sum(code in PASSED for code in codes)
    skipped = sum(code in SKIPPED for code in codes)
    return passed, len(codes) - passed - skipped, skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lit", default="lit", help="the lit program")
    parser.add_argument("paths", nargs="+", help="test folders or files of the build tree, and lit's options")
    args, options = parser.parse_known_args()

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        status = subprocess.call([args.lit, "-v", "-o", path] + options + args.paths)
        if not os.path.exists(path):
            print("run_lit.py: lit wrote no report", file=sys.stderr)
            return status or 1
        with open(path) as file:
            passed, failed, skipped = count(json.load(file))
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return status or int(failed > 0 or passed == 0)


if __name__ == "__main__":
    sys.exit(main())
