"""HyperBand for BOHB: brackets are filled one after another, so that the searcher learns between them
(Falkner et al., 2018)."""

from __future__ import annotations

from typing import Any

from skate.tune.experiment.trial import Trial
from skate.tune.schedulers.bracket import Bracket
from skate.tune.schedulers.hyperband import HyperBandScheduler
from skate.tune.schedulers.trial_scheduler import TrialScheduler


class HyperBandForBOHB(HyperBandScheduler):
    """HyperBand that informs a `TuneBOHB` of the budget of each result, and fills the largest bracket first (see
    the paper).
    """

    reports_pauses = True

    def _next_halvings(self, band: list[Bracket | None]) -> int:
        return self._s_max_1 - len(band) - 1

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Decide like HyperBand, adding the bracket's budget to the result; a bracket is halved once all its
        other trials are paused."""
        if self._time_attr not in result or (self._metric or "_metric") not in result:
            return TrialScheduler.CONTINUE
        bracket, _ = self._trial_info[trial]
        bracket.update_trial_stats(trial, result)
        if bracket.continue_trial(trial):
            return TrialScheduler.CONTINUE
        result["hyperband_info"] = {"budget": bracket._cumul_r}
        others = [each for each in bracket.current_trials() if each is not trial]
        if not bracket.filled() or any(each.status != Trial.PAUSED for each in others):
            action = TrialScheduler.PAUSE
        else:
            action = self._process_bracket(tune_controller, bracket)
        if action == TrialScheduler.PAUSE:
            tune_controller.search_alg.searcher.on_pause(trial.trial_id)
        return action

    def choose_trial_to_run(self, tune_controller: Any, allow_recurse: bool = True) -> Trial | None:
        """Choose a trial that has not started, else a paused one; if none is allowed, halve a bracket early.

        Args:
            tune_controller: the search.
            allow_recurse: True to choose again after a bracket was halved.
        """
        for bracket in self._brackets(by_progress=False):
            for trial in bracket.current_trials():
                paused = trial.status == Trial.PAUSED and trial in bracket.trials_to_unpause
                if not (
                    paused or trial.status == Trial.PENDING
                ) or not tune_controller.has_resources_for_trial(trial):
                    continue
                if paused:
                    tune_controller.search_alg.searcher.on_unpause(trial.trial_id)
                return trial
        if any(trial.status == Trial.RUNNING for trial in tune_controller.get_trials()):
            return None
        for bracket in self._brackets(by_progress=False):
            if bracket.is_being_processed or self._may_grow(tune_controller, bracket):
                continue
            if any(trial.status == Trial.PAUSED for trial in bracket.current_trials()):
                self._process_bracket(tune_controller, bracket)
                if allow_recurse and bracket.trials_to_unpause:
                    return self.choose_trial_to_run(tune_controller, allow_recurse=False)
        return None
