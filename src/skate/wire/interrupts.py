"""Ctrl-C between two steps of the engine, never in the middle of one.

A KeyboardInterrupt that Python raises at an arbitrary point of the main thread could leave a message half
written or a table half changed. So the SIGINT handler consults this module first. A main thread that waits in
the pump is notified through it; one that runs user code is interrupted immediately. If it holds the engine
lock, a short-lived thread takes the lock next and sends the signal again while it holds the lock: the main
thread is then outside of every step, or waiting for the lock before one, and can safely be interrupted.
"""

from __future__ import annotations

import _thread
import contextlib
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from skate.wire.pump import Pump

# How long the lock is held for the main thread to notice; if that takes longer, it is inside a single call of C code.
NOTICE_SECONDS = 0.05
RETRY_SECONDS = 0.002
#: Delays before a signal that was missed is sent again.
REPEAT_SECONDS = (0.02, 0.1, 0.5)
# Calls of Skate's finalizers are nested no deeper.
FINALIZER_DEPTH = 6


class Interrupts:
    """Decides for the SIGINT handler, in the main thread, whether to raise now; otherwise arranges a later signal."""

    def __init__(self, pump: Pump, whole_imports: bool = False) -> None:
        self._pump = pump
        # A module whose import was interrupted cannot be imported again if it is partly C, like numpy: a
        # worker that continues with other tasks lets imports finish first.
        self._whole_imports = whole_imports
        self._main = threading.main_thread().ident or 0
        self._noticed = _thread.allocate_lock()
        self._number = signal.SIGINT

    def now(self, frame: FrameType | None, number: signal.Signals = signal.SIGINT) -> bool:
        """True if the handler may raise in this frame; otherwise the signal is repeated as soon as it may, or
        the pump raises."""
        pump = self._pump
        self._number = number
        self._settle()
        if pump.main_waits:
            pump.interrupt_main()
            return False
        if pump.lock._is_owned() or pump.main_unlocked or _in_finalizer(frame):
            if not pump.interrupt_due:
                pump.interrupt_due = True
                self._see_to_it(0.0)
            return False
        if self._whole_imports and _in_import(frame):
            if not pump.interrupt_due:
                pump.interrupt_due = True
                self._see_to_it(RETRY_SECONDS)
            return False
        return True

    def _see_to_it(self, delay: float) -> None:
        try:
            # Not through `threading`, whose own locks the main thread may currently hold.
            _thread.start_new_thread(self._later, (delay,))
        except RuntimeError:
            # The system cannot start more threads: this Ctrl-C is lost, and the next one tries again.
            self._pump.interrupt_due = False

    def _settle(self) -> None:
        try:
            self._noticed.release()
        except RuntimeError:
            # No thread is waiting, or its timeout has just passed.
            return

    def _later(self, delay: float) -> None:
        pump = self._pump
        if delay:
            time.sleep(delay)
        while True:
            with pump.lock:
                if not pump.interrupt_due:
                    # The main thread has passed an interruption point, or the code to interrupt has ended.
                    return
                if not pump.main_unlocked:
                    pump.interrupt_due = False
                    self._noticed.acquire(blocking=False)
                    try:
                        signal.pthread_kill(self._main, self._number)
                    except ProcessLookupError:
                        return
                    self._noticed.acquire(timeout=NOTICE_SECONDS)
                    self._settle()
                    return
            time.sleep(RETRY_SECONDS)


def repeat_while(missed: Callable[[], bool], thread: int, number: int) -> None:
    """Send a signal to a thread again while `missed()`, in the background.

    Python runs signal handlers between two steps of the main thread. If a signal arrives just before a blocking system
    call, its handler runs only after the call. The second signal interrupts the call.
    """

    def repeat() -> None:
        for delay in REPEAT_SECONDS:
            time.sleep(delay)
            if not missed():
                return
            try:
                signal.pthread_kill(thread, number)
            except ProcessLookupError:
                return

    # If the system starts no more threads, the handler runs when the call returns.
    with contextlib.suppress(RuntimeError):
        _thread.start_new_thread(repeat, ())


def _in_import(frame: FrameType | None) -> bool:
    """True while a module is being loaded."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _in_finalizer(frame: FrameType | None) -> bool:
    """True in one of Skate's finalizers, where Python would print an exception and continue."""
    for _ in range(FINALIZER_DEPTH):
        if frame is None:
            return False
        if frame.f_code.co_name == "__del__" and frame.f_globals.get("__name__", "").startswith("skate."):
            return True
        frame = frame.f_back
    return False
