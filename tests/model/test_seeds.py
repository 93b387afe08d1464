"""Whole runs of a node from one seed: random programs on scripted processes, with faults, then heal and drain."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from skate.simulation import Cluster, Faults
from skate.simulation.programs import Author

SEEDS = int(os.environ.get("SKATE_SEEDS", "300"))
OPERATIONS = 60
# The groups that are there in the end are removed then, and one that cannot be is an argument like others.
FINE = ("ok", "TaskPlacementGroupRemoved", "TaskUnschedulableError")


def run(seed: int, log: list[str] | None = None) -> Cluster:
    """One run; everything about it follows from the seed."""
    rng = random.Random(seed)
    calm = seed % 4 == 0  # nothing fails, so everything must succeed
    free = seed % 2 == 1  # programs may deadlock by themselves, so waits may time out
    faults = Faults() if calm else Faults(worker=rng.choice((0, 0.002, 0.02)), driver=rng.choice((0, 0.001)), environment=0.3)
    cpus = rng.choice((1, 2, 4))
    gpus = rng.choice((0, 2))
    arena_bytes = 1 << 23 if calm else rng.choice((1 << 20, 1 << 23))
    cluster = Cluster(rng, cpus, gpus=gpus, arena_bytes=arena_bytes, faults=faults, log=log)
    cluster.pace = {what: rng.choice((1, 1, 0.3, 0.1)) for what in ("arrive", "deliver", "act", "tidy", "strike")}
    haste = rng.choice((3, 8, 24))
    author = Author(rng, free=free, failures=not calm, most_cpus=cpus, gpus=bool(gpus))
    drivers = [cluster.driver() for _ in range(rng.choice((1, 1, 2, 3)))]
    for _ in range(OPERATIONS):
        driver = rng.choice(drivers)
        if driver.alive:
            driver.todo.append(author.driver_operation())
        for _ in range(rng.randrange(haste)):
            cluster.step()
    cluster.drain(patient=not free)
    if calm and not free:
        bad = {cluster.specs[i]: outcome for i, outcome in cluster.outcomes.items() if outcome not in FINE}
        assert not bad, f"nothing failed, but: {bad}"
    return cluster


@pytest.mark.parametrize("block", range(10))
def test_seeds(block: int) -> None:
    each = SEEDS // 10
    for seed in range(block * each, (block + 1) * each):
        try:
            run(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}\nreplay: python tests/model/test_seeds.py {seed}") from error


if __name__ == "__main__":
    written: list[str] = []
    try:
        run(int(sys.argv[1]), written)
    finally:
        print("\n".join(written))
