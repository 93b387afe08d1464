"""BOHB's model: kernel density estimates of good and bad configurations, learned at the largest budget with data."""

from __future__ import annotations

from typing import Any

from skate.installed import missing
from skate.tune.search.flat_space import as_flat, flat_space, no_space, settled
from skate.tune.search.library import LibrarySearcher
from skate.tune.search.search_generator import nest
from skate.tune.space.domain import Categorical, Integer


def _packages() -> tuple[Any, Any]:
    try:
        import ConfigSpace  # loaded when a searcher is created
    except ImportError:
        raise missing("ConfigSpace", "TuneBOHB", "ConfigSpace hpbandster") from None
    try:
        from hpbandster.optimizers.config_generators import bohb  # imported only if used
    except ImportError:
        raise missing("HpBandSter", "TuneBOHB", "ConfigSpace hpbandster") from None
    return ConfigSpace, bohb.BOHB


class _Job:
    """A result in HpBandSter's form."""

    def __init__(self, loss: float | None, budget: float, config: dict[str, Any]) -> None:
        self.result = None if loss is None else {"loss": loss}
        self.kwargs = {"budget": budget, "config": dict(config)}
        self.exception = None


class TuneBOHB(LibrarySearcher):
    """Suggests configurations with BOHB; use it with `HyperBandForBOHB`.

    Args:
        space: a `ConfigurationSpace`, or a space of ray.tune; the `param_space` by default.
        bohb_config: arguments of HpBandSter's BOHB.
        metric, mode: the objective.
        points_to_evaluate: configurations to try first.
        seed: the seed of random draws.
        max_concurrent: the most trials at a time; 0 for no limit.

    Raises:
        ImportError: ConfigSpace or HpBandSter is not installed.
        ValueError: the space has a domain that ConfigSpace does not support.
    """

    def __init__(
        self,
        space: Any = None,
        bohb_config: dict[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        seed: int | None = None,
        max_concurrent: int = 0,
    ) -> None:
        _packages()
        super().__init__(metric, mode)
        self._config, self._seed = dict(bohb_config or {}), seed
        self._points = [as_flat(point) for point in points_to_evaluate or []]
        self._max_concurrent = max_concurrent
        self._configs: dict[str, dict[str, Any]] = {}
        self._running: set[str] = set()
        self._paused: set[str] = set()
        if space is not None:
            self._begin(space)

    def _begin(self, space: Any) -> None:
        space = self._converted(space)
        _, model = _packages()
        if self._seed is not None:
            space.seed(self._seed)
        self._model = model(space, **self._config)

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Limit the number of concurrent trials."""
        self._max_concurrent = max_concurrent
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the model's next proposal; None while enough trials run."""
        if self._model is None:
            raise no_space("TuneBOHB")
        if self._max_concurrent and len(self._running) >= self._max_concurrent:
            return None
        if self._points:
            config = self._points.pop(0)
        else:
            config, _ = self._model.get_config(None)
            config = settled(self._domains, config)
        self._configs[trial_id] = dict(config)
        self._running.add(trial_id)
        return nest(config)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Learn from a result at the budget that `HyperBandForBOHB` adds to it."""
        if (
            trial_id in self._paused
            or "hyperband_info" not in result
            and "hyperband_info/budget" not in result
        ):
            return
        info = result.get("hyperband_info") or {"budget": result["hyperband_info/budget"]}
        self._learn(trial_id, result, info["budget"])

    def _learn(self, trial_id: str, result: dict[str, Any] | None, budget: float) -> None:
        value = (result or {}).get(self._metric)
        loss = None if value is None else float(value) if self._mode == "min" else -float(value)
        self._model.new_result(_Job(loss, budget, self._configs[trial_id]))

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Learn from a trial that has ended."""
        if trial_id in self._configs and result is not None and not error:
            self._learn(trial_id, result, float(result.get("training_iteration") or 1))
        self._configs.pop(trial_id, None)
        self._running.discard(trial_id)
        self._paused.discard(trial_id)

    def on_pause(self, trial_id: str) -> None:
        """Record that a trial waits for its bracket, which makes room."""
        self._paused.add(trial_id)
        self._running.discard(trial_id)

    def on_unpause(self, trial_id: str) -> None:
        """Record that a trial resumes."""
        self._paused.discard(trial_id)
        self._running.add(trial_id)

    @staticmethod
    def convert_search_space(spec: dict[str, Any]) -> Any:
        """Return a `ConfigurationSpace` for a space of ray.tune.

        Raises:
            ValueError: the space has a domain that ConfigSpace does not support.
        """
        package, _ = _packages()
        found = package.ConfigurationSpace()
        for name, flat in flat_space(spec, "TuneBOHB").items():
            domain = flat.domain
            if isinstance(domain, Categorical):
                found.add(package.CategoricalHyperparameter(name, domain.categories))
            elif flat.normal is not None:
                found.add(package.NormalFloatHyperparameter(name, mu=flat.normal.mean, sigma=flat.normal.sd))
            elif isinstance(domain, Integer):
                found.add(
                    package.UniformIntegerHyperparameter(name, domain.lower, flat.highest, log=flat.log)
                )
            else:
                found.add(package.UniformFloatHyperparameter(name, domain.lower, domain.upper, log=flat.log))
        return found


#: The name in older programs.
BOHB = TuneBOHB
