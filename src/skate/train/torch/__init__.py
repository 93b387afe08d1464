"""Training with PyTorch: the trainer, and functions for the training function. Importing this does not load torch."""

from __future__ import annotations

from skate import lazy_loader

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
__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES)
