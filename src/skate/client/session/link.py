"""The interface of a process's connection to its node."""

from __future__ import annotations

from typing import Protocol

from skate.protocol import messages as m


class Link(Protocol):
    """A process's connection to its node. The engine lock is held in every call."""

    def send(self, message: m.ToNode) -> None:
        """Deliver a message, or queue it until `flush`."""

    def flush(self) -> None:
        """Send everything that is queued."""

    def block(self) -> bool:
        """Prepare for a wait of the calling thread; return True if `unblock` must be called afterwards."""

    def unblock(self) -> None:
        """Record that the calling thread resumes."""
