"""The head of a mesh: it admits members, gives the verdict on them, and tells the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from skate.fabric.connection import WELCOME, Connection
from skate.fabric.directory import (
    HEAD,
    Ask,
    Beat,
    Bury,
    HeadAction,
    HeadDirectory,
    MemberAction,
    Refuse,
    Relay,
    Timing,
)
from skate.fabric.mesh import ASK, BEAT, Mesh

if TYPE_CHECKING:
    from skate.fabric.carrier import Carrier
    from skate.wire.pump import Pump


class MeshHead(Mesh):
    """The head's end. A member's name at the carrier is the id of its node, in hexadecimal."""

    def __init__(
        self,
        pump: Pump,
        info: dict[str, Any],
        config: dict[str, Any],
        carrier: Carrier,
        *,
        epoch: int = 1,
        timing: Timing = Timing(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(pump, info, carrier, timing, clock)
        self.config = config  # settings that nodes adopt from the head
        self.address = carrier.address
        self.epoch = epoch
        self.directory = HeadDirectory(epoch, clock(), timing)
        #: The expected reason of a member's end, if known beforehand.
        self.reasons: dict[int, str] = {}
        self._newest = HEAD
        #: Nodes that have said hello before the engine has told that they are registered.
        self._early: dict[str, tuple[Connection, tuple[Any, ...]]] = {}

    # -- joining

    def joins(self, connection: Connection, hello: tuple[Any, ...]) -> None:
        """Admit a node, once it is registered."""
        name = hello[2].hex()
        address = self.carrier.members().get(name)
        if not isinstance(hello[8], dict) or hello[8].get("node_id") != hello[2]:
            connection.close()
        elif address is None:
            self._early[name] = connection, hello
            connection.gone = lambda given: self._forget(name, given)
            connection.take = lambda given, frames: given.close()  # it has to wait for the answer
            self._strangers.add(connection)
        else:
            self._admit(connection, hello, address)

    def _forget(self, name: str, connection: Connection) -> None:
        self._strangers.discard(connection)
        early = self._early.get(name)
        if early is not None and early[0] is connection:
            del self._early[name]

    def _admit(self, connection: Connection, hello: tuple[Any, ...], address: str) -> None:
        info = hello[8]
        for number, (name, _) in list(self.ids.items()):
            if name == info["node_id"].hex():  # its first greeting was not answered
                self._dismiss(number, "has joined again")
        self._newest = number = self._newest + 1
        members = [(HEAD, self.info, self.address)]
        members += [(member[1], known, self.addresses[member[1]]) for member, known in self.infos.items()]
        now = self.clock()
        self.directory.register(number, now)
        self.directory.heard(number, now)
        self.order.admit(number, (info, address))
        connection.push(WELCOME, self.epoch, self.order.view, 0, number, self.config, members)
        connection.channel.raise_limit()
        self._establish(self._lane(number), connection, 0)
        self.add(number, info, address)

    # -- what the carrier tells

    def registered(self, name: str, address: str) -> None:
        """Admit a node that has said hello, or let a member be reached at this address."""
        early = self._early.pop(name, None)
        if early is not None and not early[0].closed:
            self._strangers.discard(early[0])
            self._admit(*early, address)
        else:
            for number in self._numbers(name):
                self.addresses[number] = address
                self._reconnected(number)
        self.flush()

    def unregistered(self, name: str) -> None:
        """Handle the end of a registration: together with the end of the connection, it is the end of the member."""
        for number in self._numbers(name):
            self.act(self.directory.unregistered(number))
        self.flush()

    def _numbers(self, name: str) -> list[int]:
        return [number for number, member in self.ids.items() if member[0] == name]

    # -- the directory

    def heard(self, peer: int) -> None:
        """Note that something has come from a member."""
        self.act(self.directory.heard(peer, self.clock()))

    def wrote(self, peer: int, number: int) -> None:
        """Note a numbered write to a member."""
        if peer in self.directory.members:
            self.directory.wrote(peer, number, self.clock())

    def confirmed(self, peer: int, number: int) -> None:
        """Note the receipt of a member."""
        if peer in self.directory.members:
            self.directory.confirmed(peer, number)

    def hears(self, about: int) -> bool:
        """Return True if this node hears a member."""
        return self.directory.hears(about, self.clock())

    def answered(self, peer: int, about: int, hears: bool) -> None:
        """Note what another member says about one."""
        self.act(self.directory.answer(peer, about, hears))

    def accepts(self, peer: int, epoch: int) -> bool:
        """Return True if a member has this head's epoch, or none yet."""
        return epoch <= self.epoch

    def connected(self, peer: int) -> None:
        """Handle a new connection to a member."""
        self._reconnected(peer)

    def _reconnected(self, number: int) -> None:
        lane = self.lanes.get(number)
        name = self.ids.get(number, ("", 0))[0]
        if lane is not None and lane.connection is not None and name in self.carrier.members():
            self.directory.reconnected(number)

    def disconnected(self, peer: int) -> None:
        """Handle the end of a connection to a member."""
        self.act(self.directory.disconnected(peer))

    def look(self, now: float) -> None:
        """Have the directory see the time."""
        self.act(self.directory.tick(now))

    def act(self, actions: Iterable[HeadAction | MemberAction]) -> None:
        """Carry out what the directory asks for."""
        for action in actions:
            match action:
                case Beat(to):
                    self.post(to, BEAT)
                case Ask(peer, about):
                    self.express(peer, ASK, about)
                case Relay(peer, via):
                    self.reroute(peer, via)
                case Bury(member, reason, _):
                    self._dismiss(member, self.reasons.pop(member, reason))
                case Refuse(member):
                    self._refuse(member)

    def _dismiss(self, number: int, reason: str) -> None:
        """End a membership: what has arrived is delivered, and nothing more is read."""
        self.order.dismiss(number, reason)
        self._refuse(number)
        self._bury()

    def _refuse(self, number: int) -> None:
        lane = self.lanes.get(number)
        if lane is not None and lane.connection is not None:
            lane.connection.refuse("the head has declared this node dead", True)
            lane.close()
