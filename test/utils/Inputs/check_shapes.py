"""Prints what flashc_launch.check_shapes says of shapes for a manifest: check_shapes.py UTILS KERNEL.json

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
