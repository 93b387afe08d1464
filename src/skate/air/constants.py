"""Names of metrics, files and settings, under Ray's old name for what Train and Tune have in common."""

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
#: Variables of the environment that Ray knows; those of them that have no effect here are in docs/tune.md.
AIR_ENV_VARS = {
    COPY_DIRECTORY_CHECKPOINTS_INSTEAD_OF_MOVING_ENV,
    "RAY_AIR_FULL_TRACEBACKS",
    "RAY_AIR_NEW_OUTPUT",
}

#: Environment variables that are handed on to workers, as they are set in the driver.
AIR_ENV_VARS = {
    COPY_DIRECTORY_CHECKPOINTS_INSTEAD_OF_MOVING_ENV,
    "RAY_AIR_FULL_TRACEBACKS",
    "RAY_AIR_NEW_OUTPUT",
}
#: Under it Ray remembers that it has warned of functions of a session outside of one.
SESSION_MISUSE_LOG_ONCE_KEY = "air_warn_session_misuse"

__all__ = [
    "AIR_ENV_VARS", "CHECKPOINT_ID_ATTR", "CHECKPOINT_TUNE_METADATA_FILE",
    "COPY_DIRECTORY_CHECKPOINTS_INSTEAD_OF_MOVING_ENV", "EVALUATION_DATASET_KEY", "EXPR_ERROR_FILE",
    "EXPR_ERROR_PICKLE_FILE", "EXPR_PARAM_FILE", "EXPR_PARAM_PICKLE_FILE", "EXPR_PROGRESS_FILE", "EXPR_RESULT_FILE",
    "LAZY_CHECKPOINT_MARKER_FILE", "MAX_REPR_LENGTH", "MODEL_KEY", "PREPROCESSOR_KEY", "SESSION_MISUSE_LOG_ONCE_KEY",
    "TENSOR_COLUMN_NAME", "TIMESTAMP", "TIME_THIS_ITER_S", "TRAINING_ITERATION", "TRAIN_DATASET_KEY",
]  # fmt: skip
