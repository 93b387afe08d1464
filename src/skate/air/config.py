"""Settings of runs, by the name that programs for older versions of Ray import them by."""

from __future__ import annotations

from skate.train.configs import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig

__all__ = ["CheckpointConfig", "FailureConfig", "RunConfig", "ScalingConfig"]
