"""Assembles every .ptx file of a folder. Fails on a spill, a stack frame, or products that ptxas serialises. Up to 8
spilled bytes are only reported: two registers that are spilled once for each tile of queries.

check-ptxas.py [--spills=BYTES] PTXAS FOLDER [FLASHC SOURCES]. --spills sets another limit than 8, for two kinds of
kernels that spill around their loops. A producer that draws its points has only 24 or 32 registers, too few for its
divisors. A persistent kernel of all gradients is short of a few registers, since it also holds dk and dv. (test_sass.py
checks that other parts do not spill.) With FLASHC and SOURCES, the script first compiles every example into the folder,
and the programs and schedules of gpu_check.py's launcher. The advisories C7510 to C7519 are about wgmma that ptxas
serialises or fences."""

import concurrent.futures
import glob
import os
import re
import subprocess
import sys


def compile_examples(flashc, sources, folder):
    """Writes NAME.ptx for every example, and NAME:SCHEDULE.ptx for some schedules. Since ptxas takes a second for each,
    only schedules with a new word are compiled, beginning with those of many words."""
    sys.path.insert(0, os.path.join(sources, "utils"))
    import gpu_check
    seen = set()
    for program, arguments in sorted(gpu_check.launcher_runs(), key=lambda run: -len(",".join(run[1]).split(","))):
        path, text = (program, None) if isinstance(program, str) else ("-", gpu_check.mlir_source(program))
        label = program["name"] if text else os.path.basename(program)[:-len(".mlir")]
        schedules = [a for a in arguments if a.startswith("--schedule=")]
        words = {word for a in schedules for word in a[len("--schedule="):].split(",")}
        if words and words <= seen:
            continue
        seen |= words
        output = os.path.join(folder, ":".join([label, *(a[len("--schedule="):] for a in schedules)]) + ".ptx")
        if not os.path.exists(output):  # exists if only the sizes differ
            subprocess.run([flashc, path, "-o", output, *schedules], input=text, text=True, check=True)


few_bytes = 8
if sys.argv[1].startswith("--spills="):
    few_bytes = int(sys.argv.pop(1)[len("--spills="):])


def assemble(path):
    """Returns the problems of one file, and the verdict if it has none."""
    command = [sys.argv[1], "-arch=sm_90a", "-v", path, "-o", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True)
    text = done.stdout + done.stderr
    problems = re.findall(r".*C75\d\d.*", text) + ([f"exit {done.returncode}: {text}"] if done.returncode else [])
    used = [(int(number), what)
            for number, what in re.findall(r"(\d+) bytes (stack frame|spill stores|spill loads)", text)]
    is_few = all(number <= few_bytes for number, _ in used) and any(number for number, _ in used)
    problems += [f"{number} bytes {what}" for number, what in used if number and not is_few]
    return problems, "few bytes spilled" if is_few else "clean"


if len(sys.argv) > 3:
    compile_examples(sys.argv[3], sys.argv[4], sys.argv[2])
files = sorted(glob.glob(os.path.join(sys.argv[2], "*.ptx")))
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    results = list(pool.map(assemble, files))
for path, (problems, verdict) in zip(files, results):
    print(os.path.basename(path), "; ".join(problems) or verdict)
sys.exit(not files or any(problems for problems, _ in results))
