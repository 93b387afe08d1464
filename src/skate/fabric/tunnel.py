"""Connections through another member, for a pair that cannot connect: slower, but the lane stays whole.

Each end of a tunnel is one end of a pair of sockets, so lanes do not know the difference. The bytes go in frames that overtake
others. A member forwards them only over a connection of its own, so tunnels cannot lead through each other.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from skate.wire.pump import Pump

PIECE_BYTES: Final = 1 << 18
EPOLLOUT: Final = 4
RELAY: Final = (
    -8
)  # the end that has sent it, the other end, who has opened it, ticket, bytes; no bytes at its end

#: The other end, who has opened the tunnel, and its ticket.
Key = tuple[int, int, int]


class Tunnel:
    """One end of a tunnel."""

    __slots__ = ("is_ending", "pending", "sock", "via")

    def __init__(self, sock: socket.socket, via: int) -> None:
        self.sock = sock
        self.via = via
        self.pending = bytearray()  # for the reader at this end
        self.is_ending = False


class Tunnels:
    """The tunnels that end at one node."""

    def __init__(
        self,
        pump: Pump,
        number: Callable[[], int],
        post: Callable[..., None],
        flush: Callable[[], None],
        accepted: Callable[[socket.socket], None],
    ) -> None:
        self._pump = pump
        self._number = number  # of this node, which has none at first
        self._post = post
        self._flush = flush
        self._accepted = accepted
        self._tunnels: dict[Key, Tunnel] = {}
        self._ticket = 0

    def open(self, peer: int, via: int) -> socket.socket:
        """Return a connection to a member through another one."""
        self._ticket += 1
        return self._add((peer, self._number(), self._ticket), via)

    def _add(self, key: Key, via: int) -> socket.socket:
        ours, inner = socket.socketpair()
        inner.setblocking(False)
        self._tunnels[key] = tunnel = Tunnel(inner, via)
        self._pump.add(inner.fileno(), lambda events: self._ready(key, tunnel, events))
        return ours

    def _ready(self, key: Key, tunnel: Tunnel, events: int) -> None:
        if events & EPOLLOUT:
            self._write(key, tunnel)
        if events == EPOLLOUT or self._tunnels.get(key) is not tunnel:
            return
        try:
            data = tunnel.sock.recv(PIECE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._tell(key, tunnel.via, data)
        if not data:
            self._close(key)
        self._flush()

    def _tell(self, key: Key, via: int, data: bytes) -> None:
        peer, opener, ticket = key
        self._post(via, RELAY, self._number(), peer, opener, ticket, data)

    def take(self, last: int, source: int, opener: int, ticket: int, data: bytes) -> None:
        """Handle bytes for this end, which have come through a member."""
        key = source, opener, ticket
        tunnel = self._tunnels.get(key)
        if tunnel is None:
            if not data or opener == self._number():
                return  # this end has been closed
            ours = self._add(key, last)
            tunnel = self._tunnels[key]
            self._accepted(ours)
        tunnel.pending += data
        tunnel.is_ending |= not data
        self._write(key, tunnel)

    def refuse(self, last: int, source: int, to: int, opener: int, ticket: int) -> None:
        """End a tunnel that cannot go through this node."""
        self._post(last, RELAY, to, source, opener, ticket, b"")

    def _write(self, key: Key, tunnel: Tunnel) -> None:
        pending = tunnel.pending
        try:
            while pending:
                del pending[: tunnel.sock.send(pending)]
        except BlockingIOError:
            pass
        except OSError:
            pending.clear()
        if tunnel.is_ending and not pending:
            self._close(key)
        else:
            self._pump.want_write(tunnel.sock.fileno(), bool(pending))

    def _close(self, key: Key) -> None:
        tunnel = self._tunnels.pop(key)
        self._pump.remove(tunnel.sock.fileno())
        tunnel.sock.close()

    def left(self, member: int) -> None:
        """End the tunnels to a member that has left, or through it."""
        for key in [key for key, each in self._tunnels.items() if member in (key[0], each.via)]:
            self._close(key)

    def close(self) -> None:
        """End all tunnels."""
        for key in list(self._tunnels):
            self._close(key)

    def forked(self) -> None:
        """In a forked child: close the inherited descriptors."""
        for tunnel in self._tunnels.values():
            tunnel.sock.close()
