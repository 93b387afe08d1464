"""The interface between a node and the others: everything that involves other machines is behind `Fabric`.

Nothing above it depends on how messages are sent. Nothing here waits: the loop of a node is its pump, not
asyncio, so operations that take time end with a call of the handler, under the engine lock. A fabric promises
that messages between two members arrive in order and at most once; that nothing which follows from a binding
message (`protocol/causality.py`) reaches its receiver before it; that `left` is called once, after the last
message of that member; and that every `fetch` ends. A star has this order by itself, `order` gives it to a mesh.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from skate.fabric.arrivals import Arrival, Visit

#: A member: its node's id in hexadecimal, and its incarnation, which is never used again.
NodeId = tuple[str, int]
#: Returns writable memory for a value, or None if only the loop may write it.
Space = Callable[[], memoryview | None]


class Handler(Protocol):
    """A node's handler of its fabric's events; the engine lock is held in every call."""

    def joined(self, member: NodeId, info: dict[str, Any]) -> None:
        """Handle a new node; `info` is its description of itself."""

    def left(self, member: NodeId, reason: str) -> None:
        """Handle the end of a node; `reason` continues the sentence "node x ..."."""

    def message(self, member: NodeId, message: tuple[Any, ...]) -> None:
        """Process a received message."""

    def messages(self, member: NodeId, messages: Sequence[tuple[Any, ...]]) -> None:
        """Process received messages, in order."""

    def write(self) -> None:
        """Write at once what the messages before have caused: what follows can wait."""

    def writable(self, member: NodeId) -> None:
        """Handle the end of a full queue: producers may send to this member again."""

    def read(
        self, key: bytes, at: int, size: int, answer: Callable[[Any], None], visit: Visit | None = None
    ) -> None:
        """Answer another member's `fetch`, now or later, with bytes of a local value, or None if it is not here.

        `visit` is the same in all requests over one connection. Without it, only a complete value is read.
        """

    def printed(self, is_error: bool, text: str) -> None:
        """Handle output of another node's workers."""

    def leave_requested(self) -> None:
        """Handle the request to end this node."""


class Fabric(Protocol):
    """The connection to other nodes."""

    #: The node's own handler.
    handler: Handler
    #: Members with a full queue: messages to them are still taken, but their producers should stop until `writable`.
    congested: set[NodeId]

    def members(self) -> Mapping[NodeId, dict[str, Any]]:
        """The other living nodes."""

    def send(self, to: NodeId, message: tuple[Any, ...]) -> None:
        """Queue a message; no-op for a member that has ended."""

    def flush(self) -> None:
        """Send all queued messages."""

    def fetch(
        self,
        source: NodeId,
        key: bytes,
        size: int,
        write: Callable[[int, Any], None],
        done: Callable[[bool], None],
        space: Space | None = None,
        arrival: Arrival | None = None,
    ) -> None:
        """Fetch the bytes of a value, in pieces: `write(at, piece)`, then `done(True)`, or `done(False)` if
        they are lost. If `space` returns memory of this size, threads may write there instead until `done` is called.
        `arrival` has the rank of this read, and is notified of its progress."""

    def request_leave(self, member: NodeId) -> None:
        """Request a node to end."""

    def forked(self) -> None:
        """In a forked child: leave everything to the parent."""

    def close(self) -> None:
        """Leave the cluster."""
