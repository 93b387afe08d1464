"""Actors with async methods: one asyncio loop in the worker's main thread runs the calls and reads the channel."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.protocol import messages as m
from skate.worker.returns import interrupted
from skate.worker.worker_core import Running

if TYPE_CHECKING:
    from skate.worker.call_runner import CallRunner


def serve(
    executor: CallRunner, running: Running, args: bytes, deps: tuple[Any, ...], limits: dict[str, int]
) -> None:
    """Create the actor and run its calls until it leaves."""
    uvloop = sys.modules.get("uvloop")  # if preloaded, as Serve does for its replicas
    if uvloop is not None:
        uvloop.run(_serve(executor, running, args, deps, limits))
    else:
        asyncio.run(_serve(executor, running, args, deps, limits))


async def _serve(
    executor: CallRunner, running: Running, args: bytes, deps: tuple[Any, ...], limits: dict[str, int]
) -> None:
    loop = asyncio.get_running_loop()
    pump = executor.pump
    mode = AsyncioMode(executor, loop)
    executor.context.on_exit = mode.leave
    executor.context.enter(running)
    if not await executor.make_actor_in_loop(running, args, deps):
        with executor.lock:
            pump.wait(lambda: executor.leaving)
        return
    executor.context.enter(None)
    executor.run_in(mode, limits)
    pump.external = True
    loop.add_reader(pump.poller.fileno(), mode.readable)
    try:
        mode.take_queue()
        mode.readable()
        await mode.left
    finally:
        loop.remove_reader(pump.poller.fileno())
        pump.external = False


class AsyncioMode:
    """Runs calls as tasks of one asyncio loop."""

    def __init__(self, executor: CallRunner, loop: asyncio.AbstractEventLoop) -> None:
        self.executor = executor
        self.loop = loop
        self.left: asyncio.Future[None] = loop.create_future()
        self._thread = threading.get_ident()
        self._flush_wanted = False
        #: True if other loops of this process run calls as well, and the main thread reads the channel.
        self.direct = False
        #: asyncio keeps only weak references to tasks.
        self._tasks: set[asyncio.Task[None]] = set()

    # -- input

    def readable(self) -> None:
        """Read the pump's descriptors and start the calls that have arrived."""
        executor = self.executor
        with executor.lock:
            executor.pump.drain()
        self.take_queue()

    def arrived(self) -> None:
        """Schedule the queue for a call that arrived outside `readable`, while a coroutine waits in a blocking get."""
        if threading.get_ident() == self._thread:
            self.loop.call_soon(self.take_queue)
        else:
            self.loop.call_soon_threadsafe(self.take_queue)

    def take_queue(self) -> None:
        """Start the queued calls, or leave if requested."""
        executor = self.executor
        queue = executor.queue
        while queue:
            sequence, message = queue.popleft()
            if message[0] == m.INVOKE:
                _, task_id, key, _, _, attempt = message
                executor.start(sequence, Running(task_id, executor.templates[key], attempt), message)
            elif message[0] == m.LEASE:
                _, lease = message
                executor.take_lease(lease)
        if executor.leaving and not self.left.done():
            self.left.set_result(None)

    # -- calls

    def run(self, running: Running, message: m.Execute | m.Invoke) -> None:
        """Run a call on this loop. Call it in the loop's thread."""
        task = running.future = self.loop.create_task(self._run(running, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, running: Running, message: m.Execute | m.Invoke) -> None:
        executor = self.executor
        executor.context.enter(running)
        _, _, _, args, deps, _ = message
        started = time.perf_counter()
        try:
            if executor.final:
                return
            if running.cancelled:  # before it reached this loop
                raise asyncio.CancelledError
            returns = await executor.call_in_loop(running, args, deps)
        except asyncio.CancelledError as error:
            if running.cancelled:
                executor.answer(running, m.CANCELLED, (), started, False)
            elif not executor.final:  # else the loop is shutting down, and the actor's death is the answer
                executor.failed(running, interrupted(running, error), started)
        except BaseException as error:  # user code may raise anything; the caller gets it
            if type(error).__name__ == "AsyncioActorExit":
                self.leave(None)
            else:
                executor.raised(running, error, started)
        else:
            executor.answer(running, m.OK, returns, started, False)
        finally:
            running.future = (
                None  # break the cycle with the task's context, or the call's objects wait for the collector
            )
            executor.end_call(running)

    def leave(self, error: BaseException | None = None) -> None:
        """End the actor. Callable in any thread."""
        if not self.executor.final:
            self.executor.end_actor(error)
        self._on_loop(self._end)
        if self.direct:
            self.executor.pump.kick()

    def _on_loop(self, call: Callable[[], None]) -> None:
        if threading.get_ident() == self._thread:
            call()
        else:
            self.loop.call_soon_threadsafe(call)

    def _end(self) -> None:
        if not self.left.done():
            self.left.set_result(None)

    def terminate(self) -> None:
        """Handle SIGTERM: leave once no call runs."""
        self.loop.call_soon_threadsafe(self._end_if_idle)

    def _end_if_idle(self) -> None:
        if self.executor.may_leave():
            self._end()

    # -- output

    def flush_later(self) -> bool:
        """Write answers together at the end of this iteration of the loop."""
        if not self._flush_wanted and threading.get_ident() == self._thread:
            self._flush_wanted = True
            self.loop.call_soon(self._flush)
        return self._flush_wanted

    def _flush(self) -> None:
        self._flush_wanted = False
        executor = self.executor
        with executor.lock:
            executor.flush()
