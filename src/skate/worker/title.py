"""The process title of a worker in `ps` and `top`: "ray::" and the running task, or the actor.

The kernel reads the command line from the memory of the process's arguments. It is written through /proc/self/mem:
2 us each time the text changes, and nothing to import. Its length is limited to that of the original command line.
"""

from __future__ import annotations

import contextlib
import os

from skate import procfs

PREFIX = "ray::"
#: Where the command line lies, and how long it is; a fork does not move it, so the zygote looks once for its workers.
_place: list[tuple[int, int]] = []


def locate() -> tuple[int, int]:
    """Return where the command line of this process lies and its length; (0, 0) if the system does not say."""
    if not _place:
        fields = procfs.stat("self")
        try:
            start, end = int(fields[procfs.ARGUMENTS_START]), int(fields[procfs.ARGUMENTS_END])
        except IndexError:  # not Linux
            start = end = 0
        _place.append((start, end - start))
    return _place[0]


class Title:
    """The command line of this process."""

    def __init__(self) -> None:
        self.shown = ""
        #: What stands there while nothing runs.
        self.idle = "IDLE"
        self._start, self._size = locate()
        self._fd = -1
        if self._size > len(PREFIX):
            # A sandbox may keep it shut; then the process shows what it was started as.
            with contextlib.suppress(OSError):
                self._fd = os.open("/proc/self/mem", os.O_WRONLY | os.O_CLOEXEC)

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
