"""The remaining time for the setup of one environment, and its cancellation."""

from __future__ import annotations

import threading
import time

from skate.exceptions import RuntimeEnvSetupError


class Deadline:
    """The deadline of one setup: a number of seconds from now, or None for no limit; `cancelled` ends it earlier."""

    __slots__ = ("_cancelled", "_ends_at_s", "_seconds")

    def __init__(self, seconds: float | None, cancelled: threading.Event | None = None) -> None:
        self._seconds = seconds
        self._ends_at_s = None if seconds is None else time.monotonic() + seconds
        self._cancelled = cancelled

    def left_s(self, at_most: float) -> float:
        """Return the seconds until the deadline, between 0 and `at_most`."""
        if self._ends_at_s is None:
            return at_most
        return max(0.0, min(at_most, self._ends_at_s - time.monotonic()))

    def check(self, doing: str) -> None:
        """Raise RuntimeEnvSetupError after the deadline or a cancellation; `doing` is the current step."""
        if self._cancelled is not None and self._cancelled.is_set():
            raise RuntimeEnvSetupError(f"it was cancelled while {doing}.")
        if self._ends_at_s is not None and time.monotonic() >= self._ends_at_s:
            raise RuntimeEnvSetupError(
                f"it took longer than {self._seconds:g} s and was cut off while {doing}. Allow it more time "
                "with "
                "runtime_env={'config': {'setup_timeout_seconds': ...}} (-1 for no limit)."
            )
