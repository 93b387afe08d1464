"""Ends trials after a number of results."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from skate.tune.stopper.stopper import Stopper


class MaximumIterationStopper(Stopper):
    """Ends each trial after `max_iter` results."""

    def __init__(self, max_iter: int) -> None:
        self._max_iter = max_iter
        self._seen: defaultdict[str, int] = defaultdict(int)

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        self._seen[trial_id] += 1
        return self._seen[trial_id] >= self._max_iter

    def stop_all(self) -> bool:
        """False: each trial has its own iterations."""
        return False
