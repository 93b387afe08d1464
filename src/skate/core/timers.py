"""Delayed actions of the core, such as retries after a pause and repeated checks."""

from __future__ import annotations

import heapq
from collections.abc import Callable

PAUSE_SECONDS = 0.1
PAUSE_SECONDS_MAX = 10.0


def growing(count: int) -> float:
    """Return seconds before the `count`-th of several attempts: 0 up to the first, then 0.1, 0.2, 0.4 and so on up to 10."""
    if count <= 1:
        return 0.0
    return min(PAUSE_SECONDS_MAX, PAUSE_SECONDS * 2.0 ** min(count - 2, 16))


class Timers:
    """Delayed steps of the core; `tick` runs them when they are due."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def after(self, now: float, seconds: float, step: Callable[[], None]) -> None:
        """Run `step` in the first tick at least `seconds` from now."""
        self._count += 1  # keeps the order of steps due at the same time; steps are never compared
        heapq.heappush(self._heap, (now + seconds, self._count, step))

    def tick(self, now: float) -> float | None:
        """Run the steps that are due; return the seconds until the next one, or None."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            heapq.heappop(heap)[2]()
        return max(heap[0][0] - now, 0.0) if heap else None

    def __repr__(self) -> str:
        return f"<Pauses {len(self._heap)} steps>"
