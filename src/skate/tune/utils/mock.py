"""Callbacks for tests of searches: statuses of trials written down."""

from __future__ import annotations

from typing import Any

from skate.tune.callback import Callback
from skate.tune.experiment.trial import Trial


class TrialStatusSnapshot:
    """Statuses of trials as they have changed: dicts of trial id to status."""

    def __init__(self) -> None:
        self._snapshot: list[dict[str, str]] = []

    def append(self, new_snapshot: dict[str, str]) -> None:
        """Write statuses down, if there are any and they differ from the last."""
        if new_snapshot and self._snapshot[-1:] != [new_snapshot]:
            self._snapshot.append(new_snapshot)

    def max_running_trials(self) -> int:
        """How many trials ran at the same time at most."""
        return max((list(each.values()).count(Trial.RUNNING) for each in self._snapshot), default=0)

    def all_trials_are_terminated(self) -> bool:
        """Return True if all trials had ended well at the last look."""
        last = self._snapshot[-1] if self._snapshot else None
        return last is not None and all(status == Trial.TERMINATED for status in last.values())


class TrialStatusSnapshotTaker(Callback):
    """Writes statuses down after every step of a search."""

    def __init__(self, snapshot: TrialStatusSnapshot) -> None:
        self._snapshot = snapshot

    def on_step_end(self, iteration: int, trials: list[Trial], **kwargs: Any) -> None:
        """Look at the trials."""
        self._snapshot.append({trial.trial_id: trial.status for trial in trials})
