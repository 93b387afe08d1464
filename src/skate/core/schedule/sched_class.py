"""Scheduling classes: the tasks that the scheduler treats alike."""

from __future__ import annotations

from collections import deque
from typing import Any

from skate.core.schedule.worker_record import Worker
from skate.core.schedule.zero_cpu_admission import ZeroCpuAdmission
from skate.core.task.task import Task
from skate.protocol.strategies import Strategy


class SchedClass:
    """Tasks that the scheduler treats alike."""

    __slots__ = (
        "key",
        "request",
        "env_key",
        "environment",
        "strategy",
        "admission",
        "queue",
        "workers",
        "tried",
    )

    def __init__(
        self,
        key: Any,
        request: dict[str, int],
        env_key: str,
        environment: str | None,
        strategy: Strategy | None,
        admission: ZeroCpuAdmission | None,
    ) -> None:
        self.key = key
        self.request = request
        self.env_key = env_key
        self.environment = environment
        self.strategy = strategy
        #: Limits how many of its tasks run at once, if no CPU does.
        self.admission = admission
        self.queue: deque[Task] = deque()
        self.workers: dict[int, Worker] = {}
        #: The number of the scheduler's changes when no task of the queue could be sent any more.
        self.tried = -1

    def __repr__(self) -> str:
        return f"<SchedClass {self.key} queued={len(self.queue)} workers={list(self.workers)}>"
