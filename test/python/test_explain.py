"""flashc.explain: tiles against element masks, arrays that bound loops, samples, pictures, refusals."""
import ctypes
import re
import struct
import types
import zlib

import numpy as np
import pytest

import flashc
from flashc import _explain, masks
from flashc._arrays import array, cuda, source
from flashc._runtime import contexts, library
from flashc._runtime.launch import WORDS, Frame
from flashc._runtime.options import Options
from flashc._runtime.specialization import Specialization
from flashc._trace.captured import Capture
from test_classes import cut
from test_masks import in_numpy

SKIPPED, PARTIAL, FULL = range(3)


def specs(batch=1, heads=2, queries=300, keys=500, dim=64, dtype="bf16"):
    q, k = (flashc.ArraySpec((batch, heads, length, dim), dtype) for length in (queries, keys))
    return q, k, k


def classify(keeps, tile, is_moved=False, starts=None):
    """Returns the tightest classes for the tiles of an element mask [Nq, Nk]. If tiles of keys are moved, those of a
    row begin at the first key that the row sees. Tiles of queries follow the sequences that begin at `starts`, if
    given."""
    (queries, keys), (rows, columns) = keeps.shape, tile
    result = []
    for begin, end, _ in cut(queries, rows, starts):
        cells = [SKIPPED] * len(range(0, keys, columns))
        seen, = keeps[begin:end].any(axis=0).nonzero()
        for j in range(seen[0] if is_moved and len(seen) else 0, keys if end > begin else 0, columns):
            part = keeps[begin:end, j:j + columns]
            # A tile that extends past the last key needs the mask.
            whole = j + columns <= keys and part.all()
            cells[j // columns] = FULL if whole else PARTIAL if part.any() else SKIPPED
        result.append(cells)
    return result


COLOURS = {(0xE8, 0xE8, 0xE8): ".", (0xF2, 0x8E, 0x2B): "p", (0x4E, 0x79, 0xA7): "F"}


def read_png(data):
    """Returns the width, the height and the rows of colours."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        chunks[kind] = data[at + 8:at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0] == zlib.crc32(kind + chunks[kind])
        at += 12 + size
    width, height, *kind = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert kind == [8, 3, 0, 0, 0] and b"IEND" in chunks
    colours = [tuple(chunks[b"PLTE"][i:i + 3]) for i in range(0, len(chunks[b"PLTE"]), 3)]
    rows = zlib.decompress(chunks[b"IDAT"])
    assert len(rows) == (width + 1) * height and not any(rows[::width + 1])
    return width, height, [[colours[x] for x in rows[y * (width + 1) + 1:(y + 1) * (width + 1)]] for y in range(height)]


@pytest.mark.parametrize("queries, keys", [(300, 500), (1, 1000), (1100, 90)])
def test_tiles_are_those_of_the_element_mask(queries, keys):
    shift, (i, j) = keys - queries, np.ogrid[:queries, :keys]
    for keywords, keeps in (({}, (i >= 0) & (j >= 0)), ({"causal": True}, j <= i + shift),
                            ({"window": (40, 7)}, (j >= i + shift - 40) & (j <= i + shift + 7))):
        explanation = flashc.explain(*specs(queries=queries, keys=keys), **keywords)
        want = classify(keeps, explanation.tile)
        assert explanation.mask_class == "exact" and explanation.reasons == [], keywords
        assert explanation.tiles == [[want, want]], keywords
        assert (explanation.rows, explanation.columns) == np.shape(want) and explanation.counted_rows == len(want)
        for name, kind in (("skipped", SKIPPED), ("partial", PARTIAL), ("full", FULL)):
            assert getattr(explanation, name) == 2 * np.sum(np.equal(want, kind)), (keywords, name)


IDS = np.repeat([0, 1, 3, 4], [290, 10, 300, 200]).astype(np.int32)
OFFSETS = np.array([0, 200, 200, 800], np.int32)  # the mean length exceeds the 256 queries of a CTA
MASKS = {
    "causal": masks.causal(), "window": masks.sliding_window(100, 30), "prefix": masks.prefix_lm(200),
    "chunks": masks.chunked(192), "blocks": masks.block_causal(48), "sinks": masks.sink_window(5, 130),
    "dilated": masks.dilated_window(300, 4), "lengths": masks.key_padding(np.array([700, 129])),
    "diffusion": masks.block_diffusion(400, 64), "documents": masks.documents(IDS, sorted=True),
    "any documents": masks.documents(IDS), "shared prefix": masks.shared_prefix(300, IDS, sorted=True),
    "packed": masks.packed(OFFSETS), "packed causal": masks.packed(OFFSETS, causal=True),
    "both": masks.causal() & masks.chunked(256) | masks.sliding_window(3, 3), "none": ~masks.causal() & masks.causal(),
    "not": ~masks.sliding_window(70, 70)}


@pytest.mark.parametrize("name", MASKS)
def test_masks_by_name(name):
    """No tile with a kept pair is skipped, and no tile with a dropped pair goes without the mask. If the mask is exact,
    no other tile is visited or masked."""
    mask = MASKS[name]
    explanation = flashc.explain(*specs(batch=2, heads=1, queries=800, keys=800), mask=mask)
    if name in ("causal", "window", "chunks", "blocks", "sinks", "prefix", "lengths"):
        assert explanation.mask_class == "exact", explanation.reasons
    keeps = in_numpy(mask, (2, 1, 800, 800))
    is_moved = any(bound.startswith("origin ") for bound in explanation.bounds)
    assert is_moved == (name in ("chunks", "documents", "packed", "packed causal"))
    for batch in range(2):
        starts = OFFSETS if name.startswith("packed") else None
        tightest = np.array(classify(keeps[batch, 0], explanation.tile, is_moved, starts))
        tiles = np.array(explanation.tiles[batch][0])
        if explanation.mask_class == "exact":
            assert np.array_equal(tiles, tightest)
        assert np.all((tiles == tightest) | (tiles == PARTIAL))


def test_tiles_are_those_of_the_kernel():
    """Except for few queries, consumers visit keys of their own, so each consumer has its own tiles."""
    for queries in (200, 5000):
        q, k, v = specs(queries=queries, dim=128)
        kernel = flashc.compile(q, k, v, mask=masks.causal(), return_lse=False)
        variants = [variant for variant in kernel.manifest.get("variants", [])
                    if all(queries <= bound for _, bound in variant["when"])]
        chosen = (variants[0] if variants else kernel.manifest)["schedule"]
        schedule = dict(pair.split("=") for pair in chosen.split(","))
        explanation = flashc.explain(q, k, v, mask=masks.causal())
        is_own = schedule["own-keys"] == "true"
        assert is_own == (queries > 4096) == ("own-keys" in explanation.tile_source.split("),")[-1])
        assert explanation.tile == (64 if is_own else 64 * int(schedule["consumers"]), int(schedule["kv-tile"]))
        assert "sm_90a" in explanation.tile_source and "line" in explanation.tile_source
    assert flashc.explain(q, k, v, schedule="consumers=1,kv-tile=64").tile == (64, 64)
    assert flashc.explain(q, k, v, target="cpu").tile == (64, 64)
    # f32 has no kernels for a GPU, so the tile is that of the loops on the CPU.
    assert flashc.explain(*specs(dtype="f32")).tile == (64, 64)


def test_short_sequences_stay_on_the_grid():
    """Whether tiles stay on the grid depends on the number of sequences: they do if sequences are shorter, on average,
    than a tile of queries. Tests both sides of the limits, also where each consumer has a tile of its own."""
    for schedule, tile, count, keys, is_short in (
            (None, 128, 127, 16384, False), (None, 128, 128, 16384, True), (None, 128, 128, 32771, False),
            ("consumers=3,kv-tile=128,stages=4,own-keys=false", 192, 128, 16384, True),
            ("consumers=3,kv-tile=128,stages=4,own-keys=true", 64, 128, 16384, True),
            ("consumers=3,kv-tile=128,stages=4,own-keys=true", 64, 10, 16384, False)):
        offsets, key_offsets = (np.array([0] * count + [end], np.int32) for end in (16384, keys))
        q, k, v = specs(heads=1, queries=16384, keys=keys, dim=64 if schedule else 128)
        explanation = flashc.explain(q, k, v, mask=masks.packed(offsets, key_offsets), schedule=schedule)
        assert explanation.tile == (tile, 128), schedule
        assert ("on their grid" in explanation.tile_source) == is_short, (schedule, count, keys)
        assert (explanation.rows == -(-16384 // tile)) == is_short
    # explain and the manifest have the same condition for short sequences. The kernel's cost is unknown, since it
    # depends on the offsets.
    kernel = flashc.compile(q, k, v, mask=masks.packed(offsets, causal=True), schedule="consumers=2,kv-tile=128")
    short, = kernel.manifest["variants"]
    assert short["when"][-2][1] == 128 and kernel.manifest["kernel"] + "_short" == short["kernel"]
    with pytest.raises(flashc.CompileError, match="depends on data"):  # as the runtime says
        kernel.cost


def test_arrays_bound_loops():
    q, k, v = specs(batch=3, heads=2)
    ends = np.array([[100, 500], [0, 128], [499, 77]], np.int32)
    flipped, heads = ends[::-1, ::-1], np.array([5, 400], np.int64)
    for array, mask in ((ends, lambda b, h, i, j: j < ends[b, h]), (flipped, lambda b, h, i, j: j < flipped[b, h]),
                        (heads, lambda b, h, i, j: j < heads[h])):
        explanation = flashc.explain(q, k, v, mask=mask)
        j = np.arange(500)
        bound = np.broadcast_to(array, (3, 2))
        for b in range(3):
            for h in range(2):
                keeps = np.broadcast_to(j < bound[b, h], (300, 500))
                assert explanation.tiles[b][h] == classify(keeps, explanation.tile), (b, h)
    assert "head 1: skipped" in str(explanation) and "batch" not in str(explanation).split("each head:")[1]
    assert any("capture0[h]" in formula for formula in explanation.formulas)
    # A bound may also be a captured number. An array that is in no bound need not be given.
    count, bias = np.int64(130), flashc.ArraySpec((3, 2, 300, 500), "f32")
    explanation = flashc.explain(q, k, v, mask=lambda b, h, i, j: j < count,
                                 score=lambda s, b, h, i, j: s + bias[b, h, i, j])
    assert explanation.tiles[2][1] == classify(np.broadcast_to(j < 130, (300, 500)), explanation.tile)


def test_arrays_are_named_in_formulas():
    explanation = flashc.explain(*specs(queries=900, keys=900), mask=masks.packed(np.array([0, 300, 900]), causal=True))
    start, last = "capture0[count_le(i, capture0) - 1]", "capture0[extent(capture0, 0) - 1]"
    assert explanation.formulas == [f"j >= {start}", f"j <= {last} - 1", "j <= i", "j <= Nk - 1"]
    assert explanation.bounds[0].startswith(f"kept [{start}, min({last}, i0 + rows, Nk))")
    assert explanation.bounds[-1] == f"origin {start}"
    assert explanation.rows == -(-901 // explanation.tile[0]) + 3
    q = flashc.ArraySpec((2, 1, 800, 64), "bf16")
    explanation = flashc.explain(q, q, q, mask=masks.documents(np.stack([IDS, IDS]), sorted=True))
    assert explanation.formulas[:2] == ["j >= count_lt(capture0[b, i], capture0[b])",
                                        "j <= count_le(capture0[b, i], capture0[b]) - 1"]
    assert flashc.explain(*specs(), mask=lambda b, h, i, j: (i < 7) & (j // 9 <= i // 5)).formulas == [
        "i <= 6", "i floordiv 5 >= j floordiv 9", "j <= Nk - 1"]


TABLE = np.array([3, 150, 90, 400, 17] * 100, np.int32)
LENGTHS = np.array([[120, 500, 0], [33, 64, 310]], np.int64)
LIMIT = np.array(77, np.int32)


@pytest.mark.parametrize("mask", [
    lambda b, h, i, j: j <= flashc.ops.where(LENGTHS[b, h] > LIMIT, LENGTHS[b, h], i) + b * 100,
    lambda b, h, i, j: (j >= flashc.ops.where(i > LIMIT, b, h)) & (j - i < flashc.ops.where(i % 3 == h, 9, LIMIT)),
    lambda b, h, i, j: (j < TABLE[i]) | (j < TABLE[h]),
    lambda b, h, i, j: (i // 50 == j // 50) ^ (h > b)])
def test_what_masks_choose_is_known(mask):
    """Masks that choose between positions, scalars and elements, whatever the choice depends on."""
    batch, heads, queries, keys = 2, 3, 300, 500
    explanation = flashc.explain(*specs(batch, heads, queries, keys), mask=mask)
    choose, flashc.ops.where, ends = flashc.ops.where, np.where, (flashc.ops.minimum, flashc.ops.maximum)
    flashc.ops.minimum, flashc.ops.maximum = np.minimum, np.maximum
    try:
        keeps = np.broadcast_to(mask(*np.ogrid[:batch, :heads, :queries, :keys]), (batch, heads, queries, keys))
    finally:
        flashc.ops.where, (flashc.ops.minimum, flashc.ops.maximum) = choose, ends
    for b in range(batch):
        for h in range(heads):
            tightest = np.array(classify(keeps[b, h], explanation.tile))
            tiles = np.array(explanation.tiles[b][h])
            if explanation.mask_class == "exact":
                assert (tiles == tightest).all()
            # If the mask is not exact, a tile may be partial although the tightest class is skipped or full.
            assert ((tiles == tightest) | (tiles == PARTIAL)).all()


def test_vast_calls_are_a_sample():
    """The counts of vast calls are estimated from evenly spaced rows of tiles, and say so. Lists and pictures need a
    call whose tiles are all counted."""
    length = (1 << 31) - 1
    explanation = flashc.explain(*specs(batch=5, queries=length, keys=length), causal=True)
    rows, columns = (-(-length // size) for size in explanation.tile)
    assert (explanation.rows, explanation.columns) == (rows, columns)
    assert explanation.skipped + explanation.partial + explanation.full == 10 * rows * columns
    assert explanation.skipped == pytest.approx(10 * rows * columns / 2, rel=1e-5)
    assert 1000 < explanation.counted_rows < rows
    assert f", estimated from {explanation.counted_rows} rows of each head" in str(explanation)
    for make in (explanation.png, lambda: explanation.tiles):
        with pytest.raises(flashc.OutOfMemoryError, match=f"of its {rows} rows {explanation.counted_rows} were"):
            make()
    # In this call all tiles are counted, but a list of them does not fit in memory.
    explanation = flashc.explain(*specs(queries=1 << 23, keys=1 << 23), causal=True)
    assert explanation.counted_rows == explanation.rows and "estimated" not in str(explanation)
    with pytest.raises(flashc.OutOfMemoryError, match="not the memory to list the .* tiles of a head"):
        explanation.tiles


def test_documents_of_many_positions():
    """Runs a mask that reads an array: explain takes the range of the array in each of a quarter of a million tiles."""
    length = 1 << 16
    ids = np.repeat(np.random.default_rng(3).permutation(64), 1024).astype(np.int32)
    explanation = flashc.explain(*specs(heads=1, queries=length, keys=length),
                                 mask=lambda b, h, i, j: (ids[i] == ids[j]) & (j <= i))
    rows, columns = (1024 // size for size in explanation.tile)
    assert rows == columns  # so that each document fills the tiles below its diagonal
    assert (explanation.full, explanation.partial) == (64 * rows * (rows - 1) // 2, 64 * rows)


def test_missing_elements_are_named():
    q, k, v = specs()
    lengths = flashc.ArraySpec((1,), "i32")
    with pytest.raises(flashc.CompileError) as error:
        flashc.explain(q, k, v, mask=lambda b, h, i, j: j < lengths[b])
    assert re.fullmatch(r"expected the elements of argument 3 \(lengths\), which loop bounds read, got none; "
                        r"lengths is the captured int32 array of shape \(1,\), whose elements explain needs .*",
                        str(error.value))


def test_missing_elements_are_named_once():
    q, k, v = specs()
    bias, first, last = flashc.ArraySpec((500,), "f32"), flashc.ArraySpec((1,), "i32"), flashc.ArraySpec((1,), "i32")
    with pytest.raises(flashc.CompileError) as error:
        flashc.explain(q, k, v, score=lambda s, b, h, i, j: s + bias[j],
                       mask=lambda b, h, i, j: (j >= first[b]) & (j < last[b]))
    message = str(error.value)
    assert message.count("expected") == 1 and "captured int32 array of shape (1,)" in message, message


def test_a_launch_of_one_tile_has_its_masks_class():
    q = flashc.ArraySpec((1, 2, 32, 64), "bf16")
    for keywords, mask_class in ((dict(causal=True), "exact"),
                                 (dict(mask=lambda b, h, i, j: (j <= i) & (i * j % 3 != 1)), "conservative")):
        explanation = flashc.explain(q, q, q, static_shapes=True, **keywords)
        assert explanation.mask_class == mask_class and explanation.formulas, (keywords, str(explanation))


def test_masks_that_are_not_exact_say_why():
    explanation = flashc.explain(*specs(), mask=flashc.ArraySpec((300, 500), "bool"))
    assert explanation.mask_class == "mapped" in repr(explanation) and explanation.skipped == explanation.full == 0
    assert f"mask: mapped\n  because {explanation.reasons[0]}" in str(explanation)
    size = np.array(96)  # not a constant of the kernel, but chunks have bounds all the same
    assert flashc.explain(*specs(), mask=lambda b, h, i, j: i // size == j // size).mask_class == "exact"
    explanation = flashc.explain(*specs(), mask=lambda b, h, i, j: i // size == (j + i) // size)
    assert explanation.mask_class == "mapped" and explanation.reasons == [
        "tiles are visited by running the mask",
        "its map of 12 tiles takes 132 bytes, and the mask is evaluated on up to 12; the map is computed once for "
        "launches of the same lengths"
    ]


def test_layout_and_groups():
    q, k = flashc.ArraySpec((2, 300, 8, 64), "bf16"), flashc.ArraySpec((2, 500, 2, 64), "bf16")
    explanation = flashc.explain(q, k, k, causal=True, layout="bshd", enable_gqa=True)
    same = flashc.explain(*specs(), causal=True)
    assert np.shape(explanation.tiles) == (2, 8, explanation.rows, explanation.columns)
    assert explanation.tiles[1][7] == same.tiles[0][0] and explanation.full == 8 * same.full
    host = np.zeros((1, 2, 300, 64), np.float16)
    assert flashc.explain(host, host, host, causal=True).tile[0] >= 64


def test_picture(tmp_path):
    ends = np.array([100, 400], np.int64)
    path = tmp_path / "tiles.png"
    explanation = flashc.explain(*specs(), mask=lambda b, h, i, j: j < ends[h], png=path, head=1)
    assert path.read_bytes() == explanation.png(0, 1) != explanation.png()
    width, height, pixels = read_png(path.read_bytes())
    # There are lines between tiles, and around all of them.
    scale = width // explanation.columns
    assert (width, height) == (explanation.columns * scale + 1, explanation.rows * scale + 1)
    for row, cells in enumerate(explanation.tiles[0][1]):
        for column, cell in enumerate(cells):
            colour = pixels[row * scale + scale // 2][column * scale + scale // 2]
            assert COLOURS[colour] == ".pF"[cell]
            assert pixels[row * scale + 1][column * scale] == (255, 255, 255)
    with pytest.raises(flashc.ArgumentError, match="expected a batch from 0 to 0 and a head from 0 to 1, got 0 and 2"):
        flashc.explain(*specs(), png=path, head=2)


def test_picture_of_a_large_map():
    """Each pixel is a block of tiles: all skipped, all full, or neither. The last blocks are cut off."""
    explanation = flashc.explain(*specs(queries=300000, keys=280000), causal=True)
    side = explanation.picture_block
    assert side == -(-max(explanation.rows, explanation.columns) // 2048) > 1
    width, height, pixels = read_png(explanation.png())
    assert (width, height) == (-(-explanation.columns // side), -(-explanation.rows // side))
    tiles = np.array(explanation.tiles[0][0])
    for y in (*range(0, height, 97), height - 1):
        for x in range(width):
            block = tiles[y * side:(y + 1) * side, x * side:(x + 1) * side]
            want = "F" if (block == FULL).all() else "p" if block.any() else "."
            assert COLOURS[pixels[y][x]] == want


def test_arrays_on_a_gpu_are_copied(monkeypatch):
    """Fakes a driver that copies from host memory: an array here takes the place of GPU 0's memory."""
    elements = np.array([[100, -1], [400, -1]], np.int32)
    column = elements[:, 0]
    noted = []

    class Driver(types.SimpleNamespace):
        def cuMemcpyDtoH_v2(self, memory, address, size):
            noted.append(size.value)
            ctypes.memmove(memory, address.value, size.value)
            return 0

    names = ("cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2",
             "cuDevicePrimaryCtxRelease_v2", "cuCtxSynchronize")
    driver = Driver(**{name: lambda *arguments: 0 for name in names})
    monkeypatch.setattr(cuda, "get_driver", lambda: driver)
    describe = source.NumpySource.describe
    monkeypatch.setattr(source.NumpySource, "describe",
                        lambda self, x, stream=None: describe(self, x, stream)._replace(device=0))
    q, k, v = specs(batch=2)

    def explain():
        return flashc.explain(q, k, v, mask=lambda b, h, i, j: j < column[b])
    explanation = explain()
    assert noted == [3 * 4]
    j = np.arange(500)
    for b in range(2):
        want = classify(np.broadcast_to(j < column[b], (300, 500)), explanation.tile)
        assert explanation.tiles[b] == [want, want]
    monkeypatch.setattr(_explain, "_MAX_COPY", 11)
    with pytest.raises(flashc.CompileError, match="which loop bounds read"):
        explain()
    monkeypatch.undo()
    monkeypatch.setattr(cuda, "get_driver", lambda: types.SimpleNamespace(cuDeviceGet=lambda *arguments: 100))
    with pytest.raises(flashc.GPUError, match=r"cannot copy an array from GPU 3 \(CUDA error 100\)"):
        cuda.copy_to_host(array.Array(64, (2,), (1,), "i32", 3, None))


def test_refusals():
    q, k, v = specs()
    for arguments, keywords, error, match in (
            ((q, k, v), {"target": "sm_1"}, flashc.CompileError, "expected the target to be one of sm_90a, sm_80"),
            ((q, k, v), {"schedule": "kv-tile=banana"}, flashc.CompileError, "expected an integer for 'kv-tile'"),
            ((q, k, v), {"window": (1, 2, 3)}, flashc.ArgumentError, "expected window to be"),
            ((q, k, v), {"layout": "hbsd"}, flashc.ArgumentError, "expected layout"),
            ((q, k, v), {"mask": lambda b, h, i, j: i}, flashc.TraceError, "expected the mask to return a condition"),
            (specs(queries=0), {}, flashc.ArgumentError, "expected extents of at least 1 to explain a call"),
            ((q, q, v), {}, flashc.ArgumentError, "expected k and v of one length"),
            (specs(dtype="f32"), {"target": "sm_90a"}, flashc.UnsupportedTypeError, "Tensor Cores")):
        with pytest.raises(error, match=match):
            flashc.explain(*arguments, **keywords)


def test_searches_of_sorted_arrays():
    """Keys up to the segment of the batch, and keys before an element that is found at any position of a sorted
    array."""
    offsets = np.array([0, 130, 130, 256, 400], np.int32)
    code = """%s = flash.assume_sorted %offsets : tensor<?xi32>
        %one = arith.constant 1 : index
        %c = flash.count_le %j in %s : index, tensor<?xi32>
        %segment = arith.subi %c, %one : index
        %before = arith.cmpi sle, %segment, %b : index
        %three = arith.constant 300 : i16
        %n = flash.count_le %three in %s : i16, tensor<?xi32>
        %position = arith.muli %n, %h : index
        %m = flash.nth %position in %s : tensor<?xi32>
        %inside = arith.cmpi slt, %j, %m : index
        %keep = arith.andi %before, %inside : i1
        flash.yield %keep : i1"""
    batch, heads, queries, keys, dim = 7, 3, 64, 500, 64
    attention = Specialization("bf16", dim, dim, options=Options(scale=1.0), mask_code=code,
                               captures=(Capture("offsets", "i32", (0,)),)).describe()
    q, k = (batch, heads, queries, dim), (batch, heads, keys, dim)
    frame = Frame([(shape, array.contiguous_strides(shape)) for shape in (q, k, k, (5,), q)])
    frame.words[3 * WORDS] = offsets.ctypes.data
    explanation = flashc.Explanation(contexts.context().explain(
        attention, "sm_90a", None, ctypes.cast(frame.address, ctypes.POINTER(library.Argument)), frame.count))
    assert "j <= offsets[b + 1] - 1" in explanation.formulas, explanation.formulas
    assert "j <= offsets[count_le(300, offsets) * h] - 1" in explanation.formulas
    j = np.arange(keys)
    for b in range(batch):
        for h in range(heads):
            # Four offsets are at most 300, so head h sees the keys before offsets[4 * h]. offsets[8] does not exist, so
            # head 2 sees all keys.
            end = (offsets[0], offsets[4], keys)[h]
            keeps = (np.searchsorted(offsets, j, "right") - 1 <= b) & (j < end)
            assert explanation.tiles[b][h] == classify(np.broadcast_to(keeps, (queries, keys)), explanation.tile)
