"""Runs small parts of the benchmark and of the tuner on a GPU. Skipped where there is no GPU."""

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc.bench import __main__ as bench  # noqa: E402
from flashc.bench._report import read_csv  # noqa: E402
from flashc.tune import __main__ as tune  # noqa: E402
from flashc.tune._table import parse  # noqa: E402


def test_the_benchmark_times_variants_and_related_cells(tmp_path, capsys):
    path = str(tmp_path / "bench.csv")
    assert bench.main(["--grid", "d=128,192x128", "n=512", "causal=1", "heads=8", "kv-heads=1,8", "dtype=bf16,f16",
                       "--schedule", "no-turns=ping-pong=false", "--schedule", "wide=consumers=5", "--static-shapes",
                       "--peers", "", "--csv", path]) == 0
    out = capsys.readouterr().out
    assert "f16 over bf16: " in out and "grouped over as many key heads as query heads: " in out
    rows = read_csv([path])
    assert len(rows) == 8
    for row in rows:
        assert all(0.5 < row.own_ratio(f"flashc:{name}") < 2 for name in ("no-turns", "static"))
        assert "expected 1 to 4 consumers, got 5" in row.entries["flashc:wide"].note


def test_the_tuner_finds_rows_that_compile(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    flashc.configure()
    try:
        assert tune.main(["--keys", "d=64", "n=512,1024", "causal=0,1", "--space", "kv-tile=64,128", "stages=2,4",
                          "q-stages=1", "ping-pong=true", "tensor-sums=true", "wait-after=0", "store=registers",
                          "epilogue=plain"]) == 0
        out = capsys.readouterr().out
        assert "bf16 d=64 dv=64 mask=none: 12 schedules" in out and ", 0 with wrong numbers" in out
        assert tune.main(["--print"]) == 0
        rows, others = parse(capsys.readouterr().out)
        assert {row.key.mask for row in rows} == {"none", "bounds"} and not others
        # From now on flashc uses the rows that the tuner found.
        flashc.configure()
        spec = flashc.ArraySpec((1, 1, 1024, 64), "bf16")
        for row in rows:
            if row.queries is None:
                kernel = flashc.compile(spec, spec, spec, causal=row.key.mask == "bounds", static_shapes=True)
                assert set(row.overrides.split(",")) <= set(kernel.schedule.split(","))
    finally:
        flashc.configure(disk_cache=False)
