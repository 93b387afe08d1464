"""Metrics in the Prometheus format: counts and latencies by route, load and replicas by deployment."""

from __future__ import annotations

import asyncio
from typing import Any

from skate.serve.controller import scale_decisions
from skate.serve.controller.ports import ControllerPort
from skate.serve.metrics_http import BOUNDS_MS

_ASK_SECONDS = 2.0


_HELP = {
    "ray_serve_deployment_queued_queries": "Requests that wait for a replica of the deployment.",
    "ray_serve_deployment_target_replicas": "Replicas that the deployment is meant to have.",
    "ray_serve_deployment_replica_healthy": "1 if the last health check of the replica has passed, else 0.",
    "ray_serve_replica_processing_queries": "Requests at work in the replica.",
    "ray_serve_replica_pending_queries": "Requests that wait in the replica.",
    "ray_serve_deployment_request_counter_total": "Requests that the replica has begun.",
    "ray_serve_deployment_error_counter_total": "Requests that have failed in the replica.",
    "ray_serve_deployment_processing_time_seconds_total": "Time of the requests that have ended, in seconds.",
    "ray_serve_deployment_processing_latency_ms": "Times of the requests that have ended, in milliseconds.",
    "ray_serve_num_http_requests_total": "HTTP requests that were answered.",
    "ray_serve_num_http_error_requests_total": "HTTP requests that were answered with an error.",
    "ray_serve_http_request_latency_ms": "Times of HTTP requests, in milliseconds.",
}


class Page:
    """The lines of one page, in which each metric is declared once."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def add(self, name: str, kind: str, value: float, suffix: str = "", **labels: Any) -> None:
        """Add one sample."""
        lines = self._lines.setdefault(name, [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} {kind}"])
        text = ",".join(f'{key}="{_escaped(str(each))}"' for key, each in labels.items())
        lines.append(f"{name}{suffix}{{{text}}} {value:g}")

    def text(self) -> str:
        """Return the page."""
        return "\n".join(line for lines in self._lines.values() for line in lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


async def page(controller: ControllerPort) -> str:
    """Build the page, without the counters of replicas that do not answer in time."""
    made = Page()
    pending = []
    for record in controller.machine.each():
        labels = {"application": record.key[0], "deployment": record.key[1]}
        _, queued = scale_decisions.load_of(controller, record)
        made.add("ray_serve_deployment_queued_queries", "gauge", queued, **labels)
        made.add("ray_serve_deployment_target_replicas", "gauge", record.want, **labels)
        for one in record.serving():
            healthy = int(not one.failures)
            made.add("ray_serve_deployment_replica_healthy", "gauge", healthy, **labels, replica=one.id)
            actor = controller.pool.actors.get(one.id)
            if actor is not None:
                pending.append((labels, one.id, actor.metrics.remote().as_future()))
    for labels, replica, future in pending:
        try:
            stats = await asyncio.wait_for(future, _ASK_SECONDS)
        except Exception:  # the replica is busy, or has ended
            continue
        _add_replica(made, {**labels, "replica": replica}, stats)
        for name, counts in stats.get("inside", {}).items():  # deployments that live in it
            _add_replica(made, {**labels, "deployment": name, "replica": replica}, counts)
    return made.text()


def _add_replica(made: Page, labels: dict[str, str], stats: dict[str, Any]) -> None:
    made.add("ray_serve_replica_processing_queries", "gauge", stats["ongoing"], **labels)
    made.add("ray_serve_replica_pending_queries", "gauge", stats["waiting"], **labels)
    made.add("ray_serve_deployment_request_counter_total", "counter", stats["started"], **labels)
    made.add("ray_serve_deployment_error_counter_total", "counter", stats["failed"], **labels)
    made.add(
        "ray_serve_deployment_processing_time_seconds_total", "counter", stats["microseconds"] / 1e6, **labels
    )
    name = "ray_serve_deployment_processing_latency_ms"
    _add_histogram(made, name, labels, stats["classes"], stats["microseconds"] / 1e3)
    web = stats.get("http")
    if web is None:
        return
    for (route, method, status), count in web["counts"].items():
        more = {**labels, "route": route, "method": method, "status_code": status}
        made.add("ray_serve_num_http_requests_total", "counter", count, **more)
        if status >= 400 or status == 0:
            made.add("ray_serve_num_http_error_requests_total", "counter", count, **more)
    for route, classes in web["classes"].items():
        own = {**labels, "route": route}
        _add_histogram(made, "ray_serve_http_request_latency_ms", own, classes, web["sums"][route])


def _add_histogram(made: Page, name: str, labels: dict[str, str], classes: list[int], whole: float) -> None:
    total = 0
    for bound, count in zip((*BOUNDS_MS, "+Inf"), classes, strict=True):
        total += count
        made.add(name, "histogram", total, "_bucket", **labels, le=bound)
    made.add(name, "histogram", whole, "_sum", **labels)
    made.add(name, "histogram", total, "_count", **labels)
