"""A mesh in which directories decide who is dead: links are cut for seconds, nodes and the head are stopped.

The clock of the directories is that of the mesh: when it moves on, they exchange their letters. A member that ends its lease is
killed before anything else happens, and only then the head's verdict can follow; `Watch` and the observer check that.
"""

from __future__ import annotations

from typing import Any

from skate.simulation.nodes.member import HEAD, Node
from skate.simulation.nodes.mesh import Departure, Mesh, Wire
from skate.simulation.nodes.watch import STEP, Watch

SECONDS = (0.5, 2.0, 4.0, 5.5, 7.0, 12.0, 30.0)  # of cuts and stops
PASSING = (0.05, 0.3, 1.0)  # seconds that pass at once, so that leases end within a run
PASSES = 0.03  # how often
CONTINUES = 0.5  # seconds for which a node that was given up lives on when it continues


class WatchedMesh(Mesh):
    """A mesh with a head directory and a member directory on each node."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._now = 0.0
        self.watch: Watch | None = None
        self.decisions: list[tuple[str, int]] = []
        super().__init__(*arguments, **options)

    @property
    def now(self) -> float:
        """The clock of the cluster."""
        return self._now

    @now.setter
    def now(self, value: float) -> None:
        self._now = value
        if self.watch is not None and self.watch.now < value:
            self.watch.run_until(value)

    def add(self, cpus: int, site: int | None = None) -> Node:
        """Add a node; at the site of a lost node, it is that node under a new id."""
        node = super().add(cpus, site)
        if self.watch is None:
            self.watch = Watch(self.rng, self._now, self.has_left, self.was_buried)
        if node.number != HEAD:
            self.watch.join(node.number)
        return node

    # -- decisions

    def has_left(self, number: int) -> None:
        """Note that a member ends itself."""
        self.decisions.append(("leave", number))

    def was_buried(self, number: int) -> None:
        """Note the head's verdict."""
        self.decisions.append(("bury", number))

    def decide(self) -> None:
        """Carry out what the directories have decided."""
        while self.decisions:
            what, number = self.decisions.pop(0)
            node = self.nodes[number]
            self.record(what, number)
            if what == "leave" and node.alive:
                self.observer.counts["fault fence"] += 1
                self.kill(node)
            elif what == "bury":
                if node.alive:  # it is stopped, and will leave when it continues
                    node.fenced = True
                    self.fenced[number] = self.directories.stopped.get(number, self.now) + CONTINUES
                    self.lose(node)
                self.dismiss(Departure(self.nodes[HEAD], number))

    @property
    def directories(self) -> Watch:
        """The directories of all nodes."""
        assert self.watch is not None
        return self.watch

    def is_found(self, number: int) -> bool:
        """Return False: the directory finds out."""
        return False

    def kill(self, node: Node) -> None:
        """Kill a node; its connections end, unless it has left because it was cut off."""
        super().kill(node)
        watch = self.directories
        if node.number not in watch.left and node.number not in watch.killed:
            watch.kill(node.number)

    # -- faults

    def cut(self, node: Node) -> None:
        """Cut a node off for some seconds, or only in one direction, or only from some others."""
        self.record("cut", node.number)
        rng, watch = self.rng, self.directories
        seconds = rng.choice(SECONDS)
        kind = rng.randrange(4)
        if kind == 0:
            watch.isolate({node.number}, seconds)
        elif kind == 1:
            some = {number for number in watch.members if rng.random() < 0.5}
            watch.isolate(some, seconds)
        elif kind == 2:
            watch.stopped[node.number] = self.now + seconds
            self.observer.counts["fault stopped node"] += 1
        else:
            watch.stopped[HEAD] = self.now + seconds
            self.observer.counts["fault stopped head"] += 1

    def break_link(self, wire: Wire) -> None:
        """Cut one direction between two nodes, or both, for some seconds."""
        self.observer.counts["fault link"] += 1
        self.record("link", wire.source, wire.to)
        seconds = self.rng.choice(SECONDS)
        self.directories.cut(wire.source, wire.to, seconds)
        if self.rng.random() < 0.5:
            self.directories.cut(wire.to, wire.source, seconds)

    def passes(self, wire: Wire) -> bool:
        """Return True if nothing holds a channel."""
        return (wire.source, wire.to) not in self.directories.cuts and super().passes(wire)

    def heal(self) -> None:
        """Stop all faults, and let the directories come to a verdict about everybody."""
        watch = self.directories
        watch.cuts.clear()
        watch.stopped.clear()
        timing = watch.head.timing
        self.now += timing.grace + 3 * timing.silence
        self.decide()
        super().heal()
        watch.agree()

    # -- events

    def events(self) -> list[tuple[Any, Any]]:
        """Return the events that can happen next, on nodes that are not stopped."""
        stopped = self.directories.stopped
        found = super().events()
        if not stopped:
            return found
        return [
            (what, which)
            for what, which in found
            if (which if isinstance(which, int) else which.cluster.number) not in stopped
        ]

    def next_release(self) -> float | None:
        """Return when the next held node or channel may move; None if nothing is held."""
        watch = self.directories
        # The directories notice the end of a fault in their next step, and their clock may be ahead of this one.
        times = [max(until, watch.now) + STEP for until in (*watch.cuts.values(), *watch.stopped.values())]
        other = super().next_release()
        return min(times if other is None else [*times, other], default=None)

    def step(self) -> bool:
        """Let time pass now and then, carry out decisions, and execute one event."""
        if not self.healed and self.rng.random() < PASSES:
            self.now += self.rng.choice(PASSING)
        self.decide()
        return super().step()

    def tick(self) -> float | None:
        """Advance the time of all nodes that run."""
        self.decide()
        return super().tick()

    def is_running(self, node: Node) -> bool:
        """Return True if a node is alive and not stopped."""
        return super().is_running(node) and node.number not in self.directories.stopped
