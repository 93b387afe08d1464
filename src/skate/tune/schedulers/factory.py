"""Schedulers by name."""

from __future__ import annotations

from typing import Any

from skate import lazy_loader
from skate.tune.search.factory import taken_by

_BY_NAME = {
    "fifo": "FIFOScheduler",
    "async_hyperband": "AsyncHyperBandScheduler",
    "asynchyperband": "AsyncHyperBandScheduler",
    "asha": "ASHAScheduler",
    "median_stopping_rule": "MedianStoppingRule",
    "medianstopping": "MedianStoppingRule",
    "hyperband": "HyperBandScheduler",
    "hb_bohb": "HyperBandForBOHB",
    "pbt": "PopulationBasedTraining",
    "pbt_replay": "PopulationBasedTrainingReplay",
    "pb2": "PB2",
    "resource_changing": "ResourceChangingScheduler",
}
_HOMES = {
    "skate.tune.schedulers.trial_scheduler": ("FIFOScheduler",),
    "skate.tune.schedulers.async_hyperband": (
        "AsyncHyperBandScheduler",
        "ASHAScheduler",
    ),
    "skate.tune.schedulers.median_stopping_rule": ("MedianStoppingRule",),
    "skate.tune.schedulers.hyperband": ("HyperBandScheduler",),
    "skate.tune.schedulers.hb_bohb": ("HyperBandForBOHB",),
    "skate.tune.schedulers.pbt": ("PopulationBasedTraining",),
    "skate.tune.schedulers.pbt_replay": ("PopulationBasedTrainingReplay",),
    "skate.tune.schedulers.pb2": ("PB2",),
    "skate.tune.schedulers.resource_changing_scheduler": ("ResourceChangingScheduler",),
}
_load = lazy_loader.getter(globals(), _HOMES)


def create_scheduler(scheduler: str, **kwargs: Any) -> Any:
    """Create a scheduler by a name such as "async_hyperband"; keywords that it does not accept are dropped.

    Raises:
        ValueError: the name is unknown; the error lists the known ones.
    """
    name = str(scheduler).lower()
    if name not in _BY_NAME:
        raise ValueError(f"The `scheduler` argument must be one of {', '.join(_BY_NAME)}, got {scheduler!r}")
    found = _load(_BY_NAME[name])
    return found(**taken_by(found, kwargs))
