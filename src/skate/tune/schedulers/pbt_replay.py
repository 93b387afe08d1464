"""Replay of the configurations of a member of a population in one trial."""

from __future__ import annotations

import json
import os
from typing import Any

from skate.tune.experiment.trial import Trial
from skate.tune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler


class PopulationBasedTrainingReplay(FIFOScheduler):
    """Runs one trial with the schedule of configurations in a pbt_policy_<trial id>.txt.

    Raises:
        ValueError: there is no such file, or it has no schedule.
    """

    replays = False

    def __init__(self, policy_file: str) -> None:
        path = os.path.expanduser(policy_file)
        if not os.path.exists(path):
            raise ValueError(
                f"there is no policy file at {policy_file!r}; PopulationBasedTraining(log_config=True) writes them"
            )
        with open(path) as file:
            lines = [json.loads(line) for line in file if line.strip()]
        if not lines:
            raise ValueError(f"the policy file {policy_file!r} is empty")
        self.policy_file = policy_file
        self.config, self._policy = _schedule(lines)
        self._trial: Trial | None = None
        self.current_config = self.config
        self.current_step = 0
        self._num_perturbations = 0

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Start the trial with the first configuration.

        Raises:
            ValueError: there is a second trial.
        """
        if self._trial is not None and self._trial.trial_id != trial.trial_id:
            raise ValueError("a replay needs exactly one trial: num_samples=1, and no grid_search")
        self._trial = trial
        trial.config = {**trial.config, **self.config}

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Change the configuration where the schedule requires it."""
        if "training_iteration" not in result:
            return TrialScheduler.CONTINUE
        step = result["training_iteration"]
        self.current_step = step
        due = None
        while self._policy and step >= self._policy[0][0]:
            due = self._policy.pop(0)
        if due is None:
            return TrialScheduler.CONTINUE
        self._num_perturbations += 1
        tag = f"{trial.experiment_tag.split('@')[0]}@replayed[{self._num_perturbations}]"
        tune_controller.save_trial(trial)
        if not tune_controller.exploit(trial, trial, {**trial.config, **due[1]}, tag):
            return TrialScheduler.CONTINUE
        self.current_config = due[1]
        return TrialScheduler.NOOP

    def debug_string(self) -> str:
        """Describe the progress through the schedule."""
        return f"Using PopulationBasedTrainingReplay: step {self.current_step}, {self._num_perturbations} changes"


def _schedule(lines: list[list[Any]]) -> tuple[dict[str, Any], list[tuple[int, dict[str, Any]]]]:
    """Return the first configuration, and the later ones with their iterations.

    A line records a takeover: [own tag, other's tag, own iteration, other's iteration, other's configuration,
    new configuration].
    """
    first = lines[0][4]
    policy = []
    for line in lines:
        policy.append((int(line[3]), line[5]))
    return first, policy
