"""Waiting in local mode: the waiting thread runs pending work.

It stands for `wire.pump`: there are no descriptors to poll, only queued work, streams to be taken further,
loops of asyncio actors to be stepped, and other threads that may be at work. When there is none of these,
waiting would never end, and that is an error.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

#: How often a loop is looked at that waits for a descriptor or for a thread.
LOOK_S = 0.005
#: How long threads that never end by themselves are given the benefit of the doubt.
DAEMONS_S = 10.0


class Host(Protocol):
    """The work that a waiting thread can do."""

    def advance(self, until: Callable[[], bool]) -> bool:
        """Make progress; False if there is nothing to do now."""
        ...

    def unanswered(self) -> bool:
        """True while a call of an asyncio actor has not been answered."""
        ...

    def idle_s(self) -> float | None:
        """Seconds until a loop has something to do; None if no loop ever will."""
        ...

    def standstill(self) -> str:
        """The message for a wait that can never end."""
        ...


class LocalPump:
    """Runs work while a thread waits; everything under one lock, which is released while user code runs."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.lock: Any = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.closed = False
        self.watched = False
        #: Here it is plain when a wait can never end, so none is looked at any closer.
        self.quick_seconds = None
        self._waiting: set[int] = set()

    def wait(self, ready: Callable[[], bool], timeout: float | None = None) -> bool:
        """Run work until `ready()` or until `timeout` seconds have passed; the lock is held on entry and exit.

        Raises RuntimeError if there is no timeout and nothing that could still make it ready.
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
        """True if another thread could still do something."""
        me = threading.get_ident()
        others = [t for t in threading.enumerate() if t.ident != me and t.ident not in self._waiting]
        return any(not thread.daemon for thread in others) or (bool(others) and idle_s < DAEMONS_S)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Release the lock, however often this thread holds it."""
        held = self.lock._release_save() if self.lock._is_owned() else None
        try:
            yield
        finally:
            if held is not None:
                self.lock._acquire_restore(held)

    def wake_ready(self) -> None:
        """Something has changed: waiting threads look again."""
        with self.lock:
            self.changed.notify_all()

    def attend(self) -> None:
        """An asyncio loop of the user's awaits something: it steps our loops now and then while it does."""
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
        """Ctrl-C is raised where it strikes, as in any program."""

    def close(self) -> None:
        """Wake all waiting threads, permanently."""
        self.closed = True
        self.wake_ready()
