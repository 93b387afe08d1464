"""Where in a run a block is: the number of the piece of work, and the rows of it that have passed.

Columns of numbers, random values and the like are made from it, so that a piece of work that is done again gives the same.
"""

from __future__ import annotations

import threading


class Place:
    """A point in a run."""

    __slots__ = ("number", "rows")

    def __init__(self, number: int = 0, rows: int = 0) -> None:
        self.number = number
        self.rows = rows


_here = threading.local()


def begin(number: int) -> None:
    """A piece of work begins in this thread."""
    _here.number = number


def here() -> Place:
    """The place at which a step of the work in this thread begins."""
    return Place(getattr(_here, "number", 0))
