"""Files that come from outside: regular ones, of a size that such a file can have."""
import errno
import os
import stat

#: The most bytes of a schedule table or of a journal, as of a program: 64 MiB.
MOST_BYTES = 64 << 20


def read_regular(path: str) -> bytes:
    """The bytes of a file. OSError: it cannot be read, has more than MOST_BYTES, or is a pipe or a device, which might
    have no end or wait for a writer."""
    def open_at_once(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_NONBLOCK)  # else a pipe is not open before somebody writes to it

    with open(path, "rb", opener=open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.ENOTSUP, "expected a regular file, got a pipe or a device", path)
        contents = file.read(MOST_BYTES + 1)
    if len(contents) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"expected at most {MOST_BYTES} bytes", path)
    return contents
