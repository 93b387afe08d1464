"""XGBoost in the workers of a run. Loading this does not load xgboost."""

from __future__ import annotations

from skate.train.extras import lazily

__getattr__, __all__ = lazily(
    __name__,
    {
        "config": ("XGBoostConfig",),
        "trainer": ("XGBoostTrainer",),
        "report_callback": ("RayTrainReportCallback",),
        "checkpoint": ("XGBoostCheckpoint",),
    },
    "xgboost",
    "xgboost",
)
