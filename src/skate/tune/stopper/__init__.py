"""Stoppers: end trials after some iterations, without improvement, after a time limit, or by a function."""

from __future__ import annotations

from skate import lazy_loader

_HOMES = {
    "skate.tune.stopper.experiment_plateau": ("ExperimentPlateauStopper",),
    "skate.tune.stopper.function_stopper": ("FunctionStopper",),
    "skate.tune.stopper.maximum_iteration": ("MaximumIterationStopper",),
    "skate.tune.stopper.stopper": (
        "CombinedStopper",
        "NoopStopper",
        "Stopper",
    ),
    "skate.tune.stopper.timeout": ("TimeoutStopper",),
    "skate.tune.stopper.trial_plateau": ("TrialPlateauStopper",),
}
__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES)
