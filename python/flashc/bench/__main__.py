"""The command line of `python -m flashc.bench`."""

import argparse
import sys

from . import _plot, _report
from ._grid import HELP, GridError, parse_grid
from ._progress import Progress

DESCRIPTION = """Times flashc's forward attention on this machine's GPU beside every attention that is installed:
PyTorch's with cuDNN and with FlashAttention-2, FlexAttention under torch.compile, and the packages of the
FlashAttention project. All of them take turns in one process and are timed with CUDA events, after a warm-up, each for
at least 60 ms in at least 6 rounds, the median of which counts. Inputs are random and new in every cell; outputs are
checked against float32 attention; the rate of cuBLAS on an 8192^3 bf16 product comes from the same rounds, and the
clock of the multiprocessors is read under flashc right after them. TFLOP/s counts 4 B H N N d operations, half of that
for causal. The ratio is flashc's rate over the best peer's."""

EXAMPLES = """examples:
  python -m flashc.bench --csv bench.csv --plot bench.png
  python -m flashc.bench --grid d=128 n=1024..8192 causal=1 --peers cudnn,flex
  python -m flashc.bench --read a.csv b.csv --plot bench.png     measure nothing: table and plot of earlier runs
  python -m flashc.bench --latency

exit status: 0; 1 if flashc did not run a cell or anybody's numbers were wrong; 2 for a wrong command line."""


def build_parser():
    parser = argparse.ArgumentParser(prog="python -m flashc.bench", description=DESCRIPTION, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", nargs="+", default=[], metavar="KEY=VALUES", help=HELP)
    parser.add_argument("--dtype", choices=("bf16", "f16"), default="bf16", help="of q, k, v (default: bf16)")
    parser.add_argument("--peers", metavar="NAMES", help="separated by commas, of cudnn, fa2, flex, flex-tuned, "
                        "flash_attn2, flash_attn3 (default: all that are installed, but for flex-tuned)")
    parser.add_argument("--csv", metavar="FILE", help="write every number there, cell by cell")
    parser.add_argument("--plot", metavar="FILE", help="draw TFLOP/s over N, as PNG; needs matplotlib")
    parser.add_argument("--seed", type=int, help="of the random inputs (default: another one each time, printed)")
    parser.add_argument("--list", action="store_true", help="print the cells, measure nothing")
    parser.add_argument("--read", nargs="+", metavar="CSV", help="measure nothing: table and plot of these files")
    parser.add_argument("--latency", action="store_true",
                        help="measure the times from a program to a kernel and of a launch instead")
    return parser


def print_rows(rows, table):
    print(table.header())
    for row in rows:
        print(table.line(row))


def finish(rows, options):
    """Summary and plot."""
    print()
    print("\n".join(_report.summary(rows)))
    for line in _report.problems(rows):
        print(f"note: {line}")
    if options.plot and rows:
        _plot.plot(rows, options.plot)
        print(f"wrote {options.plot}")


def read(options, parser):
    try:
        rows = _report.read_csv(options.read)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print_rows(rows, _report.Table(_report.systems_of(rows), [row.cell for row in rows]))
    finish(rows, options)
    return 0


def bench(cells, options, parser):
    try:
        import torch
    except ImportError as error:
        parser.exit(1, f"flashc.bench needs PyTorch with CUDA: {error}\n")
    if not torch.cuda.is_available():
        parser.exit(1, "flashc.bench needs a GPU, and PyTorch sees none\n")
    from . import _clock, _measure, _peers
    try:
        peers, left_out = _peers.choose_peers(options.peers)
    except _peers.PeerError as error:
        parser.error(str(error))
    writer = None
    if options.csv:
        try:
            writer = _report.CSVWriter(options.csv)
        except OSError as error:
            parser.error(f"--csv: {error}")
    import flashc
    seed = options.seed if options.seed is not None else torch.seed() % (1 << 31)
    print(f"{_measure.describe_device()}; flashc {flashc.__version__}; {options.dtype}; seed {seed}")
    for name, reason in left_out.items():
        print(f"not compared: {name}: {reason}")
    measurer = _measure.Measurer(peers, options.dtype, _clock.SMClock(_measure.device_uuid()), seed)
    table = _report.Table([_report.FLASHC, *(peer.name for peer in peers), _report.CUBLAS], cells)
    print(table.header(), flush=True)
    rows, lost = [], None
    progress = Progress(len(cells))
    for cell in cells:
        progress.show(str(cell))
        try:
            row = measurer.measure(cell)
        except _measure.DeviceLost as error:
            row, lost = error.row, error
        rows.append(row)
        progress.advance()
        progress.clear()
        print(table.line(row), flush=True)
        if writer:
            writer.write(row)
        if lost:
            break
    if writer:
        writer.close()
    if lost:
        print(f"stopped after {len(rows)} of {len(cells)} cells: CUDA failed in {rows[-1].cell}: {lost}")
    finish(rows, options)
    return int(bool(lost) or any(_measure.failed(row) for row in rows))


def main(arguments=None):
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        cells = parse_grid(options.grid)
    except GridError as error:
        parser.error(f"--grid: {error}")
    if options.list:
        print("\n".join(map(str, cells)))
        return 0
    if options.plot:
        reason = _plot.missing()
        if reason:
            parser.error(reason)
        try:
            open(options.plot, "ab").close()
        except OSError as error:
            parser.error(f"--plot: {error}")
    if options.read:
        return read(options, parser)
    if options.latency:
        from . import _latency
        return _latency.main()
    return bench(cells, options, parser)


if __name__ == "__main__":
    sys.exit(main())
