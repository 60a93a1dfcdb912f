"""How the benchmark measures a cell, with flashc and a peer on the CPU and the clock of a fake GPU."""

import types

import pytest

torch = pytest.importorskip("torch")

import fake_cuda  # noqa: E402
from flashc.bench import (__main__ as command, _decode, _decode_grid, _gradients, _measure, _peers,  # noqa: E402
                          _serving_peers)
from flashc.bench._grid import Cell, parse_grid, related  # noqa: E402
from flashc.bench._report import read_csv  # noqa: E402


@pytest.fixture(autouse=True)
def fake_gpu(monkeypatch):
    fake_cuda.install(monkeypatch, torch)
    monkeypatch.setattr(_peers, "cublas_contender",
                        lambda device, dtype: (_peers.Contender(lambda i: None, 1), 2e9))


class Plain(_peers.System):
    """A peer that computes plain attention, and rounds it to multiples of `step`."""
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
        # All bursts last 10 ms, so the rate follows from the operations and the number of calls.
        assert entry.tflops == pytest.approx(first.cell.flops / (entry.ms * 1e9))
    assert second.entries["flashc"].counts and second.entries["flashc:static"].counts
    assert second.entries["plain"].note == "no causal kernel" and not second.entries["plain"].counts
    assert all(row.entries["cublas"].counts and row.sm_mhz == 1000.0 for row in rows)
    assert not any(_measure.failed(row) for row in rows)


def test_backward_passes_are_checked_and_timed_alone():
    """The forward pass of the peer runs only while the peer is prepared."""
    forward_runs = []

    class Counting(Plain):
        def prepare(self, cell, sets):
            contender = super().prepare(cell, sets)
            run, contender.run = contender.run, lambda i: (forward_runs.append(i), run(i))[1]
            return contender

    systems = _gradients.backward_of([_peers.Flashc(), _peers.Flashc("flashc:static", static_shapes=True), Counting()])
    assert [system.name for system in systems] == ["flashc", "flashc:static", "plain"]
    first, second = measurer(*systems).measure([cell(backward=True), cell(causal=True, dv=8, group=2, backward=True)])
    count = len(_measure.random_sets(first.cell, torch.Generator(), 1))
    for name in ("flashc", "flashc:static", "plain"):
        entry = first.entries[name]
        assert entry.counts and 0 < entry.error <= entry.bound and 0 < entry.frobenius < 5e-3 and not entry.note
        assert max(entry.gradients.values()) == entry.frobenius and min(entry.gradients.values()) > 0
        assert entry.tflops == pytest.approx(first.cell.flops / (entry.ms * 1e9))
    assert forward_runs == list(range(count))
    assert second.entries["flashc"].counts and second.entries["plain"].note == "no causal kernel"
    assert not _measure.failed(first) and not _measure.failed(second)


def test_wrong_gradients_are_not_timed_and_missing_ones_are_noted():
    class Constant(Plain):
        name = "constant"

        def prepare(self, cell, sets):
            contender = super().prepare(cell, sets)
            run, contender.run = contender.run, lambda i: run(i).detach()
            return contender

    row, = measurer(*_gradients.backward_of([_peers.Flashc(), Plain(step=0.25), Constant()])).measure(
        [cell(backward=True)])
    assert row.entries["plain"].note.startswith("wrong: dq off by") and not row.entries["plain"].counts
    assert row.entries["constant"].note.startswith("RuntimeError: element 0 of tensors does not require grad")
    assert row.entries["flashc"].counts and _measure.failed(row)


def test_a_refused_schedule_is_a_note(monkeypatch):
    import flashc

    class Refusing(_peers.Flashc):
        def _call(self, *arguments):
            raise flashc.CompileError("expected 1 to 4 consumers, got 5\nmore")

    row, = measurer(_peers.Flashc(), Refusing("flashc:wide", schedule="consumers=5")).measure([cell()])
    assert row.entries["flashc:wide"].note == "expected 1 to 4 consumers, got 5"
    assert row.entries["flashc"].counts and not _measure.failed(row)


def test_schedules_of_the_backward_pass_leave_the_forward_pass_alone(monkeypatch):
    seen = []
    for name in ("attention", "attention_backward"):
        function = getattr(_gradients.flashc, name)
        monkeypatch.setattr(_gradients.flashc, name, lambda *arguments, name=name, function=function, **keywords: (
            seen.append((name, keywords.get("schedule"))), function(*arguments, **keywords))[1])
    measurer(*_gradients.backward_of([_peers.Flashc("flashc:few", schedule="stages=2")])).measure(
        [cell(backward=True)])
    assert set(seen) == {("attention", None), ("attention_backward", "stages=2")}


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


def test_tiles_that_are_computed_are_counted():
    from flashc import assume_sorted, masks
    from flashc.bench import _masks_backward
    device = torch.device("cpu")
    # There are 16 x 8 tiles of 64 queries and 128 keys. Under the causal mask, row r of tiles computes r // 2 + 1
    # tiles.
    assert _masks_backward.computed(masks.causal("top-left"), 1024, device) == sum(r // 2 + 1 for r in range(16)) / 128
    offsets = assume_sorted(torch.tensor([0, 512, 512, 1024], dtype=torch.int32))
    assert _masks_backward.computed(masks.packed(offsets, causal=False), 1024, device) == 1 / 2
    assert _masks_backward.computed(masks.sliding_window(127, align="top-left"), 1024, device) == (2 * 1 + 14 * 2) / 128


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


@pytest.fixture
def graphs(monkeypatch):
    return fake_cuda.install_graphs(monkeypatch, _decode)


def decoding_cell(**changes):
    return _decode_grid.Cell(**{"batch": 2, "keys": 48, "query_heads": 4, "key_heads": 2, "depth": 16, **changes})


@pytest.mark.parametrize("changes", [{}, {"page": 16, "layout": "nhd"}])
def test_decoding_is_checked_and_timed(changes, graphs):
    row = _decode.measure(decoding_cell(**changes), {"flashc": {}, "flashc:more": {"splits": 3}}, [Plain()],
                          device="cpu")
    assert row.microseconds == {"flashc": 1e3, "flashc:more": 2e3, "plain": 3e3} and row.ratio() == 3.0
    assert not row.notes and not row.failed and len(graphs) == 3


def test_wrong_and_missing_contenders_of_decoding_are_noted(graphs):
    class Refusing(Plain):
        name = "refusing"

        def prepare(self, cell, sets):
            raise _peers.Refused("no kernel")

    class Raising(Plain):
        name = "raising"

        def prepare(self, cell, sets):
            return _peers.Contender(lambda i: 1 // 0, len(sets))

    row = _decode.measure(decoding_cell(), {"flashc": {}, "flashc:bad": {"splits": 0.5, "layout": "none"}},
                          [Plain(step=0.25), Refusing(), Raising()], device="cpu")
    assert row.microseconds == {"flashc": 1e3} and row.failed
    assert row.notes.pop("plain").startswith("wrong: relative error ")
    assert row.notes.pop("flashc:bad").startswith("ArgumentError: expected layout")
    assert row.notes == {"refusing": "no kernel", "raising": "ZeroDivisionError: integer division or modulo by zero"}


def test_the_command_measures_decoding(graphs, monkeypatch, tmp_path, capsys):
    measure = _decode.measure
    monkeypatch.setattr(_decode, "measure", lambda *arguments: measure(*arguments, device="cpu"))
    flex = Plain(step=0.25)
    flex.name = "flex"
    monkeypatch.setattr(_decode, "PEERS", {"plain": Plain(), "flex": flex})
    monkeypatch.setattr(_serving_peers, "peers", lambda library: {})
    monkeypatch.setattr(Plain, "missing", lambda self: None, raising=False)
    path = str(tmp_path / "decode.csv")
    cells = ["--decode", "heads=4/2", "d=16", "b=1", "n=32,64"]
    assert command.main([*cells, "--csv", path]) == 0  # without flex, whose numbers are wrong
    out = capsys.readouterr().out
    assert out.count("plain") == 4 and "flex" not in out and "geometric mean of 2 ratios to plain" in out
    command.main([*cells, "--read", path])
    assert out.splitlines()[1:] == capsys.readouterr().out.splitlines()
    assert command.main([*cells, "--peers", "flex"]) == 1
    assert "note: 4/2 d=16 B=1 N=32: flex: wrong: " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        command.main([*cells, "--peers", "plain,fa3"])
    assert "expected peers of plain, flex, got 'fa3'" in capsys.readouterr().err
