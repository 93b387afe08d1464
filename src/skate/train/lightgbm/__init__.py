"""LightGBM in the workers of a run. Loading this does not load lightgbm."""

from __future__ import annotations

from skate.train.extras import lazily

__getattr__, __all__ = lazily(
    __name__,
    {
        "config": ("LightGBMConfig", "get_network_params"),
        "trainer": ("LightGBMTrainer",),
        "report_callback": ("RayTrainReportCallback",),
        "checkpoint": ("LightGBMCheckpoint",),
        "frames": ("normalize_pandas_for_lightgbm",),
    },
    "lightgbm",
    "lightgbm",
)
