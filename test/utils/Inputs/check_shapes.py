"""Prints what flashc_launch.py says of shapes for a manifest, and counts parameters: check_shapes.py UTILS KERNEL.json

PyTorch, which launching needs, is replaced by nothing."""

import sys
import unittest.mock

sys.modules["torch"] = unittest.mock.MagicMock()
sys.path.insert(0, sys.argv[1])
import flashc_launch

manifest = flashc_launch.read_manifest(sys.argv[2])


def check(**changes):
    shapes = {"q": [2, 8, 63, 128], "k": [2, 2, 65, 128], "v": [2, 2, 65, 128], "o": [2, 8, 63, 128], "lse": [2, 8, 63]}
    shapes.update(changes)
    try:
        flashc_launch.check_shapes(manifest, list(shapes.values()))
        print("good")
    except flashc_launch.LaunchError as error:
        print(error)


check()
check(v=[2, 2, 64, 128])
check(o=[2, 8, 62, 128])
check(lse=[1, 8, 63])
check(k=[2, 1, 65, 128], v=[2, 1, 65, 128])
check(q=[2, 8, 63, 64])
check(q=[2, 8, 63])
check(more=[])

with open(sys.argv[2].replace(".json", ".ptx"), "rb") as file:
    code = file.read()
count = flashc_launch.count_parameters(code, "heads")
print("parameters", "agree" if count == len(manifest["parameters"]) else f"differ: {count}")
print(flashc_launch.count_parameters(code, "head"), flashc_launch.count_parameters(b".entry f\n{ ret; }", "f"),
      flashc_launch.count_parameters(b".entry f(.param .u64 a_param, .param .b8 b[8])", "f"))
