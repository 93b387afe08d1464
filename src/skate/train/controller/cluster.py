"""What the cluster has for a run: how many workers find room now, and waiting until the fewest do."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import skate
from skate.train.configs import ScalingConfig
from skate.train.controller.room import fitting_together, most_by_sums, why_not
from skate.util.placement_group import placement_group, remove_placement_group

_LOOK_SECONDS = 0.2
#: A reservation that is only to be tried is given so long.
_TRY_SECONDS = 0.5


def nodes() -> dict[str, dict[str, float]]:
    """What the living nodes have in all, by node."""
    return {node["NodeID"]: node["Resources"] for node in skate.nodes() if node["Alive"]}


def wanted(scaling: ScalingConfig) -> dict[str, float]:
    """What a worker takes up of its node."""
    return dict(scaling._resources_per_worker_not_none)


def check(scaling: ScalingConfig) -> None:
    """See that the cluster could hold the run at all.

    Raises:
        ValueError: the whole cluster, empty, has no room for the fewest workers; what is missing is named.
    """
    problem = _problem(scaling)
    if problem:
        raise ValueError(problem)


def _problem(scaling: ScalingConfig) -> str:
    return why_not(wanted(scaling), list(nodes().values()), scaling.min_workers, scaling.placement_strategy)


def await_capacity(scaling: ScalingConfig) -> bool:
    """Wait until the cluster could hold the fewest workers, and say once what is missing; whether it had to wait."""
    problem = _problem(scaling)
    if not problem:
        return False
    print(f"skate.train: waiting for nodes: {problem}", file=sys.stderr, flush=True)
    while _problem(scaling):
        time.sleep(_LOOK_SECONDS)
    return True


def room(scaling: ScalingConfig, held: Mapping[str, int]) -> int:
    """How many workers find room, at least the fewest: what is free, and what the run holds itself.

    Args:
        scaling: what was asked for.
        held: the run's own workers by node; those of nodes that are gone do not count.
    """
    if not scaling.elasticity_enabled:
        return scaling.max_workers
    bundle, there = wanted(scaling), nodes()
    own = sum(count for node, count in held.items() if node in there)
    most = fitting_together(bundle, list(there.values()), scaling.max_workers, scaling.placement_strategy)
    most = min(most, own + most_by_sums(bundle, skate.available_resources(), most))
    while most > max(own, scaling.min_workers) and not _found(bundle, most - own, scaling.placement_strategy):
        most -= 1
    return max(most, scaling.min_workers)


def _found(bundle: Mapping[str, float], count: int, strategy: str) -> bool:
    """Whether there is a place for so many bundles more: sums over nodes do not tell where the others' work is."""
    group: Any = placement_group([dict(bundle)] * count, strategy="PACK" if "PACK" in strategy else strategy)
    try:
        return bool(group.wait(timeout_seconds=_TRY_SECONDS))
    except skate.exceptions.RayError:  # a node went meanwhile
        return False
    finally:
        remove_placement_group(group)
