"""The command line of `python -m flashc.bench`."""

import argparse
import contextlib
import dataclasses
import re
import sys

from .._runtime.library import version
from . import _bars, _decode_grid, _decode_report, _plot, _report
from ._grid import HELP, PRESETS, GridError, parse_grid, preset, related
from ._progress import Progress

DESCRIPTION = """Times flashc's attention on this machine's GPU together with every attention that is installed:
PyTorch's with cuDNN and with FlashAttention-2, FlexAttention under torch.compile, and the packages of the
FlashAttention project. All of them take turns in one process and are timed with CUDA events, after a warm-up, each for
at least 60 ms in at least 6 rounds, the median of which counts. Inputs are random and new in every cell; outputs are
checked against float32 attention; the rate of cuBLAS on an 8192^3 bf16 product comes from the same rounds, and the
clock of the multiprocessors is read under flashc right after them. TFLOP/s counts 2 B H N N (d + dv) operations, half
of that for causal; of the backward pass 2.5 times as many. The ratio is flashc's rate over the best peer's."""

EXAMPLES = """examples:
  python -m flashc.bench --csv bench.csv --plot bench.png
  python -m flashc.bench --grid d=128 n=1024..8192 causal=1 --peers cudnn,flex
  python -m flashc.bench --grid d=128,192x128 heads=16 kv-heads=2 dtype=bf16,f16
  python -m flashc.bench --schedule no-turns=ping-pong=false --schedule small=kv-tile=64,stages=4 --peers ''
  python -m flashc.bench --cells related --peers ''
  python -m flashc.bench --read a.csv b.csv --plot bench.png     measure nothing: table and plot of earlier runs
  python -m flashc.bench --latency
  python -m flashc.bench --decode heads=32/8 d=128 b=1,16 n=4096,65536 page=0,16
  python -m flashc.bench --decode heads=32/8 --peers cudnn,fa2,flex --csv decode.csv --plot decode.png
  python -m flashc.bench --decode cells=step,drawn,lengths,mixed --fa3 _vllm_fa3_C.abi3.so --csv step.csv
  python -m flashc.bench --masks
  python -m flashc.bench --models
  python -m flashc.bench --backward --peers cudnn,flex --csv backward.csv --plot backward.png
  python -m flashc.bench --backward --masks

exit status: 0; 1 if flashc did not run a cell or a system's numbers were wrong; 2 for a wrong command line."""


def build_parser():
    parser = argparse.ArgumentParser(prog="python -m flashc.bench", description=DESCRIPTION, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", nargs="+", default=[], metavar="KEY=VALUES", help=HELP)
    parser.add_argument("--cells", choices=sorted(PRESETS), help="instead of a grid; related: cells that must be as "
                        "fast as another cell, measured with it: f16 and bf16, 8 query heads per key head, 192x128")
    parser.add_argument("--backward", action="store_true",
                        help="time the backward pass instead: all its kernels, after a forward pass that is not timed; "
                        "with the bars of a hand-made one, unless --bars has others")
    parser.add_argument("--schedule", action="append", default=[], type=variant, metavar="NAME=OVERRIDES",
                        help="time flashc with these overrides of its schedule too, as flashc:NAME next to flashc; "
                        "may be given several times")
    parser.add_argument("--static-shapes", action="store_true",
                        help="time flashc compiled for each cell's shapes too, as flashc:static")
    parser.add_argument("--peers", metavar="NAMES", help="separated by commas, of cudnn, fa2, flex, flex-tuned, "
                        "flash_attn2, flash_attn3 (default: all that are installed, but for flex-tuned; '': none). "
                        "With --decode, of cudnn, fa2, flex, flex-tuned, fa3, flashinfer, flashinfer-cuda-cores, "
                        "flashinfer-fa2 (default: all that are installed, but for FlexAttention, which is compiled "
                        "anew for each cell; this takes longer than all the rest)")
    parser.add_argument("--fa3", metavar="FILE", help="with --decode, the library of FlashAttention-3 out of vLLM's "
                        "wheel, _vllm_fa3_C.abi3.so (default: that of the package vllm, if it is installed)")
    parser.add_argument("--bars", metavar="FILE", help="compare the ratios to cudnn with those of a CSV (its columns: "
                        f"{', '.join(_bars.COLUMNS)})")
    parser.add_argument("--csv", metavar="FILE", help="write every number there, cell by cell")
    parser.add_argument(
        "--plot", metavar="FILE", help="draw TFLOP/s over N, with --decode TB/s and ratios of each cell, "
        "as PNG; needs matplotlib")
    parser.add_argument("--seed", type=int, help="of the random inputs (default: another one each time, printed)")
    parser.add_argument("--list", action="store_true", help="print the cells, measure nothing")
    parser.add_argument("--read", nargs="+", metavar="CSV", help="measure nothing: table and plot of these files")
    parser.add_argument("--masks", action="store_true",
                        help="measure what masks and scores cost instead: masks by the tile that they visit over no "
                        "mask, a window and packed documents over FlexAttention and the dense kernel, ALiBi and soft "
                        "cap; with --backward, a window and packed documents by the tile, ALiBi and soft cap")
    parser.add_argument(
        "--decode", nargs="*", metavar="KEY=VALUES",
        help="time decoding instead, queries against caches, with cuDNN's and FlashAttention-2 (SDPA, one query), with "
        "FlashAttention-3 and FlashInfer, and with FlexAttention if --peers has it: heads=32/8,64/8 d=128 b=1,16 "
        "n=1024,65536 page=0,16 layout=hnd,nhd queries=1,16,32x1+4x512 lengths=equal,even,tail; what is left out is "
        "the whole grid, with one query, without pages and with equal lengths. Or sets of cells: "
        "cells=step,drawn,lengths,mixed count=60 seed=42 (the number of cells that are drawn, and the seed)")
    parser.add_argument("--models", action="store_true",
                        help="measure models of transformers instead, with each attention implementation: tokens per "
                        "second of a forward pass, a training step and generation; needs transformers")
    parser.add_argument("--latency", action="store_true",
                        help="measure the times from a program to a kernel and of a launch instead")
    return parser


@contextlib.contextmanager
def refusing(parser, what, *errors):
    """A context: if one of these errors is raised within it, ends the program with the message `what` and the error."""
    try:
        yield
    except errors as error:
        parser.error(f"{what}{error}")


def variant(text):
    """Returns ("flashc:NAME", overrides) for the text of a --schedule."""
    name, equals, overrides = text.partition("=")
    if not equals or not re.fullmatch(r"[\w.+-]+", name):
        raise argparse.ArgumentTypeError(f"expected NAME=OVERRIDES such as no-turns=ping-pong=false, got '{text}'")
    return _report.VARIANT + name, overrides


def choose_cells(options, parser):
    if options.cells and options.grid:
        parser.error("expected --cells or --grid, got both")
    with refusing(parser, "--grid: ", GridError):
        cells = preset(options.cells) if options.cells else parse_grid(options.grid)
    return [dataclasses.replace(cell, backward=options.backward) for cell in cells]


def choose_variants(options, parser):
    """Returns {name: keywords of flashc.attention} for flashc and its variants."""
    found = {_report.FLASHC: {}}
    static = [(_report.VARIANT + "static", {"static_shapes": True})] if options.static_shapes else []
    for name, keywords in static + [(name, {"schedule": overrides}) for name, overrides in options.schedule]:
        if name in found:
            parser.error(f"--schedule: {name.removeprefix(_report.VARIANT)} is there twice")
        found[name] = keywords
    return found


def choose_bars(cells, options, parser):
    with refusing(parser, "--bars: ", OSError, ValueError):
        return _bars.bars_of(cells, options.bars)


def finish(rows, bars, options):
    """Prints the summary and the comparison with bars, and writes the plot."""
    print()
    print("\n".join(_report.summary(rows)))
    if bars:
        print("\n".join(["", *_bars.report(rows, bars), ""]))
    for line in _report.problems(rows):
        print(f"note: {line}")
    if options.plot and rows:
        _plot.plot(rows, options.plot)
        print(f"wrote {options.plot}")


def read(options, parser):
    with refusing(parser, "", OSError, ValueError):
        rows = _report.read_csv(options.read)
    cells = [row.cell for row in rows]
    bars = choose_bars(cells, options, parser)
    table = _report.Table(_report.systems_of(rows), cells, bars)
    print("\n".join([table.header(), *map(table.line, rows)]))
    finish(rows, bars, options)
    return 0


def require_torch(parser):
    """Returns PyTorch. Ends the program if PyTorch is missing or sees no GPU."""
    try:
        import torch
    except ImportError as error:
        parser.exit(1, f"flashc.bench needs PyTorch with CUDA: {error}\n")
    if not torch.cuda.is_available():
        parser.exit(1, "flashc.bench needs a GPU, and PyTorch sees none\n")
    return torch


def choose_peers(device, options, parser, *known):
    """Returns the peers of --peers. Prints a line about the device, and one for each peer that is left out."""
    from . import _peers
    with refusing(parser, "", _peers.PeerError):
        peers, left_out = _peers.choose_peers(options.peers, *known)
    print(device)
    for name, reason in left_out.items():
        print(f"not compared: {name}: {reason}")
    return peers


def choose_seed(options, torch):
    return options.seed if options.seed is not None else torch.seed() % (1 << 31)


# The options that cannot be used together with --decode.
_NOT_OF_DECODING = "grid", "cells", "backward", "bars", "masks", "models", "latency", "static_shapes", "seed"


def choose_decoding(options, parser):
    """Returns the cells of --decode."""
    for name in _NOT_OF_DECODING:
        if getattr(options, name) != parser.get_default(name):
            parser.error(f"expected --decode or --{name.replace('_', '-')}, got both")
    with refusing(parser, "--decode: ", ValueError):
        return _decode_grid.parse(options.decode)


def finish_decoding(rows, options, device=""):
    """Prints the summary and writes the plot."""
    print("\n".join(_decode_report.summary(rows)))
    if options.plot and rows:
        _plot.plot_decoding(rows, options.plot, device)
        print(f"wrote {options.plot}")


def read_decoding(options, parser):
    with refusing(parser, "", OSError, ValueError):
        rows = _decode_report.read_csv(options.read)
    print("\n".join(row.line() for row in rows))
    finish_decoding(rows, options)
    return 0


def bench_decoding(cells, variants, options, parser):
    require_torch(parser)
    from . import _decode, _measure, _serving_peers
    device = _measure.describe_device()
    known = {**_decode.PEERS, **_serving_peers.peers(options.fa3)}
    peers = choose_peers(device, options, parser, known, _decode.NOT_BY_DEFAULT)
    with contextlib.ExitStack() as stack:
        with refusing(parser, "--csv: ", OSError):
            file = stack.enter_context(open(options.csv, "w", newline="", encoding="utf-8")) if options.csv else None
        rows = _decode.run(cells, variants, peers, file)
    finish_decoding(rows, options, device)
    return int(any(row.failed for row in rows))


def bench_masks(options, parser):
    torch = require_torch(parser)
    from . import _masks, _masks_backward, _measure, _peers
    seed = choose_seed(options, torch)
    print(f"{_measure.describe_device()}; seed {seed}")
    reason = _peers.FlexAttention.missing()
    if reason and not options.backward:
        print(f"not compared: flex: {reason}")
    print(_masks.HEADER, flush=True)
    kind = _masks_backward.BackwardMaskBench if options.backward else _masks.MaskBench
    lines = kind(seed, not reason, lambda line: print(line, flush=True)).run()
    return int(any(line.failed for line in lines))


def bench_models(parser):
    require_torch(parser)
    try:
        import transformers
    except ImportError as error:
        parser.exit(1, f"flashc.bench --models needs transformers: {error}\n")
    from . import _measure, _models
    print(f"{_measure.describe_device()}; transformers {transformers.__version__}; tokens per second")
    _models.run(lambda line: print(line, flush=True))
    return 0


def bench(cells, variants, bars, options, parser):
    torch = require_torch(parser)
    from . import _clock, _gradients, _measure, _peers
    seed = choose_seed(options, torch)
    peers = choose_peers(f"{_measure.describe_device()}; flashc {version()}; seed {seed}", options, parser)
    with refusing(parser, "--csv: ", OSError):
        writer = _report.CSVWriter(options.csv) if options.csv else None
    systems = [*(_peers.Flashc(name, **keywords) for name, keywords in variants.items()), *peers]
    if options.backward:
        systems = _gradients.backward_of(systems)
    measurer = _measure.Measurer(systems, _clock.SMClock(_measure.device_uuid()), seed)
    table = _report.Table([*(system.name for system in systems), _report.CUBLAS], cells, bars)
    print(table.header(), flush=True)
    rows, lost = [], None
    progress = Progress(len(cells))
    for group in related(cells):
        progress.show("; ".join(map(str, group)))
        try:
            measured = measurer.measure(group)
        except _measure.DeviceLost as error:
            measured, lost = error.rows, error
        rows += measured
        progress.advance(len(group))
        progress.clear()
        for row in measured:
            print(table.line(row), flush=True)
            if writer:
                writer.write(row)
        if lost:
            break
    if writer:
        writer.close()
    if lost:
        print(f"stopped after {len(rows)} of {len(cells)} cells: CUDA failed: {lost}")
    finish(rows, bars, options)
    return int(bool(lost) or any(_measure.failed(row) for row in rows))


def main(arguments=None):
    parser = build_parser()
    options = parser.parse_args(arguments)
    is_decoding = options.decode is not None
    if options.fa3:
        if not is_decoding:
            parser.error("expected --fa3 together with --decode")
        with refusing(parser, "--fa3: ", OSError):
            open(options.fa3, "rb").close()
    cells = choose_decoding(options, parser) if is_decoding else choose_cells(options, parser)
    variants = choose_variants(options, parser)
    bars = {} if is_decoding else choose_bars(cells, options, parser)
    if options.list:
        print("\n".join(map(str, cells)))
        return 0
    if options.plot:
        reason = _plot.missing()
        if reason:
            parser.error(reason)
        with refusing(parser, "--plot: ", OSError):
            open(options.plot, "ab").close()
    if options.read:
        return read_decoding(options, parser) if is_decoding else read(options, parser)
    if is_decoding:
        return bench_decoding(cells, variants, options, parser)
    if options.latency and options.backward:
        parser.error("expected --backward or --latency, got both")
    if options.latency:
        from . import _latency
        return _latency.main()
    if options.models:
        return bench_models(parser)
    if options.masks:
        return bench_masks(options, parser)
    return bench(cells, variants, bars, options, parser)


if __name__ == "__main__":
    sys.exit(main())
