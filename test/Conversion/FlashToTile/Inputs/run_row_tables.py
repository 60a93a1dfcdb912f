"""run_row_tables.py: runs the kernel that computes tables of rows, as its threads would. The program on stdin is
`documents` of row-tables.mlir, whose tables say where the keys of each query's document begin and end."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from run_tables import launch, make_memory


def count_wrong_rows(text, rng, batches, nq, nk):
    ids, key_ids = (np.sort(rng.integers(-(1 << 31), 1 << 31, (batches, 9))[:, rng.integers(0, 9, n)], -1)
                    for n in (nq, nk))
    key_ids[:, ::3] = -(1 << 31)  # the smallest integer
    key_ids[:, ::2] = ids[:, rng.integers(0, nq, len(key_ids[0, ::2]))]
    key_ids.sort(-1)
    ids[:, 0] = -(1 << 31)
    q, k = (np.zeros((batches, 4, extent, 64)) for extent in (nq, nk))
    inputs = [q, k, k, ids, key_ids, q]
    workspace = make_memory(text, inputs)
    launch(text, "documents_rows", inputs, workspace)
    size, wrong = 128 * -(-batches * nq // 32), 0
    for table, side in enumerate(("left", "right")):
        rows = workspace["mask_map"][table * size:][:4 * batches * nq].view(np.int32).reshape(batches, nq)
        wanted = [np.searchsorted(key_ids[b], ids[b], side) for b in range(batches)]
        wrong += (rows != wanted).sum()
    return wrong


def main():
    text, rng = sys.stdin.read(), np.random.default_rng(0)
    shapes = (1, 1, 1), (2, 65, 65), (1, 300, 1500), (3, 700, 40), (1, 1024, 1024)
    print(len(shapes), "calls,", sum(count_wrong_rows(text, rng, *shape) for shape in shapes), "wrong rows")


main()
