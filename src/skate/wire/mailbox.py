"""Calls that other threads leave for the loop of a pump."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate.wire.pump import Pump


class Mailbox:
    """Calls functions under the engine lock, in the order in which threads have posted them."""

    __slots__ = ("_calls", "_fd", "_pump")

    def __init__(self, pump: Pump) -> None:
        self._pump = pump
        self._calls: deque[Callable[[], None]] = deque()
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        pump.add(self._fd, self._run)

    def post(self, call: Callable[[], None]) -> None:
        """Have the loop call this; from any thread. No-op once it is closed."""
        self._calls.append(call)
        try:
            os.eventfd_write(self._fd, 1)
        except OSError:
            return

    def _run(self, events: int) -> None:
        try:
            os.eventfd_read(self._fd)
        except BlockingIOError:
            return
        while self._calls:
            self._calls.popleft()()

    def close(self) -> None:
        """Forget what was not called; no thread may post any more."""
        self._pump.remove(self._fd)
        self._calls.clear()
        fd, self._fd = self._fd, -1
        os.close(fd)

    def forked(self) -> None:
        """In a forked child: close the inherited descriptor."""
        fd, self._fd = self._fd, -1
        os.close(fd)
