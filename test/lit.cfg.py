# -*- Python -*-
# lit's configuration. A test's RUN lines may use flashc's programs, FileCheck, not, count and split-file by name, and:
#   %flashc_src  the source tree            %flashc_obj      the build tree
#   %flashc_bin  the folder of the programs %flashc_version  the project's version
#   %python      an interpreter             %ptxas           the PTX assembler (with REQUIRES: ptxas)
#   %capi        test/CAPI/capi-test.c      %capi_launch     test/CAPI/launch-test.c
#   %capi_explain  test/CAPI/explain-test.c   %capi_memory   test/CAPI/memory-test.c
#   %capi_lazy     test/CAPI/lazy-test.c      %capi_plain      test/CAPI/plain-test.c
#   %cc          the C compiler            %cxx             the C++ compiler
#   %vary        writes a program and its variations (test/Inputs/vary.py)
#   %unittests   the GoogleTest programs (with REQUIRES: unittests)
# Features: `ptxas` (an assembler is installed), `disassembler` (nvdisasm or cuobjdump is), `gpu` (the CUDA driver loads
# and reports a device), `unittests` (they were built: GoogleTest was found), `lld` (it linked the programs), `pytest`
# (the interpreter has it), `formatters` (utils/format.sh finds its programs, and a git checkout).

import ctypes
import os
import shutil
import subprocess

import lit.formats


def find_cuda(*names):
    """Returns the first of CUDA's programs on PATH, below CUDA_HOME or in the usual place, or None."""
    candidates = [shutil.which(name) for name in names]
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if root:
            candidates += [os.path.join(root, "bin", name) for name in names]
    return next((path for path in candidates if path and os.access(path, os.X_OK)), None)


def has_gpu():
    """Returns whether the CUDA driver loads and reports a device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


config.name = "flashc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.flashc_obj_root, "test")

tool_dirs = [config.flashc_tools_dir, config.llvm_tools_dir]
config.environment["PATH"] = os.pathsep.join(tool_dirs + [os.environ["PATH"]])
# The level of x86-64 that programs on the CPU are compiled for (docs/checking.md).
if "FLASHC_CPU" in os.environ:
    config.environment["FLASHC_CPU"] = os.environ["FLASHC_CPU"]
# Programs on the CPU have small inputs here, so most of the time of a test goes into generating code. Level 0 generates
# it fastest. Driver/examples.test, Integration/cpu/levels.test and `make test-torch` use the level that users get.
config.environment["FLASHC_CPU_OPT_LEVEL"] = "0"
# A factor for the number of random masks that Analysis/mask-*property.test draw (docs/fuzzing.md).
config.environment["FLASHC_DRAWS"] = os.environ.get("FLASHC_DRAWS", "1")
# Tests do not touch the cache of the user who runs them.
config.environment["XDG_CACHE_HOME"] = os.path.join(config.test_exec_root, "cache")
# pytest prints why it skips a test; utils/run_lit.py collects the reasons.
config.environment["PYTEST_ADDOPTS"] = " ".join(["-rs", os.environ.get("PYTEST_ADDOPTS", "")])

config.substitutions.append(("%unittests", os.path.join(config.flashc_obj_root, "test", "unittests")))
capi_dir = os.path.join(config.flashc_obj_root, "test", "CAPI")
config.substitutions.append(("%capi_launch", os.path.join(capi_dir, "flashc-launch-test")))
config.substitutions.append(("%capi_explain", os.path.join(capi_dir, "flashc-explain-test")))
config.substitutions.append(("%capi_lazy", os.path.join(capi_dir, "flashc-lazy-test") + " " +
                             os.path.join(capi_dir, "fake-cuda.so")))
config.substitutions.append(("%capi_memory", os.path.join(capi_dir, "flashc-memory-test")))
config.substitutions.append(("%capi_plain", os.path.join(capi_dir, "flashc-plain-test")))
config.substitutions.append((r"%capi\b", os.path.join(capi_dir, "flashc-capi-test")))
config.substitutions.append(("%pytest", "env PYTHONPATH=%flashc_src/python:%S PYTHONDONTWRITEBYTECODE=1 "
                             "FLASHC_LIBRARY=%flashc_obj/lib/libflashc.so XDG_CACHE_HOME=%t.cache "
                             "%python -m pytest -q -p no:cacheprovider"))
config.substitutions.append(("%vary", "%python %flashc_src/test/Inputs/vary.py"))
config.substitutions.append(("%flashc_src", config.flashc_src_root))
config.substitutions.append(("%flashc_version", config.flashc_version))
config.substitutions.append(("%flashc_obj", config.flashc_obj_root))
config.substitutions.append(("%flashc_bin", config.flashc_tools_dir))
config.substitutions.append((r"%cc\b", config.c_compiler))
config.substitutions.append((r"%cxx\b", config.cxx_compiler))
config.substitutions.append(("%python", config.python_executable))

ptxas, disassembler = find_cuda("ptxas"), find_cuda("nvdisasm", "cuobjdump")
if ptxas:
    config.available_features.add("ptxas")
    config.substitutions.append(("%ptxas", ptxas))
    config.environment["PATH"] += os.pathsep + os.path.dirname(ptxas)
if disassembler:
    config.available_features.add("disassembler")
    config.environment["PATH"] += os.pathsep + os.path.dirname(disassembler)
if subprocess.call([config.python_executable, "-c", "import pytest"], stderr=subprocess.DEVNULL) == 0:
    config.available_features.add("pytest")
if config.flashc_unittests:
    config.available_features.add("unittests")
if all(map(shutil.which, ("clang-format-22", "autopep8"))) and os.path.exists(
        os.path.join(config.flashc_src_root, ".git")):
    config.available_features.add("formatters")
if config.flashc_lld:
    config.available_features.add("lld")
if has_gpu():
    config.available_features.add("gpu")
