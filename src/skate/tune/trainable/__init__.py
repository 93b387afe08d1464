"""The code in the process of a trial, under the names of `ray.tune.trainable`."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "FunctionTrainable": "skate.tune.trainable.function",
    "Trainable": "skate.tune.trainable.trainable",
    "with_parameters": "skate.tune.trainable.bound_parameters",
    "with_resources": "skate.tune.trainable.bound_parameters",
    "wrap_function": "skate.tune.trainable.function",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'skate.tune.trainable' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
