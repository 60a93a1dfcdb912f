"""Kernel objects, counters, threads, the cache, and importing the package."""
import gc
import os
import re
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import flashc
from flashc._runtime import contexts
from reference import aligned, assert_close, attention, inputs

SPEC = flashc.ArraySpec((2, 4, 100, 64), "bf16")
KEYS = flashc.ArraySpec((2, 2, 130, 64), "bfloat16")


def test_gpu_kernel():
    kernel = flashc.compile(SPEC, KEYS, KEYS, causal=True, enable_gqa=True)
    assert kernel.target == "sm_90a" and ".entry" in kernel.ptx and "sm_90a" in kernel.ptx
    assert kernel.manifest["schema"] == "flashc.manifest"
    assert [argument["name"] for argument in kernel.manifest["arguments"]] == ["q", "k", "v", "o", "lse"]
    assert kernel.manifest["schedule"] == kernel.schedule and "kv-tile=" in kernel.schedule
    for level, word in (("flash", "flash.attention"), ("loops", "flash.online_attention"), ("tile", "tile."),
                        ("nvvm", "nvvm."), ("llvm", "define ")):
        assert word in kernel.ir(level), level
    with pytest.raises(flashc.Error, match="ptx2"):
        kernel.ir("ptx2")
    assert "sm_90a" in repr(kernel) and "D=64" in repr(kernel)


def test_kernel_that_sorts_its_work_first():
    lengths = np.array([100, 7], np.int32)
    kernel = flashc.compile(SPEC, SPEC, SPEC, mask=lambda b, h, i, j: j < lengths[b], target="sm_90a")
    manifest = kernel.manifest
    (before,) = manifest["before"]
    assert manifest["version"] == 2 and before["grid"] == ["1", "1", "1"] and before["block"] == [1024, 1, 1]
    assert f".entry {before['kernel']}(" in kernel.ptx
    assert "sorted by their work, since the bounds of the keys read an array" in kernel.decisions
    # A kernel before the main one orders the work. It reads extents and the lengths, and writes the workspace, which
    # the main kernel reads.
    assert {"kind": "pointer", "argument": 3} in before["parameters"]
    assert before["parameters"][-1] == manifest["parameters"][-1] == {"kind": "workspace"}
    assert manifest["programmatic_launch"] is True and "griddepcontrol" in kernel.ptx
    closed = flashc.compile(SPEC, SPEC, SPEC, causal=True)
    assert "programmatic_launch" not in closed.manifest and "griddepcontrol" not in closed.ptx
    assert "before" not in closed.manifest and closed.manifest["version"] == 1


def test_cost():
    kernel = flashc.compile(SPEC, KEYS, KEYS, enable_gqa=True)
    cost = kernel.cost
    assert cost.matmul_flops >= 2 * 2 * 2 * 4 * 100 * 130 * 64 and cost.other_flops > 0
    assert cost.bytes_written == 2 * 4 * 100 * (64 * 2 + 4) and cost.bytes_read > 0
    assert cost == kernel.cost and "matmul_flops=" in repr(cost)
    longer = flashc.ArraySpec((2, 4, 2048, 64), "bf16")
    half, whole = (flashc.compile(longer, longer, longer, causal=causal) for causal in (True, False))
    assert 0.5 < half.cost.matmul_flops / whole.cost.matmul_flops < 0.6


def test_cost_of_vast_calls():
    """The cost exceeds 64 bits, and is for the tiles of the kernel."""
    n = (1 << 31) - 1
    vast = flashc.ArraySpec((1, 1, n, 64), "bf16")
    whole = flashc.compile(vast, vast, vast)
    fields = dict(field.split("=") for field in whole.schedule.split(","))
    rows, keys = 64 * int(fields["consumers"]), int(fields["kv-tile"])
    assert (rows, keys) != (64, 64)
    # Each pair of a query and a key costs 4 operations for each dimension. The sum is rounded to a double, which has 53
    # bits.
    queries, columns = -(-n // rows), -(-n // keys)
    assert whole.cost.matmul_flops == float(4 * 64 * queries * rows * columns * keys)
    # Each tile of queries reads its own rows, and all keys and values.
    assert whole.cost.bytes_read == float((n + 2 * queries * n) * 64 * 2)
    assert whole.cost.bytes_written == n * (64 * 2 + 4)
    with pytest.raises(flashc.CompileError, match="expected at most 131072 iterations to count one by one"):
        flashc.compile(vast, vast, vast, causal=True).cost


def test_kernels_without_log_sum_exp(rng):
    kernel = flashc.compile(SPEC, KEYS, KEYS, causal=True, enable_gqa=True, return_lse=False)
    both = flashc.compile(SPEC, KEYS, KEYS, causal=True, enable_gqa=True)
    assert [argument["name"] for argument in kernel.manifest["arguments"]] == ["q", "k", "v", "o"]
    assert "lg2" not in kernel.ptx and "lg2" in both.ptx
    assert kernel.schedule == both.schedule.replace("tensor-sums=false", "tensor-sums=true")
    assert kernel.cost.matmul_flops == both.cost.matmul_flops
    assert kernel.cost.bytes_written == both.cost.bytes_written - 2 * 4 * 100 * 4
    q, k, v = inputs(rng, 2, 4, 2, 9, 17, 8)
    kernel = flashc.compile(q, k, v, causal=True, enable_gqa=True, return_lse=False)
    want = attention(q, k, v, aligned(9, 17, right=0))
    assert_close((kernel(q, k, v), want[1]), want)
    out = np.empty_like(q)
    assert kernel(q, k, v, out=out) is out and np.array_equal(out, kernel(q, k, v))
    for keywords in ({"return_lse": True}, {"out": (out, np.empty((2, 4, 9), np.float32))}):
        for arrays in ((q, k, v), (q, k[:, :, :0], v[:, :, :0])):
            with pytest.raises(flashc.ArgumentError, match="a kernel with the log-sum-exp, got .* return_lse=False"):
                kernel(*arrays, **keywords)


def test_a_log_sum_exp_is_another_kernel(rng, no_disk):
    q, k, v = inputs(rng, 1, 2, 2, 9, 17, 8)
    for _ in range(2):
        flashc.attention(q, k, v)
        flashc.compile(q, k, v, return_lse=False)
        assert flashc.statistics().compilations == 1
    for _ in range(2):
        flashc.attention(q, k, v, return_lse=True)
        flashc.attention(q, k, v, out=(np.empty_like(q), np.empty((1, 2, 9), np.float32)))
        flashc.compile(q, k, v)
        assert flashc.statistics().compilations == 2
    assert flashc.statistics().memory_hits == 4


def test_cost_with_captures():
    bias = flashc.ArraySpec((4, 100, 130), "f32")
    kernel = flashc.compile(SPEC, KEYS, KEYS, enable_gqa=True, mask=bias)
    assert kernel.cost.matmul_flops > 0
    with pytest.raises(flashc.ArgumentError, match="compiled with ArraySpec"):
        kernel(SPEC, KEYS, KEYS)


def test_cpu_kernel(rng):
    q, k, v = inputs(rng, 2, 4, 2, 9, 17, 8)
    table = rng.standard_normal(4).astype(np.float32)
    kernel = flashc.compile(q, k, v, causal=True, enable_gqa=True, score=lambda s, b, h, i, j: s * table[h])
    assert kernel.target == "cpu" and kernel.ptx == "" and kernel.schedule == "" and "scf.for" in kernel.ir("loops")
    for b, hk, nq, nk in ((1, 2, 31, 5), (3, 1, 1, 1)):
        q, k, v = inputs(rng, b, 2 * hk, hk, nq, nk, 8)
        want = attention(q, k, v, aligned(nq, nk, right=0), lambda s, b, h, i, j: s * table[h])
        assert_close(kernel(q, k, v, return_lse=True), want)
        out = np.empty_like(q)
        assert kernel(q, k, v, out=out) is out
    assert kernel(q[:0], k[:0], v[:0]).shape == (0, 2, 1, 8)


def test_kernel_refuses_other_arrays(rng):
    q, k, v = inputs(rng, 1, 2, 2, 9, 17, 8)
    table = np.ones(2, np.float32)
    kernel = flashc.compile(q, k, v, score=lambda s, b, h, i, j: s * table[h])
    for arrays, words in (
            (inputs(rng, 1, 2, 2, 9, 17, 16), "kernel of D 8, got 16"),
            (inputs(rng, 1, 2, 2, 9, 17, 8, 16), "kernel of Dv 8, got 16"),
            (inputs(rng, 1, 2, 2, 9, 17, 8, dtype="f2"), "kernel of element type f32, got f16"),
            (inputs(rng, 1, 3, 3, 9, 17, 8), "indexed by the query head")):
        with pytest.raises(flashc.ArgumentError, match=words):
            kernel(*arrays)
    for mask in (np.ones((9, 17), bool), np.zeros((1, 2, 1, 17), np.float32)):
        masked = flashc.compile(q, k, v, mask=mask)
        assert_close(masked(q, k, v, return_lse=True), attention(q, k, v))
        with pytest.raises(flashc.ArgumentError, match="at least 18 .* indexed by the key's position"):
            masked(*inputs(rng, 1, 2, 2, 9, 18, 8))
    gpu = flashc.compile(SPEC, KEYS, KEYS, enable_gqa=True)
    with pytest.raises(flashc.ArgumentError, match="arrays for a kernel for sm_90a, got them on the CPU"):
        gpu(*inputs(rng, 2, 4, 2, 9, 17, 64, dtype="f2"))
    grouped = flashc.compile(*inputs(rng, 1, 4, 2, 9, 17, 8), enable_gqa=True)
    with pytest.raises(flashc.ArgumentError, match="2 query heads per key head, got 2 over 2"):
        grouped(q, k, v)


def test_compile_refuses():
    for arguments, keywords, error, words in (
            ((SPEC, KEYS, KEYS), {}, flashc.ArgumentError, "enable_gqa=True"),
            ((SPEC, SPEC, SPEC), {"target": "sm_10"}, flashc.CompileError, "sm_10"),
            ((SPEC, SPEC, SPEC), {"layout": "x"}, flashc.ArgumentError, "expected layout"),
            ((flashc.ArraySpec((1, 1, 8, 64), "f32"),) * 3, {}, flashc.UnsupportedTypeError, "on a GPU, got f32"),
            ((flashc.ArraySpec((1, 1, 8, 64), "f64"),) * 3, {}, flashc.UnsupportedTypeError, "to look at, got f64"),
            ((flashc.ArraySpec((1, 0, 8, 64), "f16"),) * 3, {}, flashc.ArgumentError, "at least one head"),
            ((flashc.ArraySpec((1, 1, 0, 64), "f16"),) * 3, {"static_shapes": True}, flashc.ArgumentError,
             "at least 1")):
        with pytest.raises(error, match=words):
            flashc.compile(*arguments, **keywords)
    with pytest.raises(flashc.UnsupportedTypeError, match="element type such as"):
        flashc.ArraySpec((1, 1, 8, 64), "f13")
    with pytest.raises(flashc.ArgumentError, match="not negative"):
        flashc.ArraySpec((1, -1, 8, 64), "f16")
    with pytest.raises(flashc.ArgumentError, match="expected 4 strides"):
        flashc.ArraySpec((1, 1, 8, 64), "f16", strides=(1,))


def test_dtypes_in_any_words():
    assert flashc.ArraySpec((1,), np.float16).dtype == flashc.ArraySpec((1,), np.dtype("f2")).dtype == "f16"
    torch = pytest.importorskip("torch")
    assert flashc.ArraySpec((1,), torch.bfloat16).dtype == "bf16"


def test_a_thousand_shapes_compile_once(rng, no_disk):
    """A kernel does not depend on extents: 1,000 pairs of batch and length share one kernel, and 40 of them are run."""
    pairs = {(int(b), int(n)) for b, n in zip(rng.integers(1, 65, 4000), rng.integers(1, 16385, 4000))}
    pairs = sorted(pairs)[:1000]
    assert len(pairs) == 1000
    for b, n in pairs:
        spec = flashc.ArraySpec((b, 8, n, 64), "bf16")
        flashc.compile(spec, spec, spec, causal=True)
    counters = flashc.statistics()
    assert counters.compilations == 1 and counters.memory_hits == 999
    for n in range(1, 41):
        q, k, v = inputs(rng, 1 + n % 3, 1, 1, n, n, 8)
        got = flashc.attention(q, k, v, causal=True, return_lse=True)
        assert_close(got, attention(q, k, v, aligned(n, n, right=0)))
    assert flashc.statistics().compilations == 2


def test_threads_compile_once(rng, no_disk):
    q, k, v = inputs(rng, 2, 4, 2, 33, 65, 24)
    want = attention(q, k, v, aligned(33, 65, right=0))
    start, failures = threading.Barrier(8), []

    def work(number):
        try:
            start.wait()
            for step in range(20):
                n = 1 + (number * 20 + step) % 33
                got = flashc.attention(q[:, :, -n:], k, v, causal=True, enable_gqa=True, return_lse=True)
                assert_close(got, (want[0][:, :, -n:], want[1][:, :, -n:]))
        except BaseException as error:  # the main thread does not see exceptions of other threads
            failures.append(error)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    assert flashc.statistics().compilations == 1


def test_attention_calls_itself_while_it_allocates(rng, monkeypatch):
    """While a call allocates, the same thread may make another call (in a signal handler or a finaliser). The calls
    must not share a frame."""
    q, k, v = inputs(rng, 1, 1, 1, 9, 17, 8)
    other = inputs(rng, 1, 1, 1, 5, 3, 8)
    flashc.attention(q, k, v)
    from flashc._arrays import source
    empty = source.NumpySource.empty

    def reentrant(self, like, shape, dtype):
        monkeypatch.setattr(source.NumpySource, "empty", empty)
        assert_close(flashc.attention(*other, return_lse=True), attention(*other))
        return empty(self, like, shape, dtype)
    monkeypatch.setattr(source.NumpySource, "empty", reentrant)
    assert_close(flashc.attention(q, k, v, return_lse=True), attention(q, k, v))


def test_disk_cache(rng, tmp_path):
    try:
        q, k, v = inputs(rng, 1, 1, 1, 9, 17, 8)
        for compilations, disk_hits in ((1, 0), (0, 1)):
            flashc.configure(cache_directory=tmp_path / "kernels")
            flashc.attention(q, k, v)
            flashc.compile(SPEC, SPEC, SPEC)
            assert flashc.statistics().compilations + flashc.statistics().disk_hits == 2
        assert flashc.statistics().disk_hits >= 1 and any((tmp_path / "kernels").iterdir())
    finally:
        flashc.configure(disk_cache=False)
    with pytest.raises(flashc.ArgumentError, match="positive number of bytes, got 0"):
        flashc.configure(cache_bytes=0)


def test_kernels_outlive_configure(rng):
    q, k, v = inputs(rng, 1, 1, 1, 9, 17, 8)
    kernel = flashc.compile(q, k, v)
    flashc.configure(disk_cache=False)
    assert flashc.statistics() == flashc.Statistics(0, 0, 0, 0, 0, 0)
    assert_close(kernel(q, k, v, return_lse=True), attention(q, k, v))


def test_contexts_stay(rng):
    """A context that configure() replaces stays alive, since a GPU may still be running its kernels."""
    q, k, v = inputs(rng, 1, 1, 1, 9, 17, 8)
    flashc.attention(q, k, v)
    context = weakref.ref(contexts.context())
    flashc.configure(disk_cache=False)
    gc.collect()
    assert context() is not None


def run(code, *, library=None, **environment):
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **environment)
    if library is not None:
        env["FLASHC_LIBRARY"] = library
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)


def test_import_needs_nothing_and_is_fast():
    code = ("import sys, time; start = time.process_time(); import flashc; print(time.process_time() - start); "
            "assert not {'numpy', 'torch', 'cupy', 'jax'} & set(sys.modules)")
    times = [run(code) for _ in range(3)]
    assert all(done.returncode == 0 for done in times), times[0].stderr
    # The import takes 20 to 70 ms of processor time, which other programs do not disturb.
    assert min(float(done.stdout) for done in times) < 0.3


def test_library_that_is_not_there():
    done = run("import flashc", library="/nowhere/libflashc.so")
    assert done.returncode == 1 and "cannot load flashc's library /nowhere/libflashc.so (FLASHC_LIBRARY names it)" \
        in done.stderr
    assert re.search("is of another version than this package",
                     run("import flashc", library="libc.so.6").stderr)


def test_names():
    assert re.fullmatch(r"\d+\.\d+\.\d+", flashc.__version__) and flashc.devices() >= 0
    for name in flashc.__all__:
        assert hasattr(flashc, name)
    assert os.path.exists(os.path.join(os.path.dirname(flashc.__file__), "py.typed"))
