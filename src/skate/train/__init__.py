"""Train: a training function in several workers, with checkpoints, metrics, and failures survived."""

from __future__ import annotations

import importlib
from typing import Any

#: Public names by the module that has them; loaded when asked for.
_HOMES = {
    "skate.train.callback": ("UserCallback",),
    "skate.train.checkpoint": ("Checkpoint",),
    "skate.train.configs": (
        "CheckpointConfig",
        "FailureConfig",
        "LoggingConfig",
        "RunConfig",
        "ScalingConfig",
        "SyncConfig",
    ),
    "skate.train.data_config": ("DataConfig",),
    "skate.train.errors": (
        "ControllerError",
        "NCCLHangError",
        "PreemptionError",
        "PreemptionInfo",
        "TrainingFailedError",
        "WorkerGroupError",
    ),
    "skate.train.modes": (
        "CheckpointConsistencyMode",
        "CheckpointUploadMode",
        "ReportedCheckpoint",
        "ReportedCheckpointStatus",
        "ValidationConfig",
        "ValidationFn",
        "ValidationTaskConfig",
    ),
    "skate.train.backend": ("BackendConfig",),
    "skate.train.result": ("Result",),
    "skate.train.worker.train_context": (
        "TrainContext",
        "get_all_reported_checkpoints",
        "get_checkpoint",
        "get_context",
        "get_dataset_shard",
        "get_preemption_info",
    ),
    "skate.train.trainer": ("Trainer",),
    "skate.train.worker.report": ("report",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_PARTS = (
    *("collective", "huggingface", "jax", "lightgbm", "lightning"),
    *("tensorflow", "torch", "trainer", "xgboost"),
)

#: The key of the dataset that get_dataset_shard() means.
TRAIN_DATASET_KEY = "train"

__all__ = sorted([*_HOME_OF, "TRAIN_DATASET_KEY"])


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module(f"skate.train.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'skate.train' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(home), name)
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__]
