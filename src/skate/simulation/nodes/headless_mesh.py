"""A mesh whose head is killed, at any record and between a record and what follows from it, and begins again from its records.

The disk outlives the head. A record goes to it some time after the head has appended it, and the head learns of that later: the
head may die before, between and after. Each member finds the next head some time after that has begun. Calls between members
continue all the time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from skate.core.recovery.records import compacted, epoch_of
from skate.fabric.order import FORETOLD, JOINED, LEFT, Delivery, Order
from skate.fabric.order_lane import base_of
from skate.protocol import registry_records as rr
from skate.protocol import shell_events as se
from skate.protocol.effects import AppendRecords
from skate.simulation.checks import between_nodes
from skate.simulation.nodes.member import CIDS, HEAD, Node
from skate.simulation.nodes.mesh import Departure, Hello, Item, Mesh

if TYPE_CHECKING:
    from skate.core.node_options import NodeOptions

#: More than the nodes of a run: the processes of each head have numbers of their own.
NODES = 100


class HeadlessMesh(Mesh):
    """A mesh with a store of its registry."""

    def __init__(self, *arguments: Any, deaths: int = 2, death: float = 0.1, **options: Any) -> None:
        self.deaths = deaths  # how often the head is still to die
        self.death = death  # how likely before each record, between it and its answer, and after that
        self.disk: list[rr.RegistryRecord] = []
        self.appended: deque[AppendRecords] = deque()
        self.unanswered: deque[int] = deque()
        self.absent: set[int] = set()  # members that have not found the head
        self.epoch = 1
        self.refused = 0
        super().__init__(*arguments, **options)
        self._store_all()
        self.nodes[HEAD].driver()  # which knows all actors, to end them

    def identity(self, number: int) -> tuple[bytes, int, NodeOptions]:
        """Return the id of a new node; those of heads begin with their epoch."""
        if number != HEAD:
            return super().identity(number)
        node_id, first_cid, _ = super().identity(HEAD)
        records = list(self.disk)
        self.epoch = epoch_of(records) + 1
        self.disk.append(rr.EpochRecord(rr.EPOCH, self.epoch))
        if self.epoch > 1:
            node_id = f"hd{self.epoch:06}".encode() + node_id[8:]
            first_cid += self.epoch * NODES * CIDS
        return node_id, first_cid, {"records": records}

    # -- the store

    def append(self, effect: AppendRecords) -> None:
        """Take records of the head."""
        self.appended.append(effect)

    def store(self, what: Departure) -> None:
        """Write the first records to the disk, unless the head dies before."""
        if self._dies():
            return
        number, records = self.appended.popleft()
        self.record("store", number, records)
        self.disk += records
        self.unanswered.append(number)

    def answer(self, what: Departure) -> None:
        """Let the head know what was stored, unless it dies before."""
        if self._dies():
            return
        number = self.unanswered[0]
        while self.unanswered and (self.unanswered[0] == number or self.rng.random() < 0.5):
            number = self.unanswered.popleft()
        self.record("stored", number)
        head = self.nodes[HEAD]
        head.tell(se.RecordsStored(se.RECORDS_STORED, number))
        head.apply()
        self._dies()

    def _store_all(self) -> None:
        while self.appended:
            number, records = self.appended.popleft()
            self.disk += records
            head = self.nodes[HEAD]
            head.tell(se.RecordsStored(se.RECORDS_STORED, number))
            head.apply()

    # -- the end of a head, and the next one

    def _dies(self) -> bool:
        if not self.deaths or self.absent or self.rng.random() >= self.death:
            return False
        self.deaths -= 1
        self.observer.counts["fault head"] += 1
        self.kill(self.nodes[HEAD])
        return True

    def lose(self, node: Node) -> None:
        """Break all connections of the head."""
        if node.number != HEAD:
            super().lose(node)
            return
        self.count_lost(node)
        recorded = {each.actor_id for each in self.disk if isinstance(each, rr.ActorRecord)}
        between_nodes.check_recorded([each for each in self.nodes.values() if each.alive], recorded)
        for pair in list(self.detours):
            self.end_detour(self.wire(*pair))
        for wire in self.wires.values():
            if HEAD in (wire.source, wire.to):
                wire.items.clear()
                wire.is_open = False
        self.appended.clear()
        self.unanswered.clear()
        self.absent = {number for number, each in self.nodes.items() if each.alive}

    def restart(self, node: Node) -> None:
        """Add a lost node again, perhaps, if there is a head to join."""
        if self.nodes[HEAD].alive:
            super().restart(node)

    def begin(self, what: Departure) -> None:
        """Start the next head."""
        old = self.nodes[HEAD]
        head = self.nodes[HEAD] = Node(self, HEAD, old.cpus, old.site)
        self.record("begin", self.epoch)
        head.driver()
        numbers = {each.node_id: number for number, each in self.nodes.items()}
        known = compacted(self.disk)
        members = {numbers[each.node_id] for each in known if isinstance(each, rr.MemberRecord)}
        self.orders[HEAD] = Order(HEAD, members, base_of(self.epoch))
        head.apply()

    def dial(self, what: Departure) -> None:
        """Have a member find the head, and register there."""
        number = what.member
        self.record("dial", number)
        self.absent.discard(number)
        head, node = self.nodes[HEAD], self.nodes[number]
        order = self.orders[number]
        for one, other in ((HEAD, number), (number, HEAD)):
            self.wire(one, other).is_open = True
        first = base_of(self.epoch)
        for other in sorted(order.members - self.orders[HEAD].members - {HEAD, number}):
            # The head before has recorded that it is gone, and told nobody.
            self.orders[HEAD].foretell(other, self.nodes[other].info())
        if number not in self.orders[HEAD].members:  # it had just joined, and was not recorded
            self.orders[HEAD].admit(number, node.info())
        others = {each: self.nodes[each].info() for each in self.orders[HEAD].members - {number}}
        head.add_peer(number, node.info())
        head.apply()
        news = [Delivery(HEAD, LEFT, ((HEAD, "was lost"),)), Delivery(HEAD, JOINED, ((HEAD, head.info()),))]
        news += [
            Delivery(HEAD, JOINED, ((each, others[each]),)) for each in sorted(others.keys() - order.members)
        ]
        numbers = {HEAD, *others}
        self.hand_over(number, news + order.change_head(first, numbers, numbers))
        for source, to in ((HEAD, number), (number, HEAD)):
            for write in self.orders[source].resume(to, first):
                self.put(source, to, write)
        self.flush(number)

    def hand_over(self, to: int, deliveries: list[Delivery]) -> None:
        """Give a node what its order delivers, without news of members that it knows."""
        for each in deliveries:
            if each.kind in (JOINED, FORETOLD):
                if each.frames[0][0] not in self.nodes[to].peers.values():
                    super().hand_over(to, [each._replace(kind=JOINED)])
            else:
                super().hand_over(to, [each])

    def reset(self, one: int, other: int) -> None:
        """Break a connection: what its ends have said at its beginning is void."""
        for wire in (self.wire(one, other), self.wire(other, one)):
            kept = [item for item in wire.items if not isinstance(item, Hello)]
            wire.items.clear()
            wire.items.extend(kept)
        super().reset(one, other)

    def post(self, source: int, to: int, frame: tuple[Any, ...]) -> None:
        """Queue a frame, unless the head is not there or not known to the other end."""
        if not self._is_apart(source, to):
            super().post(source, to, frame)

    def put(self, source: int, to: int, item: Item) -> None:
        """Put an item on its way, unless the head is not there or not known to the other end."""
        if not self._is_apart(source, to):
            super().put(source, to, item)

    def _is_apart(self, source: int, to: int) -> bool:
        return HEAD in (source, to) and (source in self.absent or to in self.absent)

    def heal(self) -> None:
        """Stop all faults: the head lives from now on."""
        super().heal()
        self.deaths = 0
        head = self.nodes[HEAD]
        if not head.alive:
            self.begin(Departure(head, HEAD))

    def check_quiet(self) -> None:
        """Assert also that whatever a member has killed has ended, whichever head was to end it."""
        super().check_quiet()
        killed = [actor_id for actor_id, node in self.observer.killed.items() if node.number != HEAD]
        between_nodes.check_killed(self.nodes[HEAD], killed)

    # -- events

    def is_found(self, number: int) -> bool:
        """Return True if there is a head, and it can find out that a node is lost."""
        return self.nodes[HEAD].alive and super().is_found(number)

    def channel_events(self) -> list[tuple[Any, Any]]:
        """Return what channels, the store and a new head can do next."""
        head = self.nodes[HEAD]
        if not head.alive:
            return [*super().channel_events(), (self.begin, Departure(head, HEAD))]
        living = [number for number in sorted(self.absent) if self.nodes[number].alive]
        found = [(self.dial, Departure(self.nodes[number], number)) for number in living]
        if self.appended:
            found.append((self.store, Departure(head, HEAD)))
        if self.unanswered:
            found.append((self.answer, Departure(head, HEAD)))
        return found + super().channel_events()
