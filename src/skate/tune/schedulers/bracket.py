"""A bracket of HyperBand: trials run to the same progress, are compared, and the best continue."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from skate.tune.experiment.trial import Trial


class Bracket:
    """Trials that are halved together.

    Args:
        time_attr: the metric of a trial's progress.
        max_trials: the capacity.
        init_t_attr: the progress at the first comparison.
        max_t_attr: the progress of the last survivors.
        eta: one in `eta` trials is kept.
        s: the number of halvings.
        stop_last_trials: True to end the survivors at `max_t_attr`.
    """

    def __init__(
        self,
        time_attr: str,
        max_trials: int,
        init_t_attr: int,
        max_t_attr: int,
        eta: float,
        s: int,
        stop_last_trials: bool = True,
    ) -> None:
        self._time_attr, self._max_t_attr, self._eta = time_attr, max_t_attr, eta
        self._n = self._n0 = max_trials
        self._r = self._cumul_r = init_t_attr
        self._halves = s
        self._live_trials: dict[Trial, dict[str, Any] | None] = {}
        self._all_trials: list[Trial] = []
        self._total_work = self._work(max_trials, init_t_attr, s)
        self._completed_progress: float = 0
        self.stop_last_trials = stop_last_trials
        #: True while its trials are being dropped: the resulting ends must not trigger another comparison.
        self.is_being_processed = False
        #: Paused trials that continue when there is room.
        self.trials_to_unpause: set[Trial] = set()

    def _work(self, trials: int, time: int, halvings: int) -> float:
        found, far = 0, time
        for _ in range(halvings + 1):
            found += trials * int(far)
            trials = math.ceil(trials / self._eta)
            far = int(min(far * self._eta, self._max_t_attr - time))
        return found

    # -- addition and removal of trials

    def add_trial(self, trial: Trial) -> None:
        """Add a trial."""
        self._live_trials[trial] = None
        self._all_trials.append(trial)

    def cleanup_trial(self, trial: Trial) -> None:
        """Remove a trial."""
        self._live_trials.pop(trial, None)
        self.trials_to_unpause.discard(trial)

    def current_trials(self) -> list[Trial]:
        """The trials that have not been dropped."""
        return list(self._live_trials)

    def filled(self) -> bool:
        """True if the bracket is full."""
        return len(self._live_trials) == self._n

    @property
    def halved(self) -> bool:
        """Return True if trials have been compared."""
        return self._n != self._n0

    # -- progress

    def _time(self, result: dict[str, Any] | None) -> float:
        return 0 if result is None else result[self._time_attr]

    def update_trial_stats(self, trial: Trial, result: dict[str, Any]) -> None:
        """Record the progress of a trial."""
        self._completed_progress += self._time(result) - self._time(self._live_trials[trial])
        self._live_trials[trial] = result
        self.trials_to_unpause.discard(trial)

    def continue_trial(self, trial: Trial) -> bool:
        """Return True if a trial has not yet reached the comparison."""
        if not self.stop_last_trials and self._halves == 0:
            return True
        return self._time(self._live_trials[trial]) < self._cumul_r

    def cur_iter_done(self) -> bool:
        """Return True if all trials have reached the comparison."""
        return all(self._time(result) >= self._cumul_r for result in self._live_trials.values())

    def finished(self) -> bool:
        """Return True if all trials have reached the end."""
        return self.stop_last_trials and self._halves == 0 and self.cur_iter_done()

    def completion_percentage(self) -> float:
        """Return the fraction of its work that is done."""
        if self.finished():
            return 1.0
        return min(self._completed_progress / self._total_work, 1.0)

    def successive_halving(self, metric: str, metric_op: float) -> tuple[list[Trial], list[Trial]]:
        """Compare the trials; return those that continue, and those that do not.

        Args:
            metric: the metric to compare.
            metric_op: 1 if larger is better, -1 if smaller is.
        """
        if self._halves == 0 and not self.stop_last_trials:
            return list(self._live_trials), []
        self._halves -= 1
        self._n = math.ceil(self._n / self._eta)
        self._r = self._cumul_r = int(min(self._r * self._eta, self._max_t_attr))
        found: dict[Trial, Any] = self._live_trials
        ranked = sorted(found, key=lambda trial: metric_op * found[trial][metric])
        return ranked[-self._n :], ranked[: -self._n]

    def __repr__(self) -> str:
        statuses = ", ".join(
            f"{name}: {count}" for name, count in Counter(each.status for each in self._all_trials).items()
        )
        done = f"{100 * self.completion_percentage():.1f}%"
        return f"Bracket(Max Size (n)={self._n}, Milestone (r)={self._r}, completed={done}): {{{statuses}}}"
