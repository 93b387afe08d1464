"""Ends trials that are worse than the median of the others (Golovin et al., "Google Vizier", KDD 2017)."""

from __future__ import annotations

import statistics
from typing import Any

from skate.tune.experiment.trial import Trial
from skate.tune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler


class MedianStoppingRule(FIFOScheduler):
    """Ends a trial whose best value so far is worse than the median of the others' averages up to the same time.

    Args:
        time_attr: the metric that says how far a trial is.
        metric, mode: by which trials are compared; those of TuneConfig by default.
        grace_period: before this a trial goes on in any case, and no average is taken of it.
        min_samples_required: so many other trials there must be.
        min_time_slice: a trial is looked at again once it has come so much further.
        hard_stop: end a trial; else pause it.

    Raises:
        ValueError: the mode is neither "min" nor "max".
    """

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        grace_period: float = 60.0,
        min_samples_required: int = 3,
        min_time_slice: int = 0,
        hard_stop: bool = True,
    ) -> None:
        self._check_mode(mode)
        self._metric, self._mode, self._time_attr = metric, mode, time_attr
        self._grace_period, self._min_samples = grace_period, min_samples_required
        self._min_time_slice, self._hard_stop = min_time_slice, hard_stop
        self._results: dict[str, list[tuple[float, float]]] = {}
        self._stopped: set[str] = set()
        self._completed: set[str] = set()
        self._looked: dict[str, float] = {}

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """End a trial that is worse than the median."""
        if self._time_attr not in result or (self._metric or "_metric") not in result:
            return TrialScheduler.CONTINUE
        if trial.trial_id in self._stopped:
            # It was paused, and runs again because there was room.
            return TrialScheduler.CONTINUE
        time, value = float(result[self._time_attr]), self._goodness(result)
        self._results.setdefault(trial.trial_id, []).append((time, value))
        if (
            time < self._grace_period
            or time - self._looked.get(trial.trial_id, float("-inf")) < self._min_time_slice
        ):
            return TrialScheduler.CONTINUE
        self._looked[trial.trial_id] = time
        means = [
            mean
            for other in self._results
            if other != trial.trial_id and (mean := self._mean(other, time)) is not None
        ]
        if len(means) < self._min_samples:
            return TrialScheduler.CONTINUE
        best = max(value for _, value in self._results[trial.trial_id])
        if best >= statistics.median(means):
            return TrialScheduler.CONTINUE
        self._stopped.add(trial.trial_id)
        return TrialScheduler.STOP if self._hard_stop else TrialScheduler.PAUSE

    def _mean(self, trial_id: str, until: float) -> float | None:
        """The average of a trial's values from the end of the grace period up to a time; None if it has not come so far."""
        found = self._results[trial_id]
        if found[-1][0] < self._grace_period:
            return None
        values = [value for time, value in found if self._grace_period <= time <= until]
        return sum(values) / len(values) if values else None

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """A trial has ended; its values still count."""
        self._completed.add(trial.trial_id)

    def debug_string(self) -> str:
        """How many trials were ended."""
        return f"Using MedianStoppingRule: {len(self._stopped)} trials ended"
