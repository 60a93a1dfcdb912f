#!/usr/bin/env python3
"""Reports on a compiled kernel: its resources, and the instructions of its main loops by class.

    sass_report.py kernel.ptx                  assemble for sm_90a, disassemble, count
    sass_report.py kernel.cubin                disassemble, count
    sass_report.py kernel.sass                 count; the output of nvdisasm -c or of cuobjdump -sass
    sass_report.py --dump kernel.ptx           print the loops too
    sass_report.py --opcodes kernel.ptx        count opcodes with their modifiers instead of classes

A .ptx file needs ptxas and a disassembler (nvdisasm or cuobjdump), a .cubin file only a disassembler. They are looked
for on PATH, and then below CUDA_HOME, CUDA_PATH or /usr/local/cuda, whichever is set first.

A main loop is an innermost loop with HGMMA and MUFU.EX2. Column `always` counts the instructions that every iteration
runs, and column `if` those behind a branch (the rescale of the output). Instructions outside the addresses of the loop
are left out: they retry barriers that were not ready.
"""

import argparse
import collections
import contextlib
import dataclasses
import os
import re
import shutil
import subprocess
import sys
import tempfile

# --- Reading SASS -----------------------------------------------------------------------------------------------------


class SassError(Exception):
    """The text is no SASS, or a tool is missing or failed."""


@dataclasses.dataclass
class Instruction:
    """An instruction `@predicate opcode operands`. `target` is the address to which it may branch."""
    address: int
    predicate: str
    opcode: str
    operands: str
    target: int | None = None

    @property
    def name(self):
        """The opcode without modifiers."""
        return self.opcode.split(".")[0]

    def ends_path(self):
        """Whether the next instruction is reached only by a branch."""
        conditional = self.predicate or (self.name == "BRA" and "," in self.operands)
        return self.name in ("BRA", "EXIT", "RET", "BRX", "JMP", "JMX") and not conditional

    def __str__(self):
        predicate = f"@{self.predicate}" if self.predicate else ""
        return f"{self.address:6x} {predicate:>5} {self.opcode} {self.operands}".rstrip()


FUNCTION = re.compile(r"^\s*\.section\s+\.text\.(\w+)|^\s*Function : (\w+)")
LABEL = re.compile(r"^(\.L\w+):")
INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
TARGET = re.compile(r"(?:`\((\.L\w+)\)|\b0x([0-9a-f]+))$")


def parse(text):
    """Returns the functions of a disassembly, {name: [Instruction]}, in order of address. Raises SassError if there are
    none."""
    functions, labels, code = {}, {}, None
    for line in text.splitlines():
        if match := FUNCTION.match(line):
            name = match[1] or match[2]
            code = functions.setdefault(name, [])
            labels[name] = {}
        elif code is None:
            continue
        elif match := LABEL.match(line):
            labels[name][match[1]] = len(code)
        elif match := INSTRUCTION.match(line):
            code.append(Instruction(int(match[1], 16), match[2] or "", match[3], match[4]))
    functions = {name: code for name, code in functions.items() if code}
    if not functions:
        raise SassError("expected the output of nvdisasm -c or cuobjdump -sass, got no instruction")
    for name, code in functions.items():
        addresses = {instruction.address for instruction in code}
        places = {label: code[index].address for label, index in labels[name].items() if index < len(code)}
        for instruction in code:
            if instruction.name in ("BRA", "JMP"):
                match = TARGET.search(instruction.operands)
                target = match and (places.get(match[1]) if match[1] else int(match[2], 16))
                if target not in addresses:
                    raise SassError(f"{name}: expected a branch to an instruction, got '{instruction}'")
                instruction.target = target
    return functions


# --- Loops ------------------------------------------------------------------------------------------------------------

@dataclasses.dataclass
class Loop:
    """`always` has the instructions of every iteration, `sometimes` those behind a branch, both in order of address."""
    always: list
    sometimes: list

    def instructions(self):
        return sorted(self.always + self.sometimes, key=lambda instruction: instruction.address)


def basic_blocks(code):
    """Returns blocks as lists of instructions, and for each the numbers of its successors."""
    starts = {code[0].address} | {i.target for i in code if i.target is not None}
    starts |= {after.address for i, after in zip(code, code[1:]) if i.target is not None or i.ends_path()}
    blocks, number = [], {}
    for instruction in code:
        if instruction.address in starts:
            number[instruction.address] = len(blocks)
            blocks.append([])
        blocks[-1].append(instruction)
    successors = []
    for index, block in enumerate(blocks):
        last, following = block[-1], []
        if last.target is not None:
            following.append(number[last.target])
        if not last.ends_path() and index + 1 < len(blocks):
            following.append(index + 1)
        successors.append(following)
    return blocks, successors


def dominators(successors):
    """Returns the set of dominators for each block; None for unreachable blocks."""
    result = [None] * len(successors)
    result[0], changed = {0}, True
    while changed:
        changed = False
        for block, following in enumerate(successors):
            if result[block] is None:
                continue
            for after in following:
                found = {after} | (result[block] if result[after] is None else result[block] & result[after])
                if after == 0:
                    found = {0}
                if found != result[after]:
                    result[after], changed = found, True
    return result


def natural_loops(successors):
    """Returns (header, latches, blocks) of every loop. A latch is a block that branches to the header, which dominates
    it."""
    above, predecessors, latches = dominators(successors), collections.defaultdict(set), collections.defaultdict(set)
    for block, following in enumerate(successors):
        for after in following:
            predecessors[after].add(block)
            if above[block] is not None and after in above[block]:
                latches[after].add(block)
    for header, ends in latches.items():
        body, pending = {header}, list(ends)
        while pending:
            block = pending.pop()
            if block not in body:
                body.add(block)
                pending += [p for p in predecessors[block] if above[p] is not None]
        yield header, ends, body


def main_loops(code):
    """Returns the innermost loops with HGMMA and MUFU.EX2, in order of address."""
    blocks, successors = basic_blocks(code)
    above, hot = dominators(successors), {}
    for header, latches, body in natural_loops(successors):
        opcodes = {instruction.opcode for block in body for instruction in blocks[block]}
        if "MUFU.EX2" in opcodes and any(opcode.startswith("HGMMA") for opcode in opcodes):
            hot[header] = (latches, body)
    loops = []
    for header, (latches, body) in sorted(hot.items()):
        if any(other != header and other in body for other in hot):
            continue
        near = [block for block in sorted(body) if header <= block <= max(latches)]
        each = [block for block in near if all(block in above[latch] for latch in latches)]
        loops.append(Loop([i for block in each for i in blocks[block]],
                          [i for block in near if block not in each for i in blocks[block]]))
    return loops


def reachable(code, start):
    """Returns the instructions that can run after the instruction `start`, and all instructions of its basic block."""
    blocks, successors = basic_blocks(code)
    pending, seen = [next(number for number, block in enumerate(blocks) if start in block)], set()
    while pending:
        block = pending.pop()
        if block not in seen:
            seen.add(block)
            pending += successors[block]
    return [instruction for block in sorted(seen) for instruction in blocks[block]]


def highest_register(instruction):
    """Returns the number of the highest register, counting the whole accumulator of a product; -1 if there is none."""
    registers = [int(register) for register in re.findall(r"\bR(\d+)\b", instruction.operands)]
    shape = re.match(r"HGMMA\.64x(\d+)x", instruction.opcode)
    if shape and registers:
        registers.append(registers[0] + int(shape[1]) // 2 - 1)
    return max(registers, default=-1)


# --- Classes ----------------------------------------------------------------------------------------------------------

# An instruction belongs to the first class whose pattern matches the whole opcode with its modifiers.
CLASSES = [(name, re.compile(pattern)) for name, pattern in (
    ("HGMMA", r"HGMMA\..*"),
    ("MUFU.EX2", r"MUFU\.EX2.*"),
    ("MUFU other", r"MUFU.*"),
    ("FFMA", r"FFMA.*"),
    ("FMUL", r"FMUL.*"),
    ("FADD", r"FADD.*"),
    ("max, min", r"(FMNMX|VIMNMX|VIADDMNMX).*"),
    ("pack (F2FP)", r"F2FP.*"),
    ("convert", r"(F2F|F2I|I2F|I2FP|I2I|FRND)\b.*"),
    ("select", r"(FSEL|SEL|FSET)\b.*"),
    ("compare", r"(ISETP|FSETP|PLOP3|PSETP)\b.*"),
    ("SHFL", r"SHFL.*"),
    ("VOTE, REDUX", r"(VOTE|VOTEU|REDUX|MATCH)\b.*"),
    ("R2UR", r"R2UR.*"),
    ("uniform", r"(U[A-Z0-9]+|S2UR)\b.*"),
    ("move", r"(MOV|IMAD\.MOV|CS2R|P2R|R2P|PRMT)\b.*"),
    ("integer", r"(IMAD|IADD3|IABS|VIADD|LOP3|SHF|LEA|IDP|SGXT|BMSK|FLO|POPC)\b.*"),
    ("mbarrier", r"SYNCS.*"),
    ("named barrier", r"BAR\b.*"),
    ("WARPGROUP", r"(WARPGROUP|WARPSYNC)\b.*"),
    ("local memory", r"(LDL|STL)\b.*"),
    ("other memory", r"(LD|ST|ATOM|RED|LDS|STS|LDSM|STSM|LDG|STG|LDC|ATOMS|ATOMG|CCTL|FENCE|MEMBAR)\b.*"),
    ("branch", r"(BRA|BSSY|BSYNC|BREAK|CALL|RET|EXIT|YIELD|NANOSLEEP|JMP|BRX)\b.*"),
    ("NOP", r"NOP"))]


def class_of(instruction):
    """Returns the class of an instruction, or `other`."""
    return next((name for name, pattern in CLASSES if pattern.fullmatch(instruction.opcode)), "other")


def count(instructions, key=class_of):
    """Returns the number of instructions of each class."""
    return collections.Counter(map(key, instructions))


NEGATIVE_INFINITY = re.compile(r"-INF\b")
LIMITS = 2  # for each of a thread's two rows, the running maximum has one select of -inf


def is_masked(loop):
    """Whether the loop applies a mask, which replaces scores by -inf."""
    selects = [instruction for instruction in loop.instructions()
               if instruction.name in ("FSEL", "SEL") and NEGATIVE_INFINITY.search(instruction.operands)]
    return len(selects) > LIMITS


# --- Tools ------------------------------------------------------------------------------------------------------------

def find_tool(*names):
    """Returns the first of the programs that is on PATH or below CUDA_HOME, CUDA_PATH or /usr/local/cuda; None if there
    is none."""
    root = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), os.path.join(root, "bin")])
    return next(filter(None, (shutil.which(name, path=path) for name in names)), None)


def run_tool(program, *arguments):
    """Runs a program. Returns its standard output and standard error. Raises SassError with both if the program
    fails."""
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SassError(f"{os.path.basename(program)} failed: {(done.stdout + done.stderr).strip()}")
    return done.stdout, done.stderr


def disassemble(cubin):
    """Returns the SASS of a cubin, as text."""
    program = find_tool("nvdisasm", "cuobjdump")
    if not program:
        raise SassError("expected nvdisasm or cuobjdump on PATH or below CUDA_HOME, got none")
    return run_tool(program, "-c" if program.endswith("nvdisasm") else "-sass", cubin)[0]


def assemble(ptx, cubin):
    """Writes the cubin of a .ptx file. Returns the output of `ptxas -v`."""
    program = find_tool("ptxas")
    if not program:
        raise SassError("expected ptxas on PATH or below CUDA_HOME, got none")
    return "".join(run_tool(program, "-arch=sm_90a", "-v", ptx, "-o", cubin))


@dataclasses.dataclass
class Resources:
    """What ptxas reports about an entry. `advice` has its remarks C7500 to C7599, about wgmma and setmaxnreg."""
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    barriers: int
    shared: int
    advice: list


def read_resources(report):
    """Returns {entry: Resources} from the output of `ptxas -v`."""
    result, advice = {}, re.findall(r"^.*\bC75\d\d\b.*$", report, re.MULTILINE)
    for part in re.split(r"Compiling entry function ", report)[1:]:
        name = re.match(r"'(\w+)'", part)[1]
        frame = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
        used = re.search(r"Used (\d+) registers(?:, used (\d+) barriers)?(?:.*?(\d+) bytes smem)?", part)
        if not frame or not used:
            raise SassError(f"{name}: expected stack, spills and registers from ptxas -v, got: {part.strip()}")
        result[name] = Resources(int(used[1]), *map(int, frame.groups()), int(used[2] or 0), int(used[3] or 0),
                                 [line.strip() for line in advice])
    return result


@contextlib.contextmanager
def text_file(ptx):
    """Makes a temporary .ptx file with this text, for a `with` statement."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.ptx")
        with open(path, "w", encoding="utf-8") as file:
            file.write(ptx)
        yield path


def read_kernels(path):
    """Returns ({function: [Instruction]}, {entry: Resources}) for a .ptx, .cubin or .sass file. Only a .ptx file has
    resources."""
    if path.endswith(".ptx"):
        with tempfile.TemporaryDirectory() as folder:
            cubin = os.path.join(folder, "kernel.cubin")
            report = assemble(path, cubin)
            return parse(disassemble(cubin)), read_resources(report)
    if path.endswith(".cubin"):
        return parse(disassemble(path)), {}
    with open(path, encoding="utf-8", errors="replace") as file:
        return parse(file.read()), {}


# --- The report -------------------------------------------------------------------------------------------------------

def print_loop(title, loop, key):
    """Prints a table with a line for each class, and the total."""
    always, sometimes = count(loop.always, key), count(loop.sometimes, key)
    print(f"{title}\n    {'':24} always    if")
    sums = {"total": (len(loop.always), len(loop.sometimes))}
    order = [name for name, _ in CLASSES] + ["other"]
    names = sorted(always | sometimes, key=lambda name: order.index(name) if name in order else -always[name])
    for name, (often, rarely) in ({name: (always[name], sometimes[name]) for name in names} | sums).items():
        print(f"    {name:24} {often:6} {rarely or '':>5}".rstrip())


def report(path, dump, key):
    """Prints the report of a file. Returns the number of its main loops."""
    functions, resources = read_kernels(path)
    total = 0
    for name, code in functions.items():
        print(f"{os.path.basename(path)}: {name}: {len(code)} instructions")
        if name in resources:
            used = resources[name]
            print(f"  {used.registers} registers at entry, {used.barriers} barriers, {used.stack} bytes stack, "
                  f"{used.spill_stores}+{used.spill_loads} bytes spilled")
            print("".join(f"  {line}\n" for line in used.advice), end="")
        for loop in main_loops(code):
            total += 1
            first, last = loop.instructions()[0].address, loop.instructions()[-1].address
            shapes = collections.Counter(i.opcode for i in loop.always if i.name == "HGMMA")
            print_loop(f"  loop {first:#x}..{last:#x}, {'masked' if is_masked(loop) else 'unmasked'}: "
                       + ", ".join(f"{number} {shape}" for shape, number in shapes.items()), loop, key)
            if dump:
                often = {instruction.address for instruction in loop.always}
                for instruction in loop.instructions():
                    print(f"    {' ' if instruction.address in often else '?'}{instruction}")
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help=".ptx, .cubin, or text of a disassembler")
    parser.add_argument("--dump", action="store_true", help="print the loops' instructions; ? is after a branch")
    parser.add_argument("--opcodes", action="store_true", help="count opcodes with their modifiers")
    options = parser.parse_args()
    key = (lambda instruction: instruction.opcode) if options.opcodes else class_of
    status = 0
    for path in options.files:
        try:
            if not report(path, options.dump, key):
                raise SassError("expected a loop with HGMMA and MUFU.EX2, got none")
        except (OSError, SassError) as error:
            print(f"sass_report.py: {path}: {error}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
