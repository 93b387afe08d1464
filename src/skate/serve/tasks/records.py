"""Settings of task queues, and the state of a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skate.serve.config.checked import Checked
from skate.serve.config.wrong_field import WrongField

CELERY_ADAPTER = "ray.serve.task_processor.CeleryTaskProcessorAdapter"


@dataclass(kw_only=True)
class CeleryAdapterConfig(Checked):
    """The settings of the Celery adapter.

    `app_custom_config` is merged into the configuration of the Celery app, and `task_custom_config` into the options of each
    task. `broker_url` is a broker of Celery, or `sqlite:///FILE`, which needs no server; so is `backend_url`, where results are
    kept.
    """

    app_custom_config: dict[str, Any] | None = None
    task_custom_config: dict[str, Any] | None = None
    broker_url: str
    backend_url: str
    broker_transport_options: dict[str, Any] | None = None


@dataclass(kw_only=True)
class TaskProcessorConfig(Checked):
    """A queue of tasks, and the adapter through which it is reached.

    A task that raises is retried `max_retries` times; None retries without a limit. After that it goes to
    `failed_task_queue_name`. A task without a handler goes to `unprocessable_task_queue_name`. Without these names such
    tasks are not kept.
    """

    queue_name: str
    adapter: Any = CELERY_ADAPTER
    adapter_config: Any
    max_retries: int | None = 3
    failed_task_queue_name: str | None = None
    unprocessable_task_queue_name: str | None = None

    def check(self) -> None:
        """Check that the adapter is a class or its import path."""
        if not isinstance(self.adapter, str) and not callable(self.adapter):
            raise WrongField(
                f"TaskProcessorConfig.adapter must be an adapter class or its import path, got {self.adapter!r:.80}. Input "
                "should be a valid string, or callable",
                ("adapter",),
            )


@dataclass(kw_only=True)
class TaskResult(Checked):
    """The state of a task. `created_at` is a Unix time, set when the task is enqueued."""

    id: str
    status: str
    created_at: float | None = None
    result: Any
