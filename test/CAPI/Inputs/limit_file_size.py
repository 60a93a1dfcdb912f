"""limit_file_size.py BYTES PROGRAM ARGUMENTS...: runs the program so that no file it writes grows beyond BYTES, as on a
disk that is full. Its standard output is a pipe, which has no such limit."""

import resource
import signal
import subprocess
import sys


def limit():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails instead of the process
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))


result = subprocess.run(sys.argv[2:], preexec_fn=limit, stdout=subprocess.PIPE, check=True)
sys.stdout.buffer.write(result.stdout)
