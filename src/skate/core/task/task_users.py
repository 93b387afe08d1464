"""The components that the task manager calls as its tasks come and go."""

from __future__ import annotations

from typing import Any, Protocol

from skate.core.object.object_table import ObjectRecord
from skate.core.schedule.worker_record import Worker
from skate.core.task.task import Task
from skate.protocol import messages as m
from skate.protocol.fields import ErrorValue


class Actors(Protocol):
    """Handles constructors and the processes of actors."""

    def constructed(self, task: Task, worker: Worker, status: int, returns: Any) -> None:
        """Handle the end of a constructor."""

    def arguments_failed(self, task: Task, error: ErrorValue) -> None:
        """Handle the failure of a constructor's argument."""

    def end_if_unwanted(self, actor: Any) -> None:
        """End an actor that no process can call."""

    def worker_died(self, worker: Worker, tasks: list[Task], begun: int, reason: str) -> None:
        """Handle the death of an actor's process."""

    def creation_died(self, task: Task, worker: Worker, reason: str) -> None:
        """Handle the loss of a worker before its constructor was sent or finished."""


class Calls(Protocol):
    """Handles calls."""

    def arguments_ready(self, task: Task) -> None:
        """Handle a call whose arguments are available."""

    def answered(self, worker: Worker) -> None:
        """Handle the answer to a call."""

    def retry(self, task: Task) -> None:
        """Retry a failed call."""

    def dequeue(self, task: Task) -> None:
        """Remove a call from its queue."""


class Retries(Protocol):
    """Decides what follows the death of a worker."""

    def task(self, task: Task, worker: Worker, begun: int, reason: str) -> None:
        """A plain task was with a worker that has died."""


class Cluster(Protocol):
    """The operations on other nodes that this module needs."""

    def task_retried(self, task: Task) -> None:
        """Handle the retry of a task that a peer forwarded here."""

    def task_ended(self, task: Task) -> None:
        """Handle the end of a task here."""

    def stream_failed(self, task: Task, error: ErrorValue) -> None:
        """Handle a failed stream: its lost items are not made again."""

    def want(self, record: ObjectRecord) -> None:
        """Fetch a value from another node."""

    def cancel(self, task_id: bytes, message: m.Cancel) -> None:
        """Pass on the CANCEL of a task that is not known here."""

    def pump(self) -> None:
        """Send queued tasks to nodes that have room."""
