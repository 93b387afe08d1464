"""Large values that many nodes of a mesh read at the same time, while nodes are lost, links are held and memory is short."""

from __future__ import annotations

import random
from dataclasses import replace

from skate.simulation.faults.rates import MIB, NO_FAULTS, Faults
from skate.simulation.nodes.mesh import Mesh
from skate.simulation.programs.spec import Spec

VALUES = 3
#: Of each value; so that waits for a node that waits itself happen too.
READS = 8
STEPS_MAX = 60


def faults_of(rng: random.Random) -> Faults:
    """Draw faults that concern values on several nodes."""
    pick = rng.choice
    drawn = replace(
        NO_FAULTS,
        node=pick((0, 0.01, 0.05)),
        restart=pick((0, 1)),
        effect=pick((0, 0, 0.01)),
        worker=pick((0, 0, 0.01)),
        partition=pick((0, 0, 0.01)),
        giving_up=pick((0, 0.3)),
        unreadable=pick((0, 0, 0.3)),
        full=pick((0, 0, 0.3)),
        slow=pick((0, 0.3)),
        arena_bytes=pick((MIB // 4, MIB // 2, 8 * MIB)),
        disk_bytes=pick((MIB, 64 * MIB)),
    )
    return drawn.between_nodes(rng)


def run_broadcast(seed: int) -> Mesh:
    """Make values on some nodes, and read each of them on all nodes; raises if anything waits without end."""
    rng = random.Random(seed)
    faultless = seed % 4 == 0
    faults = replace(NO_FAULTS, arena_bytes=rng.choice((MIB // 2, 8 * MIB))) if faultless else faults_of(rng)
    count = rng.choice((4, 5, 7))
    mesh = Mesh(rng, [1] * count, faults=faults, check_every=1 if seed % 2 else 10)
    mesh.observer.faultless = faultless
    driver = mesh.nodes[0].driver()
    for _ in range(VALUES):
        made = ("put", True) if rng.random() < 0.3 else ("submit", large(mesh, rng.randrange(count)))
        driver.todo.append(made)
        for number in range(READS):
            spec = Spec(f"read{number}", retries=rng.choice((0, 2)), strategy=on(mesh, number % count))
            driver.todo.append(("submit", spec, (-1 - number,)))
        if rng.random() < 0.3:
            driver.todo.append(("get", -1 - READS))
        for _ in range(rng.randrange(STEPS_MAX)):
            mesh.step()
    for _ in range(rng.randrange(10 * STEPS_MAX)):
        mesh.step()
    mesh.drain(without_timeouts=True)
    if faultless:
        bad = {mesh.specs[i]: outcome for i, outcome in mesh.outcomes.items() if outcome != "ok"}
        assert not bad, f"nothing failed, but: {bad}"
    return mesh


def large(mesh: Mesh, number: int) -> Spec:
    """A task on a node that makes a large value, and may be repeated."""
    return Spec("make", large=True, retries=mesh.rng.choice((0, 3)), strategy=on(mesh, number))


def on(mesh: Mesh, number: int) -> tuple[str, bytes, bool]:
    return ("node", mesh.nodes[number].node_id, True, "wait")
