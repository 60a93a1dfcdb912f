"""Checks that a wheel meets the specification, without installing the wheel: check-wheel.py WHEEL VERSION MAX-BYTES"""

import base64
import configparser
import csv
import email
import hashlib
import io
import os
import sys
import zipfile


def check_record(archive, info):
    """Checks that RECORD lists exactly the files of the archive, each with its size and hash except RECORD itself."""
    rows = list(csv.reader(io.StringIO(archive.read(f"{info}/RECORD").decode())))
    assert sorted(row[0] for row in rows) == sorted(archive.namelist()), "RECORD and the archive name different files"
    for name, digest, size in rows:
        if name == f"{info}/RECORD":
            assert not digest and not size
            continue
        contents = archive.read(name)
        expected = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
        assert (digest, size) == (f"sha256={expected}", str(len(contents))), name


def main():
    path, version, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
    assert os.path.basename(path) == f"flashc-{version}-py3-none-manylinux_2_34_x86_64.whl", path
    size = os.path.getsize(path)
    assert size < limit, f"expected less than {limit} bytes, got {size}"
    info = f"flashc-{version}.dist-info"
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        check_record(archive, info)
        metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
        wheel = email.message_from_bytes(archive.read(f"{info}/WHEEL"))
        names = archive.namelist()
        entry_points = configparser.ConfigParser()
        entry_points.read_string(archive.read(f"{info}/entry_points.txt").decode())
        soname, = [name for name in names if name.startswith("flashc/lib/libflashc.so.")]
        library = archive.getinfo(soname)
        assert archive.read("flashc/lib/libflashc.so").decode().strip() == f"INPUT({os.path.basename(soname)})"
    assert (metadata["Name"], metadata["Version"], metadata["Requires-Python"]) == ("flashc", version, ">=3.9")
    assert metadata.get_all("Provides-Extra") == ["numpy", "torch", "bench"]
    mandatory = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert not mandatory, f"expected no mandatory dependency, got {mandatory}"
    assert dict(entry_points["vllm.general_plugins"]) == {"flashc": "flashc.integrations.vllm:register"}
    assert (wheel["Root-Is-Purelib"], wheel["Tag"]) == ("false", "py3-none-manylinux_2_34_x86_64")
    assert library.external_attr >> 16 & 0o777 == 0o755
    for name in ("flashc/__init__.py", "flashc/py.typed", "flashc/include/flashc-c/flashc.h",
                 "flashc/include/flashc-c/plain.h", "flashc/lib/cmake/flashc/flashcConfig.cmake",
                 "flashc/docs/README.md", "flashc/docs/recipes.md"):
        assert name in names, f"expected {name} in the wheel"
    assert not [name for name in names if "__pycache__" in name or name.endswith((".pyc", ".so.0"))]
    print(f"{len(names)} files, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
