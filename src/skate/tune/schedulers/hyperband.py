"""HyperBand: brackets of trials that are halved at the same time (Li et al., "Hyperband", JMLR 2018)."""

from __future__ import annotations

import math
from typing import Any

from skate.tune.experiment.trial import Trial
from skate.tune.schedulers.bracket import Bracket
from skate.tune.schedulers.trial_scheduler import FIFOScheduler, SchedulerArgumentError, TrialScheduler


class HyperBandScheduler(FIFOScheduler):
    """Runs the trials of a bracket to the same progress, keeps the best 1/`reduction_factor`, and repeats
    until `max_t`.

    Args:
        time_attr: the metric of a trial's progress.
        metric, mode: compare trials; those of TuneConfig by default.
        max_t: the progress of the best trials of a bracket.
        reduction_factor: one in this many trials is kept.
        stop_last_trials: True to end trials at `max_t`.

    Raises:
        ValueError, AssertionError: an argument is out of range.
    """

    replays = False  # the journal does not record which trials of a bracket wait for each other
    _supports_buffered_results = False

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
            raise SchedulerArgumentError(f"Max (time_attr) not valid! max_t must be above 0, got {max_t!r}")
        if not reduction_factor > 1:
            raise SchedulerArgumentError(f"reduction_factor must be above 1, got {reduction_factor!r}")
        self._metric, self._mode, self._time_attr = metric, mode, time_attr
        self._max_t_attr, self._eta = max_t, reduction_factor
        self._stop_last_trials = stop_last_trials
        #: The number of brackets in a band; the first has few trials that run long, the last many that are
        #: halved often.
        self._s_max_1 = round(math.log(max_t) / math.log(reduction_factor)) + 1
        #: Bands of brackets; None is a bracket without time.
        self._hyperbands: list[list[Bracket | None]] = [[]]
        self._trial_info: dict[Trial, tuple[Bracket, int]] = {}
        self._state: dict[str, Any] = {"bracket": None, "band_idx": 0}
        self._num_stopped = 0

    def _get_n0(self, s: int) -> int:
        return math.ceil(self._s_max_1 / (s + 1) * self._eta**s)

    def _get_r0(self, s: int) -> int:
        return int(self._max_t_attr * self._eta**-s)

    # -- addition of trials

    def _cur_band_filled(self) -> bool:
        return len(self._hyperbands[self._state["band_idx"]]) == self._s_max_1

    def _next_halvings(self, band: list[Bracket | None]) -> int:
        """Return how often the trials of a band's next bracket are halved."""
        return len(band)

    def _create_bracket(self, s: int) -> Bracket:
        return Bracket(
            self._time_attr,
            self._get_n0(s),
            self._get_r0(s),
            self._max_t_attr,
            self._eta,
            s,
            self._stop_last_trials,
        )

    def _open_bracket(self) -> None:
        made = None
        while made is None:
            if self._cur_band_filled():
                self._hyperbands.append([])
                self._state["band_idx"] += 1
            band = self._hyperbands[self._state["band_idx"]]
            s = self._next_halvings(band)
            made = self._create_bracket(s) if self._get_r0(s) else None
            band.append(made)
        self._state["bracket"] = made

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Put a trial into the bracket that is being filled, or into a new one."""
        self._require_choice()
        bracket = self._state["bracket"]
        if bracket is None or bracket.filled():
            self._open_bracket()
        self._state["bracket"].add_trial(trial)
        self._trial_info[trial] = (self._state["bracket"], self._state["band_idx"])

    # -- results

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Pause a trial where its bracket is halved; the last trial to arrive triggers the halving."""
        if self._time_attr not in result or (self._metric or "_metric") not in result:
            return TrialScheduler.CONTINUE
        bracket, _ = self._trial_info[trial]
        bracket.update_trial_stats(trial, result)
        if bracket.continue_trial(trial):
            return TrialScheduler.CONTINUE
        return self._process_bracket(tune_controller, bracket)

    def _may_grow(self, controller: Any, bracket: Bracket) -> bool:
        """Return True if a bracket gets more trials before it is halved for the first time."""
        if bracket is not self._state["bracket"] or bracket.filled() or bracket.halved:
            return False
        search = getattr(controller, "search_alg", None)
        return search is not None and not search.is_finished()

    def _process_bracket(self, controller: Any, bracket: Bracket, grows: bool | None = None) -> str:
        """Halve a bracket once all its trials have arrived; return the decision for the running trial, which came
        last.
        """
        if self._may_grow(controller, bracket) if grows is None else grows:
            return TrialScheduler.PAUSE
        if not bracket.cur_iter_done():
            return TrialScheduler.PAUSE
        if bracket.finished():
            self._finish(controller, bracket)
            return TrialScheduler.STOP
        bracket.is_being_processed = True
        good, bad = bracket.successive_halving(
            self._metric or "_metric", -1.0 if self._mode == "min" else 1.0
        )
        self._num_stopped += len(bad)
        action = TrialScheduler.PAUSE
        for trial in bad:
            if self._drop(controller, bracket, trial):
                action = TrialScheduler.STOP
        for trial in good:
            if bracket.continue_trial(trial):
                if trial.status == Trial.PAUSED:
                    bracket.trials_to_unpause.add(trial)
                elif trial.status == Trial.RUNNING:
                    action = TrialScheduler.CONTINUE
            elif bracket.finished() and self._stop_last_trials and self._drop(controller, bracket, trial):
                action = TrialScheduler.STOP
        bracket.is_being_processed = False
        return action

    def _drop(self, controller: Any, bracket: Bracket, trial: Trial) -> bool:
        """End a trial; True for the running trial, which is ended by the decision on its result."""
        if trial.status == Trial.RUNNING:
            bracket.cleanup_trial(trial)
            return True
        controller.stop_trial(trial)
        bracket.cleanup_trial(trial)
        return False

    def _finish(self, controller: Any, bracket: Bracket) -> None:
        for trial in bracket.current_trials():
            if trial.status == Trial.PAUSED:
                controller.stop_trial(trial)

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        """Remove a trial; its bracket no longer waits for it."""
        bracket, _ = self._trial_info[trial]
        bracket.cleanup_trial(trial)
        if not bracket.finished() and not bracket.is_being_processed:
            self._process_bracket(tune_controller, bracket)

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """Handle the end of a completed trial."""
        self.on_trial_remove(tune_controller, trial)

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """Remove a failed trial."""
        self.on_trial_remove(tune_controller, trial)

    # -- choice of the next trial

    def _brackets(self, by_progress: bool) -> list[Bracket]:
        """Return all brackets, band by band, optionally those with the least progress first."""
        found: list[Bracket] = []
        for band in self._hyperbands:
            brackets = [bracket for bracket in band if bracket is not None]
            found += sorted(brackets, key=Bracket.completion_percentage) if by_progress else brackets
        return found

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Return a trial of the bracket with the least progress, band by band."""
        for bracket in self._brackets(by_progress=True):
            for trial in bracket.current_trials():
                ready = trial.status == Trial.PENDING or (
                    trial.status == Trial.PAUSED and trial in bracket.trials_to_unpause
                )
                if ready and tune_controller.has_resources_for_trial(trial):
                    return trial
        return None

    def unblock(self, tune_controller: Any) -> None:
        """Halve incomplete brackets; called when nothing runs and no more trials are added."""
        for bracket in self._brackets(by_progress=False):
            waiting = bracket.current_trials()
            if waiting and all(trial.status == Trial.PAUSED for trial in waiting):
                self._process_bracket(tune_controller, bracket, grows=False)

    def state(self) -> dict[str, int]:
        """Return the number of brackets and of ended trials."""
        return {"num_brackets": sum(map(len, self._hyperbands)), "num_stopped": self._num_stopped}

    def debug_string(self) -> str:
        """Describe the number of brackets, and the state of each."""
        total = sum(map(len, self._hyperbands))
        lines = [f"Using HyperBand: num_stopped={self._num_stopped} total_brackets={total}"]
        for number, band in enumerate(self._hyperbands):
            lines.append(f"Round #{number}:")
            lines += [f"  {bracket} " for bracket in band if bracket is not None]
        return "\n".join(lines)
