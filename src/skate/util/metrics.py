"""Metrics of a running program: Counter, Gauge, Histogram.

Each process keeps the values it records in one registry, by metric name and tags; `registry().snapshot()`
reads them, and `registry().collect()` passes them to prometheus_client if it is installed.
"""

from __future__ import annotations

import itertools
import numbers
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from skate.client.metrics import Distribution, Family, Registry, Sample, Tags, use
from skate.installed import require

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_PREFIX = "ray_"
#: The most runs with metrics, and how long one that has ended keeps them.
RECENT_MAX = 10
RECENT_SECONDS = 300.0

Run = TypeVar("Run")


class Exporter(Registry):
    """The registry of this process, which prometheus_client can read."""

    def collect(self) -> Iterator[Any]:
        """Return metric families for prometheus_client, which calls this on a registered collector.

        Raises:
            ImportError: prometheus_client is not installed.
        """
        prometheus = require("prometheus_client.core", "collect()")
        families = {
            "counter": prometheus.CounterMetricFamily,
            "gauge": prometheus.GaugeMetricFamily,
            "histogram": prometheus.HistogramMetricFamily,
        }
        for name, samples in itertools.groupby(self.snapshot(), key=lambda sample: sample.name):
            listed = list(samples)
            labels = sorted({label for sample in listed for label in sample.tags})
            family = families[listed[0].kind](_PREFIX + name, listed[0].description or name, labels=labels)
            for sample in listed:
                values = [sample.tags.get(label, "") for label in labels]
                if isinstance(sample.value, Distribution):
                    buckets = self._buckets(name, sample.value)
                    family.add_metric(values, buckets=buckets, sum_value=sample.value.sum)
                else:
                    family.add_metric(values, sample.value)
            yield family

    def _buckets(self, name: str, value: Distribution) -> list[tuple[str, float]]:
        bounds = [*map(str, map(float, self._metrics[name].boundaries)), "+Inf"]
        return list(zip(bounds, map(float, itertools.accumulate(value.counts)), strict=True))


_registry = Exporter()
use(_registry)


def registry() -> Exporter:
    """Return the registry of this process."""
    return _registry


class Recent(Generic[Run]):
    """The latest runs of a kind in this process, with metrics that are only made when they are read.

    Where metrics are read, a run that has ended stays for some minutes, so that readers see its last values.

    Args:
        read: returns the metrics of some runs. It is called under the lock of the engine, and must not wait.
    """

    def __init__(self, read: Callable[[list[Run]], Iterable[Family]]) -> None:
        self._read = read
        self._lock = threading.Lock()
        #: The runs, with the time after which nobody needs them any more.
        self._runs: list[tuple[Run, float]] = []
        self._is_source = False
        #: True once the metrics have been read.
        self.is_read = False

    def add(self, run: Run) -> None:
        """Add a run that begins."""
        with self._lock:
            if not self._is_source:
                _registry.add_source(self._families)
                self._is_source = True
            self._runs.append((run, float("inf")))
            del self._runs[:-RECENT_MAX]

    def end(self, run: Run) -> None:
        """Record that a run has ended."""
        until = time.monotonic() + RECENT_SECONDS if self.is_read else 0.0
        with self._lock:
            runs = [(each, until if each is run else before) for each, before in self._runs]
            self._runs = [(each, until) for each, until in runs if until]

    def _families(self) -> Iterable[Family]:
        now, self.is_read = time.monotonic(), True
        with self._lock:
            self._runs = [(each, until) for each, until in self._runs if now < until]
            runs = [each for each, _ in self._runs]
        return self._read(runs)


class Metric:
    """Base of Counter, Gauge and Histogram: a name, a description and tags.

    Args:
        name: letters, digits, "_" and ":", not beginning with a digit; exported as "ray_<name>". A metric with
            another name warns and records nothing.
        description: a one-line description.
        tag_keys: names of the tags that every recorded value must have; it may have more.

    Raises:
        TypeError: `tag_keys` is not a tuple of strings.
        ValueError: the name is empty or used by a metric of another kind.
    """

    _kind = ""

    def __init__(self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None) -> None:
        if not name:
            raise ValueError(f"a {type(self).__name__} needs a name")
        tag_keys = () if tag_keys is None else tag_keys
        if not isinstance(tag_keys, tuple) or not all(isinstance(key, str) for key in tag_keys):
            raise TypeError(f"tag_keys must be a tuple of strings, not {tag_keys!r}")
        self._discarded = _NAME.fullmatch(name) is None
        if self._discarded:
            warnings.warn(
                f"{name!r} is not a valid metric name, so nothing is recorded under it; use letters, digits "
                f'and "_", and do not begin with a digit',
                UserWarning,
                stacklevel=3,
            )
        elif ":" in name:
            warnings.warn(
                f'metric name {name!r} contains ":", which will be rejected in the future; use "_"',
                FutureWarning,
                stacklevel=3,
            )
        self._name = name
        self._description = description
        self._tag_keys = tag_keys
        self._default_tags: Tags = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, tag_keys={self._tag_keys})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments(), {"_default_tags": self._default_tags}

    @property
    def info(self) -> dict[str, Any]:
        """Name, description, tag keys and default tags."""
        return {
            "name": self._name,
            "description": self._description,
            "tag_keys": self._tag_keys,
            "default_tags": self._default_tags,
        }

    def set_default_tags(self, default_tags: Tags) -> Any:
        """Set default tags for recorded values, and return this metric.

        Raises:
            TypeError: a value is not a string.
            ValueError: a key is not among the tag keys.
        """
        for key in default_tags:
            if key not in self._tag_keys:
                declared = ", ".join(self._tag_keys) or "none"
                raise ValueError(f"{self._name} has no tag {key!r}; its tag_keys are: {declared}")
        self._check_tags(default_tags)
        self._default_tags = default_tags
        return self

    def _arguments(self) -> tuple[Any, ...]:
        return self._name, self._description, self._tag_keys

    def _declare(self, boundaries: tuple[float, ...] = ()) -> None:
        if not self._discarded:
            _registry.declare(self._name, self._kind, self._description, boundaries)

    def _number(self, value: Any) -> float:
        if not isinstance(value, numbers.Real):
            raise TypeError(f"{self._name}: the value must be an int or a float, not {value!r}")
        return float(value)

    def _record(self, value: Any, tags: Tags | None) -> None:
        number = self._number(value)
        if tags:
            self._check_tags(tags)
        merged = {**self._default_tags, **(tags or {})}
        missing = [key for key in self._tag_keys if key not in merged]
        if missing:
            raise ValueError(
                f"Missing value for tag key(s): {', '.join(missing)}. {self._name} has them in tag_keys; pass them in "
                "tags, or once in set_default_tags()"
            )
        if not self._discarded:
            _registry.record(self._name, merged, number)

    def _check_tags(self, tags: Tags) -> None:
        for key, value in tags.items():
            if not isinstance(value, str):
                raise TypeError(f"{self._name}: tag {key!r} must be a string, not {value!r}")


class Counter(Metric):
    """A number that only increases, such as requests served."""

    _kind = "counter"

    def __init__(self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None) -> None:
        super().__init__(name, description, tag_keys)
        self._declare()

    def inc(self, value: float = 1.0, tags: Tags | None = None) -> None:
        """Add `value` to the counter.

        Raises:
            TypeError: `value` is not a number, or a tag's value not a string.
            ValueError: `value` is not above 0, or a tag is missing.
        """
        if not self._number(value) > 0:
            raise ValueError(f"{self._name} only grows: the value must be above 0, not {value}")
        self._record(value, tags)


class Gauge(Metric):
    """A number that can increase and decrease, such as a queue's length; the last value counts."""

    _kind = "gauge"

    def __init__(self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None) -> None:
        super().__init__(name, description, tag_keys)
        self._declare()

    def set(self, value: float | None, tags: Tags | None = None) -> None:
        """Set the gauge to `value`; None changes nothing.

        Raises:
            TypeError: `value` is not a number, or a tag's value not a string.
            ValueError: a tag of the tag keys is missing.
        """
        if value is not None:
            self._record(value, tags)


class Histogram(Metric):
    """Counts of values between boundaries, such as latencies.

    Args:
        boundaries: upper ends of the buckets, positive, in any order; a last bucket holds larger values.

    Raises:
        ValueError: `boundaries` is missing, empty or not positive.
    """

    _kind = "histogram"

    def __init__(
        self,
        name: str,
        description: str = "",
        boundaries: list[float] | None = None,
        tag_keys: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(name, description, tag_keys)
        if not boundaries:
            raise ValueError(
                f'Histogram {name!r} needs boundaries, such as Histogram("name", boundaries=[1, 10])'
            )
        if any(each <= 0 for each in boundaries):
            raise ValueError(f"boundaries of {name!r} must be positive, got {boundaries}")
        self.boundaries = boundaries
        self._declare(tuple(sorted(set(map(float, boundaries)))))

    @property
    def info(self) -> dict[str, Any]:
        """Name, description, tag keys, default tags and boundaries."""
        return {**super().info, "boundaries": self.boundaries}

    def observe(self, value: float, tags: Tags | None = None) -> None:
        """Count `value` in its bucket.

        Raises:
            TypeError: `value` is not a number, or a tag's value not a string.
            ValueError: a tag of the tag keys is missing.
        """
        self._record(value, tags)

    def _arguments(self) -> tuple[Any, ...]:
        return self._name, self._description, self.boundaries, self._tag_keys


__all__ = ["Counter", "Distribution", "Gauge", "Histogram", "Sample"]
