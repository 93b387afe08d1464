"""Autoscaling by the length of a queue of tasks."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from skate.installed import require
from skate.serve.config.autoscaling import AutoscalingContext

logger = logging.getLogger("ray.serve")


class AsyncInferenceAutoscalingPolicy:
    """Scales a task consumer by the tasks that wait in its queue, and the requests at its replicas.

    Each replica is to have `target_ongoing_requests` of both together. Used as the `policy_function` of an AutoscalingPolicy.

    Args:
        broker_url: the broker of the queue.
        queue_name: the queue.
        rabbitmq_management_url: accepted for programs of Ray; RabbitMQ tells the length over its own protocol.
        poll_interval_s: seconds between two looks at the queue.
    """

    def __init__(
        self,
        broker_url: str,
        queue_name: str,
        rabbitmq_management_url: str | None = None,
        poll_interval_s: float = 10.0,
    ) -> None:
        self._broker_url = broker_url
        self._queue_name = queue_name
        self._poll_interval_s = poll_interval_s
        self._length = 0
        self._next = 0.0
        self._polling: asyncio.Future[int] | None = None

    def __call__(self, ctx: AutoscalingContext) -> tuple[float, dict[str, Any]]:
        """Return the number of replicas, and the last known length of the queue."""
        self._poll()
        work = ctx.total_num_requests + self._length
        state = {"queue_length": self._length}
        if ctx.current_num_replicas == 0:
            return (1 if work > 0 else 0), state
        assert ctx.config is not None
        return work / ctx.config.get_target_ongoing_requests(), state

    def _poll(self) -> None:
        """Take the result of the last look at the queue, and start another one when it is due."""
        if self._polling is not None and self._polling.done():
            polling, self._polling = self._polling, None
            error = polling.exception()
            if error is None:
                self._length = polling.result()
            else:
                logger.warning("the length of the queue %r is unknown: %s", self._queue_name, error)
        now = time.monotonic()
        if self._polling is None and now >= self._next:
            self._next = now + self._poll_interval_s
            self._polling = asyncio.get_running_loop().run_in_executor(None, self._look)

    def _look(self) -> int:
        celery = require("celery", "AsyncInferenceAutoscalingPolicy", "'skate[serve-async-inference]'")
        from skate.serve.tasks import sqlite_broker  # needs kombu

        app = celery.Celery(self._queue_name, broker=self._broker_url, set_as_current=False)
        sqlite_broker.register(app)
        with app.connection_for_read() as connection:
            declared = connection.default_channel.queue_declare(self._queue_name, passive=True)
            return int(declared.message_count)
