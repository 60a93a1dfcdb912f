"""How the benchmark measures a cell, with flashc and a peer on the CPU and a GPU's clock of our own."""

import types

import pytest

torch = pytest.importorskip("torch")

import fake_cuda  # noqa: E402
from flashc.bench import __main__ as command, _measure, _peers  # noqa: E402
from flashc.bench._grid import Cell, parse_grid, related  # noqa: E402
from flashc.bench._report import read_csv  # noqa: E402


@pytest.fixture(autouse=True)
def fake_gpu(monkeypatch):
    fake_cuda.install(monkeypatch, torch)
    monkeypatch.setattr(_peers, "cublas_contender",
                        lambda device, dtype: (_peers.Contender(lambda i: None, 1), 2e9))


class Plain(_peers.System):
    """A peer: plain attention, rounded by `step`."""
    name = "plain"

    def __init__(self, step=None):
        self.step = step

    def prepare(self, cell, sets):
        if cell.causal:
            raise _peers.Refused("no causal kernel")

        def run(i):
            q, k, v = (x.float() for x in sets[i])
            k, v = (x.repeat_interleave(cell.group, 1) for x in (k, v))
            out = torch.softmax(q @ k.mT * q.shape[3] ** -0.5, -1) @ v
            return (out if self.step is None else (out / self.step).round() * self.step).to(sets[i][0].dtype)

        return _peers.Contender(run, len(sets))


def measurer(*systems):
    return _measure.Measurer(systems, types.SimpleNamespace(read=lambda: 1000.0), seed=0, device="cpu")


def cell(**changes):
    return Cell(**{"d": 16, "causal": False, "n": 24, "batch": 1, "heads": 2, **changes})


def test_systems_are_checked_and_timed_together():
    rows = measurer(_peers.Flashc(), _peers.Flashc("flashc:static", static_shapes=True), Plain()).measure(
        [cell(), cell(causal=True, dv=8, group=2)])
    first, second = rows
    assert [row.cell.causal for row in rows] == [False, True]
    for name in ("flashc", "flashc:static", "plain"):
        entry = first.entries[name]
        assert entry.counts and 0 < entry.error <= entry.bound and not entry.note
        # All bursts last 10 ms: every rate is the cell's operations over 10 ms over the calls.
        assert entry.tflops == pytest.approx(first.cell.flops / (entry.ms * 1e9))
    assert second.entries["flashc"].counts and second.entries["flashc:static"].counts
    assert second.entries["plain"].note == "no causal kernel" and not second.entries["plain"].counts
    assert all(row.entries["cublas"].counts and row.sm_mhz == 1000.0 for row in rows)
    assert not any(_measure.failed(row) for row in rows)


def test_systems_begin_once_for_cells_that_are_measured_together():
    begun = []

    class Beginning(Plain):
        def begin(self):
            begun.append(None)

    measurer(_peers.Flashc(), Beginning()).measure([cell(), cell(n=32)])
    assert len(begun) == 1


def test_wrong_numbers_are_not_timed():
    row, = measurer(_peers.Flashc(), Plain(step=0.25)).measure([cell()])
    assert row.entries["plain"].note.startswith("wrong: o off by") and not row.entries["plain"].counts
    assert row.entries["flashc"].counts and _measure.failed(row)


def test_a_refused_schedule_is_a_note(monkeypatch):
    import flashc

    class Refusing(_peers.Flashc):
        def _call(self, *arguments):
            raise flashc.CompileError("expected 1 to 4 consumers, got 5\nmore")

    row, = measurer(_peers.Flashc(), Refusing("flashc:wide", schedule="consumers=5")).measure([cell()])
    assert row.entries["flashc:wide"].note == "expected 1 to 4 consumers, got 5"
    assert row.entries["flashc"].counts and not _measure.failed(row)


def test_schedules_reach_flashc(monkeypatch):
    seen = []
    attention = _peers.flashc.attention
    monkeypatch.setattr(_peers.flashc, "attention", lambda *arguments, **keywords: (
        seen.append(keywords.get("schedule")), attention(*arguments, **keywords))[1])
    measurer(_peers.Flashc(), _peers.Flashc("flashc:few", schedule="stages=2")).measure([cell()])
    assert set(seen) == {None, "stages=2"}


def test_a_lost_device_ends_the_measurement_with_the_rows_so_far(monkeypatch):
    calls = []

    def synchronize():
        calls.append(None)
        if len(calls) == 2:
            raise RuntimeError("CUDA error: an illegal memory access\nmore")

    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    with pytest.raises(_measure.DeviceLost) as caught:
        measurer(_peers.Flashc(), Plain()).measure([cell(), cell(n=32)])
    assert [row.cell.n for row in caught.value.rows] == [24, 32]
    assert caught.value.rows[0].entries["plain"].note == "CUDA failed: CUDA error: an illegal memory access"
    assert _measure.failed(caught.value.rows[0])


def test_the_command_measures_writes_and_relates(monkeypatch, tmp_path, capsys):
    init = _measure.Measurer.__init__
    monkeypatch.setattr(_measure.Measurer, "__init__", lambda self, systems, clock, seed: init(
        self, systems, types.SimpleNamespace(read=lambda: 1000.0), seed, "cpu"))
    path = str(tmp_path / "bench.csv")
    grid = ["d=16", "n=24", "causal=1", "batch=1", "heads=2", "kv-heads=1,2"]
    assert len(related(parse_grid(grid))) == 1
    assert command.main(["--grid", *grid, "--schedule", "few=stages=2", "--static-shapes", "--peers", "",
                         "--seed", "1", "--csv", path]) == 0
    out = capsys.readouterr().out
    for text in ("| flashc:static | ", "grouped over as many key heads as query heads: ", "flashc:few over flashc: "):
        assert text in out
    rows = read_csv([path])
    assert [row.cell.group for row in rows] == [2, 1]
    assert list(rows[0].entries) == ["flashc", "flashc:static", "flashc:few", "cublas"]
