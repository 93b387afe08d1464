"""Local mode: a node whose workers are not processes, so that debuggers, profilers and tracebacks see everything.

The core of the node, the client and the worker are the usual ones. Here are what stands in for processes: a link that
is a direct call, and a pump that runs work in the thread that waits. A task runs in the submitting thread, before
`.remote()` returns, as far as it can. The rest (waiting for a later call, producing the next value of a stream) runs
whenever a thread waits.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from skate.client.process import Process
from skate.core.node import SHELL, NodeCore, admit_client
from skate.protocol import messages as m
from skate.protocol.effects import FindStopped, KillWorker, ReadOutput, ShellEffect, Spawn
from skate.protocol.shell_events import (
    DRIVER_JOINED,
    OUTPUT_READ,
    STOPPED_FOUND,
    WORKER_LOST,
    DriverJoined,
    OutputRead,
    StoppedFound,
    WorkerLost,
)
from skate.worker.local.inline_worker import DRIVER, InlineWorker, here
from skate.worker.local.local_memory import LocalMemory

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from skate.node.settings import Settings
    from skate.worker.local.async_calls import AsyncCalls

STARTS_WORK = frozenset({m.SUBMIT, m.CALL, m.CREATE_ACTOR})
WAITING_TASKS_SHOWN = 5
#: A number above any sequence number, which reports that all tasks of a worker had begun.
EVERY_TASK = 1 << 62
#: The interval, in seconds, of checks on a loop that waits for a descriptor or a thread.
LOOK_S = 0.005
#: How long a wait assumes that daemon threads may still do something.
DAEMONS_S = 10.0


class LocalPump:
    """The workers, and the waits that run their work. One lock guards everything, and is released while user code runs.

    It replaces `wire.pump`: there are no descriptors to poll, only queued work, streams to advance, loops of asyncio
    actors to step, and other threads that may be working. If none of these is left, the wait could never end, which is
    an error.
    """

    def __init__(self, standstill: Callable[[], str]) -> None:
        """`standstill` returns the message for a wait that can never end."""
        self.standstill = standstill
        self.workers: dict[int, InlineWorker] = {}
        #: The number of messages that the node has handled, by which a waiting thread sees progress.
        self.steps = 0
        self.lock: Any = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.closed = False
        self.watched = False
        #: None, because `wait` itself detects deadlocks, so long waits need no closer look.
        self.quick_seconds = None
        self._waiting: set[int] = set()

    # -- running, under the lock

    def run_ready(self) -> None:
        """Run all work that is ready."""
        while self._run_one():
            pass

    def _run_one(self) -> bool:
        for worker in self.workers.values():
            if worker.runnable():
                entry = worker.queue.popleft()
                with self._user_code(worker):
                    worker.work(entry)
                return True
        return False

    @contextlib.contextmanager
    def _user_code(self, worker: InlineWorker) -> Iterator[None]:
        """Release the lock inside the block, in which a worker is busy."""
        worker.busy += 1
        try:
            with self.unlocked():
                yield
        finally:
            worker.busy -= 1

    def _advance(self, until: Callable[[], bool]) -> bool:
        """Make progress for a waiting thread; return False if there is nothing to do now."""
        return self._run_one() or self._step_loops(until) or self._step_streams(until)

    def _step_loops(self, until: Callable[[], bool]) -> bool:
        for calls in self._pending():
            before = self.steps
            with self.unlocked():
                calls.step(until)
            if until() or self.steps != before:
                return True
        return False

    def _step_streams(self, until: Callable[[], bool]) -> bool:
        moved = False
        for worker in list(self.workers.values()):
            for task_id, stream in list(worker.streams.items()):
                if stream.stepping or until():
                    continue
                moved = stream.stepping = True
                worker.unblock(task_id)
                try:
                    with self._user_code(worker):
                        worker.advance(stream)
                finally:
                    stream.stepping = False
                if task_id in worker.streams:
                    worker.push(m.Blocked(m.BLOCKED, task_id))
        return moved

    def _pending(self) -> list[AsyncCalls]:
        """Return the asyncio actors with unanswered calls."""
        return [each.mode for each in self.workers.values() if each.mode is not None and each.mode.pending]

    def _idle_s(self) -> float | None:
        """Return the seconds until a loop has something to do, or None if no loop ever will."""
        due = [0.0 if calls.steps.watches_files() else calls.steps.idle_s for calls in self._pending()]
        return min((each for each in due if each is not None), default=None)

    # -- waiting

    def wait(self, ready: Callable[[], bool], timeout: float | None = None) -> bool:
        """Run work until `ready()`, or for `timeout` seconds. The lock is held on entry and exit.

        Raise RuntimeError if there is no timeout and nothing is left that could make it ready.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        since = time.monotonic()
        while not ready() and not self.closed:
            if self._advance(ready):
                since = time.monotonic()
                continue
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                break
            pause = self._idle_s()
            if left is None and pause is None and not self._others(time.monotonic() - since):
                raise RuntimeError(self.standstill())
            self._rest(LOOK_S if pause is None else min(pause, LOOK_S), left)
        return ready()

    def _rest(self, pause: float, left: float | None) -> None:
        me = threading.get_ident()
        self._waiting.add(me)
        try:
            self.changed.wait(pause if left is None else min(pause, left))
        finally:
            self._waiting.discard(me)

    def _others(self, idle_s: float) -> bool:
        """Return True if another thread could still do something."""
        me = threading.get_ident()
        others = [t for t in threading.enumerate() if t.ident != me and t.ident not in self._waiting]
        return any(not thread.daemon for thread in others) or (bool(others) and idle_s < DAEMONS_S)

    @contextlib.contextmanager
    def unlocked(self) -> Iterator[None]:
        """Release the lock inside the block, however many times this thread holds it."""
        held = self.lock._release_save() if self.lock._is_owned() else None
        try:
            yield
        finally:
            if held is not None:
                self.lock._acquire_restore(held)

    def wake_ready(self) -> None:
        """Wake waiting threads after a change."""
        with self.lock:
            self.changed.notify_all()

    def wake_background(self) -> None:
        """Let the user's asyncio loop, which awaits a value, step the loops of actors from time to time."""
        asyncio = sys.modules.get("asyncio")
        loop = None if asyncio is None else asyncio._get_running_loop()
        if loop is not None:
            loop.call_soon(self._attend, loop)

    def _attend(self, loop: AbstractEventLoop) -> None:
        if self.closed:
            return
        with self.lock:
            moved = self._advance(lambda: False)
            pending = self._pending()
        if moved:
            loop.call_soon(self._attend, loop)
        elif pending:
            loop.call_later(LOOK_S, self._attend, loop)

    def drain(self) -> None:
        """No-op: nothing arrives asynchronously."""

    def kick(self) -> None:
        """No-op: no thread polls."""

    def interruption_point(self) -> None:
        """No-op: KeyboardInterrupt is raised wherever it occurs."""

    def close(self) -> None:
        """End all waits, present and future."""
        self.closed = True
        self.wake_ready()


class LocalHost:
    """Owns the core and the inline workers of a node in local mode. The process is linked to it by direct calls."""

    address = ""

    def __init__(self, settings: Settings) -> None:
        self.pump = LocalPump(self.standstill)
        self.lock = self.pump.lock
        self.workers = self.pump.workers
        self._settling = False
        node_id = os.urandom(28)
        memory = LocalMemory(settings.object_store_memory)
        self.core = NodeCore(
            settings.totals(),
            gpus=settings.gpu_ids,
            arena_bytes=settings.object_store_memory,
            node_id=node_id,
            memory=memory,
            labels={**settings.labels, "ray.io/node-id": node_id.hex()},
            facts={"address": settings.node_ip_address},
            local_mode=True,  # nothing runs here while no thread waits
        )
        job = os.urandom(2).rjust(4, b"\0")
        self.process = LocalProcess(DRIVER, self.pump, node_id, job)  # type: ignore[arg-type]
        self.process.connect(self)
        self.process.mapping = memory
        self.process.is_driver = True
        self.process.namespace = settings.namespace
        self.process.node_id = node_id
        self.process.node_ip_address = settings.node_ip_address
        self.process.job_environment = settings.runtime_env
        admit_client(
            self.core, DriverJoined(DRIVER_JOINED, job.hex(), settings.namespace, True), time.monotonic()
        )

    # -- effects, under the lock

    def step(self, cid: int, message: tuple[Any, ...]) -> None:
        """Pass a message to the core and carry out its effects, without running user code."""
        self.pump.steps += 1
        self.core.step(cid, message, time.monotonic())
        self.settle()

    def settle(self) -> None:
        """Carry out the core's effects, and any that follow from them."""
        if self._settling:
            return
        self._settling = True
        try:
            while self.core.effects:
                effects = self.core.effects.copy()
                self.core.effects.clear()
                for cid, message in effects:
                    if cid == DRIVER:
                        self.process.handlers[message[0]](message)
                    elif cid == SHELL:
                        self._act(message)
                    elif cid in self.workers:
                        handler = self.workers[cid].handlers.get(message[0])
                        if handler is not None:
                            handler(message)
        finally:
            self._settling = False
        self.pump.changed.notify_all()

    def _act(self, effect: ShellEffect) -> None:
        """Carry out an effect of the core. Local mode has no disk, sockets or processes."""
        match effect:
            case Spawn(cid, _):
                self.workers[cid] = InlineWorker(cid, self.process, self.step, self.lose)
            case KillWorker(cid):
                if cid in self.workers:
                    self.lose(self.workers[cid], "was killed")
            case FindStopped(cid, number, any_id):
                self.step(SHELL, StoppedFound(STOPPED_FOUND, cid, number, any_id, ()))
            case ReadOutput(key, _):
                self.step(SHELL, OutputRead(OUTPUT_READ, key, ()))

    def lose(self, worker: InlineWorker, reason: str) -> None:
        """Remove a worker that has left or was killed."""
        if self.workers.pop(worker.cid, None) is not None:
            worker.close()
            self.step(SHELL, WorkerLost(WORKER_LOST, worker.cid, reason, EVERY_TASK, (), None, "", -1))

    def standstill(self) -> str:
        """Return the message for a wait that can never end because no work remains."""
        waiting = [f"{name}: {why}" for name, why in self.core.snapshot.unended()]
        text = (
            "this would wait forever: in local mode tasks run one after the other where they are "
            "submitted, and nothing "
            "is left to run"
        )
        if waiting:
            text += "; not ended are:\n    " + "\n    ".join(waiting[:WAITING_TASKS_SHOWN])
        return text + "\nsubmit first what it waits for, pass a timeout, or leave local_mode=True out"

    # -- the link of the process

    def send(self, message: tuple[Any, ...]) -> None:
        """Pass a message to the node, and run the tasks that become ready."""
        if message[0] not in STARTS_WORK:
            self.step(DRIVER, message)
            return
        blocked = self.block()  # the current task runs another one, which may need its CPUs
        try:
            self.step(DRIVER, message)
            self.pump.run_ready()
        finally:
            if blocked:
                self.unblock()

    def flush(self) -> None:
        """No-op: nothing is queued."""

    def throttle(self) -> None:
        """No-op: nothing is queued."""

    def block(self, lasting: bool = True) -> bool:
        """Release the CPUs and the queue of the current task, which waits."""
        worker = here.get()
        if worker is None or worker.gone:
            return False
        worker.block(worker.context.task_id(), in_main=True)
        return True

    def unblock(self) -> None:
        """Resume the current task after a wait."""
        worker = here.get()
        if worker is not None:
            worker.unblock(worker.context.task_id())

    # -- the host of the session

    def preload(self, name: str) -> bool:
        """Return True: there are no workers to start."""
        return True

    def forked(self) -> None:
        """Detach a forked child from everything outside its process."""

    def shutdown(self) -> None:
        """End everything, and drop all pending work."""
        with self.lock:
            self.process.end()
            workers = list(self.workers.values())
            self.workers.clear()
        for worker in workers:
            worker.close()
        self.pump.close()


class LocalProcess(Process):
    """The single process. Its context is that of the current thread's task."""

    @property
    def context(self) -> Any:
        """The context of the running task; None in the driver's own code."""
        worker = here.get()
        return None if worker is None or worker.process is not self else worker.context

    @context.setter
    def context(self, value: object) -> None:
        """Ignore the assignment: the context follows from the running code."""
