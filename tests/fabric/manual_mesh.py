"""A mesh of nodes whose time passes only when a test says so."""

from __future__ import annotations

from skate.fabric.directory import Timing
from skate.fabric.mesh_head import MeshHead, Predecessor
from tests.fabric.carriers import PairCarrier
from tests.fabric.clusters import MeshCluster, Node, Recorder, info_of

WORD = 99
STEP = 0.1
#: For how long members continue without a head.
GRACE_S = 60.0


class Manual(MeshCluster):
    """A mesh whose time passes only when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self.frozen: set[str] = set()
        super().__init__(Timing(), lambda: self.now)
        self.ends: dict[str, float] = {}

    def add(self) -> Node:
        node = super().add()
        if node is not self.nodes[0]:
            node.fabric.on_end = lambda: self.end_of(node)
        return node

    def end_of(self, node: Node) -> None:
        self.ends[node.name] = self.now
        node.fabric.close()

    def turn(self) -> None:
        for _ in range(4):
            self.pump.wait(lambda: False, 0)

    def advance(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP)):
            self.now += STEP
            for node in self.nodes:
                if node.name not in self.frozen:
                    node.fabric.tick()
            self.turn()

    def freeze(self, node: Node) -> None:
        """Stop a node, as by SIGSTOP: its sockets stay open, and nobody reads them."""
        self.frozen.add(node.name)
        for connection in (*node.fabric._connections(),):
            self.pump.remove(connection.channel.fd)
        node.fabric._timer.close()

    def stop_head(self) -> Node:
        """End the head's process; return what is left of it."""
        head = self.nodes[0]
        head.fabric.close()
        self.turn()
        return head

    def start_head(self, *without: Node, at: str = "") -> Node:
        """Start the head again at its address, or at another one; members register again, but for some."""
        old = self.nodes[0]
        before = Predecessor(old.fabric.epoch, 10 * old.fabric.epoch, lambda node_id: True)
        carrier = PairCarrier(self.engine, at or old.name)
        info = info_of(f"again{old.fabric.epoch}")
        fabric = MeshHead(
            self.pump,
            info,
            {"grace": GRACE_S},
            carrier,
            predecessor=before,
            timing=self.timing,
            clock=self.clock,
        )
        head = self.nodes[0] = Node(carrier.name, fabric, Recorder(f"head{fabric.epoch}"))
        for node in self.nodes[1:]:
            if node not in without:
                self.register(node)
        return head

    def register(self, node: Node) -> None:
        """Register a member with the present head."""
        node.fabric.carrier.head = self.nodes[0].fabric.carrier
        node.fabric.carrier.register()

    def left(self, node: Node, who: Node) -> str:
        """Return what a node was told about the end of another."""
        return "".join(each[2] for each in node.handler.events if each[:2] == ("left", who.number))


def talk(mesh: Manual, one: Node, other: Node, count: int = 20) -> None:
    """Send messages in both directions, and check that all arrive after those of before."""
    before = len(other.got(one)), len(one.got(other))
    for number in range(count):
        one.send(other, WORD, number)
        other.send(one, WORD, number)
    mesh.until(lambda: (len(other.got(one)), len(one.got(other))) == (before[0] + count, before[1] + count))
    expected = [(WORD, number) for number in range(count)]
    assert other.got(one)[before[0] :] == one.got(other)[before[1] :] == expected
