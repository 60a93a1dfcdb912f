"""The plots. They show TFLOP/s over N, with a line for each system and a panel for each head dimension and mask. For
decoding they show TB/s and ratios."""

import importlib.util
import math

from ._report import CUBLAS, FLASHC, systems_of

_COLOURS = {FLASHC: "#d62728", CUBLAS: "#999999", "cudnn": "#2ca02c", "fa2": "#1f77b4", "flex": "#9467bd",
            "flex-tuned": "#8c564b", "flash_attn2": "#17becf", "flash_attn3": "#ff7f0e", "fa3": "#ff7f0e",
            "flashinfer": "#e377c2"}


def missing():
    """Returns why plots cannot be made here, or None if they can."""
    if importlib.util.find_spec("matplotlib") is None:
        return "--plot needs matplotlib, which is not installed (pip install matplotlib)"
    return None


def panels(rows):
    """Returns {title: rows by n}. Rows in one panel differ only in n."""
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


def _start(count, heights=(1,)):
    """Returns pyplot, a figure, and the axes of each of `count` panels. A panel has axes of these heights, from top to
    bottom."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = 2 if count > 1 else 1
    lines = -(-count // columns) or 1
    figure = pyplot.figure(figsize=(5.5 * columns, 3.6 * sum(heights) * lines), layout="constrained")
    places = figure.add_gridspec(len(heights) * lines, columns, height_ratios=list(heights) * lines)
    found = []
    for place in range(count):
        line, column = divmod(place, columns)
        axes = []
        for part in range(len(heights)):
            # All panels share the range of y. The parts of a panel share x.
            axes.append(figure.add_subplot(places[line * len(heights) + part, column],
                                           sharey=found[0][part] if found else None, sharex=axes[0] if axes else None))
        found.append(axes)
    return pyplot, figure, found


def _draw(axis, system, points, **more):
    axis.plot(*zip(*points), color=_COLOURS.get(system), marker="o", markersize=4,
              linewidth=2.4 if system == FLASHC else 1.4, linestyle=":" if system == CUBLAS else "-",
              zorder=3 if system == FLASHC else 2, **more)


def _finish(axis, title, rate):
    axis.set_title(title)
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.set_ylabel(rate)


def _save(pyplot, figure, places, title, path):
    if places:
        places[0][0].legend(fontsize=8, loc="lower right")
        figure.suptitle(title)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def plot(rows, path):
    """Writes the plot. The suffix of `path` decides the format."""
    from matplotlib import ticker

    chosen = panels(rows)
    pyplot, figure, places = _start(len(chosen))
    for (title, members), (axis,) in zip(chosen.items(), places):
        for system in systems_of(rows):
            points = [(row.cell.n, row.entries[system].tflops) for row in members
                      if system in row.entries and row.entries[system].counts]
            if points:
                _draw(axis, system, points, label="cuBLAS 8192³" if system == CUBLAS else system)
        _finish(axis, title, "TFLOP/s")
        axis.set_xscale("log", base=2)
        lengths = sorted({row.cell.n for row in members})
        axis.xaxis.set_major_locator(ticker.FixedLocator(lengths))
        axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda n, _: f"{n:.0f}"))
        axis.xaxis.set_minor_locator(ticker.NullLocator())
        axis.set_xlabel("N")
    devices = ", ".join(dict.fromkeys(f"{row.device}, {row.cell.dtype}" for row in rows))
    direction = " and ".join(dict.fromkeys("backward" if row.cell.backward else "forward" for row in rows))
    _save(pyplot, figure, places, f"attention, {direction}: {devices}", path)


def decoding_panels(rows):
    """Returns {title: {batch: rows by keys}} for the decoding benchmark."""
    found = {}
    for row in sorted(rows, key=lambda row: (row.cell.batch, row.cell.keys)):
        found.setdefault(row.cell.kind, {}).setdefault(row.cell.batch, []).append(row)
    return found


def plot_decoding(rows, path, device=""):
    """Writes the plot of the decoding benchmark: the TB/s of each system in each cell, and below them flashc's ratio to
    the best peer. A line connects the cells of a batch."""
    chosen = decoding_panels(rows)
    systems = list(dict.fromkeys(name for row in rows for name in row.microseconds))
    pyplot, figure, places = _start(len(chosen), (1, 0.4))
    for (title, batches), (rates, ratios) in zip(chosen.items(), places):
        members = [row for batch in batches.values() for row in batch]
        ends = {id(batch[-1]) for batch in batches.values()}
        for system in systems:
            points = []
            for x, row in enumerate(members):
                points.append((x, row.rate(system)))
                if id(row) in ends:
                    points.append((x, math.nan))  # NaN ends the line
            _draw(rates, system, points, label=system)
        ratios.bar(range(len(members)), [row.ratio() for row in members], color=_COLOURS[FLASHC], alpha=0.6)
        _finish(rates, title, "TB/s")
        rates.tick_params(labelbottom=False)
        ratios.axhline(1.0, color="black", linewidth=0.8)
        ratios.grid(alpha=0.3)
        ratios.set_ylabel("ratio")
        ratios.set_xticks(range(len(members)), [f"{row.cell.batch} x {_short(row.cell.keys)}" for row in members],
                          rotation=90, fontsize=7)
        ratios.set_xlabel("batch x keys")
    _save(pyplot, figure, places, f"decoding, bf16\n{device}".rstrip(), path)


def _short(number):
    return f"{number >> 10}k" if number % 1024 == 0 else str(number)
