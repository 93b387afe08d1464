"""The trainer for TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.train.checkpoint import Checkpoint
from skate.train.configs import RunConfig, ScalingConfig
from skate.train.data_config import DataConfig
from skate.train.modes import ValidationConfig
from skate.train.tensorflow.config import TensorflowConfig
from skate.train.trainer import DataParallelTrainer


class TensorflowTrainer(DataParallelTrainer):
    """Runs a training function in several workers, which `tf.distribute.MultiWorkerMirroredStrategy()` connects.

    Args and errors are those of `DataParallelTrainer`; besides:
        tensorflow_config: the cluster of the workers.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        tensorflow_config: TensorflowConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        dataset_config: DataConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: dict[str, Any] | None = None,
        validation_config: ValidationConfig | None = None,
        metadata: Any = None,
        resume_from_checkpoint: Checkpoint | None = None,
    ) -> None:
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=tensorflow_config or TensorflowConfig(),
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            validation_config=validation_config,
            metadata=metadata,
            resume_from_checkpoint=resume_from_checkpoint,
        )
