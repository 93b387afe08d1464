"""The application: its routes, behind the guard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from skate.dashboard import (
    cluster_routes,
    job_routes,
    log_routes,
    package_routes,
    profile_routes,
    ray_page,
    serve_routes,
    state_routes,
)
from skate.dashboard.access import Access
from skate.dashboard.front import file, front
from skate.dashboard.guard import Guard, Receive, Scope, Send
from skate.dashboard.own_api import CONTROLS, READS

#: The endpoint of each path that is read with GET.
ROUTES: dict[str, Callable[[Request], Response | Awaitable[Response]]] = {
    "/": front,
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
    "/api/jobs/": job_routes.rows,
    "/api/jobs/{job_id}": job_routes.row,
    "/api/jobs/{job_id}/logs": job_routes.log,
    "/api/packages/{protocol}/{name}": package_routes.look,
    "/api/serve/applications/": serve_routes.applications,
    "/api/v0/cluster_metadata": cluster_routes.cluster_metadata,
    "/api/v0/logs": log_routes.names,
    "/api/v0/logs/{media}": log_routes.lines,
    "/api/v0/tasks/timeline": state_routes.timeline,
    **ray_page.ROUTES,
    "/api/v0/{kind}/summarize": state_routes.summary,
    "/api/v0/{kind}": state_routes.rows,
    "/api/profiling_enabled": profile_routes.profiling_enabled,
    "/task/traceback": profile_routes.task_traceback,
    "/task/cpu_profile": profile_routes.task_cpu_profile,
    "/worker/traceback": profile_routes.worker_traceback,
    "/worker/cpu_profile": profile_routes.worker_cpu_profile,
    "/memory_profile": profile_routes.memory_profile,
    "/page/{path:path}": file,
    **READS,
}
#: The endpoint of each method and path that changes something. Those of Ray run code and need the scope `submit`.
CHANGES: dict[tuple[str, str], Callable[[Request], Any]] = {
    ("POST", "/api/jobs/"): job_routes.submit,
    ("DELETE", "/api/jobs/{job_id}"): job_routes.delete,
    ("POST", "/api/jobs/{job_id}/stop"): job_routes.stop,
    ("PUT", "/api/packages/{protocol}/{name}"): package_routes.put,
    ("PUT", "/api/serve/applications/"): serve_routes.apply,
    ("DELETE", "/api/serve/applications/"): serve_routes.delete,
    **{("POST", path): endpoint for path, endpoint in CONTROLS.items()},
}
#: The endpoint of each path that is followed over a WebSocket.
STREAMS: dict[str, Callable[[WebSocket], Awaitable[None]]] = {
    "/api/jobs/{job_id}/logs/tail": job_routes.follow
}


def routes() -> list[BaseRoute]:
    """Return the routes of the application."""
    return [
        *(Route(path, endpoint, methods=["GET"]) for path, endpoint in ROUTES.items()),
        *(Route(path, endpoint, methods=[method]) for (method, path), endpoint in CHANGES.items()),
        *(WebSocketRoute(path, endpoint) for path, endpoint in STREAMS.items()),
    ]


#: What is served at a port for metrics alone.
OF_METRICS = ("/metrics", "/api/prometheus/sd", "/api/healthz")


def guarded(
    access: Access,
    accepts_jobs: bool = False,
    only_metrics: bool = False,
    audit: Callable[[str], object] | None = None,
) -> Guard:
    """Return the application behind its guard. It reads the session of this process, and runs jobs on its node if it may."""
    found = [each for each in routes() if isinstance(each, Route) and each.path in OF_METRICS]
    app = Starlette(routes=found if only_metrics else routes())
    app.state.accepts_jobs = accepts_jobs
    return Guard(app, access, audit)


class ByPort:
    """An ASGI application that passes each connection on by the port at which it has arrived.

    Args:
        others: applications of certain ports.
        app: the application of all other ports.
    """

    def __init__(self, others: dict[int, Guard], app: Guard) -> None:
        self._others = others
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection."""
        port = scope["server"][1] if scope.get("server") else 0
        await self._others.get(port, self._app)(scope, receive, send)
