"""The fabric of a mesh: each pair of members has a connection of its own, by sockets that a carrier opens.

`Order` decides what is delivered, the directories decide who lives. This moves the writes of the one, and carries out the
actions of the other. A lane is a numbered stream, and a connection only its path: a broken one is made again, and the writes
without a receipt are sent once more. Either end dials when it has something to say; if both do, the connection stays that the
member with the higher number has opened.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from skate.fabric.carrier import BULK, Carrier, Purpose
from skate.fabric.connection import (
    ECHO,
    PROMPT,
    PULSE,
    RECEIPT,
    REFUSED,
    WRITE,
    Connection,
    packed_frame,
    unpacked_write,
)
from skate.fabric.directory import HEAD, HeadAction, MemberAction, Timing
from skate.fabric.lane import QUEUE_BYTES_MAX, Lane
from skate.fabric.lanes import BEHIND_HEAD, Lanes
from skate.fabric.large_message import PART, PART_BYTES, Assembly, parts_of
from skate.fabric.order import DATA, EXPRESS, FORETOLD, JOINED, Delivery
from skate.fabric.order_lane import Receipt
from skate.fabric.transfer import PIECE, READ, Transfer, Transfers
from skate.fabric.tunnel import RELAY
from skate.protocol.causality import BINDING
from skate.wire.timer import Timer

if TYPE_CHECKING:
    from skate.fabric.arrivals import Arrival, Visit
    from skate.fabric.fabric import Handler, NodeId, Space
    from skate.wire.pump import Pump

#: In the description of a node from which others may read what it has read itself, over connections of their own.
PASSES_ON: Final = "passes_on"
#: How long the connection of a leaving member is still read.
CLOSING_SECONDS: Final = 1.0
#: How long a member is dialled before its lane goes through the head.
DIRECT_SECONDS: Final = 1.0
#: A receipt that no write carries is sent after so many writes, and at each tick.
RECEIPT_WRITES: Final = 64
PULSES: Final = (PULSE, ECHO)
#: Why a stranger is refused that may try again: a busy head learns late what it sends, or that it is registered.
LATE: Final = "no complete greeting came in time, or the engine has no such node registered"

# frames of the mesh itself; the numbers of the core's messages are not negative
BEAT: Final = -1
LEAVE: Final = -2
PRINTED: Final = -3  # is_error, text
ASK: Final = -4  # about
ANSWER: Final = -5  # about, True if it is heard
KNOWN: Final = -6  # to a later head: (number, info, address) of each member that its sender knows


class Mesh(Lanes):
    """Base of the head and the members of a mesh."""

    def __init__(
        self,
        pump: Pump,
        info: dict[str, Any],
        carrier: Carrier,
        timing: Timing = Timing(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        info = {**info, PASSES_ON: not info.get(BEHIND_HEAD)}
        super().__init__(pump, info, carrier, clock)
        self.timing = timing
        self.congested: set[NodeId] = set()
        self.handler: Handler
        self._transfers = Transfers(pump, self.express, self._dial_bulk, self._read)
        self._assembly = Assembly()
        self._turned = self._looked_at = clock()
        self._heard: list[Lane] = []  # that something has come from since the last tick
        self._timer = Timer(pump, timing.beat / 4, self.tick)
        carrier.receiver = self

    def members(self) -> Mapping[NodeId, dict[str, Any]]:
        """The other living nodes."""
        return self.infos

    # -- sending

    def send(self, to: NodeId, message: tuple[Any, ...]) -> None:
        """Queue a message; no-op for a member that has ended."""
        packed, binds = packed_frame(message), message[0] in BINDING
        if len(packed) <= PART_BYTES:
            self.order.send(to[1], packed, binds)
        else:
            for part in parts_of(packed):
                self.order.send_alone(to[1], packed_frame(part), binds)

    def post(self, to: int, *frame: Any) -> None:
        """Queue a frame of the mesh itself, in order with the messages."""
        self.order.send(to, packed_frame(frame))

    def express(self, to: int, *frame: Any) -> None:
        """Queue a frame of the mesh itself, which overtakes what is held back at its receiver."""
        self.order.send_express(to, packed_frame(frame))

    def flush(self) -> None:
        """Write everything that is queued."""
        writes = self.order.writes()
        if not writes:
            return
        if len(writes) == 1:  # such as one call
            ((peer, write),) = writes
            lane = self._lane(peer)
            lane.add(write)
            self.wrote(peer, write.number)
            self._written(lane)
            return
        written: dict[int, Lane] = {}
        while writes:
            for peer, write in writes:
                lane = written[peer] = self._lane(peer)
                lane.add(write)
                self.wrote(peer, write.number)
            writes = self.order.writes()
        for lane in written.values():
            self._written(lane)

    def _written(self, lane: Lane) -> None:
        """Pass a lane's writes to its connection, and note if they do not fit."""
        self._transmit(lane)
        if lane.queued_bytes > QUEUE_BYTES_MAX and lane.peer in self.ids:
            self.congested.add(self.ids[lane.peer])

    # -- receiving

    def _take(self, connection: Connection, lane: Lane, frames: Sequence[tuple[Any, ...]]) -> None:
        """Handle the frames of a lane."""
        if len(frames) == 1 and frames[0][0] in PULSES and lane.connection is connection:
            # All that the members of an idle cluster say: it gives nothing to deliver and nothing to write.
            try:
                self.pulsed(lane, frames[0])
            except (TypeError, ValueError):
                connection.close()
                self._broken(connection, lane)
            return
        if not lane.heard:  # the next tick says it again
            lane.heard = True
            self._heard.append(lane)
            self.heard(lane.peer)
        for frame in frames:
            if lane.connection is not connection:
                break
            try:
                if frame[0] == WRITE:
                    write = unpacked_write(lane.peer, frame)
                    found = self.order.receive(lane.peer, write)
                    self._receipted(lane, write.receipt.received)
                    lane.unreceipted += 1
                elif frame[0] == RECEIPT:
                    _, received, delivered = frame
                    self.order.receipted(lane.peer, Receipt(received, delivered))
                    self._receipted(lane, received)
                    continue
                elif frame[0] == PROMPT:
                    self._send_receipt(lane)
                    continue
                elif frame[0] == REFUSED:
                    _, text, is_dead = frame
                    self.refused(lane.peer, text, is_dead)
                    continue
                elif frame[0] in PULSES:
                    self.pulsed(lane, frame)
                    continue
                else:
                    raise ValueError(f"a frame of kind {frame[0]}")
            except (TypeError, ValueError):  # an invalid frame ends the connection only
                connection.close()
                self._broken(connection, lane)
                return
            self._deliver(found, len(frames) == 1)
        if self.order.closing:
            self._bury()
        self.flush()
        if lane.unreceipted >= RECEIPT_WRITES:
            lane.unreceipted = 0
            self._send_receipt(lane)

    def _receipted(self, lane: Lane, received: int) -> None:
        lane.receipted(received)
        self.confirmed(lane.peer, received)
        if lane.queue:
            lane.transmit()
        if self.congested and lane.queued_bytes <= QUEUE_BYTES_MAX // 2:
            self._relieve(lane.peer)

    def _relieve(self, peer: int) -> None:
        """Let those send again who have waited for the queue to a member."""
        member = self.ids.get(peer)
        if member in self.congested:
            self.congested.discard(member)
            self.handler.writable(member)

    def _send_receipt(self, lane: Lane) -> None:
        if lane.connection is not None:
            receipt = self.order.receipt(lane.peer)
            if receipt is not None:
                lane.connection.push(RECEIPT, *receipt)
                lane.connection.flush()

    def _deliver(self, deliveries: list[Delivery], is_alone: bool = False) -> None:
        """Hand over what can be delivered; `is_alone` if it came with nothing else."""
        for source, kind, frames in deliveries:
            if kind == DATA:
                self._deliver_data(source, frames, is_alone and len(frames) <= 2)
            elif kind == EXPRESS:
                self._control(source, frames[0])
            elif kind in (JOINED, FORETOLD):
                ((number, (info, address)),) = frames
                self.add(number, info, address)
            else:
                ((number, reason),) = frames
                self.drop(number, reason)

    def _deliver_data(self, source: int, frames: tuple[Any, ...], is_awaited: bool) -> None:
        """Hand over messages. `is_awaited`: the first is such as a call or a result that a worker waits for, so what it causes
        is written before the next.
        """
        member, handler = self.ids[source], self.handler
        if is_awaited:
            first, frames = frames[0], frames[1:]
            if first[0] >= 0:
                handler.message(member, first)
            else:
                self._control(source, first)
            handler.write()
        if not frames:
            return
        if all(frame[0] >= 0 for frame in frames):
            handler.messages(member, frames)
            return
        for frame in frames:
            if frame[0] >= 0:
                handler.message(member, frame)
            else:
                self._control(source, frame)

    def _control(self, source: int, frame: tuple[Any, ...]) -> None:
        """Handle a frame of the mesh itself."""
        match frame:
            case (kind, is_last, data) if kind == PART:
                message = self._assembly.take(source, is_last, data)
                if message is not None:
                    self.handler.message(self.ids[source], message)
            case (kind,) if kind == LEAVE:
                self.handler.leave_requested()
            case (kind, is_error, text) if kind == PRINTED:
                self.handler.printed(is_error, text)
            case (kind, about) if kind == ASK:
                self.express(source, ANSWER, about, self.hears(about))
            case (kind, about, hears) if kind == ANSWER:
                self.answered(source, about, hears)
            case (kind, members) if kind == KNOWN:
                self.returned(source, members)
            case (kind, ticket, key, at, size) if kind == READ:
                self.handler.read(key, at, size, lambda piece: self.express(source, PIECE, ticket, at, piece))
            case (kind, ticket, at, piece) if kind == PIECE:
                self._transfers.piece(ticket, at, piece)
            case (kind, origin, to, opener, ticket, data) if kind == RELAY:
                self._relay(source, origin, to, opener, ticket, data)

    def _relay(self, last: int, origin: int, to: int, opener: int, ticket: int, data: bytes) -> None:
        """Take the bytes of a tunnel, or forward them over a connection of this node's own."""
        if to == self.number:
            self._tunnels.take(last, origin, opener, ticket, data)
            return
        lane = self.lanes.get(to)
        if lane is not None and lane.connection is not None and not lane.connection.is_relayed:
            self.express(to, RELAY, origin, to, opener, ticket, data)
        elif data:
            self._tunnels.refuse(last, origin, to, opener, ticket)

    def reroute(self, peer: int, via: int) -> None:
        """Let the lane to a member go through another one."""
        lane = self._lane(peer)
        lane.stop_attempt()
        if lane.connection is not None:
            lane.connection.close()
            lane.connection = None
            lane.broken_at = self.clock()
        lane.via = via
        self._dial(lane)

    def add(self, number: int, info: dict[str, Any], address: str) -> None:
        """Add a member."""
        member = self.ids[number] = (info["node_id"].hex(), number)
        self.infos[member] = info
        self.addresses[number] = address
        self.handler.joined(member, info)

    def drop(self, number: int, reason: str) -> None:
        """Remove a member that has ended, and what it leaves unfinished."""
        member = self.ids.pop(number, None)
        if member is None:
            return
        del self.infos[member]
        del self.addresses[number]
        self.congested.discard(member)
        lane = self.lanes.pop(number, None)
        if lane is not None:
            lane.close()
        self.handler.left(member, reason)
        self._tunnels.left(number)
        self._transfers.left(number)
        self._assembly.left(number)

    def _bury(self) -> None:
        """Deliver the ends of leaving members whose connections have ended; give the others a second to end."""
        for member in list(self.order.closing):
            lane = self.lanes.get(member)
            if lane is None or lane.connection is None:
                if lane is not None:
                    lane.close()
                self._deliver(self.order.ended(member))
            elif not lane.closes_at:
                lane.closes_at = self.clock() + CLOSING_SECONDS

    # -- time

    def tick(self) -> None:
        """Do what is due; called several times in each beat."""
        if self.closed:
            return
        now = self.clock()
        for connection in [each for each in self._strangers if now >= each.deadline]:
            connection.refuse(LATE)
            connection.gone(connection)
        for lane in self._heard:
            lane.heard = False
            if self.lanes.get(lane.peer) is lane:
                self.heard(lane.peer)
        heard, self._heard = self._heard, []
        if now - self._turned >= self.timing.silence:
            self._turned = now
            self.order.turn()
        self.look(now)
        self.flush()  # before the receipts: a write has one with it
        for lane in self._to_look_after(heard, now):
            self._look_after(lane, now)
        self.flush()

    def _to_look_after(self, heard: list[Lane], now: float) -> list[Lane]:
        """Return the lanes that something may be due for; the head of many leaves the others out, but for once in a beat."""
        lanes = self.lanes
        if self.number != HEAD or now - self._looked_at >= self.timing.beat:
            self._looked_at = now
            return list(lanes.values())
        found = [lane for lane in heard if lanes.get(lane.peer) is lane and lane.connection is not None]
        return found + [lane for lane in lanes.values() if lane.connection is None or lane.closes_at]

    def _look_after(self, lane: Lane, now: float) -> None:
        if lane.connection is not None:
            # The directory judges the lanes of the head.
            if (lane.closes_at and now >= lane.closes_at) or (
                HEAD not in (self.number, lane.peer) and lane.is_stuck()
            ):
                lane.connection.close()
                self._broken(lane.connection, lane)
            else:
                self._send_receipt(lane)
        elif lane.peer == HEAD or self.order.backlog(lane.peer):
            # The head's own lanes go through others only if its directory says so. A head that is not heard may only be busy:
            # then it must not get more to do.
            is_between = HEAD not in (self.number, lane.peer)
            if is_between and now - lane.broken_at >= DIRECT_SECONDS and self.hears(HEAD):
                if lane.attempt is None:
                    lane.via = HEAD if lane.was_direct else None
                elif not lane.attempt.is_relayed and lane.attempt.connection is None:
                    lane.stop_attempt()
                    lane.via = HEAD
            if now >= lane.retry_at:
                self._dial(lane)

    def look(self, now: float) -> None:
        """Have the directory see the time."""
        raise NotImplementedError

    def act(self, actions: Iterable[HeadAction | MemberAction]) -> None:
        """Carry out what the directory asks for."""
        raise NotImplementedError

    # -- what the carrier tells

    def registered(self, name: str, address: str) -> None:
        """No-op: members register at the head."""

    def unregistered(self, name: str) -> None:
        """No-op: members register at the head."""

    def detached(self, reason: str) -> None:
        """No-op: the engine of the head is in this process."""

    def returned(self, number: int, members: tuple[Any, ...]) -> None:
        """No-op: members return to a later head."""

    # -- what the directory is told

    def heard(self, peer: int) -> None:
        """Something has come from a member."""
        raise NotImplementedError

    def pulsed(self, lane: Lane, frame: tuple[Any, ...]) -> None:
        """Handle a pulse of a member, or an echo of the head. Raises TypeError or ValueError if it is invalid."""
        raise NotImplementedError

    def wrote(self, peer: int, number: int) -> None:
        """Note a numbered write to a member."""
        raise NotImplementedError

    def confirmed(self, peer: int, number: int) -> None:
        """Note the receipt of a member."""
        raise NotImplementedError

    def hears(self, about: int) -> bool:
        """Return True if this node hears a member."""
        raise NotImplementedError

    def answered(self, peer: int, about: int, hears: bool) -> None:
        """Note what another member says about one."""
        raise NotImplementedError

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
        """Fetch the bytes of a value."""
        if source not in self.infos:
            done(False)
        else:
            # Without a connection of its own, a value comes in pieces over the lane.
            direct_space = None if self.is_behind_head(source[1]) else space
            self._transfers.fetch(Transfer(source[1], key, size, write, done, direct_space, arrival))

    def _dial_bulk(
        self, peer: int, opened: Callable[[socket.socket], None], failed: Callable[[str], None]
    ) -> None:
        self.carrier.dial(self.addresses[peer], BULK, opened, failed)

    def _read(
        self, key: bytes, at: int, size: int, answer: Callable[[Any], None], visit: Visit | None
    ) -> None:
        self.handler.read(key, at, size, answer, visit)

    def accepted(self, purpose: Purpose, sock: socket.socket) -> None:
        """Take over a connection that another member has opened."""
        if purpose == BULK and not self.closed:
            self._transfers.serve(sock)
        else:
            super().accepted(purpose, sock)

    # -- the end

    def request_leave(self, member: NodeId) -> None:
        """Request a node to end."""
        self.post(member[1], LEAVE)
        self.flush()

    def forked(self) -> None:
        """In a forked child: close the inherited descriptors."""
        self.closed = True
        self._timer.forked()
        self._transfers.forked()
        self._tunnels.forked()
        for connection in self._connections():
            connection.forked()
        self.carrier.forked()

    def close(self) -> None:
        """Leave the cluster."""
        if self.closed:
            return
        self.closed = True
        self._timer.close()
        self._transfers.close()
        self._tunnels.close()
        for connection in self._connections():
            connection.close()
        self.carrier.close()
