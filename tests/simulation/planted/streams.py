"""Streams: items lost or doubled on a retry, ends that do not come, readers that are gone."""

from __future__ import annotations

from tests.simulation.planted.bug import Bug

CLUSTER = ("cluster",)

BUGS = (
    Bug(
        "a retry's items are delivered once more",
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
        "a retry starts to count its items anew",
        "skate.core.task.retry_policy:RetryPolicy.task",
        "task.attempt += 1",
        "task.attempt += 1; task.items = 0",
    ),
    Bug(
        "the error at the end of a stream takes the place of its last item",
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
        "an item that a lost peer had sent is delivered once more",
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
    ),
    Bug(
        "the reader of a stream goes on, and the node of its generator is not told",
        "skate.core.task.task_manager:TaskManager.consumed",
        "elif task.node is not None:",
        "elif task.node is not None and task.cancelled:",
        CLUSTER,
        rare=True,
    ),
)
