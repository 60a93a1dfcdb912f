"""The tuner with a fake GPU: which schedules it compiles, how it times them, and what happens when its process ends."""

import json
import os

import pytest

import fake_cuda
import flashc
from flashc.bench._grid import parse_grid
from flashc.tune import __main__ as command
from flashc.tune import _search, _table
from flashc.tune._journal import Journal
from flashc.tune._search import DEFAULT, Lost, Search
from flashc.tune._space import SPACE, Key, by_key, parse_space, schedules
from flashc.tune._table import Row, merge, parse, replace_key

KEY = Key(64, 64, "bounds", "bf16")
CELLS = by_key(parse_grid(["d=64", "causal=1", "n=512..2048"]))[KEY]


def fields(overrides):
    return dict(item.split("=") for item in overrides.split(","))


def whole(overrides):
    return overrides + ",persistent=true"


class FakeGPU:
    """A fake GPU. It refuses four stages. Three consumers are fast for many queries, and two for few. kv-tile=64 is
    always slower than 128, gives wrong numbers with three stages, and kills the process with two. The schedule table
    has three consumers."""
    name = "Some GPU"

    def __init__(self):
        self.prepared, self.checked, self.timed, self.stop_after = [], [], [], None

    def _count(self):
        if self.stop_after is not None:
            self.stop_after -= 1
            if self.stop_after < 0:
                raise KeyboardInterrupt

    def present(self, cell):
        return [whole("consumers=3,kv-tile=128,stages=2"), whole("consumers=2,kv-tile=112,stages=2")]

    def prepare(self, cell, overrides):
        self.prepared.append(overrides)
        choice = fields(overrides)
        if choice["stages"] == "4":
            raise flashc.CompileError("schedule: expected at most 232448 bytes of shared memory, got 300000\nmore")
        return whole(",".join(f"{key}={choice[key]}" for key in ("consumers", "kv-tile", "stages")))

    def check(self, cell, overrides):
        self._count()
        self.checked.append(overrides)
        choice = fields(overrides)
        if choice["kv-tile"] == "64" and choice["stages"] == "2":
            raise Lost(overrides, "an illegal memory access")
        return "o off" if choice["kv-tile"] == "64" and choice["stages"] == "3" else ""

    def time(self, cell, overrides, effort):
        self._count()
        self.timed.append((cell.n, tuple(overrides), effort))
        return {one: self.milliseconds(cell, fields(one or "consumers=3,kv-tile=128,stages=2")) for one in overrides}

    def shorten(self, cell, schedule):
        return schedule.removesuffix(",persistent=true")

    @staticmethod
    def milliseconds(cell, choice):
        fast = "2" if cell.n <= 1024 else "3"
        return (1 + 0.1 * (choice["consumers"] != fast) + 0.5 * (choice["kv-tile"] != "128") +
                0.001 * (choice["stages"] == "3"))


SAFE = schedules({"consumers": ["2", "3"], "kv-tile": ["96", "128"], "stages": ["2", "3", "4"]})


def run(gpu, path, overrides=SAFE, cells=CELLS, threads=1, **how):
    journal = Journal(str(path / "journal"), "one library")
    try:
        return Search(gpu, journal, overrides, lambda what, part: None, threads=threads, **how).run(KEY, cells)
    finally:
        journal.close()


# --- The space --------------------------------------------------------------------------------------------------------

def test_space_is_all_combinations_and_can_be_changed():
    assert schedules({"consumers": ["2", "3"], "stages": ["4"]}) == ["consumers=2,stages=4", "consumers=3,stages=4"]
    space = parse_space(["stages=2", "persistent=true,false,true"])
    assert space["stages"] == ["2"] and space["persistent"] == ["true", "false"]
    assert space["kv-tile"] == SPACE["kv-tile"]
    for item in ("stages", "=2", "stages=", "stages=2,"):
        with pytest.raises(ValueError, match="expected CHOICE=VALUES"):
            parse_space([item])


def test_choices_of_the_space_are_the_compilers():
    spec = flashc.ArraySpec((1, 1, 128, 64), "bf16")
    first, last = ({key: values[n] for key, values in SPACE.items()} for n in (0, -1))
    for choices in (first, {**last, "kv-tile": first["kv-tile"]}):
        overrides = ",".join(f"{key}={value}" for key, value in choices.items())
        printed = fields(flashc.compile(spec, spec, spec, schedule=overrides, return_lse=False).schedule)
        assert fields(overrides).items() <= printed.items()


# --- Rows -------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("times, rows", [
    # One row suffices if its schedule is nowhere more than 2% slower than the best.
    ({512: {"a": 1.0, "b": 1.019}, 1024: {"a": 1.019, "b": 1.0}}, [(None, "a")]),
    ({512: {"a": 1.0, "b": 1.03}, 1024: {"a": 1.03, "b": 1.0}}, [(512, "a"), (None, "b")]),
    # Neighbouring lengths share a row. The last row is for any number of queries.
    ({512: {"a": 1.0, "b": 2.0}, 1024: {"a": 1.0, "b": 2.0}, 2048: {"a": 2.0, "b": 1.0}, 4096: {"a": 2.0, "b": 1.0}},
     [(1024, "a"), (None, "b")]),
    # "c" is the best schedule for neither length, but good enough for both: one row suffices.
    ({512: {"a": 1.0, "b": 2.0, "c": 1.01}, 1024: {"a": 2.0, "b": 1.0, "c": 1.01}}, [(None, "c")]),
])
def test_rows_are_the_fewest_within_noise(times, rows):
    assert merge(times) == rows


def test_rows_are_ordered_so_that_none_is_shadowed():
    keys = [Key(128, 128, "none", "bf16"), Key(64, 64, "bounds", "bf16"), Key(64, 64, "none", "bf16"),
            Key(64, 64, "none", "f16"), Key(192, 128, "none", "bf16")]
    rows = [Row(key, queries, "stages=2") for key in keys for queries in (None, 1024, 512)]
    assert list(map(str, sorted(rows, key=lambda row: row.place)))[:8] == [
        "dtype=f16 d=64 dv=64 mask=none queries<=512: stages=2",
        "dtype=f16 d=64 dv=64 mask=none queries<=1024: stages=2",
        "dtype=f16 d=64 dv=64 mask=none: stages=2",
        "d=64 dv=64 mask=none queries<=512: stages=2",
        "d=64 dv=64 mask=none queries<=1024: stages=2",
        "d=64 dv=64 mask=none: stages=2",
        "d=64 dv=64 mask=bounds queries<=512: stages=2",
        "d=64 dv=64 mask=bounds queries<=1024: stages=2"]
    assert sorted(rows, key=lambda row: row.place)[-1].key.d == 192


def test_a_keys_rows_are_replaced_and_the_rest_stays():
    text = ("# old\ntarget=sm_90a mask=code: stages=2  \nd=64 dv=64 mask=bounds queries<=512: stages=3\n"
            "d=64 dv=64 mask=bounds: stages=4\ndtype=f16 d=64 dv=64 mask=bounds: stages=5\n")
    new = replace_key(text, KEY, [Row(KEY, None, "stages=9")], "Some GPU", "2026-11-21")
    assert new == ("# python -m flashc.tune, Some GPU, 2026-11-21\ntarget=sm_90a mask=code: stages=2\n"
                   "dtype=f16 d=64 dv=64 mask=bounds: stages=5\nd=64 dv=64 mask=bounds: stages=9\n")
    rows, others = parse(new)
    assert rows == [Row(KEY._replace(dtype="f16"), None, "stages=5"), Row(KEY, None, "stages=9")]
    assert others == ["target=sm_90a mask=code: stages=2"]
    assert replace_key(new, KEY, [Row(KEY, None, "stages=9")], "Some GPU", "2026-11-21") == new


# --- The search -------------------------------------------------------------------------------------------------------

def test_refused_schedules_are_pruned_and_the_fastest_win(tmp_path):
    gpu = FakeGPU()
    result = run(gpu, tmp_path)
    assert set(result.refused) == {one for one in SAFE if "stages=4" in one}
    assert set(result.refused.values()) == {"schedule: expected at most 232448 bytes of shared memory, got 300000"}
    assert not any("stages=4" in one for _, timed, _ in gpu.timed for one in timed)
    assert result.rows == [Row(KEY, 1024, "consumers=2,kv-tile=128,stages=2"),
                           Row(KEY, None, "consumers=3,kv-tile=128,stages=2")]
    assert [result.chosen[cell][:11] for cell in CELLS] == ["consumers=2", "consumers=2", "consumers=3"]
    assert result.times[CELLS[0]][DEFAULT] == pytest.approx(1.1)


def test_what_comes_out_the_same_is_tried_once(tmp_path):
    gpu = FakeGPU()
    twice = SAFE + [f"{one},persistent=true" for one in SAFE]
    run(gpu, tmp_path, twice)
    # The second schedule of the table is tried too, though SAFE does not contain it.
    assert sorted(gpu.checked) == sorted({whole(one) for one in SAFE if "stages=4" not in one} | {gpu.present(None)[1]})


def test_wrong_numbers_are_not_timed(tmp_path):
    gpu = FakeGPU()
    wrong = "consumers=2,kv-tile=64,stages=3"
    result = run(gpu, tmp_path, SAFE + [wrong])
    assert result.wrong == {whole(wrong): "o off"}
    assert not any(whole(wrong) in timed for _, timed, _ in gpu.timed)
    assert DEFAULT in result.times[CELLS[0]]
    gpu = FakeGPU()
    gpu.check = lambda cell, schedule: "o off" if schedule == gpu.present(cell)[1] else ""
    assert DEFAULT not in run(gpu, tmp_path / "table").times[CELLS[0]]
    with pytest.raises(flashc.Error, match="expected a schedule that gives right numbers, got none: .*: o off"):
        gpu.check = lambda cell, overrides: "o off"
        run(gpu, tmp_path / "other")


# --- Stopping and going on --------------------------------------------------------------------------------------------

def test_an_interrupted_search_goes_on_where_it_was(tmp_path):
    whole = FakeGPU()
    expected = run(whole, tmp_path / "whole")
    checked, timed = [], []
    for stop in range(100):
        gpu = FakeGPU()
        gpu.stop_after = 3
        try:
            result = run(gpu, tmp_path / "parts")
        except KeyboardInterrupt:
            result = None
        checked += gpu.checked
        timed += gpu.timed
        if result:
            break
    assert stop > 3 and result == expected
    assert checked == whole.checked and timed == whole.timed  # nothing was done twice


def test_a_kernel_that_took_the_process_down_is_not_run_again(tmp_path):
    journal = Journal(str(tmp_path / "journal"), "one library")
    journal.begin_check(CELLS[0], whole(SAFE[0]))
    journal.close()
    gpu, noted = FakeGPU(), []

    def check(cell, overrides):
        noted.append(json.loads((tmp_path / "journal").read_text().splitlines()[-1]))
        return FakeGPU.check(gpu, cell, overrides)

    gpu.check = check
    assert run(gpu, tmp_path).wrong == {whole(SAFE[0]): "its first run did not end"}
    assert whole(SAFE[0]) not in gpu.checked
    # While a schedule runs for the first time, the journal already calls it a schedule whose first run did not end.
    assert [(line["schedule"], line["problem"]) for line in noted] == [
        (one, "its first run did not end") for one in gpu.checked]


def test_the_journal_forgets_another_library_and_a_torn_line(tmp_path):
    path = str(tmp_path / "journal")
    journal = Journal(path, "one library")
    journal.begin_check("cell", "a")
    journal.begin_check("cell", "b")
    journal.end_check("cell", "b", "")
    journal.note_times("cell", "0", {"a": 1.0, "b": 2.0})
    journal.close()
    with open(path, "a") as file:
        file.write('{"cell": "ce')
    journal = Journal(path, "one library")
    assert journal.problem("cell", "a") == "its first run did not end" and journal.problem("cell", "b") == ""
    assert journal.problem("cell", "c") is None
    assert journal.times("cell", "0", ["b", "a"]) == {"a": 1.0, "b": 2.0}
    assert journal.times("cell", "0", ["a"]) is None and journal.times("cell", "1", ["a", "b"]) is None
    journal.close()
    with open(path) as file:
        assert [json.loads(line) for line in file][0] == {"library": "one library"}
    journal = Journal(path, "another library")
    assert journal.problem("cell", "a") is None and journal.times("cell", "0", ["a", "b"]) is None
    journal.close()


# --- The command line -------------------------------------------------------------------------------------------------

def tune(gpu, tmp_path, deadline=float("inf"), keys={KEY: CELLS}):
    gpu.table = str(tmp_path / "schedules" / "Some-GPU.txt")
    return command.tune(gpu, "one library", keys, SAFE, deadline)


def test_tuning_writes_the_table_of_the_device(tmp_path, capsys):
    assert tune(FakeGPU(), tmp_path) == 0
    path = tmp_path / "schedules" / "Some-GPU.txt"
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# python -m flashc.tune, Some GPU, 20")
    assert lines[1:] == ["d=64 dv=64 mask=bounds queries<=1024: consumers=2,kv-tile=128,stages=2",
                         "d=64 dv=64 mask=bounds: consumers=3,kv-tile=128,stages=2"]
    out = capsys.readouterr().out
    assert "bf16 d=64 dv=64 mask=bounds: 12 schedules, 4 refused by the compiler, 0 with wrong numbers" in out
    assert "     512 queries: 1.1000 -> 1.0000 ms (+10.0%)  consumers=2,kv-tile=128,stages=2" in out
    assert os.listdir(path.parent) == ["Some-GPU.txt"]  # the journal is deleted at the end


def test_ctrl_c_and_the_budget_keep_the_journal(tmp_path, capsys):
    gpu = FakeGPU()
    gpu.stop_after = 10
    assert tune(gpu, tmp_path) == 130
    assert "stopped after 0 of 1 keys; the same command goes on" in capsys.readouterr().out
    assert tune(FakeGPU(), tmp_path, deadline=0) == 3
    assert "the time is over; the same command goes on" in capsys.readouterr().out
    assert os.listdir(tmp_path / "schedules") == ["Some-GPU.journal"]
    gpu = FakeGPU()
    assert tune(gpu, tmp_path) == 0
    assert gpu.checked == [] and 0 < len(gpu.timed) < 9


def test_finished_keys_are_not_searched_again(tmp_path, capsys):
    other = KEY._replace(mask="none")
    keys = {KEY: CELLS, other: by_key(parse_grid(["d=64", "causal=0", "n=512"]))[other]}
    assert tune(gpu := FakeGPU(), tmp_path) == 0
    once = len(gpu.checked) + len(gpu.timed)
    gpu = FakeGPU()
    gpu.stop_after = once + 2
    assert tune(gpu, tmp_path, keys=keys) == 130
    assert "stopped after 1 of 2 keys" in capsys.readouterr().out
    gpu = FakeGPU()
    gpu.stop_after = 0
    assert tune(gpu, tmp_path, keys={KEY: CELLS[:1], other: keys[other]}) == 130
    assert "stopped after 0 of 2 keys" in capsys.readouterr().out  # with other cells, the key is not finished
    gpu = FakeGPU()
    assert tune(gpu, tmp_path, keys=keys) == 0
    assert len(gpu.prepared) == len(SAFE) + 2 and {n for n, _, _ in gpu.timed} == {512}
    rows, _ = parse((tmp_path / "schedules" / "Some-GPU.txt").read_text())
    assert {row.key for row in rows} == {KEY, other}


@pytest.mark.parametrize("arguments, message", [
    (["--keys", "d=64", "heads=4,8"], "--keys: expected one cell for each n of bf16 d=64 dv=64 mask=none"),
    (["--space", "stages"], "--space: expected CHOICE=VALUES such as stages=2,3, got 'stages'"),
])
def test_wrong_command_lines_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(arguments)
    assert stop.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.parametrize("value", ["", "mine.txt"])
def test_a_table_that_would_not_be_read_is_not_written(monkeypatch, capsys, value):
    monkeypatch.setenv("FLASHC_SCHEDULE_TABLE", value)
    with pytest.raises(SystemExit) as stop:
        command.main(["--keys", "d=64"])
    assert stop.value.code == 2 and "FLASHC_SCHEDULE_TABLE is set" in capsys.readouterr().err
    assert command.main(["--list", "--keys", "d=64"]) == 0


# --- With PyTorch's tensors on the CPU --------------------------------------------------------------------------------

@pytest.fixture
def gpu_of_torch(monkeypatch, tmp_path):
    """Returns flashc.tune._device, changed so that it compiles kernels for sm_90a and runs attention on the CPU."""
    torch = pytest.importorskip("torch")
    fake_cuda.install(monkeypatch, torch)
    from flashc._runtime import contexts
    from flashc.tune import _device
    load = contexts.CompiledKernel.load
    monkeypatch.setattr(contexts.CompiledKernel, "load",
                        lambda self, device: None if self.ptx() else load(self, device))
    monkeypatch.setattr(contexts, "device_table_path", lambda folder, device=0: f"{folder}/schedules/Some-GPU.txt")
    flashc.configure(cache_directory=str(tmp_path))
    init = _device.GPU.__init__
    monkeypatch.setattr(_device.GPU, "__init__", lambda self, seed: init(self, seed, "cpu"))
    yield _device
    flashc.configure(disk_cache=False)


SMALL = ["d=16", "causal=1", "n=24,32", "batch=1", "heads=2"]


def test_the_whole_command_on_tensors(gpu_of_torch, tmp_path, capsys):
    arguments = ["--keys", *SMALL, "--space", "consumers=2,3", "kv-tile=64", "stages=2,64", "q-stages=1",
                 "wait-after=0", "tensor-sums=false", "store=registers", "epilogue=plain"]
    assert command.main(arguments) == 0
    out = capsys.readouterr().out
    assert "bf16 d=16 dv=16 mask=bounds: 4 schedules, 2 refused by the compiler, 0 with wrong numbers" in out
    assert command.main(["--print"]) == 0
    rows, others = parse(capsys.readouterr().out)
    assert rows and not others and {row.key for row in rows} == {Key(16, 16, "bounds", "bf16")}


def test_rows_say_what_the_compiler_does_not_choose_by_itself(gpu_of_torch):
    gpu, cell = gpu_of_torch.GPU(0), CELLS[0]
    small = "kv-tile=64,stages=2"
    for text in (f"consumers=2,{small},persistent=false",
                 f"consumers=3,{small},ping-pong=false"):
        said = gpu.shorten(cell, gpu._of_row(cell, [text]))
        assert fields(said) == fields(text)


def test_the_compiler_chooses_what_was_found(gpu_of_torch, monkeypatch, tmp_path):
    """The schedules of the rows differ, also in the fields that a row leaves out."""
    gpu, found, rows = gpu_of_torch.GPU(0), {}, []
    for queries, overrides in ((512, "consumers=2,kv-tile=32,stages=2,persistent=false,ping-pong=false"),
                               (None, "consumers=2,kv-tile=48,stages=2,q-stages=2")):
        found[KEY, queries] = gpu.prepare(CELLS[0], overrides)
        rows.append(Row(KEY, queries, gpu.shorten(CELLS[0], found[KEY, queries])))
    (tmp_path / "table").write_text(_table.form(rows, [], "Some GPU", "2026-11-21"))
    monkeypatch.setenv("FLASHC_SCHEDULE_TABLE", str(tmp_path / "table"))
    flashc.configure(disk_cache=False)

    def chosen(key, queries):
        q, v = (flashc.ArraySpec((1, 1, queries, d), key.dtype) for d in (key.d, key.dv))
        return flashc.compile(q, q, v, causal=key.mask == "bounds", static_shapes=True, return_lse=False).schedule

    for (key, queries), schedule in found.items():
        assert chosen(key, queries or 4096) == schedule
    # The table has no rows for f16, which uses those of bf16.
    assert chosen(KEY._replace(dtype="f16"), 512) == found[KEY, 512]


def test_the_space_has_the_built_in_schedules(gpu_of_torch):
    """The space contains the built-in schedules, so that tuning can find them again."""
    gpu, space = gpu_of_torch.GPU(0), schedules(SPACE)
    for cells in by_key(parse_grid(["d=64,128,192x128,256", "n=4096"])).values():
        for present in gpu.present(cells[0]):
            chosen = fields(present)
            (overrides,) = [one for one in space if fields(one).items() <= chosen.items()]
            assert gpu._specialize(cells[0], overrides).compile().schedule() == present


def test_what_is_tried_has_no_variants(gpu_of_torch, monkeypatch, tmp_path):
    (tmp_path / "table").write_text("queries<=512: consumers=2,kv-tile=64,persistent=false\n: consumers=2,kv-tile=64\n")
    monkeypatch.setenv("FLASHC_SCHEDULE_TABLE", str(tmp_path / "table"))
    loaded = []
    monkeypatch.setattr(flashc._runtime.contexts.CompiledKernel, "load", lambda kernel, device: loaded.append(kernel))
    gpu, cell = gpu_of_torch.GPU(0), CELLS[0]
    present = gpu.present(cell)
    assert [fields(schedule)["persistent"] for schedule in present] == ["true", "false"]  # that for any number is first
    assert [gpu.prepare(cell, schedule) for schedule in present] == present
    assert fields(gpu.prepare(cell, "stages=3")).items() >= {"stages": "3", "persistent": "true"}.items()
    assert len(loaded) == 3 and not any("variants" in json.loads(kernel.manifest()) for kernel in loaded)


def test_wrong_and_lost_kernels_on_tensors(gpu_of_torch, monkeypatch):
    gpu, cell = gpu_of_torch.GPU(0), parse_grid(SMALL)[0]
    assert gpu.check(cell, "stages=2") == ""
    attention = flashc.attention

    def wrong(*arguments, **keywords):
        attention(*arguments, **keywords)
        keywords["out"][0, 0, 0, 0] = 99.0

    monkeypatch.setattr(flashc, "attention", wrong)
    assert "o off by" in gpu.check(cell, "stages=2")

    def crash(*arguments, **keywords):
        raise RuntimeError("CUDA error: an illegal memory access\nmore")

    monkeypatch.setattr(flashc, "attention", crash)
    with pytest.raises(Lost, match="schedule stages=2: CUDA error: an illegal memory access$"):
        gpu.check(cell, "stages=2")
    with pytest.raises(Lost, match="schedule stages=3: CUDA error"):
        gpu.time(cell, ["stages=3"], _search.FINAL)


def test_a_kernel_that_does_not_end_is_lost(gpu_of_torch, monkeypatch):
    gpu, cell = gpu_of_torch.GPU(0), parse_grid(SMALL)[0]
    monkeypatch.setattr(gpu_of_torch, "FIRST_RUN_LIMIT", 0)
    monkeypatch.setattr(gpu_of_torch.torch.cuda.Event, "query", lambda self: False)
    with pytest.raises(Lost, match="no end after 0 s"):
        gpu.check(cell, "stages=2")
