"""The connections of a node to the others: made when they are needed, greeted, and replaced when they break."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from skate.fabric.carrier import LANE, Carrier, NobodyThere, Purpose
from skate.fabric.connection import GREETING_BYTES_MAX, HELLO, REFUSED, WELCOME, Connection
from skate.fabric.directory import HEAD
from skate.fabric.lane import Attempt, Lane
from skate.fabric.order import Order, OrderError
from skate.fabric.tunnel import Tunnels
from skate.protocol.version import VERSION, refusal

if TYPE_CHECKING:
    from skate.fabric.fabric import NodeId
    from skate.wire.pump import Pump

#: How long a greeting may take.
GREETING_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 0.2
#: In the description of a node that only dials the head, and that no other node can dial.
BEHIND_HEAD: Final = "behind_head"
#: How much longer such a node may be silent than others: until then its program connects again.
CLIENT_PATIENCE_SECONDS: Final = 25.0


class Lanes:
    """The lanes of one node. A greeting says who connects and what has arrived; the answer says the same, or why not."""

    def __init__(
        self, pump: Pump, info: dict[str, Any], carrier: Carrier, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.pump = pump
        self.info = info
        self.carrier = carrier
        self.clock = clock
        self.number = HEAD
        self.epoch = 0
        self.order = Order(HEAD)
        self.ids: dict[int, NodeId] = {}
        self.infos: dict[NodeId, dict[str, Any]] = {}
        self.addresses: dict[int, str] = {}
        self.lanes: dict[int, Lane] = {}
        self.closed = False
        self._strangers: set[Connection] = set()  # without a greeting
        self._tunnels = Tunnels(
            *(pump, lambda: self.number, self.express, self.flush),
            lambda sock: self._await_hello(sock, is_relayed=True),
        )

    def _lane(self, peer: int) -> Lane:
        lane = self.lanes.get(peer)
        if lane is None:
            lane = self.lanes[peer] = Lane(peer)
            lane.broken_at = self.clock()
        return lane

    def _transmit(self, lane: Lane) -> None:
        if lane.connection is not None:
            lane.transmit()
        elif not lane.retry_at:
            self._dial(lane)

    # -- connecting

    def _dial(self, lane: Lane) -> None:
        """Connect to a member, through another one if the lane says so."""
        address = self.address_of(lane.peer)
        if lane.attempt is not None or address is None or self.closed:
            return
        lane.retry_at = 0.0
        via, lane.via = lane.via, None
        if self.is_behind_head(lane.peer):
            if self.number == HEAD:
                return  # that member dials
            via = HEAD
        attempt = lane.attempt = Attempt(via is not None)
        lane.was_direct = via is None

        def is_over() -> bool:
            return lane.attempt is not attempt

        def gone(connection: Connection) -> None:
            self._strangers.discard(connection)
            if not is_over():
                self._failed(lane)

        def answered(connection: Connection, frames: list[tuple[Any, ...]]) -> None:
            self._strangers.discard(connection)
            if is_over():
                connection.close()
            elif not self._welcomed(lane, connection, frames):
                connection.close()
                self._failed(lane)

        def opened(sock: socket.socket) -> None:
            if is_over():
                sock.close()
                return
            connection = attempt.connection = Connection(self.pump, sock, answered, gone)
            connection.is_relayed = attempt.is_relayed
            self._await_greeting(connection)
            # A head that was started again needs the description.
            info = self.info if lane.peer == HEAD else None
            self._hello(connection, lane.peer, self.number, self.order.received(lane.peer), info)

        def failed(reason: str) -> None:
            if not is_over():
                if isinstance(reason, NobodyThere):
                    self.nobody_at(lane.peer)
                self._failed(lane)

        if via is None:
            self.carrier.dial(address, LANE, opened, failed)
        else:
            opened(self._tunnels.open(lane.peer, via))

    def address_of(self, peer: int) -> str | None:
        """Return where to dial a member, if it is known."""
        return self.addresses.get(peer)

    def is_behind_head(self, peer: int) -> bool:
        """Return True if this node must not dial a member directly: one of the two reaches only the head."""
        if peer == HEAD:
            return False
        if self.number != HEAD and self.info.get(BEHIND_HEAD):
            return True
        member = self.ids.get(peer)
        return member is not None and bool(self.infos[member].get(BEHIND_HEAD))

    def _await_greeting(self, connection: Connection) -> None:
        connection.deadline = self.clock() + GREETING_SECONDS
        self._strangers.add(connection)

    def _hello(self, connection: Connection, to: int, number: int, received: int, info: Any) -> None:
        node_id = self.info["node_id"]
        connection.push(HELLO, VERSION, node_id, number, to, self.epoch, self.order.view, received, info)
        connection.flush()

    def _failed(self, lane: Lane) -> None:
        """Handle the end of an attempt: take the peer's connection, if there is one, or dial again later."""
        lane.attempt = None
        spare, lane.spare = lane.spare, None
        if spare is not None and not spare[0].closed:
            self._resume(lane, *spare)
        else:
            lane.retry_at = self.clock() + RETRY_SECONDS

    def _welcomed(self, lane: Lane, connection: Connection, frames: list[tuple[Any, ...]]) -> bool:
        """Handle the answer to a greeting; return False if there is no lane."""
        match frames[0]:
            case (kind, int(epoch), int(), int(received), int(), _, _) if kind == WELCOME:
                if not self.accepts(lane.peer, epoch) or not self._establish(lane, connection, received):
                    return False
            case (kind, str(text), bool(is_dead)) if kind == REFUSED:
                self.refused(lane.peer, text, is_dead)
                return False
            case _:
                return False
        if frames[1:]:
            self._take(connection, lane, frames[1:])
        return True

    def accepted(self, purpose: Purpose, sock: socket.socket) -> None:
        """Take over a connection that another member has opened."""
        if self.closed or purpose != LANE:
            sock.close()
            return
        self._await_hello(sock)

    def _await_hello(self, sock: socket.socket, is_relayed: bool = False) -> None:
        connection = Connection(self.pump, sock, self._greeted, self._strangers.discard, GREETING_BYTES_MAX)
        connection.is_relayed = is_relayed
        self._await_greeting(connection)

    def _greeted(self, connection: Connection, frames: list[tuple[Any, ...]]) -> None:
        """Handle the first frame of a connection."""
        self._strangers.discard(connection)
        match frames:
            case [(kind, version, *_)] if kind == HELLO and (
                text := refusal(version, "the node that connects")
            ):
                connection.refuse(text)
            case [(kind, _, bytes(), int(number), int(to), int(), int(view), int(received), _) as hello] if (
                kind == HELLO and number >= 0 and received >= 0
            ):
                if number == HEAD and to == HEAD and self.number == HEAD:
                    self.joins(connection, hello)
                elif HEAD in (number, to) and hello[5] != self.epoch:
                    self.returns(connection, hello)
                elif to != self.number or number == to:
                    connection.refuse(f"this is node {self.number} of the cluster, not {to}")
                elif self.order.is_over(number, view) or number in self.order.closing:
                    connection.refuse("this node is no longer a member of the cluster", self.number == HEAD)
                else:
                    self._meet(connection, hello)
            case _:
                connection.close()
        self.flush()

    def joins(self, connection: Connection, hello: tuple[Any, ...]) -> None:
        """Handle the greeting of a node that is no member yet."""
        raise NotImplementedError

    def returns(self, connection: Connection, hello: tuple[Any, ...]) -> None:
        """Handle a greeting between a member and a head of another epoch."""
        raise NotImplementedError

    def _meet(self, connection: Connection, hello: tuple[Any, ...]) -> None:
        """Handle the greeting of a member."""
        lane = self._lane(hello[3])
        if lane.attempt is not None and lane.peer < self.number:
            if lane.spare is not None:
                lane.spare[0].close()
            lane.spare = connection, hello
            connection.take = lambda given, frames: given.close()  # it has to wait for the answer
            return
        self._resume(lane, connection, hello)

    def _resume(self, lane: Lane, connection: Connection, hello: tuple[Any, ...]) -> None:
        """Continue a lane over a connection that its peer has opened."""
        lane.stop_attempt()
        connection.push(
            *(WELCOME, self.epoch, self.order.view, self.order.received(lane.peer), lane.peer, None, None)
        )
        connection.channel.raise_limit()
        if not self._establish(lane, connection, hello[7]):
            connection.close()

    def _establish(self, lane: Lane, connection: Connection, received: int) -> bool:
        """Let a lane use a connection from now on; return False if its greeting is older than the last receipt."""
        try:
            writes = self.order.resume(lane.peer, received)
        except OrderError:
            return False
        spare, lane.spare = lane.spare, None
        for old in (lane.connection, spare and spare[0]):
            if old and old is not connection:
                old.close()
        lane.attempt = None
        lane.retry_at = 0.0
        lane.connection = connection
        connection.take = lambda given, frames: self._take(given, lane, frames)
        connection.gone = lambda given: self._broken(given, lane)
        lane.replay(writes)
        self.connected(lane.peer)
        self._transmit(lane)
        return True

    def _broken(self, connection: Connection, lane: Lane) -> None:
        """Handle the end of a lane's connection."""
        if lane.connection is not connection or self.closed:
            return
        lane.connection = None
        lane.broken_at = self.clock()
        if lane.peer in self.order.closing:
            self._bury()
        else:
            self.disconnected(lane.peer)
            if lane.peer == HEAD or self.order.backlog(lane.peer):
                self._dial(lane)
        self.flush()

    def _connections(self) -> list[Connection]:
        lanes = self.lanes.values()
        found = [*self._strangers, *(lane.connection for lane in lanes if lane.connection is not None)]
        return found + [lane.spare[0] for lane in lanes if lane.spare is not None]

    # -- what a fabric does

    def _take(self, connection: Connection, lane: Lane, frames: Sequence[tuple[Any, ...]]) -> None:
        """Handle the frames of a lane."""
        raise NotImplementedError

    def _bury(self) -> None:
        """Deliver the ends of leaving members whose connections have ended."""
        raise NotImplementedError

    def flush(self) -> None:
        """Write everything that is queued."""
        raise NotImplementedError

    def express(self, to: int, *frame: Any) -> None:
        """Queue a frame of the mesh itself."""
        raise NotImplementedError

    def accepts(self, peer: int, epoch: int) -> bool:
        """Return True if a member with this epoch may be talked to."""
        raise NotImplementedError

    def refused(self, peer: int, text: str, is_dead: bool) -> None:
        """Handle the refusal of a member."""

    def nobody_at(self, peer: int) -> None:
        """Handle the news that nothing listens at the address of a member."""

    def connected(self, peer: int) -> None:
        """Handle a new connection to a member."""

    def disconnected(self, peer: int) -> None:
        """Handle the end of a connection to a member."""
