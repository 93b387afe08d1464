"""The base class of custom trainers in older programs: each runs as one trial of a search."""

from __future__ import annotations

import abc
import copy
import os
import pickle
from typing import Any

from skate.air.config import RunConfig, ScalingConfig
from skate.train.checkpoint import Checkpoint
from skate.train.errors import TrainingFailedError
from skate.train.result import Result
from skate.train.storage import filesystem as files
from skate.train.storage.run_folder import RunFolder

GenDataset = Any
_SAVED = "trainer.pkl"


class BaseTrainer(abc.ABC):
    """Subclass it and define `training_loop`, which reports with `ray.tune.report`. New programs use `DataParallelTrainer`.

    Args:
        scaling_config: the resources of the loop and of the workers that it starts.
        run_config: name, storage, failures, checkpoints, callbacks.
        datasets: `Dataset`s by key.
        metadata: added to the checkpoints.
        resume_from_checkpoint: the checkpoint from which the loop resumes.

    Raises:
        ValueError: an argument is invalid.
    """

    def __init__(
        self,
        *,
        scaling_config: ScalingConfig | None = None,
        run_config: Any = None,
        datasets: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
    ) -> None:
        self.scaling_config = ScalingConfig() if scaling_config is None else scaling_config
        self.run_config = copy.copy(RunConfig() if run_config is None else run_config)
        self.metadata = metadata
        self.datasets = {} if datasets is None else datasets
        self.starting_checkpoint = resume_from_checkpoint
        self._checked()

    def _checked(self) -> None:
        if not isinstance(self.scaling_config, ScalingConfig):
            raise _wrong("scaling_config", "ray.train.ScalingConfig", self.scaling_config)
        if not hasattr(self.run_config, "storage_path"):
            raise _wrong("run_config", "ray.train.RunConfig", self.run_config)
        if not isinstance(self.datasets, dict):
            raise _wrong("datasets", "dict of names to ray.data.Dataset", self.datasets)
        for name, dataset in self.datasets.items():
            if not (callable(dataset) or hasattr(dataset, "iter_batches")):
                raise ValueError(
                    f"The Dataset under {name!r} is not a ray.data.Dataset: it is a {type(dataset).__name__}, {dataset!r:.80}"
                )
        start = self.starting_checkpoint
        if start is not None and not isinstance(start, Checkpoint):
            raise _wrong("resume_from_checkpoint", "ray.train.Checkpoint", start)

    def setup(self) -> None:  # noqa: B027  # subclasses may do without
        """Called before the loop, in the same process."""

    def preprocess_datasets(self) -> None:
        """Rejected: preprocess datasets before passing them to the trainer."""
        raise NotImplementedError(
            "preprocess_datasets is deprecated: call preprocessor.fit_transform(dataset) before creating "
            "the trainer"
        )

    @abc.abstractmethod
    def training_loop(self) -> None:
        """The training loop; subclasses define it."""

    def fit(self) -> Result:
        """Run the loop to its end.

        Raises:
            TrainingFailedError: the loop raised; its error is the cause.
        """
        from skate.tune.tuner import Tuner  # tune builds on train

        tuner = Tuner(self.as_trainable(), run_config=self.run_config)
        self._save(tuner.folder)
        results = tuner.fit()
        result: Any = results[0]
        if result.error:
            raise TrainingFailedError(
                f"The training loop of {type(self).__name__} has failed: {type(result.error).__name__}: {result.error}\n"
                "Resume it from its last checkpoint with "
                f"{type(self).__name__}.restore({tuner.folder.path!r}).fit(); for automatic restarts, set "
                "RunConfig(failure_config=FailureConfig(max_failures=...))"
            ) from result.error
        found: Result = result
        return found

    def as_trainable(self) -> Any:
        """Return a Tune trainable that sets up the trainer and runs its loop; a configuration overrides its
        attributes."""
        from skate.tune import with_resources  # imported only if used
        from skate.tune.trainable.session import get_checkpoint

        trainer = self

        def run(config: dict[str, Any]) -> None:
            own = copy.copy(trainer)
            for name, value in config.items():
                setattr(own, name, value)
            own.starting_checkpoint = get_checkpoint() or own.starting_checkpoint
            own.setup()
            own.training_loop()

        run.__name__ = run.__qualname__ = type(self).__name__
        return with_resources(run, self.scaling_config.as_placement_group_factory())

    def _save(self, folder: RunFolder) -> None:
        from skate import cloudpickle  # subclasses are often defined in the main program

        folder.create()
        files.write_bytes(folder.filesystem, folder.at(_SAVED), cloudpickle.dumps(self))

    @classmethod
    def restore(
        cls,
        path: str | os.PathLike[str],
        storage_filesystem: Any = None,
        datasets: dict[str, Any] | None = None,
        scaling_config: ScalingConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        """Restore the trainer of an earlier run; `fit` resumes from its last checkpoint.

        Args:
            path: the run's folder: its storage_path and its name.
            storage_filesystem: a pyarrow filesystem in which `path` is a path.
            datasets: the datasets, under the same names.
            scaling_config: replaces the earlier one.
            kwargs: other attributes.

        Raises:
            ValueError: there is no such run, or its datasets had other names.
        """
        folder = _folder(path, storage_filesystem)
        contents = files.read_bytes(folder.filesystem, folder.at(_SAVED))
        if contents is None:
            raise ValueError(
                f"Invalid restore path: {path}. Make sure that this path exists and is the experiment "
                f"directory that results from a call to `trainer.fit()`: no {_SAVED} is there"
            )
        found = pickle.loads(contents)
        if datasets is not None and datasets.keys() != found.datasets.keys():
            raise ValueError(
                f"The run had the datasets {sorted(found.datasets)}; pass the same names, got "
                f"{sorted(datasets)}"
            )
        given = {"datasets": datasets, "scaling_config": scaling_config, **kwargs}
        for name, value in given.items():
            if value is not None:
                setattr(found, name, value)
        found.run_config.name, found.run_config.storage_path = folder.name, folder.root
        found.run_config.storage_filesystem = storage_filesystem
        found.starting_checkpoint = _last_checkpoint(folder) or found.starting_checkpoint
        return found

    @classmethod
    def can_restore(cls, path: str | os.PathLike[str], storage_filesystem: Any = None) -> bool:
        """Return True if a path is the folder of a run that can be restored."""
        folder = _folder(path, storage_filesystem)
        return files.read_bytes(folder.filesystem, folder.at(_SAVED)) is not None

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} scaling_config={self.scaling_config!r} datasets={sorted(self.datasets)}>"
        )


def _wrong(name: str, kind: str, value: Any) -> ValueError:
    return ValueError(
        f"`{name}` should be an instance of `{kind}`, found {type(value).__name__} with value {value!r:.80}"
    )


def _folder(path: str | os.PathLike[str], filesystem: Any) -> RunFolder:
    parent, _, name = os.fspath(path).rstrip("/").rpartition("/")
    return RunFolder(parent or ".", name, filesystem)


def _last_checkpoint(folder: RunFolder) -> Checkpoint | None:
    """Return the last checkpoint that the trial of a run has reported."""
    from skate.tune.analysis import ExperimentAnalysis  # tune builds on train
    from skate.tune.result_grid import ResultGrid

    grid = ResultGrid(ExperimentAnalysis(folder.path, storage_filesystem=folder.filesystem))
    return grid[0].checkpoint if len(grid) else None


__all__ = ["BaseTrainer", "Checkpoint", "Result", "RunConfig", "ScalingConfig", "TrainingFailedError"]
