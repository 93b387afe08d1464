"""Whole runs of several nodes from one seed: random programs on all of them, nodes that are lost, then heal and drain."""

from __future__ import annotations

import os
import random
import sys

import pytest

from skate.simulation.cluster import Faults
from skate.simulation.nodes import World
from skate.simulation.programs import Author, Spec

SEEDS = int(os.environ.get("SKATE_SEEDS", "200"))
BLOCKS = 10
OPERATIONS = 60
# The groups that are there in the end are removed then, and one that cannot be is an argument like others.
FINE = ("ok", "TaskPlacementGroupRemoved", "TaskUnschedulableError")


class Wanderer(Author):
    """Has tasks and actors run all over the nodes."""

    def __init__(self, rng: random.Random, nodes: int, **options: bool | int) -> None:
        super().__init__(rng, gpus=False, **options)  # type: ignore[arg-type]
        self.nodes = nodes

    def where(self, spec: Spec) -> None:
        rng = self.rng
        kind = rng.random()
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
        spec = super().task(depth)
        if spec.request.get("CPU", 0) <= 10_000:
            self.where(spec)
        return spec

    def actor(self) -> tuple[Spec, dict[str, object]]:
        spec, life = super().actor()
        self.where(spec)
        return spec, life


def run(seed: int, log: list[str] | None = None) -> World:
    """One run; everything about it follows from the seed."""
    rng = random.Random(seed)
    calm = seed % 4 == 0  # nothing fails, so everything must succeed
    free = seed % 2 == 1  # programs may deadlock by themselves, so waits may time out
    faults = Faults()
    node_fault = 0.0
    if not calm:
        faults = Faults(worker=rng.choice((0, 0.002)), driver=rng.choice((0, 0.001)), environment=0.3)
        node_fault = rng.choice((0, 0.001, 0.005))
    cpus = [rng.choice((1, 2)) for _ in range(rng.choice((2, 3, 4)))]
    world = World(rng, cpus, arena_bytes=1 << 23, faults=faults, node_fault=node_fault, log=log)
    author = Wanderer(rng, len(cpus), free=free, failures=not calm, most_cpus=max(cpus))
    drivers = [world.nodes[0].driver() for _ in range(rng.choice((1, 2)))]
    haste = rng.choice((3, 8, 24))
    for _ in range(OPERATIONS):
        driver = rng.choice(drivers)
        if driver.alive:
            driver.todo.append(author.driver_operation())
        for _ in range(rng.randrange(haste)):
            world.step()
    world.drain(patient=not free)
    if calm:
        bad = {world.specs[i]: outcome for i, outcome in world.outcomes.items() if outcome not in FINE}
        assert not bad, f"nothing failed, but: {bad}"
    return world


@pytest.mark.parametrize("block", range(BLOCKS))
def test_nodes(block: int) -> None:
    for seed in range(block, SEEDS, BLOCKS):
        try:
            run(seed)
        except Exception as error:  # whatever it is, the seed has to be told
            raise AssertionError(
                f"seed {seed}: {type(error).__name__}: {error}\nreplay: PYTHONPATH=src python tests/model/test_nodes.py {seed}"
            ) from error


if __name__ == "__main__":
    written: list[str] = []
    try:
        run(int(sys.argv[1]), written)
    finally:
        print("\n".join(written))
