"""Train: runs a training function in several workers, with checkpoints, metrics and fault tolerance."""

from __future__ import annotations

from skate import lazy_loader

#: Public names by their modules; loaded on first use.
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
_PARTS = (
    *("collective", "huggingface", "jax", "lightgbm", "lightning"),
    *("tensorflow", "torch", "trainer", "xgboost"),
)

#: The default key of get_dataset_shard().
TRAIN_DATASET_KEY = "train"

__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES, _PARTS)
__all__.append("TRAIN_DATASET_KEY")
