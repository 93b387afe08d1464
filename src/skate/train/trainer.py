"""The trainer: a training function, its configuration, and `fit`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from skate.train.backend import BackendConfig
from skate.train.checkpoint import Checkpoint
from skate.train.configs import RunConfig, ScalingConfig, check_kind
from skate.train.controller.controller import Controller, Run
from skate.train.controller.local import execute_locally
from skate.train.data_config import DataConfig
from skate.train.errors import PreemptionError, WorkerGroupError
from skate.train.modes import ValidationConfig
from skate.train.result import Result, result_of
from skate.train.run_session import ensure_session, warm
from skate.train.storage.run_folder import RunFolder
from skate.train.worker.train_function import takes_config

_RESTORE = "The `restore` and `can_restore` APIs are deprecated: "


class DataParallelTrainer:
    """Runs a training function in several workers at once.

    Args:
        train_loop_per_worker: the function; it takes no argument, or the config.
        train_loop_config: its argument, a dict.
        backend_config: the framework to set up.
        scaling_config: the number of workers and their resources.
        run_config: name, storage, failures, checkpoints, callbacks.
        datasets: `Dataset`s by key, for `ray.train.get_dataset_shard`.
        dataset_config: how they are split.
        validation_config: the function for checkpoints reported with `validation`.
        metadata: rejected.
        resume_from_checkpoint: rejected; pass the checkpoint in `train_loop_config`.

    Raises:
        TypeError, ValueError: an argument is invalid; the message names it and the expected values.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        backend_config: BackendConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: dict[str, Any] | None = None,
        dataset_config: DataConfig | None = None,
        validation_config: ValidationConfig | None = None,
        metadata: Any = None,
        resume_from_checkpoint: Checkpoint | None = None,
    ) -> None:
        takes_config(train_loop_per_worker)
        if metadata is not None:
            raise DeprecationWarning(
                "`metadata` is deprecated: pass values with train_loop_config, or Checkpoint.set_metadata"
            )
        if resume_from_checkpoint is not None:
            raise DeprecationWarning(
                "`resume_from_checkpoint` is deprecated: pass the checkpoint to the training function, in train_loop_config; "
                "a run with the same name and storage_path resumes from its own"
            )
        self.train_loop_per_worker = train_loop_per_worker
        self.train_loop_config = _instance("train_loop_config", train_loop_config, dict, None)
        self.backend_config = _instance("backend_config", backend_config, BackendConfig, BackendConfig())
        self.scaling_config = ScalingConfig() if scaling_config is None else scaling_config
        self.run_config = RunConfig() if run_config is None else run_config
        check_kind(self.scaling_config, ScalingConfig)
        check_kind(self.run_config, RunConfig)
        self.datasets = _instance("datasets", datasets, dict, {})
        self.data_config = _instance("dataset_config", dataset_config, DataConfig, DataConfig())
        self.validation_config = _instance("validation_config", validation_config, ValidationConfig, None)
        #: Set by trials of a search: the checkpoint from which the run continues.
        self.resume_from_checkpoint: Checkpoint | None = None
        if self.scaling_config.max_workers:
            warm(self.run_config.worker_runtime_env, self.backend_config.preload)

    def fit(self) -> Result:
        """Run the training function to its end.

        Returns:
            The result of the run.

        Raises:
            TrainingFailedError: workers failed more often than `FailureConfig` allows (`WorkerGroupError` names
                the first rank to fail), or could not be started (`ControllerError`).
            ValueError: the cluster has no room for the workers; the message names the missing resources.
        """
        ensure_session(self.backend_config.preload)
        run = self._run()
        if self.scaling_config.max_workers == 0:
            history, value = execute_locally(run)
            return result_of(history, None, value)
        controller = Controller(run)
        try:
            value = controller.execute()
        except (PreemptionError, WorkerGroupError) as error:
            # The message has the worker's own traceback; the controller's frames would add nothing.
            cause = error.__cause__
            raise error.with_traceback(None) from (cause and cause.with_traceback(None))
        return result_of(controller.history, None, value)

    def _run(self) -> Run:
        config = self.run_config
        scaling = self.scaling_config
        if scaling.use_tpu and scaling.topology:
            raise ValueError(
                f"ScalingConfig(topology={scaling.topology!r}): slices of TPUs are not supported; leave topology out"
            )
        if scaling.elasticity_enabled and not scaling.min_workers and scaling.max_workers:
            # without this limit none would train
            scaling = dataclasses.replace(scaling, num_workers=(1, scaling.max_workers))
        assert config.name and config.storage_path, "generated if omitted"
        return Run(
            function=self.train_loop_per_worker,
            config=self.train_loop_config,
            scaling=scaling,
            run_config=config,
            backend=self.backend_config,
            folder=RunFolder(config.storage_path, config.name, config.storage_filesystem),
            datasets=self.datasets,
            data_config=self.data_config,
            validation=self.validation_config,
            resume_from=self.resume_from_checkpoint,
        )

    @classmethod
    def restore(cls, *args: Any, **kwargs: Any) -> Any:
        """Raise: a trainer with the same name and storage_path resumes automatically."""
        raise DeprecationWarning(
            f"{_RESTORE}create {cls.__name__} again with the same RunConfig(name=..., storage_path=...) and "
            "call fit(); it resumes from the last checkpoint"
        )

    @classmethod
    def can_restore(cls, *args: Any, **kwargs: Any) -> Any:
        """Raise: see `restore`."""
        raise DeprecationWarning(
            f"{_RESTORE}a {cls.__name__} with the same name and storage_path resumes automatically"
        )


#: The name in older programs.
Trainer = DataParallelTrainer


def _instance(name: str, value: Any, kind: type, default: Any) -> Any:
    if value is None:
        return default
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, not {type(value).__name__}: {value!r:.120}")
    return value
