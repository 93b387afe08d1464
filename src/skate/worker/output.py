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
        # A forked child keeps the worker's pid.
        self._pid = os.getpid()

    def write(self, text: str) -> int:
        name = current_name[0]
        if name != self._named:
            self._named = name
            super().write(f"{_MARK}{self._pid} {name}\n")
        unfinished[0] = text[-1:] != "\n"
        return super().write(text)

    def rename(self, name: str) -> None:
        """Change the prefix of this process's output lines, for libraries whose actors learn their name later."""
        current_name[0] = name


def take_over() -> None:
    """Replace sys.stdin, sys.stdout and sys.stderr. Call it once, in a fresh worker."""
    sys.stdin = open(os.devnull)  # noqa: SIM115  it is the worker's for life
    sys.stdout = NamedOutput(1)
    sys.stderr = NamedOutput(2)


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
