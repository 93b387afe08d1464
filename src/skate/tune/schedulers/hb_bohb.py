"""HyperBand for BOHB: brackets are filled one after the other, so that the searcher learns between them
(Falkner et al., 2018)."""

from __future__ import annotations

from typing import Any

from skate.tune.experiment.trial import Trial
from skate.tune.schedulers.hyperband import HyperBandScheduler


class HyperBandForBOHB(HyperBandScheduler):
    """HyperBand that tells a `TuneBOHB` how far each result was bought, and starts a bracket only once the one before runs."""

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Put a trial into the bracket that is being filled; those with many halvings come first, as the paper has it."""
        super().on_trial_add(tune_controller, trial)

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """As HyperBand, with the bracket's budget in the result."""
        bracket = self._bracket_of.get(trial.trial_id)
        if bracket is not None:
            result["hyperband_info"] = {"budget": bracket.target}
        return super().on_trial_result(tune_controller, trial, result)
