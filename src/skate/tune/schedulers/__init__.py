"""Schedulers: decide which trials continue, all of them or the promising ones."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "ASHAScheduler": "skate.tune.schedulers.async_hyperband",
    "AsyncHyperBandScheduler": "skate.tune.schedulers.async_hyperband",
    "FIFOScheduler": "skate.tune.schedulers.trial_scheduler",
    "HyperBandForBOHB": "skate.tune.schedulers.hb_bohb",
    "HyperBandScheduler": "skate.tune.schedulers.hyperband",
    "MedianStoppingRule": "skate.tune.schedulers.median_stopping_rule",
    "PopulationBasedTraining": "skate.tune.schedulers.pbt",
    "PopulationBasedTrainingReplay": "skate.tune.schedulers.pbt_replay",
    "ResourceChangingScheduler": "skate.tune.schedulers.resource_changing_scheduler",
    "TrialScheduler": "skate.tune.schedulers.trial_scheduler",
}
_MORE = {"create_scheduler": "skate.tune.schedulers.factory"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name) or _MORE.get(name)
    if home is None:
        raise AttributeError(f"module 'skate.tune.schedulers' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__, *_MORE]
