"""Trainers and what goes with them, by the name that programs for older versions of Ray import them by."""

from __future__ import annotations

from skate.train.checkpoint import Checkpoint
from skate.train.configs import RunConfig, ScalingConfig
from skate.train.errors import TrainingFailedError
from skate.train.result import Result
from skate.train.trainer import DataParallelTrainer as BaseTrainer

__all__ = ["BaseTrainer", "Checkpoint", "Result", "RunConfig", "ScalingConfig", "TrainingFailedError"]
