"""Nevergrad's derivative-free optimizers."""

from __future__ import annotations

from typing import Any

from skate.installed import missing
from skate.tune.search.flat_space import as_flat, flat_space, no_space, settled
from skate.tune.search.library import LibrarySearcher
from skate.tune.search.search_generator import nest
from skate.tune.search.searcher import Searcher
from skate.tune.space.domain import Categorical, Integer


def _package() -> Any:
    try:
        import nevergrad  # loaded when a searcher is created
    except ImportError:
        raise missing("Nevergrad", "NevergradSearch", "nevergrad") from None
    return nevergrad


class NevergradSearch(LibrarySearcher):
    """Suggests configurations with an optimizer of Nevergrad.

    Args:
        optimizer: an optimizer class, such as nevergrad.optimizers.OnePlusOne, or an instance.
        optimizer_kwargs: arguments of the class, such as {"budget": 100}.
        space: a parametrization of Nevergrad, or a space of ray.tune; the `param_space` by default.
        metric, mode: the objective.
        points_to_evaluate: configurations to try first.

    Raises:
        ImportError: Nevergrad is not installed.
        ValueError: the space has a domain that Nevergrad does not support.
    """

    def __init__(
        self,
        optimizer: Any = None,
        optimizer_kwargs: dict[str, Any] | None = None,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
    ) -> None:
        package = _package()
        super().__init__(metric, mode)
        self._kwargs = dict(optimizer_kwargs or {})
        self._points = [as_flat(point) for point in points_to_evaluate or []]
        self._live: dict[str, Any] = {}
        self._class = optimizer or package.optimizers.NGOpt
        if not isinstance(self._class, type) and hasattr(self._class, "ask"):
            self._model = optimizer
        elif space is not None:
            self._begin(space)

    def _begin(self, space: Any) -> None:
        space = self._converted(space)
        self._model = self._class(parametrization=space, **self._kwargs)
        for point in self._points:
            self._model.suggest(**point)

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the optimizer's next proposal; FINISHED when its budget is used up."""
        if self._model is None:
            raise no_space("NevergradSearch")
        if self._model.budget is not None and self._model.num_ask >= self._model.budget:
            return Searcher.FINISHED
        suggestion = self._model.ask()
        self._live[trial_id] = suggestion
        return nest(settled(self._domains, suggestion.kwargs))

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Pass the result to the optimizer."""
        suggestion = self._live.pop(trial_id, None)
        value = (result or {}).get(self._metric)
        if suggestion is not None and value is not None and not error:
            self._model.tell(suggestion, -float(value) if self._mode == "max" else float(value))

    @staticmethod
    def convert_search_space(spec: dict[str, Any]) -> Any:
        """Return Nevergrad's parametrization for a space of ray.tune.

        Raises:
            ValueError: the space has a domain that Nevergrad does not support.
        """
        of = _package().p
        found: dict[str, Any] = {}
        for name, flat in flat_space(spec, "NevergradSearch").items():
            domain = flat.domain
            if isinstance(domain, Categorical):
                found[name] = of.Choice(domain.categories)
            elif flat.log:
                scalar = of.Log(lower=domain.lower, upper=flat.highest)
                found[name] = scalar.set_integer_casting() if isinstance(domain, Integer) else scalar
            else:
                scalar = of.Scalar(lower=domain.lower, upper=flat.highest)
                found[name] = scalar.set_integer_casting() if isinstance(domain, Integer) else scalar
        return of.Instrumentation(**found)
