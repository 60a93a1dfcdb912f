#!/usr/bin/env python3
"""Hashes the PTX of some 500 programs, to show that a change does not change the PTX.

  ptx_sweep.py write [FILE]             hashes every program and writes a line for each: two hashes and its name
  ptx_sweep.py compare [--some] [FILE]  hashes every program, or some, and lists those that differ from FILE's, are new
                                        or gone
  ptx_sweep.py show NAME                prints the PTX of a program, and its manifest

The first hash is that of the PTX without comments. The second hash is that of the manifest without the texts of
schedules. By default FILE is recorded.txt next to this script, which has the hashes of the tree. A commit that changes
code on purpose writes this file again, and its diff shows which programs changed. PTX depends on the version of LLVM,
which is in the first line of the file. For another version nothing is compared, and the status is 2 (with --some, for
the test suite, 0).

The library is that of build/, or the one in another build tree that FLASHC_LIBRARY names.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Dict, Iterable, Tuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = os.environ.setdefault("FLASHC_LIBRARY", str(ROOT / "build" / "lib" / "libflashc.so"))
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "test" / "python")]

import corpus  # noqa: E402
import flashc  # noqa: E402

RECORD = pathlib.Path(__file__).with_name("recorded.txt")
TABLE = ROOT / "lib" / "Schedule" / "schedules.txt"
ROW = re.compile(r"row: built-in schedule table, line (\d+):")


#: The flashc program of the build tree that has the library.
DRIVER = str(pathlib.Path(LIBRARY).parents[1] / "bin" / "flashc")


def get_version() -> str:
    return re.search(r"LLVM [\w.]+", subprocess.check_output([DRIVER, "--version"], text=True)).group()


def compile_program(name: str) -> Tuple[str, Dict, str]:
    """Returns the PTX of a program, its manifest and its decisions."""
    if name in corpus.PROGRAMS:
        kernel = corpus.PROGRAMS[name]()
        return kernel.ptx, kernel.manifest, kernel.decisions
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.ptx")
        decisions = subprocess.run([DRIVER, *corpus.EXAMPLES[name], "-o", path, "--print-decisions"], check=True,
                                   stdout=subprocess.PIPE, text=True).stdout
        with open(path) as ptx, open(os.path.join(folder, "kernel.json")) as manifest:
            return ptx.read(), json.load(manifest), decisions


def without_comments(ptx: str) -> str:
    lines = (line.split("//")[0].rstrip() for line in ptx.splitlines())
    return "\n".join(line for line in lines if line)


def without_schedules(manifest: Dict) -> Dict:
    plain = {key: value for key, value in manifest.items() if key != "schedule"}
    if "variants" in plain:
        plain["variants"] = [without_schedules(variant) for variant in plain["variants"]]
    return plain


def hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def hash_program(name: str) -> Tuple[str, str, Iterable[str]]:
    """Returns the name of a program, its hashes as in a line of the record, and the rows of the schedule table that it
    uses."""
    ptx, manifest, decisions = compile_program(name)
    launch = json.dumps(without_schedules(manifest), sort_keys=True)
    return name, f"{hash_text(without_comments(ptx))} {hash_text(launch)}", ROW.findall(decisions)


def hash_programs(names: Iterable[str]) -> Tuple[Dict[str, str], set]:
    """Returns the hashes of programs by name, and the lines of the schedule table that no program uses."""
    flashc.configure(disk_cache=False)
    hashes, rows = {}, set()
    with concurrent.futures.ProcessPoolExecutor() as pool:
        for name, line, some in pool.map(hash_program, names, chunksize=4):
            hashes[name] = line
            rows.update(some)
    return hashes, find_rows() - rows


def find_rows() -> set:
    """Returns the line numbers of the rows in the built-in table."""
    return {str(number) for number, line in enumerate(TABLE.read_text().splitlines(), 1) if line and line[0] != "#"}


def read_record(path: str) -> Tuple[str, Dict[str, str]]:
    version, *lines = pathlib.Path(path).read_text().splitlines()
    return version, {line[34:]: line[:33] for line in lines}


def write(path: str) -> int:
    hashes, missed = hash_programs([*corpus.PROGRAMS, *corpus.EXAMPLES])
    with open(path, "w") as file:
        print(get_version(), *(f"{line} {name}" for name, line in sorted(hashes.items())), sep="\n", file=file)
    print(f"{len(hashes)} programs, {len(set(line[:16] for line in hashes.values()))} kernels")
    for row in sorted(missed, key=int):
        print(f"no program takes line {row} of schedules.txt")
    return bool(missed)


def compare(path: str, some: bool) -> int:
    version, before = read_record(path)
    if version != get_version():
        print(f"{path} is of {version}, this is {get_version()}: nothing to compare")
        return 0 if some else 2
    names = [*corpus.PROGRAMS, *corpus.EXAMPLES]
    changes = [("new", name) for name in names if name not in before]
    changes += [("gone", name) for name in before if name not in names]
    now, _ = hash_programs(corpus.SOME if some else names)
    changes += [("PTX differs" if line[:16] != before[name][:16] else "manifest differs", name)
                for name, line in now.items() if line != before.get(name, line)]
    for change, name in changes:
        print(f"{change}: {name}")
    print(f"{len(now)} programs, {len(changes)} changes")
    return bool(changes)


def show(name: str) -> int:
    ptx, manifest, _ = compile_program(name)
    print(without_comments(ptx))
    print(json.dumps(manifest, indent=2))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("write").add_argument("file", nargs="?", default=RECORD)
    comparison = commands.add_parser("compare")
    comparison.add_argument("file", nargs="?", default=RECORD)
    comparison.add_argument("--some", action="store_true", help="the few programs that the test suite compares")
    commands.add_parser("show").add_argument("name", choices=[*corpus.PROGRAMS, *corpus.EXAMPLES], metavar="NAME")
    arguments = parser.parse_args()
    if arguments.command == "write":
        return write(arguments.file)
    if arguments.command == "compare":
        return compare(arguments.file, arguments.some)
    return show(arguments.name)


if __name__ == "__main__":
    sys.exit(main())
