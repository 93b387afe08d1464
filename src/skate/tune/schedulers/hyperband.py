"""HyperBand: brackets of trials that are halved at the same time (Li et al., "Hyperband", JMLR 2018)."""

from __future__ import annotations

import math
from typing import Any

from skate.tune.experiment.trial import Trial
from skate.tune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler


class HyperBandScheduler(FIFOScheduler):
    """Runs a bracket's trials equally far, keeps the best 1/`reduction_factor`, and so on until `max_t`.

    Args:
        time_attr: the metric that says how far a trial is.
        metric, mode: by which trials are compared; those of TuneConfig by default.
        max_t: how far the best trials of a bracket come.
        reduction_factor: what is kept is one in so many.
        stop_last_trials: whether trials end at `max_t`.

    Raises:
        ValueError: an argument is out of range.
    """

    replays = False  # which trials of a bracket wait for each other is not in the journal

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: int = 81,
        reduction_factor: float = 3,
        stop_last_trials: bool = True,
    ) -> None:
        self._check_mode(mode)
        if not max_t > 0:
            raise ValueError(f"max_t is more than 0, not {max_t!r}")
        if not reduction_factor > 1:
            raise ValueError(f"reduction_factor is more than 1, not {reduction_factor!r}")
        self._metric, self._mode, self._time_attr = metric, mode, time_attr
        self._max_t, self._eta = max_t, reduction_factor
        self._stop_last_trials = stop_last_trials
        #: How many brackets make a band; the first has few trials that run long, the last many that are halved often.
        self._in_band = round(math.log(max_t) / math.log(reduction_factor)) + 1
        self._brackets: list[Bracket] = []
        self._bracket_of: dict[str, Bracket] = {}
        self._num_stopped = 0

    # -- trials come

    def _new_bracket(self) -> Bracket:
        halvings = len(self._brackets) % self._in_band
        size = math.ceil(self._in_band / (halvings + 1) * self._eta**halvings)
        first = max(1, int(self._max_t * self._eta**-halvings))
        found = Bracket(halvings, size, first, self._max_t, self._eta)
        self._brackets.append(found)
        return found

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Put a trial into the bracket that is being filled, or into a new one."""
        bracket = (
            self._brackets[-1] if self._brackets and not self._brackets[-1].filled else self._new_bracket()
        )
        bracket.add(trial)
        self._bracket_of[trial.trial_id] = bracket

    # -- results

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Have a trial wait where its bracket is halved; the last to come there has it halved."""
        if self._time_attr not in result or (self._metric or "_metric") not in result:
            return TrialScheduler.CONTINUE
        bracket = self._bracket_of.get(trial.trial_id)
        if bracket is None:
            return TrialScheduler.CONTINUE
        bracket.come(trial, float(result[self._time_attr]), self._goodness(result))
        if trial.trial_id not in bracket.waiting:
            return TrialScheduler.CONTINUE
        return self._process(tune_controller, bracket, trial)

    def _process(self, controller: Any, bracket: Bracket, current: Trial | None) -> str:
        """Halve a bracket once all its trials have come there; what the one that came last does."""
        if not bracket.complete(self._is_full(controller, bracket)):
            return TrialScheduler.PAUSE
        if bracket.halvings == 0:
            return self._finish(controller, bracket, current)
        action = TrialScheduler.PAUSE
        good, bad = bracket.halve()
        for trial in bad:
            self._num_stopped += 1
            if trial is current:
                action = TrialScheduler.STOP
            else:
                controller.stop_trial(trial)
        for trial in good:
            if trial is current:
                action = TrialScheduler.CONTINUE
            else:
                trial.status = Trial.PENDING if trial.status == Trial.PAUSED else trial.status
        return action

    def _is_full(self, controller: Any, bracket: Bracket) -> bool:
        return bracket.filled or bracket is not self._brackets[-1] or controller.search_alg.is_finished()

    def _finish(self, controller: Any, bracket: Bracket, current: Trial | None) -> str:
        found = bracket.waiting_trials()
        bracket.waiting.clear()
        bracket.target = math.inf
        if not self._stop_last_trials:
            for trial in found:
                trial.status = Trial.PENDING if trial.status == Trial.PAUSED else trial.status
            return TrialScheduler.CONTINUE
        for trial in found:
            self._num_stopped += 1
            if trial is not current:
                controller.stop_trial(trial)
        return TrialScheduler.STOP

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        """A trial is gone; its bracket no longer waits for it."""
        bracket = self._bracket_of.pop(trial.trial_id, None)
        if bracket is not None:
            bracket.remove(trial)
            if bracket.trials:
                self._process(tune_controller, bracket, None)

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """A trial has ended by itself."""
        self.on_trial_remove(tune_controller, trial)

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """A trial has failed."""
        self.on_trial_remove(tune_controller, trial)

    # -- which starts

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """A trial of the first bracket that has one: those that are further on first."""
        for bracket in sorted(self._brackets, key=lambda each: each.halvings):
            for trial in bracket.trials.values():
                if trial.status == Trial.PENDING and tune_controller.has_resources_for_trial(trial):
                    return trial
        return None

    def unblock(self, tune_controller: Any) -> None:
        """Nothing runs, no more trials come: brackets that were not filled are halved as they are."""
        for bracket in self._brackets:
            if bracket.waiting and all(each in bracket.waiting for each in bracket.trials):
                bracket.size = len(bracket.trials)
                self._process(tune_controller, bracket, None)

    def state(self) -> dict[str, int]:
        """How many brackets there are, and how many trials were ended."""
        return {"num_brackets": len(self._brackets), "num_stopped": self._num_stopped}

    def debug_string(self) -> str:
        """How many brackets there are, and how each stands."""
        lines = [
            f"Using {type(self).__name__}: {self._num_stopped} trials ended, {len(self._brackets)} brackets"
        ]
        return "\n".join([*lines, *map(str, self._brackets)])


class Bracket:
    """Trials that are halved together."""

    def __init__(self, halvings: int, size: int, first: int, last: int, eta: float) -> None:
        self.halvings, self.size, self.eta, self.last = halvings, size, eta, last
        self.kept = size
        #: How far trials come before they wait for the others.
        self.target: float = first
        self.trials: dict[str, Trial] = {}
        self.values: dict[str, float] = {}
        self.waiting: set[str] = set()
        self.taken = 0

    @property
    def filled(self) -> bool:
        """Whether it takes no more trials."""
        return self.taken >= self.size

    def add(self, trial: Trial) -> None:
        """One more trial."""
        self.trials[trial.trial_id] = trial
        self.taken += 1

    def remove(self, trial: Trial) -> None:
        """One trial less."""
        self.trials.pop(trial.trial_id, None)
        self.waiting.discard(trial.trial_id)
        self.values.pop(trial.trial_id, None)

    def come(self, trial: Trial, at: float, value: float) -> None:
        """A trial has come so far."""
        self.values[trial.trial_id] = value
        if at >= self.target:
            self.waiting.add(trial.trial_id)

    def complete(self, filled: bool) -> bool:
        """Whether all have come to where they wait."""
        return filled and bool(self.trials) and self.waiting >= set(self.trials)

    def waiting_trials(self) -> list[Trial]:
        """Those that wait."""
        return [trial for trial in self.trials.values() if trial.trial_id in self.waiting]

    def halve(self) -> tuple[list[Trial], list[Trial]]:
        """Those that go on, and those that do not."""
        self.halvings -= 1
        self.kept = math.ceil(self.kept / self.eta)
        self.target = min(self.target * self.eta, self.last)
        ranked = sorted(self.trials.values(), key=lambda trial: self.values[trial.trial_id])
        good, bad = ranked[-self.kept :], ranked[: -self.kept]
        self.waiting.clear()
        for trial in bad:
            self.remove(trial)
        return good, bad

    def __str__(self) -> str:
        return f"Bracket: {len(self.trials)} of {self.size} trials, to {self.target:g}, {self.halvings} halvings to come"
