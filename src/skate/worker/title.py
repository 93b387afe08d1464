"""The process title of a worker in `ps` and `top`: "ray::" and the running task, or the actor.

The kernel reads the command line from the memory of the process's arguments. It is written through /proc/self/mem:
2 us each time the text changes, and nothing to import. Its length is limited to that of the original command line.
"""

from __future__ import annotations

import os

PREFIX = "ray::"


class Title:
    """The command line of this process."""

    def __init__(self) -> None:
        self.shown = ""
        #: What stands there while nothing runs.
        self.idle = "IDLE"
        self._fd = -1
        try:
            with open("/proc/self/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            self._start = int(fields[45])
            self._size = int(fields[46]) - self._start
            if self._size > len(PREFIX):
                self._fd = os.open("/proc/self/mem", os.O_WRONLY | os.O_CLOEXEC)
        except (OSError, ValueError, IndexError):
            # Not Linux, or a sandbox that keeps it shut: the process shows what it was started as.
            return

    def show(self, name: str) -> None:
        """Show a name."""
        if name == self.shown or self._fd < 0:
            return
        self.shown = name
        text = (PREFIX + name).encode("utf-8", "replace")[: self._size - 1]
        try:
            os.pwrite(self._fd, text.ljust(self._size, b"\0"), self._start)
        except OSError:
            os.close(self._fd)
            self._fd = -1
