"""The interface between Serve and a queue library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from skate.serve.tasks.records import TaskResult

#: The number of tasks that a consumer runs at once, unless the deployment sets max_ongoing_requests.
CONCURRENCY = 5


class TaskProcessorAdapter(ABC):
    """Base class of adapters: sends tasks to a queue, and runs handlers for those that arrive."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    @abstractmethod
    def initialize(self, consumer_concurrency: int = CONCURRENCY) -> None:
        """Connect to the queue. Called once, before any other method."""

    @abstractmethod
    def register_task_handle(self, func: Callable[..., Any], name: str | None = None) -> None:
        """Let a function handle the tasks of a name, by default its own."""

    @abstractmethod
    def enqueue_task_sync(
        self, task_name: str, args: Any | None = None, kwargs: Any | None = None, **options: Any
    ) -> TaskResult:
        """Send a task to the queue; return its id and state. Options are the adapter's."""

    @abstractmethod
    def get_task_status_sync(self, task_id: str) -> TaskResult:
        """Return the state of a task, with its result or its exception."""

    @abstractmethod
    def start_consumer(self, **kwargs: Any) -> None:
        """Start to take tasks from the queue."""

    @abstractmethod
    def stop_consumer(self, timeout: float = 10.0) -> None:
        """Take no more tasks, and wait up to `timeout` seconds for those that run."""

    @abstractmethod
    def cancel_task_sync(self, task_id: str) -> None:
        """Drop a task that has not started."""

    @abstractmethod
    def get_metrics_sync(self) -> dict[str, Any]:
        """Return the statistics of the consumers."""

    @abstractmethod
    def health_check_sync(self) -> list[dict[str, Any]]:
        """Return the consumers that answer."""

    async def enqueue_task_async(
        self, task_name: str, args: Any | None = None, kwargs: Any | None = None, **options: Any
    ) -> TaskResult:
        """Send a task to the queue. Raises NotImplementedError if the adapter cannot do that in an event loop."""
        raise self._sync_only("enqueue_task_async")

    async def get_task_status_async(self, task_id: str) -> TaskResult:
        """Return the state of a task. Raises NotImplementedError if the adapter cannot do that in an event loop."""
        raise self._sync_only("get_task_status_async")

    async def cancel_task_async(self, task_id: str) -> None:
        """Drop a task that has not started. Raises NotImplementedError if the adapter cannot do that in an event loop."""
        raise self._sync_only("cancel_task_async")

    async def get_metrics_async(self) -> dict[str, Any]:
        """Return the statistics of the consumers. Raises NotImplementedError if the adapter cannot do that in an event loop."""
        raise self._sync_only("get_metrics_async")

    async def health_check_async(self) -> list[dict[str, Any]]:
        """Return the consumers that answer. Raises NotImplementedError if the adapter cannot do that in an event loop."""
        raise self._sync_only("health_check_async")

    def _sync_only(self, name: str) -> NotImplementedError:
        return NotImplementedError(
            f"{type(self).__name__} does not implement {name}; call {name.removesuffix('async')}sync instead, in a thread if "
            "the caller runs in an event loop"
        )
