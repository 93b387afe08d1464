"""Actors with async methods: calls are tasks of one asyncio loop in the worker's main thread, which also reads the channel."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.client.object.object_ref import ObjectRef
from skate.protocol import messages as m
from skate.wire.status import OutOfTurn
from skate.worker.arguments import give_up
from skate.worker.context import ActorExit, Running
from skate.worker.returns import interrupted
from skate.worker.threaded_actor import DEFAULT_GROUP, unknown_group

if TYPE_CHECKING:
    from skate.worker.executor import Executor


def serve(executor: Executor, running: Running, args: bytes, deps: tuple[Any, ...]) -> None:
    """Make the actor and answer its calls until it leaves."""
    uvloop = sys.modules.get("uvloop")  # where something has preloaded it, as Serve does for its replicas
    if uvloop is not None:
        uvloop.run(_serve(executor, running, args, deps))
    else:
        asyncio.run(_serve(executor, running, args, deps))


async def _serve(executor: Executor, running: Running, args: bytes, deps: tuple[Any, ...]) -> None:
    loop = asyncio.get_running_loop()
    pump = executor.pump
    fields = running.template.fields
    mode = AsyncioMode(executor, loop, {DEFAULT_GROUP: fields["max_concurrency"]}, OutOfTurn(executor.slot))
    executor.context.on_exit = mode.leave
    executor.context.enter(running)
    if not executor.make_actor(running, args, deps):
        with executor.lock:
            pump.wait(lambda: executor.leaving)
        return
    executor.context.enter(None)
    executor.mode = mode
    pump.external = True
    loop.add_reader(pump.poller.fileno(), mode.readable)
    try:
        mode.take_queue()
        mode.readable()
        await mode.left
    finally:
        loop.remove_reader(pump.poller.fileno())
        pump.external = False


class _Group:
    __slots__ = ("limit", "active", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.active = 0
        self.waiting: deque[tuple[int, m.Invoke]] = deque()


class AsyncioMode:
    """Starts calls as asyncio tasks, as many at once as their group allows, in the order they came."""

    def __init__(
        self,
        executor: Executor,
        loop: asyncio.AbstractEventLoop,
        limits: dict[str, int],
        begun: OutOfTurn,
    ) -> None:
        self.executor = executor
        self.loop = loop
        self.groups = {name: _Group(limit) for name, limit in limits.items()}
        self.left: asyncio.Future[None] = loop.create_future()
        self.begun = begun
        self._thread = threading.get_ident()
        self._flush_wanted = False
        #: Other loops of this process run calls as well, and the main thread reads the channel.
        self.direct = False
        #: Calls that are on their way to this loop.
        self._announced: dict[bytes, tuple[int, m.Invoke]] = {}
        #: asyncio keeps only weak references to tasks.
        self._tasks: set[asyncio.Task[None]] = set()

    # -- input

    def readable(self) -> None:
        """The pump's descriptors have something: take it in and start what has come."""
        executor = self.executor
        with executor.lock:
            executor.pump.drain()
        self.take_queue()

    def arrived(self) -> None:
        """A call has come while the loop was not reading: a coroutine waited in a blocking get."""
        if threading.get_ident() == self._thread:
            self.loop.call_soon(self.take_queue)
        else:
            self.loop.call_soon_threadsafe(self.take_queue)

    def take_queue(self) -> None:
        """Start the queued calls, or leave if told to."""
        executor = self.executor
        queue = executor.queue
        while queue:
            sequence, message = queue.popleft()
            if message[0] == m.INVOKE:
                self.start(sequence, message)
            elif message[0] == m.LEASE:
                _, lease = message
                executor.take_lease(lease)
        if executor.leaving and not self.left.done():
            self.left.set_result(None)

    def announce(self, sequence: int, message: m.Invoke) -> None:
        """Have a call started by the thread of this loop."""
        _, task_id, *_ = message
        with self.executor.lock:
            self._announced[task_id] = (sequence, message)
        self.loop.call_soon_threadsafe(self._announced_start, task_id)

    def _announced_start(self, task_id: bytes) -> None:
        with self.executor.lock:
            entry = self._announced.pop(task_id, None)
            if entry is not None:  # else it was cancelled meanwhile
                self.start(*entry)

    def start(self, sequence: int, message: m.Invoke) -> None:
        """Start a call, or queue it while its group is full."""
        if self.executor.departure.final:
            return
        _, task_id, key, _, _, attempt = message
        template = self.executor.templates[key]
        group = self.groups.get(template.group)
        if group is None:
            running = Running(task_id, template, attempt)
            with self.executor.lock:
                self.begun.begin(sequence)
            self.executor.failed(running, unknown_group(template.group, self.groups), time.perf_counter())
        elif group.active >= group.limit:
            group.waiting.append((sequence, message))
        else:
            self._begin(group, sequence, message)

    def _begin(self, group: _Group, sequence: int, message: m.Invoke) -> None:
        executor = self.executor
        group.active += 1
        _, task_id, key, _, _, attempt = message
        running = Running(task_id, executor.templates[key], attempt)
        with executor.lock:
            executor.side[task_id] = running
            self.begun.begin(sequence)
        task = self.loop.create_task(self._run(group, running, message))
        running.future = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def drop(self, task_id: bytes) -> bool:
        """Cancel a call that waits for its group; the engine lock is held."""
        announced = self._announced.pop(task_id, None)
        if announced is not None:
            sequence, message = announced
            _, _, _, _, deps, _ = message
            self.begun.begin(sequence)
            give_up(self.executor.process, deps)
            return True
        for group in self.groups.values():
            for entry in group.waiting:
                sequence, message = entry
                _, waiting, _, _, deps, _ = message
                if waiting == task_id:
                    group.waiting.remove(entry)
                    self.begun.begin(sequence)
                    give_up(self.executor.process, deps)
                    return True
        return False

    # -- calls

    async def _run(self, group: _Group, running: Running, message: m.Invoke) -> None:
        executor = self.executor
        executor.context.enter(running)
        started = time.perf_counter()
        try:
            if executor.departure.final:
                return
            returns = await self._call(running, message)
        except (ActorExit, SystemExit) as error:
            self.leave(error)
        except asyncio.CancelledError as error:
            if running.cancelled:
                executor.answer(running, m.CANCELLED, (), started, False)
            elif not executor.departure.final:  # else the loop is cleared: the end of the actor is the answer
                executor.failed(running, interrupted(running, error), started)
        except BaseException as error:  # a call may end in anything; its caller gets it
            if type(error).__name__ == "AsyncioActorExit":
                self.leave(None)
            else:
                executor.failed(running, error, started)
        else:
            executor.answer(running, m.OK, returns, started, False)
        finally:
            executor.side.pop(running.task_id, None)
            running.future = None  # the task holds it in its context: all that the call has left would wait for the collector
            group.active -= 1
            with executor.lock:  # which a thread holds that drops a waiting call
                while group.waiting and group.active < group.limit:
                    self._begin(group, *group.waiting.popleft())
            if executor.departure.terminating:
                self.terminate()

    async def _call(self, running: Running, message: m.Invoke) -> Any:
        executor = self.executor
        _, _, _, args, deps, _ = message
        method = executor.method(running.template)
        given, named = executor.arguments(args, deps)
        value = method(*given, **named)
        if running.template.streaming and hasattr(value, "__aiter__"):
            await self._stream(running, value)
            return ()
        if type(value) is not ObjectRef and hasattr(value, "__await__"):
            value = await value
        return executor.results(running, value)

    async def _stream(self, running: Running, generator: Any) -> None:
        executor = self.executor
        limit = running.template.backpressure
        index = 0
        try:
            async for value in generator:
                index += 1
                executor.send_item(running, index, value)
                while limit and index - executor.acked.get(running.task_id, 0) >= limit:
                    await executor.next_ack(self.loop)
        finally:
            executor.acked.pop(running.task_id, None)
            # A value that cannot be sent, or a call that is cancelled, leaves the generator where it stands.
            close = getattr(generator, "aclose", None)
            if close is not None:
                await close()

    def leave(self, error: BaseException | None = None) -> None:
        """The actor leaves; callable in any thread."""
        if not self.executor.departure.final:
            self.executor.departure.actor(error)
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

    def waits(self) -> bool:
        """True while a call waits for its group."""
        return bool(self._announced) or any(group.waiting for group in self.groups.values())

    def terminate(self) -> None:
        """SIGTERM has come: leave once no call runs."""
        if self.direct:
            self.executor.pump.kick()
            return
        self.loop.call_soon_threadsafe(self._end_if_idle)

    def _end_if_idle(self) -> None:
        if self.executor.departure.idle():
            self._end()

    # -- output

    def flush_later(self) -> bool:
        """Write answers at the end of this round of the loop, several at once."""
        if not self._flush_wanted and threading.get_ident() == self._thread:
            self._flush_wanted = True
            self.loop.call_soon(self._flush)
        return self._flush_wanted

    def _flush(self) -> None:
        self._flush_wanted = False
        executor = self.executor
        with executor.lock:
            executor.channel.flush()
