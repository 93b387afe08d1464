"""A Celery worker in a thread of a replica."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from celery.concurrency.thread import ApplyResult, TaskPool
from celery.exceptions import WorkerShutdown

logger = logging.getLogger("ray.serve")


class _Pool(TaskPool):  # type: ignore[misc]
    """Threads in which `current_app` is the worker's app, also if the process has others."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.executor = ThreadPoolExecutor(
            self.limit, thread_name_prefix="task", initializer=self.app.set_current
        )
        self._halted = threading.Event()

    def halt(self) -> None:
        """Start no more tasks. Those that were received are not acknowledged, so they go back to the queue."""
        self._halted.set()
        self.executor.shutdown(wait=False, cancel_futures=True)

    def on_apply(self, *args: Any, **options: Any) -> Any:
        """Run a task in a thread."""
        if self._halted.is_set():
            return ApplyResult(Future())
        try:
            return super().on_apply(*args, **options)
        except RuntimeError:
            if not self._halted.is_set():
                raise
            return ApplyResult(Future())


class CeleryWorker:
    """Takes tasks from one queue, and runs them in threads.

    Args:
        app: the Celery app with the handlers.
        hostname: the worker's name, as `celery inspect` shows it.
        queue: the queue.
        concurrency: the number of threads.
    """

    def __init__(self, app: Any, hostname: str, queue: str, concurrency: int) -> None:
        self._app = app
        #: The controller of the worker, or None before it is ready to be stopped.
        self._consumer: Any = None
        self._stopping = False
        self._error: BaseException | None = None
        self._options = {
            "hostname": hostname,
            "queues": [queue],
            "concurrency": concurrency,
            "pool": _Pool,
            "without_gossip": True,
            # Celery's own event loop hangs on Redis when tasks are acknowledged in threads.
            "use_eventloop": False,
        }
        self._thread = threading.Thread(target=self._run, name=f"consumer of {queue}", daemon=True)

    def start(self) -> None:
        """Start in a thread of its own."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """True until the worker has ended."""
        return self._thread.is_alive()

    def check(self) -> None:
        """Raise RuntimeError if the worker has ended without being stopped."""
        if not self.alive and not self._stopping:
            raise RuntimeError(f"the Celery worker has ended: {self._error or 'see the log of the replica'}")

    def stop(self, timeout_s: float) -> bool:
        """Take no more tasks, and wait for those that run; return False if some still run after `timeout_s` seconds."""
        consumer = self._consumer
        if consumer is not None:
            consumer.pool.halt()
        self._stopping = True
        if consumer is not None:
            consumer.call_soon(_shut_down)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        app = self._app
        try:
            app.finalize()
            app.set_current()
            worker = app.WorkController(ready_callback=self._ready, **self._options)
            worker.start()
        except Exception as error:  # Celery's, and those of the broker's library
            self._error = error
            logger.exception("the consumer has ended")

    def _ready(self, consumer: Any) -> None:
        self._consumer = consumer
        if self._stopping:
            consumer.call_soon(_shut_down)


def _shut_down() -> None:
    """Stop the worker in whose loop this is called, once its running tasks have ended."""
    raise WorkerShutdown(0)
