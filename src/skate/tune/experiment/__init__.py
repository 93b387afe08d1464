"""Trials and experiments, under the names of `ray.tune.experiment`."""

from __future__ import annotations

from skate import lazy_loader

_HOMES = {"skate.tune.experiment.experiment": ("Experiment",), "skate.tune.experiment.trial": ("Trial",)}
__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES)
