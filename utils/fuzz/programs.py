"""Cases of kind "programs": mutated .mlir through flashc and flashc-opt, with random options and passes.

A program may be refused with a diagnostic. It is a fault if the compiler is ended by a signal, takes longer than
CPU_SECONDS, or fails without a diagnostic. Mutated programs are only compiled, not run.
"""

import functools
import glob
import os
import re
import resource
import signal
import subprocess
import tempfile

from mutations import INTEGERS, mutate, words
from reduce import reduce_list

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: Limits of time and memory for a program.
CPU_SECONDS, WALL_SECONDS, MEMORY = 20, 200, 6 << 30
UPSTREAM = "/usr/lib/llvm-22/bin/mlir-opt"


class Fault(Exception):
    """The fault of a case."""


@functools.lru_cache(None)
def corpus():
    """Returns the programs of the examples and the tests, one for each part of a file."""
    paths = sorted(glob.glob(os.path.join(ROOT, "examples", "*.mlir")) +
                   glob.glob(os.path.join(ROOT, "test", "**", "*.mlir"), recursive=True))
    parts = []
    for path in paths:
        with open(path) as file:
            text = re.sub(r"^ *//(?! -----).*\n", "", file.read(), flags=re.MULTILINE)
        parts += [part.strip() + "\n" for part in re.split(r"// -----.*\n|//--- .*\n", text) if part.strip()]
    return parts


@functools.lru_cache(None)
def passes():
    """Returns flashc's own passes and pipelines of flashc-opt, each with its options."""
    text = subprocess.run([program("flashc-opt"), "--help"], capture_output=True, text=True, check=True).stdout
    found, own = {}, None
    for line in text[text.index("Passes:"):].splitlines():
        if match := re.match(r"      --([\w-]+) ", line):
            own = match[1] if re.match(r"flash-|tile-|convert-|expand-math", match[1]) else None
            if own:
                found[own] = []
        elif own and (match := re.match(r"        --([\w-]+)(=<\w+>)? ", line)):
            found[own].append((match[1], bool(match[2])))
        elif not line.startswith("  "):
            own = None
    return found


def program(name):
    folder = os.environ.get("FLASHC_BIN", os.path.join(ROOT, "build", "bin"))
    return os.path.join(folder, name)


# --- Options ----------------------------------------------------------------------------------------------------------

def extents(rng, names, values):
    return ",".join(f"{name}={rng.choice(values)}" for name in rng.sample(names, rng.randint(1, len(names))))


DIMS = ("1", "2", "63", "64", "100", "1000", "4096", "100000", "0", "-1", "2147483648", "9223372036854775807")


def flashc_options(rng):
    options = []
    if rng.random() < 0.5:
        options.append("--emit=" + rng.choice(["flash", "loops", "tile", "nvvm", "llvm", "ptx"]))
    else:
        options.append(rng.choice(["--explain", "--explain", "--print-cost", "--print-decisions"]))
    if rng.random() < 0.6:
        values = DIMS if rng.random() < 0.5 else DIMS[:6]
        options.append("--dims=" + extents(rng, ["B", "Hq", "Hk", "Nq", "Nk"], values))
    if rng.random() < 0.15:
        options.append("--algorithm=" + rng.choice(["standard", "fa1", "fa2", ""]))
    if rng.random() < 0.2:
        options.append(f"--{rng.choice(['q', 'kv'])}-tile=" + rng.choice(["16", "64", "1", *INTEGERS]))
    if rng.random() < 0.2:
        fields = ["consumers", "kv-tile", "stages", "q-stages", "ping-pong", "own-keys", "store",
                  "persistent", "turns", "epilogue"]
        options.append("--schedule=" + extents(rng, fields, ["0", "1", "2", "3", "4", "64", "128", "true", "false"]))
    if rng.random() < 0.1:
        options.append("--shape=" + extents(rng, ["q", "k", "v", "arg3"], ["1x2x63x128", "1x1", "", "0x0x0x0", "?"]))
    if rng.random() < 0.15:
        own = [name for name in passes() if name.startswith("flash-")]
        options.append("--passes=" + ",".join(rng.choice(own) for _ in range(rng.randint(1, 3))))
    return options


ORDER = ("flash-to-tensors", "flash-fuse", "flash-tabulate-rows", "flash-differentiate-scores", "flash-online-softmax",
         "flash-split-gradients", "flash-tile", "flash-recompute-delta", "flash-swap-loops", "flash-align-queries",
         "flash-bound-loops", "flash-parallelize", "convert-flash-to-tile", "tile-order", "tile-pipeline",
         "tile-persist", "tile-ping-pong", "tile-specialize", "tile-place-waits", "tile-split-loops",
         "tile-overlap-epilogue", "tile-programmatic-launch", "expand-math", "convert-tile-to-nvvm",
         "convert-kernel-to-llvm")


def pass_options(rng):
    """Draws a pass, several passes, or the first passes of the pipeline, with options."""
    kind, known = rng.random(), list(passes())
    if kind < 0.5:
        names = [rng.choice(known)]
    elif kind < 0.8:
        names = [name for name in ORDER if rng.random() < 0.9][:rng.randint(1, len(ORDER))]
    else:
        names = [rng.choice(known + ["canonicalize", "cse"]) for _ in range(rng.randint(2, 5))]
    options = []
    for name in names:
        given = [f"{option}={rng.choice(INTEGERS)}" if takes_value else option
                 for option, takes_value in passes().get(name, []) if rng.random() < 0.3]
        options.append(f"--{name}" + (f"={' '.join(given)}" if given else ""))
    return options


# --- Cases ------------------------------------------------------------------------------------------------------------

def generate(rng):
    text = rng.choice(corpus())
    # Most tests of a dialect's ops have no attention, so flashc would only refuse them.
    is_flashc = rng.random() < (0.6 if "flash.attention" in text else 0.1)
    return {"kind": "programs", "text": mutate(rng, text) if rng.random() < 0.9 else text,
            "program": "flashc" if is_flashc else "flashc-opt",
            "options": flashc_options(rng) if is_flashc else pass_options(rng)}


def _limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28))


def run(command, text):
    """Runs a program on a text, within the limits. Returns its status and its standard error."""
    environment = {**os.environ, "LLVM_DISABLE_SYMBOLIZATION": "1"}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "input.mlir")
        with open(path, "w") as file:
            file.write(text)
        try:
            done = subprocess.run([*command, path, "-o", os.path.join(folder, "output")], cwd=folder, env=environment,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  preexec_fn=_limit, timeout=WALL_SECONDS)
        except subprocess.TimeoutExpired:
            return -signal.SIGXCPU, ""
    return done.returncode, done.stderr.decode(errors="replace")


def judge(status, message):
    """Returns the fault of a program's status and output, or None."""
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"hang: more than {CPU_SECONDS} s"
    if status in (126, 127):
        raise OSError(f"cannot run it: {message}")
    if status < 0 or status >= 128:
        number = -status if status < 0 else status - 128
        said = re.search(r"(?:LLVM ERROR|terminate called|what\(\)|UNREACHABLE)[^\n]*", message)
        return f"crash: signal {number}" + (f" ({said[0]})" if said else "")
    if status and not message.strip():
        return f"silent: status {status} without a diagnostic"
    return None


def check(case):
    fault = judge(*run([program(case["program"]), *case["options"]], case["text"]))
    if fault:
        raise Fault(fault)


def is_upstream(case):
    """Returns whether MLIR's own mlir-opt crashes on the text too. Then the fault is not flashc's."""
    if not os.access(UPSTREAM, os.X_OK):
        return False
    return any(judge(*run([UPSTREAM, *options], case["text"])) for options in ([], ["--allow-unregistered-dialect"]))


def reduce(case, fails, deadline):
    """Makes the case smaller, by leaving out options, lines and tokens."""
    options = reduce_list(case["options"], lambda options: fails({**case, "options": options}), deadline)
    case = {**case, "options": options}
    for split, join in ((lambda text: text.split("\n"), "\n".join), (words, "".join)):
        parts = reduce_list(split(case["text"]), lambda parts: fails({**case, "text": join(parts)}), deadline)
        case = {**case, "text": join(parts)}
    return case


def show(case):
    words = [f"'{option}'" if " " in option else option for option in case["options"]]
    return f"build/bin/{case['program']} {' '.join(words)} input.mlir    # input.mlir:\n{case['text']}"
