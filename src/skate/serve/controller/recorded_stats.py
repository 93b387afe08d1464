"""Polls replicas for the statistics that their code records, for custom routers and for autoscaling policies."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any

from skate.serve.config.autoscaling import AutoscalingConfig, TimeStampedValue
from skate.serve.config.deployment import DEFAULT_ROUTER
from skate.serve.controller import clock
from skate.serve.controller.autoscaler import aggregated
from skate.serve.controller.ports import ControllerPort
from skate.serve.controller.records import DeploymentRecord, ReplicaRecord
from skate.serve.identity import AUTOSCALING_STATS, ROUTING_STATS, DeploymentID, ReplicaID

logger = logging.getLogger("ray.serve")

#: The longest interval between two autoscaling statistics of a replica, in seconds.
_RECORD_SECONDS = 0.5
#: The time that a replica has for its autoscaling statistics, in seconds.
_TIMEOUT_SECONDS = 10.0
Metrics = dict[str, dict[ReplicaID, Any]]


def step(controller: ControllerPort, now: float) -> bool:
    """Start polling the replicas that are due; return True if there are any to poll."""
    found = False
    for record in controller.machine.each():
        if record.deleting:
            continue
        config = record.target.config
        routing, scaling = config.request_router_config, config.autoscaling_config
        if routing.request_router_class != DEFAULT_ROUTER:
            for one in _due(record, ROUTING_STATS, now, routing.request_routing_stats_period_s):
                controller.pool.later(_ask_routing(controller, one, routing.request_routing_stats_timeout_s))
            found = True
        if scaling is not None:
            for one in _due(record, AUTOSCALING_STATS, now, min(_RECORD_SECONDS, scaling.metrics_interval_s)):
                controller.pool.later(_ask_autoscaling(controller, one, scaling.look_back_period_s))
            found = True
    return found


def _due(record: DeploymentRecord, method: str, now: float, interval_s: float) -> list[ReplicaRecord]:
    """Return the replicas whose code has a method that was not called for an interval, and note that it is now."""
    due = []
    for one in record.serving():
        if method in one.info.get("records", ()) and now - one.asked.get(method, 0.0) >= interval_s:
            one.asked[method] = now
            due.append(one)
    return due


async def _ask(controller: ControllerPort, one: ReplicaRecord, method: str, timeout_s: float) -> Any:
    """Return the result of a method; None if it is late, raised, or its replica has ended."""
    actor = controller.pool.actors.get(one.id)
    if actor is None:
        return None
    try:
        return await asyncio.wait_for(actor.recorded.remote(method).as_future(), timeout_s)
    except Exception as error:  # a user's code may raise anything: keep the last statistics
        logger.error("%s of %s failed: %s", method, one.id, error or type(error).__name__)
        return None


async def _ask_routing(controller: ControllerPort, one: ReplicaRecord, timeout_s: float) -> None:
    stats = await _ask(controller, one, ROUTING_STATS, timeout_s)
    if stats is not None and stats != one.routing_stats:
        one.routing_stats = stats
        controller.machine.changed = True
        controller.publish()


async def _ask_autoscaling(controller: ControllerPort, one: ReplicaRecord, look_back_s: float) -> None:
    stats = await _ask(controller, one, AUTOSCALING_STATS, _TIMEOUT_SECONDS)
    if stats is None:
        return
    if not isinstance(stats, dict) or not all(isinstance(each, (int, float)) for each in stats.values()):
        one.info["records"] = [each for each in one.info["records"] if each != AUTOSCALING_STATS]
        logger.error(
            "%s of %s must return a dict of numbers, got %.200r; it is not called again",
            AUTOSCALING_STATS,
            one.id,
            stats,
        )
        return
    now = clock.now()
    for name, value in stats.items():
        series = one.metrics.setdefault(name, deque())
        series.append(TimeStampedValue(now, value))
        while series[0].timestamp < now - look_back_s:
            series.popleft()


def metrics(record: DeploymentRecord) -> Metrics:
    """Return the recorded numbers by metric and replica, as lists of TimeStampedValue."""
    found: Metrics = {}
    for one in record.serving():
        for name, series in one.metrics.items():
            found.setdefault(name, {})[replica_id(record, one)] = list(series)
    return found


def aggregated_metrics(record: DeploymentRecord, config: AutoscalingConfig) -> Metrics:
    """Return one number for each metric and replica, aggregated over the look-back period."""
    return {
        name: {
            one: aggregated([each.value for each in series], config.aggregation_function)
            for one, series in by_replica.items()
        }
        for name, by_replica in metrics(record).items()
    }


def replica_id(record: DeploymentRecord, one: ReplicaRecord) -> ReplicaID:
    """Return the public id of a replica."""
    return ReplicaID(one.id, DeploymentID(record.key[1], record.key[0]))
