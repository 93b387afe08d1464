"""The Keras callback for reports, under its older name."""

from __future__ import annotations

from skate.train.tensorflow.keras import ReportCheckpointCallback

__all__ = ["ReportCheckpointCallback"]
