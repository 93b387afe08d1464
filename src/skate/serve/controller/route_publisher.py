"""Conversion of the controller's state to the table that it publishes."""

from __future__ import annotations

from typing import Any

from skate.serve.config.deployment import DEFAULT_ROUTER
from skate.serve.controller.machine import Machine
from skate.serve.controller.records import DeploymentRecord
from skate.serve.routing.table import DeploymentEntry, ReplicaEntry, Route, Table


def table_of(machine: Machine, before: Table, actors: dict[str, Any]) -> Table:
    """Build the current table, which follows `before`."""
    deployments = {}
    routes = []
    for app in machine.apps.values():
        if app.deleting:
            continue
        for record in app.deployments.values():
            if not record.deleting:
                deployments[record.key] = _entry_of(record, actors)
        if app.route_prefix is not None and app.ingress in app.deployments:
            target = app.deployments[app.ingress].target
            routes.append(Route(app.name, app.route_prefix, app.ingress, target.asgi, target.docs_path))
    routes.sort(key=lambda route: -len(route.prefix))
    populated = before.populated or bool(routes)
    return Table(before.version + 1, deployments, tuple(routes), populated=populated)


def _entry_of(record: DeploymentRecord, actors: dict[str, Any]) -> DeploymentEntry:
    config = record.target.config
    entries = []
    for one in record.serving():
        actor = actors.get(one.id)
        if actor is None:
            continue
        info = one.info
        entries.append(
            ReplicaEntry(
                one.id,
                actor,
                info.get("pid", 0),
                info.get("fd", -1),
                info.get("node", ""),
                info.get("mailbox", b""),
                one.models,
                one.routing_stats,
                one.rank,
                info.get("guarded", False),
                info.get("metadata"),
                info.get("node_ip", ""),
            )
        )
    scaling = config.autoscaling_config
    # A deployment that starts with no replicas is complete; its first request starts one.
    at_zero = scaling is not None and scaling.first == 0
    pressure = config.backpressure_config
    router = config.request_router_config
    return DeploymentEntry(
        tuple(entries),
        config.max_ongoing_requests,
        config.max_queued_requests,
        pressure.status_code,
        pressure.retry_after_s,
        None if router.request_router_class == DEFAULT_ROUTER else router,
        record.been_ready or at_zero,
        record.message if record.given_up and not entries else "",
        record.target.guarded or record.guarded,
    )
