"""How a process reaches its node."""

from __future__ import annotations

from typing import Protocol

from skate.protocol import messages as m


class Link(Protocol):
    """How a process reaches its node; the engine lock is held in every call."""

    def send(self, message: m.ToNode) -> None:
        """Deliver a message, or queue it until `flush`."""

    def flush(self) -> None:
        """Have everything queued on its way."""

    def block(self) -> bool:
        """Prepare for a wait of the calling thread; True if `unblock` must be called afterwards."""

    def unblock(self) -> None:
        """Record that the calling thread resumes."""
