"""Several nodes on one machine: pairs of Unix sockets, in a star around the head.

The head creates a pair of sockets for each node, and the node's process inherits one end. So there is no name
under which others could connect, no port, and no file that could be left behind. The head forwards messages
between nodes: all frames between two nodes take the same route, and a node's reaction to a message cannot
overtake that message on its way to a third node.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

from skate.fabric.arrivals import Arrival, Visit
from skate.fabric.fabric import Handler, NodeId, Space
from skate.fabric.transfer import PIECE, READ, Transfer, Transfers
from skate.protocol.version import VERSION, refusal
from skate.wire.channel import Channel, ChannelClosed
from skate.wire.pump import Pump

SOCKET_BYTES = 1 << 22
HEAD = 0
EPOLLOUT = 4

# frames: (kind, to, from, ...), members by their incarnation; READ and PIECE are those of transfers
HELLO = 1  # version of the protocol, info
WELCOME = 2  # own incarnation, config, members
JOINED = 3  # incarnation, info
LEFT = 4  # incarnation, reason
MESSAGE = 5  # message
LEAVE = 8
PRINTED = 9  # is_error, text
REFUSED = 10  # text


class RefusedError(ConnectionError):
    """The head has rejected this node."""


class LocalFabric:
    """Base of both ends of the star."""

    def __init__(self, pump: Pump, info: dict[str, Any]) -> None:
        self.pump = pump
        self.info = info
        self.number = HEAD
        self.handler: Handler
        self.ids: dict[int, NodeId] = {}
        self.infos: dict[NodeId, dict[str, Any]] = {}
        self.congested: set[NodeId] = set()  # stays empty: a star is of one machine
        self.closed = False
        self._dirty: set[Channel] = set()
        self._transfers = Transfers(
            pump, lambda to, kind, *rest: self.post(kind, to, *rest), _no_connection, _no_reads
        )

    def members(self) -> Mapping[NodeId, dict[str, Any]]:
        """The other living nodes."""
        return self.infos

    # -- sending

    def channel_to(self, number: int) -> Channel | None:
        """Return the channel for a member's frames."""
        raise NotImplementedError

    def post(self, kind: int, to: int, *rest: Any) -> None:
        """Queue a frame."""
        channel = self.channel_to(to)
        if channel is not None:
            channel.push((kind, to, self.number, *rest))
            self._dirty.add(channel)

    def send(self, to: NodeId, message: tuple[Any, ...]) -> None:
        """Queue a message; no-op for a member that has ended."""
        if to in self.infos:
            self.post(MESSAGE, to[1], message)

    def flush(self) -> None:
        """Write queued frames."""
        dirty, self._dirty = self._dirty, set()
        for channel in dirty:
            if not channel.flush():
                self.pump.want_write(channel.fd, True)

    def watch(
        self, channel: Channel, take: Callable[[list[tuple[Any, ...]]], None], gone: Callable[[], None]
    ) -> None:
        """Process the frames of a channel as they arrive."""

        def ready(events: int) -> None:
            if events & EPOLLOUT:
                if channel.flush():
                    self.pump.want_write(channel.fd, False)
                if not events & ~EPOLLOUT:
                    return
            try:
                frames = channel.read()
            except ChannelClosed:
                self.pump.remove(channel.fd)
                self._dirty.discard(channel)
                channel.close()
                gone()
            else:
                take(frames)
            self.flush()

        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            channel.sock.setsockopt(socket.SOL_SOCKET, option, SOCKET_BYTES)
        self.pump.add(channel.fd, ready)

    # -- receiving

    def take(self, frame: tuple[Any, ...]) -> None:
        """Process a frame for this node."""
        kind, _, source = frame[:3]
        if kind == MESSAGE:
            if source in self.ids:
                self.handler.message(self.ids[source], frame[3])
        elif kind == READ:
            _, _, _, ticket, key, at, size = frame
            self.handler.read(key, at, size, lambda piece: self.post(PIECE, source, ticket, at, piece))
        elif kind == PIECE:
            self._transfers.piece(*frame[3:])
        elif kind == JOINED:
            self.add(frame[3], frame[4])
        elif kind == LEFT:
            self.drop(frame[3], frame[4])
        elif kind == LEAVE:
            self.handler.leave_requested()
        elif kind == PRINTED:
            self.handler.printed(frame[3], frame[4])

    def add(self, number: int, info: dict[str, Any]) -> None:
        """Add a member."""
        member = self.ids[number] = (info["node_id"].hex(), number)
        self.infos[member] = info
        self.handler.joined(member, info)

    def drop(self, number: int, reason: str) -> None:
        """Remove a member that has ended, and its unfinished messages."""
        member = self.ids.pop(number, None)
        if member is None:
            return
        del self.infos[member]
        self.handler.left(member, reason)
        self._transfers.left(number)

    # -- values

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
        """Fetch the bytes of a value, requesting a few pieces ahead."""
        if source not in self.infos:
            done(False)
            return
        self._transfers.fetch(Transfer(source[1], key, size, write, done, None, arrival))

    def request_leave(self, member: NodeId) -> None:
        """Request a node to end."""
        self.post(LEAVE, member[1])
        self.flush()

    def forked(self) -> None:
        """Close the inherited sockets in a forked child."""

    def close(self) -> None:
        """Leave the cluster."""
        raise NotImplementedError


def _no_connection(member: int, opened: Any, failed: Callable[[str], None]) -> None:
    """Fail: all bytes go through the star."""
    failed("a star has no connections of its own for values")


def _no_reads(key: bytes, at: int, size: int, answer: Callable[[Any], None], visit: Visit) -> None:
    """Answer that there is no value: nobody reads over a connection of its own."""
    answer(None)


class HeadFabric(LocalFabric):
    """The center of the star."""

    def __init__(self, pump: Pump, info: dict[str, Any], config: dict[str, Any]) -> None:
        super().__init__(pump, info)
        self.config = config  # settings that nodes adopt from the head
        self.address = f"local:{os.urandom(8).hex()}"
        self.channels: dict[int, Channel] = {}
        #: The expected reason of a member's end, if known beforehand.
        self.reasons: dict[int, str] = {}
        self._newest = HEAD
        self._strangers: set[Channel] = set()

    def channel_to(self, number: int) -> Channel | None:
        """Return the channel to a member."""
        return self.channels.get(number)

    def invite(self) -> socket.socket:
        """Create a connection for a node about to be started; its process inherits the returned end."""
        ours, theirs = socket.socketpair()
        self._admit(Channel(ours))
        return theirs

    def _admit(self, channel: Channel) -> None:
        self._strangers.add(channel)
        numbers: list[int] = []

        def take(frames: list[tuple[Any, ...]]) -> None:
            for frame in frames:
                if not numbers:
                    if frame[0] == HELLO:
                        refused = refusal(frame[3], "the node that joins")
                        if refused:
                            channel.push((REFUSED, 0, HEAD, refused))
                            channel.flush()
                            return
                        self._strangers.discard(channel)
                        numbers.append(self._welcome(channel, frame[4]))
                elif frame[1] == HEAD:
                    self.take((frame[0], HEAD, numbers[0], *frame[3:]))
                else:
                    self._relay((frame[0], frame[1], numbers[0], *frame[3:]))

        def gone() -> None:
            self._strangers.discard(channel)
            for number in numbers:
                self._lost(number)

        self.watch(channel, take, gone)

    def _welcome(self, channel: Channel, info: dict[str, Any]) -> int:
        self._newest = number = self._newest + 1
        members = [(HEAD, self.info), *((member[1], known) for member, known in self.infos.items())]
        self.channels[number] = channel
        self.post(WELCOME, number, number, self.config, members)
        for other in self.ids:
            self.post(JOINED, other, number, info)
        self.add(number, info)
        return number

    def _relay(self, frame: tuple[Any, ...]) -> None:
        channel = self.channels.get(frame[1])
        if channel is not None:
            channel.push(frame)
            self._dirty.add(channel)

    def _lost(self, number: int) -> None:
        self.channels.pop(number, None)
        reason = self.reasons.pop(number, "has died (its connection to the head broke)")
        for other in self.ids:
            if other != number:
                self.post(LEFT, other, number, reason)
        self.drop(number, reason)

    def forked(self) -> None:
        """Close the inherited sockets in a forked child."""
        for channel in (*self.channels.values(), *self._strangers):
            channel.close()

    def close(self) -> None:
        """Disconnect all members, which ends them."""
        if self.closed:
            return
        self.closed = True
        for channel in (*self.channels.values(), *self._strangers):
            channel.close()


class MemberFabric(LocalFabric):
    """A node other than the head."""

    def __init__(self, pump: Pump, info: dict[str, Any], sock: socket.socket) -> None:
        super().__init__(pump, info)
        self._channel = Channel(sock)
        self.on_end: Callable[[], None] = lambda: None

    def channel_to(self, number: int) -> Channel | None:
        """Return the channel to the head, which forwards everything."""
        return self._channel

    def greet(self) -> dict[str, Any]:
        """Introduce this node, and wait for the head's configuration; `begin` adds the members."""
        self._channel.push((HELLO, HEAD, 0, VERSION, self.info))
        self._channel.sock.setblocking(True)
        self._channel.flush()
        while True:
            frames = self._channel.read()
            if frames:
                break
        self._channel.sock.setblocking(False)
        if frames[0][0] == REFUSED:
            raise RefusedError(frames[0][3])
        (_, _, _, self.number, config, self._members), *self._early = frames
        return dict(config)

    def begin(self) -> None:
        """Join the cluster."""
        for number, info in self._members:
            self.add(number, {**info, "head": number == HEAD})
        self.watch(self._channel, self._take_all, lambda: self.on_end())
        self._take_all(self._early)

    def _take_all(self, frames: list[tuple[Any, ...]]) -> None:
        for frame in frames:
            self.take(frame)

    def print(self, is_error: bool, text: str) -> None:
        """Forward the output of this node's workers to the head."""
        self.post(PRINTED, HEAD, is_error, text)
        self.flush()

    def close(self) -> None:
        """Leave the cluster."""
        self._channel.close()
