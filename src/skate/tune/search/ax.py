"""Ax, Meta's platform for adaptive experiments."""

from __future__ import annotations

from typing import Any

from skate.installed import missing
from skate.tune.search.flat_space import Flat, as_flat, flat_space, has_domains, no_space, settled, undefined
from skate.tune.search.search_generator import nest
from skate.tune.search.searcher import Searcher
from skate.tune.space.domain import Categorical, Integer


def _service() -> Any:
    try:
        from ax.service import ax_client  # loaded when a searcher is created
    except ImportError:
        raise missing("Ax", "AxSearch", "ax-platform") from None
    return ax_client


class AxSearch(Searcher):
    """Suggests configurations with an `AxClient`.

    Args:
        space: Ax's list of parameters, or a space of ray.tune; the `param_space` by default.
        metric, mode: the objective.
        points_to_evaluate: configurations to try first.
        parameter_constraints, outcome_constraints: constraints of Ax, such as ["x1 + x2 <= 2.0"].
        ax_client: an existing client, with its experiment.
        ax_kwargs: arguments of `AxClient`.

    Raises:
        ImportError: Ax is not installed.
        ValueError: the space has a domain that Ax does not support.
    """

    def __init__(
        self,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        parameter_constraints: list[str] | None = None,
        outcome_constraints: list[str] | None = None,
        ax_client: Any = None,
        **ax_kwargs: Any,
    ) -> None:
        _service()
        super().__init__(metric, mode)
        self._points = [as_flat(point) for point in points_to_evaluate or []]
        self._constraints = (parameter_constraints, outcome_constraints)
        self._kwargs = ax_kwargs
        self._client = ax_client
        self._domains: dict[str, Flat] = {}
        self._space = self._converted(space) if has_domains(space) else space
        self._live: dict[str, int] = {}
        if self._client is None and self._space and mode is not None:
            self._begin()

    def _converted(self, space: dict[str, Any]) -> list[dict[str, Any]]:
        self._domains = flat_space(space, "AxSearch")
        return self.convert_search_space(space)

    def _begin(self) -> None:
        service = _service()
        self._client = service.AxClient(**self._kwargs)
        minimize = self._mode == "min"
        self._client.create_experiment(
            parameters=self._space,
            objectives={self._metric: service.ObjectiveProperties(minimize=minimize)},
            parameter_constraints=self._constraints[0],
            outcome_constraints=self._constraints[1],
        )

    def set_search_properties(self, metric: Any, mode: Any, config: dict[str, Any], **spec: Any) -> bool:
        """Set metric, mode and space; False if the space is already set."""
        if self._client is not None and has_domains(config):
            return False
        self._metric = self._metric or metric or "_metric"
        self._mode = self._mode or mode
        if self._mode is None:
            raise undefined("AxSearch", self._metric, self._mode)
        if self._client is None:
            self._space = self._space or self._converted(config)
            self._begin()
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the client's next configuration; None while it waits for results, FINISHED when it has no more."""
        if self._client is None:
            raise no_space("AxSearch")
        if self._points:
            point = self._points.pop(0)
            _, number = self._client.attach_trial(point)
        else:
            from ax.exceptions import core, generation_strategy  # imported only if used

            try:
                point, number = self._client.get_next_trial()
            except generation_strategy.MaxParallelismReachedException:
                return None
            except (core.SearchSpaceExhausted, core.DataRequiredError) as reason:
                return None if isinstance(reason, core.DataRequiredError) else Searcher.FINISHED
        self._live[trial_id] = number
        return nest(settled(self._domains, point))

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Pass the result to the client."""
        number = self._live.pop(trial_id, None)
        if number is None:
            return
        value = (result or {}).get(self._metric)
        if error or value is None:
            self._client.log_trial_failure(number)
            return
        data = {self._metric: (float(value), None)}
        for constraint in self._constraints[1] or []:
            name = constraint.split()[0]
            data[name] = (float((result or {})[name]), None)
        self._client.complete_trial(number, raw_data=data)

    @staticmethod
    def convert_search_space(spec: dict[str, Any]) -> list[dict[str, Any]]:
        """Return Ax's parameters for a space of ray.tune.

        Raises:
            ValueError: the space has a domain that Ax does not support.
        """
        found: list[dict[str, Any]] = []
        for name, flat in flat_space(spec, "AxSearch").items():
            domain = flat.domain
            if isinstance(domain, Categorical):
                found.append(
                    {"name": name, "type": "choice", "values": domain.categories, "is_ordered": False}
                )
                continue
            kind = "int" if isinstance(domain, Integer) else "float"
            bounds = [domain.lower, flat.highest]
            found.append(
                {"name": name, "type": "range", "bounds": bounds, "value_type": kind, "log_scale": flat.log}
            )
        return found
