"""Callbacks for tests of searches: recorded statuses of trials."""

from __future__ import annotations

from typing import Any

from skate.tune.callback import Callback
from skate.tune.experiment.trial import Trial


class TrialStatusSnapshot:
    """The recorded statuses of trials: a list of dicts of trial id to status."""

    def __init__(self) -> None:
        self._snapshot: list[dict[str, str]] = []

    def append(self, new_snapshot: dict[str, str]) -> None:
        """Record the statuses if there are any and they differ from the last."""
        if new_snapshot and self._snapshot[-1:] != [new_snapshot]:
            self._snapshot.append(new_snapshot)

    def max_running_trials(self) -> int:
        """Return the largest number of concurrent trials."""
        return max((list(each.values()).count(Trial.RUNNING) for each in self._snapshot), default=0)

    def all_trials_are_terminated(self) -> bool:
        """Return True if all trials had succeeded at the last record."""
        last = self._snapshot[-1] if self._snapshot else None
        return last is not None and all(status == Trial.TERMINATED for status in last.values())


class TrialStatusSnapshotTaker(Callback):
    """Records statuses after every step of a search."""

    def __init__(self, snapshot: TrialStatusSnapshot) -> None:
        self._snapshot = snapshot

    def on_step_end(self, iteration: int, trials: list[Trial], **kwargs: Any) -> None:
        """Record the statuses of the trials."""
        self._snapshot.append({trial.trial_id: trial.status for trial in trials})
