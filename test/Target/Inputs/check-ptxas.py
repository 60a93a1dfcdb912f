"""Assembles every .ptx file of a folder; fails on a spill, a stack frame, or products that ptxas serialises.

check-ptxas.py PTXAS FOLDER [FLASHC SOURCES]. With the last two it first compiles into the folder every example, and one
of them with several schedules. The advisories C7510 to C7519 are about wgmma: serialised, or fenced by ptxas itself."""

import concurrent.futures
import glob
import os
import re
import subprocess
import sys

SCHEDULES = ["consumers=1", "overlap=false", "ping-pong=false", "consumers=3,kv-tile=64", "stages=3,kv-tile=80",
             "stages=1"]


def compile_examples(flashc, sources, folder):
    """Leaves NAME.ptx for every example, and NAME:SCHEDULE.ptx for one of them."""
    for path in sorted(glob.glob(os.path.join(sources, "examples", "*.mlir"))):
        name = os.path.basename(path)[:-len(".mlir")]
        for schedule in ["", *(SCHEDULES if name == "causal" else [])]:
            label = f"{name}:{schedule}" if schedule else name
            command = [flashc, path, "-o", os.path.join(folder, label + ".ptx"), f"--schedule={schedule}"]
            subprocess.run(command, check=True)


def assemble(path):
    """Returns what is wrong with one file."""
    command = [sys.argv[1], "-arch=sm_90a", "-v", path, "-o", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True)
    text = done.stdout + done.stderr
    problems = re.findall(r".*C75\d\d.*", text) + ([f"exit {done.returncode}: {text}"] if done.returncode else [])
    for number, what in re.findall(r"(\d+) bytes (stack frame|spill stores|spill loads)", text):
        if int(number):
            problems.append(f"{number} bytes {what}")
    return problems


if len(sys.argv) > 3:
    compile_examples(sys.argv[3], sys.argv[4], sys.argv[2])
files = sorted(glob.glob(os.path.join(sys.argv[2], "*.ptx")))
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    results = list(pool.map(assemble, files))
for path, problems in zip(files, results):
    print(os.path.basename(path), "; ".join(problems) or "clean")
sys.exit(not files or any(results))
