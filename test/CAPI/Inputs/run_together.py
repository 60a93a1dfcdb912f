"""run_together.py N PROGRAM ARGUMENTS...: runs N processes of one program at once. From the second line on, all must
print the same. (The first line says where the kernel came from.)"""

import subprocess
import sys

processes = [subprocess.Popen(sys.argv[2:], stdout=subprocess.PIPE) for _ in range(int(sys.argv[1]))]
outputs = [process.communicate()[0].split(b"\n", 1)[1] for process in processes]
assert all(process.returncode == 0 for process in processes), [process.returncode for process in processes]
assert len(outputs[0]) > 10000 and all(output == outputs[0] for output in outputs), "the kernels differ"
