"""Calls in the group `_ray_system`: they run in their own thread, whatever else the actor is doing."""

from __future__ import annotations

import contextlib
import queue
from typing import TYPE_CHECKING

from skate.protocol import messages as m
from skate.wire.limits import LimitReached, start_thread
from skate.worker.worker_core import Running

if TYPE_CHECKING:
    from skate.worker.executor import Executor


class SystemCalls:
    """One thread that runs system calls in order of arrival."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._calls: queue.SimpleQueue[m.Invoke] = queue.SimpleQueue()
        self._started = False

    def put(self, message: m.Invoke) -> None:
        """Queue a call. The engine lock is held."""
        self._calls.put(message)
        if not self._started:
            # If the system starts no more threads, the call waits until a later one starts the thread.
            with contextlib.suppress(LimitReached):
                start_thread(self._work, "skate-system")
                self._started = True

    def _work(self) -> None:
        while True:
            self._run(self._calls.get())

    def _run(self, message: m.Invoke) -> None:
        _, task_id, key, args, deps, attempt = message
        executor = self._executor
        running = Running(task_id, executor.templates[key], attempt)
        executor.side[task_id] = running
        executor.context.enter(running)
        try:
            executor.call(running, args, deps)
        finally:
            executor.context.enter(None)
            executor.side.pop(task_id, None)
            if executor.leaving:
                executor.pump.kick()
