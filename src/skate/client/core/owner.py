"""The interface through which refs, actor holds and streams reach the tables of their process."""

from __future__ import annotations

from typing import Any, Protocol

from skate.protocol import messages as m


class Owner(Protocol):
    """The tables of one process, as `ClientCore` keeps them."""

    closed: bool
    failed: int

    def send(self, message: m.ToNode) -> None:
        """Send a message, after pending releases."""

    def escape(self, ref: Any) -> bytes:
        """Make a ref known to the node before it travels; return its id."""

    def wake(self, ref: Any) -> None:
        """Call the waiters of a ref."""

    def release_later(self, any_id: bytes, grants: int) -> None:
        """Record that a ref or hold is gone."""

    def abandon(self, stream: Any) -> None:
        """Record that a stream has lost its reader."""

    def report_unhandled(self, error: tuple[str, dict[str, Any]], site: Any) -> None:
        """Record that an error was dropped unseen."""

    def keep_forever(self, ref: Any) -> None:
        """Keep a ref for the session."""

    def ended(self) -> BaseException:
        """Return the exception to raise from a wait that the end of the session interrupts."""
