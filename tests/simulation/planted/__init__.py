"""Planted bugs by family, and the runs that have to notice them."""

from __future__ import annotations

from tests.simulation.planted import (
    actors,
    attempts,
    broadcasts,
    clients,
    counting,
    directory,
    groups,
    lanes,
    leases,
    memory,
    nodes,
    streams,
    waking,
    workers,
)  # fmt: skip
from tests.simulation.planted.bug import RUNS, Bug

FAMILIES = (
    waking,
    memory,
    leases,
    attempts,
    actors,
    groups,
    streams,
    nodes,
    workers,
    clients,
    lanes,
    directory,
    counting,
    broadcasts,
)
BUGS: tuple[Bug, ...] = tuple(bug for family in FAMILIES for bug in family.BUGS)
#: Seeds that are tried in the tests with each bug that is not rare, of one node and of several; and in a long run. Those that do
#: not come by the place of a bug are not run with it.
SEEDS = 60
SEEDS_OF_NODES = 156
SEEDS_OF_LANES = 200
SEEDS_OF_WATCHES = 60
SEEDS_OF_BROADCASTS = 32
SEEDS_LONG = 1000

__all__ = [
    "BUGS",
    "FAMILIES",
    "RUNS",
    "SEEDS",
    "SEEDS_LONG",
    "SEEDS_OF_BROADCASTS",
    "SEEDS_OF_LANES",
    "SEEDS_OF_NODES",
    "SEEDS_OF_WATCHES",
    "Bug",
]
