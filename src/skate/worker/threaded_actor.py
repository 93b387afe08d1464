"""Actors that run several calls at once in threads: `max_concurrency` above one, or concurrency groups."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, Any

from skate.protocol import messages as m
from skate.wire.limits import LimitReached, start_thread
from skate.wire.status import OutOfTurn
from skate.worker.arguments import give_up
from skate.worker.context import ActorExit, Running

if TYPE_CHECKING:
    from skate.worker.executor import Executor

DEFAULT_GROUP = ""


class _Group:
    """Threads that take calls from one queue; started as they are needed."""

    def __init__(self, name: str, limit: int, mode: ThreadedMode) -> None:
        self.name = name
        self.limit = limit
        self.mode = mode
        self.calls: queue.SimpleQueue[tuple[int, m.Invoke]] = queue.SimpleQueue()
        self.threads = 0
        self.busy = 0

    def put(self, sequence: int, message: m.Invoke) -> None:
        """Queue a call; a thread is added while all are busy and the limit allows it."""
        with self.mode.count_lock:
            self.busy += 1
            grow = self.threads < self.limit and self.busy > self.threads
            if grow:
                self.threads += 1
        self.calls.put((sequence, message))
        if grow:
            name = f"skate-call-{self.name or 'default'}-{self.threads}"
            self._grow(name)

    def _grow(self, name: str) -> None:
        try:
            start_thread(self._work, name)
        except LimitReached:
            with self.mode.count_lock:
                self.threads -= 1
                alone = not self.threads
            if alone:
                # The system starts no more threads: the main one does it, and takes nothing else meanwhile.
                self._work_off()

    def _work(self) -> None:
        while True:
            self._take(*self.calls.get())

    def _work_off(self) -> None:
        while not self.calls.empty():
            self._take(*self.calls.get())

    def _take(self, sequence: int, message: m.Invoke) -> None:
        self.mode.run(sequence, message)
        with self.mode.count_lock:
            self.busy -= 1


class ThreadedMode:
    """Hands calls to the threads of their groups."""

    def __init__(self, executor: Executor, limit: int, groups: dict[str, int]) -> None:
        self.executor = executor
        self.begun = OutOfTurn(executor.slot)
        self.count_lock = threading.Lock()
        self.groups = {DEFAULT_GROUP: _Group(DEFAULT_GROUP, limit, self)}
        self.groups.update({name: _Group(name, size, self) for name, size in groups.items()})
        self.waiting: set[bytes] = set()
        self.dropped: set[bytes] = set()

    def start(self, sequence: int, message: m.Invoke) -> None:
        """Take a call from the main thread."""
        _, task_id, key, _, _, attempt = message
        template = self.executor.templates[key]
        group = self.groups.get(template.group)
        if group is None:
            running = Running(task_id, template, attempt)
            with self.executor.lock:
                self.begun.begin(sequence)
            self.executor.failed(running, unknown_group(template.group, self.groups), time.perf_counter())
            return
        self.waiting.add(task_id)
        group.put(sequence, message)

    def drop(self, task_id: bytes) -> bool:
        """Cancel a call that no thread has begun; the engine lock is held."""
        if task_id not in self.waiting:
            return False
        self.waiting.discard(task_id)
        self.dropped.add(task_id)
        return True

    def arrived(self) -> None:
        """A call is in the executor's queue: the main thread takes it from there."""

    def waits(self) -> bool:
        """True while a call waits for a thread."""
        return bool(self.waiting)

    def terminate(self) -> None:
        """SIGTERM has come: the main thread sees to it when the calls have ended."""

    def flush_later(self) -> bool:
        """Answers of threads go out at once."""
        return False

    def run(self, sequence: int, message: m.Invoke) -> None:
        """Run one call in the current thread."""
        _, task_id, key, args, deps, attempt = message
        executor = self.executor
        with executor.lock:
            self.begun.begin(sequence)
            self.waiting.discard(task_id)
            if executor.departure.final:
                give_up(executor.process, deps)
                return
            if task_id in self.dropped:
                self.dropped.discard(task_id)
                give_up(executor.process, deps)
                return
            running = Running(task_id, executor.templates[key], attempt)
            executor.side[task_id] = running
        executor.context.enter(running)
        started = time.perf_counter()
        try:
            method = executor.method(running.template)
            given, named = executor.arguments(args, deps)
            value = method(*given, **named)
            given = named = None  # type: ignore[assignment]
            if running.cancelled:  # the call saw it, or ran on; its caller no longer wants the result
                raise KeyboardInterrupt
            returns = executor.results(running, value)
            value = None
        except (ActorExit, SystemExit) as error:
            executor.departure.actor(error)
            executor.pump.kick()
            return
        except BaseException as error:  # a call may end in anything; its caller gets it
            given = named = value = None  # type: ignore[assignment]
            executor.failed(running, error, started)
            error = None
        else:
            executor.answer(running, m.OK, returns, started, False)
        finally:
            executor.context.enter(None)
            executor.side.pop(task_id, None)
            if executor.departure.terminating:
                executor.pump.kick()


def unknown_group(name: str, groups: dict[str, Any]) -> ValueError:
    """The error of a call to a concurrency group that the actor does not have."""
    known = ", ".join(sorted(each for each in groups if each)) or "none"
    return ValueError(
        f"the actor has no concurrency group {name!r} (it has: {known}); declare it in "
        f"@ray.remote(concurrency_groups={{{name!r}: n}})"
    )
