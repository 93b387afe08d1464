"""Ends the search when time is up."""

from __future__ import annotations

import datetime
import time
from typing import Any

from skate.tune.stopper.stopper import Stopper


class TimeoutStopper(Stopper):
    """Ends the search after a number of seconds, counted from the first check; time between sessions does not count.

    Raises:
        ValueError: `timeout` is neither a number of seconds nor a timedelta.
    """

    def __init__(self, timeout: float | datetime.timedelta) -> None:
        if isinstance(timeout, datetime.timedelta):
            timeout = timeout.total_seconds()
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
            raise ValueError(f"timeout must be a number of seconds or a timedelta, got {timeout!r}")
        self._left = float(timeout)
        self._since: float | None = None

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False  # it ends the search as a whole

    def stop_all(self) -> bool:
        """True once the time limit has passed."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        return now - self._since >= self._left

    def __getstate__(self) -> dict[str, Any]:
        gone = 0.0 if self._since is None else time.monotonic() - self._since
        return {"_left": self._left - gone, "_since": None}
