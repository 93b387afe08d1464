"""The driver's handler of SIGINT while a node is hosted in it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

from skate.wire.interrupts import Interrupts
from skate.wire.pump import Pump


class ControlC:
    """Replaces only Python's own handler: a program's handler stays."""

    def __init__(self, pump: Pump) -> None:
        self._pump = pump
        self._interrupts = Interrupts(pump)
        # One object, so that it can be told apart from a handler that the program has set meanwhile.
        self._handler = self._on_signal
        self._taken = False

    def take(self) -> None:
        """Become the handler, if Python's default one is in place; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handler)
            self._taken = True

    def give_back(self) -> None:
        """Put Python's handler back, unless the program has set one of its own."""
        if not self._taken or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGINT) is self._handler:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @contextlib.contextmanager
    def put_off(self) -> Iterator[None]:
        """In the main thread, let KeyboardInterrupt wait until the block has ended."""
        mine = threading.current_thread() is threading.main_thread()
        if mine:
            self._pump.main_aside = True
        try:
            yield
        finally:
            if mine:
                self._pump.main_aside = False

    def _on_signal(self, number: int, frame: Any) -> None:
        if self._interrupts.now(frame):
            signal.default_int_handler(number, frame)
