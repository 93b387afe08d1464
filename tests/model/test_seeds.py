"""Whole runs of a node from one seed: random programs on scripted processes, with faults, then heal and drain.

A failing seed is named with the command that replays it, message by message. `SKATE_SEEDS=5000` tries more.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from skate.simulation import Cluster, Faults
from skate.simulation.programs import Author

SEEDS = int(os.environ.get("SKATE_SEEDS", "500"))
BLOCKS = 10
OPERATIONS = 60
# The groups that are there in the end are removed then, and one that cannot be is an argument like others.
FINE = ("ok", "TaskPlacementGroupRemoved", "TaskUnschedulableError")


def run(seed: int, log: list[str] | None = None) -> Cluster:
    """One run; everything about it follows from the seed."""
    rng = random.Random(seed)
    calm = seed % 4 == 0  # nothing fails, so everything must succeed
    free = seed % 2 == 1  # programs may deadlock by themselves, so waits may time out
    faults = Faults()
    if not calm:
        faults = Faults(worker=rng.choice((0, 0.002, 0.02)), driver=rng.choice((0, 0.001)), environment=0.3)
    cpus = rng.choice((1, 2, 4))
    gpus = rng.choice((0, 2))
    arena_bytes = 1 << 23 if calm else rng.choice((1 << 20, 1 << 23))
    cluster = Cluster(rng, cpus, gpus=gpus, arena_bytes=arena_bytes, faults=faults, log=log)
    cluster.pace = {
        what: rng.choice((1, 1, 0.3, 0.1)) for what in ("arrive", "deliver", "act", "tidy", "strike")
    }
    author = Author(rng, free=free, failures=not calm, most_cpus=cpus, gpus=bool(gpus))
    drivers = [cluster.driver() for _ in range(rng.choice((1, 1, 2, 3)))]
    haste = rng.choice((3, 8, 24))
    for _ in range(OPERATIONS):
        driver = rng.choice(drivers)
        if driver.alive:
            driver.todo.append(author.driver_operation())
        for _ in range(rng.randrange(haste)):
            cluster.step()
    cluster.drain(patient=not free)
    if calm:
        bad = {cluster.specs[i]: outcome for i, outcome in cluster.outcomes.items() if outcome not in FINE}
        assert not bad, f"nothing failed, but: {bad}"
    return cluster


@pytest.mark.parametrize("block", range(BLOCKS))
def test_seeds(block: int) -> None:
    for seed in range(block, SEEDS, BLOCKS):
        try:
            run(seed)
        except Exception as error:  # whatever it is, the seed has to be told
            raise AssertionError(
                f"seed {seed}: {type(error).__name__}: {error}\nreplay: PYTHONPATH=src python tests/model/test_seeds.py {seed}"
            ) from error


def digests() -> str:
    """The event logs of some runs, as hashes."""
    return " ".join(run(seed).digest.hexdigest() for seed in range(20))


def test_a_seed_gives_the_same_run_whatever_the_order_of_hashes() -> None:
    here = digests()
    assert digests() == here
    code = f"import runpy; print(runpy.run_path({__file__!r})['digests']())"
    for hashseed in ("0", "1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": hashseed, "PYTHONPATH": os.pathsep.join(sys.path)}
        there = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        assert there.stdout.strip() == here


def test_a_broken_core_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seeds can fail: each of these breaks a rule of the core that nothing but a run shows."""
    from skate.core.execution import Execution
    from skate.core.objects import ObjectTable
    from skate.core.scheduler import Scheduler

    grant, end_lease = ObjectTable.grant, Scheduler.end_lease
    lost = random.Random(0)

    def forgetful_grant(self: ObjectTable, record: object, cid: int) -> None:
        if lost.random() > 0.05:
            grant(self, record, cid)  # type: ignore[arg-type]

    def forgetful_end(self: Scheduler, worker: object) -> None:
        if lost.random() > 0.05:
            end_lease(self, worker)  # type: ignore[arg-type]

    for owner, name, broken in (
        (ObjectTable, "grant", forgetful_grant),
        (Scheduler, "end_lease", forgetful_end),
        (Execution, "returned", lambda self, cid, message: None),
        (Execution, "drop_arguments", lambda self, task: None),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, broken)
            with pytest.raises(Exception):  # noqa: B017  what breaks first depends on the seed
                for seed in range(60):
                    run(seed)


if __name__ == "__main__":
    written: list[str] = []
    try:
        run(int(sys.argv[1]), written)
    finally:
        print("\n".join(written))
