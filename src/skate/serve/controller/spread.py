"""At most so many replicas of a deployment on each node."""

from __future__ import annotations

import skate
from skate.serve.controller.records import DeploymentRecord, ReplicaRecord


def nodes() -> list[str]:
    """The ids of the living nodes."""
    return [each["NodeID"] for each in skate.nodes() if each["Alive"]]


def node_for(record: DeploymentRecord, one: ReplicaRecord, limit: int) -> str:
    """The node with the fewest replicas of the deployment. Raises RuntimeError if each has as many as it may."""
    others = [each.info.get("node") for each in record.replicas.values() if each is not one]
    best = min(nodes(), key=others.count)
    if others.count(best) >= limit:
        raise RuntimeError(
            f"max_replicas_per_node={limit} leaves no node for another replica of {record.target.name!r}: every node is full"
        )
    return best
