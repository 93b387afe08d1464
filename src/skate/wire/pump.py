"""The input loop of a process, driven by whichever thread is waiting.

A thread that waits for something polls the sockets itself, so that a synchronous call needs no hand-over between
threads: two wake-ups in all, one in each process. Only when no thread waits does a background thread poll. It
must not compete with a program that calls `get` in a tight loop, so after a foreground turn it stands by and
checks every few milliseconds whether another thread still turns the loop; a kick through an eventfd takes the
loop from it.

Everything here happens under one lock, the engine lock of the process, released only while polling or waiting.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from os import sched_yield
from threading import get_ident
from time import perf_counter
from typing import Any

from skate.wire.limits import start_thread

#: Waits shorter than this are not reported.
QUICK_SECONDS = 0.5
TICK_S = 0.005
TICKS_BEFORE_SLEEP = 20
#: The least sleep that counts as idle.
REST_SECONDS = 0.02
SPIN_SECONDS = 60e-6
SPIN_CREDIT_MAX = 16
#: What a vain spin costs in credits. Each one in a row doubles it: where another machine answers, none is of use.
SPIN_PRICE, SPIN_PRICE_MAX = 4, 128
# How long `close` waits for a polling thread to stop.
CLOSE_SECONDS = 1.0

Ready = Callable[[], bool]


class _Waiter:
    __slots__ = ("gate", "ready")

    def __init__(self, ready: Ready) -> None:
        self.gate = threading.Lock()
        self.gate.acquire()
        self.ready = ready


class Pump:
    """Polls file descriptors and calls their handlers under the lock.

    With `open_now=False` it has no descriptor that an interrupt could leave open until `open` is called.
    """

    __slots__ = (
        "_asleep", "_background_drives", "_driver", "_driver_ready", "_main_gate", "_main_ident", "_polling", "_rest",
        "_resting", "_spin_credit", "_spin_price", "_thread", "_waiters", "_wake", "_wanted", "before_poll", "closed",
        "external", "handlers", "interrupt_due", "interrupted", "interruption", "lock", "main_unlocked", "main_waits",
        "name", "on_sleep", "paused", "poller", "quick_seconds", "switch_seconds", "turns", "unlocked_threads",
    )  # fmt: skip

    def __init__(self, lock: threading.RLock, name: str, open_now: bool = True) -> None:
        self.lock: Any = lock
        self.name = name
        self.poller = select.epoll()
        self.handlers: dict[int, Callable[[int], None]] = {}
        #: Descriptors that are not read for a while.
        self.paused: set[int] = set()
        #: Called under the lock before polling: flush what is queued; returns seconds until the next timer, or None.
        self.before_poll: Callable[[], float | None] = lambda: None
        #: Called once the main thread has slept for a while; an earlier call would slow down every wait.
        self.on_sleep: Callable[[], None] | None = None
        #: The time after which a wait is examined.
        self.quick_seconds: float | None = QUICK_SECONDS
        #: Soon after which a program that computes in Python lets the background thread run; None leaves the interpreter's
        #: setting, 5 ms.
        self.switch_seconds: float | None = None
        self.turns = 0
        self.closed = False
        #: The exception that an interrupted main thread raises; set by a signal handler.
        self.interruption: Callable[[], BaseException] = KeyboardInterrupt
        self.interrupted = False
        self.main_waits = False
        self.interrupt_due = False  # KeyboardInterrupt is deferred until the main thread's step ends
        self.unlocked_threads = 0  # threads that have released the lock in the middle of a step
        self.main_unlocked = False  # the main thread has released the lock in the middle of a step
        self.external = False  # an asyncio loop of this process polls the descriptor
        self._wake = -1
        self._driver: object | None = None
        self._driver_ready: Ready | None = None
        self._background_drives = False
        self._waiters: list[_Waiter] = []
        self._rest = threading.Lock()
        self._rest.acquire()
        self._asleep = False
        self._resting = False
        self._wanted = False
        self._spin_credit = 0
        self._spin_price = SPIN_PRICE
        self._thread: threading.Thread | None = None
        self._main_ident = threading.main_thread().ident
        self._main_gate: Any = None
        self._polling = 0  # threads that are polling, or about to
        if open_now:
            self.open()

    def open(self) -> None:
        """Open the descriptor that other threads wake the loop through."""
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.poller.register(self._wake, select.EPOLLIN)

    def open_in_child(self) -> None:
        """Open the descriptors of a process that was forked after the pump was made, and shares its poller until now."""
        self.poller = select.epoll()
        self.open()

    def start(self) -> None:
        """Start the background thread. Raises LimitReached if it cannot be started."""
        self._thread = start_thread(self._background, f"skate-{self.name}", f" for its {self.name}")

    # -- descriptors

    def add(self, fd: int, handler: Callable[[int], None]) -> None:
        """Call `handler(events)` under the lock whenever `fd` is readable."""
        self.handlers[fd] = handler
        self.poller.register(fd, select.EPOLLIN)

    def want_write(self, fd: int, wanted: bool) -> None:
        """Also wake up when `fd` becomes writable."""
        if fd in self.handlers:
            readable = 0 if fd in self.paused else select.EPOLLIN
            self.poller.modify(fd, readable | (select.EPOLLOUT if wanted else 0))

    def pause(self, fd: int, paused: bool, wants_write: bool) -> None:
        """Stop reading `fd`, or read it again; its handler is still called when the peer has closed it."""
        if fd in self.handlers:
            self.paused.add(fd) if paused else self.paused.discard(fd)
            self.want_write(fd, wants_write)

    def remove(self, fd: int) -> None:
        """Forget `fd`; it must still be open."""
        if self.handlers.pop(fd, None) is not None:
            self.poller.unregister(fd)
            self.paused.discard(fd)

    # -- turning

    def wait(self, ready: Ready, timeout: float | None = None) -> bool:
        """Turn the loop until `ready()` or the timeout in seconds; the lock is held once on entry and exit."""
        if ready():
            return True
        deadline = None if timeout is None else time.monotonic() + timeout
        is_main = get_ident() == self._main_ident
        try:
            while not self.closed:
                if is_main and self.interrupted:
                    self.interrupted = False
                    raise self.interruption()
                left = None
                if deadline is not None:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        # Process arrived input once, so that a timeout of zero still finds finished work.
                        if self._driver is None:
                            self._turn(0, is_main)
                        break
                if self._driver is None:
                    self._driver = self
                    self._driver_ready = ready
                    try:
                        self._turn(left, is_main)
                    finally:
                        self._driver = None
                        self._driver_ready = None
                else:
                    self._stand_in_line(ready, left, is_main)
                if ready():
                    break
            if is_main and self.interrupted:
                self.interrupted = False
                raise self.interruption()
            return ready()
        finally:
            if self._waiters and self._driver is None:
                self._waiters[0].gate.release() if self._waiters[0].gate.locked() else None
            elif self._asleep:
                self._asleep = False
                self._resting = False
                self._rest.release()

    def drain(self) -> None:
        """Handle arrived input without waiting; the lock is held."""
        is_main = get_ident() == self._main_ident
        if is_main:
            self.main_unlocked = True
        try:
            self._turn(0, False)
        finally:
            if is_main:
                self.main_unlocked = False
        # A thread that is polling does not see the input processed here.
        if self._driver_ready is not None and self._driver_ready():
            self.kick()

    def _turn(self, timeout: float | None, is_main: bool) -> None:
        self.turns += 1
        timer = self.before_poll()
        if timer is not None and (timeout is None or timer < timeout):
            timeout = timer
        lock = self.lock
        if is_main:
            self.main_waits = True
        self._polling += 1
        lock.release()
        try:
            events = self._spin() if self._spin_credit > 0 and is_main and timeout != 0 else []
            if not events:
                events = (
                    self._sleep(timeout) if is_main and self.on_sleep is not None else self._poll(timeout)
                )
        finally:
            lock.acquire()
            self._polling -= 1
            if is_main:
                self.main_waits = False
        if self.closed:
            return
        handlers = self.handlers
        for fd, event in events:
            handler = handlers.get(fd)
            if handler is not None:
                handler(event)
            elif fd == self._wake:
                self._drain_wake()
        if self._waiters:
            self.wake_ready()

    def _sleep(self, timeout: float | None) -> list[tuple[int, int]]:
        """Poll, and call `on_sleep` if nothing has arrived for a while."""
        assert self.on_sleep is not None
        if timeout is not None and timeout <= REST_SECONDS:
            return self._poll(timeout)
        events = self._poll(REST_SECONDS)
        if events:
            return events
        self.on_sleep()
        return self._poll(None if timeout is None else timeout - REST_SECONDS)

    def _poll(self, timeout: float | None) -> list[tuple[int, int]]:
        started = perf_counter()
        events = self.poller.poll(-1 if timeout is None else timeout)
        if perf_counter() - started < SPIN_SECONDS and self._spin_credit < SPIN_CREDIT_MAX:
            self._spin_credit += 1
        return events

    def _spin(self) -> list[tuple[int, int]]:
        poll = self.poller.poll
        end = perf_counter() + SPIN_SECONDS
        while True:
            events = poll(0)
            if events:
                if self._spin_credit < SPIN_CREDIT_MAX:
                    self._spin_credit += 1
                if self._spin_price > SPIN_PRICE:
                    self._spin_price >>= 1
                return events
            if perf_counter() > end:
                self._spin_credit -= self._spin_price
                self._spin_price = min(SPIN_PRICE_MAX, self._spin_price << 1)
                return events
            sched_yield()

    def _drain_wake(self) -> None:
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            return

    def _stand_in_line(self, ready: Ready, timeout: float | None, is_main: bool) -> None:
        waiter = _Waiter(ready)
        self._waiters.append(waiter)
        if self._background_drives:
            self.kick()
        if is_main:
            self._main_gate = waiter.gate
            self.main_waits = True
        self.lock.release()
        try:
            waiter.gate.acquire(timeout=-1 if timeout is None else min(timeout, threading.TIMEOUT_MAX))
        finally:
            self.lock.acquire()
            if is_main:
                self.main_waits = False
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def wake_ready(self) -> None:
        """Release the threads whose condition has become true; called after any change that may affect one."""
        for waiter in self._waiters:
            if waiter.ready() and waiter.gate.locked():
                waiter.gate.release()
        if self._driver_ready is not None and self._driver_ready():
            self.kick()

    def interrupt_main(self) -> None:
        """Make the main thread, which waits here, raise KeyboardInterrupt; called in it by a signal handler."""
        self.interrupted = True
        gate = self._main_gate
        if gate is not None and gate.locked():
            gate.release()
        self.kick()

    def interruption_point(self) -> None:
        """Raise a KeyboardInterrupt that was deferred until the main thread is between two steps; the lock is held."""
        if self.interrupt_due and get_ident() == self._main_ident:
            self.interrupt_due = False
            raise self.interruption()

    @contextlib.contextmanager
    def unlocked(self) -> Iterator[None]:
        """Release the lock in the middle of a step, for a long copy; no KeyboardInterrupt is raised inside."""
        is_main = get_ident() == self._main_ident
        if is_main:
            self.main_unlocked = True
        self.unlocked_threads += 1
        self.lock.release()
        try:
            yield
        finally:
            self.lock.acquire()
            self.unlocked_threads -= 1
            if is_main:
                self.main_unlocked = False

    @property
    def watched(self) -> bool:
        """True if another thread is waiting, so that `wake_ready` must follow a change."""
        return bool(self._waiters) or self._driver_ready is not None

    def kick(self) -> None:
        """Make a poll in progress return; safe anywhere, including signal handlers and finalizers."""
        try:
            os.eventfd_write(self._wake, 1)
        except (BlockingIOError, OSError):
            return

    def retime(self) -> None:
        """Make the polling thread call `before_poll` again, because a timer was set."""
        if self._polling:
            self.kick()

    def wake_background(self) -> None:
        """Make the background thread poll immediately, because no other thread will wait."""
        self._wanted = True
        if self._resting:
            self._resting = False
            self._asleep = False
            self._rest.release()

    def soon(self) -> None:
        """Ensure that `before_poll` is called within a few milliseconds, regardless of the calling thread;
        the lock is held."""
        if self._driver is not None:
            # An asyncio loop may poll instead from now on.
            self._wanted = self._wanted or self._background_drives
            self.kick()
        elif self.external or self._asleep:
            # No thread turns the loop, and the background thread is not checking
            self.wake_background()

    # -- background

    def _background(self) -> None:
        with self.lock:
            idle = 0
            seen = -1
            while not self.closed:
                quiet = self.turns == seen or self._wanted
                if self._driver is None and not self._waiters and not self.external and quiet:
                    self._wanted = False
                    self._driver = self
                    self._background_drives = True
                    usual = self._switch_sooner()
                    try:
                        self._turn(None, False)
                    finally:
                        self._switch_as_usual(usual)
                        self._driver = None
                        self._background_drives = False
                    seen = self.turns
                    if self._waiters:
                        self._let_first_go()
                    else:
                        idle = 0
                        continue
                elif self._wanted and self._driver is None:
                    # An asyncio loop polls, and its thread may compute for a long time.
                    self._wanted = False
                    self.before_poll()
                if self.turns != seen:
                    idle = 0
                idle += 1
                seen = self.turns
                deep = idle > TICKS_BEFORE_SLEEP and (self._driver is not None or self.external)
                self._asleep = deep
                self._resting = True
                self.lock.release()
                try:
                    self._rest.acquire(timeout=-1 if deep else TICK_S)
                finally:
                    self.lock.acquire()
                if not self._resting:
                    # Woken on purpose; if the tick ended at the same moment, consume the remaining wake-up.
                    self._rest.acquire(blocking=False)
                self._resting = False
                self._asleep = False

    def _switch_sooner(self) -> float:
        """Have other threads give way to this one sooner; return the setting until now."""
        usual = sys.getswitchinterval()
        if self.switch_seconds is not None and self.switch_seconds < usual:
            sys.setswitchinterval(self.switch_seconds)
        return usual

    def _switch_as_usual(self, usual: float) -> None:
        """Restore the setting, unless the program has changed it meanwhile."""
        if self.switch_seconds is not None and abs(sys.getswitchinterval() - self.switch_seconds) < 1e-6:
            sys.setswitchinterval(usual)

    def _let_first_go(self) -> None:
        # Not in the loop above, whose frame would keep the waiter alive, and with it the awaited ref.
        first = self._waiters[0]
        if first.gate.locked():
            first.gate.release()

    def close(self) -> None:
        """Stop the background thread and close the poller; the lock is not held."""
        with self.lock:
            if self.closed:
                return
            self.closed = True
            for waiter in self._waiters:
                if waiter.gate.locked():
                    waiter.gate.release()
            self.kick()
            if self._resting:
                self._resting = False
                self._asleep = False
                self._rest.release()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
        # The polling thread has been woken; its descriptors must not be closed and reused before it returns.
        deadline = time.monotonic() + CLOSE_SECONDS
        while self._polling and time.monotonic() < deadline:
            time.sleep(0.0005)
        self.poller.close()
        if self._wake >= 0:
            os.close(self._wake)
        self._wake = -1
