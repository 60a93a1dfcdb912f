"""Fails unless a manifest lists the parameters that the PTX entries take: check-manifest.py KERNEL.ptx KERNEL.json"""

import json
import re
import sys

SCALARS = {"i1": 1, "i8": 1, "bf16": 2, "f16": 2, "i16": 2, "f32": 4, "i32": 4, "f64": 8, "i64": 8, "index": 8}

with open(sys.argv[1]) as file:
    ptx = file.read()
with open(sys.argv[2]) as file:
    manifest = json.load(file)

entries = [manifest, *manifest.get("variants", [])]
assert manifest["schema"] == "flashc.manifest"
assert manifest["version"] == (2 if any("before" in entry for entry in entries) else 1)
assert f".target {manifest['target']}" in ptx, "another target"


def check(kernel):
    """Returns the number of parameters of one entry."""
    entry = re.search(r"\.entry\s+" + re.escape(kernel["kernel"]) + r"\s*\((.*?)\)", ptx, re.S)
    assert entry, "no such entry"
    actual = []
    for parameter in filter(None, map(str.strip, entry[1].split(","))):
        words = re.fullmatch(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.[a-z](\d+)(?:\s+\.ptr\S*)?(?:\s+\.\S+)*"
                             r"(?:\s+\d+)?\s+\S+?(?:\[(\d+)\])?", parameter)
        assert words, parameter
        actual.append((int(words[2]) // 8 * int(words[3] or 1), int(words[1] or 0)))
    expected = []
    for parameter in kernel["parameters"]:
        if parameter["kind"] == "scalar":
            expected.append((SCALARS[manifest["arguments"][parameter["argument"]]["dtype"]], 0))
        else:
            expected.append({"tensor_map": (128, 64), "extent": (4, 0)}.get(parameter["kind"], (8, 0)))
    assert len(actual) == len(expected), f"expected {len(expected)} parameters, the kernel has {len(actual)}"
    for index, ((size, align), (wanted, alignment)) in enumerate(zip(actual, expected)):
        assert size == wanted, f"parameter {index}: expected {wanted} bytes, the kernel has {size}"
        assert align >= alignment, f"parameter {index}: expected alignment {alignment}, the kernel has {align}"
    return len(actual)


def check_before(entry):
    for kernel in entry.get("before", []):
        print(f"{kernel['kernel']} before {entry['kernel']}: {check(kernel)} parameters agree")


print(f"{check(manifest)} parameters agree")
check_before(manifest)
for variant in manifest.get("variants", []):
    conditions = " and ".join(f"{formula} <= {bound}" for formula, bound in variant["when"])
    print(f"{variant['kernel']} when {conditions}: {check(variant)} parameters agree, schedule {variant['schedule']}")
    check_before(variant)
