"""Searchers by name."""

from __future__ import annotations

import importlib
from typing import Any

_BY_NAME = {
    "variant_generator": ("basic_variant", "BasicVariantGenerator"),
    "random": ("basic_variant", "BasicVariantGenerator"),
    "ax": ("ax", "AxSearch"),
    "hyperopt": ("hyperopt", "HyperOptSearch"),
    "bayesopt": ("bayesopt", "BayesOptSearch"),
    "bohb": ("bohb", "TuneBOHB"),
    "nevergrad": ("nevergrad", "NevergradSearch"),
    "optuna": ("optuna", "OptunaSearch"),
    "zoopt": ("zoopt", "ZOOptSearch"),
    "hebo": ("hebo", "HEBOSearch"),
}


def create_searcher(search_alg: str, **kwargs: Any) -> Any:
    """Create a searcher by a name such as "optuna"; keywords that it does not accept are dropped.

    Raises:
        ValueError: the name is unknown; the error lists the known ones.
    """
    name = str(search_alg).lower()
    if name not in _BY_NAME:
        raise ValueError(f"The `search_alg` argument must be one of {list(_BY_NAME)}. Got: {search_alg}")
    module, kind = _BY_NAME[name]
    found = getattr(importlib.import_module(f"skate.tune.search.{module}"), kind)
    return found(**taken_by(found, kwargs))


def taken_by(kind: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Select the keywords that a class accepts."""
    import inspect  # few programs make things by name

    parameters = inspect.signature(kind).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return dict(kwargs)
    return {name: value for name, value in kwargs.items() if name in parameters}
