"""Where a schedule table comes from, the variants of a kernel, and the decisions that it reports."""
import os
import pytest

import flashc
from flashc._runtime import contexts, library

SPEC = flashc.ArraySpec((1, 2, 100, 64), "bf16")


@pytest.fixture
def context(tmp_path, monkeypatch):
    """Starts a new context with an empty cache folder. Returns a function that starts another context."""
    monkeypatch.delenv("FLASHC_SCHEDULE_TABLE", raising=False)

    def start():
        flashc.configure(cache_directory=tmp_path)
    start()
    yield start
    flashc.configure(disk_cache=False)


@pytest.fixture
def gpu(monkeypatch):
    """Fakes a GPU of which only the name is known. Returns the list of the devices whose names were asked for."""
    asked = []

    def path(folder, device=0):
        asked.append(device)
        return f"{folder}/schedules/NVIDIA-H200.txt"
    monkeypatch.setattr(contexts, "device_table_path", path)
    return asked


def test_variants_are_one_kernel(context):
    kernel = flashc.compile(SPEC, SPEC, SPEC)
    variant, = kernel.manifest["variants"]
    assert variant["when"] == [["arg0.dim2", 4096]] and variant["kernel"] == "attention_q4096"
    assert kernel.manifest["schedule"] == kernel.schedule != variant["schedule"]
    assert kernel.ptx.count(".entry") == 2 and flashc.statistics().compilations == 1
    few, any = kernel.decisions.split("entry ")[1:]
    assert few.startswith("attention_q4096: up to 4096 queries") and any.startswith("attention: any other number")
    static = flashc.compile(SPEC, SPEC, SPEC, static_shapes=True)
    assert "variants" not in static.manifest and static.schedule == variant["schedule"]
    context()
    again = flashc.compile(SPEC, SPEC, SPEC)
    assert flashc.statistics().disk_hits == 1
    assert again.decisions == kernel.decisions and again.manifest == kernel.manifest


def test_cpu_kernels_decide_nothing(context, monkeypatch):
    monkeypatch.setenv("FLASHC_SCHEDULE_TABLE", "/nowhere")
    assert flashc.compile(SPEC, SPEC, SPEC, target="cpu").decisions == ""


def test_the_table_of_the_gpu(context, gpu, tmp_path):
    assert "built-in schedule table" in flashc.compile(SPEC, SPEC, SPEC).decisions
    assert gpu == []  # the driver is not called if nobody has tuned
    folder = tmp_path / "schedules"
    folder.mkdir()
    context()
    assert "built-in schedule table" in flashc.compile(SPEC, SPEC, SPEC).decisions
    assert gpu == [0]
    (folder / "NVIDIA-H200.txt").write_text("# mine\nmask=none: kv-tile=48\n")
    context()
    kernel = flashc.compile(SPEC, SPEC, SPEC)
    assert "row: schedule table, line 2: mask=none: kv-tile=48" in kernel.decisions and "kv-tile=48" in kernel.schedule
    assert flashc.statistics().disk_hits == 0  # another table makes another kernel
    assert "kv-tile=64" in flashc.compile(SPEC, SPEC, SPEC, schedule="kv-tile=64").schedule
    assert "built-in" in flashc.compile(SPEC, SPEC, SPEC, causal=True).decisions
    (folder / "NVIDIA-H200.txt").write_text("mask=all: kv-tile=48")
    context()
    with pytest.raises(flashc.CompileError, match="schedule table, line 1: expected mask= and none, bounds, several, "):
        flashc.compile(SPEC, SPEC, SPEC)


def test_the_table_of_the_environment(context, gpu, tmp_path, monkeypatch):
    (tmp_path / "schedules").mkdir()
    (tmp_path / "schedules" / "NVIDIA-H200.txt").write_text(": kv-tile=48")
    (tmp_path / "mine.txt").write_text(": kv-tile=80")
    monkeypatch.setenv("FLASHC_SCHEDULE_TABLE", str(tmp_path / "mine.txt"))
    assert "kv-tile=80" in flashc.compile(SPEC, SPEC, SPEC).schedule
    monkeypatch.setenv("FLASHC_SCHEDULE_TABLE", "")
    context()
    assert "kv-tile=128" in flashc.compile(SPEC, SPEC, SPEC).schedule and gpu == []
    monkeypatch.setenv("FLASHC_SCHEDULE_TABLE", str(tmp_path / "none.txt"))
    context()
    with pytest.raises(flashc.Error, match="cannot read the schedule table .*none.txt: No such file"):
        flashc.compile(SPEC, SPEC, SPEC)


def test_a_table_without_an_end(context, monkeypatch, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    with open(tmp_path / "long", "wb") as file:
        file.truncate(1 << 36)  # a sparse file, which takes no space on the disk
    for name, reason in ("pipe", "got a pipe or a device"), ("zeros", "got a pipe or a device"), (
            "long", "expected at most 67108864 bytes"), (".", "Is a directory"):
        monkeypatch.setenv("FLASHC_SCHEDULE_TABLE", str(tmp_path / name))
        context()
        with pytest.raises(flashc.Error, match=reason):
            flashc.compile(SPEC, SPEC, SPEC)


def test_the_file_of_a_gpu(monkeypatch):
    class Library:
        """A library with one function. It returns a name in memory that the caller frees."""
        @staticmethod
        def flashcGetDeviceName(device, out, message):
            if device:
                return library.GPU_ERROR
            out._obj.value = 1
            return library.OK
    monkeypatch.setattr(library, "lib", Library)
    monkeypatch.setattr(library, "take_text", lambda pointer: "NVIDIA H200 NVL" if pointer.value else "")
    assert contexts.device_table_path("/cache") == "/cache/schedules/NVIDIA-H200-NVL.txt"
    assert contexts.device_table_path("/cache", 1) is None
