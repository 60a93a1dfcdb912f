"""Measures flashc on a GPU: python3 utils/gpu_measure WHAT [--help]

    captured-gradients   gradients of captured tensors, and FlexAttention's (docs/captured-gradients.md)
    column-sums          sums of columns (docs/performance.md)
    costs                sinks and dropout over the same call without (docs/sinks.md, docs/dropout.md)
    decode-masks         masks and scores in decoding (docs/performance.md)
    decode-parts         some hundred query rows against long caches (docs/performance.md)
    gradients            thousands of launches of gradients: hangs, numbers, bits (docs/checking.md)
    limits               the unit that limits each cell of the benchmark's grid (docs/checking.md)

Needs the package flashc and PyTorch; in a source tree PYTHONPATH=python and FLASHC_LIBRARY=build/lib/libflashc.so.
"""
import importlib
import sys

NAMES = [line.split()[0] for line in __doc__.split("\n\n")[1].splitlines()]


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        sys.exit(__doc__.strip())
    name = sys.argv.pop(1)
    sys.argv[0] = f"gpu_measure {name}"
    return importlib.import_module(name.replace("-", "_")).main()


if __name__ == "__main__":
    sys.exit(main())
