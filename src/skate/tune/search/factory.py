"""Searchers by name."""

from __future__ import annotations

from typing import Any

from skate import lazy_loader

_BY_NAME = {
    "variant_generator": "BasicVariantGenerator",
    "random": "BasicVariantGenerator",
    "ax": "AxSearch",
    "hyperopt": "HyperOptSearch",
    "bayesopt": "BayesOptSearch",
    "bohb": "TuneBOHB",
    "nevergrad": "NevergradSearch",
    "optuna": "OptunaSearch",
    "zoopt": "ZOOptSearch",
    "hebo": "HEBOSearch",
}
_HOMES = {
    "skate.tune.search.basic_variant": ("BasicVariantGenerator",),
    "skate.tune.search.ax": ("AxSearch",),
    "skate.tune.search.hyperopt": ("HyperOptSearch",),
    "skate.tune.search.bayesopt": ("BayesOptSearch",),
    "skate.tune.search.bohb": ("TuneBOHB",),
    "skate.tune.search.nevergrad": ("NevergradSearch",),
    "skate.tune.search.optuna": ("OptunaSearch",),
    "skate.tune.search.zoopt": ("ZOOptSearch",),
    "skate.tune.search.hebo": ("HEBOSearch",),
}
_load = lazy_loader.getter(globals(), _HOMES)


def create_searcher(search_alg: str, **kwargs: Any) -> Any:
    """Create a searcher by a name such as "optuna"; keywords that it does not accept are dropped.

    Raises:
        ValueError: the name is unknown; the error lists the known ones.
    """
    name = str(search_alg).lower()
    if name not in _BY_NAME:
        raise ValueError(f"The `search_alg` argument must be one of {list(_BY_NAME)}. Got: {search_alg}")
    found = _load(_BY_NAME[name])
    return found(**taken_by(found, kwargs))


def taken_by(kind: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Select the keywords that a class accepts."""
    import inspect  # few programs create searchers by name

    parameters = inspect.signature(kind).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return dict(kwargs)
    return {name: value for name, value in kwargs.items() if name in parameters}
