"""Modes of writing a checkpoint, and the status of one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from skate.train.checkpoint import Checkpoint


class CheckpointUploadMode(Enum):
    """How `report` writes a checkpoint: synchronously, in the background, or not at all because it is already
    in the storage."""

    ASYNC = "ASYNC"
    SYNC = "SYNC"
    NO_UPLOAD = "NO_UPLOAD"


class CheckpointConsistencyMode(Enum):
    """Which checkpoints are requested: as soon as they are written, or with the results of their validation."""

    COMMITTED = "COMMITTED"
    VALIDATED = "VALIDATED"


class ReportedCheckpointStatus(Enum):
    """The status of a checkpoint."""

    COMMITTED = "COMMITTED"
    PENDING_VALIDATION = "PENDING_VALIDATION"
    VALIDATED = "VALIDATED"
    VALIDATION_TIMEOUT = "VALIDATION_TIMEOUT"
    VALIDATION_FAILED = "VALIDATION_FAILED"


@dataclass(frozen=True)
class ReportedCheckpoint:
    """A checkpoint with its reported metrics and those added by its validation."""

    checkpoint: Checkpoint
    metrics: dict[str, Any]
    status: ReportedCheckpointStatus


class ValidationFn(Protocol):
    """A function that takes a checkpoint and the keywords of the task config, and returns metrics to add."""

    def __call__(self, checkpoint: Checkpoint, **kwargs: Any) -> dict[str, Any]:
        """Return the metrics of a checkpoint."""


@dataclass
class ValidationTaskConfig:
    """One validation: keywords for the function, and its timeout in seconds."""

    fn_kwargs: dict[str, Any] | None = None
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        self.fn_kwargs = self.fn_kwargs or {}
        if self.timeout_s is not None and self.timeout_s <= 0:
            raise AssertionError(
                f"The `timeout_s` should be None or greater than zero, in seconds, got {self.timeout_s}"
            )


@dataclass
class ValidationConfig:
    """How checkpoints are validated: the function, the default config of each validation, and options of its task."""

    fn: ValidationFn
    task_config: ValidationTaskConfig | None = None
    ray_remote_kwargs: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.task_config = self.task_config or ValidationTaskConfig()
        self.ray_remote_kwargs = self.ray_remote_kwargs or {}
