#!/usr/bin/env python3
"""Runs lit, prints what was skipped and why, and ends with a line that scripts can read: `N passed, N failed, N
skipped`.

The counts come from lit's own JSON report. Expected failures count as passed. Tests that are neither passed nor skipped
(failed, unexpectedly passed, unresolved, timed out) count as failed. The exit status is lit's.

A test of lit that runs pytest is one test in these counts. Lines before the last one give the counts of pytest, and
what pytest skipped.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

PASSED = {"PASS", "FLAKYPASS", "XFAIL"}
SKIPPED = {"UNSUPPORTED", "SKIPPED", "EXCLUDED"}

# lit puts this prefix before each line that a command of a test wrote.
OUTPUT = r"^(?:# \| )?"
PYTEST_COUNTS = re.compile(OUTPUT + r"(?:\d+ \w+, )*\d+ \w+ in [\d.]+s", re.MULTILINE)
PYTEST_SKIPPED = re.compile(OUTPUT + r"SKIPPED \[(\d+)\] \S+: (.*)$", re.MULTILINE)


def count(report):
    """Returns (passed, failed, skipped) of a lit JSON report."""
    codes = [test["code"] for test in report["tests"]]
    passed = sum(code in PASSED for code in codes)
    skipped = sum(code in SKIPPED for code in codes)
    return passed, len(codes) - passed - skipped, skipped


def reasons_of_lit(report):
    """Returns how many tests lit skipped for each reason."""
    return collections.Counter(test["output"].strip() for test in report["tests"] if test["code"] in SKIPPED)


def reasons_of_pytest(report):
    """Returns how many tests pytest skipped for each reason, in all tests of lit."""
    reasons = collections.Counter()
    for test in report["tests"]:
        for number, reason in PYTEST_SKIPPED.findall(test["output"]):
            reasons[reason] += int(number)
    return reasons


def counts_of_pytest(report):
    """Returns pytest's counts of passed, skipped and other tests, over all tests of lit that run pytest."""
    counts = collections.Counter()
    for test in report["tests"]:
        for line in PYTEST_COUNTS.findall(test["output"]):
            for number, what in re.findall(r"(\d+) (\w+)", line.rpartition(" in ")[0]):
                counts[what] += int(number)
    return counts


def describe(report):
    """Returns the lines before the last one: the skipped tests, with the most frequent reason first, and the counts of
    pytest."""
    lines = []
    for who, reasons in (("lit", reasons_of_lit(report)), ("pytest", reasons_of_pytest(report))):
        lines += [f"{who} skipped {number}: {reason}" for reason, number in reasons.most_common()]
    counts = counts_of_pytest(report)
    if counts:
        lines.append("pytest: " + ", ".join(f"{number} {what}" for what, number in counts.items()))
    return lines


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
            report = json.load(file)
    passed, failed, skipped = count(report)
    print("\n".join([*describe(report), f"{passed} passed, {failed} failed, {skipped} skipped"]), flush=True)
    return status or int(failed > 0 or passed == 0)


if __name__ == "__main__":
    sys.exit(main())
