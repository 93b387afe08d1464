"""The driver's handlers of SIGINT and SIGTERM while it has a session."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

from skate.node.missed_signals import MissedSignals
from skate.wire.interrupts import Interrupts
from skate.wire.pump import Pump


class SigintHandler:
    """Replaces Python's own SIGINT handler, but no other, and a SIGTERM handler that ends the program as `sys.exit` does."""

    def __init__(self, pump: Pump) -> None:
        self._pump = pump
        self._interrupts = Interrupts(pump)
        # Kept as objects, to distinguish them from handlers that the program sets later.
        self._handlers = {signal.SIGINT: self._on_interrupt, signal.SIGTERM: self._on_terminate}
        self._former: dict[signal.Signals, Any] = {}
        self._missed = MissedSignals(
            pump,
            lambda number: number in self._former and signal.getsignal(number) in self._handlers.values(),
        )
        self._pid = os.getpid()

    def take(self) -> None:
        """Handle SIGTERM, and SIGINT if Python's default handler is in place. Only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number, handler in self._handlers.items():
            former = signal.getsignal(number)
            if number == signal.SIGTERM or former is signal.default_int_handler:
                signal.signal(number, handler)
                self._former[number] = former
        self._missed.watch()

    def give_back(self) -> None:
        """Restore the former handlers, unless the program has set others since."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._missed.end()
        for number, former in self._former.items():
            if signal.getsignal(number) is self._handlers[number]:
                signal.signal(number, signal.SIG_DFL if former is None else former)

    @contextlib.contextmanager
    def put_off(self) -> Iterator[None]:
        """In the main thread, delay interruptions until the end of the block."""
        mine = threading.current_thread() is threading.main_thread()
        if mine:
            self._pump.main_unlocked = True
        try:
            yield
        finally:
            if mine:
                self._pump.main_unlocked = False

    def _on_interrupt(self, number: int, frame: Any) -> None:
        self._missed.handled()
        self._pump.interruption = KeyboardInterrupt
        if self._interrupts.now(frame):
            signal.default_int_handler(number, frame)

    def _on_terminate(self, number: int, frame: Any) -> None:
        if os.getpid() != self._pid:  # in a fork of the program, use the default action
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self._missed.handled()
        self._pump.interruption = _terminated
        if self._interrupts.now(frame, signal.SIGTERM):
            raise _terminated()


def _terminated() -> SystemExit:
    return SystemExit(int(signal.SIGTERM))
