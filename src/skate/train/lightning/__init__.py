"""PyTorch Lightning in the workers of a run. Loading this does not load lightning."""

from __future__ import annotations

from skate.train.extras import lazily

__getattr__, __all__ = lazily(
    __name__,
    {
        "strategies": ("RayDDPStrategy", "RayDeepSpeedStrategy", "RayFSDPStrategy"),
        "environment": ("RayLightningEnvironment",),
        "prepare": ("prepare_trainer",),
        "report_callback": ("RayTrainReportCallback",),
    },
    "lightning",
    "lightning",
)
