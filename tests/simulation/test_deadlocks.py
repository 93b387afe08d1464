"""Verdicts on waits in whole runs: one that is given never turns out wrong, and none is missing where everything waits.

Nothing breaks in these runs, and nobody kills or cancels, so that what a verdict says cannot end does not end.
"""

from __future__ import annotations

import os
import random

import pytest

from skate.core.diagnosis import wait_registry
from skate.core.diagnosis.deadlock import DeadlockSearch
from skate.simulation import runs
from skate.simulation.checks.quiescence import overlooked
from skate.simulation.faults.rates import NO_FAULTS
from skate.simulation.nodes.cluster import Cluster
from skate.simulation.programs.author import Author

SEEDS = int(os.environ.get("SKATE_SEEDS", "120"))
BLOCKS = 4


def run(seed: int, merciful: bool) -> Cluster:
    """Programs that may wait for each other, until nothing happens any more."""
    rng = random.Random(seed)
    cpus, gpus = rng.choice((1, 2, 4)), rng.choice((0, 2))
    cluster = Cluster(rng, cpus, gpus=gpus, faults=NO_FAULTS)
    cluster.merciful = merciful
    author = Author(rng, free=True, failures=False, most_cpus=cpus, gpus=bool(gpus))
    drivers = [cluster.driver() for _ in range(rng.choice((1, 1, 2, 3)))]
    runs.play(cluster, author, drivers, runs.OPERATIONS)
    cluster.settle()
    return cluster


def wrong(cluster: Cluster) -> list[object]:
    """The verdicts on waits that have ended by themselves."""
    return [each for each in cluster.verdicts if each[1] not in each[0].waits]


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits are judged in the midst of things, and often: no run lasts a second by its clock before all is quiet."""
    monkeypatch.setattr(wait_registry, "OLD_SECONDS", 0.002)
    monkeypatch.setattr(wait_registry, "LOOK_SECONDS_MAX", 0.02)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_wait_that_was_said_never_to_end_does_not_end(block: int) -> None:
    verdicts = 0
    for seed in range(block, SEEDS, BLOCKS):
        cluster = run(seed, merciful=False)
        assert not wrong(cluster), f"seed {seed}: {wrong(cluster)} continued by themselves"
        verdicts += len(cluster.verdicts)
    assert verdicts, "no run had a deadlock, so nothing was tried"


@pytest.mark.parametrize("block", range(BLOCKS))
def test_where_everything_waits_each_wait_has_a_verdict(block: int) -> None:
    for seed in range(block, SEEDS, BLOCKS):
        cluster = run(seed, merciful=True)
        left = overlooked(cluster)
        assert not left, f"seed {seed}: {left} never end, and nobody says so; {cluster.why()}"


@pytest.mark.usefixtures("hasty")
def test_wrong_verdicts_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that takes resources for lost that are only lent leads to verdicts that do not hold."""
    monkeypatch.setattr(DeadlockSearch, "_lease", lambda self, cid: False)
    assert any(wrong(run(seed, merciful=False)) for seed in range(SEEDS))


def test_missing_verdicts_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeadlockSearch, "_lease", lambda self, cid: True)
    assert any(overlooked(run(seed, merciful=True)) for seed in range(SEEDS))
