"""A node of a mesh other than the head."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from skate.fabric.carrier import LANE, Carrier, Purpose
from skate.fabric.connection import ECHO, PULSE, REFUSED, WELCOME, Connection
from skate.fabric.directory import (
    HEAD,
    Ask,
    HeadAction,
    Leave,
    MemberAction,
    MemberDirectory,
    Pulse,
    Relay,
    Timing,
)
from skate.fabric.lane import Lane
from skate.fabric.lanes import RETRY_SECONDS
from skate.fabric.local import RefusedError
from skate.fabric.mesh import ASK, KNOWN, LATE, PRINTED, Mesh
from skate.fabric.order import Order
from skate.fabric.order_lane import base_of

if TYPE_CHECKING:
    from skate.wire.pump import Pump

JOIN_SECONDS: Final = 30.0
#: In the head's configuration: for how many seconds members continue without it, if it can be started again.
GRACE: Final = "grace"


class MeshMember(Mesh):
    """A member's end."""

    def __init__(
        self,
        pump: Pump,
        info: dict[str, Any],
        carrier: Carrier,
        *,
        timing: Timing = Timing(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(pump, info, carrier, timing, clock)
        self.on_end: Callable[[], None] = lambda: None
        #: Why this node has to end, once it has.
        self.reason = ""
        self.directory = MemberDirectory(-1, 0, clock(), timing)
        self._joined = False
        self._detached = False
        self._head_may_return = False
        self._met_head_at = -math.inf
        self._welcome: tuple[Any, ...] = ()
        self._early: list[tuple[Any, ...]] = []
        self._early_sockets: list[tuple[Purpose, socket.socket]] = []
        self._first: Connection | None = None
        self._refusal = ""
        self._failures = 0
        self._trouble = "no answer"

    # -- joining

    def greet(self, timeout: float = JOIN_SECONDS) -> dict[str, Any]:
        """Introduce this node, and wait for the head's configuration; `begin` adds the members.

        Raises RefusedError if the head rejects this node, ConnectionError if it does not answer in time.
        """
        address = self.carrier.head_address
        end = time.monotonic() + timeout
        while not self._welcome and not self._refusal:
            left = end - time.monotonic()
            if left <= 0:
                raise ConnectionError(f"the head at {address} did not admit this node: {self._trouble}")
            self._failures = 0
            self._introduce(address)
            self.pump.wait(lambda: bool(self._failures or self._welcome or self._refusal), left)
            if self._failures:
                self.pump.wait(lambda: False, min(RETRY_SECONDS, left))
        if self._refusal:
            raise RefusedError(self._refusal)
        _, self.epoch, view, _, self.number, config, members = self._welcome
        self.order = Order(self.number, [member[0] for member in members], view)
        self._stay(config)
        self.directory = MemberDirectory(self.number, self.epoch, self.clock(), self.timing)
        return dict(config)

    def _stay(self, config: dict[str, Any]) -> None:
        """Note for how long to continue without the head, if it can return."""
        if GRACE in config:
            self.timing = replace(self.timing, grace=float(config[GRACE]))
            self._head_may_return = True

    def _introduce(self, address: str) -> None:
        """Send the greeting of a node that is no member yet."""

        def failed(reason: str) -> None:
            self._trouble = reason
            self._failures += 1

        def gone(connection: Connection) -> None:
            self._strangers.discard(connection)
            self._first = None
            failed("the head has closed the connection")

        def opened(sock: socket.socket) -> None:
            if self._first is not None or self.closed:
                sock.close()
                return
            self._first = connection = Connection(self.pump, sock, self._admitted, gone)
            self._await_greeting(connection)
            self._hello(connection, HEAD, 0, 0, self.info)

        self.carrier.dial(address, LANE, opened, failed)

    def _admitted(self, connection: Connection, frames: list[tuple[Any, ...]]) -> None:
        """Handle the head's answer; what follows is kept for `begin`."""
        self._strangers.discard(connection)
        if self._welcome:
            self._early += frames
        elif frames[0][0] == WELCOME and len(frames[0]) == 7:
            self._welcome, *self._early = frames
        elif frames[0][0] == REFUSED and len(frames[0]) == 3 and frames[0][1] == LATE:
            self._first = None
            self._trouble = LATE
            self._failures += 1
            connection.close()
        elif frames[0][0] == REFUSED and len(frames[0]) == 3:
            self._refusal = frames[0][1]
            connection.close()
        else:
            self._refusal = "the node at this address is no head of Skate, or of another version"
            connection.close()

    def begin(self) -> None:
        """Join the cluster."""
        self._joined = True
        for number, info, address, _ in self._welcome[6]:
            self.add(number, {**info, "head": number == HEAD}, address)
        connection, self._first = self._first, None
        lane = self._lane(HEAD)
        frames, self._early = self._early, []
        if connection is not None:
            self._establish(lane, connection, base_of(self.epoch))
            self._take(connection, lane, frames)
        for purpose, sock in self._early_sockets:
            self.accepted(purpose, sock)
        self._early_sockets.clear()
        self._welcome = ()

    def joins(self, connection: Connection, hello: tuple[Any, ...]) -> None:
        """Refuse a node that takes this one for the head."""
        connection.refuse("this node is not the head of the cluster")

    # -- another head

    def returns(self, connection: Connection, hello: tuple[Any, ...]) -> None:
        """Refuse a head of another epoch: this node greets a later one itself, and an earlier one is none any more."""
        connection.refuse(f"this node follows the head of epoch {self.epoch}")

    def nobody_at(self, peer: int) -> None:
        """Continue without a head whose process is gone."""
        if peer == HEAD and self._head_may_return:
            self.directory.head_is_gone(self.clock())
            self._deliver(self.order.lost_head())

    def _welcomed(self, lane: Lane, connection: Connection, frames: list[tuple[Any, ...]]) -> bool:
        match frames[0]:
            case (kind, int(epoch), int(view), int(received), int(), dict(config), tuple(members)) if (
                kind == WELCOME and lane.peer == HEAD and epoch > self.epoch
            ):
                lane.attempt = None
                self._change_head(connection, epoch, view, received, config, members)
                if frames[1:] and not connection.closed:
                    self._take(connection, self._lane(HEAD), frames[1:])
                return True
        return super()._welcomed(lane, connection, frames)

    def _change_head(
        self,
        connection: Connection,
        epoch: int,
        view: int,
        received: int,
        config: dict[str, Any],
        members: tuple[tuple[int, dict[str, Any], str, bool], ...],
    ) -> None:
        """Follow a head that was started again, and tell it who else is known here."""
        known = [
            (member[1], info, self.addresses[member[1]])
            for member, info in self.infos.items()
            if member[1] != HEAD
        ]
        changed = [member[0] for member in members if member[3]]
        now = self.clock()
        self.epoch = epoch
        self._stay(config)
        self.directory = MemberDirectory(self.number, epoch, now, self.timing)
        for number in self.ids:
            if number != HEAD:
                self.directory.joined(number, now)
        found = self.order.change_head(view, [member[0] for member in members], changed)
        self.express(HEAD, KNOWN, known)
        self.drop(HEAD, "has ended, and was started again")
        for number, info, address, _ in members:
            self.add(number, {**info, "head": True, "epoch": epoch} if number == HEAD else info, address)
        self._establish(self._lane(HEAD), connection, received)
        self._deliver(found)

    def add(self, number: int, info: dict[str, Any], address: str) -> None:
        """Add a member, or note the address of one that has returned to another head."""
        if number in self.ids:
            self.addresses[number] = address
        elif number != self.number:
            if number != HEAD:
                self.directory.joined(number, self.clock())
            super().add(number, info, address)

    def drop(self, number: int, reason: str) -> None:
        """Remove a member that has ended, and what it leaves unfinished."""
        self.directory.gone(number)
        super().drop(number, reason)

    def print(self, is_error: bool, text: str) -> None:
        """Forward the output of this node's workers to the head."""
        self.post(HEAD, PRINTED, is_error, text)
        self.flush()

    # -- what the carrier tells

    def accepted(self, purpose: Purpose, sock: socket.socket) -> None:
        """Take over a connection that another member has opened."""
        if self._joined or self.closed:
            super().accepted(purpose, sock)
        else:
            self._early_sockets.append((purpose, sock))

    def address_of(self, peer: int) -> str | None:
        """Return where to dial a member; the head where this node has found it, since its own address may change."""
        return (
            self.carrier.head_address if peer == HEAD and HEAD in self.addresses else super().address_of(peer)
        )

    def detached(self, reason: str) -> None:
        """Note that the head's engine has closed its connection: without an answer to the next greeting, it is gone."""
        self._detached = True

    # -- the directory

    def heard(self, peer: int) -> None:
        """Note that something has come from a member."""
        self.directory.heard(peer, self.clock())

    def pulsed(self, lane: Lane, frame: tuple[Any, ...]) -> None:
        """Take the head's echo of a pulse."""
        kind, pulse, late_us = frame
        if kind != ECHO or lane.peer != HEAD or not (type(pulse) is type(late_us) is int):
            raise ValueError(f"{frame!r:.80} as an echo")
        self.directory.echoed(pulse, self.clock())
        if late_us:
            self._timer.shift(-late_us / 1e6)

    def wrote(self, peer: int, number: int) -> None:
        """Note a numbered write to a member."""
        if peer == HEAD:
            self.directory.wrote(number, self.clock())

    def confirmed(self, peer: int, number: int) -> None:
        """Note the receipt of a member."""
        if peer == HEAD:
            self.directory.confirmed(number)

    def hears(self, about: int) -> bool:
        """Return True if this node hears a member."""
        return self.directory.hears(about, self.clock())

    def answered(self, peer: int, about: int, hears: bool) -> None:
        """Note what another member says about the head."""
        if about == HEAD:
            self.act(self.directory.answer(peer, hears, self.clock()))

    def accepts(self, peer: int, epoch: int) -> bool:
        """Return True if a member has the epoch of this node's head, or a head a later one."""
        return self.directory.accepts(epoch) if peer == HEAD else True

    def refused(self, peer: int, text: str, is_dead: bool) -> None:
        """Leave if the head says that this node is dead."""
        if peer == HEAD and is_dead:
            self.act(self.directory.refused(self.epoch))

    def connected(self, peer: int) -> None:
        """Handle a new connection to a member."""
        if peer == HEAD:
            self._detached = False
            self._met_head_at = self.clock()
            self.directory.reconnected()

    def look(self, now: float) -> None:
        """Have the directory see the time."""
        if self._joined:
            self.act(self.directory.tick(now))
            self._seek_head(now)

    def _seek_head(self, now: float) -> None:
        """Look for the head elsewhere if most members do not hear it, since a cut cable ends no connection."""
        lane = self.lanes.get(HEAD)
        silent = now - max(self.directory.head.heard, self._met_head_at)
        if (
            self._head_may_return
            and self.carrier.head_may_move
            and self.directory.is_headless
            and silent >= self.timing.silence
            and lane is not None
            and lane.connection is not None
        ):
            self.carrier.seek_head()
            lane.connection.close()
            self._broken(lane.connection, lane)

    def act(self, actions: Iterable[HeadAction | MemberAction]) -> None:
        """Carry out what the directory asks for."""
        for action in actions:
            match action:
                case Pulse(number, echoed):
                    self._pulse(number, echoed)
                case Ask(peer, about):
                    self.express(peer, ASK, about)
                case Relay(peer, via):
                    self.reroute(peer, via)
                case Leave(reason):
                    self._leave(reason)

    def _pulse(self, number: int, echoed: int) -> None:
        connection = self._lane(HEAD).connection
        if connection is not None:
            connection.push(PULSE, number, echoed)
            connection.flush()

    def _leave(self, reason: str) -> None:
        if not self.reason:
            self.reason = reason
            self.on_end()

    def _connections(self) -> list[Connection]:
        return super()._connections() + ([self._first] if self._first is not None else [])

    def close(self) -> None:
        """Leave the cluster."""
        super().close()
        for _, sock in self._early_sockets:
            sock.close()
        self._early_sockets.clear()

    def _failed(self, lane: Lane) -> None:
        """Handle the end of an attempt; the head is gone if it has neither a connection nor the engine's."""
        super()._failed(lane)
        if lane.peer == HEAD and lane.connection is None and self._detached and not self._head_may_return:
            self._leave("has lost the head: its connections have ended, and it cannot be reached")
