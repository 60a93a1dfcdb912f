#!/usr/bin/env python3
"""Packs python/flashc and a finished build of the library into a wheel: build_wheel.py --build build --output dist

The package has no compiled extension, so one wheel serves every Python 3 of a platform. setuptools cannot make the tag
for that, so this script writes the file itself, as the specification of wheels says. The same input gives the same
bytes. The script is also the build backend that pyproject.toml names (PEP 517), for `pip install .` after `make`.
"""

import argparse
import base64
import hashlib
import pathlib
import platform
import re
import subprocess
import tempfile
import zipfile

try:
    import tomllib
except ModuleNotFoundError:  # before Python 3.11
    from pip._vendor import tomli as tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The oldest glibc that the library runs with; test/CAPI/exports.test checks it.
GLIBC = (2, 34)


def read_version():
    """Returns the project's version, which is in CMakeLists.txt."""
    return re.search(r"project\(flashc VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def tag():
    return f"py3-none-manylinux_{GLIBC[0]}_{GLIBC[1]}_{platform.machine()}"


def read_project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def entry_points():
    """Returns the text of entry_points.txt: the functions by which other packages find flashc."""
    lines = []
    for group, functions in read_project()["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {function}" for name, function in functions.items()), ""]
    return "\n".join(lines)


def metadata(version):
    """Returns the text of METADATA, from pyproject.toml."""
    project = read_project()
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {version}",
             f"Summary: {project['description']}", f"Requires-Python: {project['requires-python']}"]
    lines += [f"Classifier: {classifier}" for classifier in project["classifiers"]]
    for extra, requirements in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {requirement} ; extra == "{extra}"' for requirement in requirements]
    lines += ["Description-Content-Type: text/markdown", "", (ROOT / project["readme"]).read_text()]
    return "\n".join(lines)


def collect_library(prefix):
    """Returns the library below `prefix`, with the files that C programs need. A wheel cannot have symbolic links, so
    the library file has the name that the loader looks for, and libflashc.so is a linker script that refers to it."""
    files = {}
    library = (prefix / "lib" / "libflashc.so").resolve()
    files[f"flashc/lib/{library.name}"] = (library.read_bytes(), 0o755)
    files["flashc/lib/libflashc.so"] = (f"INPUT({library.name})\n".encode(), 0o644)
    for path in [*(prefix / "include" / "flashc-c").iterdir(), *(prefix / "lib" / "cmake" / "flashc").iterdir()]:
        files["flashc/" + path.relative_to(prefix).as_posix()] = (path.read_bytes(), 0o644)
    return files


def collect(build, version):
    """Returns the files of the wheel except RECORD: name -> (contents, mode)."""
    files = {}
    package = ROOT / "python" / "flashc"
    for path in package.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            files["flashc/" + path.relative_to(package).as_posix()] = (path.read_bytes(), 0o644)
    with tempfile.TemporaryDirectory() as prefix:
        subprocess.run(["cmake", "--install", str(build), "--prefix", prefix, "--component", "runtime", "--strip"],
                       check=True, stdout=subprocess.DEVNULL)
        files.update(collect_library(pathlib.Path(prefix)))
    for path in sorted((ROOT / "docs").iterdir()):
        files[f"flashc/docs/{path.name}"] = (path.read_bytes(), 0o644)
    files[f"flashc-{version}.data/scripts/flashc"] = ((ROOT / "python" / "scripts" / "flashc").read_bytes(), 0o755)
    wheel = f"Wheel-Version: 1.0\nGenerator: flashc {version}\nRoot-Is-Purelib: false\nTag: {tag()}\n"
    files[f"flashc-{version}.dist-info/METADATA"] = (metadata(version).encode(), 0o644)
    files[f"flashc-{version}.dist-info/WHEEL"] = (wheel.encode(), 0o644)
    files[f"flashc-{version}.dist-info/entry_points.txt"] = (entry_points().encode(), 0o644)
    return files


def record_line(name, contents):
    digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(contents)}\n"


def write(path, files, version):
    """Writes the archive: the package in order, then what describes it, with RECORD last."""
    info = f"flashc-{version}.dist-info/"
    names = sorted(files, key=lambda name: (name.startswith(info), name))
    record = "".join(record_line(name, files[name][0]) for name in names) + f"{info}RECORD,,\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (contents, mode) in [(name, files[name]) for name in names] + \
                [(f"{info}RECORD", (record.encode(), 0o644))]:
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3  # Unix, so that the mode counts
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, contents)


def make(build, output):
    """Writes the wheel into the folder `output`. Returns its file name."""
    if not (build / "lib" / "libflashc.so").exists():
        raise SystemExit(f"build_wheel.py: expected a finished build in {build}, got none: run make")
    version = read_version()
    name = f"flashc-{version}-{tag()}.whl"
    output.mkdir(parents=True, exist_ok=True)
    write(output / name, collect(build, version), version)
    return name


# --- Functions that pip calls -----------------------------------------------------------------------------------------

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    build = ROOT / (config_settings or {}).get("build-dir", "build")
    return make(build, pathlib.Path(wheel_directory))


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("build_wheel.py: flashc has no source distribution: build it from a checkout")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="the build tree")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "dist", help="the folder of the wheel")
    args = parser.parse_args()
    print(args.output / make(args.build, args.output))


if __name__ == "__main__":
    main()
