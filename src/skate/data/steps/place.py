"""The position of a block in a run: the number of the piece of work, and the rows of it that have passed.

Row numbers, random values and the like are derived from it, so that a repeated piece of work gives the same result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any


class Place:
    """A position in a run."""

    __slots__ = ("number", "rows")

    def __init__(self, number: int = 0, rows: int = 0) -> None:
        self.number = number
        self.rows = rows


#: Rows are left to workers if they would take this many seconds more in the driver.
_WORTH_SECONDS = 0.3


class Watch:
    """State of work in the driver, used to move a slow function to workers.

    Attributes: deadline (by `time.perf_counter`; nothing counts as slow before it), left (steps with their
    unprocessed blocks, the first steps first).
    """

    __slots__ = ("deadline", "left")

    def __init__(self) -> None:
        self.deadline = 0.0
        self.left: list[tuple[Any, Iterable[Any]]] = []

    def is_slow(self, started: float, done: int, rows: int) -> bool:
        """True if the rest of some rows, of which `done` were processed since `started`, is worth moving to workers."""
        now = time.perf_counter()
        return now >= self.deadline and (now - started) / done * (rows - done) > _WORTH_SECONDS

    def leave(self, step: Any, blocks: Iterable[Any]) -> None:
        """Record that a step ends without having processed these blocks."""
        self.left.append((step, blocks))


_here = threading.local()


def begin(number: int, watch: Watch | None = None) -> None:
    """Begin or resume a piece of work in this thread."""
    _here.number = number
    _here.watch = watch


def here() -> Place:
    """Return the position at which a step of the work in this thread begins."""
    return Place(getattr(_here, "number", 0))


def watched() -> Watch | None:
    """Return the state of the work in this thread; None in workers, where nothing has to be moved."""
    found: Watch | None = getattr(_here, "watch", None)
    return found
