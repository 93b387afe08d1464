"""The bayesian-optimization package: a Gaussian process over real numbers."""

from __future__ import annotations

import json
from typing import Any

from skate.installed import missing
from skate.tune.search.flat_space import as_flat, flat_space, has_domains, no_space, undefined
from skate.tune.search.search_generator import nest
from skate.tune.search.searcher import Searcher
from skate.tune.space.domain import Float
from skate.tune.space.variants import open_leaves


def _package() -> Any:
    try:
        import bayes_opt  # loaded when a searcher is created
    except ImportError:
        raise missing("bayesian-optimization", "BayesOptSearch", "bayesian-optimization") from None
    if not hasattr(bayes_opt, "acquisition"):
        raise ImportError(
            f"BayesOptSearch needs bayesian-optimization 2 or later, and "
            f"{getattr(bayes_opt, '__version__', 'an older one')} is "
            "installed (nevergrad holds it at 1.4): pip install -U bayesian-optimization"
        )
    return bayes_opt


class BayesOptSearch(Searcher):
    """Suggests configurations with a Gaussian process; all parameters must be real numbers.

    Args:
        space: bounds by name, {"x": (0, 1)}, or a space of ray.tune; the `param_space` by default.
        metric, mode: the objective.
        points_to_evaluate: configurations to try first.
        utility_kwargs: arguments of the acquisition function: {"kappa": 2.576} of the upper confidence bound,
            or {"kind": "ei", "xi": 0.0}.
        random_state: a seed.
        random_search_steps: the number of random draws before the model is used.
        verbose: accepted for compatibility.
        patience: the search ends once a point has been proposed this often.
        skip_duplicate: True to skip points proposed before.
        analysis: an earlier search to learn from.
        repeat_float_precision: the number of digits in which points are compared.

    Raises:
        ImportError: bayesian-optimization is not installed.
        ValueError: the space has a parameter that is not a real number.
    """

    def __init__(
        self,
        space: dict[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        utility_kwargs: dict[str, Any] | None = None,
        random_state: int = 42,
        random_search_steps: int = 10,
        verbose: int = 0,
        patience: int = 5,
        skip_duplicate: bool = True,
        analysis: Any = None,
        repeat_float_precision: int = 5,
    ) -> None:
        _package()
        super().__init__(metric, mode)
        if not isinstance(patience, int) or patience < 1:
            raise ValueError(f"patience must be at least 1, got {patience!r}")
        self._points = [as_flat(point) for point in points_to_evaluate or []]
        self._utility = dict(utility_kwargs or {})
        self._seed = random_state
        self._random_steps = random_search_steps
        self._patience, self._skip, self._digits = patience, skip_duplicate, repeat_float_precision
        self._seen: dict[str, int] = {}
        self._live: dict[str, dict[str, float]] = {}
        self._suggested = 0
        self._analysis = analysis
        self._space: dict[str, tuple[float, float]] | None = None
        self.optimizer: Any = None
        self._random: Any = None
        if space:
            own = {name: each for name, each in space.items() if isinstance(each, tuple)}
            drawn = {name: each for name, each in space.items() if name not in own}
            self._set_space({**self.convert_search_space(drawn), **own})

    def _set_space(self, space: dict[str, tuple[float, float]]) -> None:
        package = _package()
        import numpy as np  # a dependency of bayesian-optimization

        self._space = space
        self._random = np.random.RandomState(self._seed)
        kind = self._utility.pop("kind", "ucb")
        kwargs = {"ucb": {"kappa": 2.576}, "ei": {"xi": 0.01}, "poi": {"xi": 0.01}}.get(kind)
        if kwargs is None:
            raise ValueError(f'utility_kwargs={{"kind": ...}} must be "ucb", "ei" or "poi", got {kind!r}')
        names = {
            "ucb": "UpperConfidenceBound",
            "ei": "ExpectedImprovement",
            "poi": "ProbabilityOfImprovement",
        }
        chosen = {**kwargs, **{name: value for name, value in self._utility.items() if name in kwargs}}
        acquisition = getattr(package.acquisition, names[kind])(**chosen)
        self.optimizer = package.BayesianOptimization(
            f=None,
            pbounds=space,
            acquisition_function=acquisition,
            random_state=self._seed,
            verbose=0,
            allow_duplicate_points=True,
        )

    def set_search_properties(self, metric: Any, mode: Any, config: dict[str, Any], **spec: Any) -> bool:
        """Set metric, mode and space; False if the space is already set."""
        if self.optimizer is not None and has_domains(config):
            return False
        if self.optimizer is None:
            self._set_space(self.convert_search_space(config))
        self._metric = self._metric or metric or "_metric"
        self._mode = self._mode or mode
        if self._mode is None:
            raise undefined("BayesOptSearch", self._metric, self._mode)
        if self._analysis is not None:
            self.register_analysis(self._analysis)
            self._analysis = None
        return True

    def register_analysis(self, analysis: Any) -> None:
        """Learn from an earlier search."""
        self.add_evaluated_trials(analysis, self._metric)

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Learn from a point that was evaluated elsewhere."""
        if error or value != value:
            return
        point = {name: each for name, each in as_flat(parameters).items() if name in (self._space or {})}
        self.optimizer.register(params=point, target=self._target(value))

    def _target(self, value: float) -> float:
        return -float(value) if self._mode == "min" else float(value)

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the process's next proposal; None until the random draws have results, FINISHED when it repeats
        itself.
        """
        if self.optimizer is None:
            raise no_space("BayesOptSearch")
        if not self._metric or not self._mode:
            raise undefined("BayesOptSearch", self._metric, self._mode)
        if self._points:
            point = self._points.pop(0)
        elif self._suggested < self._random_steps:
            drawn = self.optimizer.space.random_sample(1, random_state=self._random)[0]
            point = self.optimizer.space.array_to_params(drawn)
        elif len(self.optimizer.space) == 0:
            return None
        else:
            point = self.optimizer.suggest()
        point = {name: float(value) for name, value in point.items()}
        key = json.dumps({name: round(value, self._digits) for name, value in sorted(point.items())})
        self._seen[key] = self._seen.get(key, 0) + 1
        if self._seen[key] >= self._patience:
            return Searcher.FINISHED
        if self._skip and self._seen[key] > 1 and self._suggested > self._random_steps:
            return None
        self._suggested += 1
        self._live[trial_id] = point
        return nest(point)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Pass the result to the process."""
        point = self._live.pop(trial_id, None)
        value = (result or {}).get(self._metric)
        if point is not None and value is not None and not error:
            self.optimizer.register(params=point, target=self._target(value))

    @staticmethod
    def convert_search_space(spec: dict[str, Any], join: bool = False) -> dict[str, tuple[float, float]]:
        """Return the bounds for a space of ray.tune.

        Raises:
            ValueError: the space has a parameter that is not a real number.
        """
        found = {}
        for path, _ in open_leaves(spec):
            if any("/" in str(name) for name in path):
                raise ValueError(
                    f"BayesOptSearch joins nested names with slashes, so no name may have one, but {path!r} has"
                )
        for name, flat in flat_space(spec, "BayesOptSearch", choices=False).items():
            if not isinstance(flat.domain, Float) or flat.q:
                raise ValueError(
                    f"BayesOptSearch searches only real numbers, but {name!r} is "
                    f"{flat.domain.domain_str}: use tune.uniform"
                )
            found[name] = (float(flat.domain.lower), float(flat.domain.upper))
        return found
