"""Assembles every .ptx file of a folder; fails on a spill, a stack frame, or products that ptxas serialises.

check-ptxas.py PTXAS FOLDER. The advisories C7510 to C7519 are about wgmma: serialised, or fenced by ptxas itself."""

import concurrent.futures
import glob
import os
import re
import subprocess
import sys


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


files = sorted(glob.glob(os.path.join(sys.argv[2], "*.ptx")))
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    results = list(pool.map(assemble, files))
for path, problems in zip(files, results):
    print(os.path.basename(path), "; ".join(problems) or "clean")
sys.exit(not files or any(results))
