"""Several nodes among scripted drivers and workers: the star of channels between them, and nodes that join and are lost.

Each node is a `Cluster` of its own, with a core, processes and memory; what an onlooker knows they have in common. Frames go
from a node to the head and from there on, in order; that of a node which is lost may lose the last ones.
"""

from __future__ import annotations

import hashlib
from collections import deque
from typing import TYPE_CHECKING, Any

from skate.core import messages as m
from skate.core.actors import DEAD
from skate.core.lifetimes import owner_of
from skate.core.node import SHELL, NodeCore
from skate.simulation.cluster import Cluster, Faults
from skate.simulation.process import JOB, Process
from skate.simulation.programs import CPU

if TYPE_CHECKING:
    import random

HEAD = 0
CIDS = 100_000  # each node numbers its processes from another one on, so that an onlooker can tell them apart
SHARED = ("specs", "outcomes", "attempts", "lives", "_callers", "_order", "gates")
Frame = tuple[int, int, tuple[Any, ...]]


class Node(Cluster):
    """One node of several."""

    def __init__(self, world: World, number: int, cpus: int, arena_bytes: int) -> None:
        self.world = world
        super().__init__(world.rng, cpus, arena_bytes=arena_bytes, faults=world.faults)
        self.number = number
        self.node_id = f"node{number:04}".encode() + bytes(20)
        total = {"CPU": cpus * CPU, f"at{number}": CPU}
        self.core = NodeCore(
            total, arena_bytes=arena_bytes, node_id=self.node_id, labels={"zone": str(number % 2)}
        )
        self.core.next_cid = 1 + number * CIDS
        self.peers: dict[int, int] = {}  # numbers of nodes by the ids of this core
        self.reads: dict[int, int] = {}  # whom a value is awaited from, by where it goes
        self.alive = True
        for name in SHARED:
            setattr(self, name, getattr(world, name))

    @property
    def now(self) -> float:
        """The clock of all."""
        return self.world.now

    @now.setter
    def now(self, value: float) -> None:
        self.world.now = value

    def record(self, *what: Any) -> None:
        """Write an event into the common log."""
        self.world.record(self.number, *what)

    def timed_out(self, process: Process) -> bool:
        """Whether a wait of this process takes too long."""
        return self.world.impatient

    def driver(self) -> Process:
        """A driver joins."""
        return self._tag(super().driver())

    def _tag(self, process: Process) -> Process:
        process.tail = self.node_id[:8] + process.cid.to_bytes(4, "little") + JOB
        return process

    def apply(self) -> None:
        """Carry out what the core wants done; then it must still be sound."""
        effects, self.core.effects = self.core.effects, []
        for cid, message in effects:
            process = self.processes.get(cid)
            if cid == SHELL:
                self.shell(*message)
            elif cid in self.peers:
                self.world.post(self.number, self.peers[cid], ("message", message))
            elif process is not None and process.alive:
                process.inbox.append(message)
        self.core.check()
        if self.core.effects:
            self.apply()

    def shell(self, verb: str, cid: int, *rest: Any) -> None:
        """What the core wants of the machine."""
        if verb == "pull":
            oid, offset, size = rest
            self.record(verb, cid, oid)
            if cid in self.peers:
                self.reads[offset] = self.peers[cid]
                self.world.post(self.number, self.peers[cid], ("read", oid, offset, size))
            else:
                self.core.pulled(offset, False, self.now)
            return
        super().shell(verb, cid, *rest)
        if cid in self.processes:
            self._tag(self.processes[cid])

    # -- frames

    def hear(self, source: int, frame: tuple[Any, ...]) -> None:
        """Take a frame of another node."""
        word = frame[0]
        if word == "message":
            cid = next((cid for cid, number in self.peers.items() if number == source), None)
            if cid is not None:
                self.core.step(cid, frame[1], self.now)
        elif word == "read":
            _, oid, offset, size = frame
            found = self.core.objects.get(oid)
            entry = self.memory.get(found.payload[0]) if found is not None and found.kind == m.ARENA else None
            self.world.post(self.number, source, ("piece", oid, offset, entry))
        elif word == "piece":
            _, oid, offset, entry = frame
            if self.reads.pop(offset, None) is not None:
                if entry is not None:
                    assert entry[0] == oid, f"node {source} sent another object than was asked for"
                    self.memory[offset] = entry
                self.core.pulled(offset, entry is not None, self.now)
        elif word == "joined":
            self.meet(frame[1], frame[2])
        elif word == "left":
            self.lose(frame[1])
        self.apply()

    def meet(self, number: int, info: dict[str, Any]) -> None:
        """Another node is there."""
        cid = self.core.next_cid
        self.core.next_cid += 1
        self.peers[cid] = number
        self.core.peers.join(cid, info, self.now)

    def lose(self, number: int) -> None:
        """Another node is gone."""
        for cid in [cid for cid, other in self.peers.items() if other == number]:
            del self.peers[cid]
            self.core.peers.left(cid, "was lost", self.now)
        for offset in [offset for offset, source in self.reads.items() if source == number]:
            del self.reads[offset]
            self.core.pulled(offset, False, self.now)

    def info(self) -> dict[str, Any]:
        """What other nodes are told of this one."""
        core = self.core
        return {
            "node_id": self.node_id,
            "total": core.capacity.total,
            "labels": core.capacity.labels,
            "head": self.number == HEAD,
        }

    def gone(self) -> None:
        """Everything was let go: nothing may be left in the core."""
        core = self.core
        assert not core.tasks, f"{self}: tasks that never end: {list(core.tasks.values())}; {self.why()}"
        assert not core.objects.records, (
            f"{self}: objects that nobody has: {list(core.objects.records.values())}"
        )
        assert core.capacity.available == core.capacity.total, (
            f"{self}: resources are missing: {core.capacity}"
        )
        assert core.allocator.used == 0, (
            f"{self}: {core.allocator.used} bytes of the arena are held by nobody"
        )
        assert not core.peers.waiting, f"{self}: tasks wait for a node: {core.peers.waiting}"
        assert not core.abroad.lineage.tasks, (
            f"{self}: tasks are kept for nothing: {core.abroad.lineage.tasks}"
        )
        assert not core.abroad.pulls and not self.reads, f"{self}: values are awaited that nobody wants"
        assert not core.placement.bundles.reserved, f"{self}: bundles are set apart for no group"
        living = [
            a for a in core.actors.actors.values() if a.state != DEAD and (a.hosted or self.number == HEAD)
        ]
        assert not living, f"{self}: actors that nobody can call live on: {living}"
        held = [a for a in core.actors.actors.values() if a.state != DEAD and (a.grants or a.holders)]
        assert not held, f"{self}: actors are held for nobody: {held}"
        assert not core.scheduler.waiting, core.scheduler.waiting
        busy = [worker for worker in core.scheduler.workers.values() if worker.outstanding or worker.lease]
        assert not busy, busy
        for peer in core.peers.alive.values():
            assert not peer.outstanding and not any(peer.classes.values()), (
                f"{self}: {peer} owes answers: {peer.classes}"
            )

    def __repr__(self) -> str:
        return f"<Node {self.number} {self.core}>"


class World:
    """All nodes, and the channels between them."""

    def __init__(
        self,
        rng: random.Random,
        cpus: list[int],
        *,
        arena_bytes: int = 1 << 23,
        faults: Faults | None = None,
        node_fault: float = 0.0,
        log: list[str] | None = None,
    ) -> None:
        self.rng = rng
        self.now = 0.0
        self.faults = faults or Faults()
        self.node_fault = node_fault
        self.log = log
        self.digest = hashlib.blake2b(digest_size=16)
        self.steps = 0
        self.impatient = False
        self.arena_bytes = arena_bytes
        self.specs: dict[bytes, Any] = {}
        self.outcomes: dict[bytes, str] = {}
        self.attempts: dict[bytes, int] = {}
        self.lives: dict[bytes, dict[str, Any]] = {}
        self._callers: dict[bytes, Any] = {}
        self._order: dict[Any, int] = {}
        self.gates: set[str] = set()
        self.nodes: dict[int, Node] = {}
        self.up: dict[int, deque[Frame]] = {}  # from a node to the head
        self.down: dict[int, deque[Frame]] = {}  # from the head to a node
        self.members: list[int] = []  # as the head knows them
        self.lost = 0
        for count in cpus:
            self.add(count)

    def add(self, cpus: int) -> Node:
        """A node joins."""
        number = len(self.nodes)
        node = self.nodes[number] = Node(self, number, cpus, self.arena_bytes)
        if number != HEAD:
            self.up[number], self.down[number] = deque(), deque()
            for other in (HEAD, *self.members):
                node.meet(other, self.nodes[other].info())
            for other in self.members:
                self.down[other].append((HEAD, other, ("joined", number, node.info())))
            self.members.append(number)
            self.nodes[HEAD].meet(number, node.info())
            node.apply()
            self.nodes[HEAD].apply()
        return node

    def kill(self, node: Node) -> None:
        """A node is lost, with its processes and with some of what it has said last."""
        self.record("kill", node.number)
        self.lost += 1
        node.alive = False
        for process in node.processes.values():
            process.end()
        for driver in [p for p in node.processes.values() if not p.is_worker]:
            self.forget_outcomes(driver)
        node.processes.clear()
        up = self.up[node.number]
        for _ in range(self.rng.randrange(len(up) + 1)):
            up.pop()
        up.append((node.number, HEAD, ("end",)))
        self.down[node.number].clear()

    def forget_outcomes(self, process: Process) -> None:
        """Nobody waits any more for what this process has asked for."""
        for task_id in [task_id for task_id in self.outcomes if task_id[8:20] == process.tail[:12]]:
            del self.outcomes[task_id]

    def post(self, source: int, to: int, frame: tuple[Any, ...]) -> None:
        """Queue a frame."""
        if source != HEAD:
            self.up[source].append((source, to, frame))
        elif to in self.members:
            self.down[to].append((source, to, frame))

    def carry_up(self, number: int) -> None:
        """The head takes a frame of a node, for itself or to pass on."""
        source, to, frame = self.up[number].popleft()
        self.record("up", source, to, frame)
        if frame[0] == "end":
            self.members.remove(number)
            del self.up[number]
            for other in self.members:
                self.down[other].append((HEAD, other, ("left", number)))
            self.nodes[HEAD].lose(number)
            self.nodes[HEAD].apply()
        elif to == HEAD:
            self.nodes[HEAD].hear(source, frame)
        elif to in self.members:
            self.down[to].append((source, to, frame))

    def carry_down(self, number: int) -> None:
        """A node takes a frame."""
        source, to, frame = self.down[number].popleft()
        if self.nodes[number].alive:
            self.record("down", source, to, frame)
            self.nodes[number].hear(source, frame)

    def record(self, *what: Any) -> None:
        """Write an event into the log, of which `digest` is the hash."""
        Cluster.record(self, *what)  # type: ignore[arg-type]

    # -- events

    def events(self) -> list[tuple[Any, Any]]:
        """What can happen next."""
        found: list[tuple[Any, Any]] = []
        for node in self.nodes.values():
            if node.alive:
                found += node.events()
        found += [(self.carry_up, number) for number, frames in self.up.items() if frames]
        found += [(self.carry_down, number) for number, frames in self.down.items() if frames]
        return found

    def step(self) -> bool:
        """Let one thing happen; False if nothing can."""
        living = [node for node in self.nodes.values() if node.alive]
        for node in living:
            node.break_something()
        if self.node_fault and len(living) > 1 and self.rng.random() < self.node_fault:
            self.kill(living[self.rng.randrange(1, len(living))])
            if self.rng.random() < 0.5:
                self.add(self.rng.choice((1, 2)))
        events = self.events()
        if not events:
            return False
        what, which = events[self.rng.randrange(len(events))]
        self.now += self.rng.choice((1e-5, 1e-4, 2e-3))
        what(which)
        if self.rng.random() < 0.1:
            self.tick()
        return True

    def tick(self) -> float | None:
        """Time passes for all; returns in how many seconds one wants to be told again."""
        wanted = [node.tick() for node in self.nodes.values() if node.alive]
        return min((seconds for seconds in wanted if seconds is not None), default=None)

    # -- to an end

    def settle(self) -> None:
        """Run until nothing can happen any more."""
        since = self.now
        while self.now - since < 200:
            while self.step():
                since = self.now
            wanted = self.tick()
            if not self.events():
                if wanted is None:
                    return
                self.now += max(wanted, 1e-3)

    def drain(self, patient: bool) -> None:
        """Nothing breaks any more, every program runs out, everything is let go and must be gone then."""
        self.node_fault = 0.0
        self.faults = Faults()
        for node in self.nodes.values():
            node.faults = self.faults
        self.settle()
        head = self.nodes[HEAD]
        drivers = [
            p
            for node in self.nodes.values()
            if node.alive
            for p in node.processes.values()
            if not p.is_worker
        ]
        self.close(drivers[0], every_actor=False)
        if not patient:
            self.impatient = True
            self.settle()
            self.close(drivers[0], every_actor=True)
        living = [node for node in self.nodes.values() if node.alive]
        for process in drivers:
            why = [node.why() for node in living]
            assert process.thread is None and not process.todo, f"{process} still waits; {why}"
            assert not process.pending, f"{process} never got {process.pending}; {why}"
            assert not process.streams, f"{process} never got the end of {list(process.streams)}; {why}"
            process.frame.clear()
        self.settle()
        for node in living:
            node.reconcile()
        self.close(drivers[0], every_actor=True)
        for node in living:
            node.gone()
        callers = {cid for node in living for cid in node.processes}
        unanswered = [
            self.specs[i] for i, outcome in self.outcomes.items() if not outcome and owner_of(i) in callers
        ]
        assert not unanswered, f"callers of {unanswered} live and never got an answer"
        assert not head.core.actors.names, head.core.actors

    def close(self, driver: Process, every_actor: bool) -> None:
        """Remove the placement groups, and kill the actors that live on by themselves, or all."""
        core = self.nodes[HEAD].core
        for _ in range(20):
            groups = [
                group_id for group_id, group in core.placement.groups.items() if group.state != "REMOVED"
            ]
            actors = [
                a for a in core.actors.actors.values() if a.state != DEAD and (a.detached or every_actor)
            ]
            if not groups and not actors:
                return
            for group_id in groups:
                driver.ask((m.REQUEST, "remove_group", (group_id,)))
            for actor in actors:
                driver.send((m.KILL, actor.actor_id, True))
            self.settle()

    def __repr__(self) -> str:
        return f"<World {list(self.nodes.values())} steps={self.steps}>"
