"""A worker without a process: it runs its tasks in the current thread.

It has the same conversation with the node as a real worker. What differs: a generator is taken one value
further whenever somebody waits, instead of running ahead, and the calls of an asyncio actor share a loop that
is stepped.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate.client.failures import to_exception
from skate.protocol import messages as m
from skate.protocol.fields import ConstructFields
from skate.worker.arguments import give_up, unpack_arguments
from skate.worker.context import ActorExit, WorkerContext
from skate.worker.environment import of_devices
from skate.worker.returns import Partial, pack_failure, pack_returns, pack_value
from skate.worker.templates import WorkerTemplate
from skate.worker.worker_core import Running

if TYPE_CHECKING:
    from skate.worker.local.async_calls import AsyncCalls
    from skate.worker.local.local_mode import LocalHost

DRIVER = 0


class InlineWorker:
    """One worker of a node in local mode: its queue, its lease, and its actor if it has one."""

    def __init__(self, cid: int, host: LocalHost) -> None:
        self.cid = cid
        self.host = host
        self.context = WorkerContext(host.process)
        self.queue: deque[m.Execute | m.Construct | m.Invoke | m.RunTuple] = deque()
        self.functions: dict[bytes, Any] = {}
        self.templates: dict[bytes, WorkerTemplate] = {}
        self.actor: Any = None
        self.concurrent = False
        #: Calls of an asyncio actor; None for everything else.
        self.calls: AsyncCalls | None = None
        #: Streams that are not at their end, oldest first.
        self.streams: dict[bytes, Stream] = {}
        self.busy = 0
        self.gone = False

    # -- messages, under the lock

    def take(self, message: m.OfNode) -> None:
        """Take one message of the node; what is to be run is queued."""
        if message[0] == m.EXECUTE or message[0] == m.INVOKE or message[0] == m.CONSTRUCT:
            _, _, _, _, deps, _ = message
            self._take_over(deps)
            self.queue.append(message)
        elif message[0] == m.FUNCTION:
            _, key, blob, _ = message
            self.functions[key] = blob
        elif message[0] == m.TEMPLATE:
            _, key, fields = message
            self.templates[key] = WorkerTemplate(key, fields, self.functions)
        elif message[0] == m.FORGET:
            _, keys = message
            for key in keys:
                self.templates.pop(key, None)
                self.functions.pop(key, None)
        elif message[0] == m.LEASE:
            _, lease = message
            self.context.take_lease(lease)
        elif message[0] == m.STOP_TASK:
            _, task_id, force = message
            self._stop(task_id, force)
        elif message[0] == m.TAKE_BACK:
            self.give_back()
        elif message[0] == m.EXIT:
            self.host.lose(self, "left")
        elif message[0] == m.SURVEY:  # what it holds is held by the driver
            _, survey, _ = message
            held = {"pid": os.getpid(), "driver": False}
            self.host.tell(self, m.Surveyed(m.SURVEYED, survey, held))

    def _take_over(self, deps: tuple[Any, ...]) -> None:
        """Transfer grants of this worker to the single process."""
        for _, oid, kind, _ in deps:
            if kind == m.ARENA:
                self.host.step(DRIVER, m.Hold(m.HOLD, oid))
                self.host.step(self.cid, (m.FREE, oid, 1))

    def runnable(self) -> bool:
        """True if the next message can be run now."""
        return bool(self.queue) and (self.concurrent or not (self.busy or self.streams))

    def give_back(self) -> None:
        """Return the tasks that were not begun."""
        back = [message for message in self.queue if message[0] == m.EXECUTE]
        if back:
            self.queue = deque(message for message in self.queue if message[0] != m.EXECUTE)
            for _, _, _, _, deps, _ in back:
                give_up(self.host.process, deps)
            self.host.tell(self, m.Returned(m.RETURNED, tuple(task_id for _, task_id, *_ in back)))

    def _stop(self, task_id: bytes, force: bool) -> None:
        """Cancel a task that is not running in another thread; one that does run continues, with `force` its
        result is dropped.
        """
        for message in self.queue:
            _, queued, _, _, deps, _ = message
            if queued == task_id:
                self.queue.remove(message)
                give_up(self.host.process, deps)
                self.host.tell(self, (m.DONE, task_id, m.CANCELLED, (), 0, False))
                return
        stream = self.streams.get(task_id)
        if stream is not None and not stream.stepping:
            self._drop(stream)
            self.host.tell(self, (m.DONE, task_id, m.CANCELLED, (), 0, False))
        elif self.calls is not None:
            self.calls.cancel(task_id)
        elif force:
            self.host.lose(self, "was killed")

    def _drop(self, stream: Stream) -> None:
        del self.streams[stream.running.task_id]
        with self.host.aside():
            stream.iterator.close()

    # -- work, in any thread, the lock not held

    def work(self, message: m.Execute | m.Construct | m.Invoke) -> None:
        """Run one message to its end, or to where a stream or a coroutine takes over."""
        if message[0] == m.CONSTRUCT:
            self._run_constructor(message)
            return
        word, task_id, key, args, deps, attempt = message
        template = self.templates[key]
        running = Running(task_id, template, attempt)
        if word == m.INVOKE and self.calls is not None:
            self.calls.start(running, args, deps)
            return
        started = time.perf_counter()
        with self.standing_in(running):
            try:
                function = template.load(self.host.process) if word == m.EXECUTE else self.method(template)
                given, named = unpack_arguments(self.host.process, args, deps)
                value = function(*given, **named)
                if template.streaming:
                    self._open(running, iter(value))
                    return
                returns = self.results(running, value)
            except BaseException as error:  # a task may end in anything; its caller gets it
                self.failed(running, error, started)
                return
        self.answer(running, m.OK, returns, started)

    def _run_constructor(self, message: m.Construct) -> None:
        _, actor_id, key, args, deps, fields = message
        running = Running(actor_id, self.templates[key], 0)
        started = time.perf_counter()
        with self.standing_in(running):
            try:
                self._construct(running, args, deps, fields)
            except BaseException as error:  # as in work
                self.failed(running, error, started)
                return
        self.answer(running, m.OK, (), started)

    def _construct(
        self, running: Running, args: bytes, deps: tuple[Any, ...], fields: ConstructFields
    ) -> None:
        context = self.context
        template = running.template
        context.actor_id = running.task_id
        context.actor_fields = fields
        context.actor_template = template
        context.actor_environment = template.fields.get("environment")
        if fields.get("failed") is not None:
            raise to_exception(fields["failed"], None, self.host.process)
        self.concurrent = bool(template.fields.get("concurrent"))
        if template.fields.get("is_async"):
            from skate.worker.local.async_calls import AsyncCalls  # only asyncio actors need asyncio

            self.calls = AsyncCalls(self, template.fields)
        given, named = unpack_arguments(self.host.process, args, deps)
        self.actor = template.load(self.host.process)(*given, **named)

    def method(self, template: WorkerTemplate) -> Any:
        """The bound method that a call names."""
        name = template.method
        if name == "__ray_ready__":
            return lambda: True
        if name == "__ray_terminate__":
            return self.context.exit_actor
        if name == "__ray_call__":
            return lambda function, *args, **kwargs: function(self.actor, *args, **kwargs)
        return template.bound(self.actor)

    def results(self, running: Running, value: Any) -> Any:
        """The packed results of a call."""
        return pack_returns(self.host.process, running, value)

    # -- streams

    def _open(self, running: Running, iterator: Any) -> None:
        host = self.host
        with host.lock:
            self.streams[running.task_id] = Stream(running, iterator)
            # Nobody knows when it will go on: what it holds is for others until then.
            host.tell(self, m.Blocked(m.BLOCKED, running.task_id))

    def advance(self, stream: Stream) -> None:
        """Make the next value of a stream."""
        host, running = self.host, stream.running
        task_id = running.task_id
        started = time.perf_counter()
        with self.standing_in(running):
            try:
                value = next(stream.iterator)
                index = stream.made + 1
                item = pack_value(host.process, running, task_id + index.to_bytes(4, "little"), value)
            except BaseException as error:  # as in work
                self.streams.pop(task_id, None)
                if isinstance(error, StopIteration):
                    self.answer(running, m.OK, (), started)
                else:
                    self.failed(running, error, started)
                return
        stream.made = index
        with host.lock:
            host.tell(self, (m.ITEM, task_id, index, *item))
        running.kept.clear()

    # -- answers

    def answer(
        self, running: Running, status: int, returns: Any, started: float, retriable: bool = False
    ) -> None:
        """Report the end of a task."""
        micros = int((time.perf_counter() - started) * 1e6)
        with self.host.lock:
            self.host.tell(self, (m.DONE, running.task_id, status, returns, micros, retriable))
        running.kept.clear()

    def failed(self, running: Running, error: BaseException, started: float) -> None:
        """Report that a task failed, or that the actor leaves."""
        if isinstance(error, ActorExit) or (isinstance(error, SystemExit) and self.actor is not None):
            with self.host.lock:
                self.host.tell(self, m.Exiting(m.EXITING, "exit_actor"))
                self.host.lose(self, "left")
            return
        if isinstance(error, KeyboardInterrupt):
            self.answer(running, m.CANCELLED, (), started)
            raise error
        made: tuple[Any, ...] = ()
        if isinstance(error, Partial):
            made = error.made
            error = error.error
        payload = pack_failure(self.host.process, running, error, self.actor, self.context.actor_id)
        retriable = running.template.should_retry(error)
        if made:
            self.answer(running, m.PARTIAL, (payload, made), started, retriable)
        else:
            self.answer(running, m.FAILED, payload, started, retriable)

    # -- what a task sees

    @contextlib.contextmanager
    def standing_in(self, running: Running) -> Iterator[None]:
        """The current thread is this worker, and runs this task."""
        before = self.context.current()
        token = self.host.here.set(self)
        self.context.enter(running)
        try:
            with _environment(self.variables(running)):
                yield
        finally:
            self.context.enter(before)
            self.host.here.reset(token)

    def variables(self, running: Running) -> dict[str, str]:
        """The environment variables that a task asked for, and those that follow from its GPUs."""
        found: dict[str, str] = {}
        environment = running.template.fields.get("environment") or self.context.actor_environment
        if environment:
            found.update(json.loads(environment).get("env_vars") or {})
        found.update(of_devices(self.context.lease))
        return found

    def close(self) -> None:
        """Drop all work of a worker that has left."""
        self.gone = True
        for _, _, _, _, deps, _ in self.queue:
            give_up(self.host.process, deps)
        self.queue.clear()
        streams, self.streams = self.streams, {}
        for stream in streams.values():
            if not stream.stepping:
                stream.iterator.close()
        if self.calls is not None:
            self.calls.close()
        self.actor = None

    def __repr__(self) -> str:
        what = type(self.actor).__name__ if self.actor is not None else "tasks"
        return f"<InlineWorker {self.cid} {what} queued={len(self.queue)} busy={self.busy}>"


class Stream:
    """A generator between two of its values."""

    __slots__ = ("running", "iterator", "made", "stepping")

    def __init__(self, running: Running, iterator: Any) -> None:
        self.running = running
        self.iterator = iterator
        self.made = 0
        self.stepping = False


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """These environment variables are set, for a while."""
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
