"""Whole runs from one seed: random programs with faults, then heal and drain.

    run_node     one node and its processes
    run_cluster  several nodes, with a star of channels
    run_mesh     several nodes, with channels between all of them
    run_headless the same with a store: the head is killed, and begins again from its records
    run_watched  the same, with links that are cut and nodes that are stopped for seconds

All raise an `AssertionError` if a rule was broken, and return the simulated node or nodes.
"""

from __future__ import annotations

import random
from dataclasses import replace

from skate.simulation.faults.rates import MIB, NO_FAULTS, Faults
from skate.simulation.nodes.cluster import Cluster
from skate.simulation.nodes.headless_mesh import HeadlessMesh
from skate.simulation.nodes.member import HEAD
from skate.simulation.nodes.mesh import Mesh
from skate.simulation.nodes.star import Star
from skate.simulation.nodes.watched_mesh import WatchedMesh
from skate.simulation.nodes.world import World
from skate.simulation.processes.process import Process
from skate.simulation.programs.author import Author
from skate.simulation.programs.lender import Lender
from skate.simulation.programs.wanderer import Wanderer

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
    cluster.drain(without_timeouts=not free)
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
    world = Star(rng, cpus, faults=faults, log=log, check_every=check_every or drawn)
    author = Wanderer(rng, len(cpus), free=free, failures=not faultless, most_cpus=max(cpus))
    drivers = [world.nodes[0].driver() for _ in range(rng.choice((1, 2)))]
    world.observer.faultless = faultless
    play(world, author, drivers, operations)
    world.drain(without_timeouts=not free)
    if faultless:
        all_fine(world)
    return world


def run_mesh(
    seed: int, log: list[str] | None = None, operations: int = OPERATIONS, check_every: int = 0
) -> Mesh:
    """Run several nodes without a center, and programs that lend values from one node to another."""
    rng = random.Random(seed)
    faultless, free, faults = manner(seed, rng)
    faults = faults.between_nodes(rng) if seed % 8 else faults
    cpus = [rng.choice((1, 2)) for _ in range(rng.choice((3, 4)))]
    drawn = rng.choice(CHECK_EVERY)
    mesh = Mesh(rng, cpus, faults=faults, log=log, check_every=check_every or drawn)
    lend(mesh, cpus, faultless, free, operations)
    return mesh


def run_watched(
    seed: int, log: list[str] | None = None, operations: int = OPERATIONS, check_every: int = 0
) -> WatchedMesh:
    """Run the same while links are cut and nodes are stopped for seconds, so that directories have to decide who is dead."""
    rng = random.Random(seed)
    _, free, faults = manner(seed | 2, rng)
    faults = replace(
        faults, partition=rng.choice((0.003, 0.01)), link=rng.choice((0, 0.01)), giving_up=0.0, jump=0.0
    )
    cpus = [rng.choice((1, 2)) for _ in range(rng.choice((3, 4, 5)))]
    drawn = rng.choice(CHECK_EVERY)
    mesh = WatchedMesh(rng, cpus, faults=faults, log=log, check_every=check_every or drawn)
    lend(mesh, cpus, False, free, operations)
    return mesh


def run_headless(
    seed: int, log: list[str] | None = None, operations: int = OPERATIONS, check_every: int = 0
) -> HeadlessMesh:
    """Run a mesh whose head is killed at records and begins again from them; the programs are on a member."""
    rng = random.Random(seed)
    _, free, faults = manner(seed | 2, rng)
    faults = replace(
        faults.between_nodes(rng), node=0.0, effect=0.0, partition=0.0, restart=0.0, giving_up=0.0, jump=0.0
    )
    cpus = [rng.choice((1, 2)) for _ in range(rng.choice((2, 3, 4)))]
    drawn = rng.choice(CHECK_EVERY)
    mesh = HeadlessMesh(
        rng,
        cpus,
        faults=faults,
        log=log,
        check_every=check_every or drawn,
        deaths=rng.choice((1, 2, 3)),
        death=rng.choice((0.02, 0.1, 0.3)),
    )
    lend(mesh, cpus, False, free, operations, home=1)
    return mesh


def lend(mesh: Mesh, cpus: list[int], faultless: bool, free: bool, operations: int, home: int = HEAD) -> None:
    """Let drivers of a mesh, at one node, run programs that lend values, to the end."""
    rng = mesh.rng
    author = Lender(rng, len(cpus), free=free, failures=not faultless, most_cpus=max(cpus))
    drivers = [mesh.nodes[home].driver() for _ in range(rng.choice((1, 2)))]
    mesh.observer.faultless = faultless
    play(mesh, author, drivers, operations)
    mesh.drain(without_timeouts=not free)
    if faultless:
        all_fine(mesh)


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
