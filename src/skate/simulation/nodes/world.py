"""Several nodes among scripted drivers and workers: their turns, faults, and the end of a run.

Each node is a `Cluster` with its own core, processes and memory; they share one observer. The channels between them are those of
a `Star` or of a `Mesh`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from skate.core import invariants
from skate.core.object.lifetimes import owner_of
from skate.protocol import messages as m
from skate.protocol.states import DEAD, GroupState
from skate.simulation.checks import between_nodes, quiescence
from skate.simulation.checks.observer import Observer
from skate.simulation.faults.rates import NO_FAULTS, PAUSES, Faults
from skate.simulation.nodes.cluster import Cluster
from skate.simulation.nodes.member import CIDS, HEAD, Node
from skate.simulation.processes.process import Process

if TYPE_CHECKING:
    import random

    from skate.core.node_options import NodeOptions
    from skate.protocol.effects import AppendRecords

SLOW_PACE = 0.1


class World(ABC):
    """All nodes; subclasses add the channels between them."""

    def __init__(
        self,
        rng: random.Random,
        cpus: list[int],
        *,
        faults: Faults = NO_FAULTS,
        log: list[str] | None = None,
        check_every: int = 1,
    ) -> None:
        self.rng = rng
        self.now = 0.0
        self.faults = faults
        self.check_every = check_every
        self.observer = Observer()
        self.log = log
        self.digest = hashlib.blake2b(digest_size=16)
        self.steps = 0
        self.timeouts_allowed = False
        self.gates: set[str] = set()
        self.nodes: dict[int, Node] = {}
        self.held: dict[int, float] = {}  # nodes that are cut off, until when
        self.fenced: dict[int, float] = {}  # nodes that the head has given up, until when they live
        self.lost = 0
        for site, count in enumerate(cpus):
            self.add(count, site)

    @property
    def specs(self) -> dict[bytes, Any]:
        """The functions of all calls, by task id."""
        return self.observer.specs

    @property
    def outcomes(self) -> dict[bytes, str]:
        """The outcomes of the drivers' calls."""
        return self.observer.outcomes

    def identity(self, number: int) -> tuple[bytes, int, NodeOptions]:
        """Return the id of a new node, the number of its first process, and further options of its core."""
        return f"node{number:04}".encode() + bytes(20), 1 + number * CIDS, {}

    def append(self, effect: AppendRecords) -> None:
        """Take records of the head, if it has a store."""
        raise AssertionError(f"there is no store for {effect}")

    # -- channels

    @abstractmethod
    def add(self, cpus: int, site: int | None = None) -> Node:
        """Add a node; at the site of a lost node, it is that node under a new id."""

    @abstractmethod
    def is_member(self, number: int) -> bool:
        """Return True if a node other than the head is one of the cluster."""

    @abstractmethod
    def post(self, source: int, to: int, frame: tuple[Any, ...]) -> None:
        """Queue a frame."""

    @abstractmethod
    def lose(self, node: Node) -> None:
        """Remove a node that was killed or given up."""

    @abstractmethod
    def channel_events(self) -> list[tuple[Any, Any]]:
        """Return the events of channels that can happen next."""

    # -- faults

    def kill(self, node: Node) -> None:
        """Kill a node, with its processes and some of its last messages."""
        self.record("kill", node.number)
        node.alive = False
        for process in node.processes.values():
            process.end()
        for driver in [p for p in node.processes.values() if not p.is_worker]:
            self.observer.forget(driver)
        node.processes.clear()
        if self.fenced.pop(node.number, None) is None:
            self.lose(node)
        self.held.pop(node.number, None)

    def count_lost(self, node: Node) -> None:
        """Count a lost node."""
        self.lost += 1
        self.observer.lost(node)

    def restart(self, node: Node) -> None:
        """Add a lost node again, perhaps."""
        if self.rng.random() < self.faults.restart:
            self.observer.counts["fault restart"] += 1
            self.add(node.cpus, node.site)

    def cut(self, node: Node) -> None:
        """Cut a node off for a while; the head may declare it dead, and then it lives a little longer."""
        until = self.now + self.rng.choice(PAUSES)
        if self.rng.random() < self.faults.giving_up:
            self.record("give up", node.number)
            self.observer.counts["fault giving up"] += 1
            node.fenced = True
            self.fenced[node.number] = until
            self.lose(node)
        else:
            self.record("cut", node.number)
            self.held[node.number] = until

    def heal(self) -> None:
        """Stop all faults, and release everything that is held up."""
        self.faults = NO_FAULTS
        self.held.clear()
        for node in self.nodes.values():
            node.slow = False
            node.heal()

    def record(self, *what: Any) -> None:
        """Write an event into the log, of which `digest` is the hash."""
        Cluster.record(self, *what)  # type: ignore[arg-type]

    # -- events

    def events(self) -> list[tuple[Any, Any]]:
        """Return the events that can happen next."""
        found: list[tuple[Any, Any]] = []
        for node in self.nodes.values():
            if node.alive:
                found += node.events()
        found += self.channel_events()
        if self.fenced:
            found += [(self.fence, number) for number, until in self.fenced.items() if until <= self.now]
        return found

    def fence(self, number: int) -> None:
        """End a node that finds out that it was declared dead."""
        self.kill(self.nodes[number])

    def next_release(self) -> float | None:
        """Return when the next held node or channel may move; None if nothing is held."""
        times = [t for t in (*self.held.values(), *self.fenced.values()) if t > self.now]
        times += [t for node in self.nodes.values() if node.alive and (t := node.next_release()) is not None]
        return min(times, default=None)

    def pick(self, events: list[tuple[Any, Any]]) -> tuple[Any, Any]:
        """Pick one of the possible events; those of slow nodes are rare."""
        what, which = events[self.rng.randrange(len(events))]
        node = self.nodes[which] if isinstance(which, int) else which.cluster
        if node.slow and self.rng.random() > SLOW_PACE:
            what, which = events[self.rng.randrange(len(events))]
        return what, which

    def step(self) -> bool:
        """Execute one event; return False if none is possible."""
        kind = self.faults.struck(self.rng)
        if kind:
            self.strike(kind)
        events = self.events()
        while not events:
            release = self.next_release()
            if release is None:
                return False
            self.now = release
            events = self.events()
        what, which = self.pick(events)
        self.now += self.rng.choice((1e-5, 1e-4, 2e-3))
        what(which)
        if self.rng.random() < 0.1:
            self.tick()
        return True

    def strike(self, kind: str) -> None:
        """Inject a fault."""
        getattr(self.victim(kind), "break_" + kind)()

    def victim(self, kind: str) -> Node:
        """The node that a fault strikes: if it is to be lost or cut off, the one that others would miss most, by preference."""
        living = [node for node in self.nodes.values() if node.alive]
        if kind in ("node", "partition") and self.rng.random() < 0.8:
            return max(living, key=Node.missed)
        return living[self.rng.randrange(len(living))]

    def tick(self) -> float | None:
        """Advance the time of all nodes; returns the seconds until the next tick."""
        wanted = [node.tick() for node in list(self.nodes.values()) if self.is_running(node)]
        return min((seconds for seconds in wanted if seconds is not None), default=None)

    def is_running(self, node: Node) -> bool:
        """Return True if time passes on a node."""
        return node.alive

    # -- the end of a run

    def settle(self) -> None:
        """Run until nothing can happen any more."""
        since = self.now
        while self.now - since < 200:
            while self.step():
                since = self.now
            wanted = self.tick()
            if not self.events():
                if wanted is None:
                    self.check_quiet()
                    return
                # Ever longer steps, for a core that only polls for changes.
                self.now += max(wanted, self.now - since, 1e-3)

    def check_quiet(self) -> None:
        """Assert, with no message in flight, that everything that waits has a reason."""
        for node in self.nodes.values():
            if node.alive:
                invariants.check_quiet(node.core.tables)
        living = [node for node in self.nodes.values() if node.alive]
        quiescence.check(living)
        between_nodes.check(living)

    def drain(self, without_timeouts: bool) -> None:
        """End a run: no more faults, every program finishes, everything is released and must disappear."""
        self.heal()
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
        if not without_timeouts:
            self.timeouts_allowed = True
            self.settle()
            self.close(drivers[0], every_actor=True)
        living = [node for node in self.nodes.values() if node.alive]
        for process in drivers:
            why = [node.why() for node in living]
            assert process.thread is None and not process.todo, f"{process} still waits; {why}"
            assert not process.pending, f"{process} never got {process.pending}; {why}"
            assert not process.streams, f"{process} never got the end of {list(process.streams)}; {why}"
        for node in living:
            node.reconcile()
        for process in drivers:
            process.frame.clear()
        self.settle()
        for node in living:
            node.core.check()
            node.wonder()
            node.reconcile()
        self.close(drivers[0], every_actor=True)
        for node in living:
            node.gone()
        self.observer.heard({cid for node in living for cid in node.processes}, owner_of)
        assert not head.core.actors.names, head.core.actors

    def close(self, driver: Process, every_actor: bool) -> None:
        """Remove the placement groups, and kill the actors that live on by themselves, or all."""
        core = self.nodes[HEAD].core
        for _ in range(20):
            groups = [
                group_id
                for group_id, group in core.placement.groups.items()
                if group.state != GroupState.REMOVED
            ]
            actors = [
                a for a in core.actors.actors.values() if a.state != DEAD and (a.detached or every_actor)
            ]
            if not groups and not actors:
                return
            for group_id in groups:
                driver.ask("remove_group", group_id)
            for actor in actors:
                driver.send(m.Kill(m.KILL, actor.actor_id, True))
            self.settle()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {list(self.nodes.values())} steps={self.steps}>"
