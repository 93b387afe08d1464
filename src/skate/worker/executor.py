"""Runs plain tasks, and calls of ordinary actors, one at a time in the main thread."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

from skate.client.process import Process
from skate.protocol import messages as m
from skate.wire.channel import Channel
from skate.wire.interrupts import Interrupts, repeat_while
from skate.wire.status import Slot
from skate.worker import output
from skate.worker.call_runner import CallRunner
from skate.worker.context import WorkerContext, set_running
from skate.worker.environment import apply_lease
from skate.worker.templates import WorkerTemplate
from skate.worker.title import Title
from skate.worker.worker_core import DEFAULT_GROUP, CancelCall, Interrupt, LeaveByForce, Running
from skate.worker.worker_exit import TERMINATED, WorkerExit

if TYPE_CHECKING:
    from skate.worker.system_calls import SystemCalls

#: The exit code of a worker whose task was cancelled with `force=True`.
FORCED = 143
#: Seconds between two looks for messages while a stream is written.
DRAIN_SECONDS = 0.005
#: The most of an actor's own text that its output lines begin with.
PREFIX_CHARACTERS_MAX = 100


class Executor(CallRunner):
    """The tables of a worker with a lock, a channel and signal handlers, and the loop that runs queued work."""

    __slots__ = (
        "_drain_at", "_interrupt", "_main", "channel", "departure", "interrupts", "prefix", "readers", "slot", "system", "title",
    )  # fmt: skip

    slot: Slot

    def __init__(self, process: Process, channel: Channel, context: WorkerContext) -> None:
        super().__init__(
            process.handlers, WorkerTemplate, channel.push, self._send, process.release_later, bytearray()
        )
        self.process = process
        self.channel = channel
        self.context = context
        self.pump = process.pump
        self.lock = process.lock
        #: Futures of async streams that wait for their readers.
        self.readers: list[Any] = []
        self.mode = None
        self.terminating = False
        self.system: SystemCalls | None = None
        #: The prefix of an actor's output lines.
        self.prefix = ""
        self._interrupt: bytes | None = None
        self._drain_at = 0.0
        self.interrupts = Interrupts(self.pump, whole_imports=True)
        self._main = threading.get_ident()
        self.departure = WorkerExit(self)
        self.title = Title()
        # The title changes only when the process goes to sleep, so that no caller waits for it.
        self.pump.on_sleep = self._rest
        self.handlers[m.STOP_TASK] = self._stop_task
        self.handlers[m.ACK] = self._ack

    def take_slot(self, slot: Slot) -> None:
        """Record in this slot what begins; call it before any work arrives."""
        self.slot = slot
        self.status = slot.memory

    # -- messages and effects, under the lock

    def _send(self, message: tuple[Any, ...]) -> None:
        """Queue an answer, after any pending releases; see `Process.send`. None of them starts work elsewhere."""
        if self.process.pending_releases:
            self.process.tidy()
        self.channel.push(message)

    def system_call(self, message: m.Invoke) -> None:
        """Run a call of the system group in its own thread."""
        if self.system is None:
            from skate.worker.system_calls import SystemCalls  # only some actors receive such calls

            self.system = SystemCalls(self)
        self.system.put(message)

    def _stop_task(self, message: m.StopTask) -> None:
        match self.stop_task(message):
            case Interrupt(running):
                task_id = self._interrupt = running.task_id
                signal.pthread_kill(self._main, signal.SIGINT)
                repeat_while(lambda: self._interrupt == task_id, self._main, signal.SIGINT)
            case CancelCall(running):
                self.cancel_call(running)
            case LeaveByForce():
                # The task needs the lock to answer, so no other task can have begun: only this one is killed.
                self.channel.flush()
                os._exit(FORCED)

    def on_interrupt(self, number: int, frame: Any) -> None:
        """Handle SIGINT in the main thread: cancel the running task if requested, and nothing else."""
        running = self.running
        if self.terminating and running is not None:
            if self.interrupts.now(frame):
                raise SystemExit(TERMINATED)
            return
        if running is None or running.task_id != self._interrupt:
            return
        if self.interrupts.now(frame):
            self._interrupt = None
            raise KeyboardInterrupt

    def _ack(self, message: m.Ack) -> None:
        self.ack(message)
        readers, self.readers = self.readers, []
        for future in readers:
            future.get_loop().call_soon_threadsafe(
                lambda future=future: future.done() or future.set_result(None)
            )

    # -- the loop

    def run(self) -> None:
        """Run queued work until the node ends the worker."""
        queue = self.queue
        pump = self.pump
        templates = self.templates
        while True:
            if not queue:
                if self.leaving:
                    return
                with self.lock:
                    pump.wait(lambda: bool(queue) or self.leaving or (self.terminating and self.may_leave()))
                if not queue:
                    if self.leaving or pump.closed:
                        return
                    continue
            sequence, message = queue.popleft()
            if message[0] == m.EXECUTE or message[0] == m.INVOKE:
                _, task_id, key, args, deps, attempt = message
                running = Running(task_id, templates[key], attempt)
                if self.mode is None:
                    self.begin(sequence, running)
                    self.enter(running)
                    self.call(running, args, deps)
                else:
                    self.start(sequence, running, message)
                message = args = deps = None  # type: ignore[assignment]
            elif message[0] == m.LEASE:
                _, lease = message
                self.take_lease(lease)
            elif not self.construct(sequence, message):
                return

    def take_lease(self, lease: m.LeaseFields) -> None:
        """Use a lease for the work that follows: show it to user code, and set the environment variables of libraries."""
        super().take_lease(lease)
        apply_lease(lease)

    def enter(self, running: Running) -> None:
        """Record the task that runs in the main thread in the context, the output and the title."""
        self.context.main = running
        set_running(running)
        name = running.template.name
        output.current_name[0] = self.prefix or name
        if name != self.title.shown:
            self.title.show(name)

    def _rest(self) -> None:
        """Show the idle title when the main thread goes to sleep, unless it sleeps inside a task."""
        if self.running is None:
            self.title.show(self.title.idle)

    def _actor_prefix(self) -> str:
        """Return the prefix of an actor's output lines."""
        fields = self.context.actor_fields
        name: str = fields.get("name") or self.context.actor_template.name
        return name

    def construct(self, sequence: int, message: m.Construct) -> bool:
        """Create the actor; return False if the worker's loop is over, after an asyncio actor has run and left."""
        _, _, _, args, deps, _ = message
        running = self.introduce_actor(message)
        self.begin(sequence, running)
        self.enter(running)
        self.prefix = output.current_name[0] = self._actor_prefix()
        fields = running.template.fields
        self.title.idle = fields["qualified"]
        self.title.show(f"{self.title.idle}.__init__")
        groups = fields.get("groups") or {}
        limits = {DEFAULT_GROUP: fields.get("max_concurrency", 1), **groups}
        if fields.get("is_async") and groups:
            from skate.worker.grouped_loops import GroupedLoops  # likewise

            loops = GroupedLoops(self)
            if loops.construct(running, args, deps):
                self.run_in(loops, limits)
            return True
        if fields.get("is_async"):
            from skate.worker.asyncio_actor import serve  # only asyncio actors need asyncio

            serve(self, running, args, deps, limits)
            return False
        if self.make_actor(running, args, deps) and (limits[DEFAULT_GROUP] > 1 or groups):
            from skate.worker.threaded_actor import ThreadedMode  # only threaded actors need it

            self.run_in(ThreadedMode(self), limits)
        return True

    def create(self, cls: type, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Create the actor, so that its cleanup method runs also if its constructor fails."""
        made = self.departure.made(cls, given, named)
        self._show_as(made)
        return made

    async def create_in_loop(self, cls: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Do the same with a constructor that is a coroutine function."""
        made = await self.departure.made_in_loop(cls, given, named)
        self._show_as(made)
        return made

    def _show_as(self, actor: Any) -> None:
        """Take the text of an actor, if it defines one, as the prefix of its output lines."""
        if getattr(type(actor), "__repr__", None) is object.__repr__:
            return
        try:
            self.prefix = output.current_name[0] = " ".join(repr(actor).split())[:PREFIX_CHARACTERS_MAX]
        except Exception:  # a text that cannot be made is none
            traceback.print_exc()

    # -- streams

    def flush(self) -> None:
        """Write queued messages, and handle arrived ones now and then. The lock is held.

        A thread that yields values without a pause keeps the background thread from running: it writes each value, and has
        the lock and Python's own lock back before the other thread wakes up. The other thread then handles no message.
        """
        self.channel.flush()
        now = time.perf_counter()
        if now >= self._drain_at:
            self._drain_at = now + DRAIN_SECONDS
            self.pump.drain()

    def wait_for_room(self, running: Running, made: int) -> None:
        """Wait until the generators of the actor have fewer unread values than it allows, and take room for another yield."""
        template = running.template
        with self.lock:
            self.made[running.task_id] = made
            self.pump.wait(lambda: self.has_room(template.actor_backpressure))
            self.made[running.task_id] = made + template.per_yield

    def wait_for_reader(self, task_id: bytes, made: int, limit: int) -> None:
        """Wait until fewer than `limit` values of a stream are unread."""
        with self.lock:
            self.pump.wait(lambda: self.may_yield(task_id, made, limit))

    async def wait_for_reader_in_loop(self, task_id: bytes, made: int, limit: int) -> None:
        """Wait in the current asyncio task until fewer than `limit` values of a stream are unread."""
        import asyncio  # only asyncio actors need it

        loop = asyncio.get_running_loop()
        while True:
            with self.lock:
                if self.may_yield(task_id, made, limit):
                    return
                future = loop.create_future()
                self.readers.append(future)
            await future

    # -- answers

    def answer(self, running: Running, status: int, returns: Any, started: float, retriable: bool) -> None:
        """Report the end of a task. Small results of quick tasks are sent together."""
        if output.unfinished[0]:
            output.end_task()
        now = time.perf_counter()
        seconds = now - started
        with self.lock:
            if self.running is running:
                self.context.main = None
            self.pump.interrupted = self.pump.interrupt_due = False
            self.done(running, status, returns, int(seconds * 1e6), retriable)
            if self.mode is not None and self.mode.flush_later():
                return
            # An answer may be sent later only if the slot, which survives this process, can keep all queued messages.
            if (
                not self.queue
                or not self.may_be_late(status, returns, now, seconds, retriable)
                or not self.slot.keep(self.channel.queued)
            ):
                self.flushed_at = now
                if self.channel.flush():
                    self.slot.forget()

    def failed(self, running: Running, error: BaseException, started: float) -> None:
        """Report that a task failed, or was cancelled."""
        if self.departure.is_termination(error):
            return
        output.flush()
        if os.environ.get("RAY_DEBUG_POST_MORTEM") == "1" and isinstance(error, Exception):
            from skate.client import debugger  # takes 20 ms, and only debugging needs it

            debugger.post_mortem(error)
        super().failed(running, error, started)

    def left(self, running: Running, error: BaseException) -> None:
        """End the worker, as its call requested."""
        if not self.context.actor_id:
            # The process exits, as a program would; the node treats that as a crash.
            self.departure.crash(error)
        elif self.mode is None:
            self.end_actor(error)
        else:
            self.mode.leave(error)

    def end_actor(self, error: BaseException | None = None) -> None:
        """End the actor at its own request."""
        self.departure.actor(error)

    def may_leave(self) -> bool:
        """Return True if SIGTERM ends the worker, and no call runs any more."""
        return self.terminating and self.departure.may_leave()
