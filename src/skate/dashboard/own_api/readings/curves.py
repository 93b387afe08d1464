"""Curves of reported metrics, thinned out as they grow: a page draws no more points than it has pixels."""

from __future__ import annotations

from collections.abc import Mapping

from skate.dashboard.own_api.readings.plain import number

#: The most metrics of one thing.
METRICS_MAX = 64


class Curves:
    """The numeric metrics of a series of reports.

    Args: points: the most points of a curve; with twice as many, every other one is left out.
    """

    def __init__(self, points: int) -> None:
        self._points = points
        self._stride = 1
        self._seen = 0
        self._x: list[float] = []
        self._at: list[float | None] = []
        self._values: dict[str, list[float | None]] = {}
        #: The last values, numbers or not.
        self.last: dict[str, object] = {}

    def add(self, x: float, at: float | None, metrics: Mapping[str, object]) -> None:
        """Add a report: its place, its time in seconds since 1970, and its metrics."""
        self.last = dict(metrics)
        self._seen += 1
        if (self._seen - 1) % self._stride:
            return
        self._x.append(x)
        self._at.append(at)
        for name, value in metrics.items():
            found = number(value)
            if name not in self._values:
                if found is None or len(self._values) >= METRICS_MAX:
                    continue
                self._values[name] = [None] * (len(self._x) - 1)
            self._values[name].append(found)
        for column in self._values.values():
            if len(column) < len(self._x):
                column.append(None)
        if len(self._x) >= 2 * self._points:
            self._stride *= 2
            self._x, self._at = self._x[::2], self._at[::2]
            self._values = {name: column[::2] for name, column in self._values.items()}

    @property
    def names(self) -> list[str]:
        """The metrics that have curves."""
        return list(self._values)

    @property
    def count(self) -> int:
        """The number of reports, also those without a point."""
        return self._seen

    def column(self, name: str) -> list[float | None]:
        """Return the values of a metric; those of `x` are at the same places."""
        return self._values.get(name, [None] * len(self._x))

    @property
    def x(self) -> list[float]:
        """The places of the points."""
        return self._x

    @property
    def at(self) -> list[float | None]:
        """The times of the points."""
        return self._at

    def columns(self) -> dict[str, object]:
        """Return all curves."""
        return {"x": self._x, "at": self._at, "metrics": self._values}
