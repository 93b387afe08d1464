"""Names of metrics, files and settings, under Ray's old name for the shared parts of Train and Tune."""

from __future__ import annotations

from skate.tune.result import (
    EXPR_ERROR_FILE,
    EXPR_ERROR_PICKLE_FILE,
    EXPR_PARAM_FILE,
    EXPR_PARAM_PICKLE_FILE,
    EXPR_PROGRESS_FILE,
    EXPR_RESULT_FILE,
    TIME_THIS_ITER_S,
    TIMESTAMP,
    TRAINING_ITERATION,
)

MODEL_KEY = "model"
PREPROCESSOR_KEY = "_preprocessor"
TENSOR_COLUMN_NAME = "__value__"
TRAIN_DATASET_KEY = "train"
EVALUATION_DATASET_KEY = "evaluation"
MAX_REPR_LENGTH = 120
CHECKPOINT_ID_ATTR = "_current_checkpoint_id"
CHECKPOINT_TUNE_METADATA_FILE = ".tune_metadata"
LAZY_CHECKPOINT_MARKER_FILE = ".lazy_checkpoint_marker"
COPY_DIRECTORY_CHECKPOINTS_INSTEAD_OF_MOVING_ENV = "TRAIN_COPY_DIRECTORY_CHECKPOINTS_INSTEAD_OF_MOVING"
SESSION_MISUSE_LOG_ONCE_KEY = "air_warn_session_misuse"
#: Ray's environment variables; docs/tune.md lists those that have no effect here.
AIR_ENV_VARS = {
    COPY_DIRECTORY_CHECKPOINTS_INSTEAD_OF_MOVING_ENV,
    "RAY_AIR_FULL_TRACEBACKS",
    "RAY_AIR_NEW_OUTPUT",
}

#: Environment variables that are passed from the driver to workers.
AIR_ENV_VARS = {
    COPY_DIRECTORY_CHECKPOINTS_INSTEAD_OF_MOVING_ENV,
    "RAY_AIR_FULL_TRACEBACKS",
    "RAY_AIR_NEW_OUTPUT",
}
#: The key under which Ray records its warning about session functions outside of a session.
SESSION_MISUSE_LOG_ONCE_KEY = "air_warn_session_misuse"

__all__ = [
    "AIR_ENV_VARS", "SESSION_MISUSE_LOG_ONCE_KEY", "CHECKPOINT_ID_ATTR", "CHECKPOINT_TUNE_METADATA_FILE",
    "COPY_DIRECTORY_CHECKPOINTS_INSTEAD_OF_MOVING_ENV",
    "EVALUATION_DATASET_KEY", "EXPR_ERROR_FILE", "EXPR_ERROR_PICKLE_FILE", "EXPR_PARAM_FILE", "EXPR_PARAM_PICKLE_FILE",
    "EXPR_PROGRESS_FILE", "EXPR_RESULT_FILE", "LAZY_CHECKPOINT_MARKER_FILE", "MAX_REPR_LENGTH", "MODEL_KEY",
    "PREPROCESSOR_KEY", "TENSOR_COLUMN_NAME", "TIMESTAMP", "TIME_THIS_ITER_S", "TRAINING_ITERATION", "TRAIN_DATASET_KEY",
]  # fmt: skip
