"""limit_file_size.py BYTES PROGRAM ARGUMENTS...: runs the program with a limit of BYTES on each file that it writes, as
if the disk were full. Its standard output is a pipe, to which the limit does not apply."""

import resource
import signal
import subprocess
import sys


def limit():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that the write fails and the process goes on
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))


result = subprocess.run(sys.argv[2:], preexec_fn=limit, stdout=subprocess.PIPE, check=True)
sys.stdout.buffer.write(result.stdout)
