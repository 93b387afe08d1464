"""A lane as its carrier sees it: the writes that a connection takes, and the attempts to make a connection."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from skate.fabric.connection import PROMPT, Connection, packed_write

if TYPE_CHECKING:
    from skate.fabric.order_lane import Write

#: The most bytes on the way without a receipt. What is beyond waits at its sender, so that relays keep only this much.
WINDOW_BYTES: Final = 8 << 20
#: With more bytes in its queue a lane is congested: producers wait until half of that is left.
QUEUE_BYTES_MAX: Final = 32 << 20
#: Ticks after which a connection whose bytes nobody acknowledges counts as broken: one beat.
STUCK_TICKS: Final = 4


class Attempt:
    """An attempt to connect to a member, until it has answered the greeting."""

    __slots__ = ("connection", "is_relayed")

    def __init__(self, is_relayed: bool) -> None:
        self.is_relayed = is_relayed
        self.connection: Connection | None = None


class Lane:
    """The path of the messages between this member and another one."""

    __slots__ = (
        "attempt", "broken_at", "closes_at", "connection", "flight", "flight_bytes", "heard", "last", "peer", "prompted",
        "queue", "queued_bytes", "retry_at", "spare", "stuck_bytes", "stuck_ticks", "unreceipted", "via",
        "was_direct",
    )  # fmt: skip

    def __init__(self, peer: int) -> None:
        self.peer = peer
        self.connection: Connection | None = None
        self.attempt: Attempt | None = None
        #: A greeting of the peer that waits for the end of the attempt, which goes first.
        self.spare: tuple[Connection, tuple[Any, ...]] | None = None
        self.last = 0  # number of the newest write
        self.queue: deque[tuple[int, bytes]] = deque()  # writes that are yet to be sent, by number
        self.queued_bytes = 0
        self.flight: deque[tuple[int, int]] = deque()  # writes without a receipt: number and size
        self.flight_bytes = 0
        self.prompted = False  # the peer was asked for a receipt
        self.heard = False  # since the last tick
        self.unreceipted = 0  # writes of the peer since the last receipt
        self.stuck_bytes = 0  # what the peer's kernel had not acknowledged at the last tick
        self.stuck_ticks = 0  # for how many ticks this has been the same
        self.broken_at = 0.0  # since when there is no connection
        self.retry_at = 0.0
        self.was_direct = True  # the last attempt
        self.via: int | None = None  # the member that the next attempt goes through
        self.closes_at = 0.0  # when the connection of a leaving peer is no longer read

    def add(self, write: Write) -> None:
        """Queue a write, unless it was queued with those that are sent again."""
        if write.number <= self.last:
            return
        self.last = write.number
        data = packed_write(write)
        self.queue.append((write.number, data))
        self.queued_bytes += len(data)

    def replay(self, writes: list[Write]) -> None:
        """Send these writes over another path, instead of what was queued or on its way."""
        self.queue.clear()
        self.flight.clear()
        self.queued_bytes = self.flight_bytes = self.last = 0
        self.prompted = False
        for write in writes:
            self.add(write)

    def next_write(self) -> bytes | None:
        """Return the next write to be sent, or None: there is none, or too much has no receipt."""
        if not self.queue or self.flight_bytes >= WINDOW_BYTES:
            return None
        number, data = self.queue.popleft()
        size = len(data)
        self.queued_bytes -= size
        self.flight.append((number, size))
        self.flight_bytes += size
        return data

    def receipted(self, number: int) -> None:
        """Note that the peer has received the writes up to this number."""
        flight = self.flight
        while flight and flight[0][0] <= number:
            self.flight_bytes -= flight.popleft()[1]
            self.prompted = False

    def transmit(self) -> None:
        """Write what may be written to the connection."""
        connection = self.connection
        if connection is None:
            return
        queued = connection.channel.queued
        while (data := self.next_write()) is not None:
            queued.append(data)
            if self.flight_bytes >= WINDOW_BYTES // 2 and not self.prompted:
                self.prompted = True
                connection.push(PROMPT)
        connection.flush()

    def stop_attempt(self) -> None:
        """Forget an attempt; its connection is closed when it opens."""
        attempt, self.attempt = self.attempt, None
        if attempt is not None and attempt.connection is not None:
            attempt.connection.close()

    def is_stuck(self) -> bool:
        """Return True if the network has taken nothing for STUCK_TICKS, although something is on its way. Call at each tick.

        A peer that hangs is no reason: its kernel acknowledges what it receives.
        """
        stuck = self.connection.unacknowledged() if self.connection is not None and self.flight else 0
        self.stuck_ticks = self.stuck_ticks + 1 if stuck and stuck == self.stuck_bytes else 0
        self.stuck_bytes = stuck
        return self.stuck_ticks >= STUCK_TICKS

    def close(self) -> None:
        """Close all connections."""
        self.stop_attempt()
        spare, self.spare = self.spare, None
        for each in (self.connection, spare and spare[0]):
            if each:
                each.close()
        self.connection = None

    def __repr__(self) -> str:
        state = "open" if self.connection is not None else "no connection"
        return f"<Lane to {self.peer}: {state} queued={self.queued_bytes} flight={self.flight_bytes}>"
