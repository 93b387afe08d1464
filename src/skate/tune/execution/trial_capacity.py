"""The resources available to trials: the cluster's total, less what this search's own trials hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skate.resources import Resources
from skate.tune.placement import PlacementGroupFactory


class TrialCapacity:
    """The resources of a cluster, and the share held by trials."""

    def __init__(self, nodes: Sequence[Mapping[str, float]]) -> None:
        self.held = Resources()
        self._requests: list[PlacementGroupFactory] = []
        self.update(nodes)

    def update(self, nodes: Sequence[Mapping[str, float]]) -> None:
        """Set the nodes of the cluster; what trials hold stays."""
        self.nodes = [Resources(node) for node in nodes]
        self.total = Resources.total(self.nodes)
        self._free = self.total - self.held

    def fits(self, request: PlacementGroupFactory) -> bool:
        """Return True if a request fits in addition to the held resources."""
        return request.total.fits(self._free)

    def waiting(self) -> int:
        """Return the number of trials that hold more than the cluster has: they wait for nodes."""
        held, there = Resources(), 0
        for request in self._requests:
            if (held + request.total).fits(self.total):
                held += request.total
                there += 1
        return len(self._requests) - there

    def take(self, request: PlacementGroupFactory) -> None:
        """Reserve the resources of a trial."""
        self._requests.append(request)
        self.held += request.total
        self._free = self.total - self.held

    def give_back(self, request: PlacementGroupFactory) -> None:
        """Release the resources of a trial that has ended."""
        self._requests.remove(request)
        self.held -= request.total
        self._free = self.total - self.held

    def why_never(self, request: PlacementGroupFactory) -> str:
        """Describe what the empty cluster lacks for a request; an empty text if it lacks nothing."""
        whole = Resources(request.required_resources)
        lacking = [
            f"{whole[name]:g} {name} (the cluster has {self.total.get(name, 0.0):g})"
            for name in whole.lacking(self.total)
        ]
        if not lacking:
            lacking = [
                f"{bundle} on one node"
                for bundle in map(Resources, request.bundles)
                if not any(map(bundle.fits, self.nodes))
            ]
        if not lacking and request.strategy == "STRICT_PACK":
            if not any(map(whole.fits, self.nodes)):
                lacking = [f"{whole} on one node (STRICT_PACK)"]
        if not lacking and request.strategy == "STRICT_SPREAD" and len(request.bundles) > len(self.nodes):
            lacking = [f"{len(request.bundles)} nodes (STRICT_SPREAD; there are {len(self.nodes)})"]
        return " and ".join(lacking)
