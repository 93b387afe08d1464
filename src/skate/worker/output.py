"""stdout and stderr of a worker: lines are sent as they are written, marked with the task or actor that wrote them."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.wire.output import END_OF_MARK, MARK, NO_TASK, key_of

if TYPE_CHECKING:
    from skate.worker.worker_core import Running

current_name = ["worker"]
#: Returns the running task of the current thread or coroutine.
current_task: list[Callable[[], Running | None]] = [lambda: None]
#: True after something was printed, until `end_task`.
unfinished = [False]
_MARK, _END = MARK.decode(), END_OF_MARK.decode()
_prepared: list[NamedOutput] = []


class NamedOutput(io.TextIOWrapper):
    """Writes a mark whenever the name or the task changes; the node's reader removes the marks."""

    def __init__(self, fd: int) -> None:
        super().__init__(
            io.BufferedWriter(io.FileIO(fd, "w", closefd=False)),
            encoding="utf-8",
            errors="backslashreplace",
            line_buffering=True,
        )
        self._named: str | None = None
        #: The task that the last mark names, and its attempt.
        self._task_id = b""
        self._attempt = 0
        #: True while the last line is incomplete: a mark would break it.
        self._in_line = False
        #: The worker's pid. A child that user code forks keeps it.
        self.pid = 0

    def write(self, text: str) -> int:
        name = current_name[0]
        running = current_task[0]()
        task_id, attempt = (b"", 0) if running is None else (running.task_id, running.attempt)
        moved = task_id != self._task_id or attempt != self._attempt
        if text and (name != self._named or (moved and not self._in_line)):
            self._named, self._task_id, self._attempt = name, task_id, attempt
            super().write(f"{self._mark()}{text}")
        else:
            super().write(text)
        if text:
            self._in_line = text[-1] != "\n"
            unfinished[0] = True
        return len(text)

    def _mark(self) -> str:
        task = key_of(self._task_id, self._attempt) if self._task_id else NO_TASK
        return f"{_MARK}{self.pid} {task} {self._named}{_END}"

    def end_task(self) -> None:
        """Write a mark that the last task prints no more: what C code prints next is not from it. The mark ends its line."""
        if self._task_id:
            self._task_id, self._attempt, self._in_line = b"", 0, False
            super().write(self._mark())

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
    stream: Any
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            # The node no longer reads, or user code closed the stream.
            continue


def end_task() -> None:
    """Write an incomplete line, and the marks that a task has ended."""
    unfinished[0] = False
    for stream in _prepared:
        try:
            stream.end_task()
        except (OSError, ValueError):
            # As above.
            continue
    flush()
