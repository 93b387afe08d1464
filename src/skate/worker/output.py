"""stdout and stderr of a worker: lines are sent as they are written, marked with the task or actor that wrote them."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from skate.wire.output import MARK

current_name = ["worker"]
#: True while the last printed line is incomplete, so that it waits in the stream's buffer.
unfinished = [False]
_MARK = MARK.decode()
_prepared: list[NamedOutput] = []


class NamedOutput(io.TextIOWrapper):
    """Writes a mark whenever the name changes; the node's reader removes the marks."""

    def __init__(self, fd: int) -> None:
        super().__init__(
            io.BufferedWriter(io.FileIO(fd, "w", closefd=False)),
            encoding="utf-8",
            errors="backslashreplace",
            line_buffering=True,
        )
        self._named: str | None = None
        #: The worker's pid. A child that user code forks keeps it.
        self.pid = 0

    def write(self, text: str) -> int:
        name = current_name[0]
        if name != self._named:
            self._named = name
            super().write(f"{_MARK}{self.pid} {name}\n")
        unfinished[0] = text[-1:] != "\n"
        return super().write(text)

    def rename(self, name: str) -> None:
        """Change the prefix of this process's output lines, for libraries whose actors learn their name later."""
        current_name[0] = name


def prepare() -> None:
    """Create the streams of future workers. Call it once, in the zygote, so that no worker spends 0.2 ms on it.

    A stream asks its descriptor whether it can seek, so descriptors 1 and 2 are pipes meanwhile, as they are in a worker.
    """
    sys.stdin = open(os.devnull)  # noqa: SIM115  it is for life, here and in the workers
    read, write = os.pipe()
    for fd in (1, 2):
        own = os.dup(fd)
        os.dup2(write, fd)
        _prepared.append(NamedOutput(fd))
        os.dup2(own, fd)
        os.close(own)
    os.close(read)
    os.close(write)


def take_over() -> None:
    """Replace sys.stdout and sys.stderr with the prepared streams. Call it once, in a fresh worker."""
    sys.stdout, sys.stderr = _prepared
    for stream in _prepared:
        stream.pid = os.getpid()


def flush() -> None:
    """Write an incomplete line."""
    unfinished[0] = False
    stream: Any
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            # The node no longer reads, or user code closed the stream.
            continue
