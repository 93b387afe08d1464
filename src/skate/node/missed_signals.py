"""Detection of signals that the main thread has received but not handled.

Python runs signal handlers between two steps of the main thread. If a signal arrives just before a blocking system call, its
handler runs only when the call returns, which may be never. Python's C code also writes the number of each signal to a
*wakeup descriptor*, and the thread that polls reads it here. If no handler runs soon after, the signal is sent again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from typing import ClassVar

from skate.wire.interrupts import repeat_while
from skate.wire.pump import Pump

PIPE_BYTES = 1 << 16


class MissedSignals:
    """Sends a signal again if the main thread does not handle it."""

    #: The one whose pipe is the wakeup descriptor of this process.
    _current: ClassVar[MissedSignals | None] = None

    def __init__(self, pump: Pump, ours: Callable[[int], bool]) -> None:
        """Watch the signals for which `ours(number)` is true; each of their handlers calls `handled`."""
        self._pump = pump
        self._ours = ours
        self._main = threading.main_thread().ident or 0
        self._runs = 0  # of the handlers
        self._repeating = False
        self._pipe: tuple[int, int] | None = None
        self._pid = os.getpid()

    def watch(self) -> None:
        """Become the wakeup descriptor of this process, unless the program has one. Call it in the main thread."""
        former = MissedSignals._current
        if former is not None:  # its session was ended by another thread
            former.end()
        read, write = self._pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        MissedSignals._current = self
        others = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        if others != -1:
            signal.set_wakeup_fd(others)
            self.end()
            return
        self._pump.add(read, self._arrived)

    def end(self) -> None:
        """Stop watching. Call it in the main thread, or in a fork of the process."""
        if self._pipe is None:
            return
        read, write = self._pipe
        self._pipe = MissedSignals._current = None
        current = signal.set_wakeup_fd(-1)
        if current not in (-1, write):
            signal.set_wakeup_fd(current)  # the program has replaced it
        # A fork shares the poller with its parent, which still watches.
        if os.getpid() == self._pid and not self._pump.closed:
            self._pump.remove(read)
        os.close(read)
        os.close(write)

    def handled(self) -> None:
        """Take note that a handler runs; call it first in each handler."""
        # First the pipe, then the count: a thread that still finds the signal in the pipe has seen a lower count.
        if self._pipe is not None:
            with contextlib.suppress(BlockingIOError):
                os.read(self._pipe[0], PIPE_BYTES)
        self._runs += 1
        self._repeating = False

    def _arrived(self, events: int) -> None:
        if self._pipe is None:
            return
        runs = self._runs
        try:
            numbers = os.read(self._pipe[0], PIPE_BYTES)
        except BlockingIOError:
            return
        if self._repeating or threading.get_ident() == self._main:
            return
        for number in set(numbers):
            if self._ours(number):
                self._repeating = True
                repeat_while(lambda: self._is_missed(runs), self._main, number)
                return

    def _is_missed(self, runs: int) -> bool:
        missed = self._pipe is not None and self._runs == runs
        self._repeating = missed
        return missed
