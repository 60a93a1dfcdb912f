#!/usr/bin/env python3
"""Looks for faults with random cases, for a given time.

A case has a kind and a number, which together with the seed determine it:
  programs  mutated .mlir through flashc and flashc-opt: no signal, no hang, no failure without a diagnostic
  numbers   random masks and scores on the CPU, through the Python package, against NumPy
  tiles     the tiles that flashc.explain counts, against the mask of every pair

A case that fails is reduced, printed, and written to a file for --file. The exit status is 1 if a case fails.
"""

import argparse
import collections
import importlib
import json
import os
import secrets
import sys
import threading
import time

from reduce import reduce_case
from server import KINDS, generate
from worker import ROOT, Broken, Worker, environment, key_of

#: The share of the time for each kind. A worker takes the kind that is farthest below its share.
SHARES = {"programs": 2, "numbers": 1, "tiles": 1}
#: How many faults with the same key are reduced and printed, and the seconds for each.
ALIKE, REDUCE_SECONDS = 2, 60


class Fuzzer:
    """The state that the workers of a run share."""

    def __init__(self, options):
        self.options, self.lock = options, threading.Lock()
        self.kinds = [kind for kind in KINDS if kind in options.kinds]
        self.numbers, self.spent, self.alike = (collections.Counter() for _ in range(3))
        self.findings = self.upstream = 0
        self.broken = None
        self.begin = time.monotonic()

    def next(self):
        with self.lock:
            kind = min(self.kinds, key=lambda kind: self.spent[kind] / SHARES[kind])
            self.numbers[kind] += 1
            self.spent[kind] += 1e-3  # makes other workers choose another kind meanwhile
            return kind, self.numbers[kind] - 1

    def work(self):
        with Worker() as worker:
            try:
                while time.monotonic() < self.begin + self.options.seconds and not self.broken:
                    self.check_next(worker)
            except Broken as broken:
                self.broken = broken

    def check_next(self, worker):
        kind, number = self.next()
        begin = time.monotonic()
        case, fault = worker.ask({"seed": self.options.seed, "kind": kind, "number": number})
        with self.lock:
            self.spent[kind] += time.monotonic() - begin
        if fault:
            self.investigate(worker, kind, number, case, fault)

    def investigate(self, worker, kind, number, case, fault):
        """Reduces and prints a case that fails, unless enough cases with the same key were printed before."""
        case = case or generate(self.options.seed, kind, number)
        module, key = importlib.import_module(KINDS[kind]), key_of(fault)
        if kind == "programs" and module.is_upstream(case):
            self.upstream += 1
            return
        with self.lock:
            self.findings += 1
            self.alike[kind, key] += 1
            if self.alike[kind, key] > ALIKE:
                return
        fails = lambda other: worker.has_fault(other, key)  # noqa: E731
        deadline = time.monotonic() + REDUCE_SECONDS
        if kind == "programs":
            reduced = module.reduce(case, fails, deadline)
            if module.is_upstream(reduced):
                with self.lock:
                    self.findings -= 1
                    self.upstream += 1
                return
        else:
            reduced = reduce_case(case, module.smaller, fails, deadline)
        fault = worker.ask({"case": reduced})[1] or fault
        with self.lock:
            self.report(module, kind, number, reduced, fault)

    def report(self, module, kind, number, case, fault):
        os.makedirs(self.options.output, exist_ok=True)
        path = os.path.join(self.options.output, f"{kind}-{self.options.seed}-{number}.json")
        with open(path, "w") as file:
            json.dump(case, file, indent=1)
        print(f"\n{kind}:{number}: {fault}\nreduced:\n    " + module.show(case).rstrip().replace("\n", "\n    ") +
              f"\nagain:\n    make fuzz SEED={self.options.seed} CASE={kind}:{number}\n"
              f"    {sys.executable} utils/fuzz/fuzz.py --file {path}\n", flush=True)

    def progress(self):
        counts = ", ".join(f"{self.numbers[kind]} {kind}" for kind in self.kinds)
        upstream = f", {self.upstream} of MLIR's own" if self.upstream else ""
        return f"{time.monotonic() - self.begin:.0f} s: {counts}; {self.findings} findings{upstream}"

    def run(self):
        threads = [threading.Thread(target=self.work, daemon=True) for _ in range(self.options.workers)]
        for thread in threads:
            thread.start()
        is_terminal, shown = sys.stdout.isatty(), time.monotonic()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.2)
            if time.monotonic() - shown >= (1 if is_terminal else 60):
                shown = time.monotonic()
                print(f"\r{self.progress()}" if is_terminal else self.progress(), end="" if is_terminal else "\n",
                      flush=True)
        print(("\r" if is_terminal else "") + self.progress())
        if self.broken:
            raise self.broken
        return self.findings


def check_one(options, case, kind, number):
    """Checks one case again, and reduces it unless it comes from a file."""
    fuzzer = Fuzzer(options)
    with Worker() as worker:
        if kind is None:
            fault = worker.ask({"case": case})[1]
            print(importlib.import_module(KINDS[case["kind"]]).show(case), fault or "no fault", sep="\n")
            return bool(fault)
        case, fault = worker.ask({"seed": options.seed, "kind": kind, "number": number})
        if fault:
            fuzzer.investigate(worker, kind, number, case, fault)
        print(f"{kind}:{number}: {'MLIR crashes on it too' if fuzzer.upstream else fault or 'no fault'}")
        return fuzzer.findings


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="for how long (default: 60)")
    parser.add_argument("--seed", default="", help="any word (default: a fresh one)")
    parser.add_argument("--workers", type=int, default=2, help="processes that check (default: 2)")
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS),
                        help="some of " + ",".join(KINDS))
    parser.add_argument("--case", default="", metavar="KIND:NUMBER", help="only this case of the seed")
    parser.add_argument("--file", help="only the case of this file")
    parser.add_argument("--output", default=os.path.join(ROOT, "build", "fuzz"),
                        help="where cases that fail are written")
    options = parser.parse_args()
    if not set(options.kinds) <= set(KINDS):
        parser.error(f"expected kinds among {', '.join(KINDS)}, got {', '.join(options.kinds)}")
    os.environ.update(environment())
    sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
    if options.file:
        with open(options.file) as file:
            return int(check_one(options, json.load(file), None, None))
    kind, _, number = options.case.partition(":")
    if options.case and (kind not in KINDS or not number.isdigit() or not options.seed):
        parser.error("expected --seed and a case such as numbers:12")
    options.seed = options.seed or secrets.token_hex(4)
    print(f"seed {options.seed}", flush=True)
    return int((check_one(options, None, kind, int(number)) if options.case else Fuzzer(options).run()) > 0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Broken as broken:
        sys.exit(f"fuzz.py: {broken}")
