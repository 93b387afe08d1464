"""Sources of configurations: random draws and grids, or libraries that learn from results."""

from __future__ import annotations

from skate import lazy_loader

_HOMES = {
    "skate.tune.search.basic_variant": ("BasicVariantGenerator",),
    "skate.tune.search.concurrency_limiter": ("ConcurrencyLimiter",),
    "skate.tune.search.factory": ("create_searcher",),
    "skate.tune.search.repeater": ("Repeater",),
    "skate.tune.search.search_algorithm": ("SearchAlgorithm",),
    "skate.tune.search.search_generator": ("SearchGenerator",),
    "skate.tune.search.searcher": ("Searcher",),
    "skate.tune.space.functions": ("grid_search",),
}

UNRESOLVED_SEARCH_SPACE = (
    "{par} of {cls} contains domains of ray.tune, such as tune.uniform, which {cls} cannot read there; "
    "pass them to Tuner(param_space=...) instead, or use {cls}.convert_search_space"
)
UNDEFINED_SEARCH_SPACE = "{cls} has no search space: pass {space} to it, or param_space to Tuner"
UNDEFINED_METRIC_MODE = (
    "{cls} does not know the objective (metric={metric!r}, mode={mode!r}): set metric and mode here "
    "or in TuneConfig"
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

__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES, _PARTS)
__all__.remove("create_searcher")
__all__ += ["UNDEFINED_METRIC_MODE", "UNDEFINED_SEARCH_SPACE", "UNRESOLVED_SEARCH_SPACE"]
