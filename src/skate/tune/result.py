"""The result of a trial, and the keys common to all results."""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import dataclass
from typing import Any

from skate.train import result as train_results
from skate.train.storage import filesystem as files
from skate.train.storage.run_folder import RunFolder
from skate.tune.metrics import flat, users

TRAINING_ITERATION = "training_iteration"
TIME_TOTAL_S = "time_total_s"
TIME_THIS_ITER_S = "time_this_iter_s"
TIMESTEPS_TOTAL = "timesteps_total"
TIMESTEPS_THIS_ITER = "timesteps_this_iter"
DONE = "done"
CONFIG_PREFIX = "config"
DEFAULT_METRIC = "_metric"
TRIAL_ID = "trial_id"
PID = "pid"
HOSTNAME = "hostname"
NODE_IP = "node_ip"
EXPERIMENT_TAG = "experiment_tag"
SHOULD_CHECKPOINT = "should_checkpoint"
TIMESTAMP = "timestamp"
EPISODES_THIS_ITER = "episodes_this_iter"
EPISODES_TOTAL = "episodes_total"
EPISODE_REWARD_MEAN = "episode_reward_mean"
MEAN_ACCURACY = "mean_accuracy"
MEAN_LOSS = "mean_loss"
EXPR_ERROR_FILE = "error.txt"
EXPR_ERROR_PICKLE_FILE = "error.pkl"
EXPR_PARAM_FILE = "params.json"
EXPR_PARAM_PICKLE_FILE = "params.pkl"
EXPR_PROGRESS_FILE = "progress.csv"
EXPR_RESULT_FILE = "result.json"
EXPR_META_FILE = "trial_status.json"
JOB_META_FILE = "job_status.json"
DEFAULT_EXPERIMENT_NAME = "default"
RESULT_DUPLICATE = "__duplicate__"
STDOUT_FILE, STDERR_FILE = "__stdout_file__", "__stderr_file__"
TRIAL_INFO = "__trial_info__"
DEFAULT_EXPERIMENT_INFO_KEYS = ("trainable_name", EXPERIMENT_TAG, TRIAL_ID)
DEFAULT_RESULT_KEYS = (TRAINING_ITERATION, TIME_TOTAL_S, MEAN_ACCURACY, MEAN_LOSS)
#: Automatic entries of each result that tables show.
AUTO_RESULT_KEYS = (
    TRAINING_ITERATION, TIME_TOTAL_S, EPISODES_TOTAL, TIMESTEPS_TOTAL, NODE_IP, HOSTNAME, PID, TIME_TOTAL_S,
    "time_since_restore", "timesteps_since_restore", "iterations_since_restore", "config", "date", "timestamp",
)  # fmt: skip
DEBUG_METRICS = (
    TRIAL_ID, "experiment_id", "date", TIMESTAMP, PID, HOSTNAME, NODE_IP, "config", "time_since_restore",
    "iterations_since_restore",
)  # fmt: skip


@dataclass
class Result(train_results.Result):
    """The final state of a trial.

    Attributes:
        metrics: its last result, including the automatic metrics; an empty dict if it reported nothing.
        checkpoint: its last checkpoint, None if it has none.
        error: the error of a failed trial, else None.
        path: its folder.
        metrics_dataframe: all its results, one per row; read on first use.
        best_checkpoints: (checkpoint, metrics) of the kept checkpoints.
    """

    @property
    def config(self) -> Any:
        """The configuration of the trial."""
        return (self.metrics or {}).get("config")

    @classmethod
    def from_path(cls, path: str | os.PathLike[str], storage_filesystem: Any = None) -> Result:
        """Read the result of a trial from its folder.

        Raises:
            RuntimeError: there is no folder of a trial at that path.
        """
        given = os.fspath(path).rstrip("/")
        parent, _, name = given.rpartition("/")
        folder = RunFolder(parent or ".", name, storage_filesystem)
        rows = rows_of(folder)
        error = files.read_bytes(folder.filesystem, folder.at("error.pkl"))
        if (
            not rows
            and error is None
            and files.read_bytes(folder.filesystem, folder.at("params.json")) is None
        ):
            raise RuntimeError(f"there is no trial at {given!r}: the folder has no result.json")
        kept = {row["checkpoint_dir_name"]: row for row in rows if row.get("checkpoint_dir_name")}
        complete = [
            (folder.checkpoint(each), row) for each, row in sorted(kept.items()) if folder.is_complete(each)
        ]
        return cls(
            metrics=rows[-1] if rows else {},
            checkpoint=complete[-1][0] if complete else None,
            error=pickle.loads(error) if error is not None else None,
            path=folder.path,
            metrics_dataframe=rows,
            best_checkpoints=complete,
            _storage_filesystem=folder.filesystem,
        )

    def __repr__(self) -> str:
        where = "local" if self._storage_filesystem is None else self._storage_filesystem.type_name
        shown = [f"metrics={users(self.metrics or {})!r}", f"path={self.path!r}", f"filesystem={where!r}"]
        shown.append(f"checkpoint={self.checkpoint!r}")
        if self.error is not None:
            shown.insert(0, f"error={type(self.error).__name__!r}")
        return "Result(\n  " + ",\n  ".join(shown) + "\n)"


def rows_of(folder: RunFolder) -> list[dict[str, Any]]:
    """Read all results of a trial from its folder, oldest first."""
    found = []
    for line in (files.read_bytes(folder.filesystem, folder.at("result.json")) or b"").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:  # truncated by a crash
            continue
    return found


class _Rows:
    """Reads the table of results on first use: pandas takes 300 ms to load."""

    def __get__(self, result: Any, owner: Any) -> Any:
        if result is None:
            return None
        found = result.__dict__.get("_frame")
        if isinstance(found, RunFolder):
            found = rows_of(found)
        if isinstance(found, list):
            import pandas as pd  # imported only if used

            found = result.__dict__["_frame"] = pd.DataFrame([flat(row) for row in found])
        return found

    def __set__(self, result: Any, value: Any) -> None:
        result.__dict__["_frame"] = value


Result.metrics_dataframe = _Rows()
