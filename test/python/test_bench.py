"""The benchmark, as far as it needs neither a GPU nor PyTorch: the grid, timing with a clock of our own, the report."""

import csv
import ctypes
import dataclasses
import io
import math
import subprocess
import sys

import pytest

from flashc.bench import __main__ as command
from flashc.bench import _bars, _decode_grid, _decode_report, _plot, _report, _timing
from flashc.bench._grid import Cell, GridError, parse_grid, preset, related
from flashc.bench._progress import Progress
from flashc.bench._report import CSVWriter, Entry, Row, Table, geometric_mean, read_csv


# --- The grid ---------------------------------------------------------------------------------------------------------

def test_default_grid_is_that_of_the_papers():
    cells = parse_grid()
    assert len(cells) == 3 * 2 * 6
    assert {cell.batch * cell.n for cell in cells} == {16384}
    assert {cell.heads * cell.d for cell in cells} == {2048}
    assert [cell.n for cell in cells[:6]] == [512, 1024, 2048, 4096, 8192, 16384]
    assert not cells[0].causal and cells[6].causal


def test_grid_selects_and_overrides():
    cells = parse_grid(["d=128", "n=512..2048", "causal=1", "batch=3", "heads=8", "group=4"])
    assert cells == [Cell(d=128, causal=True, n=n, batch=3, heads=8, group=4) for n in (512, 1024, 2048)]
    assert cells[0].key_heads == 2
    assert str(cells[0]) == "d=128 causal=1 n=512 batch=3 heads=8 group=4"


def test_grid_takes_lists_and_drops_repetitions():
    assert [cell.n for cell in parse_grid(["d=64", "causal=0", "n=8192,512..1024,512"])] == [8192, 512, 1024]


@pytest.mark.parametrize("items, message", [
    (["depth=3"], "KEY=VALUES with a key of dtype, d, n, causal"),
    (["d"], "got 'd'"),
    (["d=64", "d=128"], "d is given twice"),
    (["n=many"], "n: expected a number, got 'many'"),
    (["n="], "n: expected a number, got ''"),
    (["n=0"], "n: expected a positive number, got 0"),
    (["n=1024..512"], "expected a..b with a <= b, got '1024..512'"),
    (["causal=2"], "causal: expected 0 or 1, got 2"),
    (["causal=0..1"], "causal: expected values separated by commas, got '0..1'"),
    (["dtype=f32"], "dtype: expected bf16 or f16, got 'f32'"),
    (["d=192x"], "d: expected a number, got ''"),
    (["heads=16", "kv-heads=3"], "expected heads to be a multiple of kv-heads, got 16 and 3"),
    (["group=1", "kv-heads=2"], "expected group or kv-heads, got both"),
    (["batch=1", "tokens=512"], "expected batch or tokens, got both"),
    (["heads=1", "hidden=64"], "expected heads or hidden, got both"),
    (["n=1000"], "expected tokens to be a multiple of n, got 16384 and 1000"),
    (["d=96"], "expected hidden to be a multiple of dv, got 2048 and 96"),
    (["heads=8", "group=3"], "expected heads to be a multiple of group, got 8 and 3"),
])
def test_wrong_grids_are_refused(items, message):
    with pytest.raises(GridError) as caught:
        parse_grid(items)
    assert message in str(caught.value)


def test_grid_selects_types_pairs_of_dimensions_and_key_heads():
    cells = parse_grid(["d=192x128,64", "n=4096", "causal=0", "heads=16", "kv-heads=2", "dtype=bf16,f16"])
    assert [(cell.d, cell.dv, cell.dtype) for cell in cells] == [(192, 128, "bf16"), (192, 128, "f16"),
                                                                 (64, 64, "bf16"), (64, 64, "f16")]
    assert {(cell.group, cell.key_heads) for cell in cells} == {(8, 2)}
    assert str(cells[1]) == "f16 d=192x128 causal=0 n=4096 batch=4 heads=16 group=8"
    assert cells[0].flops == 2 * 4 * 16 * 4096 ** 2 * (192 + 128)
    assert cells[0].input_bytes() == 2 * 4 * 4096 * (16 * 192 + 2 * 192 + 2 * 128)


def test_related_cells_have_the_same_flops_and_are_measured_together():
    cells = preset("related")
    groups = related(cells)
    assert sorted(map(str, cells)) == sorted(str(cell) for group in groups for cell in group)
    assert len(cells) == 36 * 2 + 4 * 3
    for cell in cells:
        group, = (group for group in groups if cell in group)
        for other in cell.relatives().values():
            assert other in group and other.flops == cell.flops
    grouped, = (cell for cell in cells if cell.group == 8 and cell.n == 4096 and cell.causal)
    assert grouped.heads == 16 and grouped.key_heads == 2
    pair, = (cell for cell in cells if cell.d == 192 and cell.n == 16384 and not cell.causal)
    assert [(cell.d, cell.heads) for cell in pair.relatives().values()] == [(128, 20)]
    assert all(len(group) == 1 for group in related(parse_grid()))
    assert related(parse_grid(["d=192x128", "heads=1", "n=512", "causal=0"])) == [
        parse_grid(["d=192x128", "heads=1", "n=512", "causal=0"])]  # 1.25 heads of d=128 do not exist.


def test_flops_count_two_products_and_half_if_causal():
    cell = Cell(d=64, causal=False, n=512, batch=2, heads=4)
    assert cell.flops == 4 * 2 * 4 * 512 * 512 * 64
    assert Cell(d=64, causal=True, n=512, batch=2, heads=4).flops == cell.flops / 2
    assert cell.input_bytes() == 3 * 2 * 4 * 512 * 64 * 2


def test_a_backward_pass_counts_five_products():
    cell = Cell(d=64, causal=True, n=512, batch=2, heads=4)
    gradients = dataclasses.replace(cell, backward=True)
    assert gradients.flops == 2.5 * cell.flops
    assert str(gradients) == f"backward {cell}"
    assert dataclasses.replace(gradients, group=4).relatives().popitem()[1] == gradients


# --- Timing -----------------------------------------------------------------------------------------------------------

class FakeGPU:
    """Contenders are their milliseconds per call; a burst costs `overhead` too, and the n-th one is `drift` slower."""

    def __init__(self, overhead=0.0, drift=0.0):
        self.overhead, self.drift, self.bursts = overhead, drift, []

    def measure(self, contender, calls):
        self.bursts.append((contender, calls))
        return self.overhead + contender * calls * (1 + self.drift * len(self.bursts))


def test_every_contender_runs_long_enough_in_every_round():
    gpu = FakeGPU()
    timings = _timing.time_interleaved({"fast": 0.05, "slow": 7.0}, gpu.measure)
    for name, milliseconds in (("fast", 0.05), ("slow", 7.0)):
        assert timings[name].total_ms >= 60
        assert len(timings[name].samples) >= 6
        assert timings[name].median == pytest.approx(milliseconds)
        assert timings[name].spread == pytest.approx(0)


def test_short_calls_get_more_rounds_instead_of_endless_bursts():
    gpu = FakeGPU()
    timings = _timing.time_interleaved({"tiny": 0.002}, gpu.measure)
    assert timings["tiny"].total_ms >= 60
    assert max(calls for _, calls in gpu.bursts) == _timing.MAX_CALLS


def test_rounds_end_even_if_time_stands_still():
    timings = _timing.time_interleaved({"none": 0.0}, FakeGPU().measure, max_rounds=9)
    assert len(timings["none"].samples) == 9


def test_contenders_take_turns_at_going_first():
    gpu = FakeGPU()
    _timing.time_interleaved({"a": 2.0, "b": 3.0, "c": 4.0}, gpu.measure, rounds=6)
    turns = [contender for contender, _ in gpu.bursts[9:]]
    assert turns[:9] == [2.0, 3.0, 4.0, 3.0, 4.0, 2.0, 4.0, 2.0, 3.0]


def test_a_drifting_clock_hits_equal_contenders_equally():
    timings = _timing.time_interleaved({"a": 1.0, "b": 1.0}, FakeGPU(drift=0.01).measure, rounds=8)
    assert timings["a"].median == pytest.approx(timings["b"].median, rel=0.01)
    assert timings["a"].spread > 0


def test_input_sets_outsize_the_cache():
    cache = 50 << 20
    assert _timing.input_sets(256 << 20, cache) == 1
    assert _timing.input_sets(100 << 20, cache) == 1
    count = _timing.input_sets(10 << 20, cache)
    assert (count - 1) * (10 << 20) >= 2 * cache
    assert _timing.input_sets(1 << 10, cache) == 32


def test_call_times_leave_waiting_out():
    now, waits = [0], []

    def clock():
        return now[0]

    def call():
        now[0] += 3000

    def wait():
        waits.append(now[0])
        now[0] += 10 ** 9

    times = _timing.call_times(call, wait, calls=100, per_wait=10, clock=clock)
    assert times == [3.0] * 100
    assert len(waits) == 12
    assert _timing.milliseconds(call, clock) == 0.003


# --- The report -------------------------------------------------------------------------------------------------------

def make_row(n=512, causal=False, flashc=300.0, cell=None, **peers):
    entries = {"flashc": Entry(ms=0.5, spread=0.01, tflops=flashc, error=1e-3, bound=2e-3, frobenius=2e-3)}
    for name, rate in peers.items():
        entries[name.replace("__", ":")] = Entry(note=rate) if isinstance(rate, str) else Entry(ms=1.0, tflops=rate)
    entries["cublas"] = Entry(ms=1.4, tflops=780.0)
    cell = cell or Cell(d=64, causal=causal, n=n, batch=16384 // n, heads=32)
    return Row("Some GPU", cell, entries, sm_mhz=1755.0)


def test_geometric_mean():
    assert geometric_mean([2.0, 0.5]) == pytest.approx(1.0)
    assert geometric_mean([1.0, 10.0, 100.0]) == pytest.approx(10.0)
    assert geometric_mean([3.0, math.nan]) == pytest.approx(3.0)
    assert math.isnan(geometric_mean([])) and math.isnan(geometric_mean([math.nan]))


def test_ratio_is_to_the_best_peer_and_never_to_cublas():
    row = make_row(cudnn=200.0, fa2=150.0)
    assert row.ratio() == 1.5 and row.best_peer() == "cudnn"
    assert row.ratio("fa2") == 2.0
    assert math.isnan(make_row().ratio()) and make_row().best_peer() == ""
    assert math.isnan(make_row(flashc=math.nan, cudnn=200.0).ratio())


def test_table_is_aligned_and_shows_what_is_missing():
    table = Table(["flashc", "cudnn", "fa2", "cublas"], parse_grid())
    lines = table.header().splitlines() + [table.line(make_row(cudnn=200.0, fa2="no kernel")),
                                           table.line(make_row(n=16384, causal=True, cudnn=1234.0, fa2=7.0))]
    assert len({len(line) for line in lines}) == 1
    cells = [cell.strip() for cell in lines[2].strip("|").split("|")]
    assert cells == ["64", "no", "512", "300", "200", "-", "780", "1755", "cudnn", "1.50"]
    assert [cell.strip() for cell in lines[3].strip("|").split("|")][-1] == "0.24"


def test_table_has_a_column_for_whatever_tells_cells_apart():
    for items, extents in (([], []), (["group=1,2"], ["group"]), (["tokens=16384,32768"], ["batch"]),
                           (["heads=4,8"], ["heads"]), (["dtype=bf16,f16"], ["dtype"]), (["d=64,192x128"], [])):
        headings = [heading.strip() for heading in Table(["flashc"], parse_grid(items)).header().split("|")[1:-1]]
        assert headings[:headings.index("flashc")] == ["d", "causal", "n"] + extents


def test_summary_has_the_means_of_all_halves_and_peers():
    rows = [make_row(cudnn=150.0, fa2=100.0), make_row(causal=True, cudnn=600.0, fa2="no kernel")]
    lines = _report.summary(rows)
    assert lines[0] == "geometric mean of the ratios to the best peer, all cells: 1.000 (2 cells, 0.50 to 2.00)"
    assert lines[1].endswith("not causal: 2.000 (1 cell, 2.00 to 2.00)")
    assert lines[2].endswith(" causal: 0.500 (1 cell, 0.50 to 0.50)")
    assert lines[3:] == ["  to cudnn: 1.000 (2 cells, 0.50 to 2.00)", "  to fa2: 3.000 (1 cell, 3.00 to 3.00)"]
    assert _report.summary([]) == ["no cells"]
    assert "no ratios" in _report.summary([make_row()])[0]
    assert _report.problems(rows) == ["d=64 causal=1 n=512 batch=32 heads=32: fa2: no kernel"]


def test_variants_are_measured_against_flashc_and_are_no_peers():
    row = make_row(cudnn=200.0, flashc__slow=150.0, flashc__bad="wrong: o off")
    assert row.best_peer() == "cudnn" and row.ratio() == 1.5
    assert row.own_ratio("flashc:slow") == 0.5 and row.own_ratio("cudnn") == 1.5
    assert math.isnan(row.own_ratio("flashc:bad"))
    assert _report.systems_of([row]) == ["flashc", "flashc:slow", "flashc:bad", "cudnn", "cublas"]
    table = Table(_report.systems_of([row]), [row.cell])
    lines = table.header().splitlines() + [table.line(row)]
    assert len({len(line) for line in lines}) == 1
    assert [cell.strip() for cell in lines[2].split("|")][4:8] == ["300", "150 (0.500)", "-", "200"]
    assert "flashc:slow over flashc: 0.500 (1 cell, 0.500 to 0.500)" in _report.summary([row])
    assert not any("flashc:bad" in line for line in _report.summary([row]))


def test_summary_relates_cells_and_compares_long_ones_with_cublas():
    cells = [Cell(d=128, causal=True, n=16384, batch=1, heads=16, group=group, dtype=dtype)
             for dtype, group in (("bf16", 1), ("f16", 1), ("bf16", 8))]
    rows = [make_row(cell=cell, flashc=rate) for cell, rate in zip(cells, (700.0, 693.0, 735.0))]
    lines = _report.summary(rows)
    assert lines[1] == "f16 over bf16: 0.990 (1 cell, 0.990 to 0.990)"
    assert lines[2] == "  0.990  f16 d=128 causal=1 n=16384 batch=1 heads=16"
    assert lines[3].startswith("grouped over as many key heads as query heads: 1.050")
    assert lines[5] == "flashc over cuBLAS: 0.897  d=128 causal=1 n=16384 batch=1 heads=16"
    assert len(_report.summary(rows[1:])) == 3  # Nothing to relate them to.
    assert not any("cuBLAS" in line for line in _report.summary([make_row(n=16384)]))  # d=64


BARS = """# measured elsewhere
d,n,causal,cudnn_tflops,trial_over_cudnn,fa3_over_cudnn,run2_trial_over_cudnn
64,512,0,382,1.2,0.8,1.3
64,512,1,382,1.0,0.5,1.0
128,512,1,382,1.0,0.5,1.0
"""


def test_bars_divide_the_ratios_to_cudnn(tmp_path):
    path = tmp_path / "bars.csv"
    path.write_text(BARS)
    bars = _bars.read_bars(str(path))
    assert bars[Cell(d=64, causal=False, n=512, batch=32, heads=32)] == _bars.Bar(pytest.approx(1.25), 0.8)
    rows = [make_row(cudnn=200.0), make_row(causal=True, cudnn=400.0, fa2=1.0), make_row(n=1024, cudnn=200.0),
            make_row(cell=parse_grid(["d=128", "n=512", "causal=1"])[0], cudnn="no kernel")]
    lines = _bars.report(rows, bars)
    assert [[text.strip() for text in line.split("|")[1:-1]] for line in lines[2:4]] == [
        ["64", "no", "512", "1.500", "1.250", "1.200", "0.800", "1.875"],
        ["64", "yes", "512", "0.750", "1.000", "0.750", "0.500", "1.500"]]
    assert len({len(line) for line in lines[:4]}) == 1
    assert lines[4:] == ["geometric mean over hand: 0.949 (2 of 3 cells, 0.750 to 1.200)",
                         "geometric mean over fa3: 1.677 (2 of 3 cells, 1.500 to 1.875)"]
    assert _bars.report(rows[2:], bars) == ["no cell has a bar, and numbers of flashc and cudnn"]


def test_bars_of_the_backward_pass_are_there_for_all_cells_and_have_columns():
    cells = [dataclasses.replace(cell, backward=True) for cell in parse_grid()]
    bars = _bars.bars_of(cells)
    assert set(bars) == set(cells) and _bars.bars_of(parse_grid()) == {}
    assert bars[cells[0]] == _bars.Bar(pytest.approx(1.194), 1.06)
    table = Table(["flashc", "cudnn"], cells, bars)
    lines = [table.header().splitlines()[0], table.line(make_row(cell=cells[0], cudnn=400.0, fa2=200.0)),
             table.line(make_row(cell=dataclasses.replace(cells[0], heads=4), fa2=200.0))]
    assert len({len(line) for line in lines}) == 1
    assert [[text.strip() for text in line.split("|")[-7:-4]] for line in lines] == [
        ["ratio", "/cudnn", "hand"], ["0.75", "0.75", "1.19"], ["1.50", "-", "-"]]


@pytest.mark.parametrize("text, message", [
    ("d,n,causal\n", "expected the columns d,n,causal,trial_over_cudnn"),
    (BARS + "64,1000,0,1,1,1,1\n", "bars.csv:6: expected tokens to be a multiple of n"),
    (BARS.replace("1.3", "many"), "bars.csv:3: could not convert string to float: 'many'"),
    (BARS.replace("1.3", ""), "bars.csv:3: "),
])
def test_other_bars_are_refused(text, message, tmp_path, capsys):
    path = tmp_path / "bars.csv"
    path.write_text(text)
    status, _, err = run(["--bars", str(path), "--list"], capsys)
    assert status == 2 and message in err


def test_csv_is_on_disk_row_by_row_and_reads_back(tmp_path):
    path = str(tmp_path / "bench.csv")
    writer = CSVWriter(path)
    rows = [make_row(cudnn=200.0, fa2='no kernel, says "it"'),
            make_row(cell=Cell(d=192, dv=128, causal=True, n=1024, batch=16, heads=16, group=8, dtype="f16",
                               backward=True), cudnn=250.0)]
    writer.write(rows[0])
    with open(path, newline="") as file:  # The writer is still open: this is what a crash leaves.
        lines = list(csv.DictReader(file))
    assert [line["system"] for line in lines] == ["flashc", "cudnn", "fa2", "cublas"]
    assert lines[0]["ratio"] == "1.5000" and lines[1]["ratio"] == "1.5000"
    assert lines[2]["ms"] == "" and lines[2]["note"] == 'no kernel, says "it"'
    assert lines[3]["ratio"] == ""
    writer.write(rows[1])
    writer.close()
    back = read_csv([path])
    assert [row.cell for row in back] == [row.cell for row in rows]
    assert [row.ratio() for row in back] == [row.ratio() for row in rows]
    assert back[0].sm_mhz == 1755 and back[0].entries["fa2"].note == rows[0].entries["fa2"].note
    assert _report.systems_of(back) == ["flashc", "cudnn", "fa2", "cublas"]


def with_errors(row, **errors):
    """The row with the errors of dq, dk and dv of its systems."""
    for name, values in errors.items():
        row.entries[name].gradients = dict(zip(("dq", "dk", "dv"), values))
    return row


BACKWARD = dataclasses.replace(parse_grid(["d=64", "n=512", "causal=0"])[0], backward=True)


def test_errors_of_gradients_are_in_the_table_together_with_those_of_cudnn():
    systems = ["flashc", "cudnn", "fa2", "cublas"]
    row = with_errors(make_row(cell=BACKWARD, cudnn=200.0, fa2=1.0), flashc=(3.034e-3, 2e-3, 1e-3),
                      cudnn=(2.51e-3, 2e-3, 1e-3), fa2=(9.0, 9.0, 9.0))
    refused = with_errors(make_row(cell=BACKWARD, cudnn="no kernel"), flashc=(3e-3, 2e-3, 1e-3))
    table = Table(systems, [BACKWARD])
    lines = table.header().splitlines() + [table.line(row), table.line(refused)]
    assert len({len(line) for line in lines}) == 1
    assert [[text.strip() for text in line.split("|")[-4:-1]] for line in (lines[0], *lines[2:])] == [
        ["dq 1e-3", "dk 1e-3", "dv 1e-3"], ["3.03/2.51", "2.00/2.00", "1.00/1.00"], ["3.00/-", "2.00/-", "1.00/-"]]
    assert Table(["flashc"], [BACKWARD]).line(row).rstrip("| ").endswith(" 1.00")
    assert "1e-3" not in Table(systems, parse_grid()).header()


def test_summary_has_the_largest_errors_of_gradients_and_their_ratios():
    rows = [with_errors(make_row(cell=BACKWARD, cudnn=200.0), flashc=(3e-3, 2e-3, 1e-3), cudnn=(2e-3, 2e-3, 0.0)),
            with_errors(make_row(cell=dataclasses.replace(BACKWARD, causal=True), cudnn="wrong: dq off"),
                        flashc=(1e-3, 4e-3, 1e-3), cudnn=(9.0, 9.0, 9.0))]
    assert [line for line in _report.summary(rows) if "error" in line] == [
        "largest relative Frobenius error of dq: flashc 3.00e-03, cudnn 2.00e-03",
        "  dq's error over cudnn's: 1.500 (1 cell, 1.50 to 1.50)",
        "largest relative Frobenius error of dk: flashc 4.00e-03, cudnn 2.00e-03",
        "  dk's error over cudnn's: 1.000 (1 cell, 1.00 to 1.00)",
        "largest relative Frobenius error of dv: flashc 1.00e-03, cudnn 0.00e+00"]
    assert not any("error" in line for line in _report.summary([make_row(cudnn=200.0)]))


def test_csv_has_the_errors_of_gradients(tmp_path):
    path = str(tmp_path / "bench.csv")
    writer = CSVWriter(path)
    writer.write(with_errors(make_row(cell=BACKWARD, cudnn=200.0), flashc=(3e-3, 2e-3, 1e-3),
                             cudnn=(2.5e-3, 2e-3, 1e-3)))
    writer.close()
    row, = read_csv([path])
    assert row.entries["cudnn"].gradients == {"dq": 2.5e-3, "dk": 2e-3, "dv": 1e-3}
    assert row.error_ratio("dq") == pytest.approx(1.2) and row.entries["cublas"].gradients == {}


def test_other_csvs_are_refused(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="expected the columns device,dtype"):
        read_csv([str(path)])
    path.write_text(",".join(_report.COLUMNS) + "\n" + ",".join(["x"] * len(_report.COLUMNS)) + "\n")
    with pytest.raises(ValueError, match="other.csv:2: "):
        read_csv([str(path)])


def test_latency_line_says_whether_the_target_was_met():
    line = _report.latency_line("launch", [4.0, 3.0, 100.0], "us", 5, "beside it")
    assert "4.00 us  (3.00 to 100.00, 3 runs)  target < 5 us: met  [beside it]" in line
    assert "MISSED" in _report.latency_line("launch", [6.0], "us", 5)
    assert "target" not in _report.latency_line("launch", [6.0], "us")


def test_latency_arguments_are_those_of_the_program():
    from flashc.bench import _latency

    class Memory:
        sizes = []

        def allocate(self, count):
            self.sizes.append(count)
            return 64 * len(self.sizes)

    attention = _latency.programs()["f16 d=256 causal, 4 heads a key head"]
    arguments, _kept = _latency.make_arguments(Memory(), attention, 128)
    rows = [[list((ctypes.c_int64 * 4).from_address(at)) for at in (argument.extents, argument.strides)]
            for argument in arguments]
    many = [[1, 4, 128, 256], [131072, 32768, 256, 1]]
    one = [[1, 1, 128, 256], [32768, 32768, 256, 1]]
    assert rows == [many, one, one, many]
    assert Memory.sizes == [2 * 131072, 2 * 32768, 2 * 32768, 2 * 131072]
    assert [argument.address for argument in arguments] == [64, 128, 192, 256]


def test_calls_whose_host_time_is_measured_run():
    torch = pytest.importorskip("torch")
    from flashc.bench import _latency
    calls = _latency.host_calls("cpu")
    assert [name for name in calls if name.startswith("flashc")][1:3] == [
        "flashc.attention, mask", "flashc.attention, mask that reads an array"]
    with torch.no_grad():
        for call in calls.values():
            call()


# --- Decoding ---------------------------------------------------------------------------------------------------------

def test_cells_of_decoding():
    cells = _decode_grid.parse(["heads=32/8,64/8", "d=128", "b=1,16", "n=4096", "page=0,16", "layout=hnd,nhd"])
    assert len(cells) == 16
    assert str(cells[0]) == "32/8 d=128 B=1 N=4096" and cells[0].kind == "32/8 d=128"
    assert str(cells[-1]) == "64/8 d=128 B=16 N=4096 page=16 nhd" and cells[-1].kind == "64/8 d=128 page=16 nhd"
    assert (cells[-1].group, cells[-1].causal, cells[-1].bytes) == (8, False, 16 * 4096 * 8 * (128 + 128) * 2)
    assert 100 < len(_decode_grid.parse([])) < 120  # Those whose caches fit.


@pytest.mark.parametrize("text, message", [
    ("heads=32", "heads: expected query heads / key heads, a multiple of them, got '32'"),
    ("heads=32/5", "a multiple of them, got '32/5'"),
    ("depth=1", "expected heads=, d=, b=, n=, page= or layout=, got 'depth=1'"),
    ("n=", "got 'n='"),
    ("n=many", "n: expected a positive number, got 'many'"),
    ("b=0", "b: expected a positive number, got '0'"),
    ("layout=dnh", "layout: expected hnd or nhd, got 'dnh'"),
    ("page=48", "expected n to be a multiple of page, got 1024 and 48"),
])
def test_wrong_cells_of_decoding_are_refused(text, message, capsys):
    status, _, err = run(["--decode", text], capsys)
    assert status == 2 and "--decode: " in err and message in err


def decoded(batch=1, keys=1024, notes=None, **microseconds):
    times = {name.replace("__", ":"): time for name, time in microseconds.items()}
    return _decode_report.Row(_decode_grid.Cell(batch, keys), times, notes or {})


def test_ratios_of_decoding_are_to_the_best_of_all_peers():
    row = decoded(flashc=10.0, flashc__w4=5.0, cudnn=20.0, fa2=30.0, flex=15.0)
    assert row.ratio() == 1.5 and row.ratio("fa2") == 3.0
    assert row.rate("flashc") == pytest.approx(1024 * 8 * 128 * 4 / 10.0 / 1e6)
    assert row.line().startswith("32/8 d=128 B=1 N=1024 ") and row.line().endswith("  1.50")
    assert " flex      15.0 us  0.28 TB/s" in row.line()
    alone = decoded(flashc=10.0)
    assert math.isnan(alone.ratio()) and math.isnan(alone.rate("flex")) and alone.line().endswith("TB/s")


def test_summary_of_decoding():
    rows = [decoded(flashc=10.0, flashc__w4=20.0, cudnn=20.0, fa2=40.0),
            decoded(flashc=10.0, fa2=5.0, notes={"cudnn": "no kernel"})]
    assert _decode_report.summary(rows) == [
        "geometric mean of 2 ratios to the best peer: 1.000 (0.500 to 2.00)",
        "geometric mean of 1 ratios of flashc's time to that of flashc:w4: 0.500 (0.500 to 0.50)",
        "geometric mean of 1 ratios to cudnn: 2.000 (2.000 to 2.00)",
        "geometric mean of 2 ratios to fa2: 1.414 (0.500 to 4.00)",
        "note: 32/8 d=128 B=1 N=1024: cudnn: no kernel"]


def test_what_fails_decoding():
    assert not decoded(flashc=1.0, notes={"flex": "no kernel"}).failed
    assert decoded(flashc=1.0, notes={"flex": "wrong: relative error 1.0"}).failed
    assert decoded(cudnn=1.0, notes={"flashc": "no"}).failed
    assert decoded(flashc=1.0, notes={"flashc:w4": "no"}).failed


def test_csv_of_decoding_reads_back(tmp_path):
    path = tmp_path / "decode.csv"
    rows = [decoded(flashc=10.25, cudnn=20.5), decoded(16, 4096, flashc=63.5)]
    with open(path, "w", newline="", encoding="utf-8") as file:
        _decode_report.write_csv(file, rows[:1], with_names=True)
        _decode_report.write_csv(file, rows[1:])
    assert path.read_text().splitlines()[:2] == [
        "batch,keys,query_heads,key_heads,depth,page,layout,system,microseconds,tb_per_s",
        "1,1024,32,8,128,0,hnd,flashc,10.25,0.409"]
    assert _decode_report.read_csv([path]) == rows
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="expected the columns batch,keys"):
        _decode_report.read_csv([path])
    path.write_text(",".join(_decode_report.COLUMNS) + "\n" + ",".join(["x"] * 10) + "\n")
    with pytest.raises(ValueError, match="decode.csv:2: "):
        _decode_report.read_csv([path])


def test_panels_of_decoding():
    rows = [decoded(4, 2048), decoded(4, 1024), decoded(1, 4096)]
    rows.append(_decode_report.Row(_decode_grid.Cell(1, 1024, depth=64), {}))
    assert {title: {batch: [row.cell.keys for row in members] for batch, members in batches.items()}
            for title, batches in _plot.decoding_panels(rows).items()} == {
        "32/8 d=64": {1: [1024]}, "32/8 d=128": {1: [4096], 4: [1024, 2048]}}


def test_plot_of_decoding_is_a_png(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    table, picture = tmp_path / "decode.csv", tmp_path / "decode.png"
    rows = [decoded(batch, keys, flashc=10.0 * batch, cudnn=12.0 * batch, **({"flex": 9.0 * batch} if batch == 1 else {}))
            for batch in (1, 4) for keys in (1000, 1024, 4096)]
    with open(table, "w", newline="", encoding="utf-8") as file:
        _decode_report.write_csv(file, [*rows, decoded(16, 1024, cudnn=1.0)], with_names=True)
    status, out, _ = run(["--decode", "--read", str(table), "--plot", str(picture)], capsys)
    assert status == 0 and f"wrote {picture}" in out
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_read_makes_the_lines_of_decoding(tmp_path, capsys):
    path = tmp_path / "decode.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        _decode_report.write_csv(file, [decoded(flashc=10.0, cudnn=20.0)], with_names=True)
    status, out, _ = run(["--decode", "--read", str(path)], capsys)
    assert status == 0 and out.splitlines()[0].endswith("  2.00")
    assert "geometric mean of 1 ratios to the best peer: 2.000 (2.000 to 2.00)" in out
    status, _, err = run(["--decode", "--read", str(tmp_path / "none.csv")], capsys)
    assert status == 2 and "none.csv" in err


def test_list_prints_the_cells_of_decoding(capsys):
    status, out, _ = run(["--list", "--decode", "heads=32/8", "d=64", "b=2", "n=512,1024"], capsys)
    assert status == 0 and out == "32/8 d=64 B=2 N=512\n32/8 d=64 B=2 N=1024\n"


@pytest.mark.parametrize("arguments, name", [
    (["--grid", "d=64"], "grid"), (["--cells", "related"], "cells"), (["--backward"], "backward"), (["--masks"], "masks"),
    (["--latency"], "latency"), (["--static-shapes"], "static-shapes"), (["--bars", "x.csv"], "bars"),
    (["--seed", "0"], "seed")])
def test_what_does_not_go_with_decoding(arguments, name, capsys):
    status, _, err = run(["--decode", "d=64", *arguments], capsys)
    assert status == 2 and f"expected --decode or --{name}, got both" in err


# --- Progress ---------------------------------------------------------------------------------------------------------

class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_bar_on_a_terminal():
    stream, now = Terminal(), [0.0]
    progress = Progress(4, stream, lambda: now[0])
    progress.show("first")
    assert "[........................] 0/4 0:00  first" in stream.getvalue()
    progress.advance()
    now[0] = 65.0
    assert progress.text("second") == "[######..................] 1/4 1:05, 3:15 left  second"
    progress.clear()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_progress_bar_is_silent_elsewhere():
    stream = io.StringIO()
    progress = Progress(4, stream)
    progress.show("first")
    progress.clear()
    assert stream.getvalue() == ""


# --- The command line -------------------------------------------------------------------------------------------------

def run(arguments, capsys):
    """Exit status, standard output, standard error."""
    try:
        status = command.main(arguments)
    except SystemExit as stop:
        status = stop.code
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_list_prints_the_cells(capsys):
    status, out, _ = run(["--list", "--grid", "d=64", "n=512", "tokens=1024"], capsys)
    assert status == 0
    assert out == "d=64 causal=0 n=512 batch=2 heads=32\nd=64 causal=1 n=512 batch=2 heads=32\n"


def test_cells_prints_a_preset_and_takes_no_grid(capsys):
    status, out, _ = run(["--list", "--cells", "related"], capsys)
    assert status == 0 and "\nf16 d=64 causal=0 n=512 batch=32 heads=32\n" in out
    status, _, err = run(["--cells", "related", "--grid", "d=64"], capsys)
    assert status == 2 and "expected --cells or --grid, got both" in err


def test_backward_has_the_same_cells_and_no_latency(capsys):
    status, out, _ = run(["--backward", "--list", "--grid", "d=64", "n=512", "causal=0"], capsys)
    assert status == 0 and out == "backward d=64 causal=0 n=512 batch=32 heads=32\n"
    status, _, err = run(["--backward", "--latency"], capsys)
    assert status == 2 and "expected --backward or --latency, got both" in err


def test_read_knows_the_bars_of_the_backward_pass(capsys, tmp_path):
    writer = CSVWriter(str(tmp_path / "a.csv"))
    cell = dataclasses.replace(parse_grid(["d=64", "n=512", "causal=0"])[0], backward=True)
    writer.write(make_row(cell=cell, cudnn=200.0))
    writer.close()
    status, out, _ = run(["--read", str(tmp_path / "a.csv")], capsys)
    assert status == 0 and "geometric mean over hand: 1.256 (1 of 36 cells, 1.256 to 1.256)" in out


@pytest.mark.parametrize("arguments, message", [
    (["--schedule", "ping-pong"], "expected NAME=OVERRIDES such as no-turns=ping-pong=false, got 'ping-pong'"),
    (["--schedule", "=stages=2"], "expected NAME=OVERRIDES"),
    (["--schedule", "a=stages=2", "--schedule", "a=stages=3"], "--schedule: a is there twice"),
    (["--static-shapes", "--schedule", "static=stages=3"], "--schedule: static is there twice"),
])
def test_wrong_variants_are_refused(arguments, message, capsys):
    status, _, err = run(["--list", *arguments], capsys)
    assert status == 2 and message in err


def test_wrong_grid_ends_with_status_2(capsys):
    status, _, err = run(["--grid", "d=96"], capsys)
    assert status == 2 and "--grid: expected hidden to be a multiple of dv" in err


def test_plot_without_matplotlib_is_refused_before_anything_runs(monkeypatch, capsys, tmp_path):
    find_spec = _plot.importlib.util.find_spec
    monkeypatch.setattr(_plot.importlib.util, "find_spec",
                        lambda name, *rest: None if name == "matplotlib" else find_spec(name, *rest))
    path = tmp_path / "bench.png"
    status, out, err = run(["--plot", str(path)], capsys)
    assert status == 2 and "--plot needs matplotlib, which is not installed" in err
    assert out == "" and not path.exists()


def test_plot_where_nothing_can_be_written_is_refused(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(_plot, "missing", lambda: None)
    status, _, err = run(["--plot", str(tmp_path / "no" / "folder.png")], capsys)
    assert status == 2 and "--plot: " in err and "folder.png" in err


def test_read_makes_the_table_of_several_files(capsys, tmp_path):
    paths = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    for path, row in zip(paths, (make_row(cudnn=200.0), make_row(causal=True, cudnn=600.0))):
        writer = CSVWriter(path)
        writer.write(row)
        writer.close()
    status, out, _ = run(["--read", *paths], capsys)
    assert status == 0
    assert out.count("| cudnn |") == 1 and "all cells: 0.866 (2 cells" in out
    status, _, err = run(["--read", str(tmp_path / "none.csv")], capsys)
    assert status == 2 and "none.csv" in err


def test_what_differs_but_n_has_its_own_panel():
    rows = [make_row(n=1024), make_row(n=512), make_row(causal=True)]
    assert {title: [row.cell.n for row in members] for title, members in _plot.panels(rows).items()} == {
        "d = 64, not causal": [512, 1024], "d = 64, causal": [512]}
    rows.append(dataclasses.replace(rows[0], cell=dataclasses.replace(rows[0].cell, dtype="f16")))
    assert len(_plot.panels(rows)) == 3
    rows.append(dataclasses.replace(rows[0], cell=dataclasses.replace(rows[0].cell, backward=True)))
    assert "d = 64, not causal\nbackward, bf16, hidden size 2048, 16384 tokens, group 1" in _plot.panels(rows)


def test_plot_is_a_png(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "bench.png"
    _plot.plot([make_row(n=n, causal=causal, cudnn=200.0 + n / 100, fa2="no kernel") for n in (512, 1024, 2048)
                for causal in (False, True)], str(path))
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_without_pytorch_it_says_so():
    done = subprocess.run([sys.executable, "-c", "import sys; sys.modules['torch'] = None\n"
                           "from flashc.bench.__main__ import main; sys.exit(main(['--grid', 'd=64']))"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("flashc.bench needs PyTorch with CUDA: ")
