"""Schedulers: decide which trials continue, all of them or the promising ones."""

from __future__ import annotations

from skate import lazy_loader

_HOMES = {
    "skate.tune.schedulers.async_hyperband": (
        "ASHAScheduler",
        "AsyncHyperBandScheduler",
    ),
    "skate.tune.schedulers.hb_bohb": ("HyperBandForBOHB",),
    "skate.tune.schedulers.hyperband": ("HyperBandScheduler",),
    "skate.tune.schedulers.median_stopping_rule": ("MedianStoppingRule",),
    "skate.tune.schedulers.pbt": ("PopulationBasedTraining",),
    "skate.tune.schedulers.pbt_replay": ("PopulationBasedTrainingReplay",),
    "skate.tune.schedulers.resource_changing_scheduler": ("ResourceChangingScheduler",),
    "skate.tune.schedulers.trial_scheduler": (
        "FIFOScheduler",
        "TrialScheduler",
    ),
}
_MORE = {"skate.tune.schedulers.factory": ("create_scheduler",)}

__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), {**_HOMES, **_MORE})
__all__.remove("create_scheduler")
