"""The trainer for PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from skate.train.checkpoint import Checkpoint
from skate.train.configs import RunConfig, ScalingConfig
from skate.train.data_config import DataConfig
from skate.train.modes import ValidationConfig
from skate.train.torch.config import TorchConfig
from skate.train.trainer import DataParallelTrainer


class TorchTrainer(DataParallelTrainer):
    """Runs a training function in several workers that share a process group of torch.distributed.

    Args and errors are those of `DataParallelTrainer`; besides:
        torch_config: the process group.
        config: the name of `train_loop_config` in older programs. deepspeed_config: (Skate only) a DeepSpeed
    config; `prepare_model` then creates DeepSpeed engines. "auto" is filled in.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        torch_config: TorchConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: dict[str, Any] | None = None,
        dataset_config: DataConfig | None = None,
        validation_config: ValidationConfig | None = None,
        metadata: Any = None,
        resume_from_checkpoint: Checkpoint | None = None,
        config: dict[str, Any] | None = None,
        deepspeed_config: dict[str, Any] | None = None,
    ) -> None:
        if config is not None:
            if train_loop_config is not None:
                raise ValueError("config is an alias of train_loop_config; set only one of them")
            train_loop_config = config
        if torch_config is not None and not isinstance(torch_config, TorchConfig):
            raise TypeError(
                f"torch_config must be a TorchConfig, got {type(torch_config).__name__}: {torch_config!r:.120}"
            )
        torch_config = torch_config or TorchConfig()
        if deepspeed_config is not None:
            torch_config = replace(torch_config, deepspeed_config=deepspeed_config)
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=torch_config,
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            validation_config=validation_config,
            metadata=metadata,
            resume_from_checkpoint=resume_from_checkpoint,
        )
