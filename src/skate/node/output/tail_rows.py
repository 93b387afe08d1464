"""The next lines of several streams of workers at once, for readers that follow many of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

from skate.wire.output import NO_TASK

#: The most characters of one answer; what is left out comes with the next one.
ANSWER_CHARACTERS = 1 << 18


class Tail(Protocol):
    """The kept lines of a stream, the attempts that printed them, and how many lines the stream has had."""

    @property
    def lines(self) -> deque[str]: ...
    @property
    def tasks(self) -> deque[str]: ...
    @property
    def end(self) -> int: ...


def rows(tails: Mapping[tuple[int, str], Tail], cursor: str) -> tuple[dict[str, Any], ...]:
    """Return a row for each stream of a cursor that has lines from its number on.

    Args:
        tails: The kept lines by pid and "out" or "err".
        cursor: The number of the next line of each stream: "PID.out=12,PID.err=7".

    A row has the pid, the stream, the number of its first line as `start`, the `lines`, the attempts of tasks that have printed
    them as `tasks` (empty texts for none), and how many wanted lines are no longer kept as `lost`.
    """
    found = []
    left = ANSWER_CHARACTERS
    for pid, stream, start in _wanted(cursor):
        tail = tails.get((pid, stream))
        if tail is None or left <= 0:
            continue
        first = tail.end - len(tail.lines)
        begin = max(start, first)
        lines, tasks = [], []
        for number, (line, task) in enumerate(zip(tail.lines, tail.tasks, strict=True), first):
            if number >= begin and left > 0:
                lines.append(line)
                tasks.append("" if task == NO_TASK else task)
                left -= len(line) + 1
        if lines:
            lost = max(0, first - start)
            found.append(
                {"pid": pid, "stream": stream, "start": begin, "lines": lines, "tasks": tasks, "lost": lost}
            )
    return tuple(found)


def _wanted(cursor: str) -> list[tuple[int, str, int]]:
    found = []
    for part in cursor.split(","):
        name, _, start = part.partition("=")
        pid, _, stream = name.partition(".")
        if pid.isdecimal() and start.isdecimal():
            found.append((int(pid), stream, int(start)))
    return found
