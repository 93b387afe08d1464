"""A stopwatch with a mean over its last uses."""

from __future__ import annotations

import time
from collections import deque


class _Timer:
    """Measures blocks of code: `with timer: ...`; not for several threads at once.

    Args:
        window_size: the number of latest measurements to average.
    """

    def __init__(self, window_size: int = 10) -> None:
        self._samples: deque[float] = deque(maxlen=window_size)
        self._units: deque[float] = deque(maxlen=window_size)
        self._start: float | None = None
        self._total_time = 0.0
        self.count = 0

    def __enter__(self) -> None:
        if self._start is not None:
            raise RuntimeError("the timer is already running; it measures one block at a time")
        self._start = time.time()

    def __exit__(self, *exc: object) -> None:
        assert self._start is not None
        self.push(time.time() - self._start)
        self._start = None

    def push(self, time_delta: float) -> None:
        """Add a measurement, in seconds."""
        self._samples.append(time_delta)
        self.count += 1
        self._total_time += time_delta

    def push_units_processed(self, n: float) -> None:
        """Record the number of work units of the last measurement."""
        self._units.append(n)

    def has_units_processed(self) -> bool:
        """True once units of work have been recorded."""
        return bool(self._units)

    @property
    def mean(self) -> float:
        """Return the mean duration in seconds over the window; 0.0 if nothing was measured."""
        return sum(self._samples) / len(self._samples) if self._samples else 0.0

    @property
    def mean_units_processed(self) -> float:
        """Return the mean units per measurement over the window; 0.0 if none were recorded."""
        return sum(self._units) / len(self._units) if self._units else 0.0

    @property
    def mean_throughput(self) -> float:
        """Return the units per second over the window; 0.0 if no time has passed."""
        seconds = sum(self._samples)
        return sum(self._units) / seconds if seconds else 0.0
