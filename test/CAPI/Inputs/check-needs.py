"""Fails if an ELF file needs libraries other than glibc's, or a newer glibc than given: check-needs.py FILE 2.34."""

import re
import subprocess
import sys

# The libraries of glibc that flashc may use. Add a name only on purpose.
ALLOWED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}


# Features that the loader must support, each with the first glibc that has it.
ABIS = {"GLIBC_ABI_DT_RELR": "2.36"}


def version(text):
    return tuple(map(int, text.split(".")))


def main():
    path, limit = sys.argv[1:]
    read = lambda flag: subprocess.run(["llvm-readelf", flag, path], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"^ +(\S+\.so\S*)$", read("--needed-libs"), re.MULTILINE))
    names = set(re.findall(r"Name: (\S+)", read("--version-info")))
    versions = [ABIS[name] for name in names & ABIS.keys()]
    versions += [name[len("GLIBC_"):] for name in names if re.fullmatch(r"GLIBC_[\d.]+", name)]
    newest = max(versions, key=version)
    print("needs", *sorted(needed))
    print("glibc", newest)
    mistakes = [f"expected {path} to need glibc only, got {name}" for name in sorted(needed - ALLOWED)]
    if version(newest) > version(limit):
        mistakes.append(f"expected {path} to need glibc {limit} at most, got {newest}")
    if not any(name.startswith("libc.so") for name in needed):
        mistakes.append("expected libc.so among the needed libraries, got none: is the output of llvm-readelf read?")
    sys.exit("\n".join(mistakes) or 0)


if __name__ == "__main__":
    main()
