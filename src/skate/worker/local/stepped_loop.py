"""An asyncio loop that runs until it has nothing to do, and then gives the thread back.

In local mode the methods of an asyncio actor share the thread of their caller. A plain event loop would wait
forever in a method that waits for a later call; this one returns, and continues when there is more to do. It
learns that it is idle from the time that it would let its selector wait.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

TURNS_MAX = 10_000


class _Selector(selectors.DefaultSelector):
    """Never waits: records how long the loop would have waited, and stops it."""

    def __init__(self) -> None:
        super().__init__()
        self.loop: SteppedLoop

    def select(self, timeout: float | None = None) -> Any:
        self.loop.before_select(timeout)
        return super().select(0)


class SteppedLoop(asyncio.SelectorEventLoop):
    """See the module; `step` is called by one thread at a time."""

    def __init__(self) -> None:
        self._files = selector = _Selector()
        selector.loop = self
        self._stepping = False
        self._turns = 0
        self._until: Callable[[], bool] = lambda: False
        #: Seconds until it has something to do by itself: 0 for now, None for never.
        self.idle_s: float | None = None
        super().__init__(selector)
        self._own_files = len(selector.get_map())

    def watches_files(self) -> bool:
        """True if something outside of this process may give it work."""
        return len(self._files.get_map()) > self._own_files

    def before_select(self, timeout: float | None) -> None:
        """The loop is about to wait for `timeout` seconds; without stepping this is of no interest."""
        if not self._stepping:
            return
        self.idle_s = timeout
        self._turns += 1
        if timeout != 0 or self._turns > TURNS_MAX or self._until():
            self.stop()

    def step(self, until: Callable[[], bool]) -> None:
        """Run what can be run now; stops early when `until()` is true."""
        self._turns = 0
        self._until = until
        self._stepping = True
        try:
            self.run_forever()
        finally:
            self._stepping = False
            self._until = lambda: False
