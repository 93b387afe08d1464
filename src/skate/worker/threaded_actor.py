"""Actors that run several calls at once in threads, because of `max_concurrency` or concurrency groups."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

from skate.protocol import messages as m
from skate.wire.limits import LimitReached, start_thread
from skate.worker.worker_core import Running

if TYPE_CHECKING:
    from skate.worker.call_runner import CallRunner


class _Pool:
    """The threads of one concurrency group, started as needed."""

    def __init__(self, name: str, mode: ThreadedMode) -> None:
        self.name = name or "default"
        self.mode = mode
        self.calls: queue.SimpleQueue[tuple[Running, m.Execute | m.Invoke]] = queue.SimpleQueue()
        self.threads = 0
        self._in_main = False

    def grow(self) -> None:
        """Add a thread. If the system starts no more, the other threads run its calls, or else the main thread."""
        if self._in_main:
            return
        self.threads += 1
        try:
            start_thread(self._work, f"skate-call-{self.name}-{self.threads}")
        except LimitReached:
            self.threads -= 1
            if not self.threads:
                self._in_main = True  # the main thread does nothing else until the queue is empty
                while not self.calls.empty():
                    self.mode.take(*self.calls.get())
                self._in_main = False

    def _work(self) -> None:
        while True:
            self.mode.take(*self.calls.get())


class ThreadedMode:
    """Passes calls to the threads of their groups."""

    def __init__(self, executor: CallRunner) -> None:
        self.executor = executor
        self.pools: dict[str, _Pool] = {}

    def run(self, running: Running, message: m.Execute | m.Invoke) -> None:
        """Run a call in a thread of its group."""
        name = running.template.group
        pool = self.pools.get(name)
        if pool is None:
            pool = self.pools[name] = _Pool(name, self)
        pool.calls.put((running, message))
        groups = self.executor.groups
        if groups is not None and groups[name].active > pool.threads:
            pool.grow()

    def take(self, running: Running, message: m.Execute | m.Invoke) -> None:
        """Run one call in the current thread."""
        executor = self.executor
        if executor.final:
            return
        _, _, _, args, deps, _ = message
        executor.context.enter(running)
        try:
            executor.call(running, args, deps)
        finally:
            executor.context.enter(None)
            executor.end_call(running)

    def arrived(self) -> None:
        """Do nothing: the main thread takes the call from the executor's queue."""

    def terminate(self) -> None:
        """Do nothing: the main thread handles SIGTERM when the calls have ended."""

    def flush_later(self) -> bool:
        """Return False: answers of threads are sent immediately."""
        return False

    def leave(self, error: BaseException) -> None:
        """End the actor; called in the thread of a call."""
        self.executor.end_actor(error)
        self.executor.pump.kick()
