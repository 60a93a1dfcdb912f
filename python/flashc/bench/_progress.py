"""A progress bar on standard error. It is written only if standard error is a terminal."""

import shutil
import sys
import time


def _clock(seconds):
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes}:{seconds:02}"


class Progress:
    def __init__(self, total, stream=None, clock=time.monotonic):
        self.total, self.done = total, 0
        self.stream = sys.stderr if stream is None else stream
        self.active = total > 0 and self.stream.isatty()
        self.clock, self.start = clock, clock()

    def text(self, label):
        filled = 24 * self.done // self.total
        elapsed = self.clock() - self.start
        left = f", {_clock(elapsed / self.done * (self.total - self.done))} left" if self.done else ""
        return f"[{'#' * filled}{'.' * (24 - filled)}] {self.done}/{self.total} {_clock(elapsed)}{left}  {label}"

    def show(self, label):
        if self.active:
            width = shutil.get_terminal_size().columns - 1
            self.stream.write("\r\x1b[K" + self.text(label)[:width])
            self.stream.flush()

    def clear(self):
        """Removes the bar. Is called before other output."""
        if self.active:
            self.stream.write("\r\x1b[K")
            self.stream.flush()

    def advance(self, count=1):
        self.done += count
