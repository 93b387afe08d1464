"""Training with PyTorch: the trainer, and functions for the training function. Importing this does not load torch."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "skate.train.torch.trainer": ("TorchTrainer",),
    "skate.train.torch.config": ("TorchConfig",),
    "skate.train.torch.checkpoint": ("TorchCheckpoint",),
    "skate.train.torch.prepare": (
        "accelerate",
        "backward",
        "enable_reproducibility",
        "get_device",
        "get_devices",
        "prepare_data_loader",
        "prepare_model",
        "prepare_optimizer",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'skate.train.torch' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(home), name)
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__]
