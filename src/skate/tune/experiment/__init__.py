"""Trials and experiments, by the names that programs know from `ray.tune.experiment`."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {"Experiment": "skate.tune.experiment.experiment", "Trial": "skate.tune.experiment.trial"}

__all__ = ["Experiment", "Trial"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'skate.tune.experiment' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
