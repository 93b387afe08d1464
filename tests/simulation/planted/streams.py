"""Streams: items lost or duplicated on a retry, missing ends, dead readers."""

from __future__ import annotations

from tests.simulation.planted.bug import Bug

CLUSTER = ("cluster",)

BUGS = (
    Bug(
        "a retry's items are delivered again",
        "skate.core.task.task_manager:TaskManager.item",
        "if task is not None and index > task.items:",
        "if task is not None:",
    ),
    Bug(
        "a retry's first new item is taken for an old one",
        "skate.core.task.task_manager:TaskManager.item",
        "index > task.items:",
        "index > task.items + (task.attempt > 0):",
    ),
    Bug(
        "a retry restarts the count of its items",
        "skate.core.task.retry_policy:RetryPolicy.task",
        "self.task_manager.count_attempt(task)",
        "self.task_manager.count_attempt(task); task.items = 0",
    ),
    Bug(
        "the error at the end of a stream replaces its last item",
        "skate.core.task.task_manager:TaskManager.fail",
        "task.items += 1",
        "task.items += task.items == 0",
    ),
    Bug(
        "a failed stream has no end",
        "skate.core.task.task_manager:TaskManager.fail",
        "self._end_stream(task, task.items)",
        "pass",
    ),
    Bug(
        "a disconnect forgets the streams of the process",
        "skate.core.object.lifetimes:Lifetimes._awaited",
        "return False",
        "return True",
    ),
    Bug(
        "an item that a lost peer had sent is delivered again",
        "skate.core.cluster.task_forwarder:TaskForwarder.streamed",
        "if task is None or index <= task.items:",
        "if task is None:",
        CLUSTER,
        rare=True,
    ),
    Bug(
        "a stream that had ended before its peer was lost runs again",
        "skate.core.cluster.task_forwarder:TaskForwarder.stream_ended",
        'task.given = {b"the end"}',
        "pass",
        CLUSTER,
        rare=True,
    ),
    Bug(
        "the reader of a stream continues, and the node of its generator is not notified",
        "skate.core.task.task_manager:TaskManager.consumed",
        "elif task.node is not None:",
        "elif task.node is not None and task.cancelled:",
        CLUSTER,
        rare=True,
    ),
)
