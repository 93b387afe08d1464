"""Clusters that grow: an autoscaler starts nodes for what waits."""

from __future__ import annotations

from skate.client.session.detached_node import GROWS_LABEL
from skate.client.state import cluster_queries


def can_grow() -> bool:
    """Return True if an autoscaler starts nodes for what waits in this cluster."""
    return any(GROWS_LABEL in node["Labels"] for node in cluster_queries.nodes() if node["Alive"])
