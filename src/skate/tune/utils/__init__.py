"""Small functions for trainables, by the names that programs know from `ray.tune.utils`."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "START_OF_TIME": "skate.tune.utils.slow_calls",
    "Tee": "skate.tune.utils.tee",
    "UtilMonitor": "skate.tune.utils.monitor",
    "date_str": "skate.tune.utils.dicts",
    "deep_update": "skate.tune.utils.dicts",
    "diagnose_serialization": "skate.tune.utils.serialization_checks",
    "flatten_dict": "skate.tune.utils.dicts",
    "merge_dicts": "skate.tune.utils.dicts",
    "is_nan": "skate.tune.utils.dicts",
    "is_nan_or_inf": "skate.tune.utils.dicts",
    "retry_fn": "skate.tune.utils.slow_calls",
    "unflatten_dict": "skate.tune.utils.dicts",
    "unflatten_list_dict": "skate.tune.utils.dicts",
    "unflattened_lookup": "skate.tune.utils.dicts",
    "validate_save_restore": "skate.tune.utils.serialization_checks",
    "validate_warmstart": "skate.tune.utils.serialization_checks",
    "wait_for_gpu": "skate.tune.utils.gpu",
    "warn_if_slow": "skate.tune.utils.slow_calls",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'skate.tune.utils' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
