"""Recently ended and failed tasks, for state lists and the timeline."""

from __future__ import annotations

from collections import deque
from typing import Any

from skate.core.clock import Clock
from skate.core.task.task import Task
from skate.protocol.states import PLAIN

FINISHED_MAX = 10_000
FAILURES_MAX = 2_000
MESSAGE_MAX = 2_000


class TaskHistory:
    """A short record of tasks that have ended."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.finished: deque[tuple[Any, ...]] = deque(maxlen=FINISHED_MAX)
        self.failures: list[tuple[Any, ...]] = []

    def failed(self, task: Task, error: tuple[str, dict[str, Any]]) -> None:
        """Record a task that has failed, whether or not it ever ran."""
        task.template.failed += 1
        task.template.failed_again += task.attempt > 0
        name, fields = error
        if fields.get("cancelled"):
            name = "TaskCancelledError"
        text = fields.get("traceback") or fields.get("message") or ""
        actor = task.actor if task.kind != PLAIN else None
        self.failures.append(
            (task.task_id, task.attempt, task.kind, task.template, actor, task.parent, self.clock.now, name,
             text[-MESSAGE_MAX:], task.since)
        )  # fmt: skip
        if len(self.failures) > 2 * FAILURES_MAX:
            del self.failures[:FAILURES_MAX]

    def __repr__(self) -> str:
        return f"<TaskHistory {len(self.finished)} finished, {len(self.failures)} failed>"
