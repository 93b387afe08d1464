"""Waiting in local mode: the waiting thread runs pending work.

It replaces `wire.pump`: there are no descriptors to poll, only queued work, streams to advance, loops of asyncio
actors to step, and other threads that may be working. If none of these is left, the wait could never end, which is
an error.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from skate.protocol import messages as m

if TYPE_CHECKING:
    from skate.worker.local.async_calls import AsyncCalls
    from skate.worker.local.inline_worker import InlineWorker

#: The interval, in seconds, of checks on a loop that waits for a descriptor or a thread.
LOOK_S = 0.005
#: How long a wait assumes that daemon threads may still do something.
DAEMONS_S = 10.0


class LocalPump:
    """The workers of local mode, and the waits that run them. One lock guards everything, except user code."""

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
                self._run(worker, worker.work, worker.queue.popleft())
                return True
        return False

    def _run(self, worker: InlineWorker, work: Callable[[Any], None], what: Any) -> None:
        worker.busy += 1
        try:
            with self.aside():
                work(what)
        finally:
            worker.busy -= 1

    def _advance(self, until: Callable[[], bool]) -> bool:
        """Make progress for a waiting thread; return False if there is nothing to do now."""
        return self._run_one() or self._step_loops(until) or self._step_streams(until)

    def _step_loops(self, until: Callable[[], bool]) -> bool:
        for calls in self._pending():
            before = self.steps
            with self.aside():
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
                    self._run(worker, worker.advance, stream)
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
    def aside(self) -> Iterator[None]:
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

    def attend(self) -> None:
        """Let the user's asyncio loop, which awaits a value, step the loops of actors from time to time."""
        asyncio = sys.modules.get("asyncio")
        loop = None if asyncio is None else asyncio._get_running_loop()
        if loop is not None:
            loop.call_soon(self._attend, loop)

    def _attend(self, loop: Any) -> None:
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
