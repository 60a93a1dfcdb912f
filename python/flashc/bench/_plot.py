"""The plot: TFLOP/s over N, one line per system, one panel per head dimension and mask."""

import importlib.util

from ._report import CUBLAS, FLASHC, systems_of

_COLOURS = {FLASHC: "#d62728", CUBLAS: "#999999", "cudnn": "#2ca02c", "fa2": "#1f77b4", "flex": "#9467bd",
            "flex-tuned": "#8c564b", "flash_attn2": "#17becf", "flash_attn3": "#ff7f0e"}


def missing():
    """Why plots cannot be made here, or None."""
    if importlib.util.find_spec("matplotlib") is None:
        return "--plot needs matplotlib, which is not installed (pip install matplotlib)"
    return None


def panels(rows):
    """{title: rows by n}: whatever differs but n and the system has a panel of its own."""
    def key(row):
        cell = row.cell
        return (cell.d, cell.dv, cell.causal, "backward" if cell.backward else "forward", cell.dtype,
                cell.heads * cell.dv, cell.batch * cell.n, cell.group)

    several = len({key(row)[3:] for row in rows}) > 1
    found = {}
    for row in sorted(rows, key=lambda row: (key(row), row.cell.n)):
        _, _, causal, direction, dtype, hidden, tokens, group = key(row)
        more = f"\n{direction}, {dtype}, hidden size {hidden}, {tokens} tokens, group {group}" if several else ""
        found.setdefault(f"d = {row.cell.dims}, {'causal' if causal else 'not causal'}{more}", []).append(row)
    return found


def plot(rows, path):
    """Writes the picture; the format follows from the name's ending."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    chosen = panels(rows)
    columns = 2 if len(chosen) > 1 else 1
    lines = -(-len(chosen) // columns) or 1
    figure, axes = pyplot.subplots(lines, columns, figsize=(5.5 * columns, 3.6 * lines), squeeze=False, sharey=True,
                                   layout="constrained")
    for (title, members), axis in zip(chosen.items(), axes.flat):
        for system in systems_of(rows):
            points = [(row.cell.n, row.entries[system].tflops) for row in members
                      if system in row.entries and row.entries[system].counts]
            if points:
                label = "cuBLAS 8192³" if system == CUBLAS else system
                axis.plot(*zip(*points), label=label, color=_COLOURS.get(system), marker="o", markersize=4,
                          linewidth=2.4 if system == FLASHC else 1.4, linestyle=":" if system == CUBLAS else "-",
                          zorder=3 if system == FLASHC else 2)
        axis.set_title(title)
        axis.set_xscale("log", base=2)
        lengths = sorted({row.cell.n for row in members})
        axis.xaxis.set_major_locator(ticker.FixedLocator(lengths))
        axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda n, _: f"{n:.0f}"))
        axis.xaxis.set_minor_locator(ticker.NullLocator())
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.set_xlabel("N")
        axis.set_ylabel("TFLOP/s")
    for axis in list(axes.flat)[len(chosen):]:
        axis.set_visible(False)
    if chosen:
        axes.flat[0].legend(fontsize=8, loc="lower right")
        devices = ", ".join(dict.fromkeys(f"{row.device}, {row.cell.dtype}" for row in rows))
        direction = " and ".join(dict.fromkeys("backward" if row.cell.backward else "forward" for row in rows))
        figure.suptitle(f"attention, {direction}: {devices}")
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
