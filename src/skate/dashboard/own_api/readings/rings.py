"""Readings of the last minutes, kept while a page asks: for charts, rates and recent latencies."""

from __future__ import annotations

import itertools
import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

Kept = TypeVar("Kept")

#: How many readings are kept of each thing, and of how many things. At one a second, 15 minutes.
READINGS_MAX = 900
THINGS_MAX = 200
#: The least time between two readings.
EVERY_SECONDS = 0.9
#: Readings further apart are not joined by a line.
GAP_SECONDS = 10.0
Reading = dict[str, float | None]


class Ring:
    """The readings of one thing."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, Reading]] = deque(maxlen=READINGS_MAX)

    def add(self, values: Mapping[str, float | None], now: float | None = None) -> None:
        """Add a reading, unless the last one was just before."""
        now = time.time() if now is None else now
        if not self._readings or now - self._readings[-1][0] >= EVERY_SECONDS:
            self._readings.append((now, dict(values)))

    def rate(self, name: str, seconds: float = 5.0) -> float | None:
        """Return the increase of a number a second in the last seconds; None before there are two readings."""
        if len(self._readings) < 2:
            return None
        last, values = self._readings[-1]
        first, before = next(
            each for each in self._readings if last - each[0] <= seconds or each is self._readings[-2]
        )
        if first == last:
            first, before = self._readings[-2]
        new, old = values.get(name), before.get(name)
        if new is None or old is None:
            return None
        return max(0.0, (new - old) / (last - first))

    def columns(self, names: Sequence[str]) -> dict[str, list[float | None]]:
        """Return the readings as columns, "at" first: seconds since 1970."""
        readings: list[tuple[float, Reading]] = []
        for at, values in list(self._readings):
            if readings and at - readings[-1][0] > GAP_SECONDS:  # nobody has looked meanwhile
                readings.append((readings[-1][0] + EVERY_SECONDS, {}))
            readings.append((at, values))
        found: dict[str, list[float | None]] = {"at": [at for at, _ in readings]}
        return found | {name: [values.get(name) for _, values in readings] for name in names}


class Things(Generic[Kept]):
    """Things by name, each with what is kept of it; the one that was read longest ago goes first.

    Args: make: returns a new one.
    """

    def __init__(self, make: Callable[[], Kept]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._kept: dict[str, Kept] = {}

    def of(self, name: str) -> Kept:
        """Return what is kept of a thing."""
        with self._lock:
            found = self._kept.pop(name) if name in self._kept else self._make()
            self._kept[name] = found
            while len(self._kept) > THINGS_MAX:
                del self._kept[next(iter(self._kept))]
            return found


class Buckets:
    """Readings of a histogram that only grows."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, tuple[float, ...]]] = deque(maxlen=READINGS_MAX)
        self._latest: tuple[float, ...] = ()

    def add(self, counts: Sequence[float], now: float | None = None) -> None:
        """Add the counts by bucket. Counts that go down begin again."""
        now = time.time() if now is None else now
        new = tuple(counts)
        if self._kept and (len(new) != len(self._kept[-1][1]) or sum(new) < sum(self._kept[-1][1])):
            self._kept.clear()
        if not self._kept or now - self._kept[-1][0] >= EVERY_SECONDS:
            self._kept.append((now, new))
        self._latest = new

    def recent(self, seconds: float) -> list[float]:
        """Return the counts of the last seconds; all counts as long as there is one reading only."""
        if not self._kept:
            return []
        last = self._kept[-1][0]
        before = next(each for at, each in self._kept if last - at <= seconds)
        if len(self._kept) == 1 and before == self._latest:
            return list(self._latest)
        return [after - earlier for earlier, after in zip(before, self._latest, strict=True)]

    def all(self) -> list[float]:
        """Return the counts since the beginning."""
        return list(self._latest)

    def heat(self) -> dict[str, object]:
        """Return what was added between each two readings, with the time of the second."""
        kept = list(self._kept)
        pairs = list(itertools.pairwise(kept))
        return {
            "at": [at for _, (at, _) in pairs],
            "counts": [[b - a for a, b in zip(old, new, strict=True)] for (_, old), (_, new) in pairs],
        }


def quantile(counts: Sequence[float], bounds: Sequence[float], share: float) -> float | None:
    """Return the value below which a share of a histogram is, as Prometheus estimates it; None of an empty one.

    Args:
        counts: by bucket; the last one is of what is above all bounds.
        bounds: upper ends of the other buckets.
        share: from 0 to 1.
    """
    total = sum(counts)
    if not total:
        return None
    sums, seen = [], 0.0
    for count in counts:
        seen += count
        sums.append(seen)
    wanted = share * total
    at = bisect_left(sums, wanted)
    if at >= len(bounds):
        return float(bounds[-1]) if bounds else None
    low = bounds[at - 1] if at else 0.0
    before = sums[at - 1] if at else 0.0
    inside = counts[at] or 1.0
    return float(low + (bounds[at] - low) * (wanted - before) / inside)
