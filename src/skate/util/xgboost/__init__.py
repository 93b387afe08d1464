"""Was taken out of Ray long ago; importing it says what to use."""

from __future__ import annotations

raise DeprecationWarning(
    "ray.util.xgboost has been removed from Ray; use XGBoostTrainer of ray.train.xgboost in its place"
)
