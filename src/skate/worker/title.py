"""What `ps` and `top` show of a worker: "ray::" and the task that it runs, or the actor that lives there.

The kernel reads the command line from the memory that the arguments of the process lie in. It is written through /proc/self/mem:
2 us each time the text changes, and nothing to import. There is as much room as the command line of the zygote had.
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
        """Show a name from now on."""
        if name == self.shown or self._fd < 0:
            return
        self.shown = name
        text = (PREFIX + name).encode("utf-8", "replace")[: self._size - 1]
        try:
            os.pwrite(self._fd, text.ljust(self._size, b"\0"), self._start)
        except OSError:
            os.close(self._fd)
            self._fd = -1
