"""Checks the instructions of the tuned kernels after ptxas, so that these kernels stay fast. Needs no GPU, but ptxas
and a disassembler. Skipped where these are missing.

    PYTHONPATH=python FLASHC_LIBRARY=build/lib/libflashc.so python3 -m pytest test/python/test_sass.py
"""
import os
import re
import sys

import pytest

import flashc
from flashc import masks

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "utils"))

import sass_report  # noqa: E402

ROWS = os.path.join(os.path.dirname(__file__), "..", "..", "lib", "Schedule", "schedules.txt")

if not sass_report.find_tool("ptxas"):
    pytest.skip("there is no ptxas", allow_module_level=True)
if not sass_report.find_tool("nvdisasm", "cuobjdump"):
    pytest.skip("there is no nvdisasm and no cuobjdump", allow_module_level=True)

SHARED_MEMORY = 232448  # bytes of one CTA; maxSharedMemory of Hopper.h
REGISTERS = 65536  # registers of one multiprocessor
# Keys are the head dimensions, and whether the tensor cores sum up the rows. A value is a limit for one iteration of
# the unmasked loop: the number of instructions in addition to the products and to the softmax. The softmax takes 4
# instructions for each score (multiply-add, exponential, sum, half a maximum of three, half a pack), or 3 without the
# sum. With d = 64, wait-after adds 12. Limits are one or two above the measured numbers. If a change needs fewer
# instructions, lower the limit.
BESIDE = {(64, 64, True): 89, (64, 64, False): 89, (72, 72, False): 79, (80, 80, False): 79, (96, 96, False): 77,
          (112, 112, False): 78, (128, 128, False): 81, (160, 160, False): 82, (192, 128, False): 91,
          (256, 256, False): 103}
TUNED = sorted({(d, dv) for d, dv, _ in BESIDE})
FEW_BYTES = 8  # bytes that may be spilled once for each tile of queries; a main loop must not spill
R2UR = 4  # limit for a main loop; a kernel that lost uniformity has two for each product


def compile_kernel(d, dv, dtype="bf16", group=1, n=4096, return_lse=False, **options):
    shapes = ((1, 8, n, d), (1, 8 // group, n, d), (1, 8 // group, n, dv))
    q, k, v = (flashc.ArraySpec(shape, dtype) for shape in shapes)
    return flashc.compile(q, k, v, enable_gqa=True, return_lse=return_lse, target="sm_90a", **options)


#: By the number of consumers: registers of a thread of the producer, and of a thread of a consumer.
ROLE_REGISTERS = {1: (24, 240), 2: (24, 240), 3: (32, 160), 4: (32, 112)}


def number(schedule, key):
    return int(re.search(rf"(?:^|,){key}=(\d+)", schedule)[1])


def products(shape):
    """Returns {opcode: number} for the products of one tile: S = Q K^T, and O += P V. The last 64 columns of the second
    product may have eight columns of sums next to them. A product is 16 deep. If d is not a multiple of 16, as d = 72,
    Q and K are padded with zeros."""
    d, dv, kv_tile, dtype, sums = shape
    kind = ".BF16" if dtype == "bf16" else ""
    result = {}
    of_values = [dv - 64, 72] if sums else [dv]
    for columns, depth in [(kv_tile, d), *((columns, kv_tile) for columns in of_values if columns)]:
        opcode = f"HGMMA.64x{columns}x16.F32{kind}"
        result[opcode] = result.get(opcode, 0) + -(-depth // 16)
    return result


def check_resources(used, entry):
    """Yields problems with the registers, the stack and the shared memory of an entry. `entry` is from the manifest."""
    schedule, threads = entry["schedule"], entry["block"][0]
    consumers = number(schedule, "consumers")
    producer, consumer = ROLE_REGISTERS[consumers]
    planned = 128 * (producer + consumers * consumer)
    if max(used.stack, used.spill_stores, used.spill_loads) > FEW_BYTES:
        yield f"{used.stack} bytes of stack, {used.spill_stores} and {used.spill_loads} bytes spilled"
    yield from used.advice
    if threads != 128 * (consumers + 1) or used.registers * threads > REGISTERS or planned > REGISTERS:
        yield f"{threads} threads of {used.registers} registers, {planned} registers planned"
    if used.shared + entry["dynamic_shared_memory"] > SHARED_MEMORY:
        yield f"{used.shared} + {entry['dynamic_shared_memory']} bytes of shared memory"


def check_roles(code, schedule):
    """Yields problems with setmaxnreg, and with the registers that each role uses."""
    for opcode, limit in zip(("DEALLOC", "TRY_ALLOC"), ROLE_REGISTERS[number(schedule, "consumers")]):
        found = [i for i in code if i.opcode.startswith(f"USETMAXREG.{opcode}")]
        if not found or any(int(i.operands.split()[-1], 16) != limit for i in found):
            yield f"expected USETMAXREG.{opcode} {limit:#x}, got {', '.join(map(str, found)) or 'none'}"
            continue
        highest = max(map(sass_report.highest_register, sass_report.reachable(code, found[0])))
        if highest >= limit:
            yield f"R{highest} in a role of {limit} registers"


def check_loop(loop, shape, most_beside=None):
    """Yields problems of a main loop. A masked loop is only checked for what it shares with the unmasked one.
    `most_beside` replaces the limit of BESIDE."""
    d, dv, kv_tile, _, sums = shape
    scores, counts = kv_tile // 2, sass_report.count(loop.always)
    everything = sass_report.count(loop.instructions())
    found = {}
    for instruction in loop.always:
        if instruction.name == "HGMMA":
            found[instruction.opcode] = found.get(instruction.opcode, 0) + 1
    if found != products(shape) or everything["HGMMA"] != counts["HGMMA"]:
        yield f"products {found}"
    # A thread has two rows, and compares the scores of each row with a limit. If a score may exceed it, a branch
    # computes the maximum (two butterfly shuffles for each row) and the factor by which the output is rescaled.
    always = {"MUFU.EX2": scores, "FADD": 2 if sums else scores + 2, "SHFL": 0}
    expected = {"MUFU.EX2": scores + 2, "MUFU other": 0, "pack (F2FP)": scores // 2, "convert": 0, "SHFL": 4,
                "local memory": 0}
    for name, want in {**expected, **always}.items():
        if counts[name] != want:
            yield f"{want} of {name} expected, got {counts[name]}"
        elif everything[name] != expected.get(name, everything[name]):
            yield f"{expected[name]} of {name} expected, got {everything[name]} with those behind a branch"
    if everything["R2UR"] > R2UR:
        yield f"{everything['R2UR']} R2UR"
    # The branches compute the maximum and rescale the output, and are rarely taken.
    if len(loop.sometimes) > dv // 2 + scores + 32:
        yield f"{len(loop.sometimes)} instructions behind a branch"
    beside = len(loop.always) - counts["HGMMA"] - (6 if sums else 8) * scores // 2
    if not sass_report.is_masked(loop) and beside > (most_beside or BESIDE[d, dv, sums]):
        yield f"{len(loop.always)} instructions, {beside} beside products and softmax"


def check(kernel, d, dv, dtype="bf16", most_beside=None):
    """Returns the problems of all entries of a kernel, as lines."""
    with sass_report.text_file(kernel.ptx) as path:
        functions, resources = sass_report.read_kernels(path)
    entries = {entry["kernel"]: entry for entry in [kernel.manifest, *kernel.manifest.get("variants", [])]}
    assert set(functions) == set(resources) == set(entries)
    problems = []
    for name, entry in entries.items():
        shape = d, dv, number(entry["schedule"], "kv-tile"), dtype, "tensor-sums=true" in entry["schedule"]
        loops = sass_report.main_loops(functions[name])
        found = [*check_resources(resources[name], entry), *check_roles(functions[name], entry["schedule"])]
        if sum(not sass_report.is_masked(loop) for loop in loops) != 1:
            found.append(f"{len(loops)} main loops, of which one should be unmasked")
        for loop in loops:
            found += check_loop(loop, shape, most_beside)
        problems += [f"{name} ({entry['schedule']}): {problem}" for problem in found]
    return problems


@pytest.fixture(autouse=True)
def fresh(no_disk):
    """Kernels are compiled, not taken from the disk cache."""


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("d, dv", TUNED)
def test_tuned(d, dv, dtype, causal):
    assert check(compile_kernel(d, dv, dtype, causal=causal), d, dv, dtype) == []


def test_tuned_are_all_rows():
    """The list covers all head dimensions of the schedule table, for rows without a mask and rows for bounds.
    If the number of queries is unknown, a kernel has an entry for each row. ptxas-masks.test tests the rows for
    other masks."""
    with open(ROWS, encoding="utf-8") as file:
        rows = [dict(re.findall(r"(\w+)<?=(\w+)", line.partition(":")[0])) for line in file if line[0] not in "#\n"]
    tuned = [row for row in rows if row.get("mask", "none") in ("none", "bounds") and "score" not in row]
    assert {(int(row["d"]), int(row["dv"])) for row in tuned} <= set(TUNED) and len(tuned) >= len(TUNED)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128])
def test_with_log_sum_exp(d, causal):
    assert check(compile_kernel(d, d, causal=causal, return_lse=True), d, d) == []


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_grouped_heads(d, causal):
    assert check(compile_kernel(d, d, group=8, causal=causal), d, d) == []


@pytest.mark.parametrize("n, causal", [(512, True), (1024, True), (4096, True), (4096, False)])
@pytest.mark.parametrize("d", [64, 128])
def test_static_shapes(d, n, causal):
    # Without a mask, ptxas computes the eight descriptors of Q in every iteration, because the loop carries their
    # address.
    most = 101 if (d, n, causal) == (128, 4096, False) else None
    assert check(compile_kernel(d, d, n=n, causal=causal, static_shapes=True), d, d, most_beside=most) == []


@pytest.mark.parametrize("dtype, pair, single, most", [
    ("f32", "LDG.E.64", "LDG.E", 254), ("bf16", "LDG.E", "LDG.E.U16", 300), ("i8", "LDG.E.U16", "LDG.E.U8", 325)])
def test_reads_of_a_bias(dtype, pair, single, most):
    """In full tiles, columns are constants in the load instructions, so no addresses inside the array are kept. Two
    neighbours are loaded at once if they are aligned, in a branch."""
    bias = flashc.ArraySpec((4096, 4096), dtype)
    kernel = compile_kernel(64, 64, score=lambda s, b, h, i, j: s + bias[i, j])
    with sass_report.text_file(kernel.ptx) as path:
        functions, resources = sass_report.read_kernels(path)
    assert all(used.spill_stores == 0 for used in resources.values())
    loop = min(sass_report.main_loops(functions[kernel.manifest["kernel"]]), key=lambda loop: len(loop.always))
    loads = [i.opcode.removesuffix(".CONSTANT") for i in loop.instructions() if i.name == "LDG"]
    assert loads.count(single) == 32 and loads.count(pair) == 16
    assert len(loop.always) <= most, len(loop.always)


@pytest.mark.parametrize("d, return_lse, most", [(64, False, 294), (64, True, 454), (128, False, 449)])
def test_soft_cap(d, return_lse, most):
    """A warp takes one of several branches: a polynomial of two or of four instructions, or tanh with two
    multiplications."""
    kernel = compile_kernel(d, d, return_lse=return_lse, score=lambda s, b, h, i, j: 30.0 * flashc.ops.tanh(s / 30.0),
                            schedule="wait-after=12,q-stages=1,store=registers")
    with sass_report.text_file(kernel.ptx) as path:
        functions, resources = sass_report.read_kernels(path)
    entries = [kernel.manifest, *kernel.manifest.get("variants", [])]
    entry = next(entry for entry in entries if number(entry["schedule"], "kv-tile") == 128)
    code = functions[entry["kernel"]]
    assert [*check_resources(resources[entry["kernel"]], entry), *check_roles(code, entry["schedule"])] == []
    for loop in sass_report.main_loops(code):
        always, sometimes = sass_report.count(loop.always), sass_report.count(loop.sometimes)
        # The instructions that increase two maxima and compute two factors, and those that rescale the output. A kernel
        # without a maximum has none of them.
        rescale = 4 + d // 2 if sometimes["SHFL"] else 0
        assert always["MUFU.EX2"] == 64 and always["SHFL"] == 0 and sometimes["MUFU.EX2"] == (2 if rescale else 0)
        assert always["MUFU other"] == 0 and sometimes["MUFU other"] == 64
        assert sometimes["HGMMA"] == sometimes["local memory"] == 0
        assert sometimes["FFMA"] + sometimes["FMUL"] == 64 * 8 + rescale
        assert sometimes["R2UR"] + always["R2UR"] <= R2UR
    assert min(len(loop.always) for loop in sass_report.main_loops(code)) <= most


LENGTHS, IDS = flashc.ArraySpec((1,), "i32"), flashc.ArraySpec((4096,), "i32")


@pytest.mark.parametrize("mask", [masks.key_padding(LENGTHS), masks.packed(flashc.ArraySpec((9,), "i32"), causal=True),
                                  masks.documents(IDS, sorted=True)], ids=["padding", "packed", "documents"])
@pytest.mark.parametrize("d", [64, 128])
def test_drawn_points(d, mask):
    """The producer draws its points from the work list, and may spill the divisors for them. Consumers do not divide.
    They may spill only before the roles split, and not in their loops."""
    kernel = compile_kernel(d, d, mask=mask)
    with sass_report.text_file(kernel.ptx) as path:
        functions, resources = sass_report.read_kernels(path)
    for entry in [kernel.manifest, *kernel.manifest.get("variants", [])]:
        code = functions[entry["kernel"]]
        assert any(one["kernel"].endswith("_order") for one in entry["before"])
        assert list(resources[entry["kernel"]].advice) == []
        assert list(check_roles(code, entry["schedule"])) == []
        first = next(i for i in code if i.opcode.startswith("USETMAXREG.TRY_ALLOC"))
        assert sass_report.count(sass_report.reachable(code, first))["local memory"] <= FEW_BYTES // 4 + 1
        assert not any(sass_report.count(loop.instructions())["local memory"] for loop in sass_report.main_loops(code))


@pytest.mark.parametrize("mask", [None, "causal", "window"])
def test_soft_cap_without_maximum(mask):
    """With wide values, the columns of sums are next to the second half of the values. Each branch computes the
    exponentials."""
    options = {None: {}, "causal": {"causal": True}, "window": {"mask": flashc.masks.sliding_window(1023, 0)}}[mask]
    kernel = compile_kernel(128, 128, score=lambda s, b, h, i, j: 30.0 * flashc.ops.tanh(s / 30.0),
                            schedule="max=unified,consumers=2,kv-tile=128,stages=2,q-stages=2", **options)
    with sass_report.text_file(kernel.ptx) as path:
        functions, resources = sass_report.read_kernels(path)
    entry = kernel.manifest
    code = functions[entry["kernel"]]
    assert [*check_resources(resources[entry["kernel"]], entry), *check_roles(code, entry["schedule"])] == []
    loops = sass_report.main_loops(code)
    for loop in loops:
        always, sometimes = sass_report.count(loop.always), sass_report.count(loop.sometimes)
        found = sass_report.count([i for i in loop.always if i.name == "HGMMA"], lambda i: i.opcode)
        assert found == products((128, 128, 128, "bf16", True))
        assert always["MUFU.EX2"] == always["SHFL"] == 0 and sometimes["MUFU.EX2"] == 3 * 64
        assert sometimes["HGMMA"] == sometimes["local memory"] == always["local memory"] == 0
        assert sometimes["R2UR"] + always["R2UR"] <= R2UR
    assert min(len(loop.always) for loop in loops) <= 185


# --- What the checks find ---------------------------------------------------------------------------------------------

def found_in(kernel, d=64):
    return "\n".join(check(kernel, d, d))


def test_finds_spills():
    kernel = compile_kernel(64, 64, mask=lambda b, h, i, j: (i // 50 == j // 50) | (j < 7 * i) | (j % 3 == i % 5),
                            score=lambda s, b, h, i, j: s * 2.0 + (i - j), schedule="consumers=3,kv-tile=128")
    found = found_in(kernel)
    assert "bytes spilled" in found and "0 of local memory expected" in found


def test_finds_masked_loops():
    """The mask bounds no loop, so the only main loop is masked."""
    found = found_in(compile_kernel(64, 64, mask=lambda b, h, i, j: i * j % 3 == 0))
    assert "1 main loops, of which one should be unmasked" in found


def test_finds_stray_instructions():
    found = found_in(compile_kernel(64, 64, score=lambda s, b, h, i, j: s * 2.0 + (i % 7 - j % 5) * (j - i)))
    assert re.search(r"0 of convert expected, got \d+", found)
    found = "\n".join(check(compile_kernel(64, 64), 64, 64, most_beside=1))
    assert re.search(r"instructions, \d+ beside products and softmax", found)


def test_finds_other_exponentials_and_functions():
    found = found_in(compile_kernel(64, 64, score=lambda s, b, h, i, j: 20.0 * flashc.ops.tanh(s / 20.0)))
    assert "0 of MUFU other expected, got 64" in found


def test_finds_other_products_and_packs():
    kernel = compile_kernel(128, 128, schedule="kv-tile=64")
    assert check(kernel, 128, 128) == []
    with sass_report.text_file(kernel.ptx) as path:
        code = next(iter(sass_report.read_kernels(path)[0].values()))
    found = "\n".join(check_loop(sass_report.main_loops(code)[-1], (128, 128, 128, "f16", False)))
    assert "products {'HGMMA.64x64x16.F32.BF16': 8, 'HGMMA.64x128x16.F32.BF16': 4}" in found
    assert "64 of MUFU.EX2 expected, got 32" in found and "32 of pack (F2FP) expected, got 16" in found


def test_finds_resources_over_the_plan():
    used = sass_report.Resources(registers=171, stack=16, spill_stores=0, spill_loads=0, barriers=16, shared=1000,
                                 advice=["(C7510) serialized"])
    entry = {"schedule": "consumers=2", "block": [384, 1, 1],
             "dynamic_shared_memory": SHARED_MEMORY - 999}
    assert list(check_resources(used, entry)) == [
        "16 bytes of stack, 0 and 0 bytes spilled", "(C7510) serialized",
        "384 threads of 171 registers, 64512 registers planned", f"1000 + {SHARED_MEMORY - 999} bytes of shared memory"]


def test_finds_roles_over_the_plan():
    text = """Function : roles
        /*0000*/ @P0 BRA 0x30 ;
        /*0010*/ USETMAXREG.DEALLOC.CTAPOOL 0x18 ;
        /*0020*/ EXIT ;
        /*0030*/ USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xf0 ;
        /*0040*/ HGMMA.64x128x16.F32 R180, gdesc[UR12], R180 ;
        /*0050*/ MOV R3, R9.reuse ;
        /*0060*/ EXIT ;"""
    code = sass_report.parse(text)["roles"]
    assert list(check_roles(code, "consumers=2")) == ["R243 in a role of 240 registers"]
    assert len(list(check_roles(code, "consumers=3"))) == 2
    del code[3]
    code[0].target = 0x40
    assert list(check_roles(code, "consumers=2")) == ["expected USETMAXREG.TRY_ALLOC 0xf0, got none"]
