#!/usr/bin/env python3
r"""Writes the programs of a test: each program of a file, followed by variations of it.

A test of diagnostics contains a valid program once, and names for each diagnostic the change that causes it:

    // RUN: %vary %s | flashc-opt --some-pass --split-input-file --verify-diagnostics
    func.func @loop(...) {
      %r = scf.for %i = %c0 to %c64 step %c32 ...
    }
    // VARY small_step: the tiles of two iterations overlap.
    //   %c64 step %c32 => %c64 step %c16 | error: cannot swap loops: expected ...
    // VARY store: a store would run in another order.
    //   %r = | error: cannot swap loops: expected ...
    //   %r = =>
    //     memref.store %x, %m[%c0] : memref<1xf32> | note: see 'memref.store'
    //     %r =

A change is `old => new`. The text `old` occurs once in the program. `new` may continue on lines with deeper
indentation. `| error: message` (or note, remark, warning, error-re) expects a diagnostic on the line before the bar. A
change without an arrow only names a line that has diagnostics. If a variation begins with lines of the deeper
indentation, these lines replace the line of the program that ends with `// BODY`. A function @NAME gets the name of its
variation, for CHECK-LABEL.

Programs are separated by `// -----`, as for --split-input-file. The unchanged program is written too, so that the test
sees that it is accepted. If a part of a program is between two lines `// EACH`, the variations of that part follow one
another in one program.
"""

import re
import sys

DIAGNOSTIC = r" \| (?=(?:error|note|remark|warning)(?:-re)?: )"


def read_variations(lines):
    """Yields the name and the changes of every variation that comment lines describe."""
    name, changes = None, []
    for line in lines:
        if start := re.match(r"// VARY (\w+)", line):
            if name:
                yield name, changes
            name, changes = start[1], []
        elif name and (diagnostic := re.match(r"//     +(\| .*)", line)):
            changes[-1] += " " + diagnostic[1]
        elif name and line.startswith("//     "):
            if not changes:
                changes.append("// BODY =>")
            changes[-1] += "\n" + line.removeprefix("//     ")
        elif name and line.startswith("//   "):
            changes.append(line.removeprefix("//   "))
    if name:
        yield name, changes


def vary(program, name, changes):
    """Returns `program` with `changes` and with comments that expect their diagnostics."""
    expected = []

    def mark(line):
        """Returns `line` without its diagnostics, ending with a mark if there are any."""
        text, *diagnostics = re.split(DIAGNOSTIC, line)
        expected.append([diagnostic.split(": ", 1) for diagnostic in diagnostics])
        return text + f"\0{len(expected) - 1}\0" if diagnostics else text

    for change in changes:
        old, arrow, new = re.fullmatch(r"(.*?)(?:( =>)[ \n]?(.*))?", change, re.DOTALL).groups("")
        marked = "\n".join(map(mark, (new if arrow else old).split("\n")))
        old = re.split(DIAGNOSTIC, old)[0]
        if old == "// BODY":
            old = re.search(r".*// BODY$", program, re.MULTILINE)[0].lstrip()
        if program.count(old) != 1:
            sys.exit(f"{name}: expected '{old}' to occur once, got {program.count(old)} times")
        program = program.replace(old, marked)
    lines = []
    for line in program.splitlines():
        for index in re.findall(r"\0(\d+)\0", line):
            lines += [f"// expected-{kind} @below {{{{{message}}}}}" for kind, message in expected[int(index)]]
        lines.append(re.sub(r"\0\d+\0", "", line))
    return "\n".join(lines)


def main(path):
    with open(path) as file:
        programs = file.read().split("\n// -----\n")
    written = []
    for text in programs:
        start = text.find("// VARY ")
        program, comments = (text, "") if start < 0 else (text[:start], text[start:])
        program = re.sub(r"\A((// (?!expected-).*)?\n)+|(\n(//(?! EACH).*)?)+\Z", "", program)
        before, part, after = re.fullmatch(r"(?s)(?:(.*)// EACH\n(.*)// EACH\n?)?(.*)", program).groups("")
        variations = [vary((part or program).replace("@NAME", "@" + name), name, changes)
                      for name, changes in read_variations(comments.splitlines())]
        written += [before + "\n".join(variations) + after] if part else [program, *variations]
    print("\n\n// -----\n\n".join(written))


if __name__ == "__main__":
    main(sys.argv[1])
