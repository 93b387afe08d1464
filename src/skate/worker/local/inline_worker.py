"""A worker without a process: it runs its tasks in the current thread.

It exchanges the same messages with the node as a real worker, with two differences: a generator does not run ahead,
but yields its next value when a thread waits, and the calls of an asyncio actor share a loop that waiting threads step.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from skate.client.process import Process
from skate.protocol import messages as m
from skate.wire.status import SLOT_BYTES
from skate.worker.call_runner import CallRunner, asyncio_function
from skate.worker.context import ActorExit, WorkerContext
from skate.worker.environment import of_devices
from skate.worker.templates import WorkerTemplate
from skate.worker.worker_core import DEFAULT_GROUP, SYSTEM_GROUP, Running, StopEffect

if TYPE_CHECKING:
    from skate.worker.local.async_calls import AsyncCalls

DRIVER = 0
Step: TypeAlias = Callable[[int, tuple[Any, ...]], None]
#: The worker of the current thread or coroutine; None in the driver's own code.
here: ContextVar[InlineWorker | None] = ContextVar("skate_inline", default=None)


class InlineWorker(CallRunner):
    """One worker of a node in local mode. Its calls run in the waiting thread."""

    def __init__(
        self, cid: int, process: Process, step: Step, lose: Callable[[InlineWorker, str], None]
    ) -> None:
        """`step` passes a message to the node; `lose` removes a worker, for a reason."""
        super().__init__(
            {},
            WorkerTemplate,
            self.send_to_node,
            self.send_to_node,
            process.release_later,
            bytearray(SLOT_BYTES),
        )
        self.cid = cid
        self.step = step
        self.lose = lose
        self.process = process
        self.lock = process.lock
        self.pump = process.pump
        self.context = WorkerContext(process)
        #: The calls of an asyncio actor; None for other workers.
        self.mode: AsyncCalls | None = None
        self.terminating = False
        self.concurrent = False
        #: Unfinished streams, oldest first.
        self.streams: dict[bytes, Stream] = {}
        self.busy = 0
        self.gone = False
        self.handlers[m.SURVEY] = self._survey

    # -- messages, under the lock

    def send_to_node(self, message: tuple[Any, ...]) -> None:
        """Pass a message to the node; ignore it if the worker has left."""
        if not self.gone:
            self.step(self.cid, message)

    def system_call(self, message: m.Invoke) -> None:
        """Queue the call with the others: in local mode no thread runs beside them."""
        self.enqueue(message)

    def enqueue(self, message: m.Execute | m.Construct | m.Invoke) -> None:
        """Queue work, and transfer the grants of its arguments to the single process."""
        _, _, _, _, deps, _ = message
        for _, oid, kind, _ in deps:
            if kind == m.ARENA:
                self.step(DRIVER, m.Hold(m.HOLD, oid))
                self.step(self.cid, (m.FREE, oid, 1))
        super().enqueue(message)

    def exit(self, message: m.Exit) -> None:
        """EXIT: leave at once."""
        self.lose(self, "left")

    def _survey(self, message: m.Survey) -> None:
        """SURVEY: report nothing, because the driver holds this worker's refs."""
        _, survey, *_ = message
        self.push(m.Surveyed(m.SURVEYED, survey, {"pid": os.getpid(), "driver": False}))

    def runnable(self) -> bool:
        """Return True if the next message can run now."""
        return bool(self.queue) and (self.concurrent or not (self.busy or self.streams))

    def stop_task(self, message: m.StopTask) -> StopEffect | None:
        """Cancel a task that is not running. A running one continues, but with `force` its result is dropped."""
        _, task_id, force = message
        effect = super().stop_task(message)
        stream = self.streams.get(task_id)
        if stream is not None and not stream.stepping:
            del self.streams[task_id]
            with self.pump.unlocked():
                stream.iterator.close()
            self.answer(stream.running, m.CANCELLED, (), time.perf_counter(), False)
        elif effect is not None and self.mode is not None:
            self.cancel_call(effect.running)
        elif effect is not None:
            effect.running.cancelled = False
            if force:
                self.lose(self, "was killed")
        return effect

    # -- work, in any thread, without the lock

    def work(self, entry: tuple[int, m.Work]) -> None:
        """Process one message to its end, or until a stream or a coroutine takes over."""
        sequence, message = entry
        if message[0] == m.LEASE:
            _, lease = message
            self.take_lease(lease)
            return
        if message[0] == m.CONSTRUCT:
            self._construct(message)
            return
        _, task_id, key, args, deps, attempt = message
        running = Running(task_id, self.templates[key], attempt)
        if self.mode is not None:
            self.start(sequence, running, message)
            return
        self.side[task_id] = running
        with self.standing_in(running):
            self.call(running, args, deps)

    def _construct(self, message: m.Construct) -> None:
        _, _, _, args, deps, _ = message
        running = self.introduce_actor(message)
        fields = running.template.fields
        if fields.get("is_async") and self._waits_in_constructor(running):
            self._run_async()
            self.side[running.task_id] = running  # until it is answered, waiting threads run it
            assert self.mode is not None
            self.mode.construct(running, args, deps)
        else:
            with self.standing_in(running):
                made = self.make_actor(running, args, deps)
            if made and fields.get("is_async"):
                self._run_async()
        self.concurrent = bool(fields.get("concurrent"))

    def _waits_in_constructor(self, running: Running) -> bool:
        """Return True if the constructor is a coroutine function."""
        try:
            return asyncio_function(self.actor_class(running).__init__)
        except Exception:  # loading a class runs user code, which may raise anything; `make_actor` reports it
            return False

    def _run_async(self) -> None:
        """Switch to running the calls as coroutines."""
        from skate.worker.local.async_calls import AsyncCalls  # only asyncio actors need asyncio

        fields = self.context.actor_template.fields
        limit = fields.get("max_concurrency") or 1000
        self.run_in(
            AsyncCalls(self), {DEFAULT_GROUP: limit, SYSTEM_GROUP: limit, **(fields.get("groups") or {})}
        )

    async def make_actor_in_loop(self, running: Running, args: bytes, deps: tuple[Any, ...]) -> bool:
        """Run the constructor in the current asyncio task, which stands for this worker from now on."""
        here.set(self)
        self.context.enter(running)
        return await super().make_actor_in_loop(running, args, deps)

    async def call_in_loop(self, running: Running, args: bytes, deps: tuple[Any, ...]) -> Any:
        """Run a call in the current asyncio task, which stands for this worker from now on."""
        here.set(self)
        return await super().call_in_loop(running, args, deps)

    # -- streams

    def stream(self, running: Running, generator: Any) -> None:
        """Suspend a generator until a thread waits."""
        with self.lock:
            self.streams[running.task_id] = Stream(running, iter(generator))
            # Release its resources to others, as it may not resume for a long time.
            self.push(m.Blocked(m.BLOCKED, running.task_id))

    async def stream_in_loop(self, running: Running, generator: Any) -> None:
        """Send each value of an asynchronous generator, and let its reader run before the next is produced."""
        import asyncio  # only asyncio actors need it

        index = 0
        async for value in generator:
            index += 1
            self.send_item(running, index, value)
            await asyncio.sleep(0)

    def advance(self, stream: Stream) -> None:
        """Produce and send the next value of a stream."""
        running = stream.running
        started = time.perf_counter()
        with self.standing_in(running):
            try:
                value = next(stream.iterator)
                stream.made += 1
                self.send_item(running, stream.made, value)
            except BaseException as error:  # user code may raise anything; the reader gets it
                self.streams.pop(running.task_id, None)
                if isinstance(error, StopIteration):
                    self.answer(running, m.OK, (), started, False)
                else:
                    self.raised(running, error, started)

    # -- answers

    def answer(self, running: Running, status: int, returns: Any, started: float, retriable: bool) -> None:
        """Report the end of a task, unless its stream is unfinished."""
        if running.task_id not in self.streams:
            self.side.pop(running.task_id, None)
            super().answer(running, status, returns, started, retriable)

    def failed(self, running: Running, error: BaseException, started: float) -> None:
        """Report that a task failed. Raise KeyboardInterrupt again for the caller, whose thread this is."""
        if isinstance(error, KeyboardInterrupt):
            self.answer(running, m.CANCELLED, (), started, False)
            raise error
        super().failed(running, error, started)

    def left(self, running: Running, error: BaseException) -> None:
        """End the actor. A plain task that raises SystemExit fails instead, as the process continues."""
        if self.actor is None and not isinstance(error, ActorExit):
            self.failed(running, error, time.perf_counter())
            return
        self.end_actor(error)

    def end_actor(self, error: BaseException | None = None) -> None:
        """End the actor at its own request."""
        with self.lock:
            self.push(m.Exiting(m.EXITING, "exit_actor()"))
            self.lose(self, "left")

    # -- what a task sees

    @contextlib.contextmanager
    def standing_in(self, running: Running) -> Iterator[None]:
        """Make the current thread this worker, running this task, inside the block."""
        before = self.context.current()
        token = here.set(self)
        self.context.enter(running)
        try:
            with _environment(self.variables(running)):
                yield
        finally:
            self.context.enter(before)
            here.reset(token)

    def variables(self, running: Running) -> dict[str, str]:
        """Return the environment variables that a task requests, and those for its devices."""
        found: dict[str, str] = {}
        environment = running.template.fields.get("environment") or self.context.actor_environment
        if environment:
            found.update(json.loads(environment).get("env_vars") or {})
        found.update(of_devices(self.context.lease))
        return found

    def close(self) -> None:
        """Mark the worker as gone, and drop all its work."""
        self.gone = True
        for _, message in self.queue:
            if message[0] != m.LEASE:
                _, _, _, _, deps, _ = message
                self.give_up(deps)
        self.leave()
        streams, self.streams = self.streams, {}
        for stream in streams.values():
            if not stream.stepping:
                stream.iterator.close()
        if self.mode is not None:
            self.mode.close()
        self.actor = None


class Stream:
    """A suspended generator."""

    __slots__ = ("running", "iterator", "made", "stepping")

    def __init__(self, running: Running, iterator: Any) -> None:
        self.running = running
        self.iterator = iterator
        self.made = 0
        self.stepping = False


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables inside the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
