"""The calls of an asyncio actor in local mode: coroutines on a loop that waiting threads advance."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.protocol import messages as m
from skate.worker.asyncio_actor import AsyncioMode
from skate.worker.local.stepped_loop import SteppedLoop
from skate.worker.worker_core import Running

if TYPE_CHECKING:
    from skate.worker.local.inline_worker import InlineWorker


class AsyncCalls(AsyncioMode):
    """Runs the calls of one actor as tasks of a loop that no thread of its own runs."""

    def __init__(self, worker: InlineWorker) -> None:
        self.steps = SteppedLoop()
        super().__init__(worker, self.steps)
        self.worker = worker
        self.stepping = False
        self._constructor: asyncio.Task[bool] | None = None  # asyncio itself keeps only a weak reference

    @property
    def pending(self) -> bool:
        """Return True while a call has not been answered."""
        return bool(self.worker.side) or self.worker.waits

    def arrived(self) -> None:
        """Do nothing: a waiting thread takes the call from the worker's queue."""

    def run(self, running: Running, message: m.Execute | m.Invoke) -> None:
        """Run a call to its first suspension. The reader of a stream runs it."""
        self.loop.call_soon_threadsafe(super().run, running, message)
        if not running.template.streaming:
            self.step(lambda: running.task_id not in self.worker.side)

    def construct(self, running: Running, args: bytes, deps: tuple[Any, ...]) -> None:
        """Run the constructor to its first suspension."""
        self._constructor = self.loop.create_task(self.worker.make_actor_in_loop(running, args, deps))
        self.step(lambda: running.task_id not in self.worker.side)

    def step(self, until: Callable[[], bool]) -> bool:
        """Run everything that is ready; return False if another thread, or an outer frame of this one, is stepping the loop."""
        with self.worker.lock:
            if self.stepping or self.loop.is_closed():
                return False
            self.stepping = True
        try:
            if asyncio._get_running_loop() is None:
                self.steps.step(until)
            else:
                # A thread cannot run a loop inside another one, so a helper thread runs this one.
                helper = threading.Thread(target=self.steps.step, args=(until,), name="skate-async-actor")
                helper.start()
                helper.join()
        finally:
            self.stepping = False
            if self.worker.gone:
                self.close()
        return True

    def close(self) -> None:
        """Cancel all tasks and close the loop. If a thread is stepping it, that thread closes it afterwards."""
        if self.stepping or self.loop.is_closed():
            return
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.stepping = True
        if asyncio._get_running_loop() is None:
            self.steps.step(lambda: False)
        self.loop.close()
