"""The trial as seen by its own process: identity, starting point, and functions for the trainable."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

from skate.train.checkpoint import Checkpoint
from skate.train.storage.run_folder import RunFolder


@dataclass
class TrialSpec:
    """The parameters of a trial's process."""

    trial_id: str
    trial_name: str
    experiment_name: str
    folder: RunFolder
    config: dict[str, Any] = field(default_factory=dict)
    resources: Any = None
    #: The checkpoint from which it continues, and its progress.
    checkpoint: Checkpoint | None = None
    iteration: int = 0
    time_total: float = 0.0
    next_checkpoint: int = 0
    checkpoint_frequency: int = 0
    log_to_file: Any = False
    metadata: dict[str, Any] = field(default_factory=dict)
    #: Functions that create environments, by the names that the program registered them under.
    environments: dict[str, Any] = field(default_factory=dict)

    @property
    def local_path(self) -> str:
        """The folder of the trial, if it is on a disk; else the working folder."""
        return self.folder.path if self.folder.local else "."


_current: list[Any] = [None, None]


def begin(spec: TrialSpec, trainable: Any = None) -> None:
    """Make this process run the given trial."""
    _current[:] = [spec, trainable]


def leave() -> None:
    """Mark this process as no longer running a trial."""
    _current[:] = [None, None]


def spec() -> TrialSpec | None:
    """The parameters of this process's trial, None if it runs none."""
    found: TrialSpec | None = _current[0]
    return found


def report(metrics: dict[str, Any], *, checkpoint: Checkpoint | None = None) -> None:
    """Report metrics, with a checkpoint if there is one; returns once the scheduler has decided that the
    trial continues.

    Args:
        metrics: values by name; nested dicts are named with slashes, such as "eval/loss".
        checkpoint: a folder of files to resume from; copied to the storage before this returns.

    Raises:
        TypeError: metrics is not a dict, or checkpoint not a Checkpoint.
    """
    if not isinstance(metrics, dict):
        raise TypeError(
            "metrics must be a dict of names to values, such as {'loss': 0.5}, got "
            f"{type(metrics).__name__}"
        )
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        raise TypeError(
            f"checkpoint must be a ray.tune.Checkpoint, got {type(checkpoint).__name__}; create one from a folder: "
            "Checkpoint.from_directory(folder)"
        )
    trainable = _current[1]
    if trainable is None:
        warnings.warn(
            "tune.report was called outside of a trial; it has no effect", UserWarning, stacklevel=2
        )
        return
    trainable.reported(metrics, checkpoint)


def get_checkpoint() -> Checkpoint | None:
    """The checkpoint to resume from: the last one reported, or one handed to the trial; None at a first start."""
    trainable = _current[1]
    if trainable is None:
        warnings.warn(
            "tune.get_checkpoint was called outside of a trial; it returns None", UserWarning, stacklevel=2
        )
        return None
    found: Checkpoint | None = trainable.latest_checkpoint
    return found


class TuneContext:
    """The identity of this trial; outside of a trial everything is None."""

    def get_experiment_name(self) -> Any:
        """The name of the search."""
        return _get("experiment_name")

    def get_trial_name(self) -> Any:
        """The name of the trial."""
        return _get("trial_name")

    def get_trial_id(self) -> Any:
        """The id of the trial."""
        return _get("trial_id")

    def get_trial_resources(self) -> Any:
        """The resources of the trial, as a `PlacementGroupFactory`."""
        return _get("resources")

    def get_trial_dir(self) -> str | None:
        """The folder of the trial."""
        found = spec()
        return None if found is None else found.folder.path

    def get_storage(self) -> Any:
        """The folder of the trial with its filesystem."""
        return _get("folder")

    def get_metadata(self) -> dict[str, Any]:
        """Rejected: a trial has no metadata."""
        raise DeprecationWarning("get_metadata has been removed; pass values in the configuration")

    def get_world_size(self) -> int:
        """Rejected: a trial is one process."""
        raise _no_ranks("get_world_size")

    def get_world_rank(self) -> int:
        """Rejected: a trial is one process."""
        raise _no_ranks("get_world_rank")

    def get_local_rank(self) -> int:
        """Rejected: a trial is one process."""
        raise _no_ranks("get_local_rank")

    def get_local_world_size(self) -> int:
        """Rejected: a trial is one process."""
        raise _no_ranks("get_local_world_size")

    def get_node_rank(self) -> int:
        """Rejected: a trial is one process."""
        raise _no_ranks("get_node_rank")

    def __repr__(self) -> str:
        return f"<TuneContext of {_get('trial_name') or 'no trial'}>"


def _get(name: str) -> Any:
    found = spec()
    return None if found is None else getattr(found, name)


def _no_ranks(name: str) -> DeprecationWarning:
    return DeprecationWarning(
        f"{name} is not available in a trial, which is a single process; ranks exist only in ray.train"
    )


def get_context() -> TuneContext:
    """Return the context of this trial."""
    return TuneContext()
