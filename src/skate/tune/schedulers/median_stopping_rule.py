"""Median stopping: ends trials that are worse than the median of the others (Golovin et al., "Google Vizier",
KDD 2017)."""

from __future__ import annotations

import math
import statistics
from typing import Any

from skate.tune.experiment.trial import Trial
from skate.tune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler


class MedianStoppingRule(FIFOScheduler):
    """Ends a trial whose best value so far is worse than the median of the others' averages up to the same time.

    Args:
        time_attr: the metric of a trial's progress.
        metric, mode: compare trials; those of TuneConfig by default.
        grace_period: before this a trial continues in any case, and does not count in averages.
        min_samples_required: the least number of other trials.
        min_time_slice: while there are too few others, a trial yields to waiting ones after this much progress.
        hard_stop: True to end a trial; False to pause it.

    Raises:
        ValueError, AssertionError: the mode is neither "min" nor "max".
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
        self._paused: dict[str, float] = {}

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Check that there is a metric."""
        self._require_choice()

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """End a trial that is worse than the median."""
        if self._time_attr not in result or (self._metric or "_metric") not in result:
            return TrialScheduler.CONTINUE
        if trial.trial_id in self._stopped:
            # It was paused, and runs again because there was room.
            return TrialScheduler.CONTINUE
        time, value = float(result[self._time_attr]), float(result[self._metric or "_metric"])
        self._results.setdefault(trial.trial_id, []).append((time, value))
        if time < self._grace_period:
            return TrialScheduler.CONTINUE
        others = [
            name
            for name, results in self._results.items()
            if name != trial.trial_id and results[-1][0] >= time
        ]
        means = [mean for name in others if math.isfinite(mean := self._mean(name, time))]
        if len(means) < self._min_samples:
            return self._too_few(tune_controller, trial, time)
        median = statistics.median(means)
        values = [value for _, value in self._results[trial.trial_id] if value == value]
        # A trial with only NaN values is not better than any other.
        if values and (min(values) <= median if self._mode == "min" else max(values) >= median):
            return TrialScheduler.CONTINUE
        self._stopped.add(trial.trial_id)
        return TrialScheduler.STOP if self._hard_stop else TrialScheduler.PAUSE

    def _too_few(self, controller: Any, trial: Trial, time: float) -> str:
        """Decide while there are too few trials to compare: one that ran for a while yields to waiting ones."""
        if not time - self._paused.get(trial.trial_id, float("-inf")) > self._min_time_slice:
            return TrialScheduler.CONTINUE
        if not any(each.status in (Trial.PENDING, Trial.PAUSED) for each in controller.get_live_trials()):
            return TrialScheduler.CONTINUE
        self._paused[trial.trial_id] = time
        return TrialScheduler.PAUSE

    def _mean(self, trial_id: str, until: float) -> float:
        """The average of a trial's values from the end of the grace period up to a time."""
        values = [value for time, value in self._results[trial_id] if self._grace_period <= time <= until]
        return sum(values) / len(values) if values else math.nan

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """Record the end of a trial; its values still count, including the last one."""
        if self._time_attr in result and (self._metric or "_metric") in result:
            last = (float(result[self._time_attr]), float(result[self._metric or "_metric"]))
            self._results.setdefault(trial.trial_id, []).append(last)

    def debug_string(self) -> str:
        """Describe the number of ended trials."""
        return f"Using MedianStoppingRule: num_stopped={len(self._stopped)}."
