"""Runs tasks and calls one after the other in the main thread: the way of plain tasks and of ordinary actors."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from skate.client.process import Process
from skate.protocol import messages as m
from skate.wire.channel import Channel
from skate.wire.interrupts import Interrupts
from skate.wire.status import STATUS_SLOT, Slot
from skate.worker import output
from skate.worker.arguments import give_up, unpack_arguments
from skate.worker.context import ActorExit, Running, WorkerContext
from skate.worker.environment import apply_lease
from skate.worker.returns import Partial, interrupted, pack_failure, pack_returns, pack_value
from skate.worker.templates import SYSTEM_GROUP, WorkerTemplate
from skate.worker.title import Title
from skate.worker.worker_exit import TERMINATED, WorkerExit

if TYPE_CHECKING:
    from skate.worker.system_calls import SystemCalls

FLUSH_SECONDS = 0.001
SHORT_SECONDS = 0.0005
#: What a worker leaves with whose task was cancelled by force.
FORCED = 143


class Executor:
    """The worker's queue of received tasks, and the loop that executes them."""

    def __init__(self, process: Process, channel: Channel, context: WorkerContext, slot: Slot) -> None:
        self.process = process
        self.channel = channel
        self.context = context
        self.pump = process.pump
        self.lock = process.lock
        self.queue: deque[tuple[int, m.Work]] = deque()
        self.templates: dict[bytes, WorkerTemplate] = {}
        self.functions: dict[bytes, Any] = {}
        self.running: Running | None = None  # in the main thread
        self.side: dict[bytes, Running] = {}  # in threads and coroutines
        self.acked: dict[bytes, int] = {}
        self.readers: list[Any] = []
        self.leaving = False
        self.actor: Any = None
        self.mode: Any = None  # how an actor runs calls side by side, if it does
        self.system: SystemCalls | None = None
        self.received = 0
        self.slot = slot
        self._status = slot.memory
        self._flushed = 0.0
        self._interrupt: bytes | None = None
        self.interrupts = Interrupts(self.pump, whole_imports=True)
        self._main = threading.get_ident()
        self.departure = WorkerExit(self)
        self.title = Title()
        # When the process goes to sleep, which is when nobody waits for it any more.
        self.pump.on_sleep = self._rest
        process.handlers.update(
            {
                m.FUNCTION: self._function,
                m.TEMPLATE: self._template,
                m.FORGET: self._forget,
                m.EXECUTE: self._enqueue,
                m.INVOKE: self._enqueue,
                m.CONSTRUCT: self._enqueue,
                m.LEASE: self._lease,
                m.TAKE_BACK: self._take_back,
                m.STOP_TASK: self._stop_task,
                m.EXIT: self._exit,
                m.ACK: self._ack,
            }
        )

    # -- messages, under the lock

    def _function(self, message: m.Function) -> None:
        _, key, blob, _ = message
        self.functions[key] = blob

    def _template(self, message: m.Template) -> None:
        _, key, fields = message
        template = self.templates[key] = WorkerTemplate(key, fields, self.functions)
        if template.group == SYSTEM_GROUP and self.system is None:
            from skate.worker.system_calls import SystemCalls  # few actors have such calls

            self.system = SystemCalls(self)
            self.process.handlers[m.INVOKE] = self._enqueue_or_system

    def _enqueue_or_system(self, message: m.Invoke) -> None:
        _, _, key, *_ = message
        if self.system is not None and self.templates[key].group == SYSTEM_GROUP:
            self.received += 1
            if self.mode is not None:
                self.mode.begun.begin(self.received)
            self.system.put(message)
        else:
            self._enqueue(message)

    def _forget(self, message: m.Forget) -> None:
        _, keys = message
        for key in keys:
            self.templates.pop(key, None)
            self.functions.pop(key, None)

    def _enqueue(self, message: m.Execute | m.Construct | m.Invoke) -> None:
        if self.departure.final:
            return
        self.received += 1
        self.queue.append((self.received, message))
        if self.mode is not None:
            self.mode.arrived()

    def _lease(self, message: m.Lease) -> None:
        self.queue.append((0, message))

    def _take_back(self, message: m.TakeBack) -> None:
        self.give_back()

    def give_back(self) -> None:
        """Return the tasks that were not begun; the lock is held."""
        if self.actor is not None or not self.queue:
            return
        kept: list[tuple[int, m.Work]] = []
        back: dict[bytes, m.ArgumentValues] = {}
        for sequence, message in self.queue:
            if message[0] == m.EXECUTE:
                _, task_id, _, _, deps, _ = message
                back[task_id] = deps
            else:
                kept.append((sequence, message))
        self.queue.clear()
        self.queue.extend(kept)
        for deps in back.values():
            give_up(self.process, deps)
        if back:
            self.channel.push(m.Returned(m.RETURNED, tuple(back)))

    def _stop_task(self, message: m.StopTask) -> None:
        _, task_id, force = message
        for entry in self.queue:
            sequence, work = entry
            if work[0] == m.LEASE:
                continue
            _, queued, _, _, deps, _ = work
            if queued == task_id:
                self.queue.remove(entry)
                if self.mode is not None:
                    self.mode.begun.begin(sequence)
                give_up(self.process, deps)
                self.channel.push(m.Done(m.DONE, task_id, m.CANCELLED, (), 0, False))
                return
        running = self.running
        if running is not None and running.task_id == task_id:
            running.cancelled = True
            if force:
                # Under the lock, without which the task cannot answer: what ends is this task and no other.
                self.channel.flush()
                os._exit(FORCED)
            if self.actor is None:
                self._interrupt = task_id
                signal.pthread_kill(self._main, signal.SIGINT)
            return
        other = self.side.get(task_id)
        if other is not None:
            other.cancelled = True
            if other.future is not None:
                other.future.get_loop().call_soon_threadsafe(other.future.cancel)
        elif self.mode is not None and self.mode.drop(task_id):
            self.channel.push(m.Done(m.DONE, task_id, m.CANCELLED, (), 0, False))

    def on_interrupt(self, number: int, frame: Any) -> None:
        """Handle SIGINT in the main thread: cancel the running task if requested, and nothing else."""
        running = self.running
        if self.departure.terminating and running is not None:
            if self.interrupts.now(frame):
                raise SystemExit(TERMINATED)
            return
        if running is None or running.task_id != self._interrupt:
            return
        if self.interrupts.now(frame):
            self._interrupt = None
            raise KeyboardInterrupt

    def _exit(self, message: m.Exit) -> None:
        self.leaving = True
        if self.mode is not None:
            self.mode.arrived()

    def _ack(self, message: m.Ack) -> None:
        _, task_id, taken = message
        self.acked[task_id] = taken
        readers, self.readers = self.readers, []
        for future in readers:
            future.get_loop().call_soon_threadsafe(
                lambda future=future: future.done() or future.set_result(None)
            )

    def next_ack(self, loop: Any) -> Any:
        """An asyncio future that ends when a reader of some stream has taken more."""
        future = loop.create_future()
        with self.lock:
            self.readers.append(future)
        return future

    # -- the loop

    def run(self) -> None:
        """Execute tasks until told to leave."""
        queue = self.queue
        pump = self.pump
        while True:
            if not queue:
                if self.leaving:
                    return
                with self.lock:
                    pump.wait(lambda: bool(queue) or self.leaving or self.departure.idle())
                if not queue:
                    if self.leaving or pump.closed:
                        return
                    continue
            sequence, message = queue.popleft()
            if message[0] == m.EXECUTE:
                self.execute(sequence, message)
            elif message[0] == m.INVOKE:
                self.invoke(sequence, message)
            elif message[0] == m.LEASE:
                _, lease = message
                self.take_lease(lease)
            elif not self.construct(sequence, message):
                return

    def take_lease(self, lease: m.LeaseFields) -> None:
        """Resources for what follows: shown to user code, and in the environment variables that libraries read."""
        self.context.take_lease(lease)
        apply_lease(lease)

    def begin(self, sequence: int, running: Running) -> None:
        """The task is about to run in the main thread."""
        STATUS_SLOT.pack_into(self._status, 0, sequence)
        self.running = running
        self.context.main = running
        self.context.enter(running)
        output.current_name[0] = running.template.name
        self.title.show(running.template.name)

    def _rest(self) -> None:
        """The main thread goes to sleep: show so, unless it sleeps inside of a task."""
        if self.running is None:
            self.title.show(self.title.idle)

    def execute(self, sequence: int, message: m.Execute) -> None:
        """Run one plain task."""
        _, task_id, key, args, deps, attempt = message
        template = self.templates[key]
        running = Running(task_id, template, attempt)
        self.begin(sequence, running)
        started = time.perf_counter()
        try:
            function = template.load(self.process)
            if args or deps:
                given, named = self.arguments(args, deps)
                value = function(*given, **named)
            else:
                value = function()
            given = named = None  # type: ignore[assignment]
            returns = self.results(running, value)
            value = None
        except SystemExit as error:
            # The process ends, as it would for a program: the node takes that for a crash.
            self.departure.crash(error)
            return
        except BaseException as error:  # a task may end in anything; its caller gets it
            given = named = value = None  # type: ignore[assignment]
            self.failed(running, error, started)
            error = None
            return
        self.answer(running, m.OK, returns, started, False)

    def invoke(self, sequence: int, message: m.Invoke) -> None:
        """Run one method call in order."""
        if self.mode is not None:
            self.mode.start(sequence, message)
            return
        _, task_id, key, args, deps, attempt = message
        template = self.templates[key]
        running = Running(task_id, template, attempt)
        self.begin(sequence, running)
        output.current_name[0] = self.actor_name
        started = time.perf_counter()
        try:
            method = self.method(template)
            if args or deps:
                given, named = self.arguments(args, deps)
                value = method(*given, **named)
            else:
                value = method()
            given = named = None  # type: ignore[assignment]
            if running.cancelled:  # the method was not interrupted, but its caller no longer wants the result
                raise KeyboardInterrupt
            returns = self.results(running, value)
            value = None
        except BaseException as error:  # as in execute
            given = named = value = None  # type: ignore[assignment]
            if isinstance(error, (ActorExit, SystemExit)):
                self.departure.actor(error)
                return
            self.failed(running, error, started)
            error = None  # type: ignore[assignment]
            return
        self.answer(running, m.OK, returns, started, False)

    def method(self, template: WorkerTemplate) -> Any:
        """The bound method that a call names."""
        name = template.method
        if name.startswith("__ray_"):
            if name == "__ray_ready__":
                return lambda: True
            if name == "__ray_terminate__":
                return self.context.exit_actor
            if name == "__ray_call__":
                return lambda function, *args, **kwargs: function(self.actor, *args, **kwargs)
        return template.bound(self.actor)

    @property
    def actor_name(self) -> str:
        """The prefix of an actor's output lines."""
        fields = self.context.actor_fields
        name: str = fields.get("name") or self.context.actor_template.name
        return name

    def construct(self, sequence: int, message: m.Construct) -> bool:
        """Make the actor; False if that has ended the worker's loop (an asyncio actor has run and left)."""
        _, actor_id, key, args, deps, fields = message
        template = self.templates[key]
        context = self.context
        context.actor_id = actor_id
        context.actor_fields = fields
        context.actor_template = template
        context.actor_environment = template.fields.get("environment")
        running = Running(actor_id, template, 0)
        self.begin(sequence, running)
        output.current_name[0] = self.actor_name
        self.title.idle = template.fields["qualified"]
        self.title.show(f"{self.title.idle}.__init__")
        groups = template.fields.get("groups") or {}
        if template.fields.get("is_async") and groups:
            from skate.worker.grouped_loops import GroupedLoops  # likewise

            loops = GroupedLoops(self, template.fields["max_concurrency"], groups)
            if loops.construct(running, args, deps):
                self.mode = loops
            return True
        if template.fields.get("is_async"):
            from skate.worker.asyncio_actor import serve  # only asyncio actors need asyncio

            serve(self, running, args, deps)
            return False
        if self.make_actor(running, args, deps):
            concurrency = template.fields.get("max_concurrency", 1)
            if concurrency > 1 or groups:
                from skate.worker.threaded_actor import ThreadedMode  # only threaded actors need it

                self.mode = ThreadedMode(self, concurrency, groups)
        return True

    def make_actor(self, running: Running, args: bytes, deps: tuple[Any, ...]) -> bool:
        """Run the constructor and answer for it; False if it failed."""
        started = time.perf_counter()
        try:
            failed = self.context.actor_fields.get("failed")
            if failed is not None:
                from skate.client.failures import to_exception  # only failures need it

                raise to_exception(failed, None, self.process)
            cls = running.template.load(self.process)
            given, named = self.arguments(args, deps)
            self.actor = self.departure.made(cls, given, named)
        except (ActorExit, SystemExit) as error:
            self.departure.actor(error)
            return False
        except BaseException as error:  # a constructor may end in anything; its callers get it
            self.failed(running, error, started)
            return False
        self.running = None
        self.answer(running, m.OK, (), started, False)
        return True

    # -- arguments and results

    def arguments(self, blob: bytes, deps: tuple[Any, ...]) -> tuple[Any, dict[str, Any]]:
        """Positional and keyword arguments, with the values of refs in their places."""
        return unpack_arguments(self.process, blob, deps)

    def results(self, running: Running, value: Any) -> Any:
        """The packed results of a task; a generator is run to its end first."""
        template = running.template
        if template.streaming:
            self.stream(running, value)
            return ()
        return pack_returns(self.process, running, value)

    def stream(self, running: Running, generator: Any) -> None:
        """Send each value of a generator as it is yielded."""
        limit = running.template.backpressure
        task_id = running.task_id
        index = 0
        for value in generator:
            index += 1
            self.send_item(running, index, value)
            if limit:
                self.wait_for_reader(task_id, index, limit)
            if running.cancelled:
                generator.close()
                raise KeyboardInterrupt
        self.acked.pop(task_id, None)

    def send_item(self, running: Running, index: int, value: Any) -> None:
        """Send one value of a stream."""
        oid = running.task_id + index.to_bytes(4, "little")
        kind, payload, held = pack_value(self.process, running, oid, value)
        with self.lock:
            self.process.send((m.ITEM, running.task_id, index, kind, payload, held))
            running.kept.clear()
            self.channel.flush()

    def wait_for_reader(self, task_id: bytes, made: int, limit: int) -> None:
        """Wait until fewer than `limit` values of a stream are unread."""
        with self.lock:
            self.pump.wait(lambda: made - self.acked.get(task_id, 0) < limit or self.leaving)

    # -- answers

    def answer(self, running: Running, status: int, returns: Any, started: float, retriable: bool) -> None:
        """Report the end of a task; small results of quick tasks are sent together."""
        if output.unfinished[0]:
            output.flush()
        now = time.perf_counter()
        seconds = now - started
        with self.lock:
            if self.running is running:
                self.running = None
                self.context.main = None
            self.pump.interrupted = self.pump.interrupt_due = False
            self.process.send((m.DONE, running.task_id, status, returns, int(seconds * 1e6), retriable))
            running.kept.clear()
            if self.mode is not None and self.mode.flush_later():
                return
            late = not self.queue or seconds > SHORT_SECONDS or now - self._flushed > FLUSH_SECONDS
            # What goes out later is kept where it survives this process, if it says all that is queued.
            if (
                late
                or retriable
                or not self._plain(status, returns)
                or not self.slot.keep(self.channel.queued)
            ):
                self._flushed = now
                if self.channel.flush():
                    self.slot.forget()

    @staticmethod
    def _plain(status: int, returns: Any) -> bool:
        """True for an answer that needs no other message before it."""
        if status == m.FAILED:
            return "held" not in returns[1]
        return status != m.OK or all(not held for _, _, held in returns)

    def failed(self, running: Running, error: BaseException, started: float) -> None:
        """Report that a task failed, or was cancelled."""
        if self.departure.meant(error):
            return
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
        actor_id = self.context.actor_id
        payload = pack_failure(self.process, running, error, self.actor, actor_id)
        if cancelled:
            payload[1]["cancelled"] = True
        output.flush()
        if made:
            self.answer(running, m.PARTIAL, (payload, made), started, retriable)
        else:
            self.answer(running, m.FAILED, payload, started, retriable)
