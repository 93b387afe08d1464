"""An asyncio loop that runs until it is idle, and then returns.

In local mode the methods of an asyncio actor share the thread of their caller. A plain event loop would wait
forever in a method that waits for a later call; this one returns, and resumes when there is more to do. It is idle
when it would let its selector wait.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

TURNS_MAX = 10_000


class _Selector(selectors.DefaultSelector):
    """A selector that never waits, and reports how long the loop would have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.loop: SteppedLoop

    def select(self, timeout: float | None = None) -> Any:
        self.loop.before_select(timeout)
        return super().select(0)


class SteppedLoop(asyncio.SelectorEventLoop):
    """See the module docstring. Only one thread at a time calls `step`."""

    def __init__(self) -> None:
        self._files = selector = _Selector()
        selector.loop = self
        self._stepping = False
        self._turns = 0
        self._until: Callable[[], bool] = lambda: False
        #: Seconds until it has something to do without new work: 0 for now, None for never.
        self.idle_s: float | None = None
        super().__init__(selector)
        self._own_files = len(selector.get_map())

    def watches_files(self) -> bool:
        """Return True if it watches descriptors, so that work may come from outside this process."""
        return len(self._files.get_map()) > self._own_files

    def before_select(self, timeout: float | None) -> None:
        """Record that the loop is about to wait for `timeout` seconds, and stop stepping if it is idle."""
        if not self._stepping:
            return
        self.idle_s = timeout
        self._turns += 1
        if timeout != 0 or self._turns > TURNS_MAX or self._until():
            self.stop()

    def step(self, until: Callable[[], bool]) -> None:
        """Run everything that is ready; stop early when `until()` is true."""
        self._turns = 0
        self._until = until
        self._stepping = True
        try:
            self.run_forever()
        finally:
            self._stepping = False
            self._until = lambda: False
