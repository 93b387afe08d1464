"""A bound on the rows that a join passes to a step that holds them: a join may make many more rows than it reads."""

from __future__ import annotations

import enum
import threading
from typing import Any


class Place(enum.Enum):
    """The steps after a step of a stage, and what becomes of its rows there."""

    #: They leave the stage one after the other.
    LAST = 1
    #: The same, after those of other inputs.
    BESIDE = 2
    #: A sort or a group holds them before the stage yields its first row, so that the stage can still be given up.
    GATED = 3
    #: They are held, and rows may have left the stage already.
    HELD = 4

    def before_hold(self) -> Place:
        """Return the place before a sort or a group."""
        return Place.GATED if self in (Place.LAST, Place.GATED) else Place.HELD

    def before_join(self) -> Place:
        """Return the place before a join, which holds one of its inputs."""
        return Place.GATED if self is Place.GATED else Place.HELD

    def before_union(self) -> Place:
        """Return the place before a union."""
        return Place.BESIDE if self is Place.LAST else self


class TooManyRows(Exception):
    """A join makes more rows than fit into memory. The ordinary way spills them."""


class RowBudget:
    """Counts the bytes of the rows that the joins of a stage make."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._bytes = 0
        self._lock = threading.Lock()

    def over(self, lazy: Any) -> Any:
        """Return a frame with the same rows that raises TooManyRows at the first one beyond the budget."""
        return lazy.map_batches(self._counted, streamable=True, validate_output_schema=False)

    def _counted(self, rows: Any) -> Any:
        size = rows.estimated_size()
        with self._lock:  # Polars calls from several threads
            self._bytes += size
            if self._bytes > self.most:
                raise TooManyRows(f"the joins make more than {self.most} bytes")
        return rows
