"""The calls of an asyncio actor in local mode: coroutines on a loop that waiting threads advance."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.protocol import messages as m
from skate.worker.arguments import unpack_arguments
from skate.worker.local.stepped_loop import SteppedLoop
from skate.worker.returns import pack_value
from skate.worker.worker_core import Running

if TYPE_CHECKING:
    from skate.worker.local.inline_worker import InlineWorker


class AsyncCalls:
    """Runs the calls of one actor side by side, up to its `max_concurrency` or that of their group."""

    def __init__(self, worker: InlineWorker, fields: dict[str, Any]) -> None:
        self.worker = worker
        self.loop = SteppedLoop()
        self.driver: int | None = None
        self._announced = 0
        self._tasks: dict[bytes, asyncio.Task[None]] = {}
        self._limits = {
            name: asyncio.Semaphore(limit) for name, limit in (fields.get("groups") or {}).items()
        }
        self._limits[""] = asyncio.Semaphore(fields.get("max_concurrency") or 1000)

    @property
    def pending(self) -> bool:
        """True while a call has not been answered."""
        return bool(self._tasks) or self._announced > 0

    def start(self, running: Running, args: bytes, deps: tuple[Any, ...]) -> None:
        """Start a call, and run it to its first suspension."""
        with self.worker.host.lock:
            self._announced += 1
        began = threading.Event()
        self.loop.call_soon_threadsafe(self._begin, running, args, deps, began)
        if not running.template.streaming:
            self.step(lambda: began.is_set() and running.task_id not in self._tasks)

    def _begin(self, running: Running, args: bytes, deps: tuple[Any, ...], began: threading.Event) -> None:
        with self.worker.host.lock:
            self._announced -= 1
        began.set()
        if not self.worker.gone:
            self._tasks[running.task_id] = self.loop.create_task(self._serve(running, args, deps))

    def step(self, until: Callable[[], bool]) -> bool:
        """Run what can be run now; False if another thread is at it, or this one, further down."""
        with self.worker.host.lock:
            if self.driver is not None or self.loop.is_closed():
                return False
            self.driver = threading.get_ident()
        try:
            if asyncio._get_running_loop() is None:
                self.loop.step(until)
            else:
                # A thread cannot run a loop inside another one, so this one is lent a thread.
                helper = threading.Thread(target=self.loop.step, args=(until,), name="skate-async-actor")
                helper.start()
                helper.join()
        finally:
            self.driver = None
            if self.worker.gone:
                self.close()
        return True

    async def _serve(self, running: Running, args: bytes, deps: tuple[Any, ...]) -> None:
        worker = self.worker
        template = running.template
        started = time.perf_counter()
        worker.host.here.set(worker)
        worker.context.enter(running)
        try:
            async with self._limits.get(template.group) or self._limits[""]:
                given, named = unpack_arguments(worker.host.process, args, deps)
                value = worker.method(template)(*given, **named)
                if template.streaming:
                    await self._stream(running, value)
                    returns: Any = ()
                else:
                    if inspect.isawaitable(value):
                        value = await value
                    returns = worker.results(running, value)
        except asyncio.CancelledError:
            worker.answer(running, m.CANCELLED, (), started)
        except BaseException as error:  # a call may end in anything; its caller gets it
            worker.failed(running, error, started)
        else:
            worker.answer(running, m.OK, returns, started)
        finally:
            self._tasks.pop(running.task_id, None)

    async def _stream(self, running: Running, values: Any) -> None:
        index = 0
        if hasattr(values, "__aiter__"):
            async for value in values:
                index += 1
                self._item(running, index, value)
                await asyncio.sleep(0)  # lets whoever waits for this value have it before the next is made
        else:
            for value in values:
                index += 1
                self._item(running, index, value)
                await asyncio.sleep(0)

    def _item(self, running: Running, index: int, value: Any) -> None:
        worker = self.worker
        oid = running.task_id + index.to_bytes(4, "little")
        item = pack_value(worker.host.process, running, oid, value)
        with worker.host.lock:
            worker.host.tell(worker, (m.ITEM, running.task_id, index, *item))
        running.kept.clear()

    def cancel(self, task_id: bytes) -> None:
        """Cancel a call that is under way."""
        task = self._tasks.get(task_id)
        if task is not None:
            self.loop.call_soon_threadsafe(task.cancel)

    def close(self) -> None:
        """End the loop with all that still waits in it; later, if a thread is in it just now."""
        if self.driver is not None or self.loop.is_closed():
            return
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.driver = threading.get_ident()
        if asyncio._get_running_loop() is None:
            self.loop.step(lambda: False)
        self.loop.close()
