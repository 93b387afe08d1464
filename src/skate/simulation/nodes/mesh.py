"""A mesh of channels: each node writes to each other one directly, so that only `skate.fabric.order` keeps frames in order.

An adversary holds single links and all links of a node, makes some links slow for a whole run, breaks connections so that each
direction loses a suffix, and sends the traffic of a pair through the head. Nothing but the `Order` of each node makes up for it.
Bytes of values take channels of their own, as they will with a real fabric.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any, NamedTuple

from skate.fabric.order import DATA, EXPRESS, JOINED, Delivery, Order
from skate.fabric.order_lane import Receipt, Write
from skate.protocol.causality import BINDING
from skate.simulation.faults.rates import PAUSES
from skate.simulation.nodes.member import HEAD, Node
from skate.simulation.nodes.world import World

if TYPE_CHECKING:
    from collections.abc import Collection

#: The share of steps in which a link may move, drawn for each link: most are quick, a few nearly stand still.
PACES = (1, 1, 1, 1, 1, 1, 0.1, 0.01, 0.0005)
OF_VALUES = ("read", "piece")  # frames that carry values
RECEIPTS = 0.3  # how often a tick sends a bare receipt
TURN = 0.1  # how often a tick ages the stamps, if nothing is older than that


class Hello(NamedTuple):
    """The first item of a connection: how many writes its sender has received, and its view."""

    received: int
    view: int


Item = Write | Receipt | Hello | tuple[Any, ...]


class Departure(NamedTuple):
    """Something that a node finds out about another one."""

    cluster: Node
    member: int


class Wire:
    """One direction between two nodes."""

    def __init__(self, mesh: Mesh, source: int, to: int, pace: float) -> None:
        self.mesh = mesh
        self.source = source
        self.to = to
        self.pace = pace
        self.items: deque[Item] = deque()
        self.turn = 0  # in which the first of the items was written, at the earliest
        self.held = 0.0  # until when nothing moves
        self.is_open = True  # or the other end has not said hello yet

    @property
    def cluster(self) -> Node:
        """The node that reads."""
        return self.mesh.nodes[self.to]

    def __repr__(self) -> str:
        return f"<Wire {self.source} to {self.to}: {len(self.items)}>"


class Mesh(World):
    """Nodes with channels to each other."""

    def __init__(self, *arguments: Any, binding: Collection[int] = BINDING, **options: Any) -> None:
        self.binding = binding
        self.orders: dict[int, Order] = {}
        self.wires: dict[tuple[int, int, bool], Wire] = {}  # from, to, of values
        self.detours: dict[tuple[int, int], float] = {}  # pairs that go through the head, until when
        self.connections: Counter[tuple[int, int]] = Counter()  # how many each pair has had
        self.turn = 0
        self.healed = False
        super().__init__(*arguments, **options)

    def add(self, cpus: int, site: int | None = None) -> Node:
        """Add a node; at the site of a lost node, it is that node under a new id."""
        number = len(self.nodes)
        node = self.nodes[number] = Node(self, number, cpus, number if site is None else site)
        if number == HEAD:
            self.orders[HEAD] = Order(HEAD)
            return node
        head = self.orders[HEAD]
        head.admit(number, node.info())
        self.orders[number] = Order(number, (head.members | {HEAD}) - {number}, head.view)
        for other in sorted(self.orders[number].members):
            node.add_peer(other, self.nodes[other].info())
        self.nodes[HEAD].add_peer(number, node.info())
        node.apply()
        self.nodes[HEAD].apply()
        return node

    def is_member(self, number: int) -> bool:
        """Return True if the head counts a node as a member."""
        head = self.orders[HEAD]
        return number in head.members and number not in head.closing

    def is_up(self, number: int) -> bool:
        """Return True if a node is alive and has connections."""
        node = self.nodes[number]
        return node.alive and not node.fenced

    # -- writing

    def wire(self, source: int, to: int, of_values: bool = False) -> Wire:
        """Return the channel from one node to another."""
        found = self.wires.get((source, to, of_values))
        if found is None:
            pace = 1.0 if self.healed else self.rng.choice(PACES)
            found = self.wires[source, to, of_values] = Wire(self, source, to, pace)
        return found

    def post(self, source: int, to: int, frame: tuple[Any, ...]) -> None:
        """Queue a frame."""
        if frame[0] in OF_VALUES:
            if self.is_up(source) and self.is_up(to):
                self.wire(source, to, True).items.append(frame)
            return
        message = frame[1]
        self.orders[source].send(to, message, binds=message[0] in self.binding)
        if self.rng.random() < 0.5:
            self.flush(source)

    def flush(self, source: int) -> None:
        """Write what a node has queued."""
        while writes := self.orders[source].writes():
            for to, write in writes:
                self.put(source, to, write)

    def put(self, source: int, to: int, item: Item) -> None:
        """Put an item on its way to another node, if there is a connection."""
        if not (self.is_up(source) and self.is_up(to)):
            return
        wire = self.wire(source, to)
        if not wire.is_open and not isinstance(item, Hello):
            return
        if self.is_detoured(source, to):
            connection = self.connections[min(source, to), max(source, to)]
            self.orders[source].send_express(HEAD, (source, to, connection, item))
            return  # it is written with the next ones
        if not wire.items:
            wire.turn = self.turn
        wire.items.append(item)

    def is_detoured(self, one: int, other: int) -> bool:
        """Return True if two nodes reach each other only through the head."""
        return (min(one, other), max(one, other)) in self.detours

    # -- reading

    def carry(self, wire: Wire) -> None:
        """Have a node read the first item of a channel."""
        item = wire.items.popleft()
        self.record("carry", wire.source, wire.to, item)
        self.read(wire.source, wire.to, item)

    def read(self, source: int, to: int, item: Item) -> None:
        """Have a node handle an item from another one."""
        node, order = self.nodes[to], self.orders[to]
        if not node.alive:
            return
        self.observer.counts["messages"] += 1
        if isinstance(item, Write):
            self.hand_over(to, order.receive(source, item))
        elif isinstance(item, Receipt):
            order.receipted(source, item)
        elif isinstance(item, Hello):
            if not order.is_over(source, item.view):
                self.wire(to, source).is_open = True
                for write in order.resume(source, item.received):
                    self.put(to, source, write)
        else:
            node.hear(source, item)

    def hand_over(self, to: int, deliveries: list[Delivery]) -> None:
        """Give a node what its order delivers, until it is killed."""
        node = self.nodes[to]
        for source, kind, frames in deliveries:
            for frame in frames:
                if not node.alive:
                    return
                if kind == DATA:
                    node.hear(source, ("message", frame))
                elif kind == EXPRESS:
                    self.relay(to, frame)
                elif kind == JOINED:
                    node.hear(HEAD, ("joined", *frame))
                else:
                    node.hear(HEAD, ("left", frame[0]))

    def relay(self, here: int, frame: tuple[int, int, int, Item]) -> None:
        """Pass on an item that takes a detour, or take it at its end, unless the pair has another connection by then."""
        source, to, connection, item = frame
        if connection != self.connections[min(source, to), max(source, to)]:
            return
        if here == to:
            self.read(source, to, item)
        else:
            self.orders[here].send_express(to, frame)

    # -- faults

    def strike(self, kind: str) -> None:
        """Inject a fault."""
        if kind in ("link", "reset", "detour"):
            pairs = [wire for (_, _, of_values), wire in self.wires.items() if not of_values]
            if pairs:
                getattr(self, "break_" + kind)(pairs[self.rng.randrange(len(pairs))])
        else:
            super().strike(kind)

    def break_link(self, wire: Wire) -> None:
        """Hold one direction between two nodes for a while."""
        self.observer.counts["fault link"] += 1
        wire.held = self.now + self.rng.choice(PAUSES)
        self.record("link", wire.source, wire.to)

    def break_reset(self, wire: Wire) -> None:
        """Break the connection of two nodes."""
        self.reset(wire.source, wire.to)

    def reset(self, one: int, other: int) -> None:
        """Break the connection of two nodes, with a suffix lost in each direction, and make another."""
        if not (self.is_up(one) and self.is_up(other)):
            return
        self.observer.counts["fault reset"] += 1
        self.record("reset", one, other)
        self.connections[min(one, other), max(one, other)] += 1
        for source, to in ((one, other), (other, one)):
            wire = self.wire(source, to)
            self.lose_suffix(wire)
            wire.is_open = False
        for source, to in ((one, other), (other, one)):
            order = self.orders[source]
            self.put(source, to, Hello(order.received(to), order.view))

    def break_detour(self, wire: Wire) -> None:
        """Have two nodes reach each other only through the head for a while."""
        one, other = sorted((wire.source, wire.to))
        if one != HEAD and (one, other) not in self.detours and self.is_up(one) and self.is_up(other):
            self.observer.counts["fault detour"] += 1
            self.detours[one, other] = self.now + self.rng.choice(PAUSES)
            self.reset(one, other)

    def end_detour(self, wire: Wire) -> None:
        """Have two nodes connect directly again."""
        del self.detours[wire.source, wire.to]
        self.reset(wire.source, wire.to)

    def lose_suffix(self, wire: Wire) -> None:
        """Lose the last items of a channel."""
        for _ in range(self.rng.randrange(len(wire.items) + 1)):
            wire.items.pop()

    def lose(self, node: Node) -> None:
        """Break all connections of a node, each with a suffix lost; the head finds out, and tells the others."""
        self.count_lost(node)
        number = node.number
        for wire in list(self.wires.values()):
            if wire.source == number or (wire.to == number and node.alive):
                self.lose_suffix(wire)
            elif wire.to == number:
                wire.items.clear()
        for pair in [pair for pair in self.detours if number in pair]:
            del self.detours[pair]
        self.restart(node)

    def dismiss(self, what: Departure) -> None:
        """Have the head find out that a node is lost."""
        self.record("dismiss", what.member)
        self.orders[HEAD].dismiss(what.member, "was lost")

    def bury(self, what: Departure) -> None:
        """Tell a node, which knows that another one leaves, that it has read everything of it."""
        self.record("bury", what.cluster.number, what.member)
        self.hand_over(what.cluster.number, self.orders[what.cluster.number].ended(what.member))

    def heal(self) -> None:
        """Stop all faults, and release everything that is held up."""
        super().heal()
        self.healed = True
        for wire in self.wires.values():
            wire.held, wire.pace = 0.0, 1.0
        for pair in list(self.detours):
            self.end_detour(self.wire(*pair))

    # -- events

    def channel_events(self) -> list[tuple[Any, Any]]:
        """Return the channels that can move an item, and what else nodes find out; slow ones if there is nothing else."""
        now = self.now
        found: list[tuple[Any, Any]] = []
        slow: list[tuple[Any, Any]] = []
        for wire in self.wires.values():
            if wire.items and self.passes(wire):
                late = wire.pace < 1 and self.rng.random() > wire.pace
                (slow if late else found).append((self.carry, wire))
        for number, node in self.nodes.items():
            if self.is_found(number):
                found.append((self.dismiss, Departure(self.nodes[HEAD], number)))
            if node.alive:
                found += [
                    (self.bury, Departure(node, member))
                    for member in self.orders[number].closing
                    if not self.is_up(member) and not self.wire(member, number).items
                ]
        found += [(self.end_detour, self.wire(*pair)) for pair, until in self.detours.items() if until <= now]
        return found or slow

    def passes(self, wire: Wire) -> bool:
        """Return True if nothing holds a channel."""
        now = self.now
        if wire.held > now:
            return False
        return not self.held or max(self.held.get(wire.source, 0.0), self.held.get(wire.to, 0.0)) <= now

    def is_found(self, number: int) -> bool:
        """Return True if the head can find out that a node is lost."""
        return not self.is_up(number) and self.is_member(number)

    def next_release(self) -> float | None:
        """Return when the next held node or channel may move; None if nothing is held."""
        now = self.now
        times = [wire.held for wire in self.wires.values() if wire.items and wire.held > now]
        times += [until for until in self.detours.values() if until > now]
        other = super().next_release()
        return min(times if other is None else [*times, other], default=None)

    def step(self) -> bool:
        """Execute one event, and write what follows from it."""
        moved = super().step()
        self.flush_all()
        return moved

    def flush_all(self) -> None:
        """Write what all nodes have queued."""
        for number, node in list(self.nodes.items()):
            if node.alive:
                self.flush(number)

    def tick(self) -> float | None:
        """Advance the time of all nodes; send receipts and age stamps now and then."""
        wanted = super().tick()
        if self.healed:  # no step may follow that would write what the nodes say now
            self.flush_all()
        for source, to, of_values in list(self.wires):
            if not of_values and (self.healed or self.rng.random() < RECEIPTS):
                self.send_receipt(to, source)
        if self.rng.random() < TURN and self.is_prompt():
            self.turn += 1
            for order in self.orders.values():
                order.turn()
        return wanted

    def send_receipt(self, source: int, to: int) -> None:
        """Send what a node has received of another one, if it has not been said."""
        if self.is_up(source) and self.is_up(to) and self.wire(source, to).is_open:
            receipt = self.orders[source].receipt(to)
            if receipt is not None:
                self.put(source, to, receipt)

    def is_prompt(self) -> bool:
        """Return True if everything that was written before the last turn has been delivered: then there can be another."""
        for (source, to, _), wire in self.wires.items():
            late = not wire.is_open or (wire.items and wire.turn < self.turn)
            if late and self.is_up(source) and self.is_up(to):
                return False
        return not any(self.orders[number].held() for number, node in self.nodes.items() if node.alive)

    def check_quiet(self) -> None:
        """Assert also that the lanes are at rest: nothing is held back, unconfirmed, or in a stamp of its source."""
        super().check_quiet()
        living = [number for number, node in self.nodes.items() if node.alive]
        for number in living:
            order = self.orders[number]
            order.check()
            assert not order.held(), f"{order} never delivers {order.held()}"
            assert not order.closing, f"{order} waits for the end of {order.closing}"
            assert order.members == set(living) - {number}, f"{order} has other members than {living}"
            unconfirmed = [peer for peer in order.members if order.backlog(peer)]
            assert not unconfirmed, f"{order} has no receipt of {unconfirmed}"
            own = [stamp for stamp in order.stamps if stamp[1] == number]
            assert not own, f"{order} still gives out {own}"
