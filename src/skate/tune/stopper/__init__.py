"""Stoppers: end trials after some iterations, without improvement, after a time limit, or by a function."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "CombinedStopper": "skate.tune.stopper.stopper",
    "ExperimentPlateauStopper": "skate.tune.stopper.experiment_plateau",
    "FunctionStopper": "skate.tune.stopper.function_stopper",
    "MaximumIterationStopper": "skate.tune.stopper.maximum_iteration",
    "NoopStopper": "skate.tune.stopper.stopper",
    "Stopper": "skate.tune.stopper.stopper",
    "TimeoutStopper": "skate.tune.stopper.timeout",
    "TrialPlateauStopper": "skate.tune.stopper.trial_plateau",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'skate.tune.stopper' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
