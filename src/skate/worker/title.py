"""The process title of a worker in `ps` and `top`: "ray::" and the running task, or the actor.

The kernel reads the command line from the memory of the process's arguments. Writing it through /proc/self/mem takes
2 us per change and needs no import. The title cannot be longer than the original command line.
"""

from __future__ import annotations

import contextlib
import os

from skate import procfs

PREFIX = "ray::"
#: Address and length of the command line. A fork does not move it, so the zygote looks it up once for its workers.
_place: list[tuple[int, int]] = []


def locate() -> tuple[int, int]:
    """Return the address and length of this process's command line, or (0, 0) if unknown."""
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
        #: The title while nothing runs.
        self.idle = "IDLE"
        self._start, self._size = locate()
        self._fd = -1

    def open(self) -> None:
        """Open the memory of this process; until then, nothing is shown."""
        if self._size > len(PREFIX):
            # A sandbox may forbid it; then the process keeps its original title.
            with contextlib.suppress(OSError):
                self._fd = os.open("/proc/self/mem", os.O_WRONLY | os.O_CLOEXEC)

    def show(self, name: str) -> None:
        """Show a name in the title."""
        if name == self.shown or self._fd < 0:
            return
        self.shown = name
        text = (PREFIX + name).encode("utf-8", "replace")[: self._size - 1]
        try:
            os.pwrite(self._fd, text.ljust(self._size, b"\0"), self._start)
        except OSError:
            os.close(self._fd)
            self._fd = -1
