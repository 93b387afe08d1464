"""ZOOpt's derivative-free optimizer, sequential random coordinate shrinking."""

from __future__ import annotations

from typing import Any

from skate.installed import missing
from skate.tune.search.flat_space import as_flat, flat_space, has_domains, no_space, settled
from skate.tune.search.library import LibrarySearcher
from skate.tune.search.search_generator import nest
from skate.tune.search.searcher import Searcher
from skate.tune.space.domain import Categorical, Integer

_ALGORITHMS = ("asracos", "sracos")


def _package() -> Any:
    try:
        import zoopt  # loaded when a searcher is created
    except ImportError:
        raise missing("ZOOpt", "ZOOptSearch", "zoopt") from None
    return zoopt


class ZOOptSearch(LibrarySearcher):
    """Suggests configurations with ZOOpt.

    Args:
        algo: "asracos" or "sracos", which are the same here: results are passed on as trials end.
        budget: the total number of trials; ZOOpt derives the number of initial random draws from it.
        dim_dict: ZOOpt's dimensions by name, or a space of ray.tune; the `param_space` by default.
        metric, mode: the objective.
        points_to_evaluate: configurations to try first. ZOOpt does not learn from them, only from its own draws.
        parallel_num: the number of its own trials that run at a time.
        kwargs: arguments of `zoopt.Parameter`. ZOOpt draws from numpy's global generator: seed it for reproducible
            points.

    Raises:
        ImportError: ZOOpt is not installed.
        ValueError: the budget is missing, the algorithm is unknown, or the space has a domain that ZOOpt does
            not support.
    """

    def __init__(
        self,
        algo: str = "asracos",
        budget: int | None = None,
        dim_dict: dict[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        parallel_num: int = 1,
        **kwargs: Any,
    ) -> None:
        _package()
        super().__init__(metric, mode)
        if algo.lower() not in _ALGORITHMS:
            raise ValueError(f"algo must be one of {', '.join(_ALGORITHMS)}, got {algo!r}")
        if budget is None or budget < 1:
            raise ValueError(f"ZOOptSearch needs budget=, the total number of trials, got {budget!r}")
        self._budget, self._parallel, self._kwargs = budget, parallel_num, kwargs
        self._points = [as_flat(point) for point in points_to_evaluate or []]
        self._live: dict[str, Any] = {}
        self._names: list[str] = []
        self._own = {name: each for name, each in (dim_dict or {}).items() if isinstance(each, tuple)}
        if dim_dict:
            self._begin({name: each for name, each in dim_dict.items() if name not in self._own})

    def _begin(self, space: dict[str, Any]) -> None:
        package = _package()
        from zoopt.algos.opt_algorithms.racos.sracos import SRacosTune  # imported only if used

        space = {**self._converted(space), **self._own}
        self._names = list(space)
        self._model = SRacosTune(
            dimension=package.Dimension2(list(space.values())),
            parameter=package.Parameter(budget=self._budget, **self._kwargs),
            parallel_num=self._parallel,
        )

    @property
    def optimizer(self) -> Any:
        """ZOOpt's own searcher; None before the space is set."""
        return self._model

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return ZOOpt's next proposal; None while it waits for results, FINISHED when it finds nothing new."""
        if self._model is None:
            raise no_space("ZOOptSearch")
        if self._points:
            return nest(self._points.pop(0))
        solution = self._model.suggest()
        if solution is None and not self._live:
            # ZOOpt waits for the first draws to end, even if they ended before it began to wait.
            self._model.semaphore = 1
            solution = self._model.suggest()
        if solution is None:
            return None
        if isinstance(solution, str):
            return Searcher.FINISHED
        self._live[trial_id] = solution
        return nest(settled(self._domains, dict(zip(self._names, solution.get_x(), strict=True))))

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Pass the result to ZOOpt; a failed trial gets the worst value, because ZOOpt waits for each."""
        solution = self._live.pop(trial_id, None)
        if solution is None:
            return
        value = (result or {}).get(self._metric)
        worst = error or value is None or value != value
        loss = float("inf") if worst else -float(value) if self._mode == "max" else float(value)  # type: ignore[arg-type]
        self._model.complete(solution, loss)

    @staticmethod
    def convert_search_space(spec: dict[str, Any], join: bool = False) -> dict[str, Any]:
        """Return ZOOpt's dimensions for a space of ray.tune; with `join`, the constants of the space as well.

        Raises:
            ValueError: the space has a domain that ZOOpt does not support.
        """
        kinds = _package().ValueType
        found: dict[str, Any] = {}
        for name, flat in flat_space(spec, "ZOOptSearch").items():
            domain = flat.domain
            if isinstance(domain, Categorical):
                found[name] = (kinds.GRID, list(domain.categories))
            elif flat.log:
                raise ValueError(
                    f"ZOOptSearch does not support a logarithmic scale, but {name!r} is {domain.domain_str}: draw its "
                    "exponent with tune.uniform"
                )
            elif isinstance(domain, Integer):
                found[name] = (kinds.DISCRETE, [domain.lower, flat.highest], True)
            else:
                found[name] = (kinds.CONTINUOUS, [domain.lower, domain.upper], flat.q or 1e-12)
        return (
            {**as_flat({n: v for n, v in spec.items() if not has_domains({n: v})}), **found}
            if join
            else found
        )
