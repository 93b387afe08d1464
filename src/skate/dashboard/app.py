"""The application: its routes, behind the guard."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from skate.dashboard import cluster_routes, state_routes
from skate.dashboard.access import Access
from skate.dashboard.guard import Guard

#: The endpoint of each path. All are read with GET: nothing here changes the session.
ROUTES: dict[str, Callable[[Request], Response]] = {
    "/metrics": cluster_routes.metrics,
    "/nodes": cluster_routes.nodes,
    "/nodes/{node_id}": cluster_routes.node,
    "/logical/actors": cluster_routes.actors,
    "/logical/actors/{actor_id}": cluster_routes.actor,
    "/timezone": cluster_routes.timezone,
    "/events": cluster_routes.events,
    "/api/version": cluster_routes.version,
    "/api/ray/version": cluster_routes.version,
    "/api/authentication_mode": cluster_routes.authentication_mode,
    "/api/healthz": cluster_routes.healthy,
    "/api/gcs_healthz": cluster_routes.healthy,
    "/api/local_raylet_healthz": cluster_routes.healthy,
    "/api/cluster_status": cluster_routes.cluster_status,
    "/api/component_activities": cluster_routes.component_activities,
    "/api/prometheus/sd": cluster_routes.service_discovery,
    "/api/jobs/": cluster_routes.jobs,
    "/api/v0/cluster_metadata": cluster_routes.cluster_metadata,
    "/api/v0/logs": state_routes.logs,
    "/api/v0/tasks/timeline": state_routes.timeline,
    "/api/v0/{kind}/summarize": state_routes.summary,
    "/api/v0/{kind}": state_routes.rows,
}


def routes() -> list[Route]:
    """Return the routes of the application."""
    return [Route(path, endpoint, methods=["GET"]) for path, endpoint in ROUTES.items()]


def guarded(access: Access) -> Guard:
    """Return the application behind its guard. It reads the session of this process."""
    return Guard(Starlette(routes=routes()), access)
