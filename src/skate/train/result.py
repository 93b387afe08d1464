"""The result of a run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skate.train.checkpoint import Checkpoint
from skate.train.configs import CheckpointConfig
from skate.train.storage import filesystem as files
from skate.train.storage.retention_policy import score
from skate.train.storage.run_folder import RunFolder
from skate.widgets import html_table

if TYPE_CHECKING:
    import pandas as pd

    from skate.train.errors import TrainingFailedError


class UnknownMetric(RuntimeError, ValueError):
    """No checkpoint was reported with a number for a metric."""


@dataclass
class Result:
    """The final state of a run.

    Attributes:
        metrics: the last report of rank 0, None if it reported nothing.
        checkpoint: the last checkpoint, None if there is none.
        error: the error of a failed run, else None.
        path: the run's folder.
        metrics_dataframe: all reports, one per row; created on first use.
        best_checkpoints: (checkpoint, metrics) of the kept checkpoints.
        return_value: the return value of rank 0's training function.
    """

    metrics: dict[str, Any] | None
    checkpoint: Checkpoint | None
    error: TrainingFailedError | None
    path: str
    metrics_dataframe: pd.DataFrame | None = None
    best_checkpoints: list[tuple[Checkpoint, dict[str, Any]]] | None = None
    _storage_filesystem: Any = None
    return_value: Any = None

    @property
    def filesystem(self) -> Any:
        """The pyarrow filesystem that the run's folder is on."""
        if self._storage_filesystem is None:
            return Checkpoint(self.path).filesystem
        return self._storage_filesystem

    @property
    def config(self) -> Any:
        """Rejected: a run has no config."""
        raise DeprecationWarning(
            "The `config` property for a `ray.train.Result` is deprecated: use the train_loop_config of the trainer"
        )

    def get_best_checkpoint(self, metric: str, mode: str) -> Checkpoint | None:
        """Return the kept checkpoint whose metric is the largest ("max") or smallest ("min").

        Raises:
            RuntimeError: there is no checkpoint, or none has the metric (the message names the available ones).
            ValueError: the mode is unknown.
        """
        if not self.best_checkpoints:
            raise RuntimeError("No checkpoint exists in the trial directory! No report of this run kept one")
        if mode not in ("max", "min"):
            raise ValueError(f'Unsupported mode: mode must be "max" or "min", got {mode!r}')
        scored = [(score(metrics, metric), checkpoint) for checkpoint, metrics in self.best_checkpoints]
        known = [(value, checkpoint) for value, checkpoint in scored if value is not None]
        if not known:
            names = sorted({name for _, metrics in self.best_checkpoints for name in metrics})
            raise UnknownMetric(
                f"Invalid metric name {metric}! You may choose from the following metrics: {', '.join(names)}"
            )
        choose = max if mode == "max" else min
        return choose(known, key=lambda each: each[0])[1]

    @classmethod
    def from_path(cls, path: str | os.PathLike[str], storage_filesystem: Any = None) -> Result:
        """Read the result of a finished or interrupted run from its folder.

        Raises:
            RuntimeError: there is no folder of a run at that path.
        """
        # results are also read in programs that run nothing
        from skate.train.controller.history import History

        given = os.fspath(path).rstrip("/")
        parent, _, name = given.rpartition("/")
        folder = RunFolder(parent or ".", name, storage_filesystem)
        history = History(folder, CheckpointConfig())
        if not any(True for _ in history.journal.entries()):
            if not files.exists(storage_filesystem, folder.path):
                raise RuntimeError(f"Experiment folder {folder.path} doesn't exist.")
            raise RuntimeError(
                f"Failed to restore the Result object: the folder {given!r} has no journal; pass the `path` of a result"
            )
        history.load(recover=False)
        return result_of(history, None)

    def __repr__(self) -> str:
        shown = {
            "metrics": self.metrics,
            "checkpoint": self.checkpoint,
            "path": self.path,
            "error": self.error,
        }
        return "Result(" + ", ".join(f"{name}={value!r}" for name, value in shown.items()) + ")"

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        facts = {"error": self.error, "checkpoint": self.checkpoint, "path": self.path}
        shown = {name: value for name, value in facts.items() if value is not None}
        return html_table(("", "last report"), ((self.metrics or {}) | shown).items())


class _Rows:
    """Creates the table of reports on first use: pandas takes 300 ms to load."""

    def __init__(self) -> None:
        self.name = "_frame"

    def __get__(self, result: Any, owner: Any) -> Any:
        if result is None:
            return None
        found = result.__dict__.get(self.name)
        if isinstance(found, list):
            import pandas as pd  # imported only if used

            found = result.__dict__[self.name] = (
                pd.DataFrame([_flat(row) for row in found]) if found else None
            )
        return found

    def __set__(self, result: Any, value: Any) -> None:
        result.__dict__[self.name] = value


Result.metrics_dataframe = _Rows()


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            found.update({f"{name}/{inner}": each for inner, each in _flat(value).items()})
        else:
            found[name] = value
    return found


def result_of(history: Any, error: TrainingFailedError | None, value: Any = None) -> Result:
    """Create the result for a history."""
    return Result(
        metrics=history.last_metrics,
        checkpoint=history.latest,
        error=error,
        path=history.folder.path,
        metrics_dataframe=history.rows,
        best_checkpoints=history.best(),
        _storage_filesystem=history.folder.filesystem,
        return_value=value,
    )
