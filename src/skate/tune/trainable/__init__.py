"""The code in the process of a trial, under the names of `ray.tune.trainable`."""

from __future__ import annotations

from skate import lazy_loader

_HOMES = {
    "skate.tune.trainable.bound_parameters": (
        "with_parameters",
        "with_resources",
    ),
    "skate.tune.trainable.function": (
        "FunctionTrainable",
        "wrap_function",
    ),
    "skate.tune.trainable.trainable": ("Trainable",),
}
__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES)
