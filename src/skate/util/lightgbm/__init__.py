"""Was taken out of Ray long ago; importing it says what to use."""

from __future__ import annotations

raise DeprecationWarning(
    "ray.util.lightgbm has been removed from Ray; use LightGBMTrainer of ray.train.lightgbm in its place"
)
