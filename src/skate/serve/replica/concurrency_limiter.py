"""Limits the number of concurrent requests; others wait in order of arrival."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque

from skate.serve.metrics_http import BOUNDS_MS
from skate.serve.routing.counter_page import FAILED, MICROSECONDS, ONGOING, STARTED, WAITING, CounterPage


class ConcurrencyLimiter:
    """Enforces `max_ongoing_requests`. Its counters are on the counter page."""

    def __init__(self, counter_page: CounterPage, limit: int) -> None:
        self.cells = counter_page.cells
        self.limit = limit
        #: The number of requests by duration, in the classes of BOUNDS_MS.
        self.classes = [0] * (len(BOUNDS_MS) + 1)
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def full(self) -> bool:
        """True while a new request has to wait."""
        return self.cells[ONGOING] >= self.limit

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """True if there are no requests."""
        return not self.cells[ONGOING] and not self._waiting

    def enter_now(self) -> bool:
        """Take a place if one is free and no call waits for it; return False otherwise."""
        cells = self.cells
        if cells[ONGOING] >= self.limit or self._waiting:
            return False
        cells[ONGOING] += 1
        cells[STARTED] += 1
        return True

    async def enter(self) -> None:
        """Wait for a place, and take it."""
        cells = self.cells
        if cells[ONGOING] >= self.limit or self._waiting:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            cells[WAITING] += 1
            try:
                await turn  # the request that left has passed on its place
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._pass_on()
                elif turn in self._waiting:  # a request that left meanwhile may have removed it
                    self._waiting.remove(turn)
                raise
            finally:
                cells[WAITING] -= 1
        else:
            cells[ONGOING] += 1
        cells[STARTED] += 1

    def leave(self, seconds: float, failed: bool) -> None:
        """Release the place, or pass it on to the request that has waited longest."""
        cells = self.cells
        cells[MICROSECONDS] += int(seconds * 1e6)
        self.classes[bisect_left(BOUNDS_MS, seconds * 1e3)] += 1
        if failed:
            cells[FAILED] += 1
        self._pass_on()

    def _pass_on(self) -> None:
        if self.cells[ONGOING] <= self.limit:
            while self._waiting:
                turn = self._waiting.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
        self.cells[ONGOING] -= 1

    def resize(self, limit: int) -> None:
        """Change the limit."""
        self.limit = limit
        while self._waiting and self.cells[ONGOING] < limit:
            self.cells[ONGOING] += 1
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
            else:
                self.cells[ONGOING] -= 1
