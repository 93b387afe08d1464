"""Optuna's samplers."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from skate.installed import missing
from skate.tune.search.flat_space import as_flat, flat_space, has_domains, no_space, undefined
from skate.tune.search.search_generator import nest
from skate.tune.search.searcher import Searcher
from skate.tune.space.domain import Categorical, Integer


def _optuna() -> Any:
    try:
        import optuna  # loaded when a searcher is created, 200 ms
    except ImportError:
        raise missing("Optuna", "OptunaSearch", "optuna") from None
    optuna.logging.set_verbosity(max(optuna.logging.get_verbosity(), optuna.logging.WARNING))
    return optuna


class OptunaSearch(Searcher):
    """Suggests configurations with a study of Optuna.

    Args:
        space: Optuna's distributions by name, a function of Optuna's trial that calls its suggest methods (and
            may return constants), or a space of ray.tune; the `param_space` by default.
        metric, mode: the objective; lists of both for several objectives.
        points_to_evaluate: configurations to try first.
        sampler: a sampler of Optuna; TPE by default.
        study_name: the name of the study in the storage.
        storage: a storage of Optuna, or its URL; memory by default.
        seed: the seed of the default sampler.
        evaluated_rewards: known results of `points_to_evaluate`, which are then learned from instead of run.

    Raises:
        ImportError: Optuna is not installed.
        ValueError: the space has a domain that Optuna does not support, or arguments contradict each other.
    """

    def __init__(
        self,
        space: Any = None,
        metric: Any = None,
        mode: Any = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        sampler: Any = None,
        study_name: str | None = None,
        storage: Any = None,
        seed: int | None = None,
        evaluated_rewards: list[Any] | None = None,
    ) -> None:
        optuna = _optuna()
        super().__init__(metric, mode)
        if has_domains(space):
            space = self.convert_search_space(space)
        if evaluated_rewards and len(evaluated_rewards) != len(points_to_evaluate or []):
            raise ValueError(
                f"points_to_evaluate and evaluated_rewards must have the same length: {len(points_to_evaluate or [])} and "
                f"{len(evaluated_rewards)} were given"
            )
        if sampler is not None and seed is not None:
            raise ValueError(
                "seed applies only to the default sampler; set the seed of your own sampler instead"
            )
        if sampler is not None and not isinstance(sampler, optuna.samplers.BaseSampler):
            raise ValueError(
                f"sampler must be a sampler of Optuna, such as optuna.samplers.TPESampler(), got {sampler!r:.80}"
            )
        self._space = as_flat(space) if isinstance(space, Mapping) else space
        self._points = list(points_to_evaluate or [])
        self._rewards = evaluated_rewards
        self._sampler = sampler or optuna.samplers.TPESampler(seed=seed)
        self._study_name, self._storage = study_name or "optuna", storage
        self._trials: dict[str, Any] = {}
        self._failed: set[str] = set()
        self._study: Any = None
        if space is not None and mode is not None:
            self._begin(mode)

    @property
    def _ot_study(self) -> Any:
        """The study of Optuna, by the name under which programs read and plot it; None before there is a space."""
        return self._study

    def _begin(self, mode: Any) -> None:
        optuna = _optuna()
        directions = [
            "minimize" if each == "min" else "maximize" for each in (mode if _is_list(mode) else [mode])
        ]
        self._study = optuna.create_study(
            storage=self._storage,
            sampler=self._sampler,
            pruner=optuna.pruners.NopPruner(),
            study_name=self._study_name,
            directions=directions,
            load_if_exists=True,
        )
        for number, point in enumerate(self._points):
            if self._rewards:
                self.add_evaluated_point(point, self._rewards[number])
            else:
                self._study.enqueue_trial(as_flat(point))

    def set_search_properties(self, metric: Any, mode: Any, config: dict[str, Any], **spec: Any) -> bool:
        """Set metric, mode and space; False if the space is already set."""
        if self._space is not None and has_domains(config):
            return False
        if metric and self._metric and metric != self._metric or mode and self._mode and mode != self._mode:
            return False
        if self._space is None:
            self._space = self.convert_search_space(config)
        self._metric = self._metric or metric or "_metric"
        self._mode = self._mode or mode
        if self._mode is None:
            raise undefined("OptunaSearch", self._metric, self._mode)
        if self._study is None:
            self._begin(self._mode)
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the study's next proposal.

        Raises:
            RuntimeError: there is no space, metric or mode.
        """
        if not self._space:
            raise no_space("OptunaSearch")
        if not self._metric or not self._mode:
            raise undefined("OptunaSearch", self._metric, self._mode)
        if callable(self._space):
            suggested = self._study.ask()
            more = self._space(suggested)
            if more is not None and not isinstance(more, Mapping):
                raise TypeError(
                    f"a define-by-run function must return a dict of constants or None, got {more!r:.80}"
                )
            params = {**suggested.params, **(more or {})}
        else:
            suggested = self._study.ask(fixed_distributions=self._space)
            params = suggested.params
        self._trials[trial_id] = suggested
        return nest(params)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Pass an intermediate value to the study, for samplers and pruners that use them."""
        if _is_list(self._metric):
            return
        step = result.get("training_iteration")
        value = result.get(self._metric)
        if step is not None and value is not None and trial_id in self._trials:
            # In a restored search, a trial that has ended for the study may report again.
            with contextlib.suppress(_optuna().exceptions.UpdateFinishedTrialError):
                self._trials[trial_id].report(value, step)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Pass the result to the study; a trial without a result has failed, or was pruned."""
        optuna = _optuna()
        suggested = self._trials.get(trial_id)
        if suggested is None:
            return
        state = optuna.trial.TrialState.COMPLETE
        values: Any = None
        if result is not None:
            values = (
                [result.get(name) for name in self._metric]
                if _is_list(self._metric)
                else result.get(self._metric)
            )
        if values is None or (_is_list(values) and any(each is None for each in values)):
            values = None
            state = optuna.trial.TrialState.FAIL if error else optuna.trial.TrialState.PRUNED
        if trial_id in self._failed:
            if values is not None:
                self._failed.remove(trial_id)
                self._add_success(suggested.number, values)
            return
        if state == optuna.trial.TrialState.FAIL:
            self._failed.add(trial_id)
        try:
            self._study.tell(suggested, values, state=state)
        except optuna.exceptions.UpdateFinishedTrialError:
            pass  # the first result stays
        except ValueError:  # a shared study already has the result
            if suggested.number >= len(self._study.trials):
                raise

    def _add_success(self, number: int, values: Any) -> None:
        """Add the result of a trial that has failed before; a study keeps failed trials as they are."""
        optuna = _optuna()
        failed = self._study.trials[number]
        self._study.add_trial(
            optuna.trial.create_trial(
                params=failed.params,
                distributions=failed.distributions,
                values=values if _is_list(values) else [values],
            )
        )

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: Any,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Learn from a point that was evaluated elsewhere.

        Raises:
            TypeError: the space is a function, so its distributions are unknown.
        """
        optuna = _optuna()
        if not self._space:
            raise no_space("OptunaSearch")
        if callable(self._space):
            raise TypeError(
                "evaluated points need distributions: pass OptunaSearch a space that is not a function"
            )
        states = optuna.trial.TrialState
        state = states.FAIL if error else states.PRUNED if pruned else states.COMPLETE
        values = None if error else list(value) if _is_list(value) else [value]
        params = as_flat(parameters)
        trial = optuna.trial.create_trial(
            state=state,
            params=params,
            distributions={name: each for name, each in self._space.items() if name in params},
            values=values,
            intermediate_values=dict(enumerate(intermediate_values or [])),
        )
        self._study.add_trial(trial)

    def save(self, checkpoint_path: str) -> None:
        """Save study, sampler and running trials."""
        super().save(checkpoint_path)

    @staticmethod
    def convert_search_space(spec: dict[str, Any]) -> dict[str, Any]:
        """Return Optuna's distributions for a space of ray.tune.

        Raises:
            ValueError: the space has a domain that Optuna does not support.
        """
        of = _optuna().distributions
        found: dict[str, Any] = {}
        for name, flat in flat_space(spec, "OptunaSearch").items():
            domain = flat.domain
            if isinstance(domain, Categorical):
                found[name] = of.CategoricalDistribution(domain.categories)
            elif flat.log and flat.q not in (None, 1):
                raise ValueError(
                    f"Optuna cannot round on a logarithmic scale, but {name!r} requires it; leave out q"
                )
            elif isinstance(domain, Integer):
                step = 1 if flat.log else int(flat.q or 1)
                found[name] = of.IntDistribution(domain.lower, flat.highest, log=flat.log, step=step)
            else:
                found[name] = of.FloatDistribution(domain.lower, domain.upper, log=flat.log, step=flat.q)
        return found


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))
