"""Cancels a request when its time is up."""

from __future__ import annotations

import asyncio
from typing import Any


class Timer:
    """Cancels a task after a number of seconds, and remembers that it did."""

    def __init__(self, seconds: float, task: Any) -> None:
        self.late = False
        self._task = task
        self._handle = asyncio.get_running_loop().call_later(seconds, self._end)

    def _end(self) -> None:
        self.late = True
        self._task.cancel()

    def cancel(self) -> None:
        """Cancel the timer: the request ended in time."""
        self._handle.cancel()
