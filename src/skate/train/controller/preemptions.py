"""Announced preemptions: nodes of workers that drain, and until when."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import skate
from skate.train.errors import PreemptionInfo

#: How old an answer of the cluster may be.
LOOK_SECONDS = 0.5


class Preemptions:
    """The nodes that the cluster has announced to leave. A node stays in the list after it has left."""

    def __init__(self) -> None:
        self._looked_at = float("-inf")
        #: Deadlines in epoch milliseconds by node, or None.
        self._nodes: dict[str, int | None] = {}

    def look(self) -> None:
        """Ask the cluster, unless that was done just now."""
        if time.monotonic() - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = time.monotonic()
        for node in skate.nodes():
            if node.get("Draining") and node["NodeID"] not in self._nodes:
                left = node["DrainSecondsLeft"]
                self._nodes[node["NodeID"]] = None if left is None else int((time.time() + left) * 1000)

    def announced(self, where: Sequence[Mapping[str, Any]]) -> PreemptionInfo | None:
        """Return the preemptions of nodes with workers, whose places are given by rank; None if there are none."""
        self.look()
        ranks: dict[str, list[int]] = {}
        for rank, place in enumerate(where):
            if place["node"] in self._nodes:
                ranks.setdefault(place["node"], []).append(rank)
        if not ranks:
            return None
        deadlines = [deadline for node in ranks if (deadline := self._nodes[node]) is not None]
        return PreemptionInfo(min(deadlines, default=None), ranks)

    def includes(self, node: str) -> bool:
        """Return True if the loss of a node was announced."""
        return node in self._nodes
