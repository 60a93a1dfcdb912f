"""Checks cases in a server process. If a case ends the process, another one is started."""

import json
import os
import re
import select
import signal
import subprocess
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(FOLDER))
#: Seconds after which a case counts as hanging. Programs that a case starts have less time.
SECONDS = 300


def environment():
    """Returns the environment of a server: paths of the package, its library and the NumPy reference; one thread; no
    cache on disk."""
    paths = [os.path.join(ROOT, "python"), os.path.join(ROOT, "test", "python"), os.environ.get("PYTHONPATH")]
    library = os.path.join(ROOT, "build", "lib", "libflashc.so")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONDONTWRITEBYTECODE": "1",
            "FLASHC_LIBRARY": os.environ.get("FLASHC_LIBRARY", library), "OPENBLAS_NUM_THREADS": "1"}


def key_of(fault):
    """Returns the key that faults with the same cause share: the text up to the first comma, without numbers."""
    return fault and re.sub(r"\d+", "#", fault.split("\n")[0].split(",")[0])[:90]


class Broken(Exception):
    """A program or the library does not start, so no case can be checked."""


class Worker:
    """Checks cases in another process."""

    def __init__(self, seconds=SECONDS):
        self.process, self.seconds = None, seconds

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()

    def start(self):
        self.process = subprocess.Popen([sys.executable, os.path.join(FOLDER, "server.py")], env=environment(),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.communicate()
        self.process = None

    def ask(self, request):
        """Returns (case, fault) for a request, which is a case, or a seed, a kind and a number."""
        if self.process is None:
            self.start()
        try:
            print(json.dumps(request), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass  # the process has ended, as the missing answer shows
        ready, _, _ = select.select([self.process.stdout], [], [], self.seconds)
        line = self.process.stdout.readline() if ready else ""
        if line:
            answer = json.loads(line)
            return answer["case"], answer["fault"]
        if not ready:
            self.stop()
            return request.get("case"), f"hang: more than {self.seconds} s"
        status = self.process.wait()
        self.stop()
        if status >= 0:
            raise Broken(f"a server ended with status {status}; to see why: {sys.executable} "
                         f"{os.path.join(FOLDER, 'server.py')} <<< '{json.dumps(request)}'")
        return request.get("case"), f"crash: signal {-status} ({signal.Signals(-status).name})"

    def has_fault(self, case, key):
        """Returns whether a case fails with a fault that has this key."""
        return key_of(self.ask({"case": case})[1]) == key
