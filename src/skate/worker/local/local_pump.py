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
from typing import Any, Protocol

#: The interval, in seconds, of checks on a loop that waits for a descriptor or a thread.
LOOK_S = 0.005
#: How long a wait assumes that daemon threads may still do something.
DAEMONS_S = 10.0


class Host(Protocol):
    """The work that a waiting thread can do."""

    def advance(self, until: Callable[[], bool]) -> bool:
        """Make progress; return False if there is nothing to do now."""
        ...

    def unanswered(self) -> bool:
        """Return True while a call of an asyncio actor has not been answered."""
        ...

    def idle_s(self) -> float | None:
        """Return the seconds until a loop has something to do, or None if no loop ever will."""
        ...

    def standstill(self) -> str:
        """Return the message for a wait that can never end."""
        ...


class LocalPump:
    """Runs work while a thread waits. One lock guards everything, and is released while user code runs."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.lock: Any = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.closed = False
        self.watched = False
        #: None, because `wait` itself detects deadlocks, so long waits need no closer look.
        self.quick_seconds = None
        self._waiting: set[int] = set()

    def wait(self, ready: Callable[[], bool], timeout: float | None = None) -> bool:
        """Run work until `ready()`, or for `timeout` seconds. The lock is held on entry and exit.

        Raise RuntimeError if there is no timeout and nothing is left that could make it ready.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        since = time.monotonic()
        while not ready() and not self.closed:
            if self.host.advance(ready):
                since = time.monotonic()
                continue
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                break
            pause = self.host.idle_s()
            if left is None and pause is None and not self._others(time.monotonic() - since):
                raise RuntimeError(self.host.standstill())
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
            moved = self.host.advance(lambda: False)
            unanswered = self.host.unanswered()
        if moved:
            loop.call_soon(self._attend, loop)
        elif unanswered:
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
