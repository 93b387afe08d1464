"""Counters and timers shared by the parts of one iterator."""

from __future__ import annotations

import collections
from typing import Any

from skate.util.timer import _Timer


class MetricsContext:
    """Counters, timers and facts set by the transformations of one iterator.

    `counters` and `info` are plain values and are sent along; `timers` stay local; `current_actor` is the actor
    that the current item came from.
    """

    def __init__(self) -> None:
        self.counters: dict[str, int] = collections.defaultdict(int)
        self.timers: dict[str, _Timer] = collections.defaultdict(_Timer)
        self.info: dict[str, Any] = {}
        self.current_actor: Any = None

    def save(self) -> dict[str, Any]:
        """Return the picklable part, as a dict for `restore`."""
        return {"counters": dict(self.counters), "info": dict(self.info)}

    def restore(self, values: dict[str, Any]) -> None:
        """Restore the state from `save`."""
        self.counters.clear()
        self.counters.update(values["counters"])
        self.timers.clear()
        self.info = values["info"]


class SharedMetrics:
    """The metrics of an iterator, shared with those derived from it."""

    def __init__(
        self, metrics: MetricsContext | None = None, parents: list[SharedMetrics] | None = None
    ) -> None:
        self.metrics = metrics or MetricsContext()
        self.parents = parents or []
        self.set(self.metrics)

    def set(self, metrics: MetricsContext) -> None:
        """Use these metrics from now on, also in the iterators from which this one is derived."""
        self.metrics = metrics
        for parent in self.parents:
            parent.set(metrics)

    def get(self) -> MetricsContext:
        """Return the metrics."""
        return self.metrics
