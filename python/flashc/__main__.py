"""`python -m flashc`: lists the GPUs, folders, programs and functions of this machine."""
from __future__ import annotations

import argparse
import inspect
import os
from typing import Iterator, List, Optional, Tuple

import flashc

from ._arrays.cuda import capability_of
from ._documents import documents
from ._runtime import contexts
from ._runtime.library import gpu_name, library_path

PROGRAMS = [("flashc", "the compiler: MLIR in, PTX and its manifest out (flashc --help)"),
            ("python -m flashc.bench", "times this package and other attentions on the GPU"),
            ("python -m flashc.tune", "finds schedules for the GPU")]

_SOME_OPS = "where", "tanh", "count_le", "query_length", "array"

_HOPPER, _OLDEST = (9, 0), (8, 0)


def prefix() -> Optional[str]:
    """Returns the folder for CMAKE_PREFIX_PATH. Returns None if it has no lib/cmake/flashc, as in a build tree."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(library_path())))
    return folder if os.path.isdir(os.path.join(folder, "lib", "cmake", "flashc")) else None


def _usable(capability: Tuple[int, int]) -> str:
    """Returns which functions run on a compute capability. decode has kernels for sm_80 and later; all other kernels
    are for Hopper only."""
    if capability == _HOPPER:
        return "all functions"
    return "decode alone; kernels of the others are for sm_90a" if capability >= _OLDEST else "no function"


def _gpus() -> Iterator[str]:
    try:
        count = flashc.devices()
    except flashc.GPUError as error:
        yield f"none usable: {error}"
        return
    if not count:
        yield "none found: no CUDA driver, or no device; arrays on the host run on the CPU"
    for device in range(count):
        capability = capability_of(device)
        yield f"{device}: {gpu_name(device)}, sm_{capability[0]}{capability[1]}: {_usable(capability)}"


def _functions() -> Iterator[Tuple[str, str]]:
    """Yields the public functions with the first sentences of their docstrings."""
    for name in flashc.__all__:
        value = getattr(flashc, name)
        if inspect.isfunction(value):
            yield name, _first_sentence(value)
    for module in (flashc.masks, flashc.scores):
        names = ", ".join(name for name in module.__all__ if name[0].islower())
        yield module.__name__.partition(".")[2], names
    yield "ops", f"{len(flashc.ops.__all__)} functions for masks and scores, such as {', '.join(_SOME_OPS)}"
    yield "torch", "scaled_dot_product_attention and flex_attention, which replace PyTorch's (PyTorch 2.4 or newer)"


def _first_sentence(value: object) -> str:
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return text.partition(". ")[0].rstrip(".:")


def _section(title: str, lines: List[str]) -> str:
    return "\n".join(f"{title if number == 0 else '':12}{line}" for number, line in enumerate(lines))


def report() -> str:
    """Returns the whole report as text."""
    functions = list(_functions())
    width = max(len(name) for name, _ in functions) + 2
    sections = [("flashc", [flashc.__version__]), ("library", [library_path()]), ("GPUs", list(_gpus())),
                ("kernels", [contexts.context().cache_directory() or "no folder to keep them in"]),
                ("documents", [documents() or "not installed"]),
                ("for CMake", [f"-DCMAKE_PREFIX_PATH={prefix()}" if prefix() else "not installed"]),
                ("programs", [f"{name:24}{what}" for name, what in PROGRAMS]),
                ("functions", [f"{name:{width}}{what}" for name, what in functions])]
    return "\n".join(_section(title, lines) for title, lines in sections)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m flashc", description="Says what there is: the version, the "
                                     "library, GPUs, functions, programs.")
    parser.add_argument("--prefix", action="store_true", help="print the folder for CMAKE_PREFIX_PATH alone")
    parser.add_argument("--docs", action="store_true", help="print the folder of the documents alone")
    arguments = parser.parse_args()
    if arguments.prefix:
        print(prefix() or parser.error("expected CMake's files next to the library, found none"))
    elif arguments.docs:
        print(documents() or parser.error("expected documents next to the package, found none"))
    else:
        print(report())


if __name__ == "__main__":
    main()
