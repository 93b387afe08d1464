"""Polls replicas for routing statistics (`record_routing_stats`), if a custom router uses them."""

from __future__ import annotations

import asyncio

from skate.serve.config.deployment import DEFAULT_ROUTER
from skate.serve.controller.ports import ControllerPort
from skate.serve.controller.records import DeploymentRecord, ReplicaRecord


def step(controller: ControllerPort, now: float) -> bool:
    """Start polling the replicas that are due; return True if there are any to poll."""
    found = False
    for record in controller.machine.each():
        config = record.target.config.request_router_config
        if record.deleting or config.request_router_class == DEFAULT_ROUTER:
            continue
        for one in record.serving():
            if not one.info.get("routes"):
                continue
            found = True
            if now - one.stats.get("asked", 0.0) >= config.request_routing_stats_period_s:
                one.stats["asked"] = now
                controller.pool.later(_ask(controller, record, one, config.request_routing_stats_timeout_s))
    return found


async def _ask(
    controller: ControllerPort, record: DeploymentRecord, one: ReplicaRecord, timeout_s: float
) -> None:
    actor = controller.pool.actors.get(one.id)
    if actor is None:
        return
    try:
        stats = await asyncio.wait_for(actor.routing_stats.remote().as_future(), timeout_s)
    except Exception:  # it is late, or its code raised: keep its last statistics
        return
    if stats != one.stats.get("routing"):
        one.stats["routing"] = stats
        controller.machine.changed = True
        controller.publish()
