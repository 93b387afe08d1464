"""Removed from Ray long ago; importing it raises an error with the replacement."""

from __future__ import annotations

raise DeprecationWarning(
    "ray.util.xgboost has been removed from Ray; use XGBoostTrainer of ray.train.xgboost instead"
)
