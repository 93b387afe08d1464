"""Clusters of one thread for tests of fabrics: every node has its own fabric, and all share one pump."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from skate.fabric.directory import Timing
from skate.fabric.local import HeadFabric, MemberFabric
from skate.fabric.mesh_head import MeshHead
from skate.fabric.mesh_member import MeshMember
from skate.wire.pump import Pump
from tests.fabric.carriers import Engine, PairCarrier
from tests.fabric.certificates import tls_pair

SECONDS = 10.0
QUICK = Timing(beat=0.05, silence=0.4, reach=0.2, ask=0.08, grace=2.0, turns=3)


class Recorder:
    """A node's handler that keeps what it is told."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.events: list[tuple[Any, ...]] = []
        self.values: dict[bytes, bytes] = {}
        self.writes: list[int] = []  # how many messages had come when it was to write
        self.on_message: Callable[[Any, tuple[Any, ...]], None] = lambda member, message: None

    def joined(self, member: Any, info: dict[str, Any]) -> None:
        self.events.append(("joined", member[1], info))

    def left(self, member: Any, reason: str) -> None:
        self.events.append(("left", member[1], reason))

    def message(self, member: Any, message: tuple[Any, ...]) -> None:
        self.events.append(("message", member[1], message))
        self.on_message(member, message)

    def messages(self, member: Any, messages: Sequence[tuple[Any, ...]]) -> None:
        for message in messages:
            self.message(member, message)

    def write(self) -> None:
        self.writes.append(len(self.of("message")))

    def writable(self, member: Any) -> None:
        self.events.append(("writable", member[1]))

    def read(self, key: bytes, at: int, size: int, answer: Callable[[Any], None], visit: Any = None) -> None:
        value = self.values.get(key)
        answer(None if value is None or at + size > len(value) else memoryview(value)[at : at + size])

    def printed(self, is_error: bool, text: str) -> None:
        self.events.append(("printed", is_error, text))

    def leave_requested(self) -> None:
        self.events.append(("leave",))

    def of(self, kind: str, source: int | None = None) -> list[Any]:
        """Return what was told of a kind, and by one member."""
        return [each[2] for each in self.events if each[0] == kind and source in (None, each[1])]


class Node:
    """One node of a test."""

    def __init__(self, name: str, fabric: Any, handler: Recorder) -> None:
        self.name = name
        self.fabric = fabric
        self.handler = handler
        fabric.handler = handler

    @property
    def number(self) -> int:
        return int(self.fabric.number)

    def id_of(self, other: Node) -> Any:
        return self.fabric.ids[other.number]

    def send(self, to: Node, *message: Any) -> None:
        self.fabric.send(self.id_of(to), message)
        self.fabric.flush()

    def got(self, source: Node) -> list[Any]:
        return self.handler.of("message", source.number)

    def lives(self) -> bool:
        return not self.fabric.closed


def info_of(name: str) -> dict[str, Any]:
    return {"node_id": name.encode(), "facts": {"name": name}}


class Cluster:
    """Nodes of one fabric; the head is the first."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.lock.acquire()
        self.pump = Pump(self.lock, "test")
        self.nodes: list[Node] = []

    def start(self, count: int) -> None:
        for _ in range(count):
            self.add()
        self.until(lambda: all(len(node.fabric.members()) == count - 1 for node in self.nodes))

    def add(self) -> Node:
        raise NotImplementedError

    def until(self, ready: Callable[[], bool], seconds: float = SECONDS) -> None:
        """Turn the loop until something is true."""
        assert self.pump.wait(ready, seconds), "waited without success"

    def settle(self) -> None:
        """Turn the loop until nothing happens for a moment."""
        quiet = 0
        while quiet < 3:
            before = [len(node.handler.events) for node in self.nodes]
            end = time.monotonic() + 0.01
            self.pump.wait(lambda: time.monotonic() > end, 0.02)  # noqa: B023
            quiet = quiet + 1 if before == [len(node.handler.events) for node in self.nodes] else 0

    def kill(self, node: Node) -> None:
        """End a node silently."""
        node.fabric.close()

    def close(self) -> None:
        for node in reversed(self.nodes):
            node.fabric.close()
        self.end()
        self.lock.release()
        self.pump.close()

    def end(self) -> None:
        """Close what is not a node's."""


class Star(Cluster):
    """Nodes with `LocalFabric`."""

    def add(self) -> Node:
        name = f"n{len(self.nodes)}"
        handler = Recorder(name)
        if not self.nodes:
            node = Node(name, HeadFabric(self.pump, info_of(name), {"color": "blue"}), handler)
        else:
            fabric = MemberFabric(self.pump, info_of(name), self.nodes[0].fabric.invite())
            node = Node(name, fabric, handler)
            configs: list[Any] = []

            def greet() -> None:
                configs.append(fabric.greet())
                self.pump.kick()

            thread = threading.Thread(target=greet)
            thread.start()
            self.until(lambda: bool(configs))
            thread.join()
            assert configs == [{"color": "blue"}]
            fabric.begin()
        self.nodes.append(node)
        return node

    def kill(self, node: Node) -> None:
        self.pump.remove(node.fabric._channel.fd)
        super().kill(node)


class MeshCluster(Cluster):
    """Nodes with the mesh, over socket pairs."""

    def __init__(
        self, timing: Timing = Timing(beat=0.2), clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self.timing = timing
        self.clock = clock
        self.engine = self.make_engine()

    def make_engine(self) -> Engine:
        return Engine(self.pump)

    def add(self) -> Node:
        node = self.node()
        if self.nodes:
            assert node.fabric.greet(5.0) == self.nodes[0].fabric.config
            node.fabric.begin()
        self.nodes.append(node)
        return node

    def node(self) -> Node:
        """Return a node that has registered, and is not yet a member."""
        name = f"n{len(self.engine.carriers)}"
        hexed = name.encode().hex()
        options: dict[str, Any] = {"timing": self.timing, "clock": self.clock}
        if not self.nodes:
            head = PairCarrier(self.engine, hexed)
            fabric: Any = MeshHead(self.pump, info_of(name), {"color": "blue"}, head, **options)
        else:
            carrier = PairCarrier(self.engine, hexed, self.nodes[0].fabric.carrier)
            fabric = MeshMember(self.pump, info_of(name), carrier, **options)
        return Node(hexed, fabric, Recorder(name))

    def end(self) -> None:
        self.engine.close()


class TLSEngine(Engine):
    """Members are connected by TLS over loopback."""

    def connect(self) -> tuple[socket.socket, socket.socket]:
        return tls_pair()


class TLSCluster(MeshCluster):
    """Nodes with the mesh, over TLS."""

    def make_engine(self) -> Engine:
        return TLSEngine(self.pump)
