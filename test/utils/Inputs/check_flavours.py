"""check_flavours.py UTILS: checks that the grids of gpu_check.py have every cell with and without the log-sum-exp, and
no cell twice."""
import sys

sys.path.insert(0, sys.argv[1])
import gpu_check  # noqa: E402


def check(grid, jobs, get_key):
    """Fails unless every key of a kernel and a cell exists with the log-sum-exp and without."""
    cells = [(spec, cell) for spec, of_kernel in jobs for cell in of_kernel]
    flavours = {}
    for spec, cell in cells:
        flavours.setdefault(get_key(spec, cell), set()).add(spec["lse"])
    incomplete = [key for key, seen in flavours.items() if len(seen) < 2]
    assert not incomplete, f"{grid}: {incomplete}"
    labels = {gpu_check.describe(spec, cell).replace("_no_lse", "") for spec, cell in cells}
    assert len(labels) == len(cells), grid
    print(f"{grid}: {len(cells)} cells, {len(flavours)} keys")


def get_kernel(spec, cell):
    return spec["d"], spec["dv"]


def get_cell(spec, cell):
    return *get_kernel(spec, cell), spec["dtype"], spec["causal"], cell["nq"], cell["nk"]


check("grid", [*gpu_check.check_jobs(), *gpu_check.odd_jobs()], get_cell)
check("sanitize", gpu_check.sanitize_jobs(), get_kernel)
check("repeat", gpu_check.repeat_jobs(2), get_kernel)
