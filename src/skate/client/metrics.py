"""The metrics that user code records in this process, and their reports to the node.

A process reports its metrics on request and when it ends. A worker, which may be killed, also
reports them every few seconds while it records.
"""

from __future__ import annotations

import bisect
import itertools
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from skate.client.session import session
from skate.protocol import messages as m
from skate.protocol.values import COUNTER, GAUGE

if TYPE_CHECKING:
    from skate.client.process import Process

#: The time between two reports of a worker that records.
REPORT_SECONDS = 5.0
#: The most series that a process reports; a node keeps a limited number for all of its processes.
SERIES_MAX = 10_000

Tags = dict[str, str]
_TagValues = tuple[tuple[str, str], ...]


#: Tags, number, counts of a histogram's buckets, and 0: the time of a gauge that is a reading, which ends with its process.
Reading = tuple[_TagValues, float, tuple[int, ...], float]
#: Name, kind, description, boundaries, series.
Family = tuple[str, str, str, tuple[float, ...], tuple[Reading, ...]]


class Distribution(NamedTuple):
    """The values of a histogram: a count per bucket (the last is above all boundaries), and the sum."""

    counts: tuple[int, ...]
    sum: float


class Sample(NamedTuple):
    """One series of a metric: `value` is a number, or a Distribution for a histogram."""

    name: str
    kind: str
    description: str
    tags: Tags
    value: Any


class _Series:
    """All series of one metric name in this process."""

    def __init__(self, kind: str, description: str, boundaries: tuple[float, ...]) -> None:
        self.kind = kind
        self.description = description
        self.boundaries = boundaries
        self.values: dict[_TagValues, Any] = {}
        #: When each gauge was set last: the node keeps the latest among the values of several processes.
        self.times: dict[_TagValues, float] = {}


class Registry:
    """The metrics of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._metrics: dict[str, _Series] = {}
        self._sources: list[Callable[[], Iterable[Family]]] = []
        #: True if the node has metrics of this process.
        self._reported = False
        self._due = time.monotonic() + REPORT_SECONDS

    def declare(self, name: str, kind: str, description: str, boundaries: tuple[float, ...] = ()) -> None:
        """Declare a metric; the same name refers to the same metric.

        Raises:
            ValueError: the name is taken by a metric of another kind, or with other boundaries.
        """
        with self._lock:
            known = self._metrics.setdefault(name, _Series(kind, description, boundaries))
        if (known.kind, known.boundaries) != (kind, boundaries):
            raise ValueError(
                f"metric {name!r} already exists as a {known.kind} with boundaries {list(known.boundaries)}; "
                f"a {kind} with boundaries {list(boundaries)} needs another name"
            )

    def add_source(self, source: Callable[[], Iterable[Family]]) -> None:
        """Add metrics that are only read when they are reported; they are in no snapshot.

        Args:
            source: returns all of its metrics. It is called under the lock of the engine, and must not wait.
        """
        with self._lock:
            self._sources.append(source)

    def record(self, name: str, tags: Tags, value: float) -> None:
        """Record one value of a declared metric, according to its kind."""
        key = tuple(sorted(tags.items()))
        with self._lock:
            series = self._metrics[name]
            if series.kind == GAUGE:
                series.values[key] = value
                series.times[key] = time.time()
            elif series.kind == COUNTER:
                series.values[key] = series.values.get(key, 0.0) + value
            else:
                counts, total = series.values.get(key) or ([0] * (len(series.boundaries) + 1), 0.0)
                # A bucket includes its upper boundary.
                counts[bisect.bisect_left(series.boundaries, value)] += 1
                series.values[key] = counts, total + value
        if time.monotonic() >= self._due:
            self._report_from_worker()

    def snapshot(self) -> list[Sample]:
        """Return all series with their current values."""
        with self._lock:
            return [
                Sample(name, series.kind, series.description, dict(key), _frozen(value))
                for name, series in self._metrics.items()
                for key, value in series.values.items()
            ]

    def report(self, process: Process) -> None:
        """Send the metrics to the node, if there are any. The engine lock is held."""
        self._due = time.monotonic() + REPORT_SECONDS
        families = self._families()
        if families or self._reported:
            self._reported = bool(families)
            # Nobody reads the reply: no request has number 0.
            process.emit(m.Request(m.REQUEST, 0, "report_metrics", (families,)))

    def _report_from_worker(self) -> None:
        process = session.current_or_none()
        if process is None or process.is_driver:
            self._due = time.monotonic() + REPORT_SECONDS
            return
        with process.lock:
            if not process.closed:
                self.report(process)
                process.pump.kick()

    def _families(self) -> tuple[Any, ...]:
        """Return the metrics in the form of `core.state.metric_table`."""
        left = SERIES_MAX
        found: list[Family] = []
        with self._lock:
            for name, metric in self._metrics.items():
                series = []
                for tags, value in itertools.islice(metric.values.items(), left):
                    counts, number = (tuple(value[0]), value[1]) if metric.boundaries else ((), value)
                    series.append((tags, float(number), counts, metric.times.get(tags, 0.0)))
                left -= len(series)
                if series:
                    found.append((name, metric.kind, metric.description, metric.boundaries, tuple(series)))
            sources = list(self._sources)
        for source in sources:
            for name, kind, description, boundaries, readings in source():
                taken = readings[: max(0, left)]
                left -= len(taken)
                if taken:
                    found.append((name, kind, description, boundaries, taken))
        return tuple(found)

    def clear(self) -> None:
        """Forget all recorded values; the metrics stay declared."""
        with self._lock:
            for series in self._metrics.values():
                series.values.clear()
                series.times.clear()


def _frozen(value: Any) -> Any:
    return Distribution(tuple(value[0]), value[1]) if isinstance(value, tuple) else value


#: The registry of this process, once it has metrics.
_registry: Registry | None = None


def use(registry: Registry) -> None:
    """Set the registry of this process."""
    global _registry
    _registry = registry


def report(process: Process) -> None:
    """Send the metrics of this process to its node, if it has any. The engine lock is held."""
    if _registry is not None:
        _registry.report(process)
