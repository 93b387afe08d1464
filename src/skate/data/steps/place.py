"""Where in a run a block is: the number of the piece of work, and the rows of it that have passed.

Columns of numbers, random values and the like are made from it, so that a piece of work that is done again gives the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any


class Place:
    """A point in a run."""

    __slots__ = ("number", "rows")

    def __init__(self, number: int = 0, rows: int = 0) -> None:
        self.number = number
        self.rows = rows


#: Rows are left to workers if they would take so many seconds more where they are.
_WORTH_SECONDS = 0.3


class Watch:
    """State of work in the driver, so that a slow function is moved to workers.

    Attributes: deadline (on the clock of `time.perf_counter`; earlier nothing counts as slow), left (steps with
    the blocks that each has not processed, the first steps first).
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
        """A step ends before it has worked on these."""
        self.left.append((step, blocks))


_here = threading.local()


def begin(number: int, watch: Watch | None = None) -> None:
    """Begin or resume a piece of work in this thread."""
    _here.number = number
    _here.watch = watch


def here() -> Place:
    """The place at which a step of the work in this thread begins."""
    return Place(getattr(_here, "number", 0))


def watched() -> Watch | None:
    """The state that watches the work in this thread; None in workers, where nothing need be moved."""
    found: Watch | None = getattr(_here, "watch", None)
    return found
