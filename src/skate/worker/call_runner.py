"""Runs one call, however it is scheduled: unpacks arguments, calls, packs the results or the error, and answers.

The main thread runs calls one at a time (`executor`), thread pools and asyncio loops run them concurrently
(`threaded_actor`, `asyncio_actor`), and local mode runs them where they are submitted (`local.inline_worker`).
"""

from __future__ import annotations

import time
from types import MethodType
from typing import Any

from skate.client.object.object_ref import ObjectRef
from skate.client.process import Process
from skate.protocol import messages as m
from skate.wire.pump import Pump
from skate.worker.arguments import unpack_arguments
from skate.worker.context import ActorExit, WorkerContext
from skate.worker.returns import Partial, interrupted, pack_failure, pack_returns, pack_value
from skate.worker.templates import WorkerTemplate
from skate.worker.worker_core import Running, WorkerCore


class CallRunner(WorkerCore):
    """The tables of a worker, guarded by `lock`, and the code that runs its calls."""

    __slots__ = (
        "context", "lock", "mode", "process", "pump", "terminating",
    )  # fmt: skip

    process: Process
    context: WorkerContext
    lock: Any
    pump: Pump
    #: Runs the calls of a concurrent actor; None for other workers.
    mode: Any
    #: True after SIGTERM: the worker leaves once its concurrent calls have ended.
    terminating: bool

    def call(self, running: Running, args: bytes, deps: tuple[Any, ...]) -> None:
        """Run a call in the current thread, and answer it."""
        template = running.template
        started = time.perf_counter()
        try:
            if template.plain is not None:
                function: Any = MethodType(template.plain, self.actor)
            else:
                function = self.method(template) if template.method else template.load(self.process)
            if args or deps:
                given, named = self.arguments(args, deps)
                value = function(*given, **named)
            else:
                value = function()
            given = named = None  # type: ignore[assignment]
            if running.cancelled and template.method:
                # The method was not interrupted, but the caller no longer wants the result.
                raise KeyboardInterrupt
            if template.streaming:
                self.stream(running, value)
                returns: tuple[Any, ...] = ()
            else:
                returns = pack_returns(self.process, running, value)
            value = None
        except BaseException as error:  # user code may raise anything; the caller gets it
            given = named = value = None  # type: ignore[assignment]
            self.raised(running, error, started)
            return
        self.answer(running, m.OK, returns, started, False)

    async def call_in_loop(self, running: Running, args: bytes, deps: tuple[Any, ...]) -> Any:
        """Run a call in the current asyncio task; return its packed results."""
        template = running.template
        method = self.method(template)
        given, named = self.arguments(args, deps)
        value = method(*given, **named)
        if template.streaming and hasattr(value, "__aiter__"):
            await self.stream_in_loop(running, value)
            return ()
        if type(value) is not ObjectRef and hasattr(value, "__await__"):
            value = await value
        if template.streaming:
            self.stream(running, value)
            return ()
        return pack_returns(self.process, running, value)

    def take_lease(self, lease: m.LeaseFields) -> None:
        """Use a lease for the work that follows."""
        self.context.take_lease(lease)

    # -- what is called, with what

    def method(self, template: WorkerTemplate) -> Any:
        """Return the bound method that a call names."""
        name = template.method
        if name.startswith("__ray_"):
            if name == "__ray_ready__":
                return lambda: True
            if name == "__ray_terminate__":
                return self.context.exit_actor
            if name == "__ray_call__":
                return lambda function, *args, **kwargs: function(self.actor, *args, **kwargs)
        return template.bound(self.actor)

    def arguments(self, blob: bytes, deps: tuple[Any, ...]) -> tuple[Any, dict[str, Any]]:
        """Return positional and keyword arguments, with refs replaced by their values."""
        return unpack_arguments(self.process, blob, deps)

    def introduce_actor(self, message: m.Construct) -> Running:
        """Record the actor that the node assigns to this worker in the context; return its constructor call."""
        _, actor_id, key, _, _, fields = message
        template = self.templates[key]
        context = self.context
        context.actor_id = actor_id
        context.actor_fields = fields
        context.actor_template = template
        context.actor_environment = template.fields.get("environment")
        return Running(actor_id, template, 0)

    def actor_class(self, running: Running) -> Any:
        """Return the class of the actor to create; raise the error of a constructor argument that was lost."""
        failed = self.context.actor_fields.get("failed")
        if failed is not None:
            from skate.client.failures import to_exception  # only failures need it

            raise to_exception(failed, None, self.process)
        return running.template.load(self.process, f"The actor with name {running.template.name}")

    def make_actor(self, running: Running, args: bytes, deps: tuple[Any, ...]) -> bool:
        """Run the constructor and answer for it; return False if it failed."""
        started = time.perf_counter()
        try:
            cls = self.actor_class(running)
            given, named = self.arguments(args, deps)
            self.actor = self.create(cls, given, named)
        except BaseException as error:  # user code may raise anything; callers of the actor get it
            return self._unmade(running, error, started)
        return self._made(running, started)

    async def make_actor_in_loop(self, running: Running, args: bytes, deps: tuple[Any, ...]) -> bool:
        """Do the same in the current asyncio task; the constructor may be a coroutine function."""
        started = time.perf_counter()
        try:
            cls = self.actor_class(running)
            given, named = self.arguments(args, deps)
            if asyncio_function(cls.__init__):
                self.actor = await self.create_in_loop(cls, given, named)
            else:
                self.actor = self.create(cls, given, named)
        except BaseException as error:  # user code may raise anything; callers of the actor get it
            return self._unmade(running, error, started)
        return self._made(running, started)

    def _made(self, running: Running, started: float) -> bool:
        self.running = None
        self.answer(running, m.OK, (), started, False)
        return True

    def _unmade(self, running: Running, error: BaseException, started: float) -> bool:
        if isinstance(error, (ActorExit, SystemExit)):
            self.left(running, error)
        else:
            self.failed(running, error, started)
        return False

    def create(self, cls: type, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Create the actor."""
        return cls(*given, **named)

    async def create_in_loop(self, cls: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Create an actor whose constructor is a coroutine function."""
        actor = cls.__new__(cls, *given, **named)
        await actor.__init__(*given, **named)
        return actor

    # -- concurrent actors

    def start(self, sequence: int, running: Running, message: m.Execute | m.Invoke) -> None:
        """Start a concurrent call, or queue it while its group is full."""
        try:
            with self.lock:
                admitted = self.admit(sequence, running, message)
        except ValueError as error:  # no such group
            self.failed(running, error, time.perf_counter())
            return
        if admitted:
            self.mode.run(running, message)

    def end_call(self, running: Running) -> None:
        """Record the end of a concurrent call, and start the next of its group. After SIGTERM, leave with the last call."""
        with self.lock:
            following = self.end(running)
        if following is not None:
            self.mode.run(*following)
        if self.terminating:
            self.mode.terminate()
            self.pump.kick()

    def cancel_call(self, running: Running) -> None:
        """Cancel a concurrent call, if it runs in a coroutine."""
        if running.future is not None:
            running.future.get_loop().call_soon_threadsafe(running.future.cancel)

    def run_in(self, mode: Any, limits: dict[str, int]) -> None:
        """Switch to running the actor's calls concurrently."""
        with self.lock:
            self.run_side_by_side(limits)
            self.mode = mode
            self.wake = mode.arrived

    # -- streams

    def stream(self, running: Running, generator: Any) -> None:
        """Send each value of a generator as it is yielded."""
        limit, shared = running.template.backpressure, running.template.actor_backpressure
        task_id = running.task_id
        index = 0
        try:
            if shared:
                self.wait_for_room(running, index)
            for value in generator:
                index = self.send_yielded(running, index, value)
                if limit:
                    self.wait_for_reader(task_id, index, limit)
                if shared:
                    self.wait_for_room(running, index)
                if running.cancelled:
                    generator.close()
                    raise KeyboardInterrupt
        finally:
            self.acked.pop(task_id, None)
            if self.made.pop(task_id, None) is not None:
                self.pump.kick()  # other generators of the actor have more room

    async def stream_in_loop(self, running: Running, generator: Any) -> None:
        """Send each value of an asynchronous generator as it is yielded."""
        limit = running.template.backpressure
        task_id = running.task_id
        index = 0
        try:
            async for value in generator:
                index = self.send_yielded(running, index, value)
                if limit:
                    await self.wait_for_reader_in_loop(task_id, index, limit)
        finally:
            self.acked.pop(task_id, None)
            # The generator is still open if a value could not be sent or the call was cancelled.
            close = getattr(generator, "aclose", None)
            if close is not None:
                await close()

    def send_yielded(self, running: Running, index: int, value: Any) -> int:
        """Send what a generator has yielded, after its first `index` values; return the number of its values until now."""
        count = running.template.per_yield
        if count == 1:
            self.send_item(running, index + 1, value)
            return index + 1
        if not isinstance(value, (tuple, list)) or len(value) != count:
            found = f"{len(value)}" if isinstance(value, (tuple, list)) else type(value).__name__
            raise ValueError(
                f"{running.template.name} has _num_objects_per_yield={count}, so it must yield tuples of {count} values, got "
                f"{found}"
            )
        for part in value:
            index += 1
            self.send_item(running, index, part)
        return index

    def send_item(self, running: Running, index: int, value: Any) -> None:
        """Send one value of a stream."""
        oid = running.task_id + index.to_bytes(4, "little")
        packed = pack_value(self.process, running, oid, value)
        with self.lock:
            self.item(running, index, *packed)
            self.flush()

    def flush(self) -> None:
        """Write queued messages. The lock is held."""

    def wait_for_room(self, running: Running, made: int) -> None:
        """Wait until the generators of the actor have fewer unread values than it allows, and take room for another yield."""
        raise NotImplementedError

    def wait_for_reader(self, task_id: bytes, made: int, limit: int) -> None:
        """Wait until fewer than `limit` values of a stream are unread."""
        raise NotImplementedError

    async def wait_for_reader_in_loop(self, task_id: bytes, made: int, limit: int) -> None:
        """Wait in the current asyncio task until fewer than `limit` values of a stream are unread."""
        raise NotImplementedError

    # -- how a call ends

    def raised(self, running: Running, error: BaseException, started: float) -> None:
        """Report an exception to the caller, or end the worker if the exception requests it."""
        ends_actor = (ActorExit, SystemExit) if running.template.method else SystemExit
        if isinstance(error, ends_actor):
            self.left(running, error)
        else:
            self.failed(running, error, started)

    def left(self, running: Running, error: BaseException) -> None:
        """End the worker, as its call requested."""
        raise NotImplementedError

    def end_actor(self, error: BaseException | None = None) -> None:
        """End the actor at its own request."""
        raise NotImplementedError

    def may_leave(self) -> bool:
        """Return True if SIGTERM ends the worker, and no call runs any more."""
        return False

    def answer(self, running: Running, status: int, returns: Any, started: float, retriable: bool) -> None:
        """Report the end of a task."""
        micros = int((time.perf_counter() - started) * 1e6)
        with self.lock:
            self.done(running, status, returns, micros, retriable)

    def failed(self, running: Running, error: BaseException, started: float) -> None:
        """Report that a task failed, or was cancelled."""
        if self.running is running:
            self.running = None
        made: tuple[Any, ...] = ()
        if isinstance(error, Partial):
            made = error.made
            error = error.error
        retriable = running.template.should_retry(error)
        cancelled = isinstance(error, KeyboardInterrupt)
        if cancelled:
            if running.cancelled and self.actor is not None:
                self.answer(running, m.CANCELLED, (), started, False)
                return
            error = interrupted(running, error)
        payload = pack_failure(self.process, running, error, self.actor, self.context.actor_id)
        if cancelled:
            payload[1]["cancelled"] = True
        if made:
            self.answer(running, m.PARTIAL, (payload, made), started, retriable)
        else:
            self.answer(running, m.FAILED, payload, started, retriable)


def asyncio_function(function: object) -> bool:
    """Return True for `async def`."""
    return bool(getattr(getattr(function, "__code__", None), "co_flags", 0) & 0x80)
