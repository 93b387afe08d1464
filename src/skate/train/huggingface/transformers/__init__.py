"""`transformers.Trainer` in the workers of a run. Loading this does not load transformers."""

from __future__ import annotations

from skate.train.extras import lazily

__getattr__, __all__ = lazily(
    __name__,
    {"prepare": ("prepare_trainer",), "report_callback": ("RayTrainReportCallback",)},
    "transformers",
    "transformers",
)
