"""Metrics of a trial: nested names, and statistics over time."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from skate.air.flat import flat

__all__ = ["AUTO_KEYS", "SCOPES", "Histories", "History", "flat", "number", "users"]

#: Automatic entries of each result, which are not user metrics.
AUTO_KEYS = frozenset(
    [
        "config",
        "date",
        "done",
        "experiment_tag",
        "experiment_id",
        "hostname",
        "iterations_since_restore",
        "node_ip",
        "pid",
        "should_checkpoint",
        "checkpoint_dir_name",
        "time_since_restore",
        "time_this_iter_s",
        "time_total_s",
        "timestamp",
        "timesteps_total",
        "timesteps_since_restore",
        "episodes_total",
        "training_iteration",
        "trial_id",
        "logdir",
    ]
)
#: Metrics without averages.
_PLAIN = AUTO_KEYS - {"training_iteration", "time_total_s", "timesteps_total"}
SCOPES = ("last", "avg", "last-5-avg", "last-10-avg", "all")


def users(result: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a result that the user reported."""
    return {name: value for name, value in result.items() if name not in AUTO_KEYS}


def number(value: Any) -> float | None:
    """Convert a value to a number, None if it is not one."""
    if type(value) is float or type(value) is int:
        return value
    if value is None or isinstance(value, (str, bytes, bool)):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


class History:
    """Statistics of a metric over time: last, min, max, and averages; of all values, the last 5, and the last 10."""

    __slots__ = ("count", "last", "max", "min", "recent", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.last = self.min = self.max = math.nan
        self.recent: deque[float] = deque(maxlen=10)

    def add(self, value: float) -> None:
        """Add a value."""
        self.count += 1
        self.total += value
        self.last = value
        if not value >= self.min:
            self.min = value if value == value or self.count == 1 else self.min
        if not value <= self.max:
            self.max = value if value == value or self.count == 1 else self.max
        self.recent.append(value)

    def get(self, scope: str, mode: str | None = None) -> float:
        """The value for a scope; "all" is the best of all."""
        if scope == "all":
            return self.max if mode == "max" else self.min
        if scope == "last":
            return self.last
        if scope == "avg":
            return self.total / self.count
        recent = list(self.recent)[-5:] if scope == "last-5-avg" else list(self.recent)
        return sum(recent) / len(recent)

    def as_dict(self) -> dict[str, float]:
        """Return the statistics under the names of Ray's `Trial.metric_analysis`."""
        found = {name: self.get(name) for name in ("last", "avg", "last-5-avg", "last-10-avg")}
        return {**found, "min": self.min, "max": self.max}

    def state(self) -> list[Any]:
        """The state as JSON-compatible values."""
        return [self.count, self.total, self.last, self.min, self.max, list(self.recent)]

    @classmethod
    def of(cls, state: list[Any]) -> History:
        """Create from a `state`."""
        found = cls()
        found.count, found.total, found.last, found.min, found.max = state[:5]
        found.recent.extend(state[5])
        return found


class Histories:
    """The histories of all metrics of a trial."""

    def __init__(self) -> None:
        self.by_name: dict[str, History] = {}

    def add(self, result: Mapping[str, Any]) -> None:
        """Add a flat result."""
        for name, value in result.items():
            if name in _PLAIN or name[:7] == "config/":
                continue
            if type(value) is not float and type(value) is not int:
                value = number(value)
                if value is None:
                    continue
            found = self.by_name.get(name)
            if found is None:
                found = self.by_name[name] = History()
            found.add(value)
