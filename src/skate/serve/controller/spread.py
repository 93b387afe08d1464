"""Placement with a maximum number of replicas of a deployment per node."""

from __future__ import annotations

import skate
from skate.serve.controller.records import DeploymentRecord, ReplicaRecord


def nodes() -> list[str]:
    """Return the ids of the living nodes."""
    return [each["NodeID"] for each in skate.nodes() if each["Alive"]]


def draining_nodes() -> frozenset[str]:
    """Return the ids of the nodes that are about to leave."""
    return frozenset(each["NodeID"] for each in skate.nodes() if each["Alive"] and each.get("Draining"))


def node_for(record: DeploymentRecord, one: ReplicaRecord, limit: int) -> str:
    """Return the node with the fewest replicas of the deployment. Raise RuntimeError if every node is full."""
    others = [each.info.get("node") for each in record.replicas.values() if each is not one]
    best = min(nodes(), key=others.count)
    if others.count(best) >= limit:
        raise RuntimeError(
            f"max_replicas_per_node={limit} leaves no node for another replica of {record.target.name!r}: every node is full"
        )
    return best
