"""The parts of the benchmark that need neither a GPU nor PyTorch: the grid, timing with a fake clock, the report."""

import csv
import ctypes
import dataclasses
import math
import subprocess
import sys

import pytest

from flashc.bench import __main__ as command
from flashc.bench import _bars, _decode_grid, _decode_report, _plot, _report, _timing
from flashc.bench._grid import Cell, GridError, parse_grid, preset, related
from flashc.bench._report import CSVWriter, Entry, Row, Table, read_csv


# --- The grid ---------------------------------------------------------------------------------------------------------

def test_grid_selects_and_overrides():
    cells = parse_grid(["d=128", "n=512..2048", "causal=1", "batch=3", "heads=8", "group=4"])
    assert cells == [Cell(d=128, causal=True, n=n, batch=3, heads=8, group=4) for n in (512, 1024, 2048)]
    assert cells[0].key_heads == 2 and str(cells[0]) == "d=128 causal=1 n=512 batch=3 heads=8 group=4"
    assert cells[0].flops == 4 * 3 * 8 * 512 ** 2 * 128 / 2  # two products; causal halves the number


@pytest.mark.parametrize("items, message", [
    (["depth=3"], "KEY=VALUES with a key of dtype, d, n, causal"),
    (["d=64", "d=128"], "d is given twice"),
    (["n=many"], "n: expected a number, got 'many'"),
    (["n=1024..512"], "expected a..b with a <= b, got '1024..512'"),
    (["heads=16", "kv-heads=3"], "expected heads to be a multiple of kv-heads, got 16 and 3"),
    (["group=1", "kv-heads=2"], "expected group or kv-heads, got both"),
    (["n=1000"], "expected tokens to be a multiple of n, got 16384 and 1000"),
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
        parse_grid(["d=192x128", "heads=1", "n=512", "causal=0"])]  # 1.25 heads of d=128 do not exist


# --- Timing -----------------------------------------------------------------------------------------------------------

class FakeGPU:
    """A GPU for contenders that are numbers: milliseconds per call."""

    def __init__(self):
        self.bursts = []

    def measure(self, contender, calls):
        self.bursts.append((contender, calls))
        return contender * calls


def test_contenders_run_long_enough_and_take_turns_at_going_first():
    timings = _timing.time_interleaved({"fast": 0.05, "slow": 7.0}, FakeGPU().measure)
    for name, milliseconds in (("fast", 0.05), ("slow", 7.0)):
        assert timings[name].total_ms >= 60 and len(timings[name].samples) >= 6
        assert timings[name].median == pytest.approx(milliseconds) and timings[name].spread == pytest.approx(0)
    gpu = FakeGPU()
    _timing.time_interleaved({"a": 2.0, "b": 3.0, "c": 4.0}, gpu.measure, rounds=6)
    assert [contender for contender, _ in gpu.bursts[9:18]] == [2.0, 3.0, 4.0, 3.0, 4.0, 2.0, 4.0, 2.0, 3.0]


def test_call_times_leave_waiting_out():
    now, waits = [0], []

    def call():
        now[0] += 3000

    def wait():
        waits.append(now[0])
        now[0] += 10 ** 9

    times = _timing.call_times(call, wait, calls=100, per_wait=10, clock=lambda: now[0])
    assert times == [3.0] * 100 and len(waits) == 12
    assert _timing.milliseconds(call, lambda: now[0]) == 0.003


# --- The report -------------------------------------------------------------------------------------------------------

def make_row(n=512, causal=False, flashc=300.0, cell=None, **peers):
    entries = {"flashc": Entry(ms=0.5, spread=0.01, tflops=flashc, error=1e-3, bound=2e-3, frobenius=2e-3)}
    for name, rate in peers.items():
        entries[name.replace("__", ":")] = Entry(note=rate) if isinstance(rate, str) else Entry(ms=1.0, tflops=rate)
    entries["cublas"] = Entry(ms=1.4, tflops=780.0)
    cell = cell or Cell(d=64, causal=causal, n=n, batch=16384 // n, heads=32)
    return Row("Some GPU", cell, entries, sm_mhz=1755.0)


def write_rows(path, *rows):
    writer = CSVWriter(str(path))
    for row in rows:
        writer.write(row)
    writer.close()
    return str(path)


def test_ratio_is_to_the_best_peer_and_never_to_cublas():
    row = make_row(cudnn=200.0, fa2=150.0)
    assert row.ratio() == 1.5 and row.best_peer() == "cudnn"
    assert row.ratio("fa2") == 2.0
    assert math.isnan(make_row().ratio()) and make_row().best_peer() == ""
    assert math.isnan(make_row(flashc=math.nan, cudnn=200.0).ratio())


def columns(table, *rows):
    """Returns the cells of a table's lines: the header, the rule below it, and the rows. Checks that all lines have one
    length."""
    lines = table.header().splitlines() + [table.line(row) for row in rows]
    assert len({len(line) for line in lines}) == 1
    return [[text.strip() for text in line.split("|")[1:-1]] for line in lines]


def test_table_is_aligned_and_shows_what_is_missing():
    lines = columns(Table(["flashc", "cudnn", "fa2", "cublas"], parse_grid()),
                    make_row(cudnn=200.0, fa2="no kernel"), make_row(n=16384, causal=True, cudnn=1234.0, fa2=7.0))
    assert lines[2] == ["64", "no", "512", "300", "200", "-", "780", "1755", "cudnn", "1.50"]
    assert lines[3][-1] == "0.24"


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
    assert columns(Table(_report.systems_of([row]), [row.cell]), row)[2][3:7] == ["300", "150 (0.500)", "-", "200"]
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
    assert len(_report.summary(rows[1:])) == 3  # there is nothing to compare them with
    assert not any("cuBLAS" in line for line in _report.summary([make_row(n=16384)]))  # at d=64


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


@pytest.mark.parametrize("text, message", [
    ("d,n,causal\n", "expected the columns d,n,causal,trial_over_cudnn"),
    (BARS + "64,1000,0,1,1,1,1\n", "bars.csv:6: expected tokens to be a multiple of n"),
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
    with open(path, newline="") as file:  # the writer is still open, as after a crash
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
    """Sets the errors of dq, dk and dv for the systems of a row."""
    for name, values in errors.items():
        row.entries[name].gradients = dict(zip(("dq", "dk", "dv"), values))
    return row


BACKWARD = dataclasses.replace(parse_grid(["d=64", "n=512", "causal=0"])[0], backward=True)


def test_errors_of_gradients_are_in_the_table_together_with_those_of_cudnn():
    systems = ["flashc", "cudnn", "fa2", "cublas"]
    row = with_errors(make_row(cell=BACKWARD, cudnn=200.0, fa2=1.0), flashc=(3.034e-3, 2e-3, 1e-3),
                      cudnn=(2.51e-3, 2e-3, 1e-3), fa2=(9.0, 9.0, 9.0))
    refused = with_errors(make_row(cell=BACKWARD, cudnn="no kernel"), flashc=(3e-3, 2e-3, 1e-3))
    header, _, *lines = [line[-3:] for line in columns(Table(systems, [BACKWARD]), row, refused)]
    assert header == ["dq 1e-3", "dk 1e-3", "dv 1e-3"]
    assert lines == [["3.03/2.51", "2.00/2.00", "1.00/1.00"], ["3.00/-", "2.00/-", "1.00/-"]]
    assert Table(["flashc"], [BACKWARD]).line(row).rstrip("| ").endswith(" 1.00")
    assert "1e-3" not in Table(systems, parse_grid()).header()


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
    torch = pytest.importorskip("torch", minversion="2.0")  # torch.nn.functional.scaled_dot_product_attention
    from flashc.bench import _host
    it = _host.Problem("cpu")
    calls = {**_host.flashc_calls(it), **_host.peer_calls(it)}
    assert len(calls) == 12
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
    assert 100 < len(_decode_grid.parse([])) < 120  # the cells whose caches fit


def test_cells_of_several_queries():
    first, *_, step = _decode_grid.parse(["heads=32/8", "d=64", "b=2,4", "n=4096", "queries=16,3x1+2x64", "page=16",
                                          "lengths=equal,even"])
    assert str(first) == "32/8 d=64 B=2 N=4096 queries=16 page=16" and first.family == "several queries"
    assert (first.query_counts, first.key_counts, first.bytes) == ([16, 16], [4096, 4096], first.cache_bytes)
    assert str(step) == "32/8 d=64 B=5 N=4096 queries=3x1+2x64 page=16 lengths=even" and step.family == "mixed steps"
    assert step.kinds == [(3, 1), (2, 64)] and step.query_counts == [1, 1, 1, 64, 64] and step.is_packed
    assert all(512 <= keys <= 4096 for keys in step.key_counts) and len(set(step.key_counts)) > 1
    assert step.key_counts == dataclasses.replace(step, query_heads=64, page=0).key_counts
    assert step.bytes == sum(step.key_counts) * 8 * 64 * 4 < step.cache_bytes
    tail = _decode_grid.Cell(1000, 16384, queries="128", lengths="tail")
    assert min(tail.key_counts) == 128 and max(tail.key_counts) <= 16384 and tail.family == "lengths=tail"
    assert sorted(tail.key_counts)[500] == pytest.approx(16384 / 16 + 64, rel=0.3)


def test_sets_of_cells():
    def parse(*texts):
        return _decode_grid.parse(list(texts))

    step, drawn, lengths, mixed = (parse(f"cells={name}") for name in ("step", "drawn", "lengths", "mixed"))
    assert len(step) == 77 and len(drawn) == 60 and len(lengths) == len(mixed) == 24
    assert len(parse("cells=step,drawn,lengths,mixed,step")) == len({*step, *drawn, *lengths, *mixed})
    assert drawn[:9] == parse("cells=drawn", "count=9", "seed=42") != parse("cells=drawn", "count=9", "seed=0")
    for cell in drawn:
        assert int(cell.queries) <= min(2048, cell.keys) and cell.cache_bytes <= 16 << 30 and cell.page == 16
    assert {cell.family for cell in step} == {"one query", "several queries", "lengths=even"}
    assert {cell.queries for cell in mixed} == {"32x1+4x512+4x64"} and {cell.batch for cell in mixed} == {40}


def decoded(batch=1, keys=1024, notes=None, queries="1", **microseconds):
    times = {name.replace("__", ":"): time for name, time in microseconds.items()}
    return _decode_report.Row(_decode_grid.Cell(batch, keys, queries=queries), times, notes or {})


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
        "  worst: 0.500 of fa2: 32/8 d=128 B=1 N=1024",
        "geometric mean of 1 ratios of flashc's time to that of flashc:w4: 0.500 (0.500 to 0.50)",
        "geometric mean of 1 ratios to cudnn: 2.000 (2.000 to 2.00)",
        "geometric mean of 2 ratios to fa2: 1.414 (0.500 to 4.00)",
        "note: 32/8 d=128 B=1 N=1024: cudnn: no kernel"]
    rows = [decoded(flashc=10.0, fa3=20.0), decoded(flashc=10.0, fa3=10.0, queries="2"),
            decoded(flashc=10.0, fa3=5.0, queries="4"), decoded(flashc=10.0, flashc__calls=20.0, queries="4x1+1x4")]
    assert [line for line in _decode_report.summary(rows)[2:] if "to fa3" not in line] == [
        "geometric mean of 1 ratios to the best peer, one query: 2.000 (2.000 to 2.00)",
        "geometric mean of 2 ratios to the best peer, several queries: 0.707 (0.500 to 1.00)",
        "  worst: 0.500 of fa3: 32/8 d=128 B=1 N=1024 queries=4",
        "geometric mean of 1 ratios of flashc's time to that of flashc:calls: 0.500 (0.500 to 0.50)"]


def test_csv_of_decoding_reads_back(tmp_path, capsys):
    path = tmp_path / "decode.csv"
    rows = [decoded(flashc=10.25, cudnn=20.5), decoded(16, 4096, flashc=63.5, queries="8x1+8x16")]
    with open(path, "w", newline="", encoding="utf-8") as file:
        _decode_report.write_csv(file, rows[:1], with_names=True)
        _decode_report.write_csv(file, rows[1:])
    assert path.read_text().splitlines()[:2] == [
        "batch,keys,query_heads,key_heads,depth,page,layout,queries,lengths,system,microseconds,tb_per_s",
        "1,1024,32,8,128,0,hnd,1,equal,flashc,10.25,0.409"]
    assert _decode_report.read_csv([path]) == rows
    status, out, _ = run(["--decode", "--read", str(path)], capsys)
    assert status == 0 and out.splitlines()[0].endswith("  2.00")
    assert "geometric mean of 1 ratios to the best peer: 2.000 (2.000 to 2.00)" in out
    status, _, err = run(["--decode", "--read", str(tmp_path / "none.csv")], capsys)
    assert status == 2 and "none.csv" in err
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="expected the columns batch,keys"):
        _decode_report.read_csv([path])
    path.write_text(",".join(_decode_report.COLUMNS) + "\n" + ",".join(["x"] * 12) + "\n")
    with pytest.raises(ValueError, match="decode.csv:2: "):
        _decode_report.read_csv([path])


# --- The command line -------------------------------------------------------------------------------------------------

def run(arguments, capsys):
    """Returns the exit status, the standard output and the standard error."""
    try:
        status = command.main(arguments)
    except SystemExit as stop:
        status = stop.code
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize("arguments, message", [
    (["--cells", "related", "--grid", "d=64"], "expected --cells or --grid, got both"),
    (["--list", "--schedule", "ping-pong"],
     "expected NAME=OVERRIDES such as no-turns=ping-pong=false, got 'ping-pong'"),
    (["--list", "--static-shapes", "--schedule", "static=stages=3"], "--schedule: static is there twice"),
    (["--decode", "d=64", "--grid", "d=64"], "expected --decode or --grid, got both"),
    (["--decode", "d=64", "--backward"], "expected --decode or --backward, got both"),
    (["--decode", "heads=32"], "--decode: heads: expected query heads / key heads, a multiple of them, got '32'"),
    (["--decode", "depth=1"], "--decode: expected heads=, d=, b=, n=, page=, layout=, queries=, lengths= or cells=, "
     "got 'depth=1'"),
    (["--decode", "layout=dnh"], "--decode: layout: expected hnd or nhd, got 'dnh'"),
    (["--decode", "page=48"], "--decode: expected n to be a multiple of page, got 1024 and 48"),
    (["--decode", "queries=4x"], "--decode: queries: expected a number, or kinds of sequences such as 32x1+4x512+4x64, "
     "got '4x'"),
    (["--decode", "queries=2048"], "--decode: expected at most n queries, got 2048 and 1024"),
    (["--decode", "lengths=all"], "--decode: lengths: expected equal, even or tail, got 'all'"),
    (["--decode", "cells=step", "d=64"], "--decode: expected cells= alone or with count= and seed=, got cells=, d="),
    (["--decode", "count=3"], "--decode: expected cells= alone or with count= and seed=, got count="),
    (["--fa3", "fa3.so"], "expected --fa3 together with --decode"),
    (["--decode", "--fa3", "none.so"], "--fa3: [Errno 2] No such file or directory: 'none.so'"),
])
def test_wrong_arguments_are_refused(arguments, message, capsys):
    status, _, err = run(arguments, capsys)
    assert status == 2 and message in err


def test_cells_prints_a_preset(capsys):
    status, out, _ = run(["--list", "--cells", "related"], capsys)
    assert status == 0 and "\nf16 d=64 causal=0 n=512 batch=32 heads=32\n" in out


def test_read_knows_the_bars_of_the_backward_pass(capsys, tmp_path):
    status, out, _ = run(["--read", write_rows(tmp_path / "a.csv", make_row(cell=BACKWARD, cudnn=200.0))], capsys)
    assert status == 0 and "geometric mean over hand: 1.256 (1 of 36 cells, 1.256 to 1.256)" in out


def test_plot_without_matplotlib_is_refused_before_anything_runs(monkeypatch, capsys, tmp_path):
    find_spec = _plot.importlib.util.find_spec
    monkeypatch.setattr(_plot.importlib.util, "find_spec",
                        lambda name, *rest: None if name == "matplotlib" else find_spec(name, *rest))
    path = tmp_path / "bench.png"
    status, out, err = run(["--plot", str(path)], capsys)
    assert status == 2 and "--plot needs matplotlib, which is not installed" in err
    assert out == "" and not path.exists()


def test_read_makes_the_table_of_several_files(capsys, tmp_path):
    paths = [write_rows(tmp_path / "a.csv", make_row(cudnn=200.0)),
             write_rows(tmp_path / "b.csv", make_row(causal=True, cudnn=600.0))]
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


def test_without_pytorch_it_says_so():
    done = subprocess.run([sys.executable, "-c", "import sys; sys.modules['torch'] = None\n"
                           "from flashc.bench.__main__ import main; sys.exit(main(['--grid', 'd=64']))"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("flashc.bench needs PyTorch with CUDA: ")
