"""The calls of an asyncio actor in local mode: coroutines on a loop that waiting threads advance."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from skate.protocol import messages as m
from skate.worker.local.stepped_loop import SteppedLoop
from skate.worker.worker_core import Running

if TYPE_CHECKING:
    from skate.worker.local.inline_worker import InlineWorker


class AsyncCalls:
    """Runs the calls of one actor concurrently, within the limits of their groups."""

    def __init__(self, worker: InlineWorker) -> None:
        self.worker = worker
        self.loop = SteppedLoop()
        self.driver: int | None = None
        self._announced = 0
        self._tasks: dict[bytes, asyncio.Task[None]] = {}

    @property
    def pending(self) -> bool:
        """Return True while a call has not been answered."""
        return bool(self._tasks) or self._announced > 0 or self.worker.waits

    def start(self, sequence: int, running: Running, message: m.Execute | m.Invoke) -> None:
        """Start a call and run it to its first suspension, or queue it while its group is full."""
        worker = self.worker
        try:
            with worker.lock:
                if not worker.admit(sequence, running, message):
                    return
                self._announced += 1
        except ValueError as error:  # no such group
            worker.failed(running, error, time.perf_counter())
            return
        began = threading.Event()
        self.loop.call_soon_threadsafe(self._begin, running, message, began)
        if not running.template.streaming:
            self.step(lambda: began.is_set() and running.task_id not in self._tasks)

    def _begin(self, running: Running, message: m.Execute | m.Invoke, began: threading.Event) -> None:
        with self.worker.lock:
            self._announced -= 1
        began.set()
        self._run(running, message)

    def _run(self, running: Running, message: m.Execute | m.Invoke) -> None:
        if not self.worker.gone:
            self._tasks[running.task_id] = self.loop.create_task(self._serve(running, message))

    def step(self, until: Callable[[], bool]) -> bool:
        """Run everything that is ready; return False if another thread, or an outer frame of this one, is stepping the loop."""
        with self.worker.lock:
            if self.driver is not None or self.loop.is_closed():
                return False
            self.driver = threading.get_ident()
        try:
            if asyncio._get_running_loop() is None:
                self.loop.step(until)
            else:
                # A thread cannot run a loop inside another one, so a helper thread runs this one.
                helper = threading.Thread(target=self.loop.step, args=(until,), name="skate-async-actor")
                helper.start()
                helper.join()
        finally:
            self.driver = None
            if self.worker.gone:
                self.close()
        return True

    async def _serve(self, running: Running, message: m.Execute | m.Invoke) -> None:
        worker = self.worker
        _, _, _, args, deps, _ = message
        started = time.perf_counter()
        worker.host.here.set(worker)
        worker.context.enter(running)
        try:
            returns = await worker.call_in_loop(running, args, deps)
        except asyncio.CancelledError:
            worker.answer(running, m.CANCELLED, (), started, False)
        except BaseException as error:  # user code may raise anything; the caller gets it
            worker.raised(running, error, started)
        else:
            worker.answer(running, m.OK, returns, started, False)
        finally:
            self._tasks.pop(running.task_id, None)
            with worker.lock:
                following = worker.end(running)
            if following is not None:
                self._run(*following)

    def cancel(self, task_id: bytes) -> None:
        """Cancel a running call."""
        task = self._tasks.get(task_id)
        if task is not None:
            self.loop.call_soon_threadsafe(task.cancel)

    def close(self) -> None:
        """Cancel all tasks and close the loop. If a thread is stepping it, that thread closes it afterwards."""
        if self.driver is not None or self.loop.is_closed():
            return
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.driver = threading.get_ident()
        if asyncio._get_running_loop() is None:
            self.loop.step(lambda: False)
        self.loop.close()
