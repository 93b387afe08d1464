"""Removed from Ray long ago; importing it raises an error with the replacement."""

from __future__ import annotations

raise DeprecationWarning(
    "ray.util.lightgbm has been removed from Ray; use LightGBMTrainer of ray.train.lightgbm instead"
)
