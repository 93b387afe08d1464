"""Lets so many requests work at once, and the others wait in the order they came."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque

from skate.serve.metrics_http import BOUNDS_MS
from skate.serve.routing.board import FAILED, MICROSECONDS, ONGOING, STARTED, WAITING, Board


class Gate:
    """Enforces `max_ongoing_requests`; its counters are on the board."""

    def __init__(self, board: Board, limit: int) -> None:
        self.cells = board.cells
        self.limit = limit
        #: Requests by how long they took, in the classes of BOUNDS_MS.
        self.classes = [0] * (len(BOUNDS_MS) + 1)
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def full(self) -> bool:
        """True while a request that comes now has to wait."""
        return self.cells[ONGOING] >= self.limit

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """True if there are no requests."""
        return not self.cells[ONGOING] and not self._waiting

    async def enter(self) -> None:
        """Wait for a place, and take it."""
        cells = self.cells
        if cells[ONGOING] >= self.limit or self._waiting:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            cells[WAITING] += 1
            try:
                await turn  # whoever leaves has passed its place on
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._pass_on()
                elif turn in self._waiting:  # whoever left meanwhile may have taken it out
                    self._waiting.remove(turn)
                raise
            finally:
                cells[WAITING] -= 1
        else:
            cells[ONGOING] += 1
        cells[STARTED] += 1

    def leave(self, seconds: float, failed: bool) -> None:
        """Give the place back, or on to who waits longest."""
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
