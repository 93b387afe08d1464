"""Population based training: the worst trials continue from the best, slightly changed (Jaderberg et al., 2017)."""

from __future__ import annotations

import json
import logging
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skate import lazy_loader
from skate.air.flat import plain
from skate.tune.error import TuneError
from skate.tune.experiment.trial import Trial
from skate.tune.schedulers.exploration import check_mutations, explored, filled
from skate.tune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler
from skate.tune.search.search_generator import SearchGenerator
from skate.tune.space.variants import format_vars

_log = logging.getLogger("skate.tune")


@dataclass
class State:
    """The state of a member of the population."""

    tag: str
    score: float | None = None
    perturbed_at: float = 0.0
    trained_until: float = 0.0
    #: True if it was among the best at the last comparison, and saved: others continue only from such members.
    saved: bool = False
    changes: int = 0


class PopulationBasedTraining(FIFOScheduler):
    """Every `perturbation_interval`, the lowest quantile of trials continues from checkpoints of the highest, with
    changed configurations.

    Args:
        time_attr: the metric of a trial's progress.
        metric, mode: compare trials; those of TuneConfig by default.
        perturbation_interval: the progress between two comparisons of a trial.
        burn_in_period: no changes before this progress.
        hyperparam_mutations: the parameters to change: by name, a domain, a list, a function without arguments,
            or a nested dict of these.
        quantile_fraction: the fraction of the population in the lowest and in the highest quantile; at most 0.5.
        resample_probability: the probability that a value is resampled rather than perturbed.
        perturbation_factors: the factors for numbers.
        custom_explore_fn: changes a configuration further.
        log_config: write changes to pbt_global.txt and pbt_policy_<trial id>.txt in the folder of the search.
        require_attrs: True if `time_attr` and `metric` must be in every result.
        synch: compare all trials together, once all have made this progress.

    Raises:
        TuneError: there is nothing to change.
        TypeError, ValueError: an argument is invalid.
    """

    replays = False

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        perturbation_interval: float = 60.0,
        burn_in_period: float = 0.0,
        hyperparam_mutations: dict[str, Any] | None = None,
        quantile_fraction: float = 0.25,
        resample_probability: float = 0.25,
        perturbation_factors: tuple[float, float] = (1.2, 0.8),
        custom_explore_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        log_config: bool = True,
        require_attrs: bool = True,
        synch: bool = False,
    ) -> None:
        self._check_mode(mode)
        mutations = hyperparam_mutations or {}
        if not mutations and custom_explore_fn is None:
            raise TuneError(
                "You must specify at least one of `hyperparam_mutations` or `custom_explore_fn` to use PBT; "
                "they define what it changes"
            )
        check_mutations(mutations)
        if not 0 <= quantile_fraction <= 0.5:
            raise ValueError(
                f"You must set `quantile_fraction` to a value between 0 and 0.5, got {quantile_fraction!r}"
            )
        if not perturbation_interval > 0:
            raise ValueError(
                f"perturbation_interval must be a positive number greater than 0, got {perturbation_interval!r}"
            )
        self._metric, self._mode, self._time_attr = metric, mode, time_attr
        self._interval, self._burn_in = perturbation_interval, burn_in_period
        self._hyperparam_mutations = mutations
        self._quantile_fraction = quantile_fraction
        self._resample_probability = resample_probability
        self._factors = perturbation_factors
        self._custom_explore_fn = custom_explore_fn
        self._log_config, self._require_attrs, self._synch = log_config, require_attrs, synch
        self._next_sync = max(perturbation_interval, burn_in_period)
        self._states: dict[str, State] = {}
        self._num_perturbations = 0
        self._num_checkpoints = 0

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Add a member of the population; draw the values that its configuration lacks.

        Raises:
            ValueError: there is no metric, or a searcher chooses the configurations, too.
        """
        search = getattr(tune_controller, "search_alg", None)
        if isinstance(search, SearchGenerator):
            raise ValueError(
                f"Search algorithms cannot be used with {type(self).__name__} schedulers. Please remove the search_alg "
                f"{type(search.searcher).__name__}"
            )
        self._require_choice()
        self._states[trial.trial_id] = State(trial.experiment_tag)
        filled(trial.config, self._hyperparam_mutations)

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Compare a trial that has made enough progress since its last comparison.

        Raises:
            RuntimeError: the result lacks `time_attr` or the metric.
        """
        for name in (self._time_attr, self._metric or "_metric"):
            if name not in result:
                if self._require_attrs:
                    known = ", ".join(sorted(result))
                    raise RuntimeError(
                        f"{type(self).__name__} needs {name!r} in every result of {trial}; this result has: {known}"
                    )
                _log.warning(
                    "%s needs %r, which is missing in a result of %s", type(self).__name__, name, trial
                )
                return TrialScheduler.CONTINUE
        time = float(result[self._time_attr])
        state = self._states[trial.trial_id]
        if time < self._burn_in or time - state.perturbed_at < self._interval:
            return TrialScheduler.CONTINUE
        state.score, state.trained_until = self._goodness(result), time
        self._note_score(trial, state, result)
        return (
            self._together(tune_controller, trial, time)
            if self._synch
            else self._alone(tune_controller, trial, time)
        )

    def _note_score(self, trial: Trial, state: State, result: dict[str, Any]) -> None:
        """Hook for subclasses that learn from scores."""

    # -- asynchronous

    def _alone(self, controller: Any, trial: Trial, time: float) -> str:
        self._states[trial.trial_id].perturbed_at = time
        lower, upper = self._quantiles(controller.get_live_trials())
        others_wait = any(
            each.status in (Trial.PENDING, Trial.PAUSED) for each in controller.get_live_trials()
        )
        self._save_or_change(controller, trial, lower, upper)
        if trial.status == Trial.PAUSED:
            return TrialScheduler.NOOP
        return TrialScheduler.PAUSE if others_wait else TrialScheduler.CONTINUE

    def _quantiles(self, trials: list[Trial]) -> tuple[list[Trial], list[Trial]]:
        """Return the lowest and the highest trials."""
        known = [trial for trial in trials if not math.isnan(self._known_score(trial))]
        known.sort(key=self._known_score)
        if len(known) <= 1:
            return [], []
        count = math.ceil(len(known) * self._quantile_fraction)
        if count > len(known) / 2:
            count = len(known) // 2
        return (known[:count], known[-count:]) if count else ([], [])

    def _score(self, trial: Trial) -> float | None:
        state = self._states.get(trial.trial_id)
        return None if state is None else state.score

    def _known_score(self, trial: Trial) -> float:
        score = self._score(trial)
        return math.nan if score is None else score

    def _save_or_change(self, controller: Any, trial: Trial, lower: list[Trial], upper: list[Trial]) -> None:
        self._states[trial.trial_id].saved = trial in upper
        if trial in upper:
            if trial.status == Trial.RUNNING:
                controller.save_trial(trial)
            self._num_checkpoints += 1
        if trial in lower:
            donor = random.choice(upper)
            if self._states[donor.trial_id].saved:
                self._exploit(controller, trial, donor)

    def _exploit(self, controller: Any, trial: Trial, donor: Trial) -> None:
        """Continue a trial from another's checkpoint, with a configuration derived from the other's."""
        config = self._explored(donor, trial)
        state, theirs = self._states[trial.trial_id], self._states[donor.trial_id]
        before = dict(trial.config)
        changed = format_vars({("config", name): config.get(name) for name in self._hyperparam_mutations})
        tag = f"{state.tag}@perturbed[{changed}]"
        if not _handed_over(controller, trial, donor, config, tag):
            return  # the other has no checkpoint yet
        state.changes += 1
        self._num_perturbations += 1
        if self._log_config:
            self._log(controller, trial, donor, before, config)
        state.perturbed_at = theirs.perturbed_at
        state.trained_until = theirs.trained_until

    def _explored(self, donor: Trial, trial: Trial) -> dict[str, Any]:
        return explored(
            donor.config,
            self._hyperparam_mutations,
            self._resample_probability,
            self._factors,
            self._custom_explore_fn,
        )

    def _log(
        self, controller: Any, trial: Trial, donor: Trial, before: dict[str, Any], after: dict[str, Any]
    ) -> None:
        step = trial.last_result.get("training_iteration", 0)
        theirs = donor.last_result.get("training_iteration", 0)
        mine, others = self._states[trial.trial_id].tag, self._states[donor.trial_id].tag
        line = json.dumps([mine, others, step, theirs, dict(donor.config), after], default=plain)
        write = getattr(controller, "write_line", None)
        if write is not None:
            write("pbt_global.txt", line)
            write(f"pbt_policy_{trial.trial_id}.txt", line)

    # -- synchronous

    def _together(self, controller: Any, trial: Trial, time: float) -> str:
        if any(
            self._states[each.trial_id].trained_until < self._next_sync
            for each in controller.get_live_trials()
            if each is not trial
        ):
            return TrialScheduler.PAUSE
        live = controller.get_live_trials()
        lower, upper = self._quantiles(live)
        others = [each for each in live if each not in lower and each not in upper]
        for each in [*upper, *others, *lower]:  # the best are saved before others continue from them
            self._states[each.trial_id].perturbed_at = time
            self._save_or_change(controller, each, lower, upper)
        latest = max(self._states[each.trial_id].trained_until for each in live)
        self._next_sync = max(self._next_sync + self._interval, latest)
        if all(self._states[each.trial_id].trained_until >= self._next_sync for each in live):
            self._next_sync = latest + self._interval  # otherwise no trial would continue
        return TrialScheduler.NOOP if trial.status == Trial.PAUSED else TrialScheduler.PAUSE

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Choose the trial with the least progress."""
        candidates = [
            trial
            for trial in tune_controller.get_live_trials()
            if trial.status in (Trial.PENDING, Trial.PAUSED)
            and tune_controller.has_resources_for_trial(trial)
            and (not self._synch or self._states[trial.trial_id].trained_until < self._next_sync)
        ]
        return min(candidates, key=lambda trial: self._states[trial.trial_id].trained_until, default=None)

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """Remove a member from the population."""
        self._states.pop(trial.trial_id, None)
        self._check_sync(tune_controller)

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        """Remove a member from the population."""
        self._states.pop(trial.trial_id, None)

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """Remove a member from the population."""
        self._states.pop(trial.trial_id, None)
        self._check_sync(tune_controller)

    def _check_sync(self, controller: Any) -> None:
        """Check whether the other trials waited only for the removed one."""
        live = [each for each in controller.get_live_trials() if each.trial_id in self._states]
        if (
            self._synch
            and live
            and all(self._states[each.trial_id].trained_until >= self._next_sync for each in live)
        ):
            self._next_sync = max(self._states[each.trial_id].trained_until for each in live) + self._interval

    def unblock(self, tune_controller: Any) -> None:
        """Release all waiting trials; called when nothing runs."""
        self._next_sync = math.inf

    def last_scores(self, trials: list[Trial]) -> list[float]:
        """Return the scores of trials at their last comparison."""
        return [
            score for trial in trials if (score := self._score(trial)) is not None and not trial.is_finished()
        ]

    def reset_stats(self) -> None:
        """Reset the counters."""
        self._num_perturbations = self._num_checkpoints = 0

    def debug_string(self) -> str:
        """Describe the numbers of checkpoints and perturbations."""
        return f"PopulationBasedTraining: {self._num_checkpoints} checkpoints, {self._num_perturbations} perturbs"


def _handed_over(controller: Any, trial: Trial, donor: Trial, config: dict[str, Any], tag: str) -> bool:
    """Continue a trial from another's newest checkpoint; False if there is none."""
    exploit = getattr(controller, "exploit", None)
    if exploit is not None:
        return bool(exploit(trial, donor, config, tag))
    controller.pause_trial(trial, should_checkpoint=False)  # a search with a custom controller
    trial.config = config
    trial.experiment_tag = tag
    return True


# It reads the files that are written here.
__getattr__ = lazy_loader.getter(
    globals(), {"skate.tune.schedulers.pbt_replay": ("PopulationBasedTrainingReplay",)}
)
