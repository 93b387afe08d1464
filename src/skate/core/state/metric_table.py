"""Metrics of users: what each process has reported last, and what processes that have ended leave.

A process reports all of its series at once, as totals since it began. So a lost report loses nothing that the next one does not
have. Sums over processes never go down: an ended process's counters and histograms are added to those of its predecessors.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from skate.protocol.record import Record
from skate.protocol.values import COUNTER, GAUGE, HISTOGRAM

Row: TypeAlias = dict[str, Any]
Tags: TypeAlias = tuple[tuple[str, str], ...]
#: Tags; the number, or the sum of a histogram; the counts of a histogram's buckets; the time of a gauge's last change, 0 for a
#: reading, which ends with the process that has made it.
Series: TypeAlias = tuple[Tags, float, tuple[int, ...], float]
#: Name, kind, description, boundaries of a histogram, series.
Family: TypeAlias = tuple[str, str, str, tuple[float, ...], tuple[Series, ...]]

KINDS = frozenset({COUNTER, GAUGE, HISTOGRAM})
#: The most series of a node; further ones are left out and counted.
SERIES_MAX = 10_000


class Value(Record):
    """The value of a series."""

    number: float
    counts: tuple[int, ...]
    time: float


#: A metric and its series by tags.
Key: TypeAlias = tuple[str, str, tuple[float, ...]]


class Metric:
    """All series of one metric."""

    __slots__ = ("description", "series")

    def __init__(self, description: str) -> None:
        self.description = description
        self.series: dict[Tags, Value] = {}


Metrics: TypeAlias = dict[Key, Metric]


class MetricTable:
    """The users' metrics of one node."""

    def __init__(self, series_max: int = SERIES_MAX) -> None:
        self._max = series_max
        #: The last report of each living process.
        self._reports: dict[int, Metrics] = {}
        #: The sums of processes that have ended.
        self._ended: Metrics = {}
        #: The series that were left out because there were too many, or because they were invalid.
        self.left_out = 0

    def report(self, cid: int, families: tuple[Family, ...]) -> None:
        """Replace the metrics of a process by its current ones."""
        self._reports.pop(cid, None)
        room = self._max - _size(self._ended) - sum(map(_size, self._reports.values()))
        found: Metrics = {}
        for name, kind, description, boundaries, series in families:
            valid = [each for each in series if _is_valid(kind, boundaries, each)]
            taken = valid[: max(0, room)]
            room -= len(taken)
            self.left_out += len(series) - len(taken)
            if taken:
                metric = found.setdefault((name, kind, boundaries), Metric(description))
                for tags, number, counts, time in taken:
                    metric.series[tags] = Value(number, counts, time)
        if found:
            self._reports[cid] = found

    def forget(self, cid: int) -> None:
        """Keep the sums of a process that has ended, and the gauges that its program has set."""
        report = self._reports.pop(cid, None)
        if report is None:
            return
        for (_, kind, _), metric in report.items():
            if kind == GAUGE:
                metric.series = {tags: value for tags, value in metric.series.items() if value.time}
        _add(self._ended, {key: metric for key, metric in report.items() if metric.series})

    def rows(self) -> list[Row]:
        """Return one row for each metric, with its series summed over all processes."""
        total: Metrics = {}
        for each in (self._ended, *self._reports.values()):
            _add(total, each)
        return [
            row(
                name,
                kind,
                metric.description,
                [(tags, *value) for tags, value in metric.series.items()],
                bounds,
            )
            for (name, kind, bounds), metric in total.items()
        ]

    def __repr__(self) -> str:
        return f"<MetricTable {len(self._reports)} processes>"


def row(
    name: str, kind: str, description: str, series: list[Series], boundaries: tuple[float, ...] = ()
) -> Row:
    """Return the row of one metric."""
    return {
        "name": name,
        "kind": kind,
        "description": description,
        "boundaries": boundaries,
        "series": tuple(series),
    }


def _size(metrics: Metrics) -> int:
    return sum(len(metric.series) for metric in metrics.values())


def _is_valid(kind: str, boundaries: tuple[float, ...], series: Series) -> bool:
    expected = len(boundaries) + 1 if kind == HISTOGRAM else 0
    return kind in KINDS and len(series[2]) == expected


def _add(total: Metrics, more: Metrics) -> None:
    """Add metrics to a total: numbers are summed, and of gauges the last set one stays."""
    for key, metric in more.items():
        series = total.setdefault(key, Metric(metric.description)).series
        for tags, value in metric.series.items():
            before = series.get(tags)
            if before is None:
                series[tags] = value
            elif key[1] != GAUGE:
                counts = tuple(a + b for a, b in zip(before.counts, value.counts, strict=True))
                series[tags] = Value(before.number + value.number, counts, 0.0)
            elif value.time >= before.time:
                series[tags] = value
