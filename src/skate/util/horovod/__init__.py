"""Removed from Ray long ago; importing it raises an error with the replacement."""

from __future__ import annotations

raise DeprecationWarning(
    "ray.util.horovod has been removed from Ray; use TorchTrainer of ray.train.torch instead"
)
