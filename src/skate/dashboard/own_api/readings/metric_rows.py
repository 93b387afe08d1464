"""The metrics of the session as numbers by labels, read at most once a second however many look."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from skate.util import exposition

FRESH_SECONDS = 1.0
Labels = dict[str, str]


class MetricRows:
    """The metrics whose names begin with certain words.

    Args: prefix: these words.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._lock = threading.Lock()
        self._read_at = 0.0
        self._series: dict[str, list[tuple[Labels, float, tuple[float, ...]]]] = {}
        self.bounds: dict[str, tuple[float, ...]] = {}

    def read(self) -> None:
        """Read the metrics again, if the last reading is old.

        Raises:
            RuntimeError: the session has ended.
            TimeoutError: no node has answered.
        """
        with self._lock:
            if time.monotonic() - self._read_at < FRESH_SECONDS:
                return
            found: dict[str, list[tuple[Labels, float, tuple[float, ...]]]] = {}
            for row in exposition.rows():
                if row["name"].startswith(self._prefix):
                    series = [
                        (dict(labels), value, tuple(counts)) for labels, value, counts, _ in row["series"]
                    ]
                    found.setdefault(row["name"], []).extend(series)
                    self.bounds[row["name"]] = tuple(row["boundaries"])
            self._series, self._read_at = found, time.monotonic()

    def each(self, name: str, **labels: str) -> Iterator[tuple[Labels, float, tuple[float, ...]]]:
        """Yield the series of a metric with certain labels: all labels, the value, the counts by bucket."""
        for found, value, counts in self._series.get(name, ()):
            if all(found.get(key) == wanted for key, wanted in labels.items()):
                yield found, value, counts

    def total(self, name: str, **labels: str) -> float | None:
        """Return the sum of the series with certain labels; None if there is none."""
        values = [value for _, value, _ in self.each(name, **labels)]
        return sum(values) if values else None

    def buckets(self, name: str, **labels: str) -> list[float]:
        """Return the sum of the counts by bucket."""
        found = [counts for _, _, counts in self.each(name, **labels)]
        return [float(sum(each)) for each in zip(*found, strict=True)] if found else []
