"""Whole runs from one seed: random programs with faults, then heal and drain.

    run_node     one node and its processes
    run_cluster  several nodes

Both raise an `AssertionError` if a rule was broken, and return the simulated node or nodes.
"""

from __future__ import annotations

import random
from dataclasses import replace

from skate.simulation.faults.rates import MIB, NO_FAULTS, Faults
from skate.simulation.nodes.cluster import Cluster
from skate.simulation.nodes.world import World
from skate.simulation.processes.process import Process
from skate.simulation.programs.author import Author
from skate.simulation.programs.spec import Spec

OPERATIONS = 60
MORE_STEPS = 1500
CHECK_EVERY = (1, 4, 8, 16)  # steps
# Groups left at the end are removed then; one that cannot be placed is an argument like any other.
FINE = ("ok", "TaskPlacementGroupRemoved", "TaskUnschedulableError")


def run_node(
    seed: int, log: list[str] | None = None, operations: int = OPERATIONS, check_every: int = 0
) -> Cluster:
    """Run one node; the seed and the drivers' number of operations determine everything.

    `log` gets the events. The frequency of the core's checks is drawn too, unless given; it does not affect the run.
    """
    rng = random.Random(seed)
    faultless, free, faults = manner(seed, rng)
    cpus = rng.choice((1, 2, 4))
    gpus = rng.choice((0, 2))
    drawn = rng.choice(CHECK_EVERY)
    cluster = Cluster(rng, cpus, gpus=gpus, faults=faults, log=log, check_every=check_every or drawn)
    cluster.pace = {
        what: rng.choice((1, 1, 0.3, 0.1)) for what in ("arrive", "deliver", "act", "tidy", "strike")
    }
    author = Author(rng, free=free, failures=not faultless, most_cpus=cpus, gpus=bool(gpus))
    drivers = [cluster.driver() for _ in range(rng.choice((1, 1, 2, 3)))]
    cluster.observer.faultless = faultless
    play(cluster, author, drivers, operations)
    cluster.drain(patient=not free)
    if faultless:
        all_fine(cluster)
    return cluster


def run_cluster(
    seed: int, log: list[str] | None = None, operations: int = OPERATIONS, check_every: int = 0
) -> World:
    """Run several nodes; the seed determines everything, as in `run_node`."""
    rng = random.Random(seed)
    faultless, free, faults = manner(seed, rng)
    cpus = [rng.choice((1, 2)) for _ in range(rng.choice((2, 3, 4)))]
    drawn = rng.choice(CHECK_EVERY)
    world = World(rng, cpus, faults=faults, log=log, check_every=check_every or drawn)
    author = Wanderer(rng, len(cpus), free=free, failures=not faultless, most_cpus=max(cpus))
    drivers = [world.nodes[0].driver() for _ in range(rng.choice((1, 2)))]
    world.observer.faultless = faultless
    play(world, author, drivers, operations)
    world.drain(patient=not free)
    if faultless:
        all_fine(world)
    return world


def manner(seed: int, rng: random.Random) -> tuple[bool, bool, Faults]:
    """Return three facts of a run: if it has no faults, so that everything must succeed; if waits may deadlock; its faults."""
    faultless = seed % 4 == 0
    faults = Faults.drawn(rng)
    if faultless:
        faults = replace(NO_FAULTS if seed % 8 == 0 else faults.harmless_only(), disk_bytes=256 * MIB)
    return faultless, seed % 2 == 1, faults


def play(ran: Cluster | World, author: Author, drivers: list[Process], operations: int) -> None:
    """Let drivers run operations, with other events in between."""
    rng = ran.rng
    haste = rng.choice((3, 8, 24))
    for _ in range(operations):
        driver = rng.choice(drivers)
        if driver.alive:
            driver.todo.append(author.driver_operation())
        for _ in range(rng.randrange(haste)):
            ran.step()
    for _ in range(
        rng.randrange(MORE_STEPS)
    ):  # most of what was asked for is yet to be done, and may meet with faults too
        ran.step()


def all_fine(ran: Cluster | World) -> None:
    """Assert that every call succeeded in a run without failures."""
    bad = {ran.specs[i]: outcome for i, outcome in ran.outcomes.items() if outcome not in FINE}
    assert not bad, f"nothing failed, but: {bad}"


class Wanderer(Author):
    """Places tasks and actors on all nodes."""

    def __init__(self, rng: random.Random, nodes: int, *, free: bool, failures: bool, most_cpus: int) -> None:
        super().__init__(rng, gpus=False, free=free, failures=failures, most_cpus=most_cpus)
        self.nodes = nodes
        self.far = rng.choice((0.6, 0.6, 0.95))  # how often a place is asked for

    def where(self, spec: Spec) -> None:
        """Draw a placement for a spec."""
        rng = self.rng
        kind = rng.random() * 0.6 / self.far
        number = rng.randrange(self.nodes)
        node_id = f"node{number:04}".encode() + bytes(20)
        if kind < 0.2:
            spec.strategy = ("spread",)
        elif kind < 0.35:
            spec.strategy = ("node", node_id, rng.random() < 0.5 or self.failures)
        elif kind < 0.45:
            spec.strategy = ("labels", (("zone", "in", (str(number % 2),)),), ())
        elif kind < 0.6 and not self.failures:
            spec.request = {**spec.request, f"at{number}": 10}

    def task(self, depth: int) -> Spec:
        """Draw a plain task for any node."""
        spec = super().task(depth)
        if spec.request.get("CPU", 0) <= 10_000:
            self.where(spec)
        return spec

    def actor(self) -> tuple[Spec, dict[str, object]]:
        """Return an actor class and how the actor is to live, anywhere."""
        spec, life = super().actor()
        self.where(spec)
        return spec, life
