"""The numbers of tasks in progress are not those of the tables."""

from __future__ import annotations

from tests.simulation.planted.bug import Bug

CLUSTER = ("cluster",)

BUGS = (
    Bug(
        "a task that has failed counts as one in progress",
        "skate.core.task.task_manager:TaskManager.forget",
        "task.template.left += task.task_id in self.tasks",
        "pass",
    ),
    Bug(
        "a task whose last argument has arrived counts as one without it",
        "skate.core.task.task_manager:TaskManager.argument_arrived",
        "task.template.unready -= 1",
        "pass",
    ),
    Bug(
        "a call that an actor's process took with it counts as one that it has",
        "skate.core.task.task_manager:TaskManager.worker_died",
        "task.left_actor()",
        "pass",
    ),
    Bug(
        "a task that came back from a lost node counts as one of that node",
        "skate.core.cluster.task_forwarder:TaskForwarder.lost",
        "task.template.away -= 1",
        "pass",
        CLUSTER,
    ),
    Bug(
        "another attempt counts as a first one",
        "skate.core.task.task_manager:TaskManager.count_attempt",
        "self.retried[task.task_id] = task",
        "pass",
    ),
)
