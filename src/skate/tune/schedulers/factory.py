"""Schedulers by name."""

from __future__ import annotations

import importlib
from typing import Any

from skate.tune.search.factory import taken_by

_BY_NAME = {
    "fifo": ("trial_scheduler", "FIFOScheduler"),
    "async_hyperband": ("async_hyperband", "AsyncHyperBandScheduler"),
    "asynchyperband": ("async_hyperband", "AsyncHyperBandScheduler"),
    "asha": ("async_hyperband", "ASHAScheduler"),
    "median_stopping_rule": ("median_stopping_rule", "MedianStoppingRule"),
    "medianstopping": ("median_stopping_rule", "MedianStoppingRule"),
    "hyperband": ("hyperband", "HyperBandScheduler"),
    "hb_bohb": ("hb_bohb", "HyperBandForBOHB"),
    "pbt": ("pbt", "PopulationBasedTraining"),
    "pbt_replay": ("pbt_replay", "PopulationBasedTrainingReplay"),
    "pb2": ("pb2", "PB2"),
    "resource_changing": ("resource_changing_scheduler", "ResourceChangingScheduler"),
}


def create_scheduler(scheduler: str, **kwargs: Any) -> Any:
    """Create a scheduler by a name such as "async_hyperband"; keywords that it does not accept are dropped.

    Raises:
        ValueError: the name is unknown; the error lists the known ones.
    """
    name = str(scheduler).lower()
    if name not in _BY_NAME:
        raise ValueError(f"The `scheduler` argument must be one of {', '.join(_BY_NAME)}, got {scheduler!r}")
    module, kind = _BY_NAME[name]
    found = getattr(importlib.import_module(f"skate.tune.schedulers.{module}"), kind)
    return found(**taken_by(found, kwargs))
