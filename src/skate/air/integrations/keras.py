"""The Keras callback that reports, by its older name."""

from __future__ import annotations

from skate.train.tensorflow.keras import ReportCheckpointCallback

__all__ = ["ReportCheckpointCallback"]
