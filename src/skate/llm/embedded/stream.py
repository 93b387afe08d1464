"""Delivery of increments from the engine's thread to event loops, without pickling and with one wake-up per step."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from skate.llm.increment_batcher import IncrementBatcher
from skate.llm.output import Increment


class Stream:
    """The increments of one request. The engine's thread calls `put` and `release`, the creating loop all other methods."""

    def __init__(self, answers: int, every_s: float = 0.0) -> None:
        self.loop = asyncio.get_running_loop()
        self._batcher = IncrementBatcher(every_s)
        self._error: Exception | None = None
        self._items: deque[Increment | Exception] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._open = answers

    def put(self, item: Increment | Exception) -> None:
        """Add an increment, or the error that ends the request; `wake` must follow."""
        if self._error is not None:
            return  # nothing follows the error that ended the request
        if isinstance(item, Exception):
            self._error = item
        else:
            self._batcher.add(item)

    def release(self, now: float) -> bool:
        """Release due increments to the reader; return True if it must be woken."""
        found = self._batcher.take(now, self._error is not None)
        self._items.extend(found)
        if self._error is not None:
            self._items.append(self._error)
        return bool(found or self._error)

    def wake(self) -> None:
        """Wake the reader."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def ended(self) -> bool:
        """True if the last increment of each answer has been read."""
        return self._open == 0

    async def next(self) -> Increment:
        """Return the next increment, merged with later ones of its answer. Raises the error that ended the request."""
        while not self._items:
            self._waiter = self.loop.create_future()
            await self._waiter
        item = self._items.popleft()
        if isinstance(item, Exception):
            self._open = 0
            raise item
        while self._items and item.finish_reason is None:
            later = self._items[0]
            if not isinstance(later, Increment) or later.index != item.index:
                break
            self._items.popleft()
            item.then(later)
        if item.finish_reason is not None:
            self._open -= 1
        return item


def wake(streams: Iterable[Stream], now: float) -> None:
    """Wake the readers of streams with due increments, with one call for each event loop."""
    loops: dict[asyncio.AbstractEventLoop, list[Stream]] = {}
    for stream in streams:
        if stream.release(now):
            loops.setdefault(stream.loop, []).append(stream)
    for loop, due in loops.items():
        try:
            loop.call_soon_threadsafe(_wake_all, due)
        except RuntimeError:
            pass  # the loop is closed, so nothing reads the increments


def _wake_all(streams: list[Stream]) -> None:
    for stream in streams:
        stream.wake()
