"""Spans of a run for `ray.timeline()`: the time of each rank in a report, of its upload, and of writing the
checkpoint."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from typing import Any

from skate.util.engine import record_span

_CATEGORY = "train"


class Spans:
    """Records when ranks arrive at sync points, and writes spans when they are released."""

    def __init__(self, run_name: str) -> None:
        self.run_name = run_name
        self._rows = [f"worker:{os.getpid()}"]
        self._arrivals: dict[tuple[str, int], dict[int, float]] = {}
        #: The last sync point that each rank has reached: when, its kind and its number.
        self.latest: dict[int, tuple[float, str, int]] = {}

    def started(self, pids: Sequence[int]) -> None:
        """Set the workers of an attempt, by rank."""
        self._rows = [f"worker:{pid}" for pid in pids]
        self._arrivals.clear()
        self.latest.clear()

    @property
    def open(self) -> Collection[tuple[str, int]]:
        """The sync points that some ranks have reached, and others have not."""
        return list(self._arrivals)

    def missing(self, workers: int) -> list[list[int]]:
        """Return, for each of these, the ranks that have not reached it, of as many as there are."""
        return [
            [rank for rank in range(workers) if rank not in arrived]
            for arrived in list(self._arrivals.values())
        ]

    def arrived(self, rank: int, kind: str, number: int) -> None:
        """Record that a rank has reached a sync point."""
        now = time.time()
        self._arrivals.setdefault((kind, number), {})[rank] = now
        self.latest[rank] = now, kind, number

    def arrivals_of(self, kind: str, number: int) -> dict[int, float]:
        """Return when ranks have reached a sync point, in seconds since 1970."""
        return self._arrivals.get((kind, number), {})

    def released(self, kind: str, number: int, reports: Sequence[Any] = (), checkpoint: Any = None) -> None:
        """Record the end of a sync point as spans."""
        now = time.time()
        arrived = self._arrivals.pop((kind, number), {})
        if not arrived:
            return
        shown = {"run": self.run_name, "number": number}
        for rank, since in arrived.items():
            row = self._rows[rank]
            record_span(f"train.{kind} {number}", _CATEGORY, since, now - since, row, {**shown, "rank": rank})
            report = reports[rank] if reports else None
            seconds = 0.0 if report is None else report.seconds
            if seconds:
                name = f"train.upload {number}"
                record_span(name, _CATEGORY, since - seconds, seconds, row, {**shown, "rank": rank})
        if checkpoint is not None:
            last = max(arrived.values())
            name = f"train.checkpoint {number}"
            record_span(
                name,
                _CATEGORY,
                last,
                now - last,
                f"train:{self.run_name}",
                {**shown, "path": checkpoint.path},
            )
