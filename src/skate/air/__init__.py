"""Shared parts of Train and Tune under Ray's old name for both: settings of runs, and loggers of their reports."""

from __future__ import annotations

import importlib
from typing import Any

#: Public names by the module that has them; loaded when asked for.
_HOMES = {
    "skate.air.config": ("CheckpointConfig", "FailureConfig", "RunConfig", "ScalingConfig"),
    "skate.air.execution.resources.request": ("AcquiredResources", "ResourceRequest"),
    "skate.air.data_batch_type": ("DataBatchType",),
    "skate.train.result": ("Result",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'skate.air' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(home), name)
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__]
