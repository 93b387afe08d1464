"""Creates trials from a searcher's suggestions."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from skate.tune.experiment.experiment import experiments_of
from skate.tune.experiment.trial import Trial
from skate.tune.search.search_algorithm import SearchAlgorithm
from skate.tune.search.searcher import Searcher, pass_properties
from skate.tune.space.domain import Domain
from skate.tune.space.variants import format_vars, is_grid


class SearchGenerator(SearchAlgorithm):
    """Creates trials from a searcher's suggestions.

    Raises:
        TypeError: it is not a searcher.
    """

    CKPT_FILE_TMPL = "search_gen_state-{}.json"

    def __init__(self, searcher: Searcher) -> None:
        if not isinstance(searcher, Searcher):
            raise TypeError(
                f"a searcher must inherit from ray.tune.search.Searcher; {type(searcher).__name__} does not"
            )
        self.searcher = searcher
        self._experiments: list[Any] = []
        self._made = 0
        self._total = 0

    @property
    def metric(self) -> Any:
        """The metric of the searcher."""
        return self.searcher.metric

    @property
    def total_samples(self) -> int:
        """The total number of trials."""
        return self._total

    def set_search_properties(self, metric: Any, mode: Any, config: dict[str, Any], **spec: Any) -> bool:
        """Pass metric, mode and space to the searcher."""
        return pass_properties(self.searcher, metric, mode, config, spec)

    def add_configurations(self, experiments: Any) -> None:
        """Add experiments to create trials from."""
        for experiment in experiments_of(experiments):
            self._experiments.append(experiment)
            self._total = 2**31 if experiment.num_samples < 0 else self._total + experiment.num_samples

    def next_trial(self) -> Any:
        """Return the next trial; None if there is none now."""
        if self._finished or self._made >= self._total:
            self._finished = True
            return None
        return self.create_trial_if_possible(self._experiments[0])

    def create_trial_if_possible(self, experiment_spec: Any) -> Any:
        """Create a trial from the next suggestion; None if there is none now.

        Raises:
            TypeError: the searcher suggested something other than a dict.
        """
        trial_id = Trial.generate_id()
        suggested = self.searcher.suggest(trial_id)
        if suggested == Searcher.FINISHED:
            self._finished = True
            return None
        if suggested is None:
            return None
        if not isinstance(suggested, Mapping):
            name = type(self.searcher).__name__
            raise TypeError(
                f"{name}.suggest() must return a configuration as a dict, None or FINISHED, got {suggested!r:.80}"
            )
        nested = nest(suggested)
        config = merged(_constants(experiment_spec.config), nested)
        number = self._made
        self._made += 1
        if self._made >= self._total:
            self._finished = True
        flat = {tuple(name.split("/")): value for name, value in _flat(nested).items()}
        tag = f"{number + 1}_{format_vars(flat)}".rstrip("_")
        return experiment_spec.trial(config, trial_id, tag, _flat(nested))

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Pass a result to the searcher."""
        self.searcher.on_trial_result(trial_id, result)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Pass the end of a trial to the searcher."""
        self.searcher.on_trial_complete(trial_id, result=result, error=error)

    def replay(self, trial_id: str, number: int) -> None:
        """Ask the searcher again for an earlier suggestion, to restore its state."""
        if number >= self._made:
            self.searcher.suggest(trial_id)
            self._made = number + 1
            self._finished = self._made >= self._total

    # -- save and restore

    def get_state(self) -> dict[str, Any]:
        """The number of trials created, as state for a snapshot."""
        return {"made": self._made, "finished": self._finished}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore the saved state; the searcher restores its own."""
        self._made = state["made"]
        self._finished = self._made >= self._total

    def save_to_dir(self, dirpath: str, session_str: str = "default", **kwargs: Any) -> None:
        """Save the searcher's state in a folder."""
        self.searcher.save_to_dir(dirpath, session_str)

    def restore_from_dir(self, dirpath: str) -> None:
        """Load the searcher's state from a folder."""
        self.searcher.restore_from_dir(dirpath)


def nest(suggested: Mapping[str, Any]) -> dict[str, Any]:
    """Convert names with slashes to nested dicts."""
    found: dict[str, Any] = {}
    for name, value in suggested.items():
        parts = str(name).split("/") if isinstance(name, str) else [name]
        inner = found
        for part in parts[:-1]:
            inner = inner.setdefault(part, {})
        inner[parts[-1]] = value
    return found


def merged(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `over` into a copy of `base`, recursively."""
    found = dict(base)
    for name, value in over.items():
        before = found.get(name)
        found[name] = (
            merged(before, value) if isinstance(before, dict) and isinstance(value, Mapping) else value
        )
    return found


def _constants(space: Any) -> Any:
    if isinstance(space, dict):
        return {n: _constants(v) for n, v in space.items() if not (isinstance(v, Domain) or is_grid(v))}
    return copy.copy(space)


def _flat(nested: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in nested.items():
        if isinstance(value, dict):
            found.update({f"{name}/{inner}": each for inner, each in _flat(value).items()})
        else:
            found[str(name)] = value
    return found
