"""The trainer for JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from skate.train.configs import RunConfig, ScalingConfig
from skate.train.data_config import DataConfig
from skate.train.jax.config import JaxConfig
from skate.train.modes import ValidationConfig
from skate.train.trainer import DataParallelTrainer


class JaxTrainer(DataParallelTrainer):
    """Runs a training function in several workers that are one distributed program of JAX.

    `jax.devices()` has the devices of all workers, `jax.local_devices()` those of one.

    Args and errors are those of `DataParallelTrainer`; besides:
        jax_config: the devices; by default the GPUs if `scaling_config` has them.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        jax_config: JaxConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        dataset_config: DataConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: dict[str, Any] | None = None,
        validation_config: ValidationConfig | None = None,
    ) -> None:
        config = jax_config or JaxConfig()
        if scaling_config is not None and scaling_config.use_gpu:
            config = replace(config, use_gpu=True)
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=config,
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            validation_config=validation_config,
        )
