"""A process that checks cases: it reads lines of JSON and answers with lines of JSON. A crash ends only this
process."""

import importlib
import json
import os
import random
import resource
import sys

#: The module of each kind of case.
KINDS = {"programs": "programs", "numbers": "numbers_on_cpu", "tiles": "tile_maps"}
MEMORY = 16 << 30
#: The process drops its kernels after this number of cases.
KEEP = 100


def generate(seed, kind, number):
    """Returns the case of a seed, a kind and a number. It is the same on every machine."""
    return importlib.import_module(KINDS[kind]).generate(random.Random(f"{seed}/{kind}/{number}"))


def check(case):
    """Returns the fault of a case, or None."""
    from evaluate import OutOfRange
    module = importlib.import_module(KINDS[case["kind"]])
    try:
        module.check(case)
    except OutOfRange:
        return None
    except module.Fault as fault:
        return str(fault)
    return None


def serve():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not look like an answer
    for number, line in enumerate(sys.stdin):
        request = json.loads(line)
        if "flashc" in sys.modules and number % KEEP == 0:
            sys.modules["flashc"].configure(disk_cache=False)
        case = request.get("case") or generate(request["seed"], request["kind"], request["number"])
        print(json.dumps({"case": case, "fault": check(case)}), file=answers, flush=True)


if __name__ == "__main__":
    serve()
