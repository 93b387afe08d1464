"""ASHA: trials are ended at rungs unless they are among the best there so far (Li et al., "A System for Massively Parallel
Hyperparameter Tuning", MLSys 2020)."""

from __future__ import annotations

import math
import random
from typing import Any

from skate.tune.experiment.trial import Trial
from skate.tune.schedulers.trial_scheduler import FIFOScheduler, SchedulerArgumentError, TrialScheduler


class AsyncHyperBandScheduler(FIFOScheduler):
    """Ends a trial at a rung unless it is among the best 1/`reduction_factor` of those that have reached the rung.

    Args:
        time_attr: the metric of a trial's progress.
        metric, mode: compare trials; those of TuneConfig by default.
        max_t: trials end here in any case, unless `stop_last_trials` is False.
        grace_period: the first rung.
        reduction_factor: the ratio between rungs.
        brackets: the number of sequences of rungs, each beginning one rung later; a trial is assigned to one at random.
        stop_last_trials: True to end trials at `max_t`.

    Raises:
        ValueError, AssertionError: an argument is out of range.
    """

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: int = 100,
        grace_period: int = 1,
        reduction_factor: float = 4,
        brackets: int = 1,
        stop_last_trials: bool = True,
    ) -> None:
        self._check_mode(mode)
        if not max_t > 0:
            raise SchedulerArgumentError(f"Max (time_attr) not valid! max_t must be above 0, got {max_t!r}")
        if not 0 < grace_period <= max_t:
            raise SchedulerArgumentError(
                f"grace_period must be positive and must be <= max_t! It must be above 0 and at most "
                f"max_t={max_t}, got {grace_period!r}"
            )
        if not reduction_factor > 1:
            raise SchedulerArgumentError(
                f"Reduction Factor not valid! reduction_factor must be above 1, got {reduction_factor!r}"
            )
        if isinstance(brackets, bool) or not isinstance(brackets, int) or brackets < 1:
            raise SchedulerArgumentError(
                f"brackets must be positive! It must be at least 1, got {brackets!r}"
            )
        self._metric, self._mode = metric, mode
        self._time_attr, self._max_t = time_attr, max_t
        self._reduction_factor = reduction_factor
        self._stop_last_trials = stop_last_trials
        self._brackets = [
            Bracket(grace_period, max_t, reduction_factor, each, stop_last_trials) for each in range(brackets)
        ]
        self._bracket_of: dict[str, Bracket] = {}
        self._num_stopped = 0
        self._random = random.Random(0)

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Put a trial into a bracket; smaller ones take more."""
        self._require_choice()
        weights = [math.exp(len(bracket.rungs)) for bracket in self._brackets]
        self._bracket_of[trial.trial_id] = self._random.choices(self._brackets, weights)[0]

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """End a trial that is at a rung and not among the best there."""
        if self._time_attr not in result or (self._metric or "_metric") not in result:
            return TrialScheduler.CONTINUE
        if self._stop_last_trials and result[self._time_attr] >= self._max_t:
            self._num_stopped += 1
            return TrialScheduler.STOP
        bracket = self._bracket_of[trial.trial_id]
        if bracket.passes(trial.trial_id, result[self._time_attr], self._goodness(result)):
            return TrialScheduler.CONTINUE
        self._num_stopped += 1
        return TrialScheduler.STOP

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """Record the last result at its rung as well."""
        bracket = self._bracket_of.pop(trial.trial_id, None)
        if bracket is not None and self._time_attr in result and (self._metric or "_metric") in result:
            bracket.passes(trial.trial_id, result[self._time_attr], self._goodness(result))

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        """Forget a removed trial."""
        self._bracket_of.pop(trial.trial_id, None)

    def debug_string(self) -> str:
        """Describe the number of ended trials, and the cutoffs of the rungs."""
        lines = [f"Using AsyncHyperBand: num_stopped={self._num_stopped}"]
        return "\n".join([*lines, *(bracket.debug_string() for bracket in self._brackets)])


class Bracket:
    """A sequence of rungs, the highest first, with the values recorded at each."""

    def __init__(self, first: int, last: int, factor: float, skipped: int, stop_last: bool) -> None:
        self.factor = factor
        count = int(math.log(last / first) / math.log(factor) - skipped + 1 + 1e-9)
        self.rungs: list[tuple[float, dict[str, float]]] = [
            (first * factor ** (each + skipped), {}) for each in reversed(range(max(0, count)))
        ]

    def cutoff(self, recorded: dict[str, float]) -> float | None:
        """Return the value required at a rung; None until a trial reaches it."""
        known = sorted(value for value in recorded.values() if value == value)
        return _percentile(known, 1 - 1 / self.factor) if known else None

    def passes(self, trial_id: str, at: float, value: float) -> bool:
        """True if a trial continues; it is recorded at the highest rung that it has reached."""
        for milestone, recorded in self.rungs:
            if at < milestone or trial_id in recorded:
                continue
            cutoff = self.cutoff(recorded)
            recorded[trial_id] = value
            return cutoff is None or not value < cutoff  # a NaN does not end a trial
        return True

    def debug_string(self) -> str:
        """Describe the cutoff of each rung."""
        return "Bracket: " + " | ".join(
            f"Iter {at:.3f}: {self.cutoff(recorded)}" for at, recorded in self.rungs
        )


def _percentile(values: list[float], fraction: float) -> float:
    """Interpolate linearly between neighbours; infinity minus infinity gives NaN, which ends no trial."""
    at = fraction * (len(values) - 1)
    low = math.floor(at)
    high = min(low + 1, len(values) - 1)
    part, apart = at - low, values[high] - values[low]
    return values[high] - apart * (1 - part) if part >= 0.5 else values[low] + apart * part


ASHAScheduler = AsyncHyperBandScheduler
