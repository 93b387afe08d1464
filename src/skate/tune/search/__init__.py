"""Where configurations come from: random draws and grids, or libraries that learn from results."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "BasicVariantGenerator": "skate.tune.search.basic_variant",
    "ConcurrencyLimiter": "skate.tune.search.concurrency_limiter",
    "Repeater": "skate.tune.search.repeater",
    "SearchAlgorithm": "skate.tune.search.search_algorithm",
    "SearchGenerator": "skate.tune.search.search_generator",
    "Searcher": "skate.tune.search.searcher",
    "create_searcher": "skate.tune.search.factory",
    "grid_search": "skate.tune.space.functions",
}

UNRESOLVED_SEARCH_SPACE = (
    "{par} of {cls} has domains of ray.tune in it, such as tune.uniform, which {cls} cannot read there; give them to "
    "Tuner(param_space=...) instead, or use {cls}.convert_search_space"
)
UNDEFINED_SEARCH_SPACE = "{cls} has no search space: give it {space}, or Tuner a param_space"
UNDEFINED_METRIC_MODE = (
    "{cls} does not know what is best (metric={metric!r}, mode={mode!r}): "
    "give it, or TuneConfig, a metric and a mode"
)

_PARTS = frozenset(
    [
        "basic_variant",
        "concurrency_limiter",
        "repeater",
        "sample",
        "search_algorithm",
        "search_generator",
        "searcher",
        "variant_generator",
    ]
)

__all__ = sorted([*_HOMES, "UNDEFINED_METRIC_MODE", "UNDEFINED_SEARCH_SPACE", "UNRESOLVED_SEARCH_SPACE"])
__all__.remove("create_searcher")


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module(f"skate.tune.search.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'skate.tune.search' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__, *_HOMES]
