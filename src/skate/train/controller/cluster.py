"""The resources of the cluster for a run: how many workers fit now, and a wait until the minimum fits."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import skate
from skate.resources import Resources
from skate.train.configs import ScalingConfig
from skate.train.controller.worker_capacity import fitting_together, why_not
from skate.util.nodes import can_grow
from skate.util.placement_group import placement_group, remove_placement_group

_LOOK_SECONDS = 0.2
#: The timeout of a trial reservation.
_TRY_SECONDS = 0.5


def nodes() -> dict[str, dict[str, float]]:
    """Return the total resources of the living nodes, by node id."""
    return {
        node["NodeID"]: node["Resources"]
        for node in skate.nodes()
        if node["Alive"] and not node.get("Draining")
    }


def wanted(scaling: ScalingConfig) -> Resources:
    """Return the resources of one worker."""
    return Resources(scaling._resources_per_worker_not_none)


def check(scaling: ScalingConfig) -> None:
    """Check that the cluster can hold the run, or grow for it.

    Raises:
        ValueError: the cluster, even empty, has no room for the minimum of workers, and it cannot grow; the message
            names the missing resources.
    """
    problem = _problem(scaling)
    if problem and not can_grow():
        raise ValueError(problem)


def _problem(scaling: ScalingConfig) -> str:
    return why_not(wanted(scaling), list(nodes().values()), scaling.min_workers, scaling.placement_strategy)


def await_capacity(scaling: ScalingConfig) -> bool:
    """Wait until the cluster can hold the minimum of workers, and log the missing resources once; return True
    if it had to wait.

    In a cluster that can grow, the workers themselves wait: its autoscaler starts nodes for those that it sees.
    """
    problem = _problem(scaling)
    if not problem:
        return False
    print(f"skate.train: waiting for nodes: {problem}", file=sys.stderr, flush=True)
    if can_grow():
        return False
    while _problem(scaling):
        time.sleep(_LOOK_SECONDS)
    return True


def room(scaling: ScalingConfig, held: Mapping[str, int]) -> int:
    """Return the number of workers that fit, at least the minimum: free resources plus those the run itself holds.

    Args:
        scaling: the scaling config.
        held: the run's own workers by node; those of dead nodes do not count.
    """
    if not scaling.elasticity_enabled:
        return scaling.max_workers
    bundle, by_node = wanted(scaling), nodes()
    own = sum(count for node, count in held.items() if node in by_node)
    most = fitting_together(bundle, list(by_node.values()), scaling.max_workers, scaling.placement_strategy)
    most = min(most, own + bundle.times(skate.available_resources(), most))
    while most > max(own, scaling.min_workers) and not _found(bundle, most - own, scaling.placement_strategy):
        most -= 1
    return max(most, scaling.min_workers)


def _found(bundle: Mapping[str, float], count: int, strategy: str) -> bool:
    """True if this many more bundles can be placed; totals per node do not show where other work runs."""
    group: Any = placement_group([dict(bundle)] * count, strategy="PACK" if "PACK" in strategy else strategy)
    try:
        return bool(group.wait(timeout_seconds=_TRY_SECONDS))
    except skate.exceptions.RayError:  # a node was lost meanwhile
        return False
    finally:
        remove_placement_group(group)
