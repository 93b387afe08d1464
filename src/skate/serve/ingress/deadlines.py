"""Deadlines of waiting connections, in order of expiry, without a clock; and the time limit of one request."""

from __future__ import annotations

import asyncio
from typing import Any


class Deadlines:
    """The deadlines of connections that wait for one kind of event, with one limit for all; None for no limit. All
    operations are O(1).
    """

    __slots__ = ("_due", "seconds")

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        #: Connections, oldest first, with their deadlines and the bytes that they had sent by then.
        self._due: dict[Any, tuple[float, int]] = {}

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, connection: Any) -> bool:
        return connection in self._due

    def begin(self, connection: Any, now: float, brought: int = 0) -> None:
        """Start the time of a connection, or restart it."""
        if self.seconds is not None:
            self._due.pop(connection, None)
            self._due[connection] = (now + self.seconds, brought)

    def end(self, connection: Any) -> None:
        """Remove a connection that no longer waits."""
        self._due.pop(connection, None)

    def oldest(self) -> Any:
        """Return the connection whose time began first, or None."""
        return next(iter(self._due), None)

    def waited(self, connection: Any, now: float) -> float:
        """Return the seconds since its time began."""
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


class Timer:
    """Cancels a task after a number of seconds, and remembers that it did."""

    def __init__(self, seconds: float, task: Any) -> None:
        self.seconds = seconds
        self.late = False
        self._task = task
        self._handle = asyncio.get_running_loop().call_later(seconds, self._end)

    def _end(self) -> None:
        self.late = True
        self._task.cancel()

    def cancel(self) -> None:
        """Cancel the timer: the request ended in time."""
        self._handle.cancel()
