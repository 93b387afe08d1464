"""Routes of Ray's own page beside the REST of its clients: machines, lineage, datasets, training, and what runs beside it."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from skate.dashboard.ray_page import datasets, neighbours, platform, train_runs

#: The endpoint of each path that is read with GET.
ROUTES: dict[str, Callable[[Request], Response]] = {
    "/api/data/datasets/{job_id}": datasets.datasets,
    "/api/train/v2/runs/v1": train_runs.runs,
    "/api/grafana_health": neighbours.grafana,
    "/api/prometheus_health": neighbours.prometheus,
    "/api/v0/platform_events": platform.events,
    "/api/v0/runtime_env_redaction": platform.redaction,
    "/cluster_id": platform.cluster_id,
    "/usage_stats_enabled": platform.usage_stats,
}

__all__ = ["ROUTES"]
