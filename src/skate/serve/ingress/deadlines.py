"""Connections that something is awaited from, in the order in which their time is up. No clock of its own."""

from __future__ import annotations

from typing import Any


class Deadlines:
    """The deadlines of connections that wait for one kind of event, with one limit for all; None for no limit. All
    operations are O(1).
    """

    __slots__ = ("_due", "seconds")

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        #: Oldest first: connection to its time, and what it had brought by then.
        self._due: dict[Any, tuple[float, int]] = {}

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, connection: Any) -> bool:
        return connection in self._due

    def begin(self, connection: Any, now: float, brought: int = 0) -> None:
        """Its time runs from now on; again, if it did already."""
        if self.seconds is not None:
            self._due.pop(connection, None)
            self._due[connection] = (now + self.seconds, brought)

    def end(self, connection: Any) -> None:
        """Remove a connection that no longer waits."""
        self._due.pop(connection, None)

    def oldest(self) -> Any:
        """The connection whose time began first; None if there is none."""
        return next(iter(self._due), None)

    def waited(self, connection: Any, now: float) -> float:
        """Seconds since its time began."""
        return now - self._due[connection][0] + (self.seconds or 0.0)

    def due(self, now: float) -> list[tuple[Any, int]]:
        """Remove and return the connections whose deadline has passed, with the bytes they had sent."""
        found = []
        while self._due:
            connection, (time, brought) = next(iter(self._due.items()))
            if time > now:
                break
            del self._due[connection]
            found.append((connection, brought))
        return found
