"""Events of a stream put together, since each that goes out alone costs the same however little it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any


async def together(found: AsyncGenerator[Any, None], interval_s: float) -> AsyncGenerator[Any, None]:
    """Events put together: the first goes out at once, those that follow within the interval as one."""
    async with aclosing(found):
        if interval_s <= 0:
            async for each in found:
                yield each
            return
        first = await anext(found, None)
        if first is None:
            return
        yield first
        if not isinstance(first, str):
            return
        reader = _Reader(found)
        try:
            while (parts := await reader.some(interval_s)) is not None:
                yield parts
        finally:
            await reader.close()


class _Reader:
    """Reads events in a task of its own, so that those that have come can be taken at once."""

    def __init__(self, found: AsyncIterator[str]) -> None:
        self._parts: list[str] = []
        self._news = asyncio.Event()
        self._ended = False
        self._error: Exception | None = None
        self._task = asyncio.create_task(self._read(found))

    async def _read(self, found: AsyncIterator[str]) -> None:
        try:
            async for each in found:
                self._parts.append(each)
                self._news.set()
        except Exception as error:  # it is raised where the events are taken
            self._error = error
        self._ended = True
        self._news.set()

    async def some(self, interval_s: float) -> str | None:
        """All events of the next interval; None at the end."""
        await self._news.wait()
        if not self._ended:
            # The pause is what puts events together.
            await asyncio.sleep(interval_s)
        self._news.clear()
        if self._ended:
            self._news.set()
        parts, self._parts = self._parts, []
        if parts:
            return "".join(parts)
        if self._error is not None:
            raise self._error
        return None

    async def close(self) -> None:
        """End the reading."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
