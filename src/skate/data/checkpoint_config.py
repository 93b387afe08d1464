"""Settings of checkpoints for `skate.data.checkpoint`: the id column and the directory."""

from __future__ import annotations

import enum
import os
from typing import Any


class InvalidCheckpointingConfig(ValueError):
    """An invalid checkpoint configuration."""


class CheckpointBackend(enum.Enum):
    """Where checkpoints are kept: in object storage or in files."""

    CLOUD_OBJECT_STORAGE = "CLOUD_OBJECT_STORAGE"
    FILE_STORAGE = "FILE_STORAGE"


class CheckpointConfig:
    """The column that identifies rows, and where the ids of written rows are kept.

    Args:
        id_column: a column of the source with unique values, kept by all steps.
        checkpoint_path: a directory, as path or URL, visible to all nodes; by default one under
            RAY_DATA_CHECKPOINT_PATH_BUCKET.
        delete_checkpoint_on_success: delete the checkpoint after a successful run.
        override_filesystem: a `pyarrow.fs` filesystem for the path.
        override_backend, write_num_threads, checkpoint_path_partition_filter, checkpoint_filter_cls,
            checkpoint_manager_cls: accepted for compatibility; custom classes raise NotImplementedError.

    Raises InvalidCheckpointingConfig, a ValueError, without a column or a path.
    """

    DEFAULT_CHECKPOINT_PATH_BUCKET_ENV_VAR = "RAY_DATA_CHECKPOINT_PATH_BUCKET"
    DEFAULT_CHECKPOINT_PATH_DIR = "ray_data_checkpoint"

    def __init__(
        self,
        id_column: str | None = None,
        checkpoint_path: str | None = None,
        *,
        delete_checkpoint_on_success: bool = True,
        override_filesystem: Any = None,
        override_backend: CheckpointBackend | None = None,
        write_num_threads: int = 3,
        checkpoint_path_partition_filter: Any = None,
        checkpoint_filter_cls: Any = None,
        checkpoint_manager_cls: Any = None,
    ) -> None:
        if not isinstance(id_column, str) or not id_column:
            raise InvalidCheckpointingConfig(
                f"id_column must be the name of a column with unique values, got {id_column!r}"
            )
        if checkpoint_path is None:
            bucket = os.environ.get(self.DEFAULT_CHECKPOINT_PATH_BUCKET_ENV_VAR)
            if not bucket:
                raise InvalidCheckpointingConfig(
                    f"neither checkpoint_path nor {self.DEFAULT_CHECKPOINT_PATH_BUCKET_ENV_VAR} is set; set one of them"
                )
            checkpoint_path = f"{bucket.rstrip('/')}/{self.DEFAULT_CHECKPOINT_PATH_DIR}"
        if checkpoint_filter_cls is not None or checkpoint_manager_cls is not None:
            raise NotImplementedError("custom checkpoint classes are not supported; leave them out")
        self.id_column = id_column
        self.checkpoint_path = checkpoint_path
        self.delete_checkpoint_on_success = delete_checkpoint_on_success
        self.filesystem = override_filesystem
        in_files = "://" not in checkpoint_path or checkpoint_path.startswith("file://")
        self.backend = override_backend or (
            CheckpointBackend.FILE_STORAGE if in_files else CheckpointBackend.CLOUD_OBJECT_STORAGE
        )
        self.write_num_threads = write_num_threads
        self.checkpoint_path_partition_filter = checkpoint_path_partition_filter

    def __repr__(self) -> str:
        return f"CheckpointConfig(id_column={self.id_column!r}, checkpoint_path={self.checkpoint_path!r})"


def config_of(value: Any) -> CheckpointConfig | None:
    """Return a configuration from a user's setting: a configuration, its arguments as a dict, or None."""
    if value is None or isinstance(value, CheckpointConfig):
        return value
    if isinstance(value, dict):
        return CheckpointConfig(**value)
    raise TypeError(
        f"checkpoint_config must be a CheckpointConfig, a dict of its arguments or None, got {value!r}"
    )
