"""Metrics of deployments and of the controller under Ray's names. They are only made when the metrics are read."""

from __future__ import annotations

import skate
from skate.serve.controller.ports import ControllerPort
from skate.serve.replica.figures import Families, Family
from skate.util.metrics import registry


def publish(controller: ControllerPort) -> None:
    """Add the metrics of the controller to those of its process."""
    actor = skate.get_runtime_context().get_actor_id() or ""
    registry().add_source(lambda: _families(controller, actor))


def _families(controller: ControllerPort, actor: str) -> list[Family]:
    found = Families()
    for record in list(controller.machine.each()):
        labels = (("application", record.key[0]), ("deployment", record.key[1]))
        queued = sum(waiting.get(record.key, 0) for waiting in list(controller.demands.values()))
        found.add("deployment_queued_queries", "gauge", "Requests that wait for a replica.", labels, queued)
        found.add("num_scheduling_tasks", "gauge", "Requests that wait for a replica.", labels, queued)
        found.add("deployment_target_replicas", "gauge", "Replicas that are wanted.", labels, record.want)
        for one in list(record.serving()):
            found.add(
                "deployment_replica_healthy",
                "gauge",
                "1 if the last health check of the replica has passed, else 0.",
                (*labels, ("replica", one.id)),
                not one.failures,
            )
    own = (("actor_id", actor),)
    found.add("controller_num_control_loops", "gauge", "Passes of the controller.", own, controller.loops)
    found.add(
        "controller_control_loop_duration_s", "gauge", "Seconds of the last pass.", own, controller.pass_seconds
    )  # fmt: skip
    return list(found.all())
