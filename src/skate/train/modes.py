"""Ways to write a checkpoint, and how far one has come."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from skate.train.checkpoint import Checkpoint


class CheckpointUploadMode(Enum):
    """How `report` writes a checkpoint: and waits for it, in the background, or not at all since it is in the storage."""

    ASYNC = "ASYNC"
    SYNC = "SYNC"
    NO_UPLOAD = "NO_UPLOAD"


class CheckpointConsistencyMode(Enum):
    """Which checkpoints are asked for: those that are written, or with the results of their validation."""

    COMMITTED = "COMMITTED"
    VALIDATED = "VALIDATED"


class ReportedCheckpointStatus(Enum):
    """How far a checkpoint has come."""

    COMMITTED = "COMMITTED"
    PENDING_VALIDATION = "PENDING_VALIDATION"
    VALIDATED = "VALIDATED"
    VALIDATION_TIMEOUT = "VALIDATION_TIMEOUT"
    VALIDATION_FAILED = "VALIDATION_FAILED"


@dataclass(frozen=True)
class ReportedCheckpoint:
    """A checkpoint with what was reported with it, and what its validation has added."""

    checkpoint: Checkpoint
    metrics: dict[str, Any]
    status: ReportedCheckpointStatus


class ValidationFn(Protocol):
    """A function of a checkpoint, and keywords from the task config, that returns metrics to be added."""

    def __call__(self, checkpoint: Checkpoint, **kwargs: Any) -> dict[str, Any]:
        """The metrics of a checkpoint."""


@dataclass
class ValidationTaskConfig:
    """One validation: keywords for the function, and seconds it may take."""

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
    """How checkpoints are validated: the function, what each validation gets by default, and options of its task."""

    fn: ValidationFn
    task_config: ValidationTaskConfig | None = None
    ray_remote_kwargs: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.task_config = self.task_config or ValidationTaskConfig()
        self.ray_remote_kwargs = self.ray_remote_kwargs or {}
