"""Metrics of a replica under Ray's names. They are only made when the metrics of its process are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from skate.serve import multiplex
from skate.serve.metrics_http import BOUNDS_MS
from skate.serve.replica.order import Order
from skate.util.metrics import registry

Labels = tuple[tuple[str, str], ...]
Family = tuple[str, str, str, tuple[float, ...], tuple[Any, ...]]
BOUNDS = tuple(map(float, BOUNDS_MS))

_COUNTS = {
    "replica_processing_queries": ("gauge", "Requests at work in the replica.", "ongoing"),
    "replica_pending_queries": ("gauge", "Requests that wait in the replica.", "waiting"),
    "deployment_request_counter": ("counter", "Requests that the replica has begun.", "started"),
    "deployment_error_counter": ("counter", "Requests that have failed in the replica.", "failed"),
}


class Families:
    """Series by metric."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, str, tuple[float, ...], list[Any]]] = {}

    def add(self, name: str, kind: str, description: str, labels: Labels, value: float) -> None:
        """Add one series."""
        self._series(name, kind, description).append((labels, float(value), (), 0.0))

    def add_histogram(
        self, name: str, description: str, labels: Labels, counts: list[int], whole: float
    ) -> None:
        """Add one series of times in milliseconds: a count by bucket, and the sum."""
        self._series(name, "histogram", description, BOUNDS).append(
            (labels, float(whole), tuple(counts), 0.0)
        )

    def _series(self, name: str, kind: str, description: str, bounds: tuple[float, ...] = ()) -> list[Any]:
        return self._found.setdefault(f"serve_{name}", (kind, description, bounds, []))[3]

    def all(self) -> Iterator[Family]:
        """Yield all metrics."""
        for name, (kind, description, bounds, series) in self._found.items():
            yield name, kind, description, bounds, tuple(series)


def publish(order: Order, counts: Callable[[], dict[str, Any]]) -> None:
    """Add the metrics of a replica to those of this process; `counts` returns its numbers."""
    registry().add_source(lambda: _families(order, counts()))


def _families(order: Order, stats: dict[str, Any]) -> list[Family]:
    found = Families()
    own: Labels = (("application", order.app), ("replica", order.replica))
    _add_counts(found, (*own, ("deployment", order.name)), stats)
    for name, counts in stats["inside"].items():
        _add_counts(found, (*own, ("deployment", name)), counts)
    labels = (*own, ("deployment", order.name))
    if "http" in stats:
        _add_http(found, labels, stats["http"])
    _add_models(found, labels)
    return list(found.all())


def _add_counts(found: Families, labels: Labels, stats: dict[str, Any]) -> None:
    for name, (kind, description, key) in _COUNTS.items():
        found.add(name, kind, description, labels, stats[key])
    found.add_histogram(
        "deployment_processing_latency_ms",
        "Times of the requests that have ended, in milliseconds.",
        labels,
        stats["classes"],
        stats["microseconds"] / 1e3,
    )


def _add_http(found: Families, labels: Labels, web: dict[str, Any]) -> None:
    found.add("num_ongoing_http_requests", "gauge", "HTTP requests at work.", labels, web["open"])
    for (route, method, status), count in web["counts"].items():
        more = (*labels, ("route", route), ("method", method), ("status_code", str(status)))
        found.add("num_http_requests", "counter", "HTTP requests that were answered.", more, count)
        if status >= 400 or status == 0:
            found.add(
                "num_http_error_requests",
                "counter",
                "HTTP requests that were answered with an error.",
                (*labels, ("route", route), ("method", method), ("error_code", str(status))),
                count,
            )
    for route, classes in web["classes"].items():
        found.add_histogram(
            "http_request_latency_ms",
            "Times of HTTP requests, in milliseconds.",
            (*labels, ("route", route)),
            classes,
            web["sums"][route],
        )


def _add_models(found: Families, labels: Labels) -> None:
    """Add the figures of the caches of models, if the replica has any."""
    stats = multiplex.stats
    if not stats.requests:
        return
    models = [model for cache in list(multiplex.caches) for model in list(cache.models)]
    for name, kind, description, value in (
        ("num_multiplexed_models", "gauge", "Models in memory.", len(models)),
        ("multiplexed_get_model_requests_counter", "counter", "Requests for a model.", stats.requests),
        ("multiplexed_models_load_counter", "counter", "Models that were loaded.", stats.loads.count),
        ("multiplexed_models_unload_counter", "counter", "Models that were unloaded.", stats.unloads.count),
    ):
        found.add(name, kind, description, labels, value)
    for name, description, times in (
        ("multiplexed_model_load_latency_ms", "Times of loading a model, in milliseconds.", stats.loads),
        (
            "multiplexed_model_unload_latency_ms",
            "Times of unloading a model, in milliseconds.",
            stats.unloads,
        ),
    ):
        found.add_histogram(name, description, labels, list(times.classes), times.milliseconds)
    for model in dict.fromkeys(models):
        found.add(
            "registered_multiplexed_model_id", "gauge", "1 for each model in memory.", (*labels, ("model_id", model)), 1
        )  # fmt: skip
