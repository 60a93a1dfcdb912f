"""Reads files that a user names."""
import errno
import os
import stat

#: The largest size of a schedule table or of a journal: 64 MiB, as for programs.
MOST_BYTES = 64 << 20


def read_regular(path: str) -> bytes:
    """Returns the bytes of a file. Raises OSError if it cannot be read, has more than MOST_BYTES, or is a pipe or a
    device, which might have no end or wait for a writer."""
    def open_at_once(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_NONBLOCK)  # without this flag, opening a pipe waits for a writer

    with open(path, "rb", opener=open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.ENOTSUP, "expected a regular file, got a pipe or a device", path)
        contents = file.read(MOST_BYTES + 1)
    if len(contents) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"expected at most {MOST_BYTES} bytes", path)
    return contents
