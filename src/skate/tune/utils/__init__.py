"""Small functions for trainables, under the names of `ray.tune.utils`."""

from __future__ import annotations

from skate import lazy_loader

_HOMES = {
    "skate.tune.utils.dicts": (
        "date_str",
        "deep_update",
        "flatten_dict",
        "merge_dicts",
        "is_nan",
        "is_nan_or_inf",
        "unflatten_dict",
        "unflatten_list_dict",
        "unflattened_lookup",
    ),
    "skate.tune.utils.gpu": ("wait_for_gpu",),
    "skate.tune.utils.monitor": ("UtilMonitor",),
    "skate.tune.utils.serialization_checks": (
        "diagnose_serialization",
        "validate_save_restore",
        "validate_warmstart",
    ),
    "skate.tune.utils.slow_calls": (
        "START_OF_TIME",
        "retry_fn",
        "warn_if_slow",
    ),
    "skate.tune.utils.tee": ("Tee",),
}
__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES)
