"""The adapter of Celery."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable
from typing import Any

from skate.installed import require
from skate.serve.context import get_replica_context
from skate.serve.tasks.adapter import CONCURRENCY, TaskProcessorAdapter
from skate.serve.tasks.records import CeleryAdapterConfig, TaskProcessorConfig, TaskResult

logger = logging.getLogger("ray.serve")
#: The settings on which the promise depends that no task is lost with its consumer.
_OWN = (
    "worker_pool",
    "worker_concurrency",
    "task_ignore_result",
    "task_acks_late",
    "task_reject_on_worker_lost",
)
#: The longest delay before a retry, in seconds. The first one is 1 s, and each is twice the one before.
_BACKOFF_SECONDS_MAX = 60


class CeleryTaskProcessorAdapter(TaskProcessorAdapter):
    """Sends tasks to a queue of Celery, and runs handlers in a Celery worker.

    A task is acknowledged when its handler has returned, so one whose replica is killed runs again in another replica. All
    methods are synchronous.

    Args:
        config: the queue; its `adapter_config` is a CeleryAdapterConfig.

    Raises:
        TypeError: `adapter_config` is something else.
        ValueError: `app_custom_config` sets what the adapter decides.
        MissingPackageError: Celery is not installed.
    """

    def __init__(self, config: TaskProcessorConfig, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        given = config.adapter_config
        if not isinstance(given, CeleryAdapterConfig):
            raise TypeError(
                f"adapter_config must be an instance of CeleryAdapterConfig, got a {type(given).__name__}: {given!r:.80}"
            )
        taken = sorted(set(given.app_custom_config or ()) & set(_OWN))
        if taken:
            raise ValueError(
                f"app_custom_config sets {taken}, which cannot be changed: CeleryTaskProcessorAdapter decides them, "
                "so that no task is lost; set the number of threads with max_ongoing_requests"
            )
        self._celery = require("celery", "CeleryTaskProcessorAdapter", "'skate[serve-async-inference]'")
        self._config = config
        self._settings = given
        self._concurrency = CONCURRENCY
        self._app: Any = None
        self._worker: Any = None

    def initialize(self, consumer_concurrency: int = CONCURRENCY) -> None:
        """Create the Celery app, with `consumer_concurrency` threads for a consumer."""
        from skate.serve.tasks import sqlite_broker  # needs kombu

        config, settings = self._config, self._settings
        self._concurrency = consumer_concurrency
        app = self._app = self._celery.Celery(config.queue_name, set_as_current=False)
        sqlite_broker.register(app)
        names = (config.queue_name, config.failed_task_queue_name, config.unprocessable_task_queue_name)
        app.conf.update(
            {
                "broker_url": settings.broker_url,
                "result_backend": settings.backend_url,
                "worker_pool": "threads",
                "worker_concurrency": consumer_concurrency,
                "task_ignore_result": False,
                "task_acks_late": True,
                "task_reject_on_worker_lost": True,
                "broker_connection_retry_on_startup": True,
                **(settings.app_custom_config or {}),
                "task_queues": {
                    name: {"exchange": name, "exchange_type": "direct", "routing_key": name}
                    for name in names
                    if name
                },
                "task_routes": {"*": {"queue": config.queue_name}},
            }
        )
        if settings.broker_transport_options is not None:
            app.conf.broker_transport_options = settings.broker_transport_options
        if config.failed_task_queue_name:
            self._celery.signals.task_failure.connect(self._keep_failed)
        if config.unprocessable_task_queue_name:
            self._celery.signals.task_unknown.connect(self._keep_unknown)

    def register_task_handle(self, func: Callable[..., Any], name: str | None = None) -> None:
        """Let a function handle the tasks of a name. Raises NotImplementedError for an async function."""
        if inspect.iscoroutinefunction(func):
            raise NotImplementedError(
                f"Async task handlers are not supported: Celery runs handlers in threads, and {name or func.__name__} is "
                "async; write `def` instead of `async def`"
            )
        options = {
            "autoretry_for": (Exception,),
            "retry_kwargs": {"max_retries": self._config.max_retries},
            "retry_backoff": True,
            "retry_backoff_max": _BACKOFF_SECONDS_MAX,
            "retry_jitter": False,
            **(self._settings.task_custom_config or {}),
        }
        if name:
            options["name"] = name
        self._app.task(**options)(func)

    def enqueue_task_sync(
        self, task_name: str, args: Any | None = None, kwargs: Any | None = None, **options: Any
    ) -> TaskResult:
        """Send a task; options are those of Celery's `send_task`, such as `countdown` in seconds."""
        sent = self._app.send_task(
            task_name, args=args, kwargs=kwargs, queue=self._config.queue_name, **options
        )
        return TaskResult(id=sent.id, status=sent.status, created_at=time.time(), result=sent.result)

    def get_task_status_sync(self, task_id: str) -> TaskResult:
        """Return the state of a task: PENDING (also for unknown ids), RETRY, SUCCESS, FAILURE or REVOKED."""
        found = self._app.AsyncResult(task_id)
        return TaskResult(id=found.id, status=found.status, result=found.result)

    def start_consumer(self, **kwargs: Any) -> None:
        """Start a Celery worker in a thread. Raises RayServeException outside of replicas."""
        if self._worker is not None and self._worker.alive:
            return
        from skate.serve.tasks.celery_worker import CeleryWorker  # needs Celery

        host = f"celery@{self._app.main}_{get_replica_context().replica_tag}"
        self._worker = CeleryWorker(self._app, host, self._config.queue_name, self._concurrency)
        self._worker.start()

    def stop_consumer(self, timeout: float = 10.0) -> None:
        """Take no more tasks, and wait up to `timeout` seconds for those that run.

        Tasks that were received and not started go back to the queue; those that still run do so when this process ends.
        """
        worker, self._worker = self._worker, None
        if worker is not None and not worker.stop(timeout):
            logger.warning(
                "tasks of the queue %r still run after %g s; they run again elsewhere when this replica has ended",
                self._config.queue_name,
                timeout,
            )

    def check_consumer(self) -> None:
        """Raise RuntimeError if the worker has ended by itself."""
        if self._worker is not None:
            self._worker.check()

    def cancel_task_sync(self, task_id: str) -> None:
        """Let the workers drop a task that has not started; only those that run now learn of it."""
        self._app.control.revoke(task_id)

    def get_metrics_sync(self) -> dict[str, Any]:
        """Return Celery's statistics of each worker, by its name; takes a second."""
        found: dict[str, Any] = self._app.control.inspect().stats()
        return found

    def health_check_sync(self) -> list[dict[str, Any]]:
        """Return an entry such as {"celery@queue_replica": {"ok": "pong"}} for each worker; takes a second."""
        found: list[dict[str, Any]] = self._app.control.ping()
        return found

    # -- dead letters

    def _keep_failed(self, sender: Any, task_id: str, einfo: Any, **info: Any) -> None:
        """Send a task that has failed for good to the queue for such tasks."""
        if sender.app is not self._app:
            return
        queue = self._config.failed_task_queue_name
        args, kwargs = info.get("args"), info.get("kwargs")
        self._keep(queue, sender.name, [task_id, str(einfo.exception), str(args), str(kwargs), str(einfo)])

    def _keep_unknown(self, sender: Any, name: str, id: str, message: Any, exc: Any, **info: Any) -> None:
        """Send a task without a handler to the queue for such tasks."""
        if sender.app is not self._app:
            return
        info.pop("signal", None)
        self._keep(
            self._config.unprocessable_task_queue_name, name, [name, id, str(message), str(exc), str(info)]
        )

    def _keep(self, queue: str | None, name: str, args: list[Any]) -> None:
        logger.error("the task %r goes to the queue %r", name, queue)
        self._app.send_task(name, queue=queue, args=args)
