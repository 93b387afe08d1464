"""The interface of a process's connection to its node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from skate.protocol import messages as m

if TYPE_CHECKING:
    from skate.wire.channel import Channel
    from skate.wire.pump import Pump

#: Submissions between two calls of `throttle`.
THROTTLE_EVERY: Final = 48
#: The most bytes of submissions that wait for the node to read them.
UNSENT_BYTES_MAX: Final = 16 << 20


class Link(Protocol):
    """A process's connection to its node. The engine lock is held in every call."""

    def send(self, message: m.ToNode) -> None:
        """Deliver a message, or queue it until `flush`."""

    def flush(self) -> None:
        """Send everything that is queued."""

    def throttle(self) -> None:
        """Wait while too much is queued; called after every few submissions."""

    def block(self, lasting: bool = True) -> bool:
        """Prepare for a wait of the calling thread; return True if `unblock` must be called afterwards.

        A wait that is not `lasting` may end so soon that the node need not know of it, unless the thread holds a CPU.
        """

    def unblock(self) -> None:
        """Record that the calling thread resumes."""


class Throttle:
    """Makes a process wait that submits faster than its node reads.

    A node stops reading for a while if it is busy, or if a connection to another node takes no more of what the process sends.
    """

    __slots__ = ("_channel", "_pump", "_unsent")

    def __init__(self, channel: Channel, pump: Pump) -> None:
        self._channel = channel
        self._pump = pump
        self._unsent = 0  # bytes queued since the socket was full

    def wait(self) -> None:
        """Wait until the node has read, if too much is queued. The lock is held."""
        channel = self._channel
        if not channel.backlog:
            self._unsent = 0
            return
        self._unsent += sum(map(len, channel.queued[-THROTTLE_EVERY:]))
        if self._unsent >= UNSENT_BYTES_MAX:
            self._pump.want_write(channel.fd, True)
            self._pump.wait(lambda: not channel.backlog or channel.closed)
            self._unsent = 0
