"""An event loop with a virtual clock, which advances only when there is nothing else to do. Waiting takes no real time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class VirtualLoop(asyncio.SelectorEventLoop):
    """Advances its clock instead of sleeping, and fails if nothing can ever happen."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        selector: Any = self._selector  # type: ignore[attr-defined]
        look = selector.select

        def select(timeout: float | None = None) -> Any:
            if timeout is None:
                raise AssertionError("everything waits and nothing is scheduled")
            self.now += timeout
            return look(0)

        selector.select = select

    def time(self) -> float:
        return self.now


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on its own virtual clock."""
    loop = VirtualLoop()
    try:
        answer = loop.run_until_complete(main)
        while left := asyncio.all_tasks(loop):
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        return answer
    finally:
        loop.close()
