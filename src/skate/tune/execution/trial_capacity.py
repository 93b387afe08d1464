"""The resources available to trials: the cluster's total, less what this search's own trials hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skate.tune.placement import PlacementGroupFactory

_EPSILON = 1e-6


class Room:
    """The resources of a cluster, and the share held by trials."""

    def __init__(self, nodes: Sequence[Mapping[str, float]]) -> None:
        self.nodes = [dict(node) for node in nodes]
        self.total: dict[str, float] = {}
        for node in self.nodes:
            for name, amount in node.items():
                self.total[name] = self.total.get(name, 0.0) + amount
        self.held: dict[str, float] = {}

    def fits(self, request: PlacementGroupFactory) -> bool:
        """True if a request fits beside the held resources."""
        return all(
            self.held.get(name, 0.0) + amount <= self.total.get(name, 0.0) + _EPSILON
            for name, amount in request.required_resources.items()
        )

    def take(self, request: PlacementGroupFactory) -> None:
        """Reserve the resources of a trial."""
        for name, amount in request.required_resources.items():
            self.held[name] = self.held.get(name, 0.0) + amount

    def give_back(self, request: PlacementGroupFactory) -> None:
        """Release the resources of a trial that has ended."""
        for name, amount in request.required_resources.items():
            self.held[name] = self.held.get(name, 0.0) - amount

    def why_never(self, request: PlacementGroupFactory) -> str:
        """Describe what the empty cluster lacks for a request; an empty text if it lacks nothing."""
        lacking = []
        for name, amount in request.required_resources.items():
            there = self.total.get(name, 0.0)
            if amount > there + _EPSILON:
                lacking.append(f"{amount:g} {name} (the cluster has {there:g})")
        if not lacking:
            lacking = [
                f"{_text(bundle)} on one node"
                for bundle in request.bundles
                if not any(_within(bundle, node) for node in self.nodes)
            ]
        if not lacking and request.strategy == "STRICT_PACK":
            if not any(_within(request.required_resources, node) for node in self.nodes):
                lacking = [f"{_text(request.required_resources)} on one node (STRICT_PACK)"]
        if not lacking and request.strategy == "STRICT_SPREAD" and len(request.bundles) > len(self.nodes):
            lacking = [f"{len(request.bundles)} nodes (STRICT_SPREAD; there are {len(self.nodes)})"]
        return " and ".join(lacking)


def _within(bundle: Mapping[str, float], node: Mapping[str, float]) -> bool:
    return all(node.get(name, 0.0) + _EPSILON >= amount for name, amount in bundle.items())


def _text(bundle: Mapping[str, Any]) -> str:
    return ", ".join(f"{amount:g} {name}" for name, amount in bundle.items()) or "nothing"
