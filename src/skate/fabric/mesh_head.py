"""The head of a mesh: it admits members, gives the verdict on them, and tells the others.

A head that was started again takes over the members of the one before, for a time in which it declares nobody dead. A member
returns in two steps, since its greeting is small: it greets and gets another lane, and then says whom it knows. The others are
told in one sequence of changes, so that all know the same members before anything arrives that depends on it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skate.fabric.connection import ECHO, PULSE, Connection, packed_frame, packed_welcome
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
from skate.fabric.lanes import BEHIND_HEAD, CLIENT_PATIENCE_SECONDS
from skate.fabric.mesh import ASK, BEAT, Mesh
from skate.fabric.order import Order
from skate.fabric.order_lane import base_of
from skate.wire.timer import Timer

if TYPE_CHECKING:
    from skate.fabric.carrier import Carrier
    from skate.fabric.lane import Lane
    from skate.wire.pump import Pump


#: How much longer than the silence that ends a member a new head waits for the members of the one before.
RETURN_SECONDS: Final = 5.0
#: With more members, the news of those that join is told more rarely in proportion, so that all cost the head as much as a few.
TELL_MEMBERS: Final = 200
#: Members that end within so many seconds after another one are told to the rest together.
VERDICT_SECONDS: Final = 0.05
#: The pulses of members that come between two ticks come in so many groups at most, and each is of so many members at least.
GROUPS_MAX: Final = 16
GROUP_MEMBERS: Final = 128
#: Pulses that come with less between them count as one group.
TOGETHER_SECONDS: Final = 0.002


class Predecessor(NamedTuple):
    """The head before: its epoch, a number that no member had after it, and its members by the id of the node."""

    epoch: int
    newest: int
    knows: Callable[[bytes], bool]


class MeshHead(Mesh):
    """The head's end. A member's name at the carrier is the id of its node, in hexadecimal."""

    def __init__(
        self,
        pump: Pump,
        info: dict[str, Any],
        config: dict[str, Any],
        carrier: Carrier,
        *,
        predecessor: Predecessor | None = None,
        timing: Timing = Timing(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(pump, info, carrier, timing, clock)
        self.config = config  # settings that nodes adopt from the head
        self.address = carrier.address
        self.epoch = 1 if predecessor is None else predecessor.epoch + 1
        self.order = Order(HEAD, view=base_of(self.epoch))
        self.order.holds_news = True
        self._began = clock()
        self._told_at = self._began - timing.beat
        self.directory = HeadDirectory(self.epoch, clock(), timing)
        #: Called when this head has to end, because there is a later one.
        self.on_end: Callable[[], None] = lambda: None
        #: Called with the number of each new member, before it can be used.
        self.numbered: Callable[[int], None] = lambda number: None
        self._predecessor = predecessor
        self._returns_end = clock() + timing.silence + RETURN_SECONDS
        #: Members of the head before that another one knows, and that have not returned: description and address.
        self._awaited: dict[int, tuple[dict[str, Any], str]] = {}
        self._entries: dict[int, bytes] = {}  # packed descriptions of the members
        #: Members that were declared dead before they had said that.
        self._dead: set[int] = set()
        #: Members that have returned, and have not said yet whom they know.
        self._returning: dict[int, tuple[dict[str, Any], str]] = {}
        #: Members that are dead by the directory, and have yet to be removed, with the reason.
        self._verdicts: dict[int, str] = {}
        self._verdict_timer: Timer | None = None  # while members have just ended
        #: The expected reason of a member's end, if known beforehand.
        self.reasons: dict[int, str] = {}
        self._newest = HEAD if predecessor is None else predecessor.newest
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
            self._await_registration(connection, hello)
        else:
            self._admit(connection, hello, address)

    def _await_registration(self, connection: Connection, hello: tuple[Any, ...]) -> None:
        name = hello[2].hex()
        self._early[name] = connection, hello
        connection.gone = lambda given: self._forget(name, given)
        connection.take = lambda given, frames: given.close()  # it has to wait for the answer
        self._strangers.add(connection)

    def _forget(self, name: str, connection: Connection) -> None:
        self._strangers.discard(connection)
        early = self._early.get(name)
        if early is not None and early[0] is connection:
            del self._early[name]

    def _admit(self, connection: Connection, hello: tuple[Any, ...], address: str) -> None:
        if hello[3] != HEAD:
            self._readmit(connection, hello, address)
            return
        info = hello[8]
        for number, (name, _) in list(self.ids.items()):
            if name == info["node_id"].hex():  # its first greeting was not answered
                self._dismiss(number, "has joined again")
        self._newest = number = self._newest + 1
        self.numbered(number)
        members = self._known()
        self._announce(number, info, address)
        self._welcome(connection, number, members, bool(info.get(BEHIND_HEAD)))
        self.add(number, info, address)

    def _announce(self, number: int, info: dict[str, Any], address: str) -> None:
        """Tell the others of a member: at once, but when many join, of all of them at a later tick."""
        self.order.admit(number, (info, address), packed_frame((number, (info, address))))
        self._tell(self.clock())

    def _tell(self, now: float) -> None:
        """Have the others learn of new members, unless they did just now; with many others that is rarer."""
        if now - self._told_at >= self.timing.beat / 4 * max(1.0, len(self.ids) / TELL_MEMBERS):
            self._told_at = now
            self.order.tell()

    def _known(self, but: int = -1) -> list[bytes]:
        """Return the packed members, with their addresses, and True for those that know this head."""
        found = [packed_frame((HEAD, self.info, self.address, True))]
        found += [entry for number, entry in self._entries.items() if number != but]
        return found + [packed_frame((number, *known, False)) for number, known in self._awaited.items()]

    def _describe(self, number: int) -> None:
        """Pack the description of a member for those who join later."""
        self._entries[number] = packed_frame(
            (number, self.infos[self.ids[number]], self.addresses[number], True)
        )

    def add(self, number: int, info: dict[str, Any], address: str) -> None:
        """Add a member."""
        super().add(number, info, address)
        if number in self.ids:
            self._describe(number)

    def drop(self, number: int, reason: str) -> None:
        """Remove a member that has ended."""
        self._entries.pop(number, None)
        super().drop(number, reason)

    def _welcome(
        self,
        connection: Connection,
        number: int,
        members: list[bytes],
        is_client: bool,
    ) -> None:
        now = self.clock()
        self.directory.register(number, now, CLIENT_PATIENCE_SECONDS if is_client else 0.0)
        self.directory.heard(number, now)
        base = base_of(self.epoch)
        welcome = packed_welcome(self.epoch, self.order.view, base, number, self.config, members)
        connection.channel.queued.append(welcome)
        connection.channel.raise_limit()
        self._establish(self._lane(number), connection, base)

    # -- members of the head before

    def returns(self, connection: Connection, hello: tuple[Any, ...]) -> None:
        """Take over a member of the head before, or leave if there is a later head."""
        name, number, epoch = hello[2].hex(), hello[3], hello[5]
        before = self._predecessor
        if epoch > self.epoch:
            connection.refuse(f"this head has epoch {self.epoch}, and you have followed a later one")
            self.on_end()
        elif (
            before is None
            or self.clock() >= self._returns_end
            or not before.knows(hello[2])
            or number in self._dead
        ):
            connection.refuse("this node is no longer a member of the cluster", True)
        elif number in self.ids or not isinstance(hello[8], dict) or hello[8].get("node_id") != hello[2]:
            connection.close()  # it says that it knows this head, and has forgotten it
        else:
            address = self.carrier.members().get(name)
            if address is None:
                self._await_registration(connection, hello)
            else:
                self._readmit(connection, hello, address)

    def _readmit(self, connection: Connection, hello: tuple[Any, ...], address: str) -> None:
        """Begin a lane to a member of the head before; it is a member again once it has said whom it knows."""
        number = hello[3]
        self._awaited.pop(number, None)
        self._returning[number] = hello[8], address
        lane = self.lanes.pop(number, None)  # its first greeting was not answered
        if lane is not None:
            lane.close()
        self.order.return_to(number)
        self._welcome(connection, number, self._known(but=number), bool(hello[8].get(BEHIND_HEAD)))

    def returned(self, number: int, members: tuple[Any, ...]) -> None:
        """Tell the others of a member that has returned, and before of those that only it knows."""
        if number not in self._returning:
            return
        for other, info, address in members:
            if other not in (HEAD, number) and other not in self.order.members and other not in self._awaited:
                self._awaited[other] = info, address
                self.order.foretell(other, (info, address))
        info, address = self._returning.pop(number)
        self._announce(number, info, address)
        self.add(number, info, address)

    def _end_returns(self) -> None:
        """Declare dead those who have not returned."""
        self._predecessor = None
        for number in list(self._awaited):
            lane = self.lanes.pop(number, None)
            if lane is not None:
                lane.close()
            self.order.dismiss(number, "has not returned to the head that was started again")
            self._deliver(self.order.ended(number))
        self._awaited.clear()

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
                self._describe(number)
                self._reconnected(number)
        self.flush()

    def unregistered(self, name: str) -> None:
        """Handle the end of a registration: together with the end of the connection, it is the end of the member."""
        for number in self._numbers(name):
            self.act(self.directory.unregistered(number, self.clock()))
        self.flush()

    def _numbers(self, name: str) -> list[int]:
        return [number for number, member in self.ids.items() if member[0] == name]

    # -- the directory

    def heard(self, peer: int) -> None:
        """Note that something has come from a member."""
        self.act(self.directory.heard(peer, self.clock()))

    def pulsed(self, lane: Lane, frame: tuple[Any, ...]) -> None:
        """Echo a pulse of a member."""
        kind, pulse, echoed = frame
        if kind != PULSE or type(pulse) is not int or type(echoed) is not int:
            raise ValueError(f"{frame!r:.80} as a pulse")
        now = self.clock()
        actions = self.directory.pulsed(lane.peer, pulse, echoed, now)
        if actions:
            self.act(actions)
        elif lane.connection is not None:
            lane.connection.push(ECHO, pulse, self._late_us(now))
            lane.connection.flush()

    def _late_us(self, now: float) -> int:
        """Return how much later a pulse has come than others do, or earlier if negative; half of it, so that chance counts less.

        To wake up costs more than to echo a pulse, so pulses come in groups: the first with this head's own tick.
        """
        width = self.timing.beat / 4 / min(GROUPS_MAX, max(1, len(self.ids) // GROUP_MEMBERS))
        late = (now - self._began + width / 2) % width - width / 2
        return round(late * 500_000) if abs(late) > TOGETHER_SECONDS else 0

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
        """Return True if a member has this head's epoch."""
        return epoch == self.epoch

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
        self.act(self.directory.disconnected(peer, self.clock()))

    def look(self, now: float) -> None:
        """Have the directory see the time."""
        if self._predecessor is not None and now >= self._returns_end:
            self._end_returns()
        if len(self.ids) <= TELL_MEMBERS:  # at each tick
            self._told_at = -math.inf
        self._tell(now)
        self.act(self.directory.tick(now))
        if self._verdicts:
            self._end_members()

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
                    self._end_soon(member, self.reasons.pop(member, reason))
                case Refuse(member):
                    self._refuse(member)

    def _end_soon(self, number: int, reason: str) -> None:
        """End a membership: at once, but if another has just ended, together with those that end until a little later."""
        self._verdicts[number] = reason
        if self._verdict_timer is None:
            self._end_members()
            self._verdict_timer = Timer(self.pump, VERDICT_SECONDS, self._more_verdicts)

    def _more_verdicts(self) -> None:
        if self._verdicts:
            self._end_members()
            self.flush()
        elif self._verdict_timer is not None:
            self._verdict_timer.close()
            self._verdict_timer = None

    def _end_members(self) -> None:
        """End all memberships on which there is a verdict. None of them is told of the others."""
        verdicts, self._verdicts = self._verdicts, {}
        for number, reason in verdicts.items():
            self._close_lane(number, reason)
        self._bury()

    def _dismiss(self, number: int, reason: str) -> None:
        """End a membership: what has arrived is delivered, and nothing more is read."""
        self._close_lane(number, reason)
        self._bury()

    def _close_lane(self, number: int, reason: str) -> None:
        self.order.dismiss(number, reason)
        if self._returning.pop(number, None) is not None:
            self._dead.add(number)
        self._refuse(number)

    def _refuse(self, number: int) -> None:
        lane = self.lanes.get(number)
        if lane is not None and lane.connection is not None:
            lane.connection.refuse("the head has declared this node dead", True)
            lane.close()

    # -- the end

    def forked(self) -> None:
        """In a forked child: close the inherited descriptors."""
        if self._verdict_timer is not None:
            self._verdict_timer.forked()
        super().forked()

    def close(self) -> None:
        """Leave the cluster."""
        if self._verdict_timer is not None:
            self._verdict_timer.close()
            self._verdict_timer = None
        super().close()
